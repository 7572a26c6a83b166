"""A client of a simulated run: it makes calls, and notes what it was told and when that would have been right."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from tests.simulation.replay import Violation, shared_values
from wormdb.engine.commit.define import change_definition, create_index, drop_index
from wormdb.engine.index.unique import UniqueOwners
from wormdb.engine.tree.definition import claims_of
from wormdb.errors import AlreadyExistsError, ConflictError, InvalidRequestError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.history import Call
    from tests.simulation.nodes import Node, World
    from tests.simulation.replay import Replay, State
    from wormdb.api.document import Document
    from wormdb.engine.tree.definition import Index
    from wormdb.errors import WormError
    from wormdb.schema.model import Model

__all__ = ["Client"]

STALE_MS = 5000


class Client:
    """One thread of one node that makes calls and notes what it was told."""

    def __init__(self, world: World, node: Node) -> None:
        """Calls go to whatever process the node has at the time."""
        self.world = world
        self.node = node
        self.kept: list[Document] = []
        """What calls gave it, to be saved again later."""
        self._values = 0

    def new_value(self) -> str:
        """A value that no other client writes."""
        self._values += 1
        return f"{self.world.scheduler.current.name}-{self._values}"

    def read(self, identity: str) -> None:
        """Read one document."""
        with self.world.history.call("read", id=identity) as call:
            call.result = _stored(self.node.collection.find_by_id(identity))

    def scan(self, *, stale: bool = False, at_least: int | None = None) -> None:
        """Read everything there is, as one state; `stale` may be as old as five seconds, or as `at_least` says."""
        floor = max(self.node.highest_acked, at_least or 0)
        if stale:
            floor = max(floor, self.node.known_ago(STALE_MS))
        is_any = stale or at_least is not None
        with self.world.history.call("scan", own_floor=floor, stale=is_any, at_least=at_least) as call:
            staleness_ms = STALE_MS if stale else math.inf if is_any else 0
            view = self.node.ledger.view(staleness_ms=staleness_ms, at_least=at_least or 0)
            found = {
                json.loads(held.id): held.document.decode() for _, held in view.scan() if held.document is not None
            }
            call.result = (view.number, view.count, found)

    def look(self, kind: str) -> None:
        """Read one document, or everything, perhaps as it was a moment ago."""
        if kind == "read":
            self.read(self.world.pick("a", "b", "s0", "s1", "x"))
        elif kind == "at least":
            self.scan(at_least=int(self.world.chance.fraction() * (self.world.bucket.highest + 1)))
        else:
            self.scan(stale=kind == "stale")

    def save(self, document: dict[str, Any]) -> None:
        """Save a document, whatever is there."""
        with self.world.history.call("save", id=document["_id"], v=document.get("v")) as call:
            self._acknowledge(call, self.node.collection.save(document).rev)
        self._ended(call)

    def insert(self, document: dict[str, Any]) -> None:
        """Insert a document."""
        with self.world.history.call("insert", id=document["_id"]) as call:
            self._acknowledge(call, self.node.collection.insert(document).rev)
        self._ended(call)

    def swap(self, identity: str, change: dict[str, Any]) -> None:
        """Read a document, wait a little, and save it if it did not change meanwhile."""
        try:
            found = self.node.collection.find_by_id(identity)
        except UnavailableError:
            return
        if found is None:
            return
        self.node.clock.sleep(self.world.between(0, 0.3))
        facts: dict[str, Any] = {"id": identity, "expected": found.get("v"), "loaded": {identity: found.rev}, **change}
        with self.world.history.call("swap", **facts) as call:
            self._acknowledge(call, self.node.collection.save(_changed(found, change)).rev)
        self._ended(call)

    def modify(self, identity: str, change: dict[str, Any]) -> None:
        """Load, change, save, again until it works."""
        with self.world.history.call("modify", id=identity, **change) as call:
            self._acknowledge(call, self.node.collection.modify(identity, lambda found: _changed(found, change)).rev)
        self._ended(call)

    def delete(self, identity: str) -> None:
        """Delete a document that may be there."""
        with self.world.history.call("delete", id=identity) as call:
            if not self.node.collection.delete(identity):
                call.tokens.clear()
        self._ended(call)

    def flush(self, verb: str, loaded: list[Document], saved: list[dict[str, Any]], **facts: Any) -> None:
        """Save several documents in one batch, if those that were read are unchanged."""
        revisions = {document.id: document.rev for document in loaded}
        with self.world.history.call(verb, loaded=revisions, **facts) as call:
            batch = self.node.collection.batch()
            for document in saved:
                batch.save(document)
            self._acknowledge(call, batch.flush().number)
        self._ended(call)

    def define(self, model: Model) -> None:
        """Change the definition by a log entry."""
        seen = self.node.ledger.view()
        with self.world.history.call("define", seen=seen.definition.body, wanted=model.canonical()) as call:
            token = self.world.chance.token(16).hex()
            committed = self.node.ledger.commit(change_definition(token, model, seen=seen))
            self._acknowledge(call, committed.number)
        self._ended(call)

    # --- batches that may be staged ---

    def insert_many(self, documents: list[dict[str, Any]]) -> None:
        """Insert several documents, all or none."""
        names = [document["_id"] for document in documents]
        with self.world.history.call("many", ids=names) as call:
            call.excuse = lambda error, replay, number: _any_is_there(error, replay.states[number], names)
            self.node.collection.insert_many(documents)
        self._ended(call)

    # --- the past ---

    def rollback(self, identity: str, seq: int) -> None:
        """Bring a document back to an older version."""
        with self.world.history.call("rollback", id=identity, seq=seq) as call:
            call.excuse = lambda error, replay, number: _cannot_roll_back(error, replay, number, identity, seq)
            self._acknowledge(call, self.node.collection.rollback(identity, to_seq=seq).rev)
        self._ended(call)

    def restore(self, identity: str) -> None:
        """Bring a document back from the trash."""
        with self.world.history.call("restore", id=identity) as call:
            call.excuse = lambda error, replay, number: _is_not_trashed(error, replay.states[number], identity)
            self._acknowledge(call, self.node.collection.restore(identity).rev)
        self._ended(call)

    def purge(self, identity: str) -> None:
        """Take a document out of the trash for good."""
        with self.world.history.call("purge", id=identity) as call:
            call.excuse = lambda error, replay, number: _is_not_trashed(error, replay.states[number], identity)
            self.node.collection.purge(identity)
        self._ended(call)

    def snapshot(self, identity: str) -> None:
        """Keep a document as it is."""
        with self.world.history.call("snapshot", id=identity) as call:
            call.excuse = lambda _, replay, number: not replay.states[number].rev(identity)
            self.node.collection.snapshot(identity)
        self._ended(call)

    def look_back(self, identity: str) -> None:
        """Every change of a document."""
        with self.world.history.call("history", id=identity) as call:
            call.answer = lambda replay, number: [
                (change.seq, change.number, change.op) for change in replay.past_of(identity, number)
            ]
            call.result = [(each.seq, each.rev, each.op) for each in self.node.collection.get_history(identity)]

    def travel(self) -> None:
        """Everything that there was at some log number."""
        moment = int(self.world.chance.fraction() * (self.world.bucket.highest + 1))
        with self.world.history.call("as of", moment=moment) as call:
            call.answer = lambda replay, _: {
                name: replay.states[moment].document(name) for name in replay.states[moment].bodies()
            }
            found = self.node.collection.scan(as_of=moment)
            call.result = {document.id: _stored(document) for document in found}

    def list_trashed(self) -> None:
        """What lies in the trash."""
        with self.world.history.call("trash") as call:
            call.answer = lambda replay, number: sorted(
                name for name, stored in replay.states[number].documents.items() if stored.trash is not None
            )
            call.result = [trashed.id for trashed in self.node.collection.list_trashed()]

    # --- indexes ---

    def create_index(self, index: Index) -> None:
        """Want an index; the next process that brings the log forward builds it."""
        with self.world.history.call("create index", name=index.name) as call:
            call.excuse = lambda error, replay, number: _is_no_place_for(error, replay.states[number], index)
            seen, token = self.node.ledger.view(), self.world.chance.token(16).hex()
            self._acknowledge(call, self.node.ledger.commit(create_index(token, index, seen=seen)).number)
        self._ended(call)

    def drop_index(self, name: str) -> None:
        """Drop an index."""
        with self.world.history.call("drop index", name=name) as call:
            call.excuse = lambda _, replay, number: not _lives(replay.states[number], name)
            seen, token = self.node.ledger.view(), self.world.chance.token(16).hex()
            self._acknowledge(call, self.node.ledger.commit(drop_index(token, name, seen=seen)).number)
        self._ended(call)

    def ask_owners(self, values: Sequence[str]) -> None:
        """The owner of each value, by every unique index that is ready."""
        with self.world.history.call("owners") as call:
            call.answer = lambda replay, number: _owned(replay.states[number], values)
            view = self.node.ledger.view()
            call.result = {}
            for index in view.definition.unique:
                owners = UniqueOwners.of(index, view, self.node.trees)
                keys = {key: value for value in values for key in claims_of(index, dict.fromkeys(index.fields, value))}
                call.result[index.name] = {
                    keys[key]: json.loads(owner) for key, owner in owners.owners(keys).items() if owner is not None
                }

    # --- inside ---

    def _acknowledge(self, call: Call, number: int) -> None:
        call.slot = number
        self.node.highest_acked = max(self.node.highest_acked, number)

    def _ended(self, call: Call) -> None:
        if call.outcome == "unknown":
            self.world.unknown.append(call)
        if call.outcome == "ok" and call.slot is not None and not call.tokens:
            raise Violation(f"{call.label}: acknowledged, and no batch was sent")


def _stored(document: Document | None) -> dict[str, Any] | None:
    if document is None:
        return None
    return {("_id" if name == "id" else name): value for name, value in document.items()}


def _changed(document: Document, change: dict[str, Any]) -> Document:
    document.update(change)
    return document


# --- when a refusal is right ---


def _any_is_there(error: WormError, state: State, names: Sequence[str]) -> bool:
    # A staged batch that was overtaken again and again is a conflict, whatever the others wrote.
    return isinstance(error, ConflictError) or any(state.rev(name) for name in names)


def _cannot_roll_back(error: WormError, replay: Replay, number: int, identity: str, seq: int) -> bool:
    past = {change.seq: change for change in replay.past_of(identity, number)}
    if isinstance(error, NotFoundError):
        return seq not in past
    return isinstance(error, InvalidRequestError) and seq in past and past[seq].after is None


def _is_not_trashed(error: WormError, state: State, identity: str) -> bool:
    stored = state.documents.get(identity)
    if isinstance(error, AlreadyExistsError):
        return stored is not None and stored.body is not None
    return stored is None or stored.trash is None


def _lives(state: State, name: str) -> bool:
    return name in state.indexes and state.indexes[name].life != "dropped"


def _is_no_place_for(error: WormError, state: State, index: Index) -> bool:
    if isinstance(error, InvalidRequestError):
        return bool(shared_values(state, index))
    return _lives(state, index.name) and state.indexes[index.name].life != "failed"


def _owned(state: State, values: Sequence[str]) -> dict[str, dict[str, str]]:
    """The owners of some values in each unique index that is ready; fields are plain names."""
    found: dict[str, dict[str, str]] = {}
    for index in state.ready:
        if index.unique:
            owners = {}
            for name in state.bodies():
                value = (state.document(name) or {}).get(index.fields[0])
                owners.update(dict.fromkeys(value if isinstance(value, list) else [value], name))
            found[index.name] = {value: owners[value] for value in values if value in owners}
    return found
