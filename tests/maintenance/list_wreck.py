"""Collections with list indexes in every state, their objects by role, and what must be true of them in the end."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.engine.sweeps.commits import World, database_on
from tests.engine.sweeps.projections import tiny_lists
from tests.simulation.nodes import tiny_objects
from wormdb.bql.nearest import Near, nearest
from wormdb.bql.search.fields import parse_fields
from wormdb.bql.search.rank import rank_documents
from wormdb.bql.search.search import SearchQuery
from wormdb.engine.forward import rebuild_lists
from wormdb.engine.lists import advance, merge, postings
from wormdb.engine.lists import read as list_read
from wormdb.engine.lists import shelf as list_shelf
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.log.root import Register
from wormdb.format import list_columns, list_part
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document
    from wormdb.bql.nearest import Distance
    from wormdb.format.list_run import ListHead
    from wormdb.format.root import IndexRoot
    from wormdb.maintenance.collection import StoredCollection
    from wormdb.storage.store import Store

__all__ = [
    "PATHS",
    "PREFIX",
    "STAGES",
    "check_answers",
    "documents_in",
    "indexes_in",
    "made_world",
    "opened",
    "roles_in",
    "site_of",
    "small_objects",
    "thing",
]

PREFIX = "things/"
PATHS = EnginePaths.of_collection(PREFIX)
MANUAL: dict[str, Any] = {"forward": "manual", "forward_interval_ms": 0, "block_bytes": 700}
VECTORS: dict[str, Distance] = {"v": "euclidean", "deep.v": "cosine"}
TEXT = ("t^2", "more")
SEARCHES = ("red", "shoe OR blue", "red -w1", '"red shoe"', "w*")
ASKED = (1.0, -2.0, 1.0)


@contextmanager
def small_objects() -> Iterator[None]:
    """A few documents are in many lists, pages and objects, of which no object is read whole."""
    with ExitStack() as stack:
        stack.enter_context(tiny_objects(step_entries=4))
        stack.enter_context(tiny_lists())
        for module, name, size in (
            (list_shelf, "WHOLE_BYTES_MAX", 64),
            (list_shelf, "GAP_BYTES_MAX", 16),
            (list_part, "PAGE_BYTES", 60),
            (list_columns, "COLUMN_PAGE_BYTES", 60),
            (merge, "IDS_PER_PAGE", 4),
            (postings, "IDS_PER_PAGE", 4),
            (list_read, "IDS_PER_PAGE", 4),
        ):
            stack.enter_context(mock.patch.object(module, name, size))
        for user in (advance, rebuild_lists):
            stack.enter_context(mock.patch.object(user, "RunWriter", partial(merge.RunWriter, part_bytes=150)))
        yield


def opened(store: Store, seed: int = 1) -> Database:
    """A process that opens the bucket."""
    return database_on(store, seed=seed, **MANUAL)


def site_of(store: Store, seed: int = 1) -> StoredCollection:
    """The collection as verify and repair reach it."""
    return opened(store, seed)._site(PREFIX)


# --- worlds ---


def thing(number: int, turn: int = 0) -> dict[str, Any]:
    """A document that has vectors and words, some of them, or none."""
    made: dict[str, Any] = {"id": f"d{number:02}", "n": number}
    if number % 5:
        made |= {"t": f"red w{(number + turn) % 3}", "more": ["shoe", "blue", "red shoe"][(number + turn) % 3]}
    if number % 4:
        made["v"] = [number % 7 - 3, (number * 5 + turn) % 11 - 5, 1]
    if number % 3:
        made["deep"] = {"v": [1, number % 6 + turn, number % 2]}
    return made


def create_indexes(things: Collection[Document], *, wait: bool = True) -> None:
    """Two indexes of vectors, and one of words."""
    for field, distance in VECTORS.items():
        things.create_vector_index(field, dimensions=3, distance=distance, wait=wait)
    things.create_text_index(TEXT, language="english", name="text", wait=wait)


def _ready(world: World) -> None:
    """Lists in two runs, of which the newer takes back from the older; the tail changes some."""
    things = opened(world)["things"]
    things.insert_many([thing(number) for number in range(14)])
    things.forward()
    create_indexes(things)
    for number in (2, 5, 15):
        things.save(thing(number, 3))
    things.delete("d07")
    things.forward()
    things.save(thing(5, 4))
    things.save(thing(16))
    things.delete("d08")


def _renewed(world: World) -> None:
    """Beside lists that answer, others have the first documents."""
    _ready(world)
    for name in (*VECTORS, "text"):
        opened(world)["things"]._ledger.tend_lists(
            lambda lists, name=name: (lists._begin(name), lists._step(name), lists._step(name))
        )


def _building(world: World, name: str) -> None:
    """Lists of one index have the first documents, and the process died there. Some are ready, some were not begun."""
    things = opened(world)["things"]
    things.insert_many([thing(number) for number in range(14)])
    things.forward()
    create_indexes(things, wait=False)
    things.save(thing(5, 4))
    things.delete("d08")
    for crash in range(1, 400):
        tried = world.copy()
        with suppress(SimulatedCrash):
            opened(FaultStore(tried, {crash: Fault.CRASH_AFTER}), seed=2)["things"].forward()
        if any(index.name == name and _is_half(index) for index in indexes_in(tried)):
            world._shelf.entries = dict(tried._shelf.entries)
            world._shelf.keys = list(tried._shelf.keys)
            world.witnessed = dict(tried.witnessed)
            return
    raise AssertionError(f"the build of {name} is never half done")


def _is_half(index: IndexRoot) -> bool:
    return index.state == "building" and index.cursor is not None and bool(index.list_names)


STAGES: dict[str, Callable[[World], None]] = {
    "ready": _ready,
    "renewed": _renewed,
    "building vectors": partial(_building, name="deep.v"),
    "building words": partial(_building, name="text"),
}
"""Which states list indexes are in."""


def made_world(stage: str) -> World:
    """A bucket with list indexes in a state; every caller gets a copy of its own. Call it within `small_objects`."""
    return _made(stage).copy()


@cache
def _made(stage: str) -> World:
    world = World()
    STAGES[stage](world)
    return world


# --- objects ---


def indexes_in(world: World) -> list[IndexRoot]:
    """The list indexes of the root."""
    root = Register(world, PATHS, PREFIX).read().root
    assert root is not None
    return [one for one in root.indexes if one.lists is not None]


def roles_in(world: World) -> dict[str, str]:
    """Objects by what they are for: the key of the last one of each role."""
    found: dict[str, str] = {}
    for index in indexes_in(world):
        heads: list[tuple[str, ListHead | None]] = [("", index.lists)]
        heads += [("new ", index.successor.head)] if index.successor is not None else []
        for prefix, head in heads:
            assert head is not None
            for age, run in zip(("newest", "oldest"), (head.runs[:1], head.runs[1:][-1:]), strict=True):
                for what, parts in (("lists", run[0].parts if run else ()), ("ids", run[0].ids if run else ())):
                    for place, part in zip(("first", "last"), (parts[:1], parts[1:][-1:]), strict=True):
                        if part:
                            role = f"{prefix}{index.name} {age} {place} {what}"
                            found[role] = f"{PATHS.index(index.name)}{part[0].name}"
            if head.trained is not None:
                found[f"{prefix}{index.name} learned"] = f"{PATHS.index(index.name)}{head.trained.name}"
    return found


# --- answers ---


def documents_in(store: Store) -> dict[Any, dict[str, Any]]:
    """All documents, by a process that knows nothing yet."""
    found = opened(store, seed=50)["things"].find().to_list()
    return {row["id"]: {"_id": row["id"], **{key: row[key] for key in row if key != "id"}} for row in found}


def check_answers(database: Database, documents: dict[Any, dict[str, Any]], *, by_lists: bool) -> None:
    """What is near and what is found is what pure functions say of these documents: without lists, or by them too."""
    things = database["things"]
    states = {each.name: each.state for each in things.indexes()}
    fields = parse_fields(TEXT, "english")
    for field, distance in VECTORS.items():
        near = Near(tuple(field.split(".")), ASKED, 1_000, distance)
        truth = [(document["_id"], score) for score, document in nearest(near, documents.values())]
        for exact in (True, False) if by_lists and states.get(field) == "ready" else (True,):
            asked = {"vector": list(ASKED), "k": 5, "exact": exact, "distance": distance}
            found = [(row["id"], score) for row, score in things.find(near={field: asked}).scored()]
            assert set(found) <= set(truth), (field, exact)
            assert found == (truth[:5] if exact else [each for each in truth if each in found]), (field, exact)
            assert len(found) == len(dict(found)), (field, exact)
            assert found or not truth, (field, exact)
    for text in SEARCHES if "text" in states else ():
        expected = rank_documents(SearchQuery(text).over(fields), documents.values())
        for strategy in ("full_scan", "index_lookup") if by_lists and states.get("text") == "ready" else ("full_scan",):
            found = [(score, row["id"]) for row, score in things.find(search=text, strategy=strategy).scored()]
            assert found == [(score, row["_id"]) for score, row in expected], (text, strategy)
