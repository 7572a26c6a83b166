"""Many documents at once: which of them can be stored as they are, and the JSON of those.

Documents of a collection have the same fields. So they are looked at field by field: that a thousand values are all
text is seen at once, where `wormdb.schema.validate` asks for each. A document passes if that would take it and leave
it as it is, but for the id, defaults, dates and the times of a model. All others are left to it: it knows how
to convert values, and what to say about those that do not fit.
"""

from __future__ import annotations

from datetime import datetime
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.errors import WormError
from wormdb.format import json
from wormdb.format.values import MISSING, are_field_names, normalize
from wormdb.format.wrappers import WRITERS
from wormdb.schema.identity import are_ids
from wormdb.schema.model import Field, Model
from wormdb.schema.validate import default_values, has_types, parse_datetime
from wormdb.settings import DOCUMENT_BYTES_MAX, DOCUMENT_KEYS_MAX, ID_BYTES_MAX, INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


__all__ = ["PlainDocument", "Sieve"]

_GROUP_MIN: Final = 16
"""A group of documents in which one does not pass is divided, down to this many."""
_PARTS: Final = 8
_LEVELS_MAX: Final = 12
"""Deeper documents are looked at one by one."""
_VALUES_MAX: Final = 1_000_000
"""Values in the arrays and objects of documents that are looked at together: a list can hold itself."""

_BYTES_MAX: Final = DOCUMENT_BYTES_MAX - 8 * ID_BYTES_MAX
"""Of documents that cannot be too large with their id and times."""

_IDS: Final = frozenset({"_id", "id"})
_TIMES: Final = frozenset({"createdAt", "updatedAt"})
_ANY: Final = Field()
_ABSENT: Final = type(None)
_FREE: Final = frozenset({str, bool})
"""Values that are stored as they are whatever they are; text that is not valid Unicode is found when it is encoded."""
_KINDS: Final[Mapping[str, frozenset[type]]] = {
    "string": frozenset({str}),
    "number": frozenset({int, float}),
    "integer": frozenset({int}),
    "boolean": frozenset({bool}),
    "array": frozenset({list}),
    "object": frozenset({dict}),
    "any": frozenset({str, int, float, bool, list, dict}),
}
"""Of each type of field the values that are stored as they are."""


class _NotPlainError(Exception):
    """Something is not stored as it is."""


class PlainDocument(msgspec.Struct, frozen=True, gc=False):
    """A document that passed."""

    id: str | None
    """The id that was given."""
    members: bytes
    """Its JSON without id and braces, defaults included."""


