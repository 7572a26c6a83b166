"""What stands behind an operator, read into the plain form that the tree keeps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NoReturn

from wormdb.bql.regex import OPTIONS, compile_regex
from wormdb.errors import InvalidRequestError
from wormdb.format.bson_types import NUMBERS, TYPE_CODES
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, Decimal128, Regex
from wormdb.format.values import normalize
from wormdb.format.wrappers import regex_options
from wormdb.schema.report import did_you_mean
from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "OperandError",
    "is_operators",
    "is_regex",
    "read_constant",
    "read_flag",
    "read_mod",
    "read_regex",
    "read_size",
    "read_text",
    "read_types",
    "read_value",
    "read_values",
    "read_whole_number",
]

_ALIASES: Final = {code: alias for alias, code in TYPE_CODES.items()}


class OperandError(Exception):
    """An operand cannot be used: the reason and the fix; the parser adds the position."""

    def __init__(self, reason: str, fix: str) -> None:
        """What is wrong and what to write instead."""
        super().__init__(reason)
        self.reason = reason
        self.fix = fix


def is_operators(operand: object) -> bool:
    """Whether a mapping holds operators, not fields; an empty one is an empty document."""
    return isinstance(operand, Mapping) and any(isinstance(name, str) and name.startswith("$") for name in operand)


def is_regex(operand: object) -> bool:
    """Whether this is a regular expression."""
    return isinstance(operand, Regex | re.Pattern)


def read_value(operand: Any) -> Any:
    """Any value, normalized."""
    if is_operators(operand):
        raise OperandError("an operator stands where a value is expected", "give the value itself")
    try:
        return normalize(operand)
    except InvalidRequestError as error:
        raise OperandError(error.reason or error.what, error.fix) from error


def read_constant(operand: Any) -> Any:
    """Any value but a regular expression, which has no order to compare it by."""
    if is_regex(operand):
        raise OperandError("it takes a value, not a regular expression", "use $regex, or $not with $regex")
    return read_value(operand)


def read_values(operand: Any) -> tuple[Any, ...]:
    """The values of a list, sorted, each once."""
    if not isinstance(operand, list | tuple | set | frozenset):
        raise OperandError(f"it takes a list, not {_named(operand)}", "write the values in [ ]")
    return _sorted(read_value(item) for item in operand)


def _sorted(values: Iterable[Any]) -> tuple[Any, ...]:
    by_key: dict[bytes, Any] = {}
    for value in values:
        by_key.setdefault(encode_key(value), value)
    return tuple(by_key[key] for key in sorted(by_key))


def read_flag(operand: Any) -> bool:
    """Whether a value counts as true: all do but false, null and zero."""
    value = read_value(operand)
    if isinstance(value, Decimal128):
        return not value.to_decimal().is_zero()
    return bool(value) if isinstance(value, bool | int | float) else value is not None


def read_text(operand: Any) -> str:
    """Text."""
    if not isinstance(operand, str):
        raise OperandError(f"it takes text, not {_named(operand)}", "write a string")
    text: str = read_value(operand)
    return text


def read_size(operand: Any) -> int:
    """A number of elements."""
    _check_number(operand, "a whole number")
    count = read_whole_number(operand)
    if count is None or count < 0:
        raise OperandError("a number of elements is whole and not negative", "write 0, 1, 2, …")
    return count


def read_mod(operand: Any) -> tuple[int, int]:
    """Divisor and remainder, fractions cut off."""
    if not isinstance(operand, list | tuple) or len(operand) != 2:
        raise OperandError("it takes a list of two numbers", "write [divisor, remainder]")
    divisor, remainder = (_whole(part, "numbers") for part in operand)
    if divisor == 0:
        raise OperandError("nothing can be divided by 0", "write another divisor")
    return divisor, remainder


def _whole(operand: Any, what: str) -> int:
    """A number without its fraction."""
    _check_number(operand, what)
    number = operand.to_decimal() if isinstance(operand, Decimal128) else operand
    is_finite = number.is_finite() if isinstance(number, Decimal) else isfinite(number)
    if not is_finite or not INT_MIN <= number <= INT_MAX:
        raise OperandError("the number is not in -2^63..2^63-1", "write a smaller one")
    return int(number)


def _check_number(operand: Any, what: str) -> None:
    if isinstance(operand, bool) or not isinstance(operand, int | float | Decimal128):
        raise OperandError(f"it takes {what}, not {_named(operand)}", "write a number")


def read_whole_number(operand: Any) -> int | None:
    """The integer of 64 bits that a number of any type is; None for all else, fractions too."""
    try:
        number = _whole(operand, "")
    except OperandError:
        return None
    exact = operand.to_decimal() if isinstance(operand, Decimal128) else operand
    return number if number == exact else None


def read_types(operand: Any) -> tuple[str, ...]:
    """Aliases of the types that are named, by alias or number, alone or in a list."""
    named = operand if isinstance(operand, list | tuple) else [operand]
    if not named:
        raise OperandError("it names no type", 'name one at least, such as "string"')
    return tuple(sorted({alias for item in named for alias in _aliases(item)}))


def _aliases(item: Any) -> tuple[str, ...]:
    if isinstance(item, str):
        alias = str.__str__(item)  # bson has texts that cannot be looked up
        if alias == "number":
            return NUMBERS
        if alias not in TYPE_CODES:
            raise OperandError(f"there is no type {alias[:40]!r}", did_you_mean(alias, [*TYPE_CODES, "number"]))
        return (alias,)
    code = read_whole_number(item)
    if code in _ALIASES:
        return (_ALIASES[code],)
    raise OperandError("it takes names or numbers of BSON's types", 'write such as "string", "number" or 2')


def read_regex(operand: Any, options: Any = MISSING) -> tuple[str, str]:
    """Pattern and sorted options of a regular expression that RE2 can run; options MISSING if not given.

    Raises MissingExtraError without google-re2.
    """
    if is_regex(operand):
        expression: Regex[str] = read_value(operand)
        pattern, given = expression.pattern, regex_options(expression)
        if options is not MISSING and given not in {"", "u"}:
            raise OperandError("the expression has options of its own", "give the options once")
        letters = given if options is MISSING else options
    elif isinstance(operand, str):
        pattern, letters = read_text(operand), "" if options is MISSING else options
    else:
        raise OperandError(f"it takes a pattern as text, not {_named(operand)}", "write a string")
    if not isinstance(letters, str) or not set(letters) <= set(OPTIONS):
        _refuse_options(letters)
    if "\0" in pattern:
        raise OperandError("the pattern holds NUL", r"write \x00")
    letters = "".join(sorted(set(letters) - {"u"}))  # which is always on
    try:
        compile_regex(pattern, letters)
    except InvalidRequestError as error:
        if not error.reason.startswith(("RE2", "REGEX")):
            raise  # the extra is missing: no pattern would help
        raise OperandError(f"{error.what}: {error.reason}", error.fix) from error
    return pattern, letters


def _refuse_options(letters: object) -> NoReturn:
    unknown = "".join(sorted(set(letters) - set(OPTIONS))) if isinstance(letters, str) else _named(letters)
    raise OperandError(f"there is no option {unknown[:40]}", f"options are letters of {', '.join(OPTIONS)}")


def _named(operand: object) -> str:
    """How a message calls an operand: by its type, as a filter in JSON has it."""
    kinds = ((Mapping, "a document"), (list | tuple, "a list"), (str, "text"), (bool, "a boolean"))
    known = (name for kind, name in kinds if isinstance(operand, kind))
    fallback = "null" if operand is None else "a regular expression" if is_regex(operand) else type(operand).__name__
    return next(known, fallback)
