"""What a key of a readable file means; and the names of the files of tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.segment import decode_segment, encode_segment
from wormdb.settings import SEGMENT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

__all__ = ["META", "FileKey", "FileKind", "index_key", "index_name", "manifest_key"]

META: Final = "_meta.json"
"""What names the files of a table that is in several."""

FileKind = Literal[
    "entity",
    "oplog",
    "snapshot",
    "trashed",
    "tombstone",
    "manifest",
    "manifest_meta",
    "manifest_partition",
    "index",
    "index_meta",
    "index_partition",
    "sentinel",
]

_JSON: Final = ".json"
_ESCAPED_JSON: Final = "%2Ejson"
_PARTITION: Final = re.compile(r"partition-(0|[1-9][0-9]*)\.json", re.ASCII)


@dataclass(frozen=True, slots=True)
class FileKey:
    """What a key is: its kind, and the parts of its name that the kind has."""

    kind: FileKind
    id: Any = None
    seq: int | None = None
    ts: datetime | None = None
    fields: tuple[str, ...] = ()
    partition: int | None = None
    is_elsewhere: bool = False
    """Whether it would be one of ours in another layout."""


def index_name(fields: Sequence[str]) -> str:
    """The fields of an index as one name. Raises LimitExceededError if that is too long. No requests."""
    names = [encode_segment(name) for name in fields]
    # A folder of one index must not have the name of another's file.
    joined = "+".join([*names[:-1], _guarded(names[-1])])
    if len(joined) > SEGMENT_BYTES_MAX:
        raise LimitExceededError(
            f"the index over {', '.join(fields)} takes {len(joined)} bytes as a name",
            reason=f"SEGMENT_BYTES_MAX is {SEGMENT_BYTES_MAX}",
            fix="index fewer fields, or turn readable files off for this model",
        )
    return joined


def _guarded(name: str) -> str:
    return name.removesuffix(_JSON) + _ESCAPED_JSON if name.endswith(_JSON) else name


def _fields(name: str) -> tuple[str, ...] | None:
    unguarded = name.removesuffix(_ESCAPED_JSON) + _JSON if name.endswith(_ESCAPED_JSON) else name
    try:
        fields = tuple(decode_segment(part) for part in unguarded.split("+"))
        return fields if all(type(field) is str for field in fields) and index_name(fields) == name else None
    except InvalidRequestError:
        return None


def manifest_key(rest: str) -> FileKey | None:
    """What a key is of which `rest` follows `.worm.manifest`; None if it is not one of ours. No requests."""
    if rest == _JSON:
        return FileKey("manifest")
    if rest == f"/{META}":
        return FileKey("manifest_meta")
    found = _PARTITION.fullmatch(rest[1:]) if rest.startswith("/") else None
    return None if found is None else FileKey("manifest_partition", partition=int(found[1]))


def index_key(rest: str) -> FileKey | None:
    """What a key is of which `rest` follows `.worm.index/`; None if it is not one of ours. No requests."""
    name, slash, file = rest.partition("/")
    fields = _fields(name if slash else name.removesuffix(_JSON))
    if fields is None or not (slash or name.endswith(_JSON)):
        return None
    if not slash:
        return FileKey("index", fields=fields)
    if file == META:
        return FileKey("index_meta", fields=fields)
    found = _PARTITION.fullmatch(file)
    return None if found is None else FileKey("index_partition", fields=fields, partition=int(found[1]))
