"""The order of results: by several fields, by MongoDB's order over all types, and ties by id.

Of an array the least element counts where the order ascends, and the greatest where it descends. An empty array is
below null, and a missing field is null. Of an array on the way every element counts: one that lacks the field, or is
not a document, counts as null. A number in a path is a position: `items.0.v` is null if there is no such element, or
if it lacks the field, whatever others have. Fields of the documents of one array are taken from the same element. No
document is refused: where fields lie in different arrays, each takes its own best element.

Ties are broken by id in the direction of the first field, so that an index read backwards gives an order too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, TypeAlias

from wormdb.errors import InvalidRequestError
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import TRAVERSED, Path, get_direct, parse_path, walk, within
from wormdb.schema.problems import ProblemReport
from wormdb.settings import SORT_FIELDS_MAX

__all__ = ["SortField", "SortSpec", "WrittenSort", "parse_sort", "sort_key"]

WrittenSort: TypeAlias = "str | Sequence[str | tuple[str, str | int]] | Mapping[str, str | int] | None"
""""name", "-name", ["a", "-b"], [("name", "asc")], {"name": 1}, or {"field": "name", "order": "asc"}."""

_DIRECTIONS: Final[dict[object, bool]] = {
    1: False,
    -1: True,
    "1": False,
    "-1": True,
    "asc": False,
    "desc": True,
    "ascending": False,
    "descending": True,
}
_IDENTITY: Final = ("_id",)


@dataclass(frozen=True, slots=True)
class SortField:
    """One field of an order."""

    path: Path
    descending: bool = False

    def __str__(self) -> str:
        return f"{'-' * self.descending}{'.'.join(self.path)}"


@dataclass(frozen=True, slots=True)
class SortSpec:
    """An order of documents; without fields it is that of ids."""

    fields: tuple[SortField, ...] = ()

    @property
    def is_id_descending(self) -> bool:
        """Whether of documents with equal fields the one with the greater id comes first."""
        return bool(self.fields) and self.fields[0].descending

    def __str__(self) -> str:
        return ",".join(map(str, self.fields))


def parse_sort(written: WrittenSort) -> SortSpec:
    """The order that was written; fields after the id say nothing and are left out.

    Raises InvalidRequestError with all mistakes, LimitExceededError for a path that is too deep. No requests.
    """
    report = ProblemReport()
    fields: list[SortField] = []
    for place, name, direction in _pairs(written, report):
        field = _field(name, direction, place, report)
        if field is not None and any(field.path == other.path for other in fields):
            report.error(place, f"{'.'.join(field.path)} is there twice", "name each field once")
        elif field is not None:
            fields.append(field)
    if len(fields) > SORT_FIELDS_MAX:
        report.error("", f"{len(fields)} fields are over SORT_FIELDS_MAX, {SORT_FIELDS_MAX}", "sort by fewer")
    if report.errors:
        raise InvalidRequestError("the sort cannot be used", problems=report.errors)
    paths = [field.path for field in fields]
    return SortSpec(tuple(fields[: paths.index(_IDENTITY) + 1] if _IDENTITY in paths else fields))


def _pairs(written: Any, report: ProblemReport) -> Iterable[tuple[str, Any, Any]]:
    """Place, name and direction of each field; the direction is None where the name tells it."""
    if written is None:
        return []
    if isinstance(written, str):
        return [("", written, None)]
    if isinstance(written, Mapping):
        if set(written) == {"field", "order"} and written["field"] not in _DIRECTIONS:
            return [("", written["field"], written["order"])]
        return [(str(name), name, "null" if order is None else order) for name, order in written.items()]
    if isinstance(written, list | tuple):
        if len(written) == 2 and isinstance(written[0], str) and _is_direction(written[1]):
            return [("", *written)]  # one pair, not in a list
        return [
            (f"[{place}]", *item) if isinstance(item, list | tuple) and len(item) == 2 else (f"[{place}]", item, None)
            for place, item in enumerate(written)
        ]
    report.error("", f"a sort cannot be a {type(written).__name__}", 'write "name", "-name" or [("name", "asc")]')
    return []


def _is_direction(word: object) -> bool:
    return isinstance(word, str | int) and not isinstance(word, bool) and word in _DIRECTIONS


def _field(name: Any, direction: Any, place: str, report: ProblemReport) -> SortField | None:
    descending = False
    if direction is None and isinstance(name, str):
        descending, name = name.startswith("-"), name.removeprefix("-")
    elif _is_direction(direction):
        descending = _DIRECTIONS[direction]
    elif isinstance(direction, Mapping) and "$meta" in direction:
        reason = "only a text search sorts by its score so: textScore"
        report.error(place, reason, "leave out the sort: the nearest and the best come first")
        return None
    elif isinstance(name, str):
        report.error(place, f"{str(direction)[:40]!r} is not a direction", 'write "asc" or "desc", 1 or -1')
        return None
    try:
        path = parse_path(name)
    except InvalidRequestError as error:
        report.error(place, error.reason or error.what, error.fix)
        return None
    return SortField(("_id", *path[1:]) if path[0] == "id" else path, descending)


# --- keys ---

# A value, how the path goes on from there (None: the value is the one that counts), and whose key it makes.
_Place = tuple[Any, "Path | None", int]


def sort_key(spec: SortSpec) -> Callable[[Document], bytes]:
    """A function that makes of a normalized document the bytes by which it is sorted; no two ids make the same.

    Documents in the order of their keys are in the order of `spec`. No requests.
    """
    fields = spec.fields
    if not fields or fields[-1].path != _IDENTITY:
        fields = (*fields, SortField(_IDENTITY, spec.is_id_descending))
    directions = tuple(field.descending for field in fields)
    starts = tuple((field.path, number) for number, field in enumerate(fields))
    plain = tuple((field.path, field.descending) for field in fields)

    def key(document: Document) -> bytes:
        keys = []
        for path, descending in plain:  # most documents have no array there
            value = get_direct(document, path)
            if type(value) is list or value is TRAVERSED:
                return b"".join(_best([(document, path, number) for path, number in starts], directions).values())
            keys.append(encode_key(None if value is MISSING else value, descending=descending))
        return b"".join(keys)

    return key


def _best(places: list[_Place], directions: tuple[bool, ...]) -> dict[int, bytes]:
    """The key of each field, by number: of all ways to go through arrays the one that comes first."""
    found: dict[int, bytes] = {}
    arrays: dict[int, list[_Place]] = {}
    for start, path, number in places:
        value, rest = walk(start, path)
        if rest is not None:
            arrays.setdefault(id(value), []).append((value, rest, number))
        elif path is not None and value == []:
            # Reached by its position an array is one value, but an empty one is below null there too.
            found[number] = encode_key(MISSING, descending=directions[number])
        else:
            found[number] = encode_key(None if value is MISSING else value, descending=directions[number])
    for members in arrays.values():
        found |= _best_element(members, directions)
    return dict(sorted(found.items())) if arrays else found


def _best_element(members: list[_Place], directions: tuple[bool, ...]) -> dict[int, bytes]:
    """The keys of the fields that lie in one array."""
    if len(members) == 1 and members[0][0] and not members[0][1]:
        array, _, number = members[0]
        return {number: min(encode_key(element, descending=directions[number]) for element in array)}
    rows = []
    for position, element in enumerate(members[0][0]):
        options = [within(element, position, rest) for _, rest, _ in members]
        for chosen in product(*(option or [(MISSING, None)] for option in options)):
            row = [(*place, number) for place, (_, _, number) in zip(chosen, members, strict=True)]
            rows.append(_best(row, directions))
    if rows:
        return min(rows, key=lambda row: b"".join(row.values()))
    # Below null, where the bytes of a missing field are, stands only an empty array.
    nothing = ((MISSING if not array and not rest else None, number) for array, rest, number in members)
    return {number: encode_key(value, descending=directions[number]) for value, number in nothing}
