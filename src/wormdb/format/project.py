"""Values of a few fields out of many stored documents, without decoding the rest of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import astuple

from wormdb.format.damage import corrupt
from wormdb.format.kinds import MISSING
from wormdb.format.path import get_direct, parse_path
from wormdb.format.wrappers import READERS, MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.format.path import Path

__all__ = ["project", "read_id"]

_CONTAINERS: Final = frozenset({dict, list})
_SLICE_ROWS: Final = 512
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')


class _IdOnly(msgspec.Struct):
    id: Any = msgspec.field(name="_id", default=MISSING)


_ID_DECODER: Final = msgspec.json.Decoder(_IdOnly)


def project(documents: Sequence[bytes | None], paths: Sequence[str], *, name: str) -> list[list[Any]]:
    """For each dotted path the values of all documents; MISSING where a field or a document is not there.

    TRAVERSED of `wormdb.format.path` stands where a path crosses an array. Each document is
    decoded once, and only its first-level fields that a path begins with. Raises CorruptionError
    naming object `name` for bytes that are no document. No requests.
    """
    parsed = [parse_path(path) for path in paths]
    tops = sorted({path[0] for path in parsed})
    decode = _row_decoder(tops)
    columns: list[list[Any]] = [[] for _ in paths]
    try:
        # In slices, so that few containers live at once: the collector would visit them over and over.
        for start in range(0, len(documents), _SLICE_ROWS):
            rows = zip(*map(decode, documents[start : start + _SLICE_ROWS]), strict=True)
            fields = dict(zip(tops, rows, strict=True))
            for path, column in zip(parsed, columns, strict=True):
                column.extend(_at_path(fields[path[0]], path[1:]))
    except (msgspec.MsgspecError, MalformedError, UnicodeError, RecursionError) as error:
        corrupt(name, f"a document is no valid JSON: {error}")
    return columns


def read_id(document: bytes | memoryview, *, name: str) -> Any:
    """The `_id` of a stored document, and nothing else of it; raises CorruptionError. No requests."""
    try:
        value = _revive(_ID_DECODER.decode(document).id)
    except (msgspec.MsgspecError, MalformedError, UnicodeError, RecursionError) as error:
        corrupt(name, f"a document is no valid JSON: {error}")
    if value is MISSING:
        corrupt(name, "a document has no _id")
    return value


def _row_decoder(tops: Sequence[str]) -> Callable[[bytes | None], tuple[Any, ...]]:
    absent = (MISSING,) * len(tops)
    if any(_ESCAPED.search(top) for top in tops):
        # msgspec has no field of such a name, so these few documents are decoded whole.
        whole = msgspec.json.Decoder(dict[str, Any]).decode
        return lambda document: absent if document is None else _picked(whole(document), tops)
    fields = [(f"f{place}", Any, msgspec.field(name=top, default=MISSING)) for place, top in enumerate(tops)]
    decode, to_tuple = msgspec.json.Decoder(msgspec.defstruct("Projected", fields, gc=False)).decode, astuple
    return lambda document: absent if document is None else to_tuple(decode(document))


def _picked(document: dict[str, Any], tops: Sequence[str]) -> tuple[Any, ...]:
    return tuple([document.get(top, MISSING) for top in tops])


def _at_path(values: Sequence[Any], path: Path) -> Sequence[Any]:
    if path:
        # No path has a segment that starts with `$`, so none leads into an extended form.
        values = [get_direct(value, path) if type(value) in _CONTAINERS else MISSING for value in values]
    if _CONTAINERS.isdisjoint(map(type, values)):
        return values
    return [_revive(value) if type(value) in _CONTAINERS else value for value in values]


def _revive(value: Any) -> Any:
    """Plain JSON with its extended forms read; scalars are what they are."""
    kind = type(value)
    if kind is list:
        return value if _CONTAINERS.isdisjoint(map(type, value)) else [_revive(item) for item in value]
    if kind is not dict:
        return value
    if len(value) == 1:
        (key,) = value
        if (read := READERS.get(key)) is not None:
            return read(value[key])
    return {key: _revive(item) for key, item in value.items()}
