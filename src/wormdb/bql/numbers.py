"""Sums that are exact until they are read, so that neither order nor partition of the numbers matters.

Integers are added as they are. Doubles and Decimal128 are integers times a power of 2 or 10; those of one power are
added as integers. Only the result is rounded, once, to its type: Decimal128 if there is one among the numbers, else
double if there is one, else an integer.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, Inexact
from math import frexp, inf, isfinite, isnan, nan
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wormdb.errors import LimitExceededError
from wormdb.format.kinds import Decimal128
from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DECIMAL128", "ExactSum", "Number", "add", "is_number", "multiply", "to_decimal128", "zero_like"]


# --- Arithmetic of updates, with MongoDB's rules for types.
#
# Two integers give an integer of 64 bits or an error, never another number. A double with an integer gives a double. A
# Decimal128 with anything gives a Decimal128 of 34 digits; a double counts with its first 15 digits there, as it is
# meant to be read.

Number: TypeAlias = int | float | Decimal128

DECIMAL128: Final = Context(prec=34, rounding=ROUND_HALF_EVEN, Emin=-6143, Emax=6144, clamp=1, traps=[])
"""IEEE 754's decimal128: what is too large is infinite, what is too small is rounded."""

_DOUBLE_DIGITS: Final = 15
_DOUBLE: Final = Context(prec=_DOUBLE_DIGITS, rounding=ROUND_HALF_EVEN, Emin=-6143, Emax=6144, traps=[])


def is_number(value: Any) -> bool:
    """Whether a normalized value is a number; booleans are none."""
    return type(value) in {int, float, Decimal128}


def add(a: Number, b: Number) -> Number:
    """The sum; LimitExceededError if two integers give one over 64 bits. No requests."""
    return _calculate(a, b, lambda x, y: x + y, DECIMAL128.add)


def multiply(a: Number, b: Number) -> Number:
    """The product; LimitExceededError if two integers give one over 64 bits. No requests."""
    return _calculate(a, b, lambda x, y: x * y, DECIMAL128.multiply)


def zero_like(number: Number) -> Number:
    """Zero, of the type of `number`."""
    return Decimal128("0") if isinstance(number, Decimal128) else type(number)(0)


def to_decimal128(number: Decimal) -> Decimal128:
    """`number` rounded to 34 digits; every NaN is the one that JSON can write."""
    rounded = DECIMAL128.create_decimal(number)
    return Decimal128("NaN") if rounded.is_nan() else Decimal128(rounded)


def _calculate(
    a: Number, b: Number, plain: Callable[[Any, Any], Any], exact: Callable[[Decimal, Decimal], Decimal]
) -> Number:
    if isinstance(a, Decimal128) or isinstance(b, Decimal128):
        return to_decimal128(exact(_as_decimal(a), _as_decimal(b)))
    if isinstance(a, float) or isinstance(b, float):
        return float(plain(float(a), float(b)))
    result = int(plain(a, b))
    if not INT_MIN <= result <= INT_MAX:
        raise LimitExceededError("the result is an integer over 64 bits", fix="store the field as Decimal128 or double")
    return result


def _as_decimal(number: Number) -> Decimal:
    if isinstance(number, Decimal128):
        return number.to_decimal()
    if isinstance(number, int):
        return Decimal(number)
    exact = Decimal.from_float(number)  # noqa: FURB164 - Decimal(float) would mind the caller's context
    if not isfinite(number) or not number:
        return exact
    rounded = _DOUBLE.create_decimal(exact)
    return rounded.quantize(Decimal((0, (1,), rounded.adjusted() - _DOUBLE_DIGITS + 1)), context=_DOUBLE)


_MANTISSA_BITS: Final = 53
_MANTISSA: Final = 2.0**_MANTISSA_BITS
# Decimal128 spans exponents from -6176 to 6144, doubles 10^-1074 to 10^308: no exact sum has more digits than this.
_EXACT: Final = Context(prec=20_000, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])
_KINDS: Final[tuple[type[Number], ...]] = (int, float, Decimal128)


