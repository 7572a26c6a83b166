"""Every request of a transaction, with a fault there and a rival at every moment: all or nothing, told truthfully.

A transaction moves 1 from one collection to another. A rival moves 10, or adds 100 by a plain batch, or lets hours pass
in which garbage is collected. Whatever happens, what a new process finds is what was acknowledged, and all of it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.engine.rig import doc, ident
from tests.engine.transact.bank import FIRST, NAMES, Bank, balance, balances
from wormdb.engine.commit.operations import ReadVersion, Save
from wormdb.engine.state.view import id_key
from wormdb.errors import ConflictError, OutcomeUnknownError, UnavailableError, WormError
from wormdb.maintenance.gc.transactions import collect_records
from wormdb.settings import TRANSACTION_ABANDONED_SECONDS
from wormdb.storage.wrapped import WrappedStore
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.storage.store import Precondition, Probe, PutResult, Store

EAST, WEST = NAMES
FAULTS = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE)
STRIDE = int(os.environ.get("WORMDB_STRIDE", "7"))
"""Of so many pairs of a fault and a rival one is run; all of them with 1."""
HOURS = 3 * 3600.0
MOVED, RIVAL_MOVED, RIVAL_ADDED = 1, 10, 100


@dataclass
class Told:
    """What the rival was told: whether its transaction moved, and whether its batch added."""

    moved: int = 0
    added: int = 0


def move_as_rival(bank: Bank, told: Told) -> None:
    """Another transaction over the same documents."""
    rival = bank.process()
    for _ in range(8):
        try:
            rival.move(RIVAL_MOVED)
        except (ConflictError, UnavailableError):
            bank.clock.advance(1.0)
        else:
            told.moved = 1
            return


def add_as_rival(bank: Bank, told: Told) -> None:
    """A plain batch on one of the documents."""
    rival = bank.process()
    for _ in range(8):
        view = rival.view(EAST)
        held, known = view.get(id_key(ident("x"))), balance(view)
        assert held is not None
        assert known is not None
        loaded = ReadVersion(held, view.number)
        try:
            rival[EAST].commit(rival.batch(Save(ident("x"), doc("x", n=known + RIVAL_ADDED), loaded)))
        except ConflictError:
            continue
        told.added = 1
        return


def collect(bank: Bank) -> None:
    """Hours pass, in which what is pending is resolved and the records of transactions go."""
    for _ in range(3):
        bank.clock.advance(HOURS)
        collect_records(bank.process().runtime, lambda: NAMES)


RIVALS: dict[str, Callable[[Bank, Told], None]] = {
    "none": lambda _, __: None,
    "transaction": move_as_rival,
    "batch": add_as_rival,
    "gc": lambda bank, _: collect(bank),
}


class Interrupted(WrappedStore):
    """Calls a function once, before the request of a number."""

    def __init__(self, inner: Store, number: int, call: Callable[[], None]) -> None:
        super().__init__(inner)
        self.seen = 0
        self._number = number
        self._call = call

    def _count(self) -> None:
        self.seen += 1
        if self.seen == self._number:
            self._call()

    def probe(self, key: str) -> Probe:
        self._count()
        return self._inner.probe(key)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = ""
    ) -> PutResult:
        self._count()
        return self._inner.put(key, body, precondition, content_type=content_type)


@dataclass
class Run:
    """One run of the transaction: what its caller was told, and what there is to check it by."""

    bank: Bank
    rival: Told
    store: FaultStore
    requests: int
    error: BaseException | None
    label: str

    @property
    def allowed(self) -> set[int]:
        """How often the transaction may have moved, by what its caller was told."""
        if self.error is None:
            return {1}
        is_open = isinstance(self.error, OutcomeUnknownError | SimulatedCrash)
        return {0, 1} if is_open else {0}

    def check(self) -> None:
        """What a new process finds must be what was told, in both collections."""
        east, west = balances(self.bank.process())
        assert east is not None, self.label
        assert west is not None, self.label
        moved = west - FIRST
        assert east == FIRST - moved + RIVAL_ADDED * self.rival.added, f"half of it: {self.label}: {east} {west}"
        assert moved // RIVAL_MOVED == self.rival.moved, self.label
        assert moved % RIVAL_MOVED in self.allowed, f"{self.label}: moved {moved}, told {self.error!r}"

    def resolve(self) -> None:
        """A commit id must be answered truthfully, once and for all."""
        error = self.error
        if not isinstance(error, OutcomeUnknownError):
            return
        assert error.commit_id is not None, self.label
        assert error.commit_id.startswith("tx-"), self.label
        records = self.bank.process().runtime.records
        told = records.fate(error.commit_id.removeprefix("tx-"), settle=True, deadline=self.bank.clock.monotonic())
        if told is not None:
            self.error = None if told else ConflictError("settled")

    def finish(self) -> None:
        """Other processes go on; then nothing is pending, the log is a chain, and it can be brought forward."""
        self.bank.clock.advance(2 * TRANSACTION_ABANDONED_SECONDS)
        process = self.bank.process()
        for name in NAMES:
            process.view(name)
            process[name].finish_transactions()
            self.bank.clock.advance(2 * TRANSACTION_ABANDONED_SECONDS)
            process[name].finish_transactions()
            assert not process.view(name).pending, self.label
            process[name].forward()
            assert balance(process.view(name)) == balance(self.bank.process().view(name)), self.label


def run(rival: str, at: int, fault: Fault | None, number: int) -> Run:
    bank = Bank().open()
    told = Told()
    store = FaultStore(bank.store, {} if fault is None else {number: fault})
    watched = Interrupted(store, at, lambda: RIVALS[rival](bank, told))
    error: BaseException | None = None
    try:
        bank.process(watched).move(MOVED)
    except (WormError, SimulatedCrash) as raised:
        error = raised
    label = f"{fault} at request {number}, {rival} before request {at}"
    return Run(bank, told, store, watched.seen, error, label)


def pairs(rival: str) -> Iterator[tuple[int, int]]:
    """Requests at which a fault comes and those before which the rival does: some of all, others for each rival."""
    requests = run("none", 0, None, 0).requests
    moments = range(1, requests + 3) if rival != "none" else (0,)
    found = [(number, at) for number in range(1, requests + 3) for at in moments]
    return iter(found if rival == "none" else found[sorted(RIVALS).index(rival) % STRIDE :: STRIDE])


@pytest.mark.parametrize("rival", sorted(RIVALS))
@pytest.mark.parametrize("fault", FAULTS)
def test_all_of_it_or_nothing_whatever_happens_at_any_request(fault: Fault, rival: str) -> None:
    for number, at in pairs(rival):
        done = run(rival, at, fault, number)
        done.check()
        if done.store.land():
            done.check()
        done.resolve()
        done.check()
        done.finish()
        done.check()
        collect(done.bank)
        done.store.land()
        done.check()


@pytest.mark.parametrize("rival", sorted(RIVALS))
def test_what_lands_after_hours_changes_nothing(rival: str) -> None:
    for number, at in pairs(rival):
        done = run(rival, at, Fault.LANDS_LATE, number)
        done.check()
        collect(done.bank)
        done.check()
        done.store.land()
        done.check()
        done.finish()
        done.check()


def test_without_faults_and_rivals_it_commits() -> None:
    done = run("none", 0, None, 0)
    assert done.error is None
    done.check()
    done.finish()
    done.check()
