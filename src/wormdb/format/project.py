"""Values of a few fields out of many stored documents, without decoding the rest of them.

A struct type is made for the paths that are asked for, and msgspec reads each document into it: what no
path leads to is passed over, embedded documents become structs of their own, and dates become dates.
The few documents that do not fit the type are decoded whole, and put into it by hand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.format.frame import corrupt
from wormdb.format.kinds import MISSING, Missing
from wormdb.format.path import TRAVERSED, Path, get_direct, parse_path
from wormdb.format.wrappers import READERS, MalformedError, stored_date

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


__all__ = ["project", "project_raw", "read_id"]

_CONTAINERS: Final = frozenset({dict, list})
_SLICE_ROWS: Final = 512
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
_SAMPLE_ROWS: Final = 8


class _IdOnly(msgspec.Struct):
    id: Any = msgspec.field(name="_id", default=MISSING)


class _Date(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    at: datetime = msgspec.field(name="$date")


_ID_DECODER: Final = msgspec.json.Decoder(_IdOnly)
_WHOLE_DECODER: Final = msgspec.json.Decoder(dict[str, Any])
_DATE_FIELD: Final[Any] = _Date | None | bool | int | float | str | list[Any]
# msgspec works out a type at its first use, and two threads at once would crash: here there is no second one yet.
msgspec.json.Decoder(_Date)
_UNREADABLE: Final = (msgspec.MsgspecError, MalformedError, UnicodeError, RecursionError)


def project(documents: Sequence[bytes | None], paths: Sequence[str], *, name: str) -> list[list[Any]]:
    """For each dotted path the values of all documents; MISSING where a field or a document is not there.

    TRAVERSED of `wormdb.format.path` stands where a path crosses an array. Each document is
    decoded once, and only the fields that a path leads to. Raises CorruptionError
    naming object `name` for bytes that are not a document. No requests.
    """
    parsed = [parse_path(path) for path in paths]
    columns: list[list[Any]] = [[] for _ in paths]
    try:
        shape, decode = _reader(tuple(parsed), frozenset(_dates(documents, parsed)))
        # In slices, so that few containers live at once: the collector would visit them over and over.
        for start in range(0, len(documents), _SLICE_ROWS):
            rows = list(map(decode, documents[start : start + _SLICE_ROWS]))
            fields = shape.columns(rows)
            for path, column in zip(parsed, columns, strict=True):
                column.extend(fields[path])
    except _UNREADABLE as error:
        corrupt(name, f"a document is not valid JSON: {error}")
    return columns


def project_raw(documents: Sequence[bytes | None], fields: Sequence[str], *, name: str) -> list[list[bytes | Missing]]:
    """For each field of the first level its JSON in all documents, as it stands there; MISSING where it is not there.

    Raises CorruptionError naming object `name` for bytes that are not a document. No requests.
    """
    assert not any(map(_ESCAPED.search, fields)), "names that JSON escapes are not found as they are"
    members = [
        (f"f{place}", msgspec.Raw, msgspec.field(name=field, default=MISSING)) for place, field in enumerate(fields)
    ]
    columns: list[list[bytes | Missing]] = [[] for _ in fields]
    try:
        decode = msgspec.json.Decoder(msgspec.defstruct("Projected", members, gc=False)).decode
        for start in range(0, len(documents), _SLICE_ROWS):
            some = documents[start : start + _SLICE_ROWS]
            rows = [decode(b"{}" if document is None else document) for document in some]
            for place, column in enumerate(columns):
                values = map(attrgetter(f"f{place}"), rows)
                column.extend(MISSING if value is MISSING else bytes(value) for value in values)
    except _UNREADABLE as error:
        corrupt(name, f"a document is not valid JSON: {error}")
    return columns


def read_id(document: bytes | memoryview, *, name: str) -> Any:
    """The `_id` of a stored document, and nothing else of it; raises CorruptionError. No requests."""
    try:
        value = _revive(_ID_DECODER.decode(document).id)
    except _UNREADABLE as error:
        corrupt(name, f"a document is not valid JSON: {error}")
    if value is MISSING:
        corrupt(name, "a document has no _id")
    return value


# --- the type that documents are read into ---


@dataclass(frozen=True, slots=True)
class _Shape:
    """The fields of one level: `deeper` are documents of which only some fields are wanted."""

    fields: tuple[str, ...]
    """Names in documents; the struct's own are `f0`, `f1` and so on."""
    deeper: dict[str, _Shape]
    dates: frozenset[str]
    ends: dict[str, list[Path]]
    """For each field that is read whole, what is wanted of it: itself (an empty path), or below it."""
    struct: type[msgspec.Struct] | None
    """None if a name cannot be the name of a field for msgspec."""

    @classmethod
    def of(cls, paths: Iterable[Path], dates: frozenset[Path]) -> _Shape:
        """For paths that are not empty; `dates` are those at which a date is expected."""
        below: dict[str, list[Path]] = {}
        for path in paths:
            below.setdefault(path[0], []).append(path[1:])
        deeper, found = {}, set()
        for field, rests in below.items():
            if all(rests) and not any(map(_ESCAPED.search, [field, *(part for rest in rests for part in rest)])):
                deeper[field] = cls.of(rests, frozenset(path[1:] for path in dates if path[0] == field))
            elif (field,) in dates and rests == [()]:
                found.add(field)
        ends = {field: rests for field, rests in below.items() if field not in deeper}
        fields = tuple(below)
        return cls(fields, deeper, frozenset(found), ends, _struct(fields, deeper, found))

    def decoder(self) -> Callable[[bytes | None], Any]:
        """Reads one document into the struct."""
        absent = self.filled(MISSING)
        whole = _WHOLE_DECODER.decode
        if self.struct is None:
            return lambda document: absent if document is None else self.build(whole(document))
        decode = msgspec.json.Decoder(self.struct).decode

        def read(document: bytes | None) -> Any:
            if document is None:
                return absent
            try:
                return decode(document)
            except msgspec.ValidationError:
                return self.build(whole(document))

        return read

    def filled(self, value: Any) -> Any:
        """The struct with the same value everywhere."""
        values = [self.deeper[field].filled(value) if field in self.deeper else value for field in self.fields]
        return self._made(values)

    def build(self, document: dict[str, Any]) -> Any:
        """The struct of a document that was decoded whole."""
        values = []
        for field in self.fields:
            value = document.get(field, MISSING)
            if (inner := self.deeper.get(field)) is not None:
                kind = type(value)
                value = inner.build(value) if kind is dict else inner.filled(TRAVERSED if kind is list else MISSING)
            values.append(value)
        return self._made(values)

    def _made(self, values: list[Any]) -> Any:
        return tuple(values) if self.struct is None else self.struct(*values)

    def columns(self, rows: list[Any]) -> dict[Path, Sequence[Any]]:
        """The values of every path, of rows that were read into the struct."""
        found: dict[Path, Sequence[Any]] = {}
        for place, field in enumerate(self.fields):
            values = [row[place] for row in rows] if self.struct is None else list(map(attrgetter(f"f{place}"), rows))
            if (inner := self.deeper.get(field)) is not None:
                absent = inner.filled(MISSING)
                parts = inner.columns([absent if value is None else value for value in values])
                found.update({(field, *path): part for path, part in parts.items()})
                continue
            if field in self.dates:
                values = _with_dates(values)
            for path in self.ends[field]:
                found[field, *path] = _at_path(values, path)
        return found


