"""Operators on one field: $set, $setOnInsert, $unset, $rename, $inc, $mul, $min, $max, $currentDate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.numbers import Number, add, is_number, multiply, zero_like
from wormdb.errors import LimitExceededError
from wormdb.format.kinds import MISSING, Timestamp, equal, kind_of
from wormdb.format.order import compare
from wormdb.format.path import TRAVERSED, Path, get_direct
from wormdb.format.values import normalize

if TYPE_CHECKING:
    from wormdb.bql.mistakes import Mistakes
    from wormdb.bql.update.tree import Operator, UpdatePlace

__all__ = ["FIELD_OPERATORS", "RenameSource", "RenameTarget", "Unset"]


@dataclass(frozen=True, slots=True)
class _Set:
    value: Any

    def apply(self, value: Any, _: UpdatePlace) -> Any:
        return value if equal(value, self.value) else self.value

    def insists(self, _: UpdatePlace) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _SetOnInsert:
    value: Any

    def apply(self, value: Any, place: UpdatePlace) -> Any:
        return self.value if place.occasion.is_insert else value

    def insists(self, place: UpdatePlace) -> bool:
        return place.occasion.is_insert


@dataclass(frozen=True, slots=True)
class Unset:
    """$unset: the field goes; in an array the element becomes null."""

    def apply(self, _value: Any, _: UpdatePlace) -> Any:
        """MISSING."""
        return MISSING

    def insists(self, _: UpdatePlace) -> bool:
        """What cannot be reached is not there."""
        return False


@dataclass(frozen=True, slots=True)
class RenameSource(Unset):
    """$rename, at the old name."""


@dataclass(frozen=True, slots=True)
class RenameTarget:
    """$rename, at the new name; no way leads through arrays."""

    source: Path
    target: Path

    def apply(self, value: Any, place: UpdatePlace) -> Any:
        """The value of the old name, or `value` if there is none."""
        found = self._source(place)
        if found is MISSING:
            return value
        if get_direct(place.occasion.document, self.target) is TRAVERSED:
            place.refuse("the new name is in an array", "set the element with $set")
        return found

    def insists(self, place: UpdatePlace) -> bool:
        """Only if there is something to rename."""
        return self._source(place) is not MISSING

    def _source(self, place: UpdatePlace) -> Any:
        found = get_direct(place.occasion.document, self.source)
        if found is TRAVERSED:
            place.refuse(f"the old name {'.'.join(self.source)} is in an array", "rename it in each element with $set")
        if found is MISSING:
            self._check_way(place)
        return found

    def _check_way(self, place: UpdatePlace) -> None:
        for length in range(1, len(self.source)):
            found = get_direct(place.occasion.document, self.source[:length])
            if found is MISSING:
                return
            if type(found) is not dict:
                way = ".".join(self.source[:length])
                place.refuse(
                    f"{way} is not a document, so {'.'.join(self.source)} cannot go on there", "correct the path"
                )


@dataclass(frozen=True, slots=True)
class _Calculate:
    """$inc and $mul: a missing field becomes the operand, or zero of its type."""

    operand: Number
    how: Callable[[Number, Number], Number]
    first: Number

    def apply(self, value: Any, place: UpdatePlace) -> Any:
        if value is MISSING:
            return self.first
        if not is_number(value):
            place.refuse(f"it holds {_kind(value)}, and {place.operator} needs a number", "set a number first")
        try:
            result = self.how(value, self.operand)
        except LimitExceededError as error:
            place.refuse(error.what, error.fix, limit=True)
        return value if equal(value, result) else result

    def insists(self, _: UpdatePlace) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _Bound:
    """$min (`sign` -1) and $max (1): the operand, if it is beyond the value in the order of all types."""

    operand: Any
    sign: int

    def apply(self, value: Any, _: UpdatePlace) -> Any:
        return self.operand if value is MISSING or compare(self.operand, value) == self.sign else value

    def insists(self, _: UpdatePlace) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _CurrentDate:
    timestamp: bool

    def apply(self, _value: Any, place: UpdatePlace) -> Any:
        moment = normalize(place.occasion.now)
        # Of two updates in one second the later has the larger timestamp.
        return Timestamp(int(moment.timestamp()), moment.microsecond // 1000 + 1) if self.timestamp else moment

    def insists(self, _: UpdatePlace) -> bool:
        return True


def _kind(value: Any) -> str:
    name = kind_of(value).name.lower()
    return name if name == "null" else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _read_set(operand: Any, at: str, mistakes: Mistakes) -> Operator:
    return _Set(mistakes.value(at, operand))


def _read_set_on_insert(operand: Any, at: str, mistakes: Mistakes) -> Operator:
    return _SetOnInsert(mistakes.value(at, operand))


def _read_unset(_operand: Any, _at: str, _: Mistakes) -> Operator:
    return Unset()


def _read_number(operand: Any, at: str, mistakes: Mistakes) -> Number:
    value = mistakes.value(at, operand)
    if is_number(value):
        number: Number = value
        return number
    if value is not MISSING:
        name = at.partition(".")[0]
        mistakes.add(at, f"{name} takes a number, not {_kind(value)}", f'write {{"{name}": {{"field": 1}}}}')
    return 0


def _read_inc(operand: Any, at: str, mistakes: Mistakes) -> Operator:
    number = _read_number(operand, at, mistakes)
    return _Calculate(number, add, number)


def _read_mul(operand: Any, at: str, mistakes: Mistakes) -> Operator:
    number = _read_number(operand, at, mistakes)
    return _Calculate(number, multiply, zero_like(number))


def _read_min(operand: Any, at: str, mistakes: Mistakes) -> Operator:
    return _Bound(mistakes.value(at, operand), -1)


def _read_max(operand: Any, at: str, mistakes: Mistakes) -> Operator:
    return _Bound(mistakes.value(at, operand), 1)


def _read_current_date(operand: Any, at: str, mistakes: Mistakes) -> Operator:
    kind = "date" if operand is True else operand.get("$type") if isinstance(operand, Mapping) else None
    if kind not in ("date", "timestamp") or (isinstance(operand, Mapping) and len(operand) > 1):
        mistakes.add(at, '$currentDate takes true, {"$type": "date"} or {"$type": "timestamp"}', "write true")
    return _CurrentDate(kind == "timestamp")


FIELD_OPERATORS: Final[dict[str, Callable[[Any, str, Mistakes], Operator]]] = {
    "$set": _read_set,
    "$setOnInsert": _read_set_on_insert,
    "$unset": _read_unset,
    "$inc": _read_inc,
    "$mul": _read_mul,
    "$min": _read_min,
    "$max": _read_max,
    "$currentDate": _read_current_date,
}
"""How the operand of each is read: mistakes are noted under where it stands."""
