"""$jsonSchema: whether a document is what a JSON Schema describes, as MongoDB reads one.

That is draft 4 with `bsonType` beside `type`, without `$ref`, `definitions`, `default`, `format`, `id`, `$schema` and
the type "integer": these are refused by name. A keyword says nothing about values of other types: `minimum` lets a text
pass. Unlike other conditions none looks into the elements of an array, unless `items` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wormdb.bql.regex import compile_regex
from wormdb.errors import InvalidRequestError
from wormdb.format.bson_types import NUMBERS, TYPE_CODES, check_type
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, Decimal128
from wormdb.format.values import normalize
from wormdb.schema.problems import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["SchemaReader", "compile_schema"]

Test: TypeAlias = "Callable[[Any], bool]"

_TYPES: Final = {
    "object": ("object",),
    "array": ("array",),
    "number": NUMBERS,
    "boolean": ("bool",),
    "string": ("string",),
    "null": ("null",),
}
"""What `type` may name, as BSON's types."""
_REFUSED: Final = {
    "$ref": "write the schema that it refers to in its place",
    "$schema": "leave it out: it is read as draft 4",
    "definitions": "write the schemas where they are used",
    "default": "leave it out: a filter changes nothing",
    "format": "use pattern",
    "id": "leave it out",
    "const": "use enum with one value",
    "contains": "use $elemMatch beside $jsonSchema",
    "propertyNames": "use patternProperties and additionalProperties",
    "if": "use anyOf and not",
    "then": "use anyOf and not",
    "else": "use anyOf and not",
}
_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_LIMITS: Final = ("minimum", "maximum")
_FLAGS: Final = ("exclusiveMinimum", "exclusiveMaximum", "uniqueItems")
_TEXTS: Final = ("title", "description")
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_MAPS: Final = ("properties", "patternProperties")
_OPEN: Final = ("additionalProperties", "additionalItems")
KEYWORDS: Final = (
    *("bsonType", "type", "enum", "not", "items", "required", "dependencies", "pattern", "multipleOf"),
    *(*_COUNTS, *_LIMITS, *_FLAGS, *_TEXTS, *_LISTS, *_MAPS, *_OPEN),
)


# --- reading ---


