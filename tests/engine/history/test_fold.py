"""What jobs attached becomes history like all else: nothing is told otherwise, and the root does not grow with jobs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.bulk.rig import Loading, run_job
from tests.engine.bulk.stage_rig import PATIENT, logger, stager
from tests.engine.rig import COLLECTION, Rig, contents, remove, save
from wormdb.engine.blocks.runs import runs_of
from wormdb.engine.bulk.report import BulkTarget
from wormdb.engine.forward.forward import Sizes
from wormdb.engine.history import fold
from wormdb.engine.history.fold import Folder
from wormdb.engine.load import BulkOutcome, JobSpec
from wormdb.engine.state import jobs
from wormdb.engine.state import successor as succession
from wormdb.engine.state.jobs import Jobs
from wormdb.engine.state.moments import AsOf
from wormdb.errors import ConflictError, LimitExceededError
from wormdb.format import root as root_module
from wormdb.format.root import JobOutcome, root_size
from wormdb.maintenance.audit.verify import verify
from wormdb.maintenance.collection import StoredCollection
from wormdb.maintenance.gc import retired as gc_retired
from wormdb.maintenance.gc.collect import RetentionRules, collect
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.view import View
    from wormdb.format.root import Root

pytestmark = pytest.mark.usefixtures("remembered")

HOUR = 3_600
LARGE = Sizes(block_target=50_000, run_smallest=1_000)
RULES = RetentionRules(log_retention_ms=HOUR * 1_000, job_expiry_ms=HOUR * 1_000)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "LOADS_KEPT", 2)


def root_of(rig: Rig) -> Root:
    root = rig.register.read().root
    assert root is not None
    return root


def loads_in(root: Root) -> int:
    return len({run.through for run in runs_of(root.attached, root.attached_pages)})


def as_before(_folder: Folder, root: Root, _view: View) -> tuple[Root, dict[str, int]]:
    """As releases did that folded nothing."""
    return root, {}


@dataclass
class Twin:
    """The same steps on a collection that folds, or does not."""

    folds: bool
    rig: Rig = field(default_factory=Rig)

    def act(self, step: tuple[str, list[str]], place: int) -> None:
        verb, ids = step
        with pytest.MonkeyPatch.context() as patch:
            if not self.folds:
                patch.setattr(Folder, "run", as_before)
            match verb:
                case "stage":
                    stager(self.rig).commit(self.rig.batch(*(save(one, n=place) for one in ids), actor=f"a{place}"))
                case "stage remove":
                    stager(self.rig).commit(self.rig.batch(*map(remove, ids)))
                case "bulk":
                    run_job(self.rig, [[(one, {"n": place}) for one in ids]], "replace", job=f"job {place}")
                case "save":
                    logger(self.rig).commit(self.rig.batch(*(save(one, n=place) for one in ids)))
                case "remove":
                    logger(self.rig).commit(self.rig.batch(*map(remove, ids)))
                case "trim":
                    ledger = logger(self.rig)
                    ledger.trim(0)
                    self.rig.clock.advance(2 * HOUR)
                    ledger.trim(0)
            logger(self.rig).forward()

    def told(self) -> dict[str, Any]:
        """All that can be asked."""
        ledger = logger(self.rig)
        view = ledger.view()
        history = ledger.history(view)
        past = {
            number: [(held.id, held.rev, held.seq, held.document) for _, held in history.scan(AsOf(number))]
            for number in range(view.number + 1)
        }
        return {
            "documents": contents(view),
            # Times are of the clock that names of objects come from, too.
            "history": [(one.key, [replace(each, misc=0) for each in one.versions]) for one in history.documents()],
            "as of": past,
            "feed": self._feed(ledger),
        }

    def _feed(self, ledger: Ledger) -> list[object]:
        root = self.rig.register.read().root
        feed = ledger.feed(LogNumber(0 if root is None else root.trimmed))
        return [(record.number, change) for record in feed.poll() for _, change in feed.changes(record)]


ids = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=3, unique=True)
verbs = ["stage", "stage", "stage", "stage remove", "bulk", "bulk", "save", "remove", "trim"]


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(st.tuples(st.sampled_from(verbs), ids), max_size=12))
def test_history_is_the_same_folded_or_not(steps: list[tuple[str, list[str]]]) -> None:
    folded, plain = Twin(folds=True), Twin(folds=False)
    for place, step in enumerate(steps):
        for twin in (folded, plain):
            twin.act(step, place)
    assert folded.told() == plain.told()
    if steps:
        assert loads_in(root_of(folded.rig)) <= loads_in(root_of(plain.rig))


def site_of(rig: Rig) -> StoredCollection:
    ledger = rig.ledger(sizes=LARGE)
    return StoredCollection(COLLECTION, ledger._runtime)


@pytest.mark.parametrize("kind", ["stage", "bulk"])
def test_the_root_does_not_grow_with_jobs(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tiny batches and jobs, each brought forward, the log collected now and then."""
    monkeypatch.setattr(jobs, "JOBS_REMEMBERED", 5)
    monkeypatch.setattr(jobs, "JOBS_REMEMBERED_MS", 0)
    rig, sizes = Rig(), []
    for place in range(60):
        process = rig.ledger(None, PATIENT, LARGE, stage_bytes=1)
        if kind == "stage":
            process.commit(rig.batch(save(f"d{place % 9}", n=place), meta=b'{"m":"' + b"x" * 99 + b'"}'))
        else:
            run_job(rig, [[(f"d{place % 9}", {"n": place})]], "replace", job=f"job {place}")
        process.forward()
        if place % 20 == 19:
            rig.clock.advance(2 * HOUR)
            collect(site_of(rig), RULES)
        # What is retired waits for an hour, and is listed elsewhere when it is much.
        sizes.append(root_size(msgspec.structs.replace(root_of(rig), retired=())))
    assert max(sizes[40:]) < 1.2 * max(sizes[20:40])
    assert verify(site_of(rig)).findings == ()
    assert len(logger(rig).history(logger(rig).view()).versions(next(iter(keys(rig))))) == 7


