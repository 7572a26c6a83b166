"""A workload of threads that keep what calls gave them and save it again, beside threads that write without looking.

Every document that a read or a commit gave out stands for one version. Whatever lands through it must follow just that
version, in the order of batches inside an entry too; everything that is asked must be true of one state of the log.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.simulation.replay import Violation
from wormdb.api.document import Document
from wormdb.errors import ConflictError
from wormdb.schema.load import load_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.simulation.client import Client
    from tests.simulation.history import Call
    from tests.simulation.nodes import World
    from tests.simulation.replay import Replay, ReplayedChange, State
    from wormdb.errors import WormError

__all__ = ["Handles"]

KEPT_MAX = 4
"""Documents that a client holds on to."""


class Handles:
    """Documents that are kept and saved again by some threads, and changed by others in between."""

    names = ("a", "b", "c")
    groups = ("red", "blue")
    addresses = tuple(f"{name}@example.com" for name in ("ada", "bob"))

    def begin(self, client: Client) -> None:
        """A unique index and a plain one, from the start."""
        fields = {"email": {"type": "string"}, "group": {"type": "string"}}
        indexes = {"email": {"field": "email", "unique": True}, "group": {"field": "group"}}
        client.define(load_model("Thing", {"path": "@sim/(id:slug)", "fields": fields, "indexes": indexes}))

    def step(self, client: Client) -> None:
        """Read, write without looking, save what is kept, change and delete by a filter, ask."""
        kinds = {
            "keep": 2, "insert": 1, "blind": 3, "again": 5, "remove": 1, "delete": 1, "modify": 1, "twice": 2,
            "many": 1, "clear": 1, "exchange": 1, "upsert": 1, "count": 1, "ask": 1, "owners": 1, "history": 1,
            "scan": 1,
        }  # fmt: skip
        kind = client.world.pick(*(kind for kind, weight in kinds.items() for _ in range(weight)))
        getattr(self, f"_{kind}")(client, client.world.pick(*self.names))

    def end(self, client: Client) -> None:
        """Ask for everything, then write what no other handle has touched."""
        self._count(client, "a")
        self._owners(client, "a")
        for name in self.names:
            client.look_back(name)
        client.save({"_id": "the-end"})

    def check(self, world: World, replay: Replay) -> None:
        """Every change through a kept document follows the version that it stood for; results say what was done."""
        changes: dict[str, list[ReplayedChange]] = {}
        for change in replay.happened:
            changes.setdefault(change.batch, []).append(change)
        for call in world.history.calls:
            if call.outcome != "ok" or not call.tokens:
                continue
            made = changes.get(call.tokens[-1], [])
            for identity, version in call.facts.get("versions", {}).items():
                _check_follows(call, replay, [change for change in made if change.id == identity], version)
            if "documents" in call.facts and len(made) != call.facts["documents"]:
                raise Violation(f"{call.label}: it says {call.facts['documents']} documents, the log has {made}")
            for version in call.facts.get("given", ()):
                if version[2] and version not in [(change.id, change.number, change.seq) for change in made]:
                    raise Violation(f"{call.label}: gave out {version}, the log has {made}")

    # --- what a thread does ---

    def _values(self, client: Client) -> dict[str, Any]:
        world = client.world
        values = {"v": client.new_value(), "group": world.pick(*self.groups), "n": 0}
        return values | ({"email": world.pick(*self.addresses)} if world.likely(0.4) else {})

    def _keep(self, client: Client, name: str) -> None:
        with client.world.history.call("keep", id=name) as call:
            call.answer = lambda replay, number: _version(replay.states[number], name)
            found = client.node.collection.find_by_id(name)
            call.result = None if found is None else (found.rev, found.seq)
            self._hold(client, found)

    def _insert(self, client: Client, name: str) -> None:
        self._write(
            client, "insert", name, lambda: client.node.collection.insert({"_id": name, **self._values(client)})
        )

    def _blind(self, client: Client, name: str) -> None:
        self._write(client, "blind", name, lambda: client.node.collection.save({"_id": name, **self._values(client)}))

    def _again(self, client: Client, name: str) -> None:
        """Save a document that was kept; in most cases it has been kept for a while, in some since just now."""
        held = self._held(client, name)
        if held is None:
            return self._keep(client, name)
        held.update(self._values(client))
        return self._write(client, "again", held.id, lambda: client.node.collection.save(held), held)

    def _remove(self, client: Client, name: str) -> None:
        held = self._held(client, name)
        if held is None:
            return self._delete(client, name)
        with _guarded(client, "remove", held.id, [held]) as call:
            if not client.node.collection.delete(held):
                call.tokens.clear()
        return self._ended(client, call)

    def _delete(self, client: Client, name: str) -> None:
        client.delete(name)

    def _modify(self, client: Client, name: str) -> None:
        def change(found: Document) -> Document:
            found.update(self._values(client))
            return found

        self._write(client, "modify", name, lambda: client.node.collection.modify(name, change))

    def _twice(self, client: Client, name: str) -> None:
        """One batch with an id twice: a document that is kept before or after one that is not, or two kept ones."""
        world, held = client.world, self._held(client, name)
        name = name if held is None else held.id
        blind = {"_id": name, **self._values(client)}
        saved = [blind, dict(blind)] if held is None else [blind, held] if world.likely(0.5) else [held, blind]
        if held is not None:
            held.update(self._values(client))
            if world.likely(0.3):
                saved = [held, held.copy()]
        with _guarded(client, "twice", name, [one for one in saved if isinstance(one, Document)]) as call:
            batch = client.node.collection.batch()
            for one in saved:
                batch.save(one)
            call.slot = batch.flush().number
            for one in saved:
                if isinstance(one, Document):
                    self._given(client, call, one)
        self._ended(client, call)

    def _many(self, client: Client, name: str) -> None:
        group, value = client.world.pick(*self.groups), client.new_value()
        with client.world.history.call("update many", group=group) as call:
            done = client.node.collection.update_many({"group": group}, {"$set": {"v": value}, "$inc": {"n": 1}})
            call.facts["documents"] = done.modified
            if not done.modified:
                call.tokens.clear()
            self._matched(call, group, done.matched)
        self._ended(client, call)

    def _clear(self, client: Client, name: str) -> None:
        group = client.world.pick(*self.groups)
        with client.world.history.call("delete many", group=group) as call:
            done = client.node.collection.delete_many({"group": group})
            call.facts["documents"] = done.deleted
            if not done.deleted:
                call.tokens.clear()
            self._matched(call, group, done.deleted)
        self._ended(client, call)

    def _exchange(self, client: Client, name: str) -> None:
        value = client.new_value()
        with _guarded(client, "exchange", name, []) as call:
            found: Any = client.node.collection.find_one_and_update(
                {"_id": name}, {"$set": {"v": value}}, return_document="after"
            )
            if found is None:
                call.tokens.clear()
            else:
                call.slot = found.rev
                self._given(client, call, found)
        self._ended(client, call)

    def _upsert(self, client: Client, name: str) -> None:
        group, value = client.world.pick(*self.groups), client.new_value()
        with _guarded(client, "upsert", name, []) as call:
            client.node.collection.update_one({"_id": name}, {"$set": {"v": value, "group": group}}, upsert=True)
        self._ended(client, call)

    def _count(self, client: Client, name: str) -> None:
        group = client.world.pick(*self.groups)
        with client.world.history.call("count", group=group) as call:
            call.answer = lambda replay, number: len(replay.states[number].bodies())
            call.result = client.node.collection.count()
        with client.world.history.call("count group", group=group) as call:
            call.answer = lambda replay, number: len(_members(replay.states[number], group))
            call.result = client.node.collection.count({"group": group})

    def _ask(self, client: Client, name: str) -> None:
        group = client.world.pick(*self.groups)
        with client.world.history.call("ask", group=group) as call:
            call.answer = lambda replay, number: {
                name: _version(replay.states[number], name) for name in _members(replay.states[number], group)
            }
            found = client.node.collection.find({"group": group})
            call.result = {document.id: (document.rev, document.seq) for document in found}

    def _owners(self, client: Client, name: str) -> None:
        client.ask_owners(self.addresses)

    def _history(self, client: Client, name: str) -> None:
        client.look_back(name)

    def _scan(self, client: Client, name: str) -> None:
        client.scan(stale=client.world.likely(0.3))

    # --- what is kept ---

    def _held(self, client: Client, name: str) -> Document | None:
        """One of the documents that a client keeps; mostly of a name, sometimes any."""
        kept = client.kept
        wanted = [one for one in kept if one.id == name] or kept
        return wanted[int(client.world.chance.fraction() * len(wanted))] if wanted else None

    def _hold(self, client: Client, document: Document | None) -> None:
        """Keep a document, perhaps as a copy that nothing brings up to date."""
        if document is not None:
            client.kept.append(document.copy() if client.world.likely(0.5) else document)
            del client.kept[:-KEPT_MAX]

    def _given(self, client: Client, call: Call, document: Document) -> None:
        """Note which version a commit gave out, and keep it."""
        call.facts.setdefault("given", []).append((document.id, document.rev, document.seq))
        self._hold(client, document)

    def _write(
        self, client: Client, verb: str, name: str, write: Callable[[], Document], held: Document | None = None
    ) -> None:
        with _guarded(client, verb, name, [] if held is None else [held]) as call:
            document = write()
            call.slot = document.rev
            self._given(client, call, document)
        self._ended(client, call)

    def _matched(self, call: Call, group: str, matched: int) -> None:
        call.answer = lambda replay, number: len(_members(replay.states[number], group)) == matched
        call.result = True

    def _ended(self, client: Client, call: Call) -> None:
        if call.slot is not None:
            client.node.highest_acked = max(client.node.highest_acked, call.slot)
        if call.outcome == "unknown":
            client.world.unknown.append(call)


@contextmanager
def _guarded(client: Client, verb: str, name: str, held: Sequence[Document]) -> Iterator[Call]:
    """A call that may be refused because one of the documents that it goes by is not the newest version any more."""
    versions = {one.id: (one.rev, one.seq) for one in held}

    def is_outdated(error: WormError, replay: Replay, number: int) -> bool:
        state = replay.states[number]
        is_newest = all(_version(state, name) == version for name, version in versions.items())
        return isinstance(error, ConflictError) and not is_newest

    with client.world.history.call(verb, id=name, versions=versions) as call:
        call.excuse = is_outdated if versions else None
        yield call


def _version(state: State, name: str) -> tuple[int, int] | None:
    stored = state.documents.get(name)
    return None if stored is None or stored.body is None else (stored.rev, stored.seq)


def _members(state: State, group: str) -> list[str]:
    return [name for name in state.bodies() if (state.document(name) or {}).get("group") == group]


def _check_follows(call: Call, replay: Replay, made: list[ReplayedChange], version: tuple[int, int]) -> None:
    """Raise Violation unless what a batch did to a document follows directly on a version of it."""
    if not made:
        return
    past = replay.past_of(made[0].id)
    earlier = [change for change in past if change.seq < made[0].seq]
    found = (earlier[-1].number, earlier[-1].seq) if earlier else None
    if found != version:
        raise Violation(f"{call.label}: it held version {version}, and was written over {found}")