@dataclass(frozen=True, slots=True)
class SchemaReader:
    """Reads one schema; what is wrong is told with its place, the reason and a fix."""

    refuse: Callable[[str, str, str], object]
    enter: Callable[[str, int], None]
    """Told each place and how deep it lies: raises LimitExceededError."""

    def read(self, written: Any, place: str, depth: int, *, is_top: bool = False) -> dict[str, Any]:
        """The schema with normalized values, in order of its keywords; `id` at the top is `_id`. No requests."""
        self.enter(place, depth)
        if not isinstance(written, Mapping):
            self.refuse(place, "a schema is a document", 'write {"required": ["name"]}')
            return {}
        made: dict[str, Any] = {}
        for name in sorted(written, key=str):
            here = f"{place}.{name}"
            if name in _REFUSED:
                self.refuse(here, f"there is no keyword {name}, as in MongoDB", _REFUSED[name])
            elif name not in KEYWORDS:
                self.refuse(here, f"there is no keyword {str(name)[:40]}", did_you_mean(str(name), KEYWORDS))
            elif name not in _TEXTS:
                made[name] = self._keyword(name, written[name], here, depth, is_top=is_top)
        self._check_pairs(made, place)
        return made

    def _check_pairs(self, made: Mapping[str, Any], place: str) -> None:
        if "type" in made and "bsonType" in made:
            self.refuse(place, "type and bsonType stand together", "write one of them")
        for flag, limit in zip(_FLAGS, _LIMITS, strict=False):
            if made.get(flag) and limit not in made:
                self.refuse(f"{place}.{flag}", f"there is no {limit} beside it", f"add {limit}")

    def _keyword(self, name: str, operand: Any, place: str, depth: int, *, is_top: bool) -> Any:  # noqa: C901, PLR0912 - one case for each kind
        named = _stored if is_top else str
        match name:
            case "bsonType" | "type":
                return self._types(name, operand, place)
            case "enum":
                return self._values(operand, place)
            case "not":
                return self.read(operand, place, depth + 1, is_top=is_top)
            case "required":
                return sorted(named(one) for one in self._names(operand, place))
            case "pattern":
                return self._pattern(operand, place)
            case "dependencies":
                return self._dependencies(operand, place, depth, is_top=is_top)
            case _ if name in _LISTS:
                return self._schemas(operand, place, depth, is_top=is_top)
            case _ if name in _MAPS:
                return self._map(operand, place, depth, named if name == "properties" else self._pattern_name(place))
            case _ if name in _OPEN:
                return operand if isinstance(operand, bool) else self.read(operand, place, depth + 1)
            case "items":
                is_list = isinstance(operand, list | tuple)
                return self._schemas(operand, place, depth) if is_list else self.read(operand, place, depth + 1)
            case _ if name in _FLAGS:
                return self._checked(operand, place, isinstance(operand, bool), "true or false")
            case _ if name in _COUNTS:
                is_count = _is_number(operand) and int(_plain(operand)) == _plain(operand) >= 0
                return self._checked(int(operand) if is_count else operand, place, is_count, "a whole number from 0 on")
            case _:
                is_right = _is_number(operand) and (name != "multipleOf" or _plain(operand) > 0)
                what = "a number above 0" if name == "multipleOf" else "a number"
                return self._checked(operand, place, is_right, what)

    def _checked(self, operand: Any, place: str, is_right: bool, what: str) -> Any:
        if not is_right:
            self.refuse(place, f"it takes {what}", f"write {what}")
            return None
        return normalize(operand)

    def _types(self, name: str, operand: Any, place: str) -> list[str]:
        known = _TYPES if name == "type" else {**{each: (each,) for each in TYPE_CODES}, "number": NUMBERS}
        found = operand if isinstance(operand, list | tuple) else [operand]
        for one in found:
            if one == "integer":
                self.refuse(place, "there is no type integer, as in MongoDB", 'write {"bsonType": ["int", "long"]}')
            elif not isinstance(one, str) or one not in known:
                self.refuse(place, f"there is no type {str(one)[:40]!r}", did_you_mean(str(one), known))
        if not found:
            self.refuse(place, "it names no type", "name one at least")
        return sorted({str(one) for one in found})

    def _values(self, operand: Any, place: str) -> list[Any]:
        if not isinstance(operand, list | tuple) or not operand:
            self.refuse(place, "it takes a list of one value at least", "write the values in [ ]")
            return []
        try:
            values = [normalize(one) for one in operand]
        except InvalidRequestError as error:
            self.refuse(place, error.reason or error.what, error.fix)
            return []
        if len({_key(one) for one in values}) < len(values):
            self.refuse(place, "a value is there twice", "write each once")
        return values

    def _names(self, operand: Any, place: str) -> list[str]:
        is_list = isinstance(operand, list | tuple) and all(isinstance(one, str) for one in operand)
        if not is_list or not operand or len(set(operand)) < len(operand):
            self.refuse(place, "it takes a list of different names, one at least", 'write such as ["name"]')
            return []
        return [str(one) for one in operand]

    def _pattern(self, operand: Any, place: str) -> str:
        if not isinstance(operand, str):
            self.refuse(place, "it takes a pattern as text", "write a string")
            return ""
        try:
            compile_regex(operand, "")
        except InvalidRequestError as error:
            if not error.reason.startswith(("RE2", "REGEX")):
                raise  # the extra is missing: no pattern would help
            self.refuse(place, f"{error.what}: {error.reason}", error.fix)
        return str(operand)

    def _pattern_name(self, place: str) -> Callable[[str], str]:
        return lambda name: self._pattern(name, f"{place}.{name}")

    def _schemas(self, operand: Any, place: str, depth: int, *, is_top: bool = False) -> list[dict[str, Any]]:
        if not isinstance(operand, list | tuple) or not operand:
            self.refuse(place, "it takes a list of one schema at least", "write [{…}]")
            return []
        return [self.read(one, f"{place}[{number}]", depth + 1, is_top=is_top) for number, one in enumerate(operand)]

    def _map(self, operand: Any, place: str, depth: int, named: Callable[[str], str]) -> dict[str, Any]:
        if not isinstance(operand, Mapping) or not all(isinstance(name, str) for name in operand):
            self.refuse(place, "it takes a document of schemas", 'write {"name": {"bsonType": "string"}}')
            return {}
        return {named(name): self.read(one, f"{place}.{name}", depth + 1) for name, one in sorted(operand.items())}

    def _dependencies(self, operand: Any, place: str, depth: int, *, is_top: bool) -> dict[str, Any]:
        if not isinstance(operand, Mapping) or not all(isinstance(name, str) for name in operand):
            self.refuse(place, "it takes a document of lists of names, or of schemas", 'write {"a": ["b"]}')
            return {}
        named = _stored if is_top else str
        made: dict[str, Any] = {}
        for name, one in sorted(operand.items()):
            here = f"{place}.{name}"
            if isinstance(one, list | tuple):
                made[named(name)] = sorted(named(other) for other in self._names(one, here))
            else:
                made[named(name)] = self.read(one, here, depth + 1, is_top=is_top)
        return made


