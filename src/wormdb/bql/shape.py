"""The shape of a filter: its structure with the values taken out, so that plans can be kept for many filters.

A shape tells operators, paths and nesting, and of each value its bracket of types. Filters of one shape differ in
their values only, so a plan that looks at no value serves all of them. Whatever depends on values (contradictions,
ranges, which of several indexes) has to be decided after a plan was found by its shape.

    shape_of(tree)                  And(Compare('status',eq,?string),Compare('amount',gt,?number)), ("active", 5)
    bind(shape, ("closed", 7))      the tree of {"status": "closed", "amount": {"$gt": 7}}

Every value has a place of its own, also where two values are equal. The types of $type and the options of $regex
belong to the shape, because they say what is asked. Of a list the shape tells which brackets it holds, and whether it
has no value, one, or several.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wormdb.bql.tree import (
    All,
    And,
    Compare,
    Contains,
    ElemMatch,
    EndsWith,
    Exists,
    Filter,
    In,
    MatchAll,
    MatchNone,
    Mod,
    Not,
    Or,
    RegexMatch,
    Size,
    StartsWith,
    Type,
)
from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["FilterShape", "bind", "shape_of"]

_Leaf: TypeAlias = Compare | In | All | Exists | Type | Size | Mod | RegexMatch | Contains | StartsWith | EndsWith

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
}
"""Of each condition the fields that hold values; all others are part of the shape."""

_PARTS: Final = {
    kind: tuple((part.name, part.name in names) for part in fields(kind) if part.name != "path")
    for kind, names in _VALUES.items()
}
"""Of each condition its fields behind the path, and whether they hold values: shapes are made for every query."""


@dataclass(frozen=True, slots=True)
class FilterShape:
    """A filter without its values; shapes are equal if their texts are."""

    text: str
    slots: tuple[str, ...] = field(compare=False)
    """What may stand in the place of each value: a bracket of types, or the brackets of a list."""
    example: Filter = field(compare=False, repr=False)
    """Some filter of this shape."""


def shape_of(tree: Filter) -> tuple[FilterShape, tuple[Any, ...]]:
    """The shape of a filter and its values, in the order of the slots. No requests."""
    values: list[Any] = []
    text = _text(tree, values)
    return FilterShape(text, tuple(map(_slot, values)), tree), tuple(values)


def bind(shape: FilterShape, values: Sequence[Any]) -> Filter:
    """The filter of this shape with these values.

    Raises InvalidRequestError if they are too few, too many, or of other types. No requests.
    """
    found = tuple(map(_slot, values))
    if found != shape.slots:
        raise InvalidRequestError(
            "the values do not fit the filter",
            reason=f"it takes ({', '.join(shape.slots)}), not ({', '.join(found)})",
            fix="make a new shape of the filter",
        )
    return _filled(shape.example, iter(values))


def _slot(value: Any) -> str:
    if type(value) is not tuple:
        return kind_of(value).name.lower()
    brackets = "|".join(sorted({kind_of(item).name.lower() for item in value}))
    return f"[{brackets}{'…' if len(value) > 1 else ''}]"


def _text(tree: Filter, values: list[Any]) -> str:
    """The text of a shape; notes the values on the way."""
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


def _filled(tree: Filter, values: Iterator[Any]) -> Filter:
    match tree:
        case MatchAll() | MatchNone():
            return tree
        case And(filters) | Or(filters):
            return type(tree)(tuple([_filled(child, values) for child in filters]))
        case Not(child):
            return Not(_filled(child, values))
        case ElemMatch(path, child, kind):
            return ElemMatch(path, _filled(child, values), kind)
        case _:
            return replace(tree, **{name: next(values) for name in _VALUES[type(tree)]})
