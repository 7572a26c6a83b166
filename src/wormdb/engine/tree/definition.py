"""What an index is at run time, and which keys a document has in it.

A key is the order-preserving key of a value, or the joined keys of several (`wormdb.format.key`). These choices
make up for what keys cannot say:

- Missing and null are one key, null's, as in MongoDB. A sparse index leaves a document out whose fields are all
  missing, null or an empty array; otherwise it is there.
- An array is entered by its distinct elements. Not as a whole: that would spoil the order, in which a document
  stands at its least (descending: greatest) element. So equality with a whole array looks up its first
  element and tests the documents found; `lookup_keys` says where to look.
- An empty array has no element. Its key is the one of MISSING, below null, where MongoDB sorts it.
- Numbers that are equal have one key whatever their type, so what must be exact is read from the entry's value
  (see `wormdb.engine.tree.entries`) or from the document.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import msgspec

from wormdb.errors import InvalidRequestError, UnsupportedFormatError
from wormdb.format.blob import BLOB_FIELD, blob_keys_of
from wormdb.format.bson_types import bson_type_of, takes_value, unknown_type
from wormdb.format.frame import corrupt
from wormdb.format.key import check_index_key, encode_key
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import TRAVERSED, Path, Place, get_direct, parse_path, walk, within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.schema.model import IndexDefinition

__all__ = [
    "EMPTY",
    "OWNERS",
    "EmptySentinel",
    "Index",
    "KeyRules",
    "Row",
    "array_fields",
    "check_row",
    "claims_of",
    "decode_index",
    "encode_index",
    "is_row_of",
    "keys_of",
    "lookup_keys",
    "read_bson_types",
    "rows_of",
]


# --- What a document has at the paths of an index: one row of values for each entry it gets.
#
# The rules are MongoDB's. An array is gone through element by element, and all paths that lead through the
# same array stand at the same element, so {"a": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]} has the rows (1, 2) and (3, 4)
# at a.x and a.y. Two different arrays in one document would multiply, and are refused.


class EmptySentinel(enum.Enum):
    """The class of `EMPTY`."""

    EMPTY = enum.auto()

    def __repr__(self) -> str:
        return "[]"

    __str__ = __repr__


EMPTY: Final = EmptySentinel.EMPTY
"""An array without elements: it has no element to stand for it, and sorts below null."""

Row = tuple[Any, ...]
"""One value a path; MISSING where there is none, EMPTY for an empty array."""


def rows_of(document: Document, paths: Sequence[Path]) -> list[Row]:
    """All rows of a normalized document, one at least, perhaps with repeats. No requests.

    Where an array ends a path, its elements count; an array among them is one value. On the way only elements that are
    documents count, and a number in a path is a position unless an element has a field of that name: then it
    is both. An array that gives nothing counts as a missing field. Raises InvalidRequestError if two paths lead to
    different arrays.
    """
    return list(_rows([(document, path) for path in paths]))


def _rows(places: Sequence[Place]) -> Iterator[Row]:
    reached = [walk(value, path) for value, path in places]
    arrays = {id(value): value for value, rest in reached if rest is not None}
    if not arrays:
        yield tuple(value for value, _ in reached)
        return
    if len(arrays) > 1:
        raise InvalidRequestError(
            "two fields of one index are arrays in one document",
            reason="an index takes the elements of one array only, because those of two would multiply",
            fix="make one index for each of the two fields, or store one of them without an array",
        )
    (array,) = arrays.values()
    anything = False
    for position, element in enumerate(array):
        options = [[(value, None)] if rest is None else within(element, position, rest) for value, rest in reached]
        if any(option for option, (_, rest) in zip(options, reached, strict=True) if rest is not None):
            anything = True
            for chosen in product(*(option or [(MISSING, None)] for option in options)):
                yield from _rows(chosen)
    if not anything:
        yield tuple(_nothing(array, rest) if rest is not None else value for value, rest in reached)


def _nothing(array: list[Any], rest: Path) -> Any:
    return EMPTY if not array and not rest else MISSING


# --- Indexes that take values of one type only: a check on what is written, which changes no key.


def read_bson_types(written: object, fields: Sequence[str], *, name: str) -> tuple[str, ...]:
    """The types that were written for the fields of index `name`, by MongoDB's names: one a field; none for None.

    Raises InvalidRequestError, for an unknown name with all names that there are. No requests.
    """
    if written is None:
        return ()
    types = [written] if isinstance(written, str) else written
    what = f"index {name}: bson_type={written!r:.80}"
    if not isinstance(types, list | tuple) or len(types) != len(fields):
        raise InvalidRequestError(
            what,
            reason=f"it has {len(fields)} fields",
            fix=f"give one type for each, such as {['string'] * len(fields)}",
        )
    found: list[str] = []
    for each in types:
        alias = bson_type_of(each)
        if alias is None:
            reason, fix = unknown_type(each)
            raise InvalidRequestError(what, reason=reason, fix=fix)
        found.append(alias)
    return tuple(found)


def is_row_of(row: Iterable[Any], types: Sequence[str]) -> bool:
    """Whether values have the types of their fields; None stands for nothing there. No requests."""
    return all(takes_value(alias)(value) for value, alias in zip(row, types, strict=True))


def check_row(row: Sequence[Any], fields: Sequence[str], types: Sequence[str], *, name: str) -> None:
    """Raise InvalidRequestError naming the index and the value if `is_row_of` does not hold. No requests."""
    for value, path, alias in zip(row, fields, types, strict=True):
        if not is_row_of((value,), (alias,)):
            raise InvalidRequestError(
                f"index {name}: {path}={value!r:.80} is no {alias}",
                reason="the index takes this type only",
                fix="write a value of that type, or make the index without bson_type",
            )


NO_OPTIONS: Final = b"{}"


class _IndexMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    fields: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    unique: bool = False
    sparse: bool = True
    multi_valued: bool = msgspec.field(name="multiValue", default=False)
    covered: tuple[str, ...] = ()
    """Reserved: fields whose values entries hold. No version makes such an index, and this one cannot keep it."""
    bson_types: tuple[str, ...] = msgspec.field(name="bsonTypes", default=())
    is_owners: bool = msgspec.field(name="blobOwners", default=False)
    kind: str = ""
    options: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_DECODER: Final = msgspec.json.Decoder(_IndexMessage)


class KeyRules(Protocol):
    """What decides the keys of a document."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    @property
    def paths(self) -> tuple[Path, ...]:
        """One or more, in order."""
        ...

    @property
    def sparse(self) -> bool:
        """Whether documents with nothing at any path are left out."""
        ...

    @property
    def fields(self) -> tuple[str, ...]:
        """The paths as text."""
        ...

    @property
    def bson_types(self) -> tuple[str, ...]:
        """For each path the only type that its values may have; empty if all may be."""
        ...

    @property
    def is_owners(self) -> bool:
        """Whether the keys are the blobs that a document refers to, wherever it does."""
        ...


