"""What the tests of garbage collection share: schedules in which a mistake of it loses something, and ways to look.

A schedule runs the real code and raises AssertionError or a WormError if a promise is broken. Tests run each as it is,
and again with the mistake that it is there for.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.engine.bulk.rig import Loading
from tests.engine.bulk.stage_rig import MANUAL, SMALL, logger, stager
from tests.engine.rig import COLLECTION, PATHS, HookStore, Rig, contents, save
from wormdb.engine.ledger import Runtime
from wormdb.engine.load import BulkOutcome, JobSpec
from wormdb.engine.log.clock import MiscClock
from wormdb.errors import ConflictError
from wormdb.maintenance.audit.verify import named_objects
from wormdb.maintenance.collection import StoredCollection
from wormdb.maintenance.gc.collect import RetentionRules, collect
from wormdb.maintenance.gc.jobs import read_tail
from wormdb.maintenance.gc.retired import attached_names, read_retired
from wormdb.settings import DAY_MS
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import Clock, ManualClock, SeededChance
from wormdb.system.types import LogNumber, StoreTime

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.bulk.report import BulkTarget
    from wormdb.engine.ledger import Ledger
    from wormdb.maintenance.gc.report import GcResult
    from wormdb.storage.store import Store

__all__ = [
    "DAY",
    "HOUR",
    "RULES",
    "SCHEDULES",
    "check_sound",
    "gc",
    "keys_of",
    "merged",
    "opened_job",
    "site_of",
]

HOUR = 3_600.0
DAY = 24 * HOUR
RULES = RetentionRules(log_retention_ms=7 * DAY_MS, job_expiry_ms=7 * DAY_MS)
ROWS: list[tuple[str, dict[str, Any]]] = [(f"j{number}", {"n": number, "pad": "p" * 90}) for number in range(12)]


def site_of(rig: Rig, store: Store | None = None, *, clock: Clock | None = None, seed: int = 9) -> StoredCollection:
    """The collection of a rig as garbage collection reaches it, by a process of its own."""
    clock = clock or rig.clock
    runtime = Runtime(
        store=store or rig.store,
        pool=SerialPool(),
        clock=clock,
        chance=SeededChance(seed),
        misc=MiscClock(clock),
        before_first_write=lambda: None,
        limits=MANUAL,
        sizes=SMALL,
    )
    return StoredCollection(COLLECTION, runtime)


def gc(rig: Rig, store: Store | None = None, *, clock: Clock | None = None, dry_run: bool = False) -> GcResult:
    """One run, with retention and expiry of a week."""
    return collect(site_of(rig, store, clock=clock), RULES, dry_run=dry_run)


def keys_of(rig: Rig) -> list[str]:
    """Every object of the collection."""
    return [found.key for page in rig.store.list(PATHS.folder) for found in page.objects]


def merged(rig: Rig, rounds: int = 6, *, start: int = 0) -> Ledger:
    """Documents in several roots, of which each retires objects of those before it; the ledger that wrote them."""
    ledger = logger(rig, limits=MANUAL)
    for number in range(start, start + rounds):
        ledger.commit(rig.batch(*(save(f"d{number}{letter}", n=number, pad="p" * 60) for letter in "abc")))
        ledger.forward()
    return ledger


def check_sound(rig: Rig, *, is_clean: bool = False) -> None:
    """Everything is there that the root and the log need; with `is_clean` nothing else is."""
    root = rig.register.read().root
    assert root is not None
    site = site_of(rig)
    retired = read_retired(site, root, StoreTime(0)).keys()
    tail = read_tail(site, root)
    named = set(named_objects(site, root)) - retired | set(attached_names(site.place(root), tail))
    kept = [PATHS.entry(LogNumber(number)) for number in range(root.trimmed + 1, root.applied + len(tail) + 1)]
    there = set(keys_of(rig))
    lost = named.union(kept) - there
    assert not lost, lost
    left = there - named - retired - {*kept, PATHS.root, PATHS.gc_probe}
    assert not (is_clean and left), left


def opened_job(rig: Rig, name: str = "slow") -> tuple[Loading, BulkTarget, list[bytes]]:
    """A job whose tasks are done, and that nobody attached yet."""
    loading = Loading(rig, spec=JobSpec(name, "test"))
    target = loading.open()
    assert not isinstance(target, BulkOutcome)
    return loading, target, [loading.task(target, 0, ROWS[:6]), loading.task(target, 1, ROWS[6:])]


# --- schedules ---


def slow_publisher() -> None:
    """A forwarder wrote its objects a day ago, and publishes them after garbage was collected."""
    rig = Rig()
    merged(rig)
    gc(rig)  # so that nothing is left to be noted in the root
    logger(rig, limits=MANUAL).commit(rig.batch(save("slow", n=1, pad="p" * 60)))
    store = HookStore(rig.store)
    ran: list[GcResult] = []

    def before(verb: str, key: str) -> None:
        if (verb, key) == ("put", PATHS.root) and not ran:
            rig.clock.advance(DAY + 1)
            ran.append(gc(rig))

    store.before = before
    logger(rig, store, MANUAL).forward()
    assert any(victim.reason.startswith("nothing has named it") for victim in ran[0].victims)
    check_sound(rig)
    assert contents(rig.ledger().view())["slow"][2] == {"n": 1, "pad": "p" * 60}


def attached_in_the_tail() -> None:
    """What an entry attached a day ago has not been brought forward yet."""
    rig = Rig()
    merged(rig)
    stager(rig, limits=MANUAL).commit(rig.batch(*(save(name, **values) for name, values in ROWS)))
    rig.clock.advance(DAY + 1)
    gc(rig)
    assert len(contents(rig.ledger().view())) == 18 + len(ROWS)
    logger(rig, limits=MANUAL).forward()
    check_sound(rig)


def slow_job() -> None:
    """A job is attached days after its tasks were done."""
    rig = Rig()
    merged(rig)
    loading, target, reports = opened_job(rig)
    rig.clock.advance(3 * DAY)
    gc(rig)
    loading.attach(target, reports)
    logger(rig, limits=MANUAL).forward()
    assert len(contents(rig.ledger().view())) == 18 + len(ROWS)
    check_sound(rig)


def slow_tasks() -> None:
    """Tasks of a job read the state that it began with, hours after others replaced all of it."""
    rig = Rig()
    merged(rig)
    loading = Loading(rig, spec=JobSpec("hours", "test", on_conflict="replace"))
    target = loading.open()
    assert not isinstance(target, BulkOutcome)
    merged(rig, 6, start=6)
    for _ in range(3):
        gc(rig)
        rig.clock.advance(HOUR)
    gc(rig)
    assert len(contents(rig.ledger().unpin(target.pinned))) == 18
    loading.attach(target, [loading.task(target, 0, [("d0a", {"n": 99}), *ROWS])])
    logger(rig, limits=MANUAL).forward()
    assert len(contents(rig.ledger().view())) == 36 + len(ROWS)
    check_sound(rig)
    for _ in range(3):
        rig.clock.advance(DAY)
        gc(rig)
    check_sound(rig, is_clean=True)


def forgotten_job() -> None:
    """A job is given up, and its driver comes back: it attaches all that it wrote, or nothing."""
    rig = Rig()
    merged(rig)
    loading, target, reports = opened_job(rig)
    rig.clock.advance(7 * DAY)
    collected = gc(rig)
    assert [victim.kind for victim in collected.victims].count("block") >= 2
    with suppress(ConflictError):
        loading.attach(target, reports)
    logger(rig, limits=MANUAL).forward()
    check_sound(rig)
    assert len(contents(rig.ledger().view())) == 18
    assert collected.expired == (target.job,)


def _reader(rig: Rig, between: Callable[[], None]) -> None:
    """Somebody reads a state for less than an hour while others replace all that it is made of."""
    merged(rig)
    rig.clock.advance(2 * DAY)  # so that age alone would let the objects go
    view = rig.ledger().view()
    merged(rig, 6, start=6)
    between()
    assert len(contents(view)) == 18
    assert len(contents(rig.ledger().view())) == 36
    check_sound(rig)


def slow_reader() -> None:
    """Garbage is collected again and again for an hour."""
    rig = Rig()

    def between() -> None:
        for _ in range(5):
            gc(rig)
            rig.clock.advance(HOUR / 5)

    _reader(rig, between)


def fast_clock() -> None:
    """The clock of who collects is hours ahead."""
    rig = Rig()
    ahead = ManualClock()

    def between() -> None:
        gc(rig)
        ahead.advance((rig.clock.now_ms() - ahead.now_ms()) / 1000 + 2 * HOUR)
        gc(rig, clock=ahead)

    _reader(rig, between)


def overtaken() -> None:
    """Another root comes before the one that trims the log: then no entry may be gone."""
    rig = Rig()
    merged(rig)
    gc(rig)
    rig.clock.advance(8 * DAY)
    store = HookStore(rig.store)
    rivals: list[int] = []

    def before(verb: str, key: str) -> None:
        if (verb, key) == ("put", PATHS.root):
            ledger = logger(rig, limits=MANUAL)
            ledger.commit(rig.batch(save(f"rival{len(rivals)}", n=1)))
            rivals.append(ledger.forward())

    store.before = before
    with suppress(Exception):
        gc(rig, store)
    assert len(rivals) > 1
    check_sound(rig)


SCHEDULES = {
    schedule.__name__: schedule
    for schedule in (
        slow_publisher,
        attached_in_the_tail,
        slow_job,
        slow_tasks,
        forgotten_job,
        slow_reader,
        fast_clock,
        overtaken,
    )
}
