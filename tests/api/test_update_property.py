"""Random changes by filter leave what a dict leaves to which the language is applied document by document."""

from __future__ import annotations

from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.bql.positions import compile_positions
from wormdb.bql.sorting import parse_sort, sort_key
from wormdb.bql.update.update import apply_update, parse_update
from wormdb.bql.update.upsert import check_replacement, upsert_document
from wormdb.errors import AlreadyExistsError, WormError
from wormdb.format import json
from wormdb.format.wrappers import moment
from wormdb.settings import Settings
from wormdb.storage.memory import drop_memory
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

NOW = moment(0)
"""No operator of these cases looks at the time."""

# --- what is called ---

scalars = st.sampled_from([0, 1, 2, 2.5, "x", None])
identities = st.sampled_from(["a", "b", "c", "d"])
documents = st.fixed_dictionaries(
    {}, optional={"n": scalars, "k": scalars, "list": st.lists(scalars, max_size=3), "sub": st.just({"n": 1})}
)
filters = st.one_of(
    st.just({}),
    st.builds(lambda key: {"id": key}, identities),
    st.builds(lambda key, value: {"_id": key, "n": value}, identities, scalars),
    st.builds(lambda value: {"n": value}, scalars),
    st.builds(lambda value: {"n": {"$gte": value}}, st.sampled_from([0, 1, "x"])),
    st.builds(lambda value: {"list": value}, scalars),
    st.builds(lambda keys: {"id": {"$in": keys}}, st.lists(identities, max_size=2)),
    st.builds(lambda value: {"$or": [{"k": value}, {"sub.n": 1}]}, scalars),
)
updates = st.one_of(
    st.builds(lambda value: {"$set": {"n": value}}, scalars),
    st.builds(lambda value: {"$inc": {"n": value}}, st.sampled_from([0, 1, 0.5])),
    st.builds(lambda value: {"$max": {"k": value}, "$unset": {"n": ""}}, scalars),
    st.builds(lambda value: {"$push": {"list": value}}, scalars),
    st.builds(lambda value: {"$addToSet": {"list": value}, "$setOnInsert": {"new": True}}, scalars),
    st.builds(lambda value: {"$set": {"list.$": value}}, scalars),
    st.just({"$rename": {"n": "k"}}),
    st.just({"$inc": {"sub.n": 1, "list.0": 1}}),
    st.just({"$setOnInsert": {"_id": "d"}, "$set": {"k": 1}}),
)
sorts = st.sampled_from([None, "n", "-n", "-id", ["k", "-n"]])


@dataclass(frozen=True)
class Call:
    """One call, to be made on a collection and on the model."""

    verb: str
    filter: dict[str, Any]
    change: dict[str, Any] = field(default_factory=dict)
    upsert: bool = False
    sort: Any = None
    which: Any = "before"


def calls() -> st.SearchStrategy[Call]:
    return st.one_of(
        st.builds(Call, st.just("update_one"), filters, updates, st.booleans(), sorts),
        st.builds(Call, st.just("update_many"), filters, updates, st.booleans()),
        st.builds(Call, st.just("replace_one"), filters, documents, st.booleans(), sorts),
        st.builds(Call, st.sampled_from(["delete_one", "find_one_and_delete"]), filters, sort=sorts),
        st.builds(Call, st.sampled_from(["delete_many", "forward"]), filters),
        st.builds(
            Call,
            st.just("find_one_and_update"),
            filters,
            updates,
            st.booleans(),
            sorts,
            st.sampled_from(["before", "after"]),
        ),
    )


# --- the model ---

State = dict[Any, dict[str, Any]]


def _same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return json.encode_document(a) == json.encode_document(b)


def _shown(document: dict[str, Any]) -> dict[str, Any]:
    return {("id" if name == "_id" else name): value for name, value in document.items()}


