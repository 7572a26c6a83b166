"""When readable files are asked for: after the root, a second after the commit, and at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.forward.test_keeper import Worker, applied, commit
from tests.engine.rig import Rig, insert
from wormdb.engine.ledger import TailLimits
from wormdb.errors import UnavailableError
from wormdb.format.event import FilesSwitched, SchemaChanged

if TYPE_CHECKING:
    from wormdb.engine.forward.keeper import Background, ForwardMode
    from wormdb.engine.ledger import Ledger
    from wormdb.system.types import LogNumber

MODEL = b'{"Thing":{"path":"@things/(id:any)/[thing].json"}}'
FILES_ON = (SchemaChanged(definition=MODEL), FilesSwitched(enabled=True, name="things/"))


class Files:
    """Notes which states it was asked to write files of."""

    def __init__(self) -> None:
        self.published: list[int] = []
        self.failure: UnavailableError | None = None

    def __call__(self, ledger: Ledger, number: LogNumber) -> None:
        assert ledger.view().number >= number
        if self.failure is not None:
            raise self.failure
        self.published.append(number)


def kept(rig: Rig, mode: ForwardMode = "inline", background: Background | None = None) -> tuple[Ledger, Files]:
    files = Files()
    ledger = rig.ledger(limits=TailLimits(mode=mode), background=background, after_forward=files)
    ledger.commit(rig.batch(insert("a"), events=FILES_ON))
    return ledger, files


def test_files_follow_the_root_and_a_commit_brings_it_when_it_is_time() -> None:
    rig = Rig()
    ledger, files = kept(rig)
    rig.clock.advance(0.9)
    commit(rig, ledger)
    assert files.published == []
    rig.clock.advance(0.1)
    commit(rig, ledger)
    assert files.published == [3]
    commit(rig, ledger)
    assert files.published == [3]
    assert applied(rig) == 3


def test_files_are_asked_for_also_if_nothing_is_new() -> None:
    rig = Rig()
    ledger, files = kept(rig, "manual")
    assert files.published == []
    ledger.forward()
    ledger.forward()
    assert files.published == [1, 1]


def test_without_files_in_the_definition_nobody_is_asked() -> None:
    rig = Rig()
    files = Files()
    ledger = rig.ledger(after_forward=files)
    commit(rig, ledger)
    ledger.forward()
    ledger.finish()
    assert files.published == []


def test_at_the_end_the_files_of_what_was_written_here_are_written() -> None:
    rig = Rig()
    ledger, files = kept(rig)
    commit(rig, ledger)
    ledger.finish()
    ledger.finish()
    assert files.published == [2]
    reader = rig.ledger(after_forward=files)
    reader.view()
    reader.finish()
    manual = rig.ledger(limits=TailLimits(mode="manual"), after_forward=files)
    commit(rig, manual)
    manual.finish()
    assert files.published == [2]


def test_a_failure_to_write_files_is_not_the_commits() -> None:
    rig = Rig()
    ledger, files = kept(rig)
    files.failure = UnavailableError("files", reason="no")
    rig.clock.advance(1)
    commit(rig, ledger)
    ledger.finish()
    assert applied(rig) == 2
    with pytest.raises(UnavailableError, match="files"):
        ledger.forward()


def test_in_the_background_somebody_comes_back_when_it_is_time() -> None:
    rig = Rig()
    worker = Worker()
    ledger, files = kept(rig, "background", worker)
    commit(rig, ledger)
    assert worker.submitted == ["things/", "things/"]
    before = rig.clock.monotonic()
    worker.last()
    assert rig.clock.monotonic() - before == 1
    assert files.published == [2]
    worker.last()
    assert files.published == [2]


def test_a_thread_that_waits_for_the_time_of_files_lets_a_database_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits for the thread, so it took as long as files may wait."""
    rig, worker = Rig(), Worker()
    ledger, files = kept(rig, "background", worker)
    commit(rig, ledger)
    slept: list[float] = []

    def close_meanwhile(seconds: float) -> None:
        slept.append(seconds)
        ledger.finish()
        worker.close()
        rig.clock.advance(seconds)

    monkeypatch.setattr(rig.clock, "sleep", close_meanwhile)
    worker.last()
    assert len(slept) == 1
    assert slept[0] <= 0.1
    assert files.published == [2]
