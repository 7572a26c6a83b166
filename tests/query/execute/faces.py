"""Every way to ask a collection, each held to the pure functions on the list of its documents.

A face takes a world, a question that has to do with it, and chance. Faces that change documents leave the world as it
is then, so that more questions can follow.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.query.execute.questions import PATHS
from tests.query.execute.world import NOW, STAMPS, answer, canonical
from wormdb.api.arrow import declared_type
from wormdb.api.columns import ArrowColumn
from wormdb.bql.aggregation import aggregate, parse_aggregation
from wormdb.bql.match import compile_filter
from wormdb.bql.update.update import apply_update, parse_update
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.engine.columns.scan import portions_of
from wormdb.engine.state.view import StoredVersion
from wormdb.errors import InvalidRequestError, ValidationError
from wormdb.format import json
from wormdb.format.key import encode_key
from wormdb.jobs.row_filter import RowFilter
from wormdb.jobs.scan import share_portions
from wormdb.jobs.shares import shares
from wormdb.jobs.state import PinnedState
from wormdb.query.execute.answer import aggregate_plan, count_plan, needed_request, run_plan
from wormdb.query.planner.planner import candidates
from wormdb.query.request import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tests.query.execute.questions import Question
    from tests.query.execute.world import World
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.view import View

    Face = Callable[["World", "Question", st.DataObject], None]

__all__ = ["FACES", "WorldState"]

Values = dict[str, Any]

_NAMES = st.sampled_from([path for path in PATHS if path != "_id"] + ["id"])


# --- what must be answered ---


def _expected(question: Question, documents: Mapping[bytes, Values]) -> list[Values]:
    return [row for _, _, row in answer(question.request, documents)]


def _matching(question: Question, world: World) -> list[Values]:
    return list(filter(compile_filter(question.request.filter), world.documents.values()))


def _shown(rows: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Rows in one form: the id has two names."""
    return [canonical({("_id" if name == "id" else name): value for name, value in row.items()}) for row in rows]


def _things(world: World, data: st.DataObject) -> Collection[Document]:
    """The collection for a process that was there all the time, or for a new one."""
    return world.things if data.draw(st.integers(0, 2)) else world.opened()


# --- rows ---


def find(world: World, question: Question, data: st.DataObject) -> None:
    """All rows, by every strategy that can be used."""
    _by_every_strategy(_things(world, data), question, world)


def _by_every_strategy(things: Collection[Document], question: Question, world: World) -> None:
    expected = _shown(_expected(question, world.documents))
    for strategy in (None, *STRATEGIES):
        try:
            found = things.find_all(question.filter, strategy=strategy, **question.options)
        except InvalidRequestError as error:
            assert strategy not in (None, "full_scan")
            assert "not available" in error.what  # noqa: PT017 - others are raised again by the next strategy
            continue
        assert _shown(found) == expected, strategy
        raw = things.find_all(question.filter, strategy=strategy, raw=True, **question.options)
        assert raw == list(map(raw_of, found)), strategy


def raw_of(row: Mapping[str, Any]) -> bytes:
    """The JSON of a row as it is shown."""
    return json.encode(dict(row))


def find_one(world: World, question: Question, data: st.DataObject) -> None:
    """The first row."""
    things = _things(world, data)
    first = things.find_one(question.filter, sort=list(question.sort), select=question.select)
    whole = [row for _, _, row in answer(_without_part(question).request, world.documents)]
    assert _shown([] if first is None else [first]) == _shown(whole[:1])


def _without_part(question: Question, **more: Any) -> Question:
    return type(question)(question.filter, question.sort, None, 0, more.get("select", question.select))


def pages(world: World, question: Question, data: st.DataObject) -> None:
    """The rows page by page, each by another process if chance will have it."""
    whole = _without_part(question)
    options = {"sort": list(question.sort), "select": question.select, "limit": data.draw(st.integers(1, 3))}
    found, token = [], None
    while True:
        page = _things(world, data).find(question.filter, page=token, **options)
        found += page.to_list()
        token = page.next_page
        if token is None:
            break
    assert _shown(found) == _shown(_expected(whole, world.documents))


def cursor(world: World, question: Question, data: st.DataObject) -> None:
    """The rows in batches, whatever is written meanwhile, and by another process after the first."""
    expected = _shown(_expected(_without_part(question), world.documents))
    options = {"sort": list(question.sort), "select": question.select}
    opened = _things(world, data).cursor(question.filter, batch_size=data.draw(st.integers(1, 3)), **options)
    found = list(opened.next_batch() or [])
    if data.draw(st.booleans()) and world.documents:
        world.remove(next(iter(world.documents.values()))["_id"])
        if data.draw(st.booleans()):
            world.forward()
    if data.draw(st.booleans()):
        opened = world.opened().resume(opened.token)
    for batch in iter(opened.next_batch, []):
        found += batch
    assert _shown(found) == expected


