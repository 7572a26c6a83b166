"""Projections: which parts of a document are shown, by MongoDB's rules.

Parts are either named (inclusion) or left out (exclusion); only the id may be the exception. Fields are shown in the
order of the document. Paths go through arrays at every level; a number in a path is a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, assert_never

from wormdb.bql.match import compile_filter
from wormdb.bql.mistakes import Mistakes
from wormdb.bql.numbers import is_number
from wormdb.bql.parse import is_operators, parse_filter
from wormdb.bql.positions import names_array
from wormdb.errors import InvalidRequestError, Problem
from wormdb.format import json
from wormdb.format.kinds import MISSING, Decimal128, Document
from wormdb.format.path import Path, parse_path
from wormdb.schema.problems import did_you_mean
from wormdb.settings import DOCUMENT_DEPTH_MAX, INT_MAX, INT_MIN, PROJECTION_PATHS_MAX

if TYPE_CHECKING:
    from wormdb.bql.tree import Filter

__all__ = [
    "EVERYTHING",
    "Branch",
    "FirstMatch",
    "Part",
    "Projection",
    "QueryMatch",
    "Slice",
    "Whole",
    "fields_needed",
    "parse_projection",
    "paths_of",
    "project",
    "write_projection",
]


@dataclass(frozen=True, slots=True)
class Whole:
    """The whole value: shown by an inclusion, left out by an exclusion."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Elements of an array from `skip` on, from the end if it is negative; `limit` None: all of them."""

    skip: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class FirstMatch:
    """The first element of an array that matches a filter of its own ($elemMatch)."""

    text: str
    matches: Callable[[list[Any]], bool] = field(compare=False, repr=False)
    """Whether an array has such an element."""


@dataclass(frozen=True, slots=True)
class QueryMatch:
    """The element that the query matched (`field.$`), of the first array on the path `array`."""

    array: str


@dataclass(frozen=True, slots=True)
class Branch:
    """Parts of a document, or of the documents of an array, by name."""

    parts: Mapping[str, Part]


Part: TypeAlias = Whole | Slice | FirstMatch | QueryMatch | Branch
Positions: TypeAlias = "Mapping[str, int] | None"
"""Of each array that is asked for the position of the query's match; None if no `$` is, or none any more."""


@dataclass(frozen=True, slots=True)
class Projection:
    """A checked projection; made by `wormdb.bql.projection.parse_projection`."""

    mode: Literal["include", "exclude"]
    parts: Branch
    arrays: tuple[str, ...] = ()
    """The arrays of which the query's match is shown."""
    is_id: bool = field(init=False, compare=False)
    """Whether it shows the id and nothing else."""

    def __post_init__(self) -> None:
        parts = self.parts.parts
        is_id = self.mode == "include" and len(parts) == 1 and type(parts.get("_id")) is Whole
        object.__setattr__(self, "is_id", is_id)


EVERYTHING: Final = Projection("exclude", Branch({}))
"""Shows whole documents."""


def project(projection: Projection, document: Document, *, matched: Mapping[str, int] | None = None) -> Document:
    """What `projection` shows of a normalized document: a new document that may share parts with it.

    `matched` has the position of the query's match in each of `projection.arrays` (see `wormdb.bql.positions`). Raises
    InvalidRequestError if it is needed and not there. No requests.
    """
    positions = (matched or {}) if projection.arrays else None
    if projection.mode == "exclude":
        return _without(projection.parts, document, positions)
    shown = _only(projection.parts, document, positions)
    # As in MongoDB, fields of $elemMatch come behind the others.
    late = [name for name, part in projection.parts.parts.items() if type(part) is FirstMatch and name in shown]
    for name in late:
        shown[name] = shown.pop(name)
    return shown


def fields_needed(projection: Projection) -> set[str] | None:
    """The paths that hold all that a projection shows; None for whole documents. No requests."""
    return None if projection.mode == "exclude" else set(paths_of(projection.parts))


def paths_of(branch: Branch, prefix: str = "") -> Iterator[str]:
    """The paths at which a projection shows something, in its order. No requests."""
    for name, part in branch.parts.items():
        if isinstance(part, Branch):
            yield from paths_of(part, f"{prefix}{name}.")
        else:
            yield prefix + name


# `inner`: an array that stands directly in another one was entered. Names go through those, but $slice does not.