class Sieve:
    """What documents of one model, or of none, are like if they need no change. Thread-safe."""

    def __init__(self, model: Model | None) -> None:
        """No requests."""
        self._model = model
        fields: Mapping[str, Field] = {} if model is None else model.fields
        self._fields = {name: field for name, field in fields.items() if name not in _IDS}
        is_plain = model is None or (not model.is_singleton and _TIMES.isdisjoint(fields))
        self._is_open = is_plain and not has_types(model)

    def run(self, documents: Sequence[Any]) -> list[PlainDocument | None]:
        """Of each document its JSON, None for those that must be looked at one by one. No requests."""
        passed: list[PlainDocument | None] = [None] * len(documents)
        if self._is_open:
            places = [place for place, document in enumerate(documents) if type(document) is dict]
            for names, chosen in _by_names([documents[place] for place in places]).items():
                results = self._group(names, [documents[places[one]] for one in chosen])
                for one, result in zip(chosen, results, strict=True):
                    passed[places[one]] = result
        return passed

    def _group(self, names: tuple[str, ...], documents: Sequence[dict[str, Any]]) -> Sequence[PlainDocument | None]:
        try:
            return self._passed(names, documents)
        except _NotPlainError:
            if len(documents) <= _GROUP_MIN:
                return [None] * len(documents)
        size = -(-len(documents) // _PARTS)
        parts = [documents[start : start + size] for start in range(0, len(documents), size)]
        return [result for part in parts for result in self._group(names, part)]

    def _passed(self, names: tuple[str, ...], documents: Sequence[dict[str, Any]]) -> list[PlainDocument | None]:
        """All of some documents with the same names; raises _NotPlainError."""
        identity = self._identity(names)
        look = _Inspection()
        look.names(names, documents)
        defaults = self._defaults(names)
        ids: Sequence[str | None] = [None] * len(documents)
        dates: dict[str, list[Any]] = {}
        for name, column in zip(names, zip(*map(dict.values, documents), strict=True), strict=True):
            if name == identity:
                ids = self._ids(column)
                continue
            field, kinds = self._fields.get(name, _ANY), set(map(type, column))
            if datetime in kinds or field.type == "datetime":
                dates[name] = _written_dates(field, column, kinds)
            else:
                look.values(field, column, kinds, 2)
        if identity is not None or dates:
            documents = [_without(document, identity) for document in documents]
        for name, values in dates.items():
            for document, value in zip(documents, values, strict=True):
                document[name] = value
        found = _members(documents, defaults)
        return [
            None if members is None else PlainDocument(given, members)
            for given, members in zip(ids, found, strict=True)
        ]

    def _identity(self, names: tuple[str, ...]) -> str | None:
        """The name of the field that has the id; raises _NotPlainError where it is not simply there or not there."""
        given = [name for name in names if name in _IDS]
        if len(given) > 1 or (self._model is not None and not _TIMES.isdisjoint(names)):
            raise _NotPlainError
        return given[0] if given else None

    def _ids(self, column: Sequence[Any]) -> Sequence[str]:
        if set(map(type, column)) != {str} or not all(column):
            raise _NotPlainError
        joined = "".join(column)
        if not joined.isascii() or max(map(len, column)) > ID_BYTES_MAX:
            raise _NotPlainError
        if self._model is not None and not are_ids(self._model, column):
            raise _NotPlainError
        return column

    def _defaults(self, names: tuple[str, ...]) -> bytes:
        """The JSON of the defaults of documents with these names; raises _NotPlainError if one is required."""
        missing = {name: field for name, field in self._fields.items() if name not in names}
        if all(field.default is MISSING and not field.required for field in missing.values()):
            return b""
        try:
            values = default_values(missing)
        except WormError:
            raise _NotPlainError from None
        return json.encode_document(values)[1:-1]


class _Inspection:
    """One look at documents: counts what it has seen, so that shared parts cannot blow up."""

    def __init__(self) -> None:
        self._left = _VALUES_MAX

    def names(self, names: tuple[str, ...], documents: Sequence[dict[str, Any]]) -> None:
        """Look at the names of objects, which are the same in all."""
        if len(names) > DOCUMENT_KEYS_MAX or not are_field_names(names):
            raise _NotPlainError
        if names and set(map(type, chain.from_iterable(documents))) != {str}:
            raise _NotPlainError

    def values(self, field: Field, column: Sequence[Any], kinds: set[type], level: int) -> None:
        """Look at the values of one field, which are of these kinds; a container among them is at `level`."""
        if _ABSENT in kinds:
            if field.required:
                raise _NotPlainError
            kinds.discard(_ABSENT)
            column = [value for value in column if value is not None]
        if not kinds.issubset(_KINDS.get(field.type, ())):
            raise _NotPlainError
        if field.enum is not None and (kinds - {str} or not set(column).issubset(_texts(field.enum))):
            raise _NotPlainError
        for kind in kinds - _FREE:
            some = column if len(kinds) == 1 else [value for value in column if type(value) is kind]
            self._kind(field, kind, some, level)

    def _kind(self, field: Field, kind: type, values: Sequence[Any], level: int) -> None:
        if kind is int:
            is_odd = min(values) < INT_MIN or max(values) > INT_MAX
        elif kind is float:
            is_odd = not all(map(isfinite, values))
        else:
            self._left -= sum(map(len, values))
            is_odd = level > _LEVELS_MAX or self._left < 0
        if is_odd:
            raise _NotPlainError
        if kind is list:
            items = list(chain.from_iterable(values))
            self.values(field.items or _ANY, items, set(map(type, items)), level + 1)
        elif kind is dict:
            self._objects(field.properties, values, level)

    def _objects(self, properties: Mapping[str, Field], objects: Sequence[dict[str, Any]], level: int) -> None:
        for names, places in _by_names(objects).items():
            group = [objects[place] for place in places]
            self.names(names, group)
            for name, field in properties.items():
                if name not in names and (field.required or field.default is not MISSING):
                    raise _NotPlainError
            for name, column in zip(names, zip(*map(dict.values, group), strict=True), strict=True):
                self.values(properties.get(name, _ANY), column, set(map(type, column)), level + 1)


def _by_names(objects: Sequence[dict[str, Any]]) -> dict[tuple[str, ...], Sequence[int]]:
    """Which objects have the same names in the same order: their places."""
    shapes = list(map(tuple, objects))
    if len(set(shapes)) <= 1:
        return dict.fromkeys(shapes, range(len(shapes)))
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, names in enumerate(shapes):
        groups.setdefault(names, []).append(place)
    return dict(groups)


def _texts(choices: Iterable[Any]) -> set[str]:
    return {choice for choice in choices if type(choice) is str}


def _written_dates(field: Field, column: Sequence[Any], kinds: set[type]) -> list[Any]:
    """Dates in the form that JSON has for them; raises _NotPlainError."""
    if field.type not in ("datetime", "any") or field.enum is not None or (field.required and _ABSENT in kinds):
        raise _NotPlainError
    return [None if value is None else _written_date(value, field) for value in column]


def _written_date(value: Any, field: Field) -> Any:
    kind = type(value)
    if kind is datetime:
        try:
            return WRITERS[datetime](normalize(value))
        except WormError:
            raise _NotPlainError from None
    moment = parse_datetime(value) if kind is str and field.type == "datetime" else None
    if moment is None:
        raise _NotPlainError
    return WRITERS[datetime](moment)


def _without(document: dict[str, Any], name: str | None) -> dict[str, Any]:
    rest = document.copy()
    if name is not None:
        del rest[name]
    return rest


def _members(documents: Sequence[dict[str, Any]], defaults: bytes) -> list[bytes | None]:
    """The JSON of each without its braces; None where a text is not valid Unicode, or the document may be too large."""
    try:
        found: list[bytes | None] = [json.encode_plain(document)[1:-1] for document in documents]
    except UnicodeEncodeError:
        return [None] if len(documents) == 1 else [_members([one], defaults)[0] for one in documents]
    if defaults:
        found = [b"%b,%b" % (members, defaults) if members else defaults for members in found]
    return [None if members is None or len(members) > _BYTES_MAX else members for members in found]