def _stored(name: str) -> str:
    """Documents have their id as `_id`; filters take both names."""
    return "_id" if name == "id" else str(name)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float | Decimal128) and _is_finite(value)


def _is_finite(value: Any) -> bool:
    return bool(value.to_decimal().is_finite()) if isinstance(value, Decimal128) else isfinite(value)


def _plain(value: Any) -> Decimal:
    """A finite number, exactly as it is written."""
    return value.to_decimal() if isinstance(value, Decimal128) else Decimal(repr(value))


def _key(value: Any) -> bytes:
    """Equal for equal values: the order of fields does not count, and 1 is 1.0 but not true."""
    return encode_key(_ordered(value))


def _ordered(value: Any) -> Any:
    if type(value) is dict:
        return {name: _ordered(value[name]) for name in sorted(value)}
    return [_ordered(one) for one in value] if type(value) is list else value


# --- evaluating ---


def compile_schema(schema: Mapping[str, Any], compared: Callable[[Any, Any], Test]) -> Test:
    """The test of one normalized value, by a schema that `SchemaReader` read. Missing passes. No requests.

    `compared` makes the test of `gt`, `gte`, `lt` or `lte` with a number.
    """
    tests = [test for name in schema if (test := _test(name, schema, compared)) is not None]

    def passes(value: Any) -> bool:
        return value is MISSING or all(test(value) for test in tests)

    return passes


def _test(name: str, schema: Mapping[str, Any], compared: Callable[[Any, Any], Test]) -> Test | None:
    operand = schema[name]
    if name in {"bsonType", "type"}:
        known = _TYPES if name == "type" else {"number": NUMBERS}
        return check_type([alias for one in operand for alias in known.get(one, (one,))])
    if name == "enum":
        keys = {_key(one) for one in operand}
        return lambda value: _key(value) in keys
    if name == "not":
        inner = compile_schema(operand, compared)
        return lambda value: not inner(value)
    if name in _LISTS:
        return _combined(name, [compile_schema(one, compared) for one in operand])
    if name in _LIMITS:
        return _limit(name, schema, compared)
    if name in {"multipleOf", "pattern", "uniqueItems"} or name in _COUNTS:
        return _plain_test(name, operand)
    return _structure(name, schema, compared)


def _combined(name: str, tests: Sequence[Test]) -> Test:
    if name == "allOf":
        return lambda value: all(test(value) for test in tests)
    if name == "anyOf":
        return lambda value: any(test(value) for test in tests)
    return lambda value: sum(test(value) for test in tests) == 1


