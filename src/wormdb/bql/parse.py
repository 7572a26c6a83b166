"""Filters as people write them, read into the tree; every mistake is told at once, with its position and a fix."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from math import isfinite
from typing import Any, Final, Literal, NoReturn, cast

from wormdb.bql.regex import OPTIONS, compile_regex
from wormdb.bql.tree import (
    NOTHING,
    All,
    And,
    Compare,
    Conforms,
    Contains,
    ElemMatch,
    EndsWith,
    Exists,
    Filter,
    FunctionCall,
    In,
    Mod,
    Not,
    RegexMatch,
    Size,
    StartsWith,
    Type,
    conjunction,
    disjunction,
    negation,
)
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.bson_types import NUMBERS, TYPE_CODES
from wormdb.format.json import encode
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, Decimal128, Regex
from wormdb.format.path import Path, parse_path
from wormdb.format.values import normalize
from wormdb.format.wrappers import regex_options
from wormdb.schema.problems import ProblemReport, did_you_mean
from wormdb.settings import FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX, FILTER_VALUES_MAX, INT_MAX, INT_MIN

__all__ = [
    "FIELD_OPERATORS",
    "LOGICAL_OPERATORS",
    "OperandError",
    "is_operators",
    "is_regex",
    "parse_filter",
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


# --- What stands behind an operator, read into the plain form that the tree keeps.

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


LOGICAL_OPERATORS: Final = ("$and", "$or", "$nor", "$not")
"""Operators that stand where a field could stand."""


def parse_filter(written: Mapping[str, Any], *, embedded: bool = False) -> Filter:
    """The tree of a filter in MongoDB's form, with the seeds' $contains, $startsWith, $endsWith and top-level $not.

    `id` and `_id` are the same field, but not with `embedded`, for filters on documents within documents.
    Raises InvalidRequestError with all mistakes in `problems`, each with its JSON path; LimitExceededError over
    FILTER_DEPTH_MAX, FILTER_CONDITIONS_MAX or FILTER_VALUES_MAX; MissingExtraError for $regex without google-re2.
    No requests.
    """
    plain = _equalities(written, embedded=embedded)
    if plain is not None:
        return plain
    parser = _FilterParser()
    tree = parser.filter(written, "", 1, embedded=embedded)
    if parser.report.errors:
        raise InvalidRequestError("the filter cannot be used", problems=parser.report.errors)
    return tree


_EQUALITIES_MAX: Final = 16
_PLAIN: Final = frozenset({str, int, float, bool})


def _equalities(written: Mapping[str, Any], *, embedded: bool) -> Filter | None:
    """The tree of fields with plain values, as most filters are; None for a filter that only the parser can read."""
    if type(written) is not dict or not 0 < len(written) <= _EQUALITIES_MAX:
        return None
    parts: list[Filter] = []
    for name, value in written.items():
        if type(name) is not str or name[:1] == "$" or type(value) not in _PLAIN:
            return None
        try:
            path, plain = parse_path(name), normalize(value)
        except (InvalidRequestError, LimitExceededError):
            return None
        parts.append(Compare(("_id", *path[1:]) if path[0] == "id" and not embedded else path, "eq", plain))
    return parts[0] if len(parts) == 1 else And(tuple(parts))


class _FilterParser:
    """One run: the mistakes so far, and what is left of the limits. A condition with a mistake becomes nothing."""

    def __init__(self) -> None:
        self.report = ProblemReport()
        self._conditions_left = FILTER_CONDITIONS_MAX
        self._values_left = FILTER_VALUES_MAX

    # --- where fields stand ---

    def filter(self, written: Any, place: str, depth: int, *, embedded: bool) -> Filter:
        """The tree of a filter: fields and logical operators, all of which hold."""
        self._enter(place, depth)
        if not isinstance(written, Mapping):
            return self._refuse(place, "a filter is a document", 'write {"field": value}')
        parts = []
        self._count(0 if written else 1, "conditions", place)
        for name, operand in written.items():
            here = _below(place, name)
            if not isinstance(name, str):
                parts.append(self._refuse(here, "a field name is text", "write a string"))
            elif name in LOGICAL_OPERATORS:
                read = self._reader(depth, embedded=embedded)
                parts.append(self._logical(name, operand, here, read))
            elif name == "$jsonSchema":
                parts.append(self._schema(operand, here, depth, embedded=embedded))
            elif name == "$fn":
                parts.append(self._function(operand, here, embedded=embedded))
            elif name.startswith("$"):
                parts.append(self._refuse(here, *_misplaced(name)))
            else:
                parts.append(self._field(name, operand, here, depth, embedded=embedded))
        return conjunction(parts)

    def _reader(self, depth: int, *, embedded: bool) -> Callable[[Any, str], Filter]:
        return lambda written, place: self.filter(written, place, depth + 1, embedded=embedded)

    def _logical(self, name: str, operand: Any, place: str, read: Callable[[Any, str], Filter]) -> Filter:
        if name == "$not":
            return negation(read(operand, place))
        if not isinstance(operand, list | tuple) or not operand:
            return self._refuse(place, f"{name} takes a list of one filter at least", "leave it out, or write [{…}]")
        children = [read(item, f"{place}[{position}]") for position, item in enumerate(operand)]
        if name == "$and":
            return conjunction(children)
        return disjunction(children) if name == "$or" else negation(disjunction(children))

    def _function(self, operand: Any, place: str, *, embedded: bool) -> Filter:
        if embedded:
            return self._refuse(place, "a function is about whole documents", "write its conditions here")
        if not isinstance(operand, str) or not operand:
            return self._refuse(place, "$fn takes the name of a function", 'write {"$fn": "isAdult"}')
        self._count(1, "conditions", place)
        return cast("Filter", FunctionCall(operand))  # the collection's functions replace it

    def _schema(self, operand: Any, place: str, depth: int, *, embedded: bool) -> Filter:
        if embedded:
            return self._refuse(place, "$jsonSchema is about whole documents", "put it beside the fields at the top")
        from wormdb.bql.json_schema import SchemaReader  # few filters have one

        self._count(1, "conditions", place)
        schema = SchemaReader(self._refuse, self._enter).read(operand, place, depth + 1, is_top=True)
        return Conforms((), encode(schema).decode())

    def _field(self, name: str, operand: Any, place: str, depth: int, *, embedded: bool) -> Filter:
        try:
            path = parse_path(name)
        except InvalidRequestError as error:
            return self._refuse(place, error.reason or error.what, error.fix)
        if not embedded and path[0] == "id":
            path = ("_id", *path[1:])
        if is_operators(operand):
            return self._operators(path, operand, place, depth)
        self._count(1, "conditions", place)
        return self._leaf("$regex" if is_regex(operand) else "$eq", path, operand, place)

    # --- where operators stand ---

    def _operators(self, path: Path, written: Mapping[Any, Any], place: str, depth: int) -> Filter:
        """All operators on one field, each on its own."""
        self._enter(place, depth)
        self._count(len(written), "conditions", place)
        parts = []
        for name, operand in written.items():
            here = _below(place, name)
            structure = _STRUCTURES.get(name) if isinstance(name, str) else None
            if structure is not None:
                parts.append(structure(self, path, operand, here, depth))
            elif name in _LEAVES:
                parts.append(self._leaf(name, path, operand, here))
            elif name == "$regex":
                parts.append(self._regex(path, written, here))
            elif name == "$options":
                if "$regex" not in written:
                    parts.append(self._refuse(here, "$options belongs to $regex", "add $regex, or leave it out"))
            else:
                parts.append(self._refuse(here, *_unknown(name)))
        return conjunction(parts)

    def _leaf(self, name: str, path: Path, operand: Any, place: str) -> Filter:
        if name in _LISTS and isinstance(operand, list | tuple | set | frozenset):
            self._count(len(operand), "values", place)
        try:
            return _LEAVES[name](path, operand) if name in _LEAVES else RegexMatch(path, *read_regex(operand))
        except OperandError as error:
            return self._refuse(place, error.reason, error.fix)

    def _regex(self, path: Path, written: Mapping[Any, Any], place: str) -> Filter:
        try:
            return RegexMatch(path, *read_regex(written["$regex"], written.get("$options", MISSING)))
        except OperandError as error:
            return self._refuse(place, error.reason, error.fix)

    def not_(self, path: Path, operand: Any, place: str, depth: int) -> Filter:
        """The complement of operators, or of a regular expression."""
        if is_regex(operand):
            return Not(self._leaf("$regex", path, operand, place))
        if not is_operators(operand):
            fix = "use $ne for a value" if path else 'write {"$not": {"$gt": 5}}'
            return self._refuse(place, "$not takes operators or a regular expression", fix)
        return negation(self._operators(path, operand, place, depth + 1))

    def elem_match(self, path: Path, operand: Any, place: str, depth: int) -> Filter:
        """Conditions on one element: on its fields, or on itself if they are operators."""
        if not isinstance(operand, Mapping):
            return self._refuse(place, "$elemMatch takes a document", 'write {"$elemMatch": {"field": value}}')
        kind: Literal["document", "value"] = "value" if _is_about_value(operand) else "document"
        if kind == "value":
            return ElemMatch(path, self._operators((), operand, place, depth + 1), kind)
        return ElemMatch(path, self.filter(operand, place, depth + 1, embedded=True), kind)

    def all_(self, path: Path, operand: Any, place: str, depth: int) -> Filter:
        """All of several values, or of several $elemMatch."""
        if not isinstance(operand, list | tuple) or not any(map(is_operators, operand)):
            return self._leaf("$all", path, operand, place)
        self._count(len(operand), "conditions", place)
        parts = []
        for position, item in enumerate(operand):
            here = f"{place}[{position}]"
            if isinstance(item, Mapping) and set(item) == {"$elemMatch"}:
                parts.append(self.elem_match(path, item["$elemMatch"], _below(here, "$elemMatch"), depth))
            else:
                reason = "$all takes values, or $elemMatch in every place"
                parts.append(self._refuse(here, reason, "use $and with one condition for each"))
        return conjunction(parts)

    def combine(self, name: str, path: Path, operand: Any, place: str, depth: int) -> Filter:
        """$and, $or and $nor of operators on an element itself."""
        if path:
            return self._refuse(place, f"{name} stands beside fields, not under one", _lifted(name, path))

        def read(item: Any, here: str) -> Filter:
            if is_operators(item):
                return self._operators((), item, here, depth + 1)
            return self._refuse(here, "operators on the element are expected here", 'write such as {"$gt": 5}')

        return self._logical(name, operand, place, read)

    # --- mistakes and limits ---

    def _refuse(self, place: str, reason: str, fix: str) -> Filter:
        self._count(1, "conditions", place)  # mistakes are limited too
        self.report.error(place, reason, fix)
        return NOTHING

    def _enter(self, place: str, depth: int) -> None:
        if depth > FILTER_DEPTH_MAX:
            reason = f"FILTER_DEPTH_MAX is {FILTER_DEPTH_MAX} levels"
            raise LimitExceededError(f"the filter is nested too deep at {place[:80]}…", reason=reason, fix="flatten it")

    def _count(self, count: int, what: Literal["conditions", "values"], place: str) -> None:
        if what == "values":
            self._values_left -= count
        else:
            self._conditions_left -= count
        if self._values_left < 0 or self._conditions_left < 0:
            limit = FILTER_VALUES_MAX if what == "values" else FILTER_CONDITIONS_MAX
            raise LimitExceededError(
                f"the filter has too many {what} at {place[:80] or 'the top level'}",
                reason=f"FILTER_{what.upper()}_MAX is {limit}",
                fix="ask several times, with a part each",
            )


def _below(place: str, name: object) -> str:
    return f"{place}.{name}" if place else str(name)


def _is_about_value(written: Mapping[Any, Any]) -> bool:
    """Whether the conditions of an $elemMatch are about the element itself: operators with no field above them."""
    for name, operand in written.items():
        if not isinstance(name, str) or not name.startswith("$"):
            return False
        if name not in LOGICAL_OPERATORS:
            return True
        inner = operand if isinstance(operand, list | tuple) else [operand]
        if any(isinstance(item, Mapping) and item and _is_about_value(item) for item in inner):
            return True
    return False


def _misplaced(name: str) -> tuple[str, str]:
    """Why an operator cannot stand where a field is expected, and the fix."""
    if name in FIELD_OPERATORS:
        return f"{name} is about a field, and no field stands above it", f'write {{"field": {{"{name}": …}}}}'
    return _refused_or_unknown(name, LOGICAL_OPERATORS)


def _unknown(name: object) -> tuple[str, str]:
    if not isinstance(name, str) or not name.startswith("$"):
        fix = "put all under operators, or compare with a whole document by $eq"
        return "fields and operators are mixed", fix
    return _refused_or_unknown(name, FIELD_OPERATORS)


def _lifted(name: str, path: Path) -> str:
    return f'write {{"{name}": [{{"{".".join(path)}": …}}, …]}}'


def _refused_or_unknown(name: str, known: tuple[str, ...]) -> tuple[str, str]:
    if name in _REFUSED:
        return f"{name} is not there: {_REFUSED[name][0]}", _REFUSED[name][1]
    return f"there is no operator {name[:40]}", did_you_mean(name, known)


_NO_CODE: Final = ("no code runs in a query", "write the condition with operators")
_NO_PLACES: Final = ("there are no indexes of places", "compare coordinates with $gte and $lte")
_REFUSED: Final[dict[str, tuple[str, str]]] = {
    "$where": _NO_CODE,
    "$expr": _NO_CODE,
    "$function": _NO_CODE,
    "$accumulator": _NO_CODE,
    "$jsonSchema": ("it stands beside fields, not under one", "put it at the top of the filter"),
    "$text": ("a text search ranks what a whole query finds", "write it at the top of the filter of find or aggregate"),
    "$near": _NO_PLACES,
    "$nearSphere": _NO_PLACES,
    "$geoWithin": _NO_PLACES,
    "$geoIntersects": _NO_PLACES,
    "$comment": ("a filter carries no notes", "leave it out"),
}

_LEAVES: Final[dict[str, Callable[[Path, Any], Filter]]] = {
    "$eq": lambda path, operand: Compare(path, "eq", read_value(operand)),
    "$ne": lambda path, operand: Not(Compare(path, "eq", read_constant(operand))),
    "$gt": lambda path, operand: Compare(path, "gt", read_constant(operand)),
    "$gte": lambda path, operand: Compare(path, "gte", read_constant(operand)),
    "$lt": lambda path, operand: Compare(path, "lt", read_constant(operand)),
    "$lte": lambda path, operand: Compare(path, "lte", read_constant(operand)),
    "$in": lambda path, operand: In(path, _runnable(read_values(operand))),
    "$nin": lambda path, operand: Not(In(path, _runnable(read_values(operand)))),
    "$all": lambda path, operand: All(path, _runnable(read_values(operand))),
    "$exists": lambda path, operand: Exists(path) if read_flag(operand) else Not(Exists(path)),
    "$type": lambda path, operand: Type(path, read_types(operand)),
    "$size": lambda path, operand: Size(path, read_size(operand)),
    "$mod": lambda path, operand: Mod(path, *read_mod(operand)),
    "$contains": lambda path, operand: Contains(path, read_constant(operand)),
    "$startsWith": lambda path, operand: StartsWith(path, read_text(operand)),
    "$endsWith": lambda path, operand: EndsWith(path, read_text(operand)),
}
_LISTS: Final = frozenset({"$in", "$nin", "$all"})

_STRUCTURES: Final[dict[str, Callable[[_FilterParser, Path, Any, str, int], Filter]]] = {
    "$not": _FilterParser.not_,
    "$elemMatch": _FilterParser.elem_match,
    "$all": _FilterParser.all_,
    "$and": lambda parser, *rest: parser.combine("$and", *rest),
    "$or": lambda parser, *rest: parser.combine("$or", *rest),
    "$nor": lambda parser, *rest: parser.combine("$nor", *rest),
}

FIELD_OPERATORS: Final = (*_LEAVES, "$regex", "$options", "$elemMatch", "$not")
"""Operators that stand under a field."""


def _runnable(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of a list, when RE2 can run the regular expressions among them."""
    for value in values:
        if type(value) is Regex:
            read_regex(value)
    return values