class ExactSum:
    """The sum and the mean of numbers of all types."""

    __slots__ = ("_decimals", "_doubles", "_infinities", "_integers", "_kind", "count")

    def __init__(self) -> None:
        """Nothing added yet."""
        self.count = 0
        self._kind: type[Number] = int
        self._integers = 0
        self._doubles: dict[int, int] = {}  # by power of 2
        self._decimals: dict[int, int] = {}  # by power of 10
        self._infinities: set[float] = set()  # nan among them

    def add(self, value: Any) -> None:
        """Count a normalized value in; other values than numbers are left aside."""
        kind = type(value)
        if kind is int:
            self._integers += value
        elif kind is float:
            self._add_double(value)
        elif kind is Decimal128:
            self._add_decimal(value.to_decimal())
        else:
            return
        self.count += 1

    def add_many(self, kind: type[Number], count: int, number: int, power: int) -> None:
        """Count in finite numbers of one type at once, whose sum is `number` times 2 or 10 to the `power`.

        It is 10 for Decimal128, whose `power` is that of the last digit of each, and 2 for doubles. Integers have 0.
        """
        self.count += count
        if kind is int:
            assert power == 0
            self._integers += number
            return
        if self._kind is not Decimal128:
            self._kind = kind
        sums = self._doubles if kind is float else self._decimals
        sums[power] = sums.get(power, 0) + number

    def _add_double(self, value: float) -> None:
        if self._kind is int:
            self._kind = float
        if isfinite(value):
            mantissa, exponent = frexp(value)
            power = exponent - _MANTISSA_BITS
            self._doubles[power] = self._doubles.get(power, 0) + int(mantissa * _MANTISSA)
        else:
            self._infinities.add(nan if isnan(value) else value)

    def _add_decimal(self, value: Decimal) -> None:
        self._kind = Decimal128
        if value.is_finite():
            sign, digits, power = value.as_tuple()
            assert isinstance(power, int)
            number = int("".join(map(str, digits)))
            # A zero is added too: its power says how many digits the result shows.
            self._decimals[power] = self._decimals.get(power, 0) + (-number if sign else number)
        else:
            self._infinities.add(nan if value.is_nan() else float(value))

    def merge(self, other: ExactSum) -> None:
        """Count in all that `other` counted."""
        self.count += other.count
        if Decimal128 in (self._kind, other._kind):
            self._kind = Decimal128
        elif float in (self._kind, other._kind):
            self._kind = float
        self._integers += other._integers
        for mine, others in ((self._doubles, other._doubles), (self._decimals, other._decimals)):
            for power, number in others.items():
                mine[power] = mine.get(power, 0) + number
        self._infinities |= other._infinities

    def state(self) -> list[Any]:
        """All that it counted, as plain values for `take`: integers as text, because they have no bounds."""
        return [
            self.count,
            _KINDS.index(self._kind),
            str(self._integers),
            [[power, str(number)] for power, number in self._doubles.items()],
            [[power, str(number)] for power, number in self._decimals.items()],
            sorted(map(str, self._infinities)),
        ]

    def take(self, state: list[Any]) -> None:
        """Count in what another counted, by its `state`."""
        other = ExactSum()
        other.count, kind, integers, doubles, decimals, infinities = state
        other._kind = _KINDS[kind]
        other._integers = int(integers)
        other._doubles = {power: int(number) for power, number in doubles}
        other._decimals = {power: int(number) for power, number in decimals}
        other._infinities = {nan if text == "nan" else float(text) for text in infinities}
        self.merge(other)

    def total(self) -> Number:
        """The sum; 0 of nothing. An integer over 64 bits becomes a Decimal128, which holds it exactly."""
        if self._infinities:
            return self._typed(self._infinity())
        if self._kind is Decimal128:
            return to_decimal128(self._decimal())
        if self._kind is float:
            numerator, power = self._binary()
            return _ratio(numerator << max(power, 0), 1 << max(-power, 0))
        total = self._integers
        return total if INT_MIN <= total <= INT_MAX else to_decimal128(Decimal(total))

    def mean(self) -> float | Decimal128 | None:
        """The average: a Decimal128 or a double; None of nothing."""
        if not self.count:
            return None
        if self._infinities:
            return self._typed(self._infinity())
        if self._kind is Decimal128:
            return to_decimal128(DECIMAL128.divide(self._decimal(), Decimal(self.count)))
        numerator, power = self._binary()
        return _ratio(numerator << max(power, 0), self.count << max(-power, 0))

    def _infinity(self) -> float:
        return next(iter(self._infinities)) if len(self._infinities) == 1 else nan

    def _typed(self, value: float) -> float | Decimal128:
        return to_decimal128(Decimal.from_float(value)) if self._kind is Decimal128 else value  # noqa: FURB164 - exact

    def _binary(self) -> tuple[int, int]:
        """Integers and doubles as one integer times a power of 2, which is 0 or less if there are integers."""
        if len(self._doubles) == 1 and not self._integers:
            ((power, number),) = self._doubles.items()
            return number, power
        power = min([*self._doubles, 0])
        return sum((number << (of - power) for of, number in self._doubles.items()), self._integers << -power), power

    def _decimal(self) -> Decimal:
        result = Decimal(self._integers)
        for power, number in self._decimals.items():
            result = _EXACT.add(result, Decimal(number).scaleb(power, context=_EXACT))
        number, power = self._double()
        if number:
            scaled = Decimal(number << power) if power >= 0 else Decimal(number * 5**-power)
            result = _EXACT.add(result, scaled.scaleb(min(power, 0), context=_EXACT))
        return result

    def _double(self) -> tuple[int, int]:
        """The doubles as one integer times a power of 2, in lowest terms: a decimal shows as many digits as it has."""
        least = min(self._doubles, default=0)
        number = sum(each << (power - least) for power, each in self._doubles.items())
        twos = (number & -number).bit_length() - 1 if number else 0
        spare = min(twos, max(-least, 0))
        return number >> spare, least + spare


def _ratio(numerator: int, denominator: int) -> float:
    """The nearest double, infinite if it is too large for one."""
    try:
        return numerator / denominator
    except OverflowError:
        return inf if numerator > 0 else -inf