def keys(rig: Rig) -> list[bytes]:
    return [key for key, _ in logger(rig).view().scan()]


@pytest.mark.parametrize("first", ["forward", "commit", "stage", "collect"])
def test_a_root_that_is_full_heals_by_itself(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an older release left it: nothing could be written any more."""
    monkeypatch.setattr(jobs, "JOBS_REMEMBERED", 5)
    monkeypatch.setattr(jobs, "JOBS_REMEMBERED_MS", 0)
    for module in (succession, gc_retired):
        monkeypatch.setattr(module, "RETIRED_INLINE_MAX", 12)
    monkeypatch.setattr(root_module, "ROOT_BYTES_MAX", 40_000)
    rig, written = Rig(), 0

    def process(stage_bytes: int = 1) -> Ledger:
        return rig.ledger(None, PATIENT, LARGE, stage_bytes=stage_bytes)

    def fill() -> None:
        nonlocal written
        while written < 200:
            process().commit(rig.batch(save(f"d{written}", n=written)))
            process().forward()
            written += 1

    with pytest.MonkeyPatch.context() as older:
        older.setattr(Folder, "run", as_before)
        with pytest.raises(LimitExceededError, match="the root of things/ is too large"):
            fill()
        with pytest.raises(LimitExceededError, match="the root of things/ is too large"):
            process(9_999).commit(rig.batch(save("small")))
    monkeypatch.setattr(fold, "ROOT_BYTES_FULL", 24_000)
    monkeypatch.setattr(fold, "FOLD_BYTES", 150_000)
    full = root_size(root_of(rig))
    if first in ("commit", "stage"):
        process(9_999 if first == "commit" else 1).commit(rig.batch(save("small")))
    elif first == "collect":
        rig.clock.advance(2 * HOUR)
        collect(site_of(rig), RULES)
    for _ in range(4):
        process().forward()
        rig.clock.advance(2 * HOUR)
        collect(site_of(rig), RULES)
        process(9_999).commit(rig.batch(save("more")))
    assert root_size(root_of(rig)) < full / 2
    assert {f"d{place}" for place in range(written)} <= set(contents(process().view()))
    assert verify(site_of(rig)).findings == ()


def forget(rig: Rig) -> None:
    """Let jobs pass until the first is forgotten."""
    for place in range(12):
        run_job(rig, [[(f"other{place}", {})]], job=f"other {place}")
        logger(rig).forward()
        rig.clock.advance(2 * HOUR)
        collect(site_of(rig), RULES)


def test_a_driver_that_comes_when_its_job_is_forgotten_attaches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "JOBS_REMEMBERED", 2)
    monkeypatch.setattr(jobs, "JOBS_REMEMBERED_MS", 0)
    rig = Rig()
    loading = Loading(rig, spec=JobSpec("the job", "test", "replace"))
    target = loading.open()
    assert isinstance(target, BulkTarget)
    report = loading.task(target, 0, [("a", {"n": 1})])
    done = loading.attach(target, [report])
    assert loading.attach(target, [report]) == BulkOutcome(target.job, done.number, is_repeated=True)
    logger(rig).commit(rig.batch(save("a", n=2)))
    forget(rig)
    assert target.job not in logger(rig).view().jobs.known
    with pytest.raises(ConflictError, match="not open any more"):
        loading.attach(target, [report])
    # Under the same name another job may begin; the driver of the first one still has nothing to do with it.
    again = loading.open()
    assert isinstance(again, BulkTarget)
    with pytest.raises(ConflictError, match="opened anew"):
        loading.attach(target, [report])
    assert contents(logger(rig).view())["a"][2] == {"n": 2}
    assert loading.attach(again, [loading.task(again, 0, [("a", {"n": 3})])]).replaced == 1


def test_outcomes_are_remembered_by_number_and_by_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "JOBS_REMEMBERED", 3)
    monkeypatch.setattr(jobs, "JOBS_REMEMBERED_MS", 10)
    monkeypatch.setattr(jobs, "JOBS_REMEMBERED_MAX", 6)
    names = [f"{place:032x}" for place in range(9)]

    def outcome(place: int, **more: Any) -> JobOutcome:
        told = {"state": "attached", "number": place + 1, "misc": place * 1_000 << 8, "actor": "me", **more}
        return JobOutcome(job=WriteId(names[place]), **told)

    def kept(*outcomes: JobOutcome, attached: set[int] = frozenset()) -> list[int]:  # type: ignore[assignment] # empty
        return [names.index(one.job) for one in Jobs.of(outcomes).remembered(attached)]

    young = [outcome(place) for place in range(9)]
    assert kept(*young) == [3, 4, 5, 6, 7, 8]
    assert kept(*young, attached={1}) == [0, 3, 4, 5, 6, 7, 8]
    old = [outcome(place, misc=place * 9_000_000 << 8) for place in range(9)]
    assert kept(*old) == [6, 7, 8]
    assert kept(*(outcome(place, kind="batch") for place in range(9)), attached={5}) == [4]
    assert kept(*(outcome(place, state="open") for place in range(9))) == list(range(9))
    assert kept(*(outcome(place, state="streamed") for place in range(9))) == [3, 4, 5, 6, 7, 8]
    assert {one.actor for one in Jobs.of(young).remembered({9})} == {None, "me"}