def _limit(name: str, schema: Mapping[str, Any], compared: Callable[[Any, Any], Test]) -> Test:
    op, flag = ("gt", "exclusiveMinimum") if name == "minimum" else ("lt", "exclusiveMaximum")
    holds = compared(op if schema.get(flag) else f"{op}e", schema[name])
    is_number = check_type(NUMBERS)
    return lambda value: not is_number(value) or holds(value)


_SIZED: Final[dict[str, type[Any]]] = {"Length": str, "Items": list, "Properties": dict}


def _plain_test(name: str, operand: Any) -> Test:
    if name == "multipleOf":
        divisor, is_number = _plain(operand), check_type(NUMBERS)
        return lambda value: not is_number(value) or (_is_finite(value) and _plain(value) % divisor == 0)
    if name == "pattern":
        finds = compile_regex(operand, "")
        return lambda value: type(value) is not str or finds(value)
    if name == "uniqueItems":
        return lambda value: not operand or type(value) is not list or len(set(map(_key, value))) == len(value)
    kind, is_least = _SIZED[name[3:]], name.startswith("min")

    def is_within(value: Any) -> bool:
        return not isinstance(value, kind) or (len(value) >= operand if is_least else len(value) <= operand)

    return is_within


def _structure(name: str, schema: Mapping[str, Any], compared: Callable[[Any, Any], Test]) -> Test | None:
    """Keywords about what is inside documents and arrays; None for those that others look at."""
    operand = schema[name]
    if name == "items":
        return _items(operand, schema.get("additionalItems", True), compared)
    if name == "required":
        return lambda value: type(value) is not dict or all(one in value for one in operand)
    if name == "dependencies":
        return _dependencies(operand, compared)
    if name == "properties":
        inner = {key: compile_schema(one, compared) for key, one in operand.items()}
        return lambda value: (
            type(value) is not dict or all(test(value.get(key, MISSING)) for key, test in inner.items())
        )
    if name == "patternProperties":
        matching = [(compile_regex(pattern, ""), compile_schema(one, compared)) for pattern, one in operand.items()]
        return lambda value: (
            type(value) is not dict
            or all(test(inside) for key, inside in value.items() for finds, test in matching if finds(key))
        )
    return _additional(schema, compared) if name == "additionalProperties" else None


def _items(operand: Any, more: Any, compared: Callable[[Any, Any], Test]) -> Test:
    if not isinstance(operand, list):
        each = compile_schema(operand, compared)
        return lambda value: type(value) is not list or all(each(one) for one in value)
    tests = [compile_schema(one, compared) for one in operand]
    rest = None if isinstance(more, bool) else compile_schema(more, compared)

    def test(value: Any) -> bool:
        if type(value) is not list:
            return True
        beyond = value[len(tests) :]
        is_well = not beyond or more is True or (rest is not None and all(rest(one) for one in beyond))
        return is_well and all(check(one) for check, one in zip(tests, value, strict=False))

    return test


def _dependencies(operand: Mapping[str, Any], compared: Callable[[Any, Any], Test]) -> Test:
    names = {key: one for key, one in operand.items() if isinstance(one, list)}
    schemas = {key: compile_schema(one, compared) for key, one in operand.items() if key not in names}
    return lambda value: (
        type(value) is not dict
        or (
            all(other in value for key, others in names.items() if key in value for other in others)
            and all(test(value) for key, test in schemas.items() if key in value)
        )
    )


def _additional(schema: Mapping[str, Any], compared: Callable[[Any, Any], Test]) -> Test:
    operand, known = schema["additionalProperties"], schema.get("properties", {})
    patterns = [compile_regex(pattern, "") for pattern in schema.get("patternProperties", {})]
    inner = None if isinstance(operand, bool) else compile_schema(operand, compared)

    def test(value: Any) -> bool:
        if type(value) is not dict or operand is True:
            return True
        others = (one for key, one in value.items() if key not in known and not any(finds(key) for finds in patterns))
        return all(inner is not None and inner(one) for one in others)

    return test
