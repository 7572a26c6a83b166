"""A transaction at random, by the calls that users make, against a dict: in it, after it, and beside other writers."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from tests.api.transactions.rig import connect
from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.errors import AlreadyExistsError, NotFoundError, TransactionConflictError
from wormdb.settings import Settings

if TYPE_CHECKING:
    import wormdb

Values = dict[str, Any]
Documents = dict[str, Values]

IDS = st.sampled_from("abcd")
NUMBERS = st.integers(0, 3)
NAMES = st.sampled_from(["one", "two"])
FILTERS: list[Values] = [{}, {"n": 1}, {"n": {"$gte": 2}}, {"n": {"$lt": 2}}, {"id": "a"}, {"n": 99}]
ACTS = st.one_of(
    st.tuples(st.just("insert"), IDS, NUMBERS),
    st.tuples(st.just("save"), IDS, NUMBERS),
    st.tuples(st.just("modify"), IDS, NUMBERS),
    st.tuples(st.just("delete"), IDS, NUMBERS),
    st.tuples(st.just("update"), st.sampled_from(FILTERS), NUMBERS),
    st.tuples(st.just("remove"), st.sampled_from(FILTERS), NUMBERS),
    st.tuples(st.just("resave"), IDS, NUMBERS),
)
READS = st.one_of(
    st.tuples(st.just("id"), IDS),
    st.tuples(st.sampled_from(["find", "count", "sum"]), st.sampled_from(FILTERS)),
)
_places = count()


def matching(documents: Documents, written: Values) -> list[str]:
    matches = compile_filter(parse_filter({("_id" if name == "id" else name): one for name, one in written.items()}))
    return [each for each, values in sorted(documents.items()) if matches({"_id": each, **values})]


def act(collection: Any, documents: Documents, verb: str, target: Any, number: int) -> None:
    """The same to a collection and to a dict."""
    match verb:
        case "insert":
            with suppress(AlreadyExistsError):
                collection.insert({"id": target, "n": number})
                assert target not in documents
                documents[target] = {"n": number}
        case "save":
            collection.save({"id": target, "n": number})
            documents[target] = {"n": number}
        case "modify":
            with suppress(NotFoundError):
                collection.modify(target, lambda found: {**found, "n": number})
                documents[target] = {"n": number}
        case "resave":
            found = collection.find_by_id(target)
            assert (found is not None) == (target in documents)
            if found is not None:
                collection.save(found | {"n": number})
                documents[target] = {"n": number}
        case "delete":
            assert collection.delete(target) == (documents.pop(target, None) is not None)
        case "update":
            meant = matching(documents, target)
            assert collection.update_many(target, {"$set": {"n": number}}).matched == len(meant)
            documents.update({each: {"n": number} for each in meant})
        case _:
            meant = matching(documents, target)
            assert collection.delete_many(target).deleted == len(meant)
            for each in meant:
                del documents[each]


def read(collection: Any, documents: Documents, how: str, target: Any) -> None:
    """What a collection says is what the dict says."""
    if how == "id":
        found = collection.find_by_id(target)
        assert (None if found is None else {"n": found["n"]}) == documents.get(target)
        return
    meant = matching(documents, target)
    if how == "find":
        assert [(one.id, one["n"]) for one in collection.find(target)] == [
            (each, documents[each]["n"]) for each in meant
        ]
    elif how == "count":
        assert collection.count(target) == len(meant)
    else:
        assert collection.aggregate(filter=target, count=True)["count"] == len(meant)


def contents(db: wormdb.Database, name: str) -> Documents:
    return {one.id: {"n": one["n"]} for one in db[name].find()}


@given(
    before=st.lists(st.tuples(NAMES, ACTS), max_size=4),
    steps=st.lists(st.tuples(NAMES, ACTS | READS), min_size=1, max_size=8),
    is_forwarded=st.booleans(),
    isolation=st.sampled_from(["serializable", "snapshot"]),
    is_kept=st.booleans(),
)
def test_a_transaction_does_what_a_dict_does(
    before: list[Any], steps: list[Any], is_forwarded: bool, isolation: Any, is_kept: bool
) -> None:
    with connect(
        f"memory://property-{next(_places)}", settings=Settings(forward="manual", transaction_seconds=600)
    ) as db:
        model: dict[str, Documents] = {"one": {}, "two": {}}
        for name, step in before:
            act(db[name], model[name], *step)
        if is_forwarded:
            db.forward(["one", "two"])
        first = {name: dict(documents) for name, documents in model.items()}
        tx = db.transaction(isolation=isolation)
        for name, step in steps:
            (act if len(step) == 3 else read)(tx[name], model[name], *step)
            assert contents(db, name) == first[name], "nothing is written before the end"
        if is_kept:
            tx.commit()
        else:
            tx.rollback()
        expected = model if is_kept else first
        assert {name: contents(db, name) for name in model} == expected
        with db.snapshot(["one", "two"]) as moment:
            assert [moment[name].count() for name in model] == [len(expected[name]) for name in model]
        db.forward(["one", "two"])
        assert {name: contents(db, name) for name in model} == expected


@given(
    before=st.lists(st.tuples(NAMES, ACTS), max_size=4),
    steps=st.lists(st.tuples(NAMES, ACTS | READS), min_size=1, max_size=5),
    rival=st.lists(st.tuples(st.integers(0, 4), NAMES, ACTS), max_size=3),
)
def test_beside_other_writers_it_is_as_if_it_happened_at_its_end(
    before: list[Any], steps: list[Any], rival: list[Any]
) -> None:
    """Serializable: either it is refused, or all that it was told is true at the end, and all that it does is there."""
    place = f"memory://property-{next(_places)}"
    with connect(place) as db, connect(place) as other:
        truth: dict[str, Documents] = {"one": {}, "two": {}}
        for name, step in before:
            act(db[name], truth[name], *step)
        changed: list[Any] = []

        def disturb(at: int) -> None:
            for place, name, step in rival:
                if place == at:
                    act(other[name], truth[name], *step)
                    changed.append((name, step))

        def work(tx: wormdb.Transaction) -> dict[str, Documents]:
            seen: dict[str, Documents] = {}
            for place, (name, step) in enumerate(steps):
                if name not in seen:
                    seen[name] = {one.id: {"n": one["n"]} for one in tx[name].find()}
                (act if len(step) == 3 else read)(tx[name], seen[name], *step)
                disturb(place)
            return seen

        tx = db.transaction()
        try:
            seen = work(tx)
            tx.commit()
        except TransactionConflictError:
            assert changed, "without other writers there are no conflicts"
            expected = truth
        else:
            expected = {**truth, **seen}
        assert {name: contents(db, name) for name in truth} == expected
        assert {name: contents(other, name) for name in truth} == expected
