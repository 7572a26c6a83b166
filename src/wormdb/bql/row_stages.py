"""Stages that make other rows of rows: groups, elements of arrays, computed fields.

    {"$group": {"_id": "$author", "posts": {"$sum": 1}, "last": {"$max": "$at"}}}    {"$unwind": "$tags"}

Groups come in the order of their keys. Numbers of all types that are equal are one key, and so are null and a field
that is missing; sums are exact, whatever the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from wormdb.bql.accumulators import ACCUMULATORS, Accumulator, choose_plainest
from wormdb.bql.aggregation import key_of
from wormdb.bql.expression_functions import refuse
from wormdb.bql.expressions import Expression, parse_expression, read_path
from wormdb.bql.places import is_meta, placed
from wormdb.bql.projection import Branch, Projection, Whole
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import Path, parse_path
from wormdb.schema.problems import did_you_mean
from wormdb.settings import GROUPS_MAX

if TYPE_CHECKING:
    from wormdb.bql.mistakes import Mistakes

__all__ = [
    "NOTHING",
    "ONLY_ID",
    "ComputedField",
    "GroupTally",
    "RowStage",
    "compute",
    "is_computed",
    "parse_group",
    "parse_unwind",
    "read_computed",
    "replaced",
    "tally_of",
]

RowStage: TypeAlias = "Callable[[Iterable[Document]], Iterator[Document]]"
"""Rows of rows; they are taken in once."""

NOTHING: Final = Projection("include", Branch({}))
"""Shows no field."""
ONLY_ID: Final = Projection("include", Branch({"_id": Whole()}))
"""Shows the id."""


# --- computed fields ---


class ComputedField(NamedTuple):
    """A field that an expression gives, or the score of the row."""

    path: Path
    value: Expression | None
    """None for the score."""


def is_computed(part: Any) -> bool:
    """Whether a part of a $project is an expression or a score, and not a field that is shown or left out."""
    if isinstance(part, str):
        return True
    if isinstance(part, list | tuple):
        return True
    if not isinstance(part, Mapping) or len(part) != 1:
        return isinstance(part, Mapping) and any(map(is_computed, part.values()))
    ((name, operand),) = part.items()
    if name == "$slice":  # of a field by numbers, as in find; of an expression it has the expression first
        return isinstance(operand, list | tuple) and not isinstance(operand[0] if operand else 0, int)
    if isinstance(name, str) and name.startswith("$"):
        return name != "$elemMatch"
    return is_computed(operand)


def read_computed(written: Mapping[Any, Any], mistakes: Mistakes, at: str) -> list[ComputedField]:
    """The computed fields of a $project or an $addFields, given by dotted paths; `id` is `_id`. No requests."""
    found: list[ComputedField] = []
    for name, part in written.items():
        path: Any = mistakes.collect(f"{at}.{name}", lambda: parse_path(name))  # noqa: B023 - called at once
        if path is MISSING:
            continue
        place = ("_id", *path[1:]) if path[0] == "id" else tuple(path)
        if isinstance(part, Mapping) and not part:
            mistakes.add(f"{at}.{name}", "an empty document is no value", 'write {"$literal": {}}')
            continue
        value = None if is_meta(part) else parse_expression(part, mistakes, f"{at}.{name}")
        found.append(ComputedField(place, value))
    return found


def compute(row: Document, score: float | None, shown: Document, fields: Iterable[ComputedField]) -> Document:
    """`shown` with fields that are computed from `row` and its score; one that is MISSING is left out. No requests."""
    for path, value in fields:
        shown = placed(shown, path, score if value is None else value(row))
    return shown


def replaced(root: Expression, row: Document) -> Document:
    """The document that an expression gives for a row. Raises InvalidRequestError if it gives no document."""
    found = root(row)
    if type(found) is not dict:
        kind = "missing" if found is MISSING else type(found).__name__
        refuse("$replaceRoot", f"it needs a document, and the value is {kind}", "choose rows with a $match before it")
    return found


# --- elements of arrays ---


def parse_unwind(written: Any, mistakes: Mistakes, at: str) -> Callable[[Document], Iterator[Document]] | None:
    """Rows of a row: one for each element of an array. None, and mistakes, for what cannot be read. No requests."""
    options: Any = {"path": written} if isinstance(written, str) else written
    if not isinstance(options, Mapping) or "path" not in options:
        mistakes.add(at, "it must be the path of a field, or have one", 'write "$tags"')
        return None
    known = ("path", "preserveNullAndEmptyArrays", "includeArrayIndex")
    for name in options:
        if name not in known:
            mistakes.add(f"{at}.{name}", "there is no such option", did_you_mean(str(name), known))
    path = read_path(options["path"], mistakes, at)
    keeps = options.get("preserveNullAndEmptyArrays", False)
    if not isinstance(keeps, bool):
        mistakes.add(f"{at}.preserveNullAndEmptyArrays", "it is true or false", "write true")
    index = options.get("includeArrayIndex")
    place: Any = () if index is None else mistakes.collect(f"{at}.includeArrayIndex", lambda: parse_path(index))
    if not path or place is MISSING:
        return None

    def unwound(row: Document) -> Iterator[Document]:
        value = _direct(row, path)
        if type(value) is list and value:
            for number, item in enumerate(value):
                made = placed(row, path, item)
                yield placed(made, place, number) if place else made
        elif (value is not None and value is not MISSING and value != []) or keeps:
            made = placed(row, path, MISSING) if value == [] else row
            yield placed(made, place, None) if place else made

    return unwound


def _direct(row: Document, path: Path) -> Any:
    """The value at a path through documents alone."""
    value: Any = row
    for segment in path:
        if type(value) is not dict:
            return MISSING
        value = value.get(segment, MISSING)
    return value


# --- groups ---


class _EndValue:
    """The first value, or the last one; null for a missing one, as in MongoDB."""

    __slots__ = ("_is_last", "_value")

    def __init__(self, *, is_last: bool) -> None:
        self._is_last = is_last
        self._value: Any = MISSING

    def add(self, value: Any) -> None:
        if self._is_last or self._value is MISSING:
            self._value = None if value is MISSING else value

    def result(self) -> Any:
        return self._value


class _AllValues:
    """All values, in order; missing ones are left out."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[Any] = []

    def add(self, value: Any) -> None:
        if value is not MISSING:
            _check_room(len(self._values), "values of a $push")
            self._values.append(value)

    def result(self) -> list[Any]:
        return self._values


