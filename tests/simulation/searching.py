"""Indexes of vectors and words in a simulated run: made, dropped, made anew and searched by several nodes at once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.engine.forward.compact_rig import rebuild_trees
from tests.simulation.replay import Violation
from wormdb.bql.nearest import Near, nearest
from wormdb.bql.search.fields import parse_fields
from wormdb.bql.search.rank import rank_documents
from wormdb.bql.search.search import SearchQuery
from wormdb.engine.forward.compact import Aim
from wormdb.engine.lists.definition import kind_for, list_index
from wormdb.engine.lists.text_kind import TextKind
from wormdb.engine.lists.vector_kind import VectorKind
from wormdb.errors import (
    ConflictError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    UnavailableError,
)

if TYPE_CHECKING:
    from tests.simulation.client import Client
    from tests.simulation.history import Call
    from tests.simulation.nodes import World
    from tests.simulation.replay import Replay, State
    from wormdb.bql.search.fields import SearchFields
    from wormdb.engine.forward.renew import ListRenewal
    from wormdb.engine.tree.definition import Index

__all__ = ["Searching"]

K = 3
TITLES, BOTH = parse_fields(["title"], "english"), parse_fields(["title^3", "body"], None)


class Searching:
    """Whatever becomes of indexes meanwhile, what is found is what the documents of one state say."""

    indexes = (
        list_index("byV", VectorKind("v", 2, "euclidean")),
        list_index("byV", VectorKind("v", 2, "cosine")),
        list_index("byW", VectorKind("w", 3, "dot_product")),
        list_index("byText", TextKind(TITLES)),
        list_index("byText", TextKind(BOTH)),
    )
    """Those of one name take turns: what one left must not answer for the other."""
    words = ("red", "shoes", "running", "blue", "run")

    def begin(self, client: Client) -> None:
        """Some documents, and two indexes."""
        client.flush("many", [], [{"_id": f"p{number}", **self._values(client)} for number in range(6)])
        client.create_index(self.indexes[0])
        client.create_index(self.indexes[3])
        client.node.ledger.forward()

    def step(self, client: Client) -> None:
        """Write, make an index or drop one, make its lists anew, search."""
        world = client.world
        name = f"p{int(world.chance.fraction() * 12)}"
        match world.pick(
            *("save", "save", "many", "delete", "clear", "create", "create", "drop", "renew", "tend", "rebuild"),
            *("exact", "near", "near", "near", "search", "search", "fields"),
        ):
            case "save":
                client.save({"_id": name, **self._values(client)})
            case "many":
                names = dict.fromkeys([name, *(f"p{int(world.chance.fraction() * 12)}" for _ in range(4))])
                client.flush("many", [], [{"_id": each, **self._values(client)} for each in names])
            case "delete":
                client.delete(name)
            case "clear":
                # So that runs have nothing left that counts.
                client.flush("many", [], [{"_id": f"p{number}", "n": 1} for number in range(12)])
            case "create":
                client.create_index(self._index(world))
            case "drop":
                client.drop_index(self._index(world).name)
            case "renew" | "tend" | "rebuild" as kind:
                self._care(client, kind)
            case "exact" | "near" as kind:
                self._find_near(client, exact=kind == "exact")
            case kind:
                self._search(client, by_fields=kind == "fields")

    def _index(self, world: World) -> Index:
        return self.indexes[int(world.chance.fraction() * len(self.indexes))]

    def _values(self, client: Client) -> dict[str, Any]:
        world = client.world
        made: dict[str, Any] = {"n": client.new_value()}
        if world.likely(0.8):
            made["v"] = [1.0 + int(world.between(0, 5)), float(int(world.between(-3, 4)))]
        if world.likely(0.5):
            made["w"] = [float(int(world.between(-3, 4))) for _ in range(3)]
        if world.likely(0.8):
            made["title"] = " ".join(world.pick(*self.words) for _ in range(2))
            made["body"] = " ".join(world.pick(*self.words) for _ in range(3))
        return made

    # --- lists made anew ---

    def _care(self, client: Client, kind: str) -> None:
        """Make lists anew: in one go, by some steps that another process goes on from, or all of them aside."""
        world, ledger = client.world, client.node.ledger
        name = self._index(world).name
        steps = int(world.between(0, 4))

        def some_steps(lists: ListRenewal) -> None:
            if lists._begin(name) is None:
                for _ in range(steps):
                    if lists._step(name) is not None:
                        return

        world.bucket.note(f"{kind} {name}")
        with suppress(UnavailableError, OutcomeUnknownError, ConflictError, SnapshotTooOldError):
            if kind == "rebuild":
                if ledger.view().place is not None:
                    rebuild_trees(ledger, Aim(400, everything=True))
            elif kind == "tend":
                ledger.tend_lists(lambda lists: lists.renew(name))
            else:
                ledger.tend_lists(some_steps)

    # --- searches ---

    def _find_near(self, client: Client, *, exact: bool) -> None:
        world = client.world
        field, size = ("v", 2) if world.likely(0.7) else ("w", 3)
        vector = [1.0 + int(world.between(0, 4)) for _ in range(size)]
        with world.history.call("near", field=field, vector=vector, exact=exact) as call:
            call.answer = lambda replay, number: _near_in(call, replay.states[number])
            call.excuse = lambda _, replay, number: _index_at(replay.states[number], (field,)) is None
            asked: dict[str, Any] = {"vector": vector, "k": K, "exact": exact}
            found = client.node.collection.find(near={field: asked | ({"distance": "euclidean"} if exact else {})})
            call.result = [(row["id"], score) for row, score in found.scored()]

    def _search(self, client: Client, *, by_fields: bool) -> None:
        world = client.world
        text = world.pick("red", "run OR blue", "shoe -red", '"red shoes"', "r*")
        fields = (TITLES if world.likely(0.5) else BOTH) if by_fields else None
        asked: Any = {"query": text, **fields.options} if fields is not None else text
        with world.history.call("search", text=text, fields=None if fields is None else fields.names) as call:
            call.answer = lambda replay, number: _found_in(replay.states[number], text, fields)
            call.excuse = lambda _, replay, number: fields is None and _index_at(replay.states[number], None) is None
            found = client.node.collection.find(search=asked)
            call.result = [(row["id"], score) for row, score in found.scored()]

    def end(self, client: Client) -> None:
        """Search once more, and write."""
        self._find_near(client, exact=False)
        self._search(client, by_fields=False)
        client.save({"_id": "the-end", **self._values(client)})

    def check(self, world: World, replay: Replay) -> None:
        """Once all is brought forward, no index waits; the answers were held against the log."""
        waiting = [name for name, living in replay.states[-1].indexes.items() if living.life in ("waiting", "building")]
        if waiting:
            raise Violation(f"indexes {waiting} were not built, though the log was brought forward")


def _index_at(state: State, fields: tuple[str, ...] | None) -> Index | None:
    """The ready index of vectors of a field; or the index of words, which names fields before it is ready."""
    if fields is None:
        return next(
            (one.index for one in state.indexes.values() if one.index.kind == "text" and one.life != "dropped"), None
        )
    return next((index for index in state.ready if index.kind == "vector" and index.fields == fields), None)


def _documents(state: State) -> list[dict[str, Any]]:
    return [state.document(name) or {} for name in state.bodies()]


def _near_in(call: Call, state: State) -> Any:
    """What a search for the nearest may have been told: by lists anything right that is in order."""
    field, index = call.facts["field"], _index_at(state, (call.facts["field"],))
    if call.facts["exact"]:
        distance: Any = "euclidean"
    elif index is None:
        return None
    else:
        distance = kind_for(index).options["distance"]
    near = Near((field,), tuple(call.facts["vector"]), 1_000, distance)
    truth = [(document["_id"], score) for score, document in nearest(near, _documents(state))]
    if call.facts["exact"]:
        return truth[:K]
    told = set(call.result)
    is_right = len(told) == len(call.result) <= K and told <= set(truth) and bool(told) == bool(truth)
    return [each for each in truth if each in told] if is_right else None


def _found_in(state: State, text: str, fields: SearchFields | None) -> Any:
    index = _index_at(state, None)
    if fields is None:
        if index is None:
            return None
        kind = kind_for(index)
        assert isinstance(kind, TextKind)
        fields = kind.search_fields
    ranked = rank_documents(SearchQuery(text).over(fields), _documents(state))
    return [(document["_id"], score) for score, document in ranked]