@lru_cache(maxsize=64)
def _reader(paths: tuple[Path, ...], dates: frozenset[Path]) -> tuple[_Shape, Callable[[bytes | None], Any]]:
    shape = _Shape.of(paths, dates)
    return shape, shape.decoder()


def _struct(fields: Sequence[str], deeper: dict[str, _Shape], dates: set[str]) -> type[msgspec.Struct] | None:
    if any(map(_ESCAPED.search, fields)):
        return None
    members: list[tuple[str, Any, Any]] = []
    for place, field in enumerate(fields):
        kind, default = _DATE_FIELD if field in dates else Any, MISSING
        if (inner := deeper.get(field)) is not None:
            kind, default = inner.struct | None, inner.filled(MISSING)  # type: ignore[operator] # names are plain
        members.append((f"f{place}", kind, msgspec.field(name=field, default=default)))
    return msgspec.defstruct("Projected", members, gc=False, frozen=True)


def _dates(documents: Sequence[bytes | None], paths: Sequence[Path]) -> set[Path]:
    """Paths at which the first documents have dates: worth a type, because a date is slow to read otherwise."""
    found: set[Path] = set()
    for document in islice((document for document in documents if document is not None), _SAMPLE_ROWS):
        if b'{"$date":"' in document:
            whole = _WHOLE_DECODER.decode(document)
            found |= {path for path in paths if _is_date(get_direct(whole, path))}
    return found


def _is_date(value: Any) -> bool:
    return type(value) is dict and len(value) == 1 and type(value.get("$date")) is str


# --- values ---


def _with_dates(values: list[Any]) -> list[Any]:
    return [stored_date(value.at) if type(value) is _Date else value for value in values]


def _at_path(values: Sequence[Any], path: Path) -> Sequence[Any]:
    if path:
        # No path has a segment that starts with `$`, so none leads into an extended form.
        # Below an array that was crossed on the way all is beyond it.
        values = [
            get_direct(value, path) if type(value) in _CONTAINERS else TRAVERSED if value is TRAVERSED else MISSING
            for value in values
        ]
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