class _DistinctValues:
    """All different values, in their order; an array is one value."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[bytes, Any] = {}

    def add(self, value: Any) -> None:
        if value is MISSING:
            return
        key = encode_key(value)
        if key in self._values:
            self._values[key] = choose_plainest(value, self._values[key])
            return
        _check_room(len(self._values), "values of an $addToSet")
        self._values[key] = value

    def result(self) -> list[Any]:
        return [self._values[key] for key in sorted(self._values)]


def _check_room(count: int, what: str) -> None:
    if count >= GROUPS_MAX:
        raise LimitExceededError(
            f"there are too many {what}", reason=f"GROUPS_MAX is {GROUPS_MAX}", fix="narrow the $match"
        )


_MAKERS: Final[Mapping[str, Callable[[], Any]]] = {
    "$sum": ACCUMULATORS["sum"],
    "$avg": ACCUMULATORS["avg"],
    "$min": ACCUMULATORS["min"],
    "$max": ACCUMULATORS["max"],
    "$count": ACCUMULATORS["count"],
    "$first": lambda: _EndValue(is_last=False),
    "$last": lambda: _EndValue(is_last=True),
    "$push": _AllValues,
    "$addToSet": _DistinctValues,
}


class _GroupField(NamedTuple):
    name: str
    make: Callable[[], Accumulator]
    value: Expression


def parse_group(written: Any, mistakes: Mistakes, at: str) -> RowStage | None:
    """A row for each group of rows, in the order of their keys. None, and mistakes, for what cannot be read.

    The stage raises LimitExceededError over GROUPS_MAX groups, or values of one $push. No requests.
    """
    if not isinstance(written, Mapping) or "_id" not in written:
        mistakes.add(at, "it must have an _id: what rows are grouped by", 'write {"_id": "$city", "n": {"$sum": 1}}')
        return None
    before = len(mistakes.problems)
    key = parse_expression(written["_id"], mistakes, f"{at}._id")
    read = [_read_field(name, part, mistakes, f"{at}.{name}") for name, part in written.items() if name != "_id"]
    fields = [field for field in read if field is not None]
    return None if len(mistakes.problems) > before else lambda rows: _grouped(key, fields, rows)


class GroupTally(NamedTuple):
    """A $group whose key is a field, or none, and whose values are sums of fields: one aggregation has all of it."""

    functions: Mapping[str, Any]
    """What `wormdb.bql.aggregation.parse_aggregation` takes."""
    fields: Mapping[str, tuple[str, str]]
    """Of each field of a row the function and the path; no path for a count."""

    def rows(self, found: Mapping[str, Any]) -> Iterator[Document]:
        """The rows that the stage makes, of what `aggregate` gives. No requests."""
        groups = found["groups"].items() if "group_by" in self.functions else [(None, found)]
        for name, results in groups:
            if not results["count"]:
                continue  # no rows are no group
            values = {
                field: results[function][path] if path else results[function]
                for field, (function, path) in self.fields.items()
            }
            yield {"_id": None if name is None else key_of(name), **values}


def tally_of(written: Mapping[str, Any]) -> GroupTally | None:
    """A $group that `parse_group` took, as one aggregation; None if it is more than that. No requests."""
    functions: dict[str, Any] = {"count": True}
    if written["_id"] is not None:
        if (path := _field_of(written["_id"])) is None:
            return None
        functions["group_by"] = path
    fields: dict[str, tuple[str, str]] = {}
    for name, part in written.items():
        if name == "_id":
            continue
        ((function, operand),) = part.items()
        if function == "$count" or (function == "$sum" and operand == 1 and type(operand) is int):
            fields[name] = "count", ""
        elif function in _TALLIED and (path := _field_of(operand)) is not None:
            fields[name] = function[1:], path
            functions.setdefault(function[1:], []).append(path)
        else:
            return None
    return GroupTally(functions, fields)


_TALLIED: Final = ("$sum", "$avg", "$min", "$max")


def _field_of(written: Any) -> str | None:
    is_path = isinstance(written, str) and written.startswith("$") and not written.startswith("$$")
    return written[1:] if is_path else None


def _read_field(name: Any, written: Any, mistakes: Mistakes, at: str) -> _GroupField | None:
    try:
        if len(parse_path(name)) != 1:
            mistakes.add(at, "a field of a group is at the top", "name it without a dot")
    except InvalidRequestError:
        mistakes.add(at, "it must be the name of a field", 'write "total"')
    if name == "id":
        mistakes.add(at, "id and _id are one field here, and _id is the key of the group", "give it another name")
    if not isinstance(written, Mapping) or len(written) != 1:
        mistakes.add(at, "a field of a group has one accumulator", 'write {"$sum": "$price"}')
        return None
    ((function, operand),) = written.items()
    make = _MAKERS.get(function)
    if make is None:
        mistakes.add(f"{at}.{function}", "there is no such accumulator", did_you_mean(str(function), tuple(_MAKERS)))
        return None
    if function == "$count" and operand != {}:
        mistakes.add(f"{at}.{function}", "it takes an empty document", 'write {"$count": {}}')
    value = parse_expression(operand, mistakes, f"{at}.{function}")
    return _GroupField(str(name), make, value)


def _grouped(key: Expression, fields: list[_GroupField], rows: Iterable[Document]) -> Iterator[Document]:
    groups: dict[bytes, tuple[Any, list[Accumulator]]] = {}
    for row in rows:
        found = key(row)
        value = None if found is MISSING else found
        encoded = encode_key(value)
        known = groups.get(encoded)
        if known is None:
            _check_room(len(groups), "groups")
            known = value, [field.make() for field in fields]
            groups[encoded] = known
        elif known[0] is not value:
            groups[encoded] = known = choose_plainest(value, known[0]), known[1]
        for field, accumulator in zip(fields, known[1], strict=True):
            accumulator.add(field.value(row))
    for _, (value, accumulators) in sorted(groups.items(), key=lambda item: item[0]):
        results = (accumulator.result() for accumulator in accumulators)
        yield {"_id": value, **dict(zip((field.name for field in fields), results, strict=True))}
