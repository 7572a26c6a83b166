"""A bucket as another program leaves it: written by code of its own, which knows S3WORM's pages and not wormdb."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

LAYOUTS: dict[str, dict[str, str]] = {
    "root": {"layout": "root"},
    "collection": {"layout": "collection"},
    "inline": {"layout": "inline"},
    "mix": {"layout": "collection", "snapshots": "inline", "trash": "root"},
}
FOLDERS = {"oplog": ".oplog", "snapshots": ".snapshots", "trash": ".worm.trash"}
BEGIN = datetime(2026, 2, 24, 12, tzinfo=UTC)


def schema(storage: dict[str, str], **model: Any) -> dict[str, Any]:
    """What the other program declares."""
    customer = {
        "path": "#org/@customers/(id:string)/[profile].json",
        "mode": "readonly",
        "oplog": True,
        "softDelete": True,
        "snapshots": {"enabled": True},
        "fields": {"name": {"type": "string"}, "email": {"type": "string"}, "joined": {"type": "datetime"}},
        "indexes": {"byEmail": {"field": "email", "unique": True}, "byName": {"field": "name"}},
        "files": False,
        **model,
    }
    return {"schemaVersion": "1.0", "sourceOfTruth": "local", "storage": storage, "models": {"Customer": customer}}


@dataclass(frozen=True)
class Told:
    """One change, as the program remembers it."""

    seq: int
    op: str
    ts: datetime
    actor: str | None
    metadata: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass
class Bucket:
    """Files by key. With `stamps` documents have createdAt and updatedAt, and its oplog has them where it is whole."""

    storage: dict[str, str]
    stamps: bool = True
    keeps_oplog: bool = True
    files: dict[str, str] = field(default_factory=dict)
    alive: dict[str, dict[str, Any]] = field(default_factory=dict)
    trash: dict[str, tuple[dict[str, Any], datetime, str | None]] = field(default_factory=dict)
    past: dict[str, list[Told]] = field(default_factory=dict)
    taken: dict[str, list[tuple[datetime, int]]] = field(default_factory=dict)
    now: datetime = BEGIN

    # --- what the program does ---

    def create(self, name: str, /, actor: str | None = None, **values: Any) -> None:
        """A new document."""
        self._tick()
        stamps = {"createdAt": iso(self.now), "updatedAt": iso(self.now)} if self.stamps else {}
        document = {"id": name, **values, **stamps}
        self.alive[name] = document
        self._log(name, "create", actor, document, {"snapshot": document})
        self._write(name)

    def update(self, name: str, /, actor: str | None = None, why: str | None = None, **values: Any) -> None:
        """A change of some fields; None removes one."""
        self._tick()
        document = dict(self.alive[name])
        diff = {one: [document.get(one), value] for one, value in values.items() if document.get(one) != value}
        for one, value in values.items():
            document.pop(one, None)
            if value is not None:
                document[one] = value
        if self.stamps:
            document["updatedAt"] = iso(self.now)
        self.alive[name] = document
        self._log(name, "update", actor, document, {"diff": diff}, why)
        self._write(name)

    def delete(self, name: str, /, actor: str | None = None, *, soft: bool = True) -> None:
        """Into the trash, or for good."""
        self._tick()
        document = self.alive.pop(name)
        del self.files[self.entity(name)]
        self._log(name, "delete", actor, None, {"snapshot": document})
        if soft:
            self.trash[name] = (document, self.now, actor)
            tombstone = {"deletedAt": iso(self.now), "restorePath": self.entity(name), "ttl": 30}
            self.put(self.system("trash", name) + "profile.json", document)
            self.put(
                self.system("trash", name) + ".worm.tombstone",
                tombstone if actor is None else {**tombstone, "deletedBy": actor},
            )

    def restore(self, name: str, /, actor: str | None = None) -> None:
        """Out of the trash."""
        self._tick()
        document, _, _ = self.trash.pop(name)
        for file in ("profile.json", ".worm.tombstone"):
            del self.files[self.system("trash", name) + file]
        if self.stamps:
            document = {**document, "updatedAt": iso(self.now)}
        self.alive[name] = document
        self._log(name, "restore", actor, document, {"snapshot": document})
        self._write(name)

    def snapshot(self, name: str, /) -> None:
        """A copy that is kept."""
        self._tick()
        seq = self.past[name][-1].seq
        kept = [one for one in self.taken.get(name, []) if one[1] != seq]
        self.taken[name] = [*kept, (self.now, seq)]
        moment = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        self.put(f"{self.system('snapshots', name)}{moment}.json", self.alive[name])

    # --- where it puts things ---

    def entity(self, name: str) -> str:
        """The key of a document."""
        return f"org/customers/{name}/profile.json"

    def system(self, kind: str, name: str) -> str:
        """The folder of a document's oplog, snapshots or trash."""
        match self.storage.get(kind, self.storage["layout"]):
            case "inline":
                return f"org/customers/{name}/{FOLDERS[kind]}/"
            case "collection":
                return f"org/customers/{FOLDERS[kind]}/{name}/"
            case _:
                return f"{FOLDERS[kind]}/customers/{name}/"

    def oplog(self, name: str, seq: int) -> str:
        """The key of a change."""
        return f"{self.system('oplog', name)}{seq:04d}.json"

    def put(self, key: str, value: Any) -> None:
        """Write a file."""
        self.files[key] = json.dumps(value)

    def edit(self, key: str, **values: Any) -> None:
        """Change a file by hand."""
        self.files[key] = json.dumps({**json.loads(self.files[key]), **values})

    # --- inside ---

    def _tick(self) -> None:
        self.now += timedelta(seconds=1)

    def _write(self, name: str) -> None:
        self.put(self.entity(name), self.alive[name])

    def _log(
        self,
        name: str,
        op: str,
        actor: str | None,
        after: dict[str, Any] | None,
        what: dict[str, Any],
        why: str | None = None,
    ) -> None:
        past = self.past.setdefault(name, [])
        metadata = None if why is None else {"why": why}
        told = Told(len(past) + 1, op, self.now, actor, metadata, copy.deepcopy(after))
        past.append(told)
        entry: dict[str, Any] = {"seq": told.seq, "op": op, "ts": iso(self.now), **what}
        if actor is not None:
            entry["actor"] = actor
        if metadata is not None:
            entry["metadata"] = metadata
        if self.keeps_oplog:
            self.put(self.oplog(name, told.seq), entry)

    def at(self, moment: datetime) -> dict[str, dict[str, Any]]:
        """The documents that there were."""
        found = {}
        for name, past in self.past.items():
            until = [told for told in past if told.ts <= moment]
            if until and until[-1].after is not None:
                found[name] = until[-1].after
        return found


