"""What aggregation functions remember: values go in one by one, partial results are merged, the result comes out last.

All results are the same for every order and every partition of the values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from wormdb.bql.numbers import ExactSum
from wormdb.errors import LimitExceededError
from wormdb.format.json import encode
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, equal
from wormdb.format.order import compare
from wormdb.settings import GROUPS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ACCUMULATORS", "Accumulator", "Average", "Count", "Distinct", "Extreme", "Sum", "choose_plainest"]


class Accumulator(Protocol):
    """One function over the values of one field."""

    def add(self, value: Any) -> None:
        """Take in a normalized value, or MISSING."""

    def merge(self, other: Any) -> None:
        """Take in all that another of the same function took in."""

    def state(self) -> Any:
        """All that it took in, as a value that is stored as others are, for `take`."""

    def take(self, state: Any) -> None:
        """Take in all that another of the same function took in, by its state."""

    def result(self) -> Any:
        """The value of the function so far."""


class Count:
    """How many there were, whatever they are."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        """None yet."""
        self.count = 0

    def add(self, _: Any) -> None:
        """One more."""
        self.count += 1

    def merge(self, other: Count) -> None:
        """As many more."""
        self.count += other.count

    def state(self) -> int:
        """How many."""
        return self.count

    def take(self, state: int) -> None:
        """As many more."""
        self.count += state

    def result(self) -> int:
        """How many."""
        return self.count


class Sum:
    """The exact sum of all numbers; other values do not count. 0 of none."""

    __slots__ = ("numbers",)

    def __init__(self) -> None:
        """Nothing added yet."""
        self.numbers = ExactSum()

    def add(self, value: Any) -> None:
        """Add it if it is a number."""
        self.numbers.add(value)

    def merge(self, other: Sum) -> None:
        """Add all that another added."""
        self.numbers.merge(other.numbers)

    def state(self) -> list[Any]:
        """That of the numbers."""
        return self.numbers.state()

    def take(self, state: list[Any]) -> None:
        """Add all that another added."""
        self.numbers.take(state)

    def result(self) -> Any:
        """The sum."""
        return self.numbers.total()


class Average(Sum):
    """The exact average of all numbers, a double or a Decimal128; None of none."""

    __slots__ = ()

    def result(self) -> Any:
        """The average."""
        return self.numbers.mean()


class Extreme:
    """The least value (`sign` -1) or the greatest (1) in the order of all types; null and missing do not count."""

    __slots__ = ("_sign", "_value")

    def __init__(self, sign: int) -> None:
        """Nothing compared yet."""
        self._sign = sign
        self._value: Any = None

    def add(self, value: Any) -> None:
        """Keep it if it is beyond all others."""
        if value is None or value is MISSING:
            return
        if self._value is None:
            self._value = value
            return
        side = compare(value, self._value)
        if side == self._sign:
            self._value = value
        elif side == 0:
            self._value = choose_plainest(value, self._value)

    def merge(self, other: Extreme) -> None:
        """Compare with what another kept."""
        self.add(other._value)

    def state(self) -> Any:
        """The value."""
        return self._value

    def take(self, state: Any) -> None:
        """Compare with what another kept."""
        self.add(state)

    def result(self) -> Any:
        """The value; None of none."""
        return self._value


class Distinct:
    """All different values in their order; elements of an array count each, equal numbers of all types once."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        """None yet."""
        self._values: dict[bytes, Any] = {}

    def add(self, value: Any) -> None:
        """Keep it, or its elements; missing does not count. LimitExceededError over GROUPS_MAX."""
        for item in value if type(value) is list else [value]:
            if item is not MISSING:
                self._keep(encode_key(item), item)

    def _keep(self, key: bytes, value: Any) -> None:
        kept = self._values.get(key, MISSING)
        if kept is MISSING and len(self._values) >= GROUPS_MAX:
            reason = f"GROUPS_MAX is {GROUPS_MAX}"
            raise LimitExceededError("there are too many distinct values", reason=reason, fix="narrow the filter")
        self._values[key] = value if kept is MISSING else choose_plainest(value, kept)

    def merge(self, other: Distinct) -> None:
        """Keep what another kept."""
        for key, value in other._values.items():
            self._keep(key, value)

    def state(self) -> list[Any]:
        """The values."""
        return list(self._values.values())

    def take(self, state: list[Any]) -> None:
        """Keep what another kept."""
        for value in state:
            self._keep(encode_key(value), value)

    def result(self) -> list[Any]:
        """The values, sorted."""
        return [self._values[key] for key in sorted(self._values)]


def choose_plainest(a: Any, b: Any) -> Any:
    """Of two values that compare as equal, such as 1 and 1.0, the same one in either order: the shorter as JSON."""
    if a is b or equal(a, b):
        return b
    return min(a, b, key=_plainness)


def _plainness(value: Any) -> tuple[int, bytes]:
    text = encode(value)
    return len(text), text


ACCUMULATORS: Final[dict[str, Callable[[], Accumulator]]] = {
    "count": Count,
    "sum": Sum,
    "avg": Average,
    "min": lambda: Extreme(-1),
    "max": lambda: Extreme(1),
    "distinct": Distinct,
}
"""A fresh accumulator of each function."""