@dataclass(frozen=True, slots=True)
class Index:
    """One index: equal definitions are equal values.

    `multi_valued` says that arrays are expected; arrays are gone through in every index.
    """

    name: str
    fields: tuple[str, ...]
    unique: bool = False
    sparse: bool = True
    multi_valued: bool = False
    bson_types: tuple[str, ...] = ()
    """For each field the only type that its values may have, null and missing apart; empty if all may be."""
    is_owners: bool = False
    """Whether it has the blobs that documents refer to, at any depth. No query uses it: it tells owners of blobs."""
    kind: str = ""
    """Of an index that is lists (`wormdb.engine.lists.kind`); empty for a tree."""
    options: bytes = NO_OPTIONS
    """Of that kind, as JSON."""
    paths: tuple[Path, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.fields:
            raise InvalidRequestError(f"index {self.name}", reason="it has no field", fix="name one field at least")
        object.__setattr__(self, "paths", tuple(map(parse_path, self.fields)))

    @classmethod
    def of(cls, name: str, definition: IndexDefinition) -> Index:
        """As a model defines it. Raises InvalidRequestError for a path that cannot be."""
        if definition.type == "vector":
            options = {
                "field": definition.fields[0],
                "dimensions": definition.dimensions,
                "distance": definition.distance or "cosine",
            }
            encoded = msgspec.json.encode(options, order="deterministic")
            return cls(name, definition.fields, kind="vector", options=encoded)
        if definition.type == "text":
            from wormdb.bql.search.fields import parse_fields  # few models have one

            words = parse_fields(definition.weighted_fields, definition.language, definition.stop_words)
            encoded = msgspec.json.encode(words.options, order="deterministic")
            return cls(name, words.names, kind="text", options=encoded)
        return cls(
            name,
            definition.fields,
            unique=definition.unique,
            sparse=definition.sparse,
            multi_valued=definition.type == "multiValue",
        )

    @property
    def compound(self) -> bool:
        """Whether it has several fields."""
        return len(self.fields) > 1

    @property
    def label(self) -> str:
        """Its fields, for messages."""
        return ", ".join(self.fields)


OWNERS: Final = Index("_blobs", (BLOB_FIELD,), is_owners=True)
"""The owners of blobs, in every collection that has blobs."""


def encode_index(index: Index) -> bytes:
    """The definition of an index without its name, as JSON: equal definitions have equal bytes."""
    message = _IndexMessage(
        index.fields,
        index.unique,
        index.sparse,
        index.multi_valued,
        bson_types=index.bson_types,
        is_owners=index.is_owners,
        kind=index.kind,
        # Definitions of before have none, and equal ones have equal bytes.
        options=msgspec.UNSET if index.options == NO_OPTIONS else msgspec.Raw(index.options),
    )
    return msgspec.json.encode(message)


def decode_index(name: str, data: bytes, *, source: str) -> Index:
    """The index of that name that `encode_index` wrote into object `source`.

    Raises CorruptionError, and UnsupportedFormatError for an index whose entries hold more than ids. No requests.
    """
    try:
        message = _DECODER.decode(data)
        if message.covered:
            raise UnsupportedFormatError(
                f"{source} cannot be read",
                reason=f"entries of index {name} hold values of fields, which this version does not keep",
                fix="upgrade wormdb",
                key=source,
            )
        types = read_bson_types(message.bson_types or None, message.fields, name=name)
        return Index(
            name,
            message.fields,
            message.unique,
            message.sparse,
            message.multi_valued,
            types,
            message.is_owners,
            message.kind,
            NO_OPTIONS if isinstance(message.options, msgspec.UnsetType) else bytes(message.options),
        )
    except (msgspec.MsgspecError, UnicodeError, InvalidRequestError) as error:
        corrupt(source, f"the definition of index {name} cannot be read: {error}")


def keys_of(index: KeyRules, document: Document | None) -> list[bytes]:
    """The distinct keys of a normalized document, ascending; none for None. No requests.

    Raises InvalidRequestError if two of the fields are arrays, or a value has not the type that its field must have,
    LimitExceededError for a key over INDEX_KEY_BYTES_MAX; all name the index.
    """
    return sorted(claims_of(index, document))


def claims_of(index: KeyRules, document: Document | None) -> dict[bytes, Any]:
    """The keys of a document, each with the value to show for it: a list of values if the index is compound.

    In a unique index these are what the document claims for itself. Raises what `keys_of` does. No requests.
    """
    if document is None:
        return {}
    if index.is_owners:
        return {encode_key(str(key)): str(key) for key in blob_keys_of(document)}
    try:
        rows = rows_of(document, index.paths)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"index {index.name}: {error.what}", reason=error.reason, fix=error.fix) from None
    claims: dict[bytes, Any] = {}
    for row in rows:
        if index.bson_types:
            check_row(list(map(_plain, row)), index.fields, index.bson_types, name=index.name)
        if index.sparse and all(value is None or value is MISSING or value is EMPTY for value in row):
            continue
        key = check_index_key(b"".join(map(_component, row)), index=index.name)
        claims.setdefault(key, _shown(row))
    return claims