def iso(moment: datetime) -> str:
    """A time as the program writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def plain(document: Any) -> Any:
    """A document of ours as the program would have it."""
    shown = dict(document)
    for name in ("createdAt", "updatedAt", "joined"):
        if isinstance(shown.get(name), datetime):
            shown[name] = iso(shown[name])
    return shown


def sample(storage: dict[str, str], **options: Any) -> Bucket:
    """A bucket with something of everything."""
    bucket = Bucket(storage, **options)
    bucket.create("a", "ada", name="Acme Corp", email="hi@acme.com", joined="2026-01-01T00:00:00.000Z")
    bucket.update("a", "ada", "new owner", name="Acme Inc")
    bucket.snapshot("a")
    bucket.create("b", name="Bolt", email="b@x")
    bucket.update("a", "bot", email=None, joined="2026-01-02T00:00:00.000Z")
    bucket.delete("b", "ada")
    bucket.create("c", name="Cog")
    bucket.delete("c", soft=False)
    bucket.create("d", name="Dot", email="d@x")
    bucket.delete("d")
    bucket.restore("d", "eve")
    bucket.snapshot("d")
    return bucket


def small(storage: dict[str, str]) -> Bucket:
    """A bucket with one document that lives and one in the trash, for who tries every request."""
    bucket = Bucket(storage)
    bucket.create("a", "ada", name="A", email="a@x")
    bucket.update("a", name="B")
    bucket.create("t", name="T")
    bucket.delete("t", "ada")
    return bucket