def past(world: World, question: Question, data: st.DataObject) -> None:
    """The rows of a state of before."""
    if not world.past:
        return
    number = data.draw(st.sampled_from(sorted(world.past)))
    expected = _expected(question, world.past[number])
    things = _things(world, data)
    assert _shown(things.find_all(question.filter, as_of=number, **question.options)) == _shown(expected)
    matching = filter(compile_filter(question.request.filter), world.past[number].values())
    assert things.count(question.filter, as_of=number) == sum(1 for _ in matching)


def files(world: World, question: Question, data: st.DataObject) -> None:
    """All rows as somebody else's readable files have them, by every strategy that can be used."""
    del data
    if not world.has_model:
        return  # readable files are a model's
    things = world.of_files()
    _by_every_strategy(things, question, world)
    assert things.count(question.filter) == len(_matching(question, world))


def plans(world: World, question: Question, data: st.DataObject) -> None:
    """Every plan that would do."""
    del data
    request, source = question.request, world.source()
    expected = _shown(_expected(question, world.documents))
    for plan in candidates(request, source.facts):
        assert _shown(hit.document for hit in run_plan(plan.root, request, source)) == expected, plan.root


# --- numbers ---


def count(world: World, question: Question, data: st.DataObject) -> None:
    """How many, with and without limits."""
    things = _things(world, data)
    assert things.count(question.filter) == len(_matching(question, world))
    options = {name: question.options[name] for name in ("sort", "limit", "offset")}
    assert things.find(question.filter, **options).count() == len(_expected(question, world.documents))


def counts(world: World, question: Question, data: st.DataObject) -> None:
    """The same by every plan."""
    del data
    request, source = replace(_without_part(question, select=None).request, is_count=True), world.source()
    for plan in candidates(request, source.facts):
        assert count_plan(plan.root, request, source) == len(_matching(question, world)), plan.root


def distinct(world: World, question: Question, data: st.DataObject) -> None:
    """The different values of a path."""
    name = data.draw(_NAMES)
    pure = aggregate(parse_aggregation({"distinct": name}), _matching(question, world))["distinct"]
    found = _things(world, data).distinct(name, question.filter)
    assert list(map(canonical, found)) == list(map(canonical, pure))


def sums(world: World, question: Question, data: st.DataObject) -> None:
    """Functions in groups and of all, by the plan that is chosen and by every other."""
    names = st.lists(_NAMES, min_size=1, max_size=2, unique=True)
    functions: Values = {"count": True, "group_by": data.draw(st.none() | names)}
    functions |= {name: data.draw(names) for name in ("sum", "avg", "min", "max") if data.draw(st.booleans())}
    aggregation = parse_aggregation(functions)
    pure = canonical(aggregate(aggregation, _matching(question, world)))
    assert canonical(_things(world, data).aggregate(filter=question.filter, **functions)) == pure
    source, asked = world.source(), needed_request(aggregation, _without_part(question, select=None).request)
    if asked is not None:
        for plan in candidates(asked, source.facts):
            assert canonical(aggregate_plan(plan.root, aggregation, asked, source)) == pure, plan.root


def explained(world: World, question: Question, data: st.DataObject) -> None:
    """What `explain` counted while it did it."""
    found = _things(world, data).explain(question.filter, analyze=True, **question.options)
    assert found.rows == len(_expected(question, world.documents))


def ids(world: World, question: Question, data: st.DataObject) -> None:
    """Single documents by their ids, and whether they are there."""
    del question
    things = _things(world, data)
    for one in list(world.documents.values())[:3]:
        assert things.exists(one["_id"])
        found = things.find_by_id(one["_id"])
        assert found is not None
        assert _shown([found]) == _shown([one])
    assert not things.exists("nobody has this id")


# --- rows as tasks of jobs read them ---


@dataclass(frozen=True)
class WorldState(PinnedState):
    """The state of a world as tasks have it."""

    world: World = field(kw_only=True)

    @classmethod
    def at(cls, world: World) -> WorldState:
        """As it is now; nothing is pinned, because nothing happens meanwhile."""
        nowhere: Any = None
        return cls(nowhere, nowhere, world=world)

    def newest(self) -> View:
        """As `PinnedState`."""
        return self.world.ledger.view()

    @property
    def ledger(self) -> Ledger:
        """As `PinnedState`."""
        return self.world.ledger


