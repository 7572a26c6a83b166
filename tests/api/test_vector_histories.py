"""Whatever happened to a collection with several list indexes, what is near lies within its state, right and in order.

Documents have vectors at a field, at a dotted path, in an array of objects, null, or none; some have ended by their
date, some were erased, some are changed by a transaction that is open. Lists are so small that questions miss some. One
field has two indexes, by different distances; indexes are made before there is a document, while there are some, and
anew by another distance when there are none any more, by a process whose root others do not know.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.api.test_vector_index import plans
from tests.engine.sweeps.projections import odd_merges, tiny_lists
from tests.jobs.rig import empty_place, pipeline
from tests.simulation.nodes import tiny_objects
from wormdb.bql.match import compile_filter
from wormdb.bql.nearest import Distance, Near, nearest
from wormdb.bql.parse import parse_filter
from wormdb.bql.search.fields import parse_fields
from wormdb.bql.search.rank import rank_documents
from wormdb.bql.search.search import SearchQuery
from wormdb.errors import InvalidRequestError
from wormdb.query.request import QueryRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb import Collection, Database, Document
    from wormdb.engine.forward.renew import ListRenewal

MANUAL = wormdb.Settings(forward="manual", forward_interval_ms=0, block_bytes=500, stage_bytes=200)
PAST, LATER = datetime(2001, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
INDEXES: dict[str, tuple[str, Distance]] = {
    "v": ("v", "euclidean"),
    "angles": ("v", "cosine"),
    "deep.v": ("deep.v", "cosine"),
}
"""By name the field and the distance."""
OTHER: dict[Distance, Distance] = {"euclidean": "dot_product", "dot_product": "euclidean", "cosine": "cosine"}
"""By which distance an index is made anew."""
SEARCHES = ("red", "shoe OR blue", "-red blue", '"red shoe"')
FILTERS: tuple[dict[str, Any], ...] = ({}, {"n": 1}, {"n": {"$lte": 2}, "v": {"$exists": True}})

VECTORS = st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=2).filter(any)
ROWS = st.fixed_dictionaries(
    {"n": st.integers(0, 3)},
    optional={
        "v": st.none() | VECTORS,
        "deep": st.fixed_dictionaries({"v": VECTORS}) | st.just([{"v": [1.0, 2.0]}]) | st.none() | st.just(7),
        "until": st.sampled_from([PAST, LATER]),
        "text": st.sampled_from(["red shoe", "blue"]),
    },
)
BATCHES = st.dictionaries(st.integers(0, 11), ROWS | st.none(), min_size=1, max_size=5)
"""By id what is saved; None is a deletion."""
STEPS = st.lists(
    st.tuples(st.just("batch"), BATCHES)
    | st.tuples(st.just("batch"), BATCHES)
    | st.tuples(st.just("commit"), BATCHES)
    | st.tuples(st.just("roll back"), BATCHES)
    | st.tuples(st.just("refused"), BATCHES)
    | st.tuples(st.just("erase"), st.integers(0, 11))
    | st.tuples(st.sampled_from(["forward", "forward", "create", "drop", "renew", "rebuild", "note"]), st.none())
    | st.tuples(st.just("begin"), st.tuples(st.sampled_from(["v", "deep.v", "text"]), st.integers(0, 3)))
    | st.tuples(st.sampled_from(["declare", "anew", "clear"]), st.none()),
    max_size=14,
)
STARTS = st.lists(st.sampled_from([("forward", None), ("create", None), ("anew", None)]), max_size=3)
"""What comes before there is a document."""


class History:
    """A collection that two processes change, and what should be in it."""

    def __init__(self, one: Database, other: Database) -> None:
        self.databases = (one, other)
        self.state: dict[int, dict[str, Any]] = {}
        self.noted: list[tuple[int, dict[int, dict[str, Any]]]] = []
        self.has_indexes = False
        self.indexes = dict(INDEXES)

    def step(self, place: int, verb: str, what: Any) -> None:
        database = self.databases[place % 2]
        if self.has_indexes and isinstance(what, dict):  # of what is refused see `refused`
            what = {number: None if row is None else fitting(row) for number, row in what.items()}
        things = database["things"]
        if verb == "begin":
            self._begin(things, *what)
        elif what is None:
            getattr(self, f"_{verb}")(database, things)
        elif verb == "erase":
            if what in self.state:
                things.erase(what)
            self.state.pop(what, None)
            for _, noted in self.noted:
                noted.pop(what, None)
        elif verb == "batch":
            with things.batch() as batch:
                write(batch, self.state, what)
            self.state = changed(self.state, what)
        elif verb == "refused":
            with suppress(InvalidRequestError), things.batch() as batch:
                write(batch, self.state, what)
                batch.save({"_id": 99, "v": [1.0, 2.0, 3.0]})
            if not self.has_indexes:  # then it came: it is no vector of an index that is made later
                self.state = changed(self.state, {**what, 99: {"v": [1.0, 2.0, 3.0]}})
        else:
            self._transact(database, verb, what)

    def _transact(self, database: Database, verb: str, batch: dict[int, Any]) -> None:
        # A transaction sees all that it wrote itself, also what has ended by its date: that is not asked here.
        what = {number: None if row is None else {**row, "until": LATER} for number, row in batch.items()}
        with database.transaction() as transaction:
            inner = transaction["things"]
            write(inner, self.state, what)
            self.check_found(inner, changed(self.state, what))
            self.check_searched(inner, changed(self.state, what))
            if verb == "roll back":
                transaction.rollback()
        if verb == "commit":
            self.state = changed(self.state, what)

    def _forward(self, _: Database, things: Collection[Document]) -> None:
        things.forward()

    def _create(self, _: Database, things: Collection[Document]) -> None:
        if self.has_indexes:
            return
        try:
            for name, (field, distance) in self.indexes.items():
                things.create_vector_index(field, dimensions=2, distance=distance, name=name)
            things.create_text_index("text")
        except InvalidRequestError:
            assert any(bad(document) for document in self.state.values())
            for index in things.indexes():
                if index.name != "_id":
                    things.drop_index(index.name)
        else:
            self.has_indexes = True

    def _drop(self, _: Database, things: Collection[Document]) -> None:
        if self.has_indexes:
            for name in (*self.indexes, "text"):
                things.drop_index(name)
        self.has_indexes = False

    def _declare(self, _: Database, things: Collection[Document]) -> None:
        """An index tells the distance before it is built."""
        if self.has_indexes or not self.state:
            return
        things.create_vector_index("deep.v", dimensions=2, distance="dot_product", name="later", wait=False)
        asked = {"vector": [1.0, 2.0], "k": 4, "exact": True}
        found = [(row["id"], score) for row, score in things.find(near={"deep.v": asked}).scored()]
        assert found == self.truth("deep.v", "dot_product", {}, self.state)[:4]
        things.drop_index("later")

    def _anew(self, database: Database, things: Collection[Document]) -> None:
        """Indexes by other distances, of a collection that has no document at that moment."""
        things.delete_many({})
        self.state = {}
        self._drop(database, things)
        self.indexes = {name: (field, OTHER[distance]) for name, (field, distance) in self.indexes.items()}
        self._create(database, things)

    def _renew(self, _: Database, things: Collection[Document]) -> None:
        if self.has_indexes:
            things._ledger.tend_lists(lambda lists: lists.renew("v"))

    def _clear(self, _: Database, things: Collection[Document]) -> None:
        """All documents go, and so does every entry of every run."""
        things.delete_many({})
        self.state = {number: document for number, document in self.state.items() if document.get("until") == PAST}

    def _begin(self, things: Collection[Document], name: str, steps: int) -> None:
        """Make lists anew by some steps; another process, a rebuild or a drop comes before the last."""

        def begin(lists: ListRenewal) -> None:
            found = lists._begin(name)
            for _ in range(steps):
                found = lists._step(name) if found is None else found

        if self.has_indexes:
            things._ledger.tend_lists(begin)

    def _rebuild(self, database: Database, _: Collection[Document]) -> None:
        pipeline(database, collection="things").rebuild()

    def _note(self, _: Database, things: Collection[Document]) -> None:
        self.noted.append((things._ledger.view().number, dict(self.state)))

    # --- what is found ---

    def check(self) -> None:
        for database in self.databases:
            self.check_found(database["things"], self.state)
            self.check_searched(database["things"], self.state)
            self.check_plans(database["things"])
            for number, state in self.noted:
                self.check_past(database["things"], number, state)
        self.databases[0]["things"].forward()
        self.check_found(self.databases[1]["things"], self.state)
        self.check_searched(self.databases[1]["things"], self.state)
        assert self.databases[0].verify(["things"])[0].findings == ()

    def check_found(self, things: Any, state: dict[int, dict[str, Any]]) -> None:
        for field, distance in self.indexes.values():
            is_only = [each for each, _ in self.indexes.values()].count(field) == 1
            for written in FILTERS:
                truth = self.truth(field, distance, written, state)
                for exact in (True, False) if self.has_indexes else (True,):
                    asked = {"vector": [1.0, 2.0], "k": 4, "exact": exact, "distance": distance}
                    found = [(row["id"], score) for row, score in things.find(written, near={field: asked}).scored()]
                    check_answer(found, truth, is_exact=exact)
                    if self.has_indexes and is_only:
                        del asked["distance"]
                        again = things.find(written, near={field: asked}).scored()
                        assert [(row["id"], score) for row, score in again] == found

    def check_searched(self, things: Any, state: dict[int, dict[str, Any]]) -> None:
        living = [document for document in state.values() if document.get("until") != PAST]
        fields = parse_fields(["text"], None)
        for text in SEARCHES:
            ranked = [(row["_id"], score) for score, row in rank_documents(SearchQuery(text).over(fields), living)]
            for asked_for in ({"query": text, "fields": ["text"]}, text) if self.has_indexes else ():
                found = [(row["id"], score) for row, score in things.find(search=asked_for).scored()]
                assert found == ranked, asked_for

    def check_plans(self, things: Collection[Document]) -> None:
        for field, distance in self.indexes.values():
            tree = parse_filter(FILTERS[2])
            truth = self.truth(field, distance, FILTERS[2], self.state)
            for exact in (True, False) if self.has_indexes else (True,):
                near = Near(tuple(field.split(".")), (1.0, 2.0), 4, distance, is_exact=exact)
                for _, found in plans(things, QueryRequest(filter=tree, near=near)):
                    check_answer(found, truth, is_exact=exact)

    def check_past(self, things: Collection[Document], number: int, state: dict[int, dict[str, Any]]) -> None:
        asked = {"vector": [1.0, 2.0], "k": 100, "exact": True, "distance": "euclidean"}
        rows = things.find(near={"v": asked}, as_of=number).scored()
        # What had ended by its date is told of a number as long as it was stored then.
        found = [(row["id"], score) for row, score in rows if row.get("until") != PAST]
        assert found == self.truth("v", "euclidean", {}, state)

    def truth(self, field: str, distance: Any, written: Any, state: dict[int, dict[str, Any]]) -> list[Any]:
        matches = compile_filter(parse_filter(written))
        there = [document for document in state.values() if document.get("until") != PAST and matches(document)]
        near = Near(tuple(field.split(".")), (1.0, 2.0), 1_000, distance)
        return [(document["_id"], score) for score, document in nearest(near, there)]


def check_answer(found: list[Any], truth: list[Any], *, is_exact: bool) -> None:
    if is_exact:
        assert found == truth[:4]
    assert set(found) <= set(truth), "within state and filter, with the right scores"
    assert found == [each for each in truth if each in found], "in order"
    assert len({identity for identity, _ in found}) == len(found), "no doubles"


def bad(document: dict[str, Any]) -> bool:
    """Whether an index refuses it."""
    deep = document.get("deep")
    return document["_id"] == 99 or isinstance(deep, list)


def fitting(row: dict[str, Any]) -> dict[str, Any]:
    """What every index takes: an array of objects has not one vector but many."""
    return {**row, "deep": None} if isinstance(row.get("deep"), list) else row


def changed(state: dict[int, dict[str, Any]], batch: dict[int, Any]) -> dict[int, dict[str, Any]]:
    made = {**state, **{number: {"_id": number, **row} for number, row in batch.items() if row is not None}}
    return {number: document for number, document in made.items() if batch.get(number, document) is not None}


def write(target: Any, state: dict[int, dict[str, Any]], batch: dict[int, Any]) -> None:
    for number, row in batch.items():
        if row is not None:
            target.save({"_id": number, **row})
        elif number in state and state[number].get("until") != PAST:
            target.delete(number)


def run(steps: Iterable[tuple[str, Any]]) -> None:
    url = empty_place()
    with (
        tiny_objects(step_entries=4),
        tiny_lists(),
        odd_merges(),
        wormdb.connect(url, settings=MANUAL) as one,
        wormdb.connect(url, settings=MANUAL) as other,
    ):
        one["things"].expire("until")
        history = History(one, other)
        for place, (verb, what) in enumerate(steps):
            history.step(place, verb, what)
        history.check()


@pytest.mark.long
@settings(max_examples=60)
@given(start=STARTS, steps=STEPS)
def test_what_is_near_lies_within_the_state_after_any_history_in_many_cases(start: list[Any], steps: list[Any]) -> None:
    run([*start, *steps])


@settings(max_examples=8)
@given(start=STARTS, steps=STEPS)
def test_what_is_near_lies_within_the_state_after_any_history(start: list[Any], steps: list[Any]) -> None:
    run([*start, *steps])
