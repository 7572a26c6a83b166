"""The judge of a run finds each kind of wrong, and nothing in a good run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.processes.evidence import Step, judge, judge_state, read_log, steps_of
from tests.processes.journal import Deed, Journal, read_deeds
from wormdb.storage.memory import MemoryStore, drop_memory

if TYPE_CHECKING:
    from pathlib import Path


def zero() -> dict[str, object]:
    return {"id": "counter-0", "total": 0, "token": ""}


def deeds() -> dict[str, Deed]:
    done = [
        Deed("a-0", "insert", "a-0", "acknowledged", 2, ["acknowledged"]),
        Deed("a-1", "batch", "a-1", "committed", None, ["unknown", "committed"]),
        Deed("a-2", "bump", "counter-0", "acknowledged", 4, ["acknowledged"]),
        Deed("a-3", "delete", "a-0", None),
        Deed("a-4", "insert", "a-4", "not committed", None, ["unknown", "not committed"]),
        Deed("a-5", "insert", "a-5", "refused", None, ["refused"]),
        Deed("a-6", "insert", "a-6", None),
    ]
    return {deed.token: deed for deed in done}


def steps() -> list[Step]:
    counted = [{"id": "counter-0", "total": total, "token": token} for total, token in ((1, "a-1"), (2, "a-2"))]
    inserted = {"id": "a-0", "token": "a-0"}
    return [
        Step(1, "counter-0", 1, None, zero()),
        Step(2, "a-0", 1, None, inserted),
        *(Step(3, f"a-1.{part}", 1, None, {"id": f"a-1.{part}", "token": "a-1"}) for part in range(3)),
        Step(3, "counter-0", 2, zero(), counted[0]),
        Step(4, "counter-0", 3, counted[0], counted[1]),
        Step(5, "a-0", 2, inserted, None),
    ]


def state() -> dict[str, dict[str, object]]:
    parts: dict[str, dict[str, object]] = {f"a-1.{part}": {"id": f"a-1.{part}", "token": "a-1"} for part in range(3)}
    return {**parts, "counter-0": {"id": "counter-0", "total": 2, "token": "a-2"}}


def test_a_good_run_has_no_problems() -> None:
    assert judge(deeds(), steps()) == []
    assert judge_state(steps(), state()) == []


def test_an_acknowledged_write_that_is_nowhere_is_lost() -> None:
    assert judge(deeds(), [step for step in steps() if step.id != "a-0"]) == [
        "insert a-0 of a-0, acknowledged: lost",
    ]


def test_a_write_that_was_refused_must_not_be_there() -> None:
    extra = [Step(6, token, 1, None, {"id": token, "token": token}) for token in ("a-4", "a-5", "a-6")]
    assert judge(deeds(), steps() + extra) == [
        "insert a-4 of a-4, unknown then not committed: it happened",
        "insert a-5 of a-5, refused: it happened",
    ]


def test_a_bump_that_was_applied_twice_is_seen() -> None:
    before = steps()[-2].after
    again = Step(6, "counter-0", 4, before, {"id": "counter-0", "total": 3, "token": "a-2"})
    problems = judge(deeds(), [*steps(), again])
    assert problems[0].endswith("applied in several entries, [4, 6]")


def test_an_acknowledgement_at_another_number_is_seen() -> None:
    moved = [replace(step, number=5) if step.number == 4 else step for step in steps()]
    assert judge(deeds(), moved) == ["bump a-2 of counter-0, acknowledged: acknowledged at 4, found at [5]"]


def test_half_a_batch_is_seen() -> None:
    problems = judge(deeds(), [step for step in steps() if step.id != "a-1.1"])
    assert len(problems) == 1
    assert "wrote ['a-1.0', 'a-1.2', 'counter-0'] instead of" in problems[0]


def test_a_write_of_nobody_is_seen() -> None:
    stray = Step(6, "b-0", 1, None, {"id": "b-0", "token": "b-0"})
    assert judge(deeds(), [*steps(), stray]) == ["b-0 is in the log and nobody began it"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"seq": 4}, "change 4 of counter-0 in entry 4 is out of sequence"),
        ({"before": zero()}, "change 3 of counter-0 in entry 4 does not follow the one before it"),
    ],
)
def test_a_gap_in_the_changes_of_a_document_is_seen(change: dict[str, object], problem: str) -> None:
    broken = [replace(step, **change) if step.number == 4 else step for step in steps()]  # type: ignore[arg-type] # a case
    assert judge(deeds(), broken) == [problem]


def test_a_state_that_is_not_the_feed_is_seen() -> None:
    wrong = state() | {"counter-0": {"id": "counter-0", "total": 3, "token": "a-2"}}
    assert judge_state(steps(), wrong) == [
        "the state is not what the feed adds up to",
        "counter-0 says 3 after 2 changes",
    ]


def write_log(name: str) -> MemoryStore:
    with wormdb.connect(f"memory://{name}") as db:
        for number in range(4):
            db["org/run"].insert({"id": f"a-{number}", "token": f"a-{number}"})
        assert [step.seq for step in steps_of(db["org/run"].watch())] == [1, 1, 1, 1]
    return MemoryStore(name)


def test_a_log_with_a_gap_or_another_entry_is_seen() -> None:
    key = f"org/run/.worm.db/committed/{3:020d}"
    with write_log("evidence") as store, write_log("other-evidence") as other:
        assert read_log(store, "org/run/") == 4
        store.delete(key)
        with pytest.raises(AssertionError, match="entry 3 is missing"):
            read_log(store, "org/run/")
        store.put(key, other.get(key).body)
        with pytest.raises(AssertionError, match="entry 3 does not chain"):
            read_log(store, "org/run/")
    drop_memory("evidence")
    drop_memory("other-evidence")


def test_a_torn_line_of_a_journal_was_not_noted(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.note(token="a-0", verb="insert", target="a-0")
    journal.note(token="a-0", outcome="unknown", reason="no answer")
    journal.note(token="a-0", outcome="committed", number=None)
    journal.close()
    with path.open("ab") as file:
        file.write(b'{"token": "a-1", "ver')
    told = ["unknown", "committed"]
    assert read_deeds(path) == {"a-0": Deed("a-0", "insert", "a-0", "committed", None, told, "no answer")}
    again = Journal(path)
    again.note(token="a-2", verb="insert", target="a-2")
    again.close()
    assert list(read_deeds(path)) == ["a-0", "a-2"]