def _only(branch: Branch, document: Document, matched: Positions, *, inner: bool = False) -> Document:
    parts = branch.parts
    found = (
        (name, _shown(parts[name], value, matched, inner=inner)) for name, value in document.items() if name in parts
    )
    return {name: value for name, value in found if value is not MISSING}


def _shown(part: Part, value: Any, matched: Positions, *, inner: bool) -> Any:
    if type(part) is Whole:
        return value
    if not isinstance(part, Branch):
        return _elements(part, value, matched, inner=inner)
    if type(value) is dict:
        return _only(part, value, matched, inner=inner)
    if type(value) is list:
        array = None if matched is None else _queried_below(part)
        if array is not None:  # the element is one of the first array on the way
            value, matched = _queried(value, array, matched or {}), None
        containers = [element for element in value if type(element) in {dict, list}]
        return [_shown(part, element, matched, inner=inner or type(element) is list) for element in containers]
    return MISSING


def _without(branch: Branch, document: Document, matched: Positions, *, inner: bool = False) -> Document:
    parts = branch.parts
    found = (
        (name, _left(parts[name], value, matched, inner=inner) if name in parts else value)
        for name, value in document.items()
    )
    return {name: value for name, value in found if value is not MISSING}


def _left(part: Part, value: Any, matched: Positions, *, inner: bool) -> Any:
    if type(part) is Whole:
        return MISSING
    if not isinstance(part, Branch):
        return _elements(part, value, matched, inner=inner)
    if type(value) is dict:
        return _without(part, value, matched, inner=inner)
    if type(value) is list:
        return [_left(part, element, matched, inner=inner or type(element) is list) for element in value]
    return value


def _elements(part: Whole | Slice | FirstMatch | QueryMatch, value: Any, matched: Positions, *, inner: bool) -> Any:
    match part:
        case Slice(skip, limit):
            return _sliced(value, skip, limit) if type(value) is list and not inner else value
        case FirstMatch():
            elements = value if type(value) is list else []
            return next(([element] for element in elements if part.matches([element])), MISSING)
        case QueryMatch(array):
            return _queried(value, array, matched) if type(value) is list and matched is not None else value
        case Whole():
            return value
        case _:
            assert_never(part)


def _queried_below(branch: Branch) -> str | None:
    """The array of the `$` that stands somewhere below."""
    for part in branch.parts.values():
        found = (
            _queried_below(part) if isinstance(part, Branch) else part.array if isinstance(part, QueryMatch) else None
        )
        if found is not None:
            return found
    return None


def _sliced(array: list[Any], skip: int, limit: int | None) -> list[Any]:
    start = skip if skip >= 0 else max(len(array) + skip, 0)
    return array[start:] if limit is None else array[start : start + limit]


def _queried(array: list[Any], path: str, matched: Mapping[str, int]) -> list[Any]:
    position = matched.get(path)
    if position is None or position >= len(array):
        problem = Problem(
            f"{path}.$", "the query matched no element of this array", "put a condition on the array into the filter"
        )
        raise InvalidRequestError("the projection cannot be used on a document", problems=[problem])
    return [array[position]]


# --- Projections as people write them, read into a checked value; every mistake is told at once.

_OPERATORS: Final = ("$elemMatch", "$slice")
_ARRAY: Final = "array"
"""The field under which an array is shown to its $elemMatch."""

_Mode = Literal["include", "exclude"]


def parse_projection(written: Any, *, query: Filter | None = None) -> Projection:
    """The projection that `written` describes: None, a list of names, or a document in MongoDB's form.

    `id` is `_id`. `query` is the filter of the documents: with it, a `field.$` whose array has no condition there is a
    mistake. Raises InvalidRequestError with all mistakes in `problems`, each with its JSON path. No requests.
    """
    if written is None:
        return EVERYTHING
    reader = _ProjectionReader()
    if isinstance(written, list | tuple):
        for position, name in enumerate(written):
            reader.path(name, f"[{position}]", "include", Whole())
        reader.has_inclusion = True
    elif isinstance(written, Mapping):
        reader.document(written, "", "")
    else:
        reader.mistakes.add("", "a projection is a list of names or a document", 'write ["a", "b"] or {"a": 1}')
    return reader.projection(query)


def write_projection(projection: Projection) -> dict[str, Any]:
    """The document that `parse_projection` reads as this projection. No requests."""
    written = dict(_written(projection.parts, "", 1 if projection.mode == "include" else 0))
    if projection.mode == "include" and "_id" not in projection.parts.parts:
        written["_id"] = 0
    return written


