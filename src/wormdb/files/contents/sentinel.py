"""Sentinels: files named `.worm` that say what a bucket or a collection is. They inform, and are never the truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from wormdb.files.contents.values import indent, read_member, read_object
from wormdb.schema.validate import parse_datetime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.schema.model import Model

__all__ = [
    "BucketSentinel",
    "CollectionSentinel",
    "bucket_sentinel",
    "collection_sentinel",
    "read_bucket_sentinel",
    "read_collection_sentinel",
]


@dataclass(frozen=True, slots=True)
class CollectionSentinel:
    """What the sentinel of a collection says."""

    model: str | None
    id_type: str | None
    """The type of ids in the model's path; None for a singleton."""
    mode: str | None
    oplog: bool
    soft_delete: bool
    count: int | None
    last_modified: datetime | None
    log: int | None
    """The number of the log at which it was written; None in files of others."""


def collection_sentinel(model: Model, count: int, last_modified: datetime | None, log: int | None = None) -> bytes:
    """The sentinel of a collection: `last_modified` is None for one that was never changed. No requests."""
    written: dict[str, Any] = {
        "model": model.name,
        "idType": None if model.path.id is None else model.path.id.type,
        "mode": model.mode,
        "oplog": model.oplog,
        "softDelete": model.soft_delete.enabled,
        "count": count,
        "lastModified": None if last_modified is None else _second(last_modified),
        "log": log,
    }
    return indent({name: value for name, value in written.items() if value is not None})


def _second(ts: datetime) -> str:
    return f"{ts.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def read_collection_sentinel(body: bytes, *, key: str) -> CollectionSentinel:
    """What it says; raises CorruptionError naming the key. No requests."""
    values = read_object(body, key=key)
    time = read_member(values, "lastModified", str, key=key)
    return CollectionSentinel(
        model=read_member(values, "model", str, key=key),
        id_type=read_member(values, "idType", str, key=key),
        mode=read_member(values, "mode", str, key=key),
        oplog=read_member(values, "oplog", bool, key=key) or False,
        soft_delete=read_member(values, "softDelete", bool, key=key) or False,
        count=read_member(values, "count", int, key=key),
        last_modified=None if time is None else parse_datetime(time),
        log=read_member(values, "log", int, key=key),
    )


@dataclass(frozen=True, slots=True)
class BucketSentinel:
    """What the sentinel of a bucket says."""

    schema: str | None
    bucket: str | None
    models: tuple[str, ...]
    storage: dict[str, str]
    """`layout`, and the layouts of single folders that differ from it."""
    names: dict[str, str]
    """Collections whose folder in root layouts is not their last name: prefix → folder."""
    places: dict[str, dict[str, str]] = field(default_factory=dict)
    """Collections whose folders lie elsewhere than `storage` says: prefix → its own `storage`."""


def bucket_sentinel(
    bucket: str,
    models: Sequence[str],
    storage: Mapping[str, str],
    schema_version: str,
    names: Mapping[str, str] | None = None,
    places: Mapping[str, Mapping[str, str]] | None = None,
) -> bytes:
    """The sentinel of a bucket; `storage`, `names` and `places` as `BucketSentinel` says."""
    written: dict[str, Any] = {
        "schema": schema_version,
        "bucket": bucket,
        "models": sorted(models),
        "storage": dict(storage),
    }
    if names:
        written["names"] = dict(sorted(names.items()))
    if places:
        written["places"] = {prefix: dict(place) for prefix, place in sorted(places.items())}
    return indent(written)


def read_bucket_sentinel(body: bytes, *, key: str) -> BucketSentinel:
    """What it says; raises CorruptionError naming the key. No requests."""
    values = read_object(body, key=key)
    models = read_member(values, "models", list, key=key) or []
    storage, names, places = (read_member(values, name, dict, key=key) or {} for name in ("storage", "names", "places"))
    return BucketSentinel(
        schema=read_member(values, "schema", str, key=key),
        bucket=read_member(values, "bucket", str, key=key),
        models=tuple(name for name in models if type(name) is str),
        storage=_texts(storage),
        names=_texts(names),
        places={name: _texts(value) for name, value in places.items() if type(value) is dict},
    )


def _texts(values: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in values.items() if type(value) is str}
