"""What clients do in a run over several collections: transactions, batches, readers, definitions.

Every document that a call writes names the call. Answers are noted as they were read, before the call's own writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.serial import Question
from tests.simulation.wide import COLLECTIONS, TOKEN
from wormdb.errors import ConflictError, OutcomeUnknownError, UnavailableError, UniqueViolationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulation.serial import Deed
    from tests.simulation.wide import Machine, WideWorld

__all__ = ["EXCHANGES", "Teller"]

ACCOUNTS = ("x", "y")
GROUPS = ("red", "blue")
MAILS = ("ada", "bob")
PEOPLE = ("p", "q", "r")
BALANCE = 100
LOADED = 3


class Teller:
    """One thread of one machine that makes calls and notes what it was told."""

    def __init__(self, world: WideWorld, machine: Machine) -> None:
        """Calls go to whatever process the machine has at the time."""
        self.world = world
        self.machine = machine

    @property
    def db(self) -> Any:
        """The database of this life."""
        return self.machine.db

    def begin(self) -> None:
        """Accounts in every collection, people with unique mails in the first."""
        with self.world.deed("begin") as deed:
            self.db["a"].create_index("mail", unique=True)
            self.db["b"].create_index("group")
        for name in COLLECTIONS:
            with self.world.deed("open") as deed:
                documents = [self._new(deed, name, account, balance=BALANCE) for account in ACCOUNTS]
                documents += [self._new(deed, name, "on", is_on=True)]
                if name == "a":
                    documents += [self._new(deed, name, person, n=0) for person in PEOPLE]
                self.db[name].insert_many(documents)

    def end(self) -> None:
        """A transaction over all collections, which must succeed in calm weather."""
        self.transfer(COLLECTIONS)

    # --- transactions ---

    def transfer(self, names: Iterable[str] = (), isolation: str = "serializable") -> None:
        """Move money from the first of some collections to the last, by way of the others."""
        world = self.world
        count = 2 + int(world.likely(0.4))
        chosen = list(names) or sorted(COLLECTIONS, key=lambda _: world.chance.fraction())[:count]
        amount = int(world.between(1, 20))
        steps = [-amount, *[0] * (len(chosen) - 2), amount]
        with world.deed("transfer", isolation=isolation) as deed, self.db.transaction(isolation=isolation) as tx:
            accounts = [(name, world.pick(*ACCOUNTS)) for name in chosen]
            found = [self._read(deed, tx, name, account) for name, account in accounts]
            self._think()
            for (name, account), known, step in zip(accounts, found, steps, strict=True):
                document: Any = {"_id": account, "balance": BALANCE} if known is None else known
                document["balance"] += step
                self._save(deed, tx, name, account, document)

    def transfer_snapshot(self) -> None:
        """The same under snapshot isolation."""
        self.transfer(isolation="snapshot")

    def skew(self) -> None:
        """Of three that are on duty at least one stays: each goes off only if another is on."""
        world = self.world
        name, other = sorted(COLLECTIONS, key=lambda _: world.chance.fraction())[:2]
        with world.deed("skew") as deed, self.db.transaction() as tx:
            one, two = self._read(deed, tx, name, "on"), self._read(deed, tx, other, "on")
            self._think()
            if one["is_on"] and two["is_on"]:
                one["is_on"] = False
                self._save(deed, tx, name, "on", one)
            else:
                for each, document in ((name, one), (other, two)):
                    document["is_on"] = True
                    self._save(deed, tx, each, "on", document)

    def phantom(self) -> None:
        """Insert into one collection if another has none of a group; else delete those, and leave a mark."""
        world = self.world
        name, other = sorted(COLLECTIONS, key=lambda _: world.chance.fraction())[:2]
        group = world.pick(*GROUPS)
        with world.deed("phantom") as deed, self.db.transaction() as tx:
            found = self._find(deed, tx, name, group=group)
            if world.likely(0.3):
                self._count(deed, tx, other, group=group)
            self._think()
            if found:
                for identity in found:
                    tx[name].delete(identity)
                    deed.writes[name, identity] = None
                tx[other].save(self._new(deed, other, f"mark-{group}", n=len(found)))
            else:
                tx[other].insert(self._new(deed, other, deed.name, group=group))

    def pass_mail(self) -> None:
        """A unique value goes from its owner to another document, and another collection counts the owners."""
        world = self.world
        mail, taker = world.pick(*MAILS), world.pick(*PEOPLE)
        with world.deed("mail") as deed:
            try:
                with self.db.transaction() as tx:
                    owners = self._find(deed, tx, "a", mail=mail)
                    document = self._read(deed, tx, "a", taker)
                    self._think()
                    for identity, owner in owners.items():
                        if identity != taker:
                            given = {key: value for key, value in owner.items() if key != "mail"}
                            tx["a"].save(self._new(deed, "a", identity, **given))
                    document["mail"] = mail
                    self._save(deed, tx, "a", taker, document)
                    tx["b"].save(self._new(deed, "b", f"count-{mail}", n=len(owners)))
            except UniqueViolationError:
                deed.refused = (Question("a", "count", "mail", mail), 1)
                raise

    def audit(self) -> None:
        """A transaction that only reads: one moment, or a conflict."""
        with self.world.deed("audit", isolation="reader") as deed, self.db.transaction() as tx:
            for name in sorted(COLLECTIONS, key=lambda _: self.world.chance.fraction()):
                self._read(deed, tx, name, self.world.pick(*ACCOUNTS))
                self._think()

    def abandon(self) -> None:
        """A transaction whose caller raises: nothing of it may ever be seen."""
        with self.world.deed("abandon") as deed:
            try:
                with self.db.transaction() as tx:
                    for name in COLLECTIONS:
                        tx[name].save(self._new(deed, name, "x", balance=-1))
                    raise _ChangedMindError
            except _ChangedMindError:
                deed.writes.clear()
                raise ConflictError("changed my mind") from None

    # --- batches and readers ---

    def deposit(self) -> None:
        """Read and write one account by one entry."""
        world, name, account = self.world, self.world.pick(*COLLECTIONS), self.world.pick(*ACCOUNTS)
        with world.deed("deposit") as deed:

            def change(document: Any) -> Any:
                deed.answers = [(Question(name, "id", account), plain(document))]
                changed = plain(document) | {"balance": document["balance"] + 1, TOKEN: deed.name}
                deed.writes = {(name, account): changed}
                document.update(changed)
                return document

            self.db[name].modify(account, change)

    def save_loaded(self) -> None:
        """Save documents of one collection that were read before, by one batch."""
        world, name = self.world, self.world.pick(*COLLECTIONS)
        with world.deed("save") as deed:
            found = [self.db[name].find_by_id(account) for account in ACCOUNTS]
            self._think()
            batch = self.db[name].batch()
            for account, document in zip(ACCOUNTS, found, strict=True):
                deed.answers.append((Question(name, "id", account), plain(document)))
                changed = plain(document) | {"balance": document["balance"] + 1, TOKEN: deed.name}
                deed.writes[name, account] = changed
                document.update(changed)
                batch.save(document)
            batch.flush()

    def take_mail(self) -> None:
        """A new document takes a unique value, by a plain insert."""
        mail = self.world.pick(*MAILS)
        with self.world.deed("take") as deed:
            try:
                self.db["a"].insert(self._new(deed, "a", deed.name, mail=mail))
            except UniqueViolationError:
                deed.refused = (Question("a", "count", "mail", mail), 1)
                raise

    def paint(self) -> None:
        """Insert a document of a group, by a plain insert."""
        name, group = self.world.pick(*COLLECTIONS), self.world.pick(*GROUPS)
        with self.world.deed("paint") as deed:
            self.db[name].insert(self._new(deed, name, deed.name, group=group))

    def load(self) -> None:
        """Insert several documents, which may be staged as a block."""
        name, group = self.world.pick("b", "c"), self.world.pick(*GROUPS)
        with self.world.deed("load") as deed:
            many = [self._new(deed, name, f"{deed.name}-{part}", group=group) for part in range(LOADED)]
            self.db[name].insert_many(many)

    def look(self) -> None:
        """Read one collection: a document, a group, a count."""
        name = self.world.pick(*COLLECTIONS)
        with self.world.deed("look", isolation="reader") as deed:
            kind = self.world.pick("id", "id", "group", "count", "mail")
            if kind == "id":
                self._read(deed, self.db, name, self.world.pick(*ACCOUNTS))
            elif kind == "group":
                self._find(deed, self.db, name, group=self.world.pick(*GROUPS))
            elif kind == "mail":
                self._find(deed, self.db, "a", mail=self.world.pick(*MAILS))
            else:
                self._count(deed, self.db, name, group=self.world.pick(*GROUPS))

    def look_around(self) -> None:
        """Read one collection after the other: each answer is not older than its own call."""
        for name in sorted(COLLECTIONS, key=lambda _: self.world.chance.fraction()):
            with self.world.deed("around", isolation="reader") as deed:
                self._read(deed, self.db, name, self.world.pick(*ACCOUNTS))

    def snapshot(self) -> None:
        """One moment of all collections."""
        with self.world.deed("snapshot", isolation="reader") as deed, self.db.snapshot(COLLECTIONS) as moment:
            for name in sorted(COLLECTIONS, key=lambda _: self.world.chance.fraction()):
                if self.world.likely(0.5):
                    found = {document.id: plain(document) for document in moment[name].find({})}
                    deed.answers.append((Question(name, "all"), found))
                else:
                    for account in ACCOUNTS:
                        self._read(deed, moment, name, account)
                self._think()

    def define(self) -> None:
        """An index comes or goes."""
        name = self.world.pick(*COLLECTIONS)
        with self.world.deed("define"):
            if self.world.likely(0.5):
                self.db[name].create_index("balance", wait=False)
            else:
                self.db[name].drop_index("balance")

    def drop(self) -> None:
        """Remove a collection and all that it has. What is written to it later makes it anew."""
        with self.world.deed("drop") as deed:
            deed.clears = self.world.pick(*COLLECTIONS)
            try:
                self.db.as_actor(deed.name).drop(deed.clears)
            except (UnavailableError, OutcomeUnknownError) as error:
                # It may have removed the collection, and not have deleted all that is left of it.
                raise OutcomeUnknownError(error.what, reason=error.reason, commit_id=deed.name) from error

    # --- small steps ---

    def _think(self) -> None:
        if self.world.likely(0.3):
            self.machine.clock.sleep(self.world.between(0, 0.4))

    def _new(self, deed: Deed, name: str, identity: str, **values: Any) -> dict[str, Any]:
        deed.writes[name, identity] = {**values, TOKEN: deed.name}
        return {**values, TOKEN: deed.name, "_id": identity}

    def _save(self, deed: Deed, tx: Any, name: str, identity: str, document: Any) -> None:
        document[TOKEN] = deed.name
        deed.writes[name, identity] = plain(document)
        tx[name].save(document)

    def _read(self, deed: Deed, source: Any, name: str, identity: str) -> Any:
        document = source[name].find_by_id(identity)
        deed.answers.append((Question(name, "id", identity), None if document is None else plain(document)))
        return document

    def _find(self, deed: Deed, source: Any, name: str, **wanted: str) -> dict[str, Any]:
        ((field, value),) = wanted.items()
        found = {document.id: plain(document) for document in source[name].find({field: value})}
        deed.answers.append((Question(name, "where", field, value), dict(found)))
        return found

    def _count(self, deed: Deed, source: Any, name: str, **wanted: str) -> None:
        ((field, value),) = wanted.items()
        deed.answers.append((Question(name, "count", field, value), source[name].count({field: value})))


class _ChangedMindError(Exception):
    """Raised by a caller in the middle of a transaction."""


def plain(document: Any) -> dict[str, Any]:
    """The values of a document, without its id."""
    return {key: value for key, value in document.items() if key not in ("id", "_id")}


def _weights(**weights: int) -> tuple[str, ...]:
    return tuple(name for name, weight in weights.items() for _ in range(weight))


READS = {"look": 3, "look_around": 1, "snapshot": 3, "audit": 1}
EXCHANGES = {
    "transfers": _weights(transfer=6, deposit=2, save_loaded=1, abandon=1, **READS),
    "skew": _weights(skew=6, transfer=1, **READS),
    "phantoms": _weights(phantom=6, paint=2, load=1, **READS),
    "mails": _weights(pass_mail=5, take_mail=3, **READS),
    "definitions": _weights(transfer=4, phantom=2, load=3, define=3, **READS),
    "drops": _weights(transfer=6, phantom=2, load=2, deposit=1, paint=1, drop=3, **READS),
    "mixed": _weights(
        transfer=3, transfer_snapshot=2, skew=1, phantom=2, pass_mail=1, take_mail=1, deposit=2, save_loaded=1,
        paint=1, load=1, define=1, abandon=1, **READS,
    ),
}  # fmt: skip
"""What the clients of a workload choose from."""
