"""What clients do in a simulated run, and what must be true of it afterwards.

Each workload is a few kinds of calls and the invariants that go with them. All answers, of all workloads, are also held
against the log by `tests.simulation.history.audit`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from tests.simulation.expiring import Expiring
from tests.simulation.handles import Handles
from tests.simulation.history import audit_register
from tests.simulation.lives import Indexing, Loads, Past
from tests.simulation.numbers import Numbers
from tests.simulation.replay import Violation
from tests.simulation.retaining import Retaining
from tests.simulation.searching import Searching
from wormdb.errors import UnavailableError
from wormdb.schema.load import load_model

if TYPE_CHECKING:
    from tests.simulation.client import Client
    from tests.simulation.nodes import World
    from tests.simulation.replay import Replay, State
    from wormdb.schema.model import Model

__all__ = ["WORKLOADS", "Workload"]


class Workload(Protocol):
    """What one kind of run does and promises."""

    def begin(self, client: Client) -> None:
        """Prepare the collection, in calm weather."""
        ...

    def step(self, client: Client) -> None:
        """One thing that a client does."""
        ...

    def end(self, client: Client) -> None:
        """One write that must succeed, in calm weather."""
        ...

    def check(self, world: World, replay: Replay) -> None:
        """Raise Violation if an invariant does not hold."""
        ...


class _Ending:
    """How most workloads end."""

    def end(self, client: Client) -> None:
        """Save a document that no other client has touched."""
        client.save({"_id": "the-end"})


class Register(_Ending):
    """Few documents, each a register: what clients saw of it must be linearizable."""

    names = ("a", "b")

    def begin(self, client: Client) -> None:
        """Nothing is there."""

    def step(self, client: Client) -> None:
        """Read, save blindly, save what was read, modify, delete."""
        name = client.world.pick(*self.names)
        value = {"v": client.new_value()}
        match client.world.pick("read", "read", "save", "swap", "swap", "modify", "delete", "scan", "stale"):
            case "read":
                client.read(name)
            case "save":
                client.save({"_id": name, **value})
            case "swap":
                client.swap(name, value)
            case "modify":
                client.modify(name, value)
            case "delete":
                client.delete(name)
            case kind:
                client.scan(stale=kind == "stale")

    def check(self, world: World, replay: Replay) -> None:
        """Each document's history is linearizable."""
        for name in self.names:
            audit_register(world.history, name)


class InsertSet(_Ending):
    """Documents that are only inserted: what was acknowledged stays, once, and what was refused is not there."""

    def begin(self, client: Client) -> None:
        """Nothing is there."""

    def step(self, client: Client) -> None:
        """Insert an id of one's own or one that others want too, alone or with others; look."""
        world = client.world
        # Others want the same id at the same time: it changes every few calls.
        shared = f"s{len(world.history.calls) // 5 + int(world.chance.fraction() * 2)}"
        match world.pick("own", "shared", "same", "many", "read", "scan", "stale"):
            case "own":
                client.insert({"_id": client.new_value()})
            case "shared":
                client.insert({"_id": shared, "by": client.new_value()})
            case "same":
                # Two clients that want the same bytes are still two: only one may be told that it inserted them.
                client.insert({"_id": shared})
            case "many":
                client.flush("many", [], [{"_id": client.new_value()} for _ in range(3)])
            case "read":
                client.read(shared)
            case kind:
                client.scan(stale=kind == "stale")

    def check(self, world: World, replay: Replay) -> None:
        """Every acknowledged insert is in every state since, and no id was inserted twice."""
        inserted = [call for call in world.history.calls if call.verb == "insert" and call.outcome == "ok"]
        names = [call.facts["id"] for call in inserted]
        if len(names) != len(set(names)):
            raise Violation(f"an id was inserted twice: {sorted(names)}")
        for call in inserted:
            assert call.slot is not None
            if any(not state.rev(call.facts["id"]) for state in replay.states[call.slot :]):
                raise Violation(f"{call.label}: it is gone")


class Bank(_Ending):
    """Accounts, and transfers between two of them in one batch: the sum never changes."""

    accounts = tuple(f"account{number}" for number in range(4))
    balance = 100

    def begin(self, client: Client) -> None:
        """Every account gets its money, in one batch."""
        client.flush("open", [], [{"_id": name, "balance": self.balance} for name in self.accounts])

    def step(self, client: Client) -> None:
        """Transfer, mostly; add up."""
        world = client.world
        if world.likely(0.4):
            client.scan(stale=world.likely(0.3))
            return
        payer, payee = world.pick(*self.accounts), world.pick(*self.accounts)
        if payer == payee:
            return
        try:
            documents = [client.node.collection.find_by_id(name) for name in (payer, payee)]
        except UnavailableError:
            return
        giver, taker = documents
        if giver is None or taker is None:
            raise Violation(f"{payer} or {payee} is not there")
        amount = int(world.between(1, 20))
        giver["balance"] -= amount
        taker["balance"] += amount
        client.flush("transfer", [giver, taker], [giver, taker], id=payer)

    def check(self, world: World, replay: Replay) -> None:
        """In every state of the log and in every answer all the money is there."""
        for number, state in enumerate(replay.states):
            if state.documents and _money(state.bodies()) != self.balance * len(self.accounts):
                raise Violation(f"at log number {number} the sum is {_money(state.bodies())}")
        for call in world.history.calls:
            if call.verb == "scan" and call.outcome == "ok" and _money(call.result[2]) != self.balance * 4:
                raise Violation(f"{call.label}: the sum is {_money(call.result[2])}")


