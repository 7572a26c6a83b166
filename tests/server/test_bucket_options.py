"""Buckets that are made while requests fail, answers are lost, processes die and others make the same bucket."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from wormdb.errors import ConflictError
from wormdb.server.admin_commands import create
from wormdb.server.bucket_options import propose_ids, read_ids
from wormdb.server.parts import LOOP_SECONDS, SLOW_TIMES, LoopPace
from wormdb.server.replies import ErrorReply
from wormdb.server.service import Service, open_served
from wormdb.server.session import ClientSession
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import OCTETS, WrappedStore
from wormdb.system.clock import ManualClock, SystemChance, SystemClock
from wormdb.testing.fault_store import Fault
from wormdb.testing.sweep import SweepCase, sweep

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.storage.store import Precondition, Probe, PutResult, Store, StoredObject


FAULTS = [fault for fault in Fault if fault is not Fault.RACE_412]  # a rival that no reader can read


def make_bucket(store: Store, *options: bytes) -> None:
    """BUCKET.CREATE by a server of its own."""
    clock = ManualClock()  # the pauses between tries take no time
    with open_served(store, settings=Settings(), clock=clock) as database:
        service = Service(database, clock=clock, chance=SystemChance())
        try:
            create(ClientSession(service, 1, ""), [b"BUCKET.CREATE", b"b", *options])
        except ErrorReply as error:
            raise ConflictError(error.line) from error


def state_of(name: str) -> tuple[int, str]:
    """The log number of the bucket, and its rule of ids."""
    with open_served(MemoryStore(name, clock=SystemClock()), settings=Settings()) as database:
        return database["b"].refresh(), read_ids(database.store, "b/")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("choice", [b"ANY", b"OBJECTID"])
def test_a_fault_at_every_request(fault: Fault, choice: bytes) -> None:
    made: list[str] = []

    def make() -> Store:
        made.append(f"options-{fault.name}-{choice.decode()}-{len(made)}")
        return MemoryStore(made[-1], clock=SystemClock())

    def check(case: SweepCase[None]) -> None:
        number, rule = state_of(made[-1])
        assert number == 1 if case.error is None else number in (0, 1), case.label
        if number:
            assert rule == choice.decode().lower(), case.label

    assert sweep(make, lambda store: make_bucket(store, b"IDS", choice), check, faults=[fault]) > 3


def test_what_a_broken_off_creation_left_does_not_count() -> None:
    name = "left-behind"
    propose_ids(MemoryStore(name, clock=SystemClock()), "b/", "any", SystemChance(), is_made=lambda: False)
    make_bucket(MemoryStore(name, clock=SystemClock()))
    assert state_of(name) == (1, "objectid")


class Overtaken(WrappedStore):
    """Before one of its requests something else happens."""

    def __init__(self, inner: Store, place: int, happens: Callable[[], None]) -> None:
        super().__init__(inner)
        self.requests = 0
        self._place, self._happens = place, happens

    def _step(self) -> None:
        self.requests += 1
        if self.requests == self._place:
            self._happens()

    def get(self, key: str) -> StoredObject:
        self._step()
        return super().get(key)

    def probe(self, key: str) -> Probe:
        self._step()
        return super().probe(key)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        self._step()
        return super().put(key, body, precondition, content_type=content_type)


@pytest.mark.parametrize("choices", [(b"ANY", b"OBJECTID"), (b"OBJECTID", b"ANY"), (b"ANY", b"ANY")])
def test_of_two_that_make_one_bucket_the_one_that_made_it_has_its_choice(choices: tuple[bytes, bytes]) -> None:
    """Whatever the other does before each request of the one: all of its creation, or the part before the bucket."""
    place, winners = 1, set()
    while True:
        name = f"two-makers-{choices[0].decode()}-{choices[1].decode()}-{place}"
        done: dict[int, bool] = {}

        def work(one: int, store: Store, done: dict[int, bool] = done) -> None:
            try:
                make_bucket(store, b"IDS", choices[one])
            except ConflictError:
                done[one] = False
            else:
                done[one] = True

        def bare(name: str = name) -> Store:
            return MemoryStore(name, clock=SystemClock())

        store = Overtaken(bare(), place, partial(work, 1, bare()))
        work(0, store)
        if store.requests < place:
            break
        assert sorted(done.values()) == [False, True]
        (winner,) = (one for one, is_made in done.items() if is_made)
        assert state_of(name) == (1, choices[winner].decode().lower()), place
        winners.add(winner)
        place += 1
    assert place > 3
    assert winners == {0, 1}


def test_what_is_slow_again_and_again_goes_to_threads_until_it_is_quick() -> None:
    pace = LoopPace()
    for _ in range(SLOW_TIMES):
        assert not pace.is_slow("shape")
        pace.tell("shape", 2 * LOOP_SECONDS)
    assert pace.is_slow("shape")
    assert not pace.is_slow("other")
    pace.tell("shape", LOOP_SECONDS / 2)
    assert not pace.is_slow("shape")
