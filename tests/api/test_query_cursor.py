"""Cursors: batches of a state that does not move."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from bson import Decimal128

import wormdb
from tests.api.market import MARKET, filled
from wormdb.api.options import check_query
from wormdb.api.read import QueryRun
from wormdb.errors import ClosedError, ConflictError, InvalidRequestError, SnapshotTooOldError, UnavailableError
from wormdb.settings import CURSOR_MS_MAX, RETRY_ATTEMPTS_MAX
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import WrappedStore
from wormdb.system.clock import ManualClock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document
    from wormdb.storage.store import ByteRange, Store, StoredObject


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def orders(url: str, clock: ManualClock) -> Iterator[Collection[Document]]:
    with wormdb.connect(url, schema=MARKET, clock=clock) as db:
        yield filled(db, "Order", forwarded=not url.startswith("memory")).model("Order")


ORDERS = filled(wormdb.connect("memory://", schema=MARKET, clock=ManualClock(1_800_000_000_000)), "Order").model(
    "Order"
)


def ids(rows: list[Any]) -> list[Any]:
    return [row["id"] for row in rows]


def change_everything(orders: Collection[Document], *, forward: bool) -> None:
    """Documents go, come and change, in all places of an order."""
    orders.insert({"id": "a-new", "total": -5})
    orders.insert({"id": "z-new", "total": 45})
    orders.delete("o03")
    orders.delete("o08")
    orders.save({"id": "o09", "total": -1})
    if forward:
        orders.forward()
        orders.delete("o10")


@pytest.mark.parametrize(("sort", "forward"), [(None, False), ("-total", True)])
def test_batches_are_of_one_state(orders: Collection[Document], sort: Any, forward: bool) -> None:
    expected = orders.find_all(sort=sort)
    cursor = orders.cursor(sort=sort, batch_size=5)
    found = [cursor.next_batch()]
    change_everything(orders, forward=forward)
    while batch := cursor.next_batch():
        found.append(batch)
    assert [len(batch) for batch in found] == [5, 5, 2]
    assert [row for batch in found for row in batch] == expected
    assert cursor.next_batch() == cursor.next_batch() == []


@pytest.mark.parametrize("sort", [None, "-total", "total"])
def test_a_plan_for_all_rows_goes_on_where_the_first_batch_ended(
    orders: Collection[Document], sort: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[QueryRun[Any]] = []

    def differs(run: QueryRun[Any]) -> bool:
        asked.append(run)
        return False

    monkeypatch.setattr(QueryRun, "is_planned_alike", differs)
    expected = orders.find_all(sort=sort)
    cursor = orders.cursor(sort=sort, batch_size=5)
    found = [cursor.next_batch()]
    change_everything(orders, forward=False)
    while batch := cursor.next_batch():
        found.append(batch)
    assert [ids(batch) for batch in found] == [ids(expected[:5]), ids(expected[5:10]), ids(expected[10:])]
    assert len(asked) == 1, "once, when more than the first batch is asked for"


def test_a_first_batch_of_a_range_is_read_as_if_it_were_all() -> None:
    with wormdb.connect("memory://", clock=ManualClock()) as db:
        things = db["things"]
        things.insert_many({"id": f"{n:05}", "age": n % 80, "text": "x" * 200} for n in range(4_000))
        things.create_index("age")
        things.forward()
        asked = {"age": {"$gte": 20, "$lt": 40}}
        expected = things.find_all(asked)  # all blocks and columns are kept from now on
        cursor = things.cursor(asked, batch_size=10)
        for first, is_alike in ((10, False), (4_000, True)):
            query = check_query(things._access, asked, {}, first=first)
            assert QueryRun(things._access, query).is_planned_alike() is is_alike
        assert things.explain(asked).strategy == "full_scan"
        assert ids(list(cursor)) == ids(expected)


def test_the_state_is_that_of_opening(orders: Collection[Document]) -> None:
    cursor = orders.cursor()
    orders.delete("o00")
    assert len(list(cursor)) == 12


@pytest.mark.parametrize(
    ("sort", "forward", "batches"), [(None, False, 1), (None, True, 3), ("-total", True, 0), ("-total", True, 1)]
)
def test_another_process_goes_on(
    orders: Collection[Document], url: str, sort: Any, forward: bool, batches: int
) -> None:
    expected = orders.find_all({"total": {"$gte": 10}}, sort=sort)
    cursor = orders.cursor("total>=10", sort=sort, batch_size=4)
    found = [row for _ in range(batches) for row in cursor.next_batch()]
    token = cursor.token
    change_everything(orders, forward=forward)
    with wormdb.connect(url, schema=MARKET, clock=ManualClock()) as db:
        resumed = db.model("Order").resume(token)
        assert resumed.batch_size == 4
        found += resumed.next_batch()
        again = db.model("Order").resume(resumed.token)
        found += list(again)
        assert again.next_batch() == []
    assert found == expected
    assert [row.rev for row in found] == [1] * len(found)


def test_selected_rows_and_their_tokens(orders: Collection[Document]) -> None:
    with orders.cursor(select={"total": 1, "_id": 0}, sort="-total", batch_size=2) as cursor:
        assert cursor.next_batch() == [{"total": 110}, {"total": 100}]
        token = cursor.token
    rows: list[Any] = orders.resume(token).next_batch()
    assert rows == [{"total": 90}, {"total": 80}]


@pytest.mark.parametrize(
    ("written", "select"),
    [
        ({}, {"tags": {"$slice": 1}}),
        ({}, {"tags": {"$slice": [1, 1]}, "total": 1}),
        ({}, {"tags": {"$slice": -1}}),
        ({"tags": "x"}, {"tags.$": 1}),
        ({}, {"tags": {"$elemMatch": {"$eq": "x"}}, "_id": 0}),
        ({}, {"tags": {"$elemMatch": {"at": {"$gt": datetime(2020, 1, 1, tzinfo=UTC)}}}}),
        ({}, {"total": 0, "_id": 0}),
        ({}, {}),
        ({}, []),
        ({"customerId": {"$regex": "^a", "$options": "i"}}, ("total", "a.b")),
        ({"createdAt": {"$gt": datetime(2020, 1, 1, tzinfo=UTC)}, "total": {"$gte": Decimal128("10")}}, None),
        ({"customerId": re.compile("^b"), "total": {"$nin": [None, 1.5, b"x"]}}, None),
        ("customerId>=b,tags~x", ["id"]),
    ],
)
def test_a_token_holds_the_whole_query(written: Any, select: Any) -> None:
    cursor = ORDERS.cursor(written, select=select, sort=["-total", "customerId"], batch_size=1)
    tokens, batches = [cursor.token], [cursor.next_batch()]
    while batches[-1]:
        tokens.append(cursor.token)
        batches.append(cursor.next_batch())
    assert len(batches) > 2
    page = ORDERS.find(written, select=select, sort="-total", limit=1)
    assert ORDERS.find(written, select=select, sort="-total", limit=1, page=page.next_page).count() == 1
    assert [ORDERS.resume(token).next_batch() for token in tokens] == batches
    assert [ORDERS.resume(token).token for token in tokens] == tokens


def test_what_a_cursor_gives_notices_conflicts(orders: Collection[Document]) -> None:
    cursor = orders.cursor(batch_size=3)
    token = cursor.token
    orders.save({"id": "o00", "total": 5})
    orders.forward()
    for document in (cursor.next_batch()[0], orders.resume(token).next_batch()[0]):
        with pytest.raises(ConflictError):
            orders.save(document | {"total": 6})


def test_cursors_over_the_past(orders: Collection[Document]) -> None:
    change_everything(orders, forward=True)
    for cursor in (orders.cursor(as_of=1, batch_size=7), orders.cursor(as_of=1, batch_size=7)):
        first = cursor.next_batch()
        rest = orders.resume(cursor.token).next_batch()
        assert ids(first) + ids(rest) == [f"o{number:02}" for number in range(12)]


def test_a_cursor_ends_after_half_an_hour(orders: Collection[Document], clock: ManualClock) -> None:
    cursor = orders.cursor(batch_size=2)
    token = cursor.token
    clock.sleep(CURSOR_MS_MAX / 1000)
    assert len(cursor.next_batch()) == 2
    assert len(orders.resume(token).next_batch()) == 2
    resumed = orders.resume(token)
    clock.sleep(0.001)
    for read in (cursor.next_batch, resumed.next_batch, lambda: orders.resume(token)):
        with pytest.raises(SnapshotTooOldError, match="30 minutes"):
            read()


def test_a_closed_cursor_gives_nothing_more(orders: Collection[Document]) -> None:
    with orders.cursor(batch_size=2) as cursor:
        cursor.next_batch()
        token = cursor.token
    cursor.close()
    with pytest.raises(ClosedError):
        cursor.next_batch()
    with pytest.raises(ClosedError):
        _ = cursor.token
    assert ids(orders.resume(token).next_batch()) == ["o02", "o03"]
    assert repr(cursor) == "Cursor(Order, entry 1, closed)"


def test_a_token_is_of_one_collection(orders: Collection[Document], url: str) -> None:
    token = orders.cursor().token
    with (
        wormdb.connect(url, schema=MARKET) as db,
        pytest.raises(InvalidRequestError, match="for the collection orders"),
    ):
        db.model("Customer").resume(token)


def test_the_size_of_batches_is_a_number(db: Database) -> None:
    sizes: list[Any] = [0, -1, True, 1.5, None]
    for size in sizes:
        with pytest.raises(InvalidRequestError, match="batch_size"):
            db["orders"].cursor(batch_size=size)
    assert db.cost().requests == 0


class FlakyStore(WrappedStore):
    """Refuses the first read of each block, repetitions included."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.is_flaky = False
        self.refused: Counter[str] = Counter()

    def _refuse(self, key: str) -> None:
        if self.is_flaky and "/data/" in key:
            self.refused[key] += 1
            if self.refused[key] <= RETRY_ATTEMPTS_MAX:
                raise UnavailableError("the store", key=key)

    def get(self, key: str) -> StoredObject:
        self._refuse(key)
        return super().get(key)

    def get_range(self, key: str, span: ByteRange) -> bytes:
        self._refuse(key)
        return super().get_range(key, span)

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        self._refuse(key)
        return super().get_ranges(key, spans)


@pytest.mark.parametrize("sort", [None, "-n"])
def test_after_an_error_the_same_batch_can_be_asked_for_again(sort: str | None) -> None:
    """A store that fails for a moment must not look like the end of a cursor."""
    name = f"flaky-{sort}"
    settings = wormdb.Settings(cache_bytes=0, block_bytes=65_536)
    with wormdb.connect(f"memory://{name}", settings=settings) as db:
        things = db["things"]
        documents = [{"id": f"{number:04}", "n": number % 7, "text": f"{number}" * 400} for number in range(600)]
        things.insert_many(documents)
        things.forward()
        expected = [row["id"] for row in things.find(sort=sort)]
    store = FlakyStore(MemoryStore(name, clock=SystemClock()))
    # The pauses between tries take no time.
    with wormdb.connect(store, settings=settings, clock=ManualClock()) as db:
        cursor = db["things"].cursor(sort=sort, batch_size=40)
        store.is_flaky = True
        found, failures = [], 0
        while True:
            try:
                batch = cursor.next_batch()
            except UnavailableError:
                failures += 1
                continue
            if not batch:
                break
            found += [row["id"] for row in batch]
    assert found == expected
    assert failures > 0
