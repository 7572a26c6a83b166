"""Finding documents: answers are those of the pure language, whatever way they come."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.api.market import MARKET, filled
from wormdb.api.document import Document
from wormdb.api.read import LogState
from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.bql.projection import parse_projection, project
from wormdb.bql.sorting import parse_sort, sort_key
from wormdb.engine.ledger import Ledger
from wormdb.errors import SnapshotTooOldError
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.query.request import QueryRequest


@pytest.fixture
def orders(url: str) -> Iterator[Collection[Document]]:
    """In memory they are in the log, in a folder they are in blocks."""
    with wormdb.connect(url, schema=MARKET, clock=ManualClock()) as db:
        yield filled(db, "Order", forwarded=not url.startswith("memory")).model("Order")


def ids(rows: list[Any]) -> list[Any]:
    return [row["id"] for row in rows]


# --- answers ---


def test_documents_come_as_from_every_other_read(orders: Collection[Document]) -> None:
    found = orders.find_one({"total": 50})
    assert isinstance(found, Document)
    assert found == orders.find_by_id("o05")
    assert (found.rev, found.seq) == (1, 1)


def test_what_was_found_can_be_saved_and_notices_conflicts(orders: Collection[Document]) -> None:
    mine, other = orders.find_one("total=50"), orders.find_one("total=50")
    assert mine is not None and other is not None  # noqa: PT018 - for the type checker
    orders.save(other | {"total": 51})
    with pytest.raises(wormdb.ConflictError):
        orders.save(mine | {"total": 52})


def test_filters_are_mappings_or_text(orders: Collection[Document]) -> None:
    written: list[Any] = [
        {"customerId": "ada", "total": {"$gt": 30}},
        "customerId=ada,total>30",
        '{"customerId": "ada", "total": {"$gt": 30}}',
    ]
    assert [ids(orders.find_all(each)) for each in written] == [["o06", "o09"]] * 3
    assert len(orders.find_all()) == len(orders.find_all({})) == len(orders.find_all("")) == 12


def test_order_limit_and_offset(orders: Collection[Document]) -> None:
    assert ids(orders.find_all(sort="-total", limit=3)) == ["o11", "o10", "o09"]
    assert ids(orders.find_all(sort=[("customerId", "asc"), ("total", "desc")], limit=2, offset=1)) == ["o06", "o03"]
    assert ids(orders.find_all(offset=10)) == ["o10", "o11"]
    assert orders.find_all(offset=12) == []


def test_the_id_has_two_names(orders: Collection[Document]) -> None:
    assert ids(orders.find_all({"id": {"$in": ["o02", "o01"]}}, sort="-_id")) == ["o02", "o01"]
    assert orders.find_all({"_id": "o01"}, select=["id"]) == [{"id": "o01"}]


def test_selected_rows_are_plain_dicts(orders: Collection[Document]) -> None:
    rows = orders.find_all("total<20", select=["total"])
    assert rows == [{"id": "o00", "total": 0}, {"id": "o01", "total": 10}]
    assert not any(isinstance(row, Document) for row in rows)
    assert orders.find_one({"tags": "x"}, select={"_id": 0, "tags": {"$slice": 1}, "total": 1}) == {
        "total": 10,
        "tags": ["odd"],
    }
    assert orders.find_one({"tags": "x"}, select={"tags.$": 1}) == {"id": "o01", "tags": ["x"]}


def test_a_class_comes_back_as_its_class(db: Database) -> None:
    @dataclass
    class Note:
        id: str
        text: str

    notes = db.model(Note)
    one, two = (f"{number}" * 8 + "-0000-4000-8000-" + "0" * 12 for number in (1, 2))
    notes.insert_many([Note(one, "one"), Note(two, "two")])
    found: Note | None = notes.find_one({"text": "two"})
    assert found == Note(two, "two")
    assert notes.find_all(select=["text"], limit=1) == [{"id": one, "text": "one"}]


def test_counts(orders: Collection[Document]) -> None:
    assert orders.count() == 12
    assert orders.count({}) == 12
    assert orders.count("total>=100") == 2
    assert orders.find("total>=50", limit=3).count() == 3
    assert orders.find("total>=50", offset=5).count() == 2


def test_what_was_found_may_be_changed_and_no_later_answer_notices(orders: Collection[Document]) -> None:
    for select in (None, ["tags"], {"total": 0}):
        found = orders.find("id=o00", select=select) if select is not None else orders.find("id=o00")
        for rows in (found.to_list(), found.to_list(), orders.find_all("id=o00", select=["tags"])):
            assert rows[0]["tags"] == ["even"]
            rows[0]["tags"].append("changed")
    orders.distinct("tags").append("changed")
    assert orders.distinct("tags") == ["even", "odd", "x"]


def test_nothing_is_asked_before_rows_are_wanted(orders: Collection[Document], url: str) -> None:
    with wormdb.connect(url, schema=MARKET) as db:
        found = db.model("Order").find("total>10", sort="total")
        query = db.model("Order").query().gt("total", 10)
        assert db.cost().requests == 0
        assert found.to_list() == query.execute()
        assert db.cost().requests > 0


# --- states ---


def test_all_reads_of_what_was_found_are_of_one_state(orders: Collection[Document]) -> None:
    found = orders.find("total>=100")
    assert ids(found.to_list()) == ["o10", "o11"]
    orders.insert({"id": "new", "total": 1000})
    orders.delete("o10")
    assert ids(found.to_list()) == ["o10", "o11"]
    assert found.count() == 2
    assert ids(orders.find("total>=100").to_list()) == ["new", "o11"]


def test_rows_are_of_the_state_at_the_first_read(orders: Collection[Document]) -> None:
    found = orders.find("total>=100")
    orders.delete("o10")
    assert ids(found.to_list()) == ["o11"]


def test_states_of_the_past(orders: Collection[Document]) -> None:
    orders.save({"id": "o00", "total": 7000})
    orders.delete("o01")
    orders.forward()
    orders.save({"id": "o02", "total": 8000})
    assert ids(orders.find_all("total>=100", as_of=1)) == ["o10", "o11"]
    assert ids(orders.find_all("total>=100", as_of=2)) == ["o00", "o10", "o11"]
    assert orders.find_all({"id": {"$in": ["o00", "o01"]}}, as_of=1, select=["total"]) == [
        {"id": "o00", "total": 0},
        {"id": "o01", "total": 10},
    ]
    assert (orders.count("total>=100", as_of=1), orders.count("total>=100")) == (2, 4)
    assert orders.count(as_of=1) == 12
    assert orders.aggregate(sum="total", as_of=1) == {"sum": 660}
    old = orders.find_one("id=o00", as_of=1)
    assert old is not None
    assert (old.rev, old["total"]) == (1, 0)
    assert orders.find_all("total>=100", as_of=1, sort="-total", select=["id"]) == [{"id": "o11"}, {"id": "o10"}]


def test_a_moment_to_come_is_refused(orders: Collection[Document]) -> None:
    found = orders.find(as_of=99)
    with pytest.raises(wormdb.InvalidRequestError, match="the newest entry is 1"):
        found.to_list()


class _Gone:
    """A state whose objects are gone, for the first so many reads."""

    def __init__(self, times: int, *, after: int = 0) -> None:
        self.left = times
        self.after = after

    def install(self, patch: pytest.MonkeyPatch) -> None:
        read = LogState.hits

        def hits(state: LogState[Any], request: QueryRequest) -> Iterator[Any]:
            rows = read(state, request)
            if self.left:
                self.left -= 1
                for _ in range(self.after):
                    yield next(rows)
                raise SnapshotTooOldError("its root was replaced long ago", key="a block")
            yield from rows

        patch.setattr(LogState, "hits", hits)
        patch.setattr(Ledger, "renew", lambda *_: None)


def test_a_query_of_a_state_that_is_gone_begins_again(
    orders: Collection[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    _Gone(2).install(monkeypatch)
    assert ids(orders.find_all("total>=100")) == ["o10", "o11"]


def test_it_begins_again_twice_and_no_more(orders: Collection[Document], monkeypatch: pytest.MonkeyPatch) -> None:
    _Gone(3).install(monkeypatch)
    with pytest.raises(SnapshotTooOldError):
        orders.find_all("total>=100")


def test_it_does_not_begin_again_behind_rows_that_were_shown(
    orders: Collection[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    _Gone(1, after=1).install(monkeypatch)
    found = iter(orders.find("total>=100"))
    assert next(found)["id"] == "o10"
    with pytest.raises(SnapshotTooOldError):
        next(found)


# --- the pure language ---

ANYTHING = wormdb.connect("memory://", clock=ManualClock())
NUMBERS = count()
VALUES = st.one_of(st.integers(-2, 2), st.sampled_from(["a", "b", ""]), st.none(), st.booleans(), st.floats(-1, 1))
FIELD = st.one_of(VALUES, st.lists(VALUES, max_size=2), st.fixed_dictionaries({}, optional={"x": VALUES}))
DOCUMENTS = st.lists(st.fixed_dictionaries({}, optional={"a": FIELD, "b": FIELD}), max_size=8)
PATHS = st.sampled_from(["a", "b", "a.x"])
FILTERS = st.dictionaries(
    PATHS,
    st.one_of(
        VALUES,
        st.dictionaries(st.sampled_from(["$gt", "$lte", "$ne"]), VALUES, min_size=1),
        st.fixed_dictionaries({"$in": st.lists(VALUES, max_size=3)}),
        st.fixed_dictionaries({"$exists": st.booleans()}),
    ),
    max_size=2,
)
SORTS = st.lists(st.sampled_from(["a", "-b", "a.x", "-id"]), max_size=2, unique_by=lambda name: name.strip("-"))
SELECTS = st.one_of(st.none(), st.sampled_from([["a"], ["b", "a.x"], {"a": 0}, {"b": 1, "_id": 0}]))


@given(
    DOCUMENTS,
    FILTERS,
    SORTS,
    st.one_of(st.none(), st.integers(1, 4)),
    st.integers(0, 3),
    SELECTS,
    st.sampled_from(["tail", "half", "all"]),
)
@settings(max_examples=40, deadline=None)
def test_answers_are_those_of_the_pure_language(  # noqa: PLR0917 - one argument for each choice
    documents: list[dict[str, Any]],
    written: dict[str, Any],
    sort: list[str],
    limit: int | None,
    offset: int,
    select: Any,
    forwarded: str,
) -> None:
    """Filter, sort, part and projection on whole documents, and nothing else, decide the rows."""
    stored = [{"_id": number, **document} for number, document in enumerate(documents)]
    matches, order = compile_filter(parse_filter(written)), sort_key(parse_sort(sort))
    found = sorted(filter(matches, stored), key=order)[offset:][:limit]
    if select is not None:
        found = [project(parse_projection(select), document) for document in found]
    expected = [{("id" if name == "_id" else name): value for name, value in row.items()} for row in found]
    things = ANYTHING[f"things{next(NUMBERS)}"]
    middle = {"tail": 0, "half": len(stored) // 2, "all": len(stored)}[forwarded]
    if things.insert_many(stored[:middle]):
        things.forward()
    things.insert_many(stored[middle:])
    rows = things.find_all(written, sort=sort, limit=limit, offset=offset, select=select)
    assert [dict(row) for row in rows] == expected
    assert things.count(written) == sum(map(matches, stored))
