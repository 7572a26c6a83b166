"""Garbage collection with every fault at every request, and with a rival at every request: nothing is ever lost.

Each run finds everything that can go: retired objects that are due, others without a time, objects that a writer
and an aborted job left, a job that nobody ended, and entries past their retention.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.bulk.stage_rig import MANUAL, logger, stager
from tests.engine.rig import PATHS, Rig, contents, save
from tests.maintenance.gc.rig import DAY, HOUR, check_sound, gc, keys_of, merged, opened_job, site_of
from tests.maintenance.rival_store import Before
from wormdb.engine.load import abort
from wormdb.errors import OutcomeUnknownError, UnavailableError
from wormdb.maintenance.audit.verify import verify
from wormdb.testing.fault_store import Fault, SimulatedCrash
from wormdb.testing.sweep import SweepCase, sweep

if TYPE_CHECKING:
    from wormdb.maintenance.gc.report import GcResult
    from wormdb.storage.store import Store

OFTEN = (Fault.CRASH_AFTER, Fault.LANDS_LATE)
SELDOM = (Fault.CRASH_BEFORE, Fault.ANSWER_LOST, Fault.UNAVAILABLE_503, Fault.CONFLICT_409)
WRITES = ("put", "delete_many")
STRIDE = int(os.environ.get("WORMDB_STRIDE", "5"))
"""Before one of so many requests a rival acts; before each of them with 1."""
LEFT = f"{PATHS.data}0000000000000001-00000000.parquet"


@cache
def full() -> tuple[Rig, dict[Any, Any]]:
    """A bucket in which everything can go, and the documents in it."""
    rig = Rig()
    merged(rig, 6)
    _, target, _ = opened_job(rig)
    abort(rig.ledger(), target.job, "no more")
    rig.clock.advance(60)
    rig.store.put(LEFT, b"of a writer that crashed")
    logger(rig, limits=MANUAL).forward()
    gc(rig)
    rig.clock.advance(8 * DAY)
    opened_job(rig, "forgotten")
    rig.clock.advance(7 * DAY)
    merged(rig, 6, start=6)
    stager(rig, limits=MANUAL).commit(rig.batch(*(save(f"s{number}", n=number) for number in range(4))))
    return rig, contents(rig.ledger().view())


def fresh() -> Rig:
    """A copy of it."""
    made, _ = full()
    rig = Rig(seed=2)
    rig.clock.advance((made.clock.now_ms() - rig.clock.now_ms()) / 1000)
    rig.store._shelf.entries = dict(made.store._shelf.entries)
    rig.store._shelf.keys = list(made.store._shelf.keys)
    return rig


def check(rig: Rig) -> None:
    """Nothing is lost; after two more runs nothing is left that nobody needs, and the log and documents go on."""
    _, documents = full()
    assert contents(rig.ledger().view()) == documents
    logger(rig, limits=MANUAL).forward()
    for _ in range(3):
        rig.clock.advance(DAY + HOUR)
        gc(rig)
    assert LEFT not in keys_of(rig)
    check_sound(rig, is_clean=True)
    assert contents(rig.ledger().view()) == documents
    assert not any(job.state == "open" for job in rig.ledger().view().jobs.known.values())


def test_it_finds_all_there_is() -> None:
    rig = fresh()
    dry = gc(rig, dry_run=True)
    found = gc(rig)
    assert set(found.kinds) == {"block", "history", "entry"}
    assert found.waiting
    assert {victim.reason.partition(" ")[0] for victim in found.victims} == {"no", "nothing", "it"}
    assert len(found.expired) == 1
    assert found.expired == dry.expired
    # What the job wrote is not garbage before an entry says so.
    assert {victim.key for victim in dry.victims} < {victim.key for victim in found.victims}
    check(rig)
    assert verify(site_of(rig), unreferenced=True).findings == ()


@pytest.mark.parametrize("fault", [*OFTEN, *(pytest.param(fault, marks=pytest.mark.long) for fault in SELDOM)], ids=str)
def test_any_fault_at_any_request(fault: Fault) -> None:
    rigs: list[Rig] = []

    def make() -> Store:
        rigs.append(fresh())
        return rigs[-1].store

    def look(case: SweepCase[GcResult]) -> None:
        assert case.error is None or isinstance(case.error, SimulatedCrash | UnavailableError | OutcomeUnknownError)
        trace = case.store.trace
        # After a read everything is as it was after the write before it.
        if case.number > len(trace) or trace[case.number - 1].verb in WRITES:
            check(rigs[-1])  # what lands late lands after this, days later

    assert sweep(make, lambda store: gc(rigs[-1], store), look, faults=(fault,), page_keys=1000) > 10


def another_gc(rig: Rig) -> None:
    """A day later, so that it finds more than the first has seen."""
    rig.clock.advance(DAY)
    gc(rig)


def a_forwarder(rig: Rig) -> None:
    logger(rig, limits=MANUAL).forward()


RIVALS = {"gc": another_gc, "forwarder": a_forwarder}


@pytest.mark.parametrize("name", ["gc", pytest.param("forwarder", marks=pytest.mark.long)])
def test_a_rival_at_any_request(name: str) -> None:
    number = 1
    while True:
        rig = fresh()
        store = Before(rig.store, number, partial(RIVALS[name], rig))
        with suppress(UnavailableError):  # a day passes in the middle of a commit
            gc(rig, store)
        check(rig)
        if store.requests < number:
            break
        number += STRIDE
    assert number > 10
