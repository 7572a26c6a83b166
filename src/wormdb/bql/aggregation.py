"""Aggregations: functions over the documents of a collection, in groups or of all together.

Values of a path are those of MongoDB's expressions: through an array a path has the array of the values in its
documents. So sum and avg of a path through an array have nothing to add, and a group may have an array as its key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.accumulators import ACCUMULATORS, Accumulator, choose_plainest
from wormdb.bql.mistakes import Mistakes
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.json import decode, encode, parse
from wormdb.format.key import encode_key, encode_keys
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import TRAVERSED, Path, get_direct, parse_path, resolve
from wormdb.schema.problems import did_you_mean
from wormdb.settings import GROUPS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


__all__ = [
    "AggregateFunction",
    "Aggregation",
    "AggregationState",
    "GroupResult",
    "aggregate",
    "aggregation_fields",
    "key_of",
    "parse_aggregation",
    "value_of",
]

_FIELD_FUNCTIONS: Final = tuple(name for name in ACCUMULATORS if name != "count")
_GROUPING: Final = ("group_by", "groupBy")


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """One function of one field; `label` None: it is the only one, and its result stands for itself."""

    name: str
    path: Path
    label: str | None


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A checked aggregation; made by `parse_aggregation`."""

    group_by: tuple[Path, ...] | None
    functions: tuple[AggregateFunction, ...]


@dataclass(frozen=True, slots=True)
class GroupResult:
    """One group: its values of the group fields, null for a missing one, and the results by function."""

    key: tuple[Any, ...]
    results: dict[str, Any]

    @property
    def name(self) -> str:
        """The key as text, different for different keys.

        One field: a text is its own name, unless it could be read as JSON; other values are written as JSON. Several
        fields: a list in JSON.
        """
        return _name_of(self.key)


def parse_aggregation(options: Mapping[str, Any]) -> Aggregation:
    """The aggregation of `group_by` (or `groupBy`), `count`, `sum`, `avg`, `min`, `max` and `distinct`.

    `count` is true or false, the others are a field or a list of fields; None is as if not given. Raises
    InvalidRequestError with all mistakes in `problems`. No requests.
    """
    mistakes = Mistakes()
    groups: tuple[Path, ...] | None = None
    functions: list[AggregateFunction] = []
    for name, operand in options.items():
        if operand is None or (name == "count" and operand is False):
            continue
        if name == "count":
            if operand is not True:
                mistakes.add(name, "count is true or false", "write true; to count values of a field, group by it")
            functions.append(AggregateFunction(name, (), None))
        elif name in _GROUPING:
            if groups is not None:
                mistakes.add(name, "the groups are given twice", "give group_by once")
            groups = tuple(path for path, _ in _read_fields(name, operand, mistakes))
        elif name in _FIELD_FUNCTIONS:
            functions += [AggregateFunction(name, path, label) for path, label in _read_fields(name, operand, mistakes)]
        else:
            fix = did_you_mean(str(name), ("group_by", *ACCUMULATORS))
            mistakes.add(str(name), "there is no such function of aggregate()", fix)
    if not functions and not mistakes.problems:
        mistakes.add("", "aggregate() needs at least one operation", f"give one of {', '.join(ACCUMULATORS)}")
    mistakes.settle("the aggregation cannot be used")
    return Aggregation(groups, tuple(functions))


def _read_fields(name: str, operand: Any, mistakes: Mistakes) -> list[tuple[Path, str | None]]:
    is_list = isinstance(operand, list | tuple)
    fields = list(dict.fromkeys(map(str, operand))) if is_list and all(isinstance(f, str) for f in operand) else operand
    found: list[tuple[Path, str | None]] = []
    for position, text in enumerate(fields if is_list else [operand]):
        at = f"{name}[{position}]" if is_list else name
        path: Any = mistakes.collect(at, lambda: parse_path(text))  # noqa: B023 - called at once
        if path is not MISSING:
            found.append((("_id", *path[1:]) if path[0] == "id" else path, text if is_list else None))
    if is_list and not operand:
        mistakes.add(name, "the list names no field", "name one, or leave it out")
    return found


def aggregation_fields(aggregation: Aggregation) -> set[str]:
    """The paths that hold all that an aggregation reads. No requests."""
    paths = [*(aggregation.group_by or ()), *(function.path for function in aggregation.functions if function.path)]
    return {".".join(path) for path in paths}