def _money(bodies: dict[str, str]) -> int:
    return sum(json.loads(body)["balance"] for name, body in bodies.items() if name.startswith("account"))


class UniqueRace(_Ending):
    """People who want the same few addresses: at most one has each, and the others learn its id."""

    addresses = tuple(f"{name}@example.com" for name in ("ada", "bob", "cleo"))

    def begin(self, client: Client) -> None:
        """The index is there from the start."""
        client.define(_model("readwrite", unique=True))

    def step(self, client: Client) -> None:
        """Take an address with a new document or an old one, give one up, trade."""
        world = client.world
        name, address = f"p{int(world.chance.fraction() * 6)}", world.pick(*self.addresses)
        match world.pick("insert", "insert", "save", "save", "delete", "delete", "trade", "twice", "scan"):
            case "insert":
                client.insert({"_id": name, "email": address})
            case "save":
                client.save({"_id": name, "email": address, "v": client.new_value()})
            case "delete":
                client.delete(name)
            case "trade":
                self._trade(client, name)
            case "twice":
                # In passing it has an address that it gives up again: that must not take it from its owner.
                other = f"p{int(world.chance.fraction() * 6)}"
                passing = {"_id": name, "email": world.pick(*self.addresses)}
                client.flush("twice", [], [passing, {"_id": name, "email": f"{name}@home"}], id=other)
            case _:
                client.scan()

    def _trade(self, client: Client, name: str) -> None:
        other = f"p{int(client.world.chance.fraction() * 6)}"
        try:
            one, two = (client.node.collection.find_by_id(each) for each in (name, other))
        except UnavailableError:
            return
        if one is None or two is None or name == other:
            return
        one["email"], two["email"] = two["email"], one["email"]
        client.flush("trade", [one, two], [one, two], id=name)

    def check(self, world: World, replay: Replay) -> None:
        """In every state every address has at most one owner."""
        for number, state in enumerate(replay.states):
            owned = [address for address in _addresses(state) if address is not None]
            if len(owned) != len(set(owned)):
                raise Violation(f"at log number {number} an address has two owners: {state.bodies()}")


def _addresses(state: State) -> list[str | None]:
    return [json.loads(body).get("email") for body in state.bodies().values()]


class Definitions:
    """The mode changes while others write: nothing is written that the definition in force does not allow."""

    def begin(self, client: Client) -> None:
        """All clients may write."""
        client.define(_model("readwrite"))

    def step(self, client: Client) -> None:
        """Change the mode, or write."""
        world = client.world
        match world.pick("define", "insert", "insert", "save", "save", "delete", "scan"):
            case "define":
                try:
                    client.define(_model(world.pick("readwrite", "readwrite", "append", "readonly")))
                except UnavailableError:
                    return
            case "insert":
                client.insert({"_id": client.new_value()})
            case "save":
                client.save({"_id": world.pick("a", "b", "c"), "v": client.new_value()})
            case "delete":
                client.delete(world.pick("a", "b", "c"))
            case _:
                client.scan()

    def end(self, client: Client) -> None:
        """Let all clients write again."""
        client.define(_model("readwrite"))

    def check(self, world: World, replay: Replay) -> None:
        """Every change was allowed by the definition before it, or by one in the same entry."""
        for entry in replay.entries:
            modes = {replay.states[entry.number - 1].mode, replay.states[entry.number].mode}
            changes = [change for batch in entry.batches for change in batch.changes]
            if changes and modes == {"readonly"}:
                raise Violation(f"entry {entry.number} was written while the collection was readonly")
            if modes == {"append"} and any(change.before is not None for change in changes):
                raise Violation(f"entry {entry.number} changes a document while the collection was append-only")
        for call in world.history.calls:
            if call.verb != "define" or call.outcome != "ok" or call.slot is None:
                continue
            events = replay.entries[call.slot - 1].events
            if all(getattr(event, "definition", None) != call.facts["wanted"] for event in events):
                raise Violation(f"{call.label}: entry {call.slot} holds {events}")


def _model(mode: str, *, unique: bool = False) -> Model:
    fields = {"email": {"type": "string"}, "v": {"type": "string"}}
    source: dict[str, Any] = {"path": "@sim/(id:slug)", "fields": fields, "mode": mode}
    if unique:
        source["indexes"] = {"email": {"field": "email", "unique": True}}
    return load_model("Thing", source)


WORKLOADS: dict[str, Workload] = {
    "register": Register(),
    "set": InsertSet(),
    "bank": Bank(),
    "unique": UniqueRace(),
    "definitions": Definitions(),
    "handles": Handles(),
    "past": Past(),
    "indexing": Indexing(),
    "loads": Loads(),
    "numbers": Numbers(),
    "expiring": Expiring(),
    "retaining": Retaining(),
    "searching": Searching(),
}
