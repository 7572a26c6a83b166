"""A filter as a tree: what it asks, without how it was written or how it will be answered.

Negation is one node: $ne is the complement of equality, $nin that of $in, $nor that of $or. The path of a
condition inside a `ElemMatch` of kind "value" is empty: the condition is about the element itself, and an array that
is an element is one value there.

Every node can be hashed. Nodes are equal if their texts are: `text` is a filter in JSON that parses to the same tree,
so 1, 1.0 and true are three values.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from wormdb.format.json import decode, encode
from wormdb.format.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wormdb.format.path import Path

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "All",
    "And",
    "Compare",
    "Comparison",
    "Conforms",
    "Contains",
    "ElemMatch",
    "EndsWith",
    "Exists",
    "Filter",
    "FilterShape",
    "FunctionCall",
    "In",
    "MatchAll",
    "MatchNone",
    "Mod",
    "Not",
    "Or",
    "RegexMatch",
    "Size",
    "StartsWith",
    "Type",
    "calls_in",
    "conjunction",
    "disjunction",
    "has_calls",
    "negation",
    "shape_of",
    "shape_text",
]

Comparison: TypeAlias = Literal["eq", "gt", "gte", "lt", "lte"]
"""How a value is compared with the one of the filter."""


class _Node:
    """What all nodes share: equality and hash by text."""

    @cached_property
    def text(self) -> str:
        """The filter as compact JSON; the same tree always has the same text."""
        return encode(self.to_filter()).decode()

    def to_filter(self) -> dict[str, Any]:
        """The filter as the mapping that `parse_filter` reads; normalized values."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Node) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class MatchAll(_Node):
    """Matches every document."""

    def to_filter(self) -> dict[str, Any]:
        """{}."""
        return {}


@dataclass(frozen=True, eq=False)
class MatchNone(_Node):
    """Matches no document."""

    def to_filter(self) -> dict[str, Any]:
        """{"$not": {}}."""
        return {"$not": {}}


EVERYTHING: Final = MatchAll()
NOTHING: Final = MatchNone()


@dataclass(frozen=True, eq=False)
class FunctionCall(_Node):
    """Matches what a function of the collection matches.

    It is in a filter only until what it stands for takes its place, before anything is asked: so it is not a `Filter`.
    """

    name: str

    def to_filter(self) -> dict[str, Any]:
        """{"$fn": name}."""
        return {"$fn": self.name}


@dataclass(frozen=True, eq=False)
class And(_Node):
    """Matches what all of two or more filters match; each on its own, so different elements of an array may serve."""

    filters: tuple[Filter, ...]

    def __post_init__(self) -> None:
        assert len(self.filters) > 1

    def to_filter(self) -> dict[str, Any]:
        """{"$and": […]}."""
        return {"$and": [child.to_filter() for child in self.filters]}


@dataclass(frozen=True, eq=False)
class Or(_Node):
    """Matches what any of two or more filters matches."""

    filters: tuple[Filter, ...]

    def __post_init__(self) -> None:
        assert len(self.filters) > 1

    def to_filter(self) -> dict[str, Any]:
        """{"$or": […]}."""
        return {"$or": [child.to_filter() for child in self.filters]}


@dataclass(frozen=True, eq=False)
class Not(_Node):
    """Matches exactly what `filter` does not match."""

    filter: Filter

    def to_filter(self) -> dict[str, Any]:
        """{"$not": {…}}."""
        return {"$not": self.filter.to_filter()}


@dataclass(frozen=True, eq=False)
class _Condition(_Node):
    """A node about the values of one path; an empty path is the element of a `ElemMatch` itself."""

    path: Path

    def _operators(self) -> dict[str, Any]:
        raise NotImplementedError

    def to_filter(self) -> dict[str, Any]:
        """The operators, under the path if there is one."""
        return {".".join(self.path): self._operators()} if self.path else self._operators()


@dataclass(frozen=True, eq=False)
class Compare(_Condition):
    """Some value is in this relation to `value`, within its bracket of types; null equals missing."""

    op: Comparison
    value: Any

    def _operators(self) -> dict[str, Any]:
        return {f"${self.op}": self.value}


@dataclass(frozen=True, eq=False)
class In(_Condition):
    """Some value equals one of `values`, or matches one that is a regular expression; sorted, without repeats."""

    values: tuple[Any, ...]

    def _operators(self) -> dict[str, Any]:
        return {"$in": list(self.values)}