class AggregationState:
    """The state of one aggregation over some documents; states of parts of a collection are merged."""

    __slots__ = ("_groups", "aggregation")

    def __init__(self, aggregation: Aggregation) -> None:
        """No document yet."""
        self.aggregation = aggregation
        self._groups: dict[tuple[bytes, ...], tuple[tuple[Any, ...], list[Accumulator]]] = {}
        if aggregation.group_by is None:
            self._group((), ())

    def add(self, document: Document) -> None:
        """Take in a normalized document; LimitExceededError over GROUPS_MAX. No requests."""
        found = (value_of(document, path) for path in self.aggregation.group_by or ())
        key = tuple(None if value is MISSING else value for value in found)
        accumulators = self._group(tuple(map(encode_key, key)), key)
        for function, accumulator in zip(self.aggregation.functions, accumulators, strict=True):
            if function.name == "distinct":
                for value in resolve(document, function.path, expand=False):
                    accumulator.add(value)
            else:
                accumulator.add(value_of(document, function.path) if function.path else None)

    def _group(self, encoded: tuple[bytes, ...], key: tuple[Any, ...]) -> list[Accumulator]:
        known = self._groups.get(encoded)
        if known is None:
            fresh = [ACCUMULATORS[function.name]() for function in self.aggregation.functions]
            return self._begin(encoded, key, fresh)
        shown, accumulators = known
        if any(a is not b for a, b in zip(key, shown, strict=True)):
            self._groups[encoded] = (tuple(map(choose_plainest, key, shown)), accumulators)
        return accumulators

    def _begin(
        self, encoded: tuple[bytes, ...], key: tuple[Any, ...], accumulators: list[Accumulator]
    ) -> list[Accumulator]:
        if len(self._groups) >= GROUPS_MAX:
            reason = f"GROUPS_MAX is {GROUPS_MAX}"
            raise LimitExceededError("there are too many groups", reason=reason, fix="group by another field")
        self._groups[encoded] = (key, accumulators)
        return accumulators

    def add_groups(self, keys: Sequence[tuple[Any, ...]], accumulators: Iterable[Sequence[Accumulator]]) -> None:
        """Take in what accumulators took in of documents of some groups: one a function, and now the tally's own.

        Keys may come several times; a missing value in one is null. No requests; raises LimitExceededError over
        GROUPS_MAX.
        """
        columns = [encode_keys(values) for values in zip(*keys, strict=True)]
        encodings = zip(*columns, strict=True) if columns else ((),) * len(keys)
        for encoded, key, others in zip(encodings, keys, accumulators, strict=True):
            if encoded in self._groups:
                for mine, other in zip(self._group(encoded, key), others, strict=True):
                    mine.merge(other)
            else:
                self._begin(encoded, key, list(others))

    def merge(self, other: AggregationState) -> None:
        """Take in all that a tally of the same aggregation took in. No requests."""
        assert self.aggregation == other.aggregation
        for encoded, (key, accumulators) in other._groups.items():
            for mine, others in zip(self._group(encoded, key), accumulators, strict=True):
                mine.merge(others)

    def state(self) -> bytes:
        """All that it took in, for `take` in another process. No requests."""
        groups = self._groups.values()
        return encode([[list(key), [each.state() for each in accumulators]] for key, accumulators in groups])

    def take(self, state: bytes) -> None:
        """Take in all that a tally of the same aggregation took in, by its state. No requests; raises as `add`."""
        for key, states in decode(state, name="a tally"):
            accumulators = self._group(tuple(map(encode_key, key)), tuple(key))
            for mine, other in zip(accumulators, states, strict=True):
                mine.take(other)

    def groups(self) -> list[GroupResult]:
        """All groups, in the order of their keys; one with an empty key if there is no `group_by`."""
        return [
            GroupResult(key, self._results(accumulators))
            for _, (key, accumulators) in sorted(self._groups.items(), key=_first)
        ]

    def _results(self, accumulators: list[Accumulator]) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for function, accumulator in zip(self.aggregation.functions, accumulators, strict=True):
            if function.label is None:
                results[function.name] = accumulator.result()
            else:
                results.setdefault(function.name, {})[function.label] = accumulator.result()
        return results

    def result(self) -> dict[str, Any]:
        """{function: value} or {"groups": {name: {function: value}}}; {field: value} for functions of a list."""
        if self.aggregation.group_by is None:
            return self.groups()[0].results
        groups = sorted(self._groups.items(), key=_first)
        return {"groups": {_name_of(key): self._results(accumulators) for _, (key, accumulators) in groups}}


def aggregate(aggregation: Aggregation, documents: Iterable[Document]) -> dict[str, Any]:
    """The result of an aggregation over normalized documents, in whatever order. No requests."""
    tally = AggregationState(aggregation)
    for document in documents:
        tally.add(document)
    return tally.result()


def value_of(document: Document, path: Path) -> Any:
    """The value of a path as an expression: one value, MISSING, or the array of values in an array's documents."""
    value = get_direct(document, path)
    if value is not TRAVERSED:
        return value
    found: Any = document
    for place, segment in enumerate(path):
        if type(found) is list:
            inner = (value_of(item, path[place:]) for item in found if type(item) is dict)
            return [item for item in inner if item is not MISSING]
        found = found[segment]
    return found


def _name_of(key: tuple[Any, ...]) -> str:
    if len(key) != 1:
        return encode(list(key)).decode()
    (value,) = key
    return value if type(value) is str and not _reads_as_json(value) else encode(value).decode()


def key_of(name: str) -> Any:
    """The value that a group of one field is named by: what `GroupResult.name` was made of. No requests."""
    return decode(name.encode(), name="a group") if _reads_as_json(name) else name


def _first(item: tuple[tuple[bytes, ...], Any]) -> tuple[bytes, ...]:
    return item[0]


def _reads_as_json(text: str) -> bool:
    if not text or text[0] not in '"-0123456789[{tfn':
        return False
    try:
        parse(text, operators=True)
    except InvalidRequestError:
        return False
    return True