@dataclass
class Model:
    """A collection as a dict."""

    state: State

    def found(self, call: Call) -> list[dict[str, Any]]:
        matches = compile_filter(parse_filter(call.filter))
        found = sorted(filter(matches, self.state.values()), key=sort_key(parse_sort(call.sort)))
        return found if call.verb.endswith("many") else found[:1]

    def run(self, call: Call, made: Any) -> object:
        """What the call tells; `made` is the id that a document without one gets. An error changes nothing."""
        if call.verb == "forward":
            return None
        found = self.found(call)
        if "delete" in call.verb:
            for document in found:
                del self.state[document["_id"]]
            if call.verb == "find_one_and_delete":
                return _shown(found[0]) if found else None
            return len(found)
        edit, start = self._edit(call)
        after = [edit(document) for document in found]
        inserted = start() if not found and call.upsert else None
        if inserted is not None:
            if inserted.get("_id") in self.state:
                raise AlreadyExistsError("it is there")
            inserted = {"_id": inserted.get("_id", made), **inserted}
            self.state[inserted["_id"]] = inserted
        self.state.update((document["_id"], document) for document in after)
        if call.verb == "find_one_and_update":
            of_before, of_after = found, [inserted] if inserted else after
            shown = of_before if call.which == "before" else of_after
            return _shown(shown[0]) if shown else None
        modified = sum(not _same(old, new) for old, new in zip(found, after, strict=True))
        return (len(found), modified, None if inserted is None else inserted["_id"])

    def _edit(self, call: Call) -> tuple[Callable[[dict[str, Any]], dict[str, Any]], Callable[[], dict[str, Any]]]:
        tree = parse_filter(call.filter)
        if call.verb == "replace_one":
            # The filters of these cases name an id at the top or not at all.
            own = {"_id": call.filter.get("id", call.filter.get("_id"))}
            given = own if isinstance(own["_id"], str) else {}
            return (lambda old: check_replacement(call.change, identity=old["_id"])), (lambda: given | call.change)
        update = parse_update(call.change, query=tree)
        positions = compile_positions(tree, update.arrays)
        return (
            lambda old: apply_update(update, old, matched=positions(old), now=NOW),
            lambda: upsert_document(tree, update, now=NOW),
        )


# --- the collection ---


def told(things: Collection[Document], call: Call) -> object:
    """What a collection tells of a call, as the model does."""
    options = {} if call.sort is None else {"sort": call.sort}
    match call.verb:
        case "forward":
            things.forward()
            return None
        case "update_one":
            result = things.update_one(call.filter, call.change, upsert=call.upsert, **options)
        case "update_many":
            result = things.update_many(call.filter, call.change, upsert=call.upsert)
        case "replace_one":
            result = things.replace_one(call.filter, call.change, upsert=call.upsert, **options)
        case "delete_one":
            return things.delete_one(call.filter, **options).deleted
        case "delete_many":
            return things.delete_many(call.filter).deleted
        case "find_one_and_delete":
            return things.find_one_and_delete(call.filter, **options)
        case _:
            return things.find_one_and_update(
                call.filter, call.change, upsert=call.upsert, return_document=call.which, **options
            )
    return (result.matched, result.modified, result.upserted_id)


def outcome(run: Callable[[], object]) -> object:
    """What is told, or which error is raised."""
    try:
        found = run()
    except WormError as error:
        return type(error)
    return json.encode_document(dict(found)) if isinstance(found, dict) else found


def check(things: Collection[Document], start: State, plan: list[Call]) -> None:
    """Make all calls on a collection and on the model."""
    things.insert_many([{"id": key, **values} for key, values in start.items()])
    model = Model({key: {"_id": key, **values} for key, values in start.items()})
    for call in plan:
        before = set(model.state)
        found = outcome(lambda: told(things, call))  # noqa: B023 - called at once
        after = {document.id: document for document in things}
        made = next(iter(after.keys() - before), None)
        assert found == outcome(lambda: model.run(call, made)), call  # noqa: B023 - called at once
        assert {key: json.encode_document(dict(values)) for key, values in after.items()} == {
            key: json.encode_document(_shown(values)) for key, values in model.state.items()
        }, call


states = st.dictionaries(identities, documents, max_size=4)
plans = st.lists(calls(), max_size=6)


@given(states, plans)
def test_in_memory(start: State, plan: list[Call]) -> None:
    try:
        with wormdb.connect("memory://random-changes", clock=ManualClock()) as database:
            check(database["things"], start, plan)
    finally:
        drop_memory("random-changes")


@settings(max_examples=15)
@given(states, plans)
def test_in_a_folder_with_large_batches(start: State, plan: list[Call]) -> None:
    """Every batch of two documents is large."""
    with (
        TemporaryDirectory() as folder,
        wormdb.connect(folder, clock=ManualClock(), settings=Settings(stage_bytes=300)) as database,
    ):
        check(database["things"], start, plan)