@dataclass(frozen=True, eq=False)
class All(_Condition):
    """For each of `values` some value equals it, or matches it as a regular expression; nothing without values."""

    values: tuple[Any, ...]

    def _operators(self) -> dict[str, Any]:
        return {"$all": list(self.values)}


@dataclass(frozen=True, eq=False)
class Exists(_Condition):
    """The field is there, null or not."""

    def _operators(self) -> dict[str, Any]:
        return {"$exists": True}


@dataclass(frozen=True, eq=False)
class Type(_Condition):
    """Some value has one of these types, named as BSON's aliases, sorted."""

    names: tuple[str, ...]

    def _operators(self) -> dict[str, Any]:
        return {"$type": list(self.names)}


@dataclass(frozen=True, eq=False)
class Size(_Condition):
    """The value is an array of this many elements."""

    count: int

    def _operators(self) -> dict[str, Any]:
        return {"$size": self.count}


@dataclass(frozen=True, eq=False)
class Mod(_Condition):
    """Some value is a number that leaves `remainder`, of the sign of the number, when its whole part is divided."""

    divisor: int
    remainder: int

    def _operators(self) -> dict[str, Any]:
        return {"$mod": [self.divisor, self.remainder]}


@dataclass(frozen=True, eq=False)
class RegexMatch(_Condition):
    """Some text holds a match of the pattern, or some value is this very expression; options are of imsx, sorted."""

    pattern: str
    options: str

    def _operators(self) -> dict[str, Any]:
        return {"$regex": self.pattern} | ({"$options": self.options} if self.options else {})


@dataclass(frozen=True, eq=False)
class Contains(_Condition):
    """The value is an array with an element equal to `value`, or a text of which `value` is a part."""

    value: Any

    def _operators(self) -> dict[str, Any]:
        return {"$contains": self.value}


@dataclass(frozen=True, eq=False)
class StartsWith(_Condition):
    """Some value is a text that starts with this one."""

    prefix: str

    def _operators(self) -> dict[str, Any]:
        return {"$startsWith": self.prefix}


@dataclass(frozen=True, eq=False)
class EndsWith(_Condition):
    """Some value is a text that ends with this one."""

    suffix: str

    def _operators(self) -> dict[str, Any]:
        return {"$endsWith": self.suffix}


@dataclass(frozen=True, eq=False)
class ElemMatch(_Condition):
    """The value is an array of which one element matches the whole of `filter`.

    Kind "document": elements are taken as documents, and an array among them as one whose fields are its positions.
    Kind "value": the conditions have empty paths and are about the element itself.
    """

    filter: Filter
    kind: Literal["document", "value"]

    def _operators(self) -> dict[str, Any]:
        anything = self.kind == "value" and isinstance(self.filter, MatchAll)  # {} would ask for a document
        return {"$elemMatch": {"$exists": True} if anything else self.filter.to_filter()}


@dataclass(frozen=True, eq=False)
class Conforms(_Condition):
    """The document is what a JSON Schema describes, which is kept as JSON; the path is empty."""

    schema: str

    def _operators(self) -> dict[str, Any]:
        return {"$jsonSchema": decode(self.schema.encode(), name="$jsonSchema")}


Filter: TypeAlias = (
    MatchAll
    | MatchNone
    | And
    | Or
    | Not
    | Compare
    | In
    | All
    | Exists
    | Type
    | Size
    | Mod
    | RegexMatch
    | Contains
    | StartsWith
    | EndsWith
    | ElemMatch
    | Conforms
)


def conjunction(filters: Iterable[Filter]) -> Filter:
    """What all of them match; everything if there are none. No requests."""
    filters = tuple(filters)
    return And(filters) if len(filters) > 1 else filters[0] if filters else EVERYTHING


def disjunction(filters: Iterable[Filter]) -> Filter:
    """What any of them matches; nothing if there are none. No requests."""
    filters = tuple(filters)
    return Or(filters) if len(filters) > 1 else filters[0] if filters else NOTHING


def negation(child: Filter) -> Filter:
    """What `child` does not match. No requests."""
    match child:
        case MatchAll():
            return NOTHING
        case MatchNone():
            return EVERYTHING
        case _:
            return Not(child)