def shared(world: World, question: Question, data: st.DataObject) -> None:
    """The documents that match, in shares of several tasks."""
    state, chosen = WorldState.at(world), RowFilter.of(question.request.filter.text)
    several = shares(state, chosen.narrowing(), tasks=data.draw(st.sampled_from([1, 2, 3, None])))
    portions = [portion for share in several for portion in share_portions(state, share, ["_id", DOCUMENT], chosen)]
    found = {
        encode_key(identity): json.decode_document(body, name="document")
        for portion in portions
        for identity, body in zip(portion.values("_id"), portion.documents(), strict=True)
    }
    assert sum(portion.rows for portion in portions) == len(found), "each document comes once"
    expected = {encode_key(one["_id"]): one for one in _matching(question, world)}
    assert {key: canonical(one) for key, one in found.items()} == {key: canonical(one) for key, one in expected.items()}


# --- tables ---


def table(world: World, question: Question, data: st.DataObject) -> None:
    """The rows as a table: the same as of the rows that pure functions give, laid out from memory."""
    names = data.draw(st.lists(st.sampled_from(["a", "b", "n", "t"]), min_size=1, unique=True))
    asked = type(question)(question.filter, question.sort, question.limit, question.offset, names)
    found = _things(world, data).find(asked.filter, **asked.options).to_arrow()
    view = world.ledger.view()
    whole = type(question)(question.filter, question.sort, question.limit, question.offset, None)
    rows = [
        StoredVersion(json.encode(one["_id"]), 0, 0, json.encode_document(one))
        for one in _expected(whole, world.documents)
    ]
    columns = {name: ArrowColumn(name, declared_type(view.definition.model, name)) for name in ("_id", *names)}
    for portion in portions_of(view, rows, list(columns)):
        for column in columns.values():
            column.add(portion)
    for name, column in columns.items():
        made, got = column.finish(), found.column("id" if name == "_id" else name)
        assert str(got.type) == str(made.type), name
        assert repr(got.to_pylist()) == repr(made.to_pylist()), name
    assert found.num_rows == len(rows)


# --- changes ---


def _changed(world: World, expected: dict[bytes, Values], act: Callable[[], Any]) -> Any:
    """Do it, and see that all documents are as expected; None if the model refuses what documents would be then."""
    try:
        result = act()
    except (ValidationError, InvalidRequestError):
        world.settle(dict(world.documents))
        return None
    world.settle(expected)
    return result


_UPDATE = {"$set": {"mark": 1}}


def update_many(world: World, question: Question, data: st.DataObject) -> None:
    """A change of all that match."""
    change = partial(apply_update, parse_update(_UPDATE), now=NOW)
    matches = compile_filter(question.request.filter)
    meant = {key for key, one in world.documents.items() if matches(one)}
    expected = {key: change(one) if key in meant else one for key, one in world.documents.items()}
    things = _things(world, data)
    done = _changed(world, expected, lambda: things.update_many(question.filter, _UPDATE))
    assert done is None or done.matched == len(meant)


def delete_many(world: World, question: Question, data: st.DataObject) -> None:
    """All that match go."""
    matches = compile_filter(question.request.filter)
    expected = {key: one for key, one in world.documents.items() if not matches(one)}
    gone = len(world.documents) - len(expected)
    things = _things(world, data)
    done = _changed(world, expected, lambda: things.delete_many(question.filter))
    assert done is None or done.deleted == gone


def change_first(world: World, question: Question, data: st.DataObject) -> None:
    """The first that matches in an order is changed, replaced, or goes; and is shown as it was."""
    found = answer(_without_part(question, select=None).request, world.documents)
    key, _, before = found[0] if found else (b"", b"", {})
    expected, things, sort = dict(world.documents), _things(world, data), list(question.sort)
    how = data.draw(st.sampled_from(["update", "replace", "delete", "delete one"]))
    act: Callable[[], Any]
    match how:
        case "update":
            changed: Values | None = apply_update(parse_update(_UPDATE), before, now=NOW) if found else None
            act = partial(things.find_one_and_update, question.filter, _UPDATE, sort=sort)
        case "replace":
            changed = {"_id": before["_id"], "mark": 2} if found else None
            act = partial(things.find_one_and_replace, question.filter, {"mark": 2}, sort=sort)
        case "delete":
            changed, act = None, partial(things.find_one_and_delete, question.filter, sort=sort)
        case _:
            changed, act = None, partial(things.delete_one, question.filter, sort=sort)
    expected.pop(key, None)
    if changed is not None:
        expected[key] = changed
    done = _changed(world, expected, act)
    if how != "delete one" and done is not None:
        assert _shown([_plain(done)]) == _shown([_plain(before)])


def _plain(document: Mapping[str, Any]) -> Values:
    return {name: value for name, value in document.items() if name not in STAMPS}


FACES: dict[str, Face] = {
    face.__name__: face
    for face in (
        find,
        find_one,
        pages,
        cursor,
        past,
        files,
        plans,
        count,
        counts,
        distinct,
        sums,
        explained,
        ids,
        shared,
        table,
        update_many,
        delete_many,
        change_first,
    )
}