def lookup_keys(value: Any) -> list[bytes]:
    """The keys under which documents stand whose field equals `value`, as a query compares them. No requests.

    Every such document is under one of them, unless a sparse index leaves it out; for null and for arrays others are
    there as well, so these documents must be tested. A path with a position does not find null that way.
    """
    if value is None or value is MISSING:
        return [_component(None)]
    if type(value) is list:
        first = value[0] if value else EMPTY
        return [encode_key(value), _component(first)]
    return [encode_key(value)]


def array_fields(index: KeyRules, document: Document) -> tuple[bool, ...]:
    """For each field, whether the document has an array at it or on the way. No requests.

    Planning a query needs to know whether any document ever had one: then two bounds on the field may hold for two
    different elements, and only one of them narrows a scan.
    """
    found = (get_direct(document, path) for path in index.paths)
    return tuple(value is TRAVERSED or type(value) is list for value in found)


def _component(value: Any) -> bytes:
    if value is MISSING:
        return encode_key(None)
    return encode_key(MISSING if value is EMPTY else value)


def _plain(value: Any) -> Any:
    return None if value is MISSING or value is EMPTY else value


def _shown(row: Row) -> Any:
    plain = [None if value is MISSING else [] if value is EMPTY else value for value in row]
    return plain[0] if len(plain) == 1 else plain