def has_calls(tree: Filter | FunctionCall) -> bool:
    """Whether a filter names functions. No requests."""
    return not isinstance(tree, _Condition) and any(True for _ in calls_in(tree))


def calls_in(tree: Filter | FunctionCall) -> Iterator[str]:
    """The functions that a filter names, one after the other. No requests."""
    match tree:
        case FunctionCall(name=name):
            yield name
        case And(filters=children) | Or(filters=children):
            for child in children:
                yield from calls_in(child)
        case Not(filter=child):
            yield from calls_in(child)
        case _:
            pass


# --- The shape of a filter: its structure with the values taken out, so that plans can be kept for many filters.
#
# A shape tells operators, paths and nesting, and of each value its bracket of types. Filters of one shape differ in
# their values only, so a plan that looks at no value serves all of them. Whatever depends on values (contradictions,
# ranges, which of several indexes) has to be decided after a plan was found by its shape.
#
#     shape_of(tree)                  And(Compare('status',eq,?string),Compare('amount',gt,?number)), ("active", 5)
#
# Every value has a place of its own, also where two values are equal. The types of $type and the options of $regex
# belong to the shape, because they say what is asked. Of a list the shape tells which brackets it holds, and whether it
# has no value, one, or several.

_Leaf: TypeAlias = (
    Compare | In | All | Exists | Type | Size | Mod | RegexMatch | Contains | StartsWith | EndsWith | Conforms
)

_VALUES: Final[dict[type[_Leaf], tuple[str, ...]]] = {
    Compare: ("value",),
    In: ("values",),
    All: ("values",),
    Exists: (),
    Type: (),
    Size: ("count",),
    Mod: ("divisor", "remainder"),
    RegexMatch: ("pattern",),
    Contains: ("value",),
    StartsWith: ("prefix",),
    EndsWith: ("suffix",),
    Conforms: (),
}
"""Of each condition the fields that hold values; all others are part of the shape."""

_PARTS: Final = {
    kind: tuple((part.name, part.name in names) for part in fields(kind) if part.name != "path")
    for kind, names in _VALUES.items()
}
"""Of each condition its fields behind the path, and whether they hold values: shapes are made for every query."""


class FilterShape(msgspec.Struct, frozen=True):
    """A filter without its values; shapes are equal if their texts are."""

    text: str


def shape_of(tree: Filter) -> tuple[FilterShape, tuple[Any, ...]]:
    """The shape of a filter and its values, in order. No requests."""
    values: list[Any] = []
    text = _text(tree, values)
    return FilterShape(text), tuple(values)


_SLOTS: Final = {kind: kind_of(kind()).name.lower() for kind in (str, int, float, bool)}


def shape_text(tree: Filter) -> str:
    """The text of the shape of a filter. No requests."""
    return _text(tree, [])


def _slot(value: Any) -> str:
    if (known := _SLOTS.get(type(value))) is not None:
        return known
    if type(value) is not tuple:
        return kind_of(value).name.lower()
    brackets = "|".join(sorted({kind_of(item).name.lower() for item in value}))
    return f"[{brackets}{'…' if len(value) > 1 else ''}]"


def _text(tree: Filter, values: list[Any]) -> str:
    """The text of a shape; notes the values on the way."""
    if type(tree) is Compare:
        values.append(tree.value)
        return f"Compare({'.'.join(tree.path)!r},{tree.op},?{_SLOTS.get(type(tree.value)) or _slot(tree.value)})"
    name = type(tree).__name__
    match tree:
        case MatchAll() | MatchNone():
            return name
        case And(filters) | Or(filters):
            return f"{name}({','.join([_text(child, values) for child in filters])})"
        case Not(child):
            return f"{name}({_text(child, values)})"
        case ElemMatch(path, child, kind):
            return f"{name}({_path(path)},{kind},{_text(child, values)})"
        case _:
            return f"{name}({','.join(_parts(tree, values))})"


def _parts(leaf: _Leaf, values: list[Any]) -> Iterator[str]:
    yield _path(leaf.path)
    for name, is_value in _PARTS[type(leaf)]:
        value = getattr(leaf, name)
        if is_value:
            values.append(value)
            yield f"?{_slot(value)}"
        else:
            yield "|".join(value) if isinstance(value, tuple) else str(value)


def _path(path: tuple[str, ...]) -> str:
    """A path that cannot be taken for something else, whatever its names are."""
    return repr(".".join(path))
