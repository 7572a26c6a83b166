"""A bucket as an S3WORM client leaves it, made by the standard library alone: nothing here is our writer's.

Entities are JSON at the model's path, the manifest has a row of some fields for each, index files have ids by value.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import wormdb
from wormdb.format.kinds import Decimal128
from wormdb.storage.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document
    from wormdb.storage.meter import MeteredRequest
    from wormdb.storage.store import Store

FOLDER = "org/customers/"
STAMP = "2026-02-24T14:30:00.000Z"
LATER = "2999-01-01T00:00:00.000Z"
FIELDS = ("name", "status", "score", "tags", "joined", "address")
CUSTOMER: dict[str, Any] = {
    "path": "#org/@customers/(id:string)/[profile].json",
    "mode": "readonly",
    "fields": {
        "name": {"type": "string"},
        "status": {"type": "string"},
        "score": {"type": "number"},
        "tags": {"type": "array"},
        "joined": {"type": "datetime"},
        "address": {"type": "object"},
        "notes": {"type": "string"},
        "friend": {"type": "string", "ref": "Customer"},
    },
    "refs": {"friends": {"model": "Customer", "type": "hasMany", "foreignKey": "friend"}},
    "manifest": {"enabled": True, "fields": list(FIELDS)},
    "indexes": {"byStatus": {"field": "status"}, "byTags": {"field": "tags", "type": "multiValue"}},
}
_numbers = itertools.count()


def schema_of(customer: dict[str, Any] | None = None, **models: dict[str, Any]) -> dict[str, Any]:
    """A schema with the model of customers, and others."""
    known = {"Customer": CUSTOMER if customer is None else customer, **models}
    return {"schemaVersion": "1.0", "sourceOfTruth": "remote", "models": known}


def checksum_of(entries: Any) -> str:
    """As the pages say: a digest of the entities, with sorted names and without spaces."""
    text = json.dumps(entries, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@dataclass
class Bucket:
    """Files of customers in the memory of this process."""

    url: str = field(default_factory=lambda: f"memory://worm-{next(_numbers)}")
    requests: list[tuple[str, str]] = field(default_factory=list)

    @cached_property
    def store(self) -> Store:
        """The files themselves."""
        return open_store(self.url)

    def put(self, key: str, value: Any) -> None:
        """Write one file, as JSON or as it is."""
        body = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False, indent=2).encode()
        self.store.put(key, body)

    def read(self, key: str) -> Any:
        """What is in one file."""
        return json.loads(self.store.get(key).body)

    # --- what a client writes ---

    def entity(self, document: dict[str, Any]) -> None:
        """One customer, with what an inline layout keeps beside it."""
        folder = f"{FOLDER}{document['id']}/"
        self.put(f"{folder}profile.json", document)
        self.put(f"{folder}.oplog/0001.json", {"seq": 1, "op": "create", "ts": STAMP, "snapshot": document})

    def manifest(self, documents: list[dict[str, Any]], key: str = ".worm.manifest.json", **changes: Any) -> None:
        """The manifest of customers, or one partition of it."""
        names = (*FIELDS, "createdAt", "updatedAt")
        rows = {each["id"]: {name: each[name] for name in names if name in each} for each in documents}
        body = {"version": 1, "model": "Customer", "count": len(rows), "lastUpdated": LATER}
        self.put(FOLDER + key, {**body, "checksum": checksum_of(rows), "entities": rows, **changes})

    def partitions(self, documents: list[dict[str, Any]], count: int) -> None:
        """The manifest in several files, each with ids of its own."""
        parts = [documents[place::count] for place in range(count)]
        for number, part in enumerate(parts):
            self.manifest(part, f".worm.manifest/partition-{number}.json")
        meta = {"partitionCount": count, "partitionBy": "id_prefix", "totalCount": len(documents)}
        self.put(f"{FOLDER}.worm.manifest/_meta.json", meta)

    def index(self, documents: list[dict[str, Any]], name: str, kind: str = "standard", **changes: Any) -> None:
        """The ids of customers by the values of one field."""
        entries: dict[str, list[str]] = {}
        for each in documents:
            value = each.get(name)
            for one in value if isinstance(value, list) else [value]:
                if one is not None and each["id"] not in entries.setdefault(_text(one), []):
                    entries[_text(one)].append(each["id"])
        body = {"version": 1, "model": "Customer", "field": name, "type": kind, "unique": False, "lastUpdated": LATER}
        self.put(f"{FOLDER}.worm.index/{name}.json", {**body, "entries": entries, **changes})

    def fill(self, documents: list[dict[str, Any]]) -> None:
        """All of it."""
        for each in documents:
            self.entity(each)
        self.manifest(documents)
        self.index(documents, "status")
        self.index(documents, "tags", "multiValue")
        self.put(f"{FOLDER}.worm", {"model": "Customer", "count": len(documents)})
        self.put(f"{FOLDER}README.txt", b"no customer")

    # --- how it is read ---

    @contextmanager
    def open(self, *, schema: dict[str, Any] | None = None, **settings: Any) -> Iterator[Database]:
        """The bucket, opened by a process that knows nothing; every request of it is noted."""

        def note(request: MeteredRequest) -> None:
            self.requests.append((request.kind, request.key.removeprefix(FOLDER)))

        chosen = wormdb.Settings(**{"source": "files", "pool_threads": 2, **settings})
        with wormdb.connect(self.url, schema=schema or schema_of(), hook=note, settings=chosen) as database:
            yield database

    @contextmanager
    def customers(self, **settings: Any) -> Iterator[Collection[Document]]:
        """The collection of such a process."""
        with self.open(**settings) as database:
            yield database.model("Customer")

    def cost_of(self, work: Any) -> list[tuple[str, str]]:
        """The requests that some work makes."""
        self.requests.clear()
        work()
        return list(self.requests)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def customer(number: int, **fields: Any) -> dict[str, Any]:
    """One customer with all fields."""
    return {
        "id": f"c{number:03}",
        "name": f"Name {number}",
        "status": ("active", "inactive", "churned")[number % 3],
        "score": number,
        "tags": ["vip", "new"][: number % 3],
        "joined": f"2026-01-{number % 28 + 1:02}T09:00:00.000Z",
        "address": {"city": ("Rome", "Oslo")[number % 2], "zip": str(number)},
        "notes": "n" * (number % 5),
        "friend": f"c{(number + 1) % 7:03}",
        "createdAt": STAMP,
        "updatedAt": STAMP,
        **fields,
    }


def as_document(written: dict[str, Any]) -> dict[str, Any]:
    """What a customer's file means: the id is `_id`, declared dates are dates if they can be, decimals are decimals."""
    found = {("_id" if name == "id" else name): value for name, value in written.items()}
    if isinstance(found.get("score"), dict):
        found["score"] = Decimal128(found["score"]["$numberDecimal"])
    return {
        name: _as_date(value) if name in ("joined", "createdAt", "updatedAt") else value
        for name, value in found.items()
    }


def _as_date(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
