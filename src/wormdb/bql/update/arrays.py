"""Operators on an array: $push, $addToSet, $pull, $pop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.match import compile_filter
from wormdb.bql.parse import LOGICAL_OPERATORS, is_operators, is_regex, parse_filter, read_whole_number
from wormdb.bql.tree import EVERYTHING, Filter
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING
from wormdb.format.order import compare
from wormdb.format.path import Path, is_position, parse_path

if TYPE_CHECKING:
    from wormdb.bql.mistakes import Mistakes
    from wormdb.bql.update.tree import Operator, UpdatePlace

__all__ = ["ARRAY_OPERATORS"]

_MODIFIERS: Final = ("$each", "$position", "$slice", "$sort")
_ELEMENT: Final = "element"
"""The field under which an element is shown to a condition about itself."""


@dataclass(frozen=True, slots=True)
class _Push:
    """The new elements go in at the position, then all are sorted, then cut."""

    values: tuple[Any, ...]
    position: int | None = None
    slice: int | None = None
    sort: tuple[tuple[Path, int], ...] | None = None

    def apply(self, value: Any, place: UpdatePlace) -> Any:
        array = _array(value, place)
        at = len(array) if self.position is None else self.position
        result = array[:at] + list(self.values) + array[at:]
        for path, sign in reversed(self.sort or ()):
            result.sort(key=lambda element: _sort_key(_part(element, path)), reverse=sign < 0)
        if self.slice is not None:
            result = result[: self.slice] if self.slice >= 0 else result[self.slice :]
        return value if value is not MISSING and _same(result, array) else result

    def insists(self, _: UpdatePlace) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _AddToSet:
    """Each new element that none equals by value goes to the end."""

    values: tuple[Any, ...]

    def apply(self, value: Any, place: UpdatePlace) -> Any:
        array = _array(value, place)
        result, present = list(array), set(map(encode_key, array))
        for new in self.values:
            if (key := encode_key(new)) not in present:
                present.add(key)
                result.append(new)
        return value if value is not MISSING and len(result) == len(array) else result

    def insists(self, _: UpdatePlace) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _Pull:
    """Elements that equal `value`, or that match `filter`, go.

    About "document" elements the filter is asked with their own fields; about any "value" with the element under one.
    """

    value: Any
    filter: Filter | None = None
    about: str = ""
    _matches: Callable[[Any], bool] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_matches", self._test())

    def _test(self) -> Callable[[Any], bool]:
        if self.filter is None:
            return lambda element: compare(element, self.value) == 0
        matches = compile_filter(self.filter)
        if self.about == "document":
            return lambda element: type(element) is dict and matches(element)
        return lambda element: matches({_ELEMENT: element})

    def apply(self, value: Any, place: UpdatePlace) -> Any:
        if value is MISSING:
            return value
        array = _array(value, place)
        result = [element for element in array if not self._matches(element)]
        return value if len(result) == len(array) else result

    def insists(self, _: UpdatePlace) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _Pop:
    last: bool

    def apply(self, value: Any, place: UpdatePlace) -> Any:
        if value is MISSING:
            return value
        array = _array(value, place)
        return value if not array else array[:-1] if self.last else array[1:]

    def insists(self, _: UpdatePlace) -> bool:
        return True


def _array(value: Any, place: UpdatePlace) -> list[Any]:
    if value is MISSING:
        return []
    if type(value) is not list:
        place.refuse(f"it holds no array, and {place.operator} needs one", "set an array first, or change the path")
    return value


def _same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


_sort_key: Final = cmp_to_key(compare)


def _part(element: Any, path: Path) -> Any:
    """What an element is sorted by: itself without a path; null where there is no such field."""
    if path and type(element) is not dict:
        return None
    for segment in path:
        if type(element) is dict:
            element = element.get(segment)
        elif type(element) is list and is_position(segment) and int(segment) < len(element):
            element = element[int(segment)]
        else:
            return None
    return element


def _read_push(operand: Any, at: str, mistakes: Mistakes) -> Operator:
    if not is_operators(operand):
        return _Push((mistakes.value(at, operand),))
    for name in operand:
        if name not in _MODIFIERS:
            mistakes.add(f"{at}.{name}", "there is no such modifier of $push", f"use {', '.join(_MODIFIERS)}")
    values = _read_each(operand, at, mistakes)
    position, cut = (_read_whole(operand, name, at, mistakes) for name in ("$position", "$slice"))
    sort = _read_sort(operand["$sort"], f"{at}.$sort", mistakes) if "$sort" in operand else None
    return _Push(values, position, cut, sort)


def _read_each(operand: Mapping[str, Any], at: str, mistakes: Mistakes) -> tuple[Any, ...]:
    if "$each" not in operand:
        mistakes.add(at, "modifiers belong to $each, which is not there", 'add "$each": […]')
        return ()
    values = mistakes.value(f"{at}.$each", operand["$each"])
    if type(values) is list:
        return tuple(values)
    if values is not MISSING:
        mistakes.add(f"{at}.$each", "$each takes a list", "write the values in [ ]")
    return ()


def _read_whole(operand: Mapping[str, Any], name: str, at: str, mistakes: Mistakes) -> int | None:
    if name not in operand:
        return None
    number = read_whole_number(operand[name])
    if number is None:
        mistakes.add(f"{at}.{name}", f"{name} takes a whole number", "write such as 5 or -5")
    return number


def _read_sort(operand: Any, at: str, mistakes: Mistakes) -> tuple[tuple[Path, int], ...] | None:
    if not isinstance(operand, Mapping):
        return (((), _read_sign(operand, at, mistakes)),)
    if not operand:
        mistakes.add(at, "$sort names no field", 'write 1, -1 or {"field": 1}')
    found = []
    for name, sign in operand.items():
        path = mistakes.collect(f"{at}.{name}", lambda: parse_path(name))  # noqa: B023 - called at once
        found.append((() if path is MISSING else path, _read_sign(sign, f"{at}.{name}", mistakes)))
    return tuple(found)


def _read_sign(operand: Any, at: str, mistakes: Mistakes) -> int:
    sign = read_whole_number(operand)
    if sign not in (1, -1):
        mistakes.add(at, "an order is 1 or -1", "write 1 for ascending, -1 for descending")
        return 1
    return sign


def _read_add_to_set(operand: Any, at: str, mistakes: Mistakes) -> Operator:
    if not is_operators(operand):
        return _AddToSet((mistakes.value(at, operand),))
    for name in operand:
        if name != "$each":
            mistakes.add(f"{at}.{name}", "$addToSet has the modifier $each only", "leave it out, or use $push")
    return _AddToSet(_read_each(operand, at, mistakes))


def _read_pull(operand: Any, at: str, mistakes: Mistakes) -> Operator:
    if isinstance(operand, Mapping) and (not is_operators(operand) or next(iter(operand)) in _LOGICAL):
        tree = mistakes.collect(at, lambda: parse_filter(operand, embedded=True))
        return _Pull(None, EVERYTHING if tree is MISSING else tree, "document")
    if isinstance(operand, Mapping) or is_regex(operand):
        tree = mistakes.collect(at, lambda: parse_filter({_ELEMENT: operand}, embedded=True), below=_ELEMENT)
        return _Pull(None, EVERYTHING if tree is MISSING else tree, "value")
    return _Pull(mistakes.value(at, operand))


_LOGICAL: Final = tuple(name for name in LOGICAL_OPERATORS if name != "$not")
"""Operators of whole documents; $not could be either, and is one of values, as in MongoDB."""


def _read_pop(operand: Any, at: str, mistakes: Mistakes) -> Operator:
    side = read_whole_number(operand)
    if side not in (1, -1):
        mistakes.add(at, "$pop takes 1 for the last element or -1 for the first", "write 1 or -1")
    return _Pop(side == 1)


ARRAY_OPERATORS: Final[dict[str, Callable[[Any, str, Mistakes], Operator]]] = {
    "$push": _read_push,
    "$addToSet": _read_add_to_set,
    "$pull": _read_pull,
    "$pop": _read_pop,
}
"""How the operand of each is read: mistakes are noted under where it stands."""
