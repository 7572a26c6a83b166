"""Every write with an outage that begins at any of its requests: it goes on until `commit_seconds`.

Reads before a commit are a part of it, also where so much failed before that the budget of retries is spent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from tests.engine.sweeps.commits import SCENARIOS, Scenario, World, collection_of, database_on, state_of
from tests.engine.sweeps.test_sweep import check_result, make, states
from tests.engine.sweeps.updates import UPDATES
from wormdb.errors import UnavailableError
from wormdb.storage.cache import CachedStore
from wormdb.storage.conditions import ensure_conditions
from wormdb.storage.retry import RetryingStore
from wormdb.storage.store import OCTETS, WrappedStore
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.api.database import Database
    from wormdb.storage.store import ByteRange, ListPage, ObjectInfo, Precondition, Probe, PutResult, StoredObject

COMMIT_SECONDS = 30.0
OUTAGE_SECONDS = 12.0
OTHERS = {
    *("forward", "trim", "settle", "save loaded", "save loaded, in a block", "delete loaded"),
    *("update by id of what is known", "delete by id of what is known"),
}
"""They are no single call that writes: a read of its own is tried a few times only."""
WRITES = [scenario for scenario in [*SCENARIOS, *UPDATES] if scenario.name not in OTHERS]


class Outage(WrappedStore):
    """From one request on nothing is reached, for a while."""

    def __init__(self, inner: World, begins_at: int, seconds: float) -> None:
        super().__init__(inner)
        self._clock = inner.manual
        self._begins_at = begins_at
        self._seconds = seconds
        self._ends: float | None = None
        self.requests = 0
        self.refused = 0

    def _ask(self) -> None:
        self.requests += 1
        now = self._clock.monotonic()
        if self._ends is None and self.requests >= self._begins_at:
            self._ends = now + self._seconds
        if self._ends is not None and now < self._ends:
            self.refused += 1
            raise UnavailableError("request", reason="no connection")

    def get(self, key: str) -> StoredObject:
        self._ask()
        return super().get(key)

    def get_range(self, key: str, span: ByteRange) -> bytes:
        self._ask()
        return super().get_range(key, span)

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        self._ask()
        return super().get_ranges(key, spans)

    def probe(self, key: str) -> Probe:
        self._ask()
        return super().probe(key)

    def head(self, key: str) -> ObjectInfo:
        self._ask()
        return super().head(key)

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        self._ask()
        return super().list(prefix, after=after, delimiter=delimiter)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        self._ask()
        return super().put(key, body, precondition, content_type=content_type)


@pytest.fixture(autouse=True, scope="module")
def _conditions() -> None:
    """The once-a-process question to the store is no part of an operation."""
    ensure_conditions(World(), SeededChance(0))


def spend_the_budget(database: Database) -> None:
    store = database.store
    store = store.inner if isinstance(store, CachedStore) else store
    assert isinstance(store, RetryingStore)
    while store._budget.take():
        pass


def attempt(scenario: Scenario, begins_at: int, seconds: float, *, is_spent: bool) -> tuple[Outage, object]:
    store = Outage(make(scenario), begins_at, seconds)
    database = database_on(store, commit_seconds=COMMIT_SECONDS)
    if is_spent:
        spend_the_budget(database)
    try:
        return store, scenario.act(collection_of(database, scenario.collection))
    except UnavailableError as error:
        return store, error


@pytest.mark.parametrize("is_spent", [False, True], ids=["", "spent"])
@pytest.mark.parametrize("scenario", WRITES, ids=str)
def test_a_write_outlasts_an_outage_at_any_request(scenario: Scenario, is_spent: bool) -> None:
    _, after = states(scenario)
    calm, _ = attempt(scenario, 10**9, 0, is_spent=False)
    for begins_at in range(1, calm.requests + 1):
        store, result = attempt(scenario, begins_at, OUTAGE_SECONDS, is_spent=is_spent)
        assert store.refused, "the outage was there"
        assert not isinstance(result, UnavailableError), f"request {begins_at}: {result}"
        check_result(scenario, result)
        if scenario.result is None:
            continue
        assert state_of(store.inner, scenario.collection) == after


@pytest.mark.parametrize("scenario", WRITES, ids=str)
def test_a_write_gives_up_at_its_deadline(scenario: Scenario) -> None:
    store, result = attempt(scenario, 1, 10 * COMMIT_SECONDS, is_spent=True)
    assert isinstance(result, UnavailableError)
    clock = store._clock
    assert COMMIT_SECONDS <= clock.monotonic() - make(scenario).manual.monotonic() <= COMMIT_SECONDS + 1
    before, _ = states(scenario)
    assert state_of(store.inner, scenario.collection) == before