def _written(branch: Branch, prefix: str, flag: int) -> Iterator[tuple[str, Any]]:
    for name, part in branch.parts.items():
        path = prefix + name
        match part:
            case Branch():
                yield from _written(part, f"{path}.", flag)
            case Slice(skip, limit):
                yield path, {"$slice": skip if limit is None else [skip, limit] if skip else limit}
            case FirstMatch(text):
                yield path, json.parse(text, operators=True)[_ARRAY]
            case QueryMatch():
                yield f"{path}.$", 1
            case Whole():
                yield path, flag


class _ProjectionReader:
    """One run: the parts so far, each with its mode, if it has one, and where it was written."""

    def __init__(self) -> None:
        self.mistakes = Mistakes()
        self.has_inclusion = False
        self._parts: dict[Path, tuple[_Mode | None, Part, str]] = {}
        self._ways: dict[Path, Path] = {}  # each path and what leads to it, with the first such path

    def document(self, written: Mapping[Any, Any], prefix: str, place: str) -> None:
        """Fields with what is shown of them; documents within stand for dotted paths."""
        for name, operand in written.items():
            at = f"{place}.{name}" if place else str(name)
            path = f"{prefix}{name}" if isinstance(name, str) else name
            if not isinstance(operand, Mapping):
                self._flag(path, operand, at)
            elif is_operators(operand):
                self._operator(path, operand, at)
            elif operand and prefix.count(".") >= DOCUMENT_DEPTH_MAX:
                self.mistakes.add(at[:80], f"DOCUMENT_DEPTH_MAX is {DOCUMENT_DEPTH_MAX} levels", "flatten it")
            elif operand:
                self.document(operand, f"{path}.", at)
            else:
                self.mistakes.add(at, "an empty document shows nothing", "write 1 or 0")

    def path(self, text: Any, at: str, mode: _Mode | None, part: Part) -> None:
        """Note one part, unless its path cannot be used or overlaps with another."""
        found: Any = self.mistakes.collect(at, lambda: parse_path(text))
        if found is MISSING:
            return
        path: Path = ("_id", *found[1:]) if found[0] == "id" else found
        if self._parts.get(path, (None, None))[:2] == (mode, part):
            return  # the same name twice
        ways = [path[:size] for size in range(1, len(path) + 1)]
        other = self._ways.get(path) or next((way for way in ways if way in self._parts), None)
        if other is not None:
            self.mistakes.add(at, f"it overlaps with {'.'.join(other)}", "name each part once")
            return
        self._parts[path] = (mode, part, at)
        for way in ways:
            self._ways.setdefault(way, path)

    def _flag(self, text: Any, operand: Any, at: str) -> None:
        is_queried = isinstance(text, str) and text.endswith(".$")
        if not isinstance(operand, bool) and not is_number(operand):
            self.mistakes.add(at, "1, 0, $slice or $elemMatch is expected", "write 1 to show it, 0 to leave it out")
            return
        shown = bool(operand.to_decimal() if isinstance(operand, Decimal128) else operand)
        if is_queried:
            if not shown:
                self.mistakes.add(at, "`$` only shows an element", "write 1, or leave out the whole array")
            self.path(text[:-2], at, "include", QueryMatch(text[:-2]))
        else:
            self.path(text, at, "include" if shown else "exclude", Whole())

    def _operator(self, text: Any, operand: Mapping[Any, Any], at: str) -> None:
        name = next(iter(operand))
        here = f"{at}.{name}"
        if len(operand) > 1:
            self.mistakes.add(at, "one operator is expected", "write one of $slice and $elemMatch")
        elif name == "$slice":
            self.path(text, at, None, self._slice(operand[name], here))
        elif name == "$elemMatch":
            if "." in str(text):
                self.mistakes.add(here, "$elemMatch shows elements of a field at the top only", "show the whole array")
            self.path(text, at, None, self._first_match(operand[name], here))
        elif name == "$meta":
            reason = "only a text search shows its score so: textScore"
            self.mistakes.add(here, reason, "use scored() of what is found, or aggregate with $vectorSearch")
        else:
            fix = did_you_mean(str(name), _OPERATORS)
            self.mistakes.add(here, f"there is no operator {str(name)[:40]} of projections", fix)

    def _slice(self, operand: Any, at: str) -> Part:
        listed = list(operand) if isinstance(operand, list | tuple) else [operand]
        numbers = [_cut_off(number) for number in listed]
        if None in numbers or len(numbers) > 2:
            self.mistakes.add(at, "$slice takes a number, or two in a list", "write 5, -5 or [skip, limit]")
        elif isinstance(operand, list | tuple):
            if len(numbers) == 2 and numbers[1] > 0:
                return Slice(numbers[0], numbers[1])
            self.mistakes.add(at, "a list of $slice has two numbers, the second is 1 at least", "write [skip, limit]")
        else:
            return Slice(0, numbers[0]) if numbers[0] >= 0 else Slice(numbers[0], None)
        return Slice(0, None)

    def _first_match(self, operand: Any, at: str) -> Part:
        written = {_ARRAY: {"$elemMatch": operand}}
        below = f"{_ARRAY}.$elemMatch"
        tree: Any = self.mistakes.collect(at, lambda: parse_filter(written, embedded=True), below=below)
        if tree is MISSING:
            return FirstMatch("", lambda _: False)
        matches = compile_filter(tree)
        return FirstMatch(tree.text, lambda array: matches({_ARRAY: array}))

    def projection(self, query: Filter | None) -> Projection:
        """All parts together."""
        mode = self._mode()
        parts = {path: part for path, (_, part, _) in self._parts.items()}
        if mode == "include":
            if self._parts.get(("_id",), ("include",))[0] == "exclude":
                del parts["_id",]
            elif not any(path[0] == "_id" for path in parts):
                parts["_id",] = Whole()
        elif self._parts.get(("_id",), ("exclude",))[0] == "include":
            del parts["_id",]  # shown beside what is left out
        arrays = self._queried(query)
        if len(parts) > PROJECTION_PATHS_MAX:
            self.mistakes.add("", f"PROJECTION_PATHS_MAX is {PROJECTION_PATHS_MAX}", "name fewer fields")
        self.mistakes.settle("the projection cannot be used")
        return Projection(mode, _branch(parts), arrays)

    def _mode(self) -> _Mode:
        """What the fields say, then the id, then the operators; mistakes are noted."""
        fields = {path: (mode, at) for path, (mode, _, at) in self._parts.items() if path != ("_id",)}
        modes = {mode for mode, _ in fields.values() if mode is not None}
        if len(modes) > 1:
            first = next(mode for mode, _ in fields.values() if mode is not None)
            for mode, at in fields.values():
                if mode not in (None, first):
                    self.mistakes.add(
                        at, "fields are both shown and left out", "do one of the two; only _id may differ"
                    )
        if modes:
            return "include" if "include" in modes else "exclude"
        identity = self._parts.get(("_id",), (None,))[0]
        if self.has_inclusion or identity == "include":
            return "include"
        kinds = {type(part) for _, part, _ in self._parts.values()}
        return "include" if FirstMatch in kinds and Slice not in kinds else "exclude"

    def _queried(self, query: Filter | None) -> tuple[str, ...]:
        found = [(path, part, at) for path, (_, part, at) in self._parts.items() if isinstance(part, QueryMatch)]
        for _, _, at in found[1:]:
            self.mistakes.add(at, "only one array can show what the query matched", "use $elemMatch for the others")
        if found and any(isinstance(part, FirstMatch) for _, part, _ in self._parts.values()):
            self.mistakes.add(found[0][2], "`$` cannot stand beside $elemMatch", "use $elemMatch for both")
        for path, _, at in found:
            if query is not None and not names_array(query, path):
                reason = f"the filter has no condition on {'.'.join(path)}, so `$` stands for no element"
                self.mistakes.add(at, reason, "add a condition, or use $slice or $elemMatch")
        return tuple(part.array for _, part, _ in found)


def _cut_off(operand: Any) -> Any:
    """A number without its fraction, and not over 64 bits; None for anything else than a finite number."""
    if isinstance(operand, bool) or not isinstance(operand, int | float | Decimal128):
        return None
    number = operand.to_decimal() if isinstance(operand, Decimal128) else Decimal(operand)
    if not number.is_finite():
        return None
    return int(number) if INT_MIN <= number <= INT_MAX else INT_MIN if number < 0 else INT_MAX


def _branch(parts: dict[Path, Part]) -> Branch:
    names: dict[str, dict[Path, Part]] = {}
    for path, part in parts.items():
        names.setdefault(path[0], {})[path[1:]] = part
    return Branch({name: inner[()] if () in inner else _branch(inner) for name, inner in names.items()})
