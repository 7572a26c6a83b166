"""Updates: read into a checked value, then applied to documents as often as needed.

The semantics are MongoDB's. All operators change the document as it was before the update; existing fields keep their
places, and new ones go to the end in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.match import compile_filter
from wormdb.bql.mistakes import Mistakes
from wormdb.bql.parse import LOGICAL_OPERATORS, parse_filter
from wormdb.bql.positions import names_array
from wormdb.bql.update.arrays import ARRAY_OPERATORS
from wormdb.bql.update.fields import FIELD_OPERATORS, RenameSource, RenameTarget
from wormdb.bql.update.tree import (
    IDENTIFIER,
    MATCHED,
    ConflictingPathsError,
    Fields,
    Occasion,
    UpdateLeaf,
    filter_name,
    grow,
    is_identity,
    parse_update_path,
)
from wormdb.bql.update.walk import walk
from wormdb.format.kinds import MISSING, Document
from wormdb.schema.problems import did_you_mean
from wormdb.settings import UPDATE_PATHS_MAX

if TYPE_CHECKING:
    from datetime import datetime

    from wormdb.bql.tree import Filter
    from wormdb.bql.update.tree import UpdateNode
    from wormdb.format.path import Path

__all__ = ["OPERATORS", "Update", "apply_update", "parse_update"]

_READERS: Final = FIELD_OPERATORS | ARRAY_OPERATORS
OPERATORS: Final = tuple(sorted((*_READERS, "$rename")))
"""The operators of updates."""

_INSTEAD: Final = {
    "$pullAll": 'use $pull with {"$in": […]}',
    "$pushAll": 'use $push with {"$each": […]}',
    "$bit": "calculate the number and use $set",
}
_CONFLICTS_MAX: Final = 20
"""Conflicts that are told at once."""


@dataclass(frozen=True, slots=True)
class Update:
    """A checked update; made by `parse_update`."""

    tree: UpdateNode
    filters: Mapping[str, Callable[[Document], bool]] = field(compare=False, repr=False)
    """Whether {name: element} matches the array filter of that name."""
    arrays: tuple[str, ...]
    """The arrays of which a `$` needs the element that the query matched."""


def parse_update(
    written: Mapping[str, Any],
    *,
    array_filters: Sequence[Mapping[str, Any]] | None = None,
    query: Filter | None = None,
) -> Update:
    """The update that `written` describes: operators, each with paths and operands.

    `query` is the filter of the documents: with it, a `$` whose array has no condition there is a mistake. Raises
    InvalidRequestError with all mistakes in `problems`, each with its JSON path; MissingExtraError for a regular
    expression without google-re2. No requests.
    """
    mistakes = Mistakes()
    leaves = _read_operators(written, mistakes)
    filters = _read_filters(array_filters, mistakes)
    _check_filters(leaves, filters, mistakes)
    arrays = _matched_arrays(leaves, query, mistakes)
    tree = _grow(leaves, mistakes)
    mistakes.settle("the update cannot be used")
    return Update(tree, {name: compile_filter(found) for name, found in filters.items()}, arrays)


def apply_update(
    update: Update,
    document: Document,
    *,
    matched: Mapping[str, int] | None = None,
    now: datetime,
    is_insert: bool = False,
) -> Document:
    """The document after the update: a new one that may share parts with the old, which stays as it is.

    `document` is normalized; `matched` has the position of the query's match in each array of `update.arrays` (see
    `wormdb.bql.positions`); `now` is for $currentDate. Raises InvalidRequestError that names the document's id and the
    path if a value there does not allow it; LimitExceededError for an integer over 64 bits and over ARRAY_PADDING_MAX.
    The size and depth of the result are not checked. No requests.
    """
    occasion = Occasion(document, matched or {}, now, is_insert, update.filters)
    result: Document = walk(update.tree, document, (), occasion)
    return dict(result) if result is document else result


def _read_operators(written: Any, mistakes: Mistakes) -> list[UpdateLeaf]:
    if not isinstance(written, Mapping):
        mistakes.add("", "an update is a document of operators", 'write {"$set": {"field": value}}')
        return []
    names = [name for name in written if isinstance(name, str) and name.startswith("$")]
    if not names:
        mistakes.add("", "it has no operator", 'write {"$set": {…}}; to replace a whole document, call replace_one')
        return []
    leaves: list[UpdateLeaf] = []
    for name, operand in written.items():
        if name not in names:
            mistakes.add(str(name), "fields and operators are mixed", 'put the field under "$set"')
        elif name == "$rename":
            leaves += _read_renames(operand, mistakes)
        elif name in _READERS:
            leaves += _read_fields(name, operand, mistakes)
        else:
            fix = _INSTEAD.get(name) or did_you_mean(name, OPERATORS, shown_max=len(OPERATORS))
            mistakes.add(name, f"there is no operator {name[:40]} of updates", fix)
    if len(leaves) > UPDATE_PATHS_MAX:
        mistakes.add("", f"it names {len(leaves)} fields, and UPDATE_PATHS_MAX is {UPDATE_PATHS_MAX}", "split it")
    return leaves


def _entries(name: str, operand: Any, mistakes: Mistakes) -> list[tuple[Any, Any]]:
    if name == "$unset" and isinstance(operand, list | tuple):
        entries = [(path, "") for path in operand]
    elif isinstance(operand, Mapping):
        entries = list(operand.items())
    else:
        mistakes.add(name, f"{name} takes a document of fields", f'write {{"{name}": {{"field": …}}}}')
        return []
    return entries


def _read_fields(name: str, operand: Any, mistakes: Mistakes) -> list[UpdateLeaf]:
    leaves = []
    for text, value in _entries(name, operand, mistakes):
        at = f"{name}.{text}"
        path = _read_path(text, at, mistakes, may_identify=name == "$setOnInsert")
        operator = _READERS[name](value, at, mistakes)
        if path is not None:
            leaves.append(UpdateLeaf(name, path, operator))
    return leaves


def _read_renames(operand: Any, mistakes: Mistakes) -> list[UpdateLeaf]:
    leaves = []
    for old, new in _entries("$rename", operand, mistakes):
        at = f"$rename.{old}"
        source, target = _read_path(old, at, mistakes), _read_path(new, at, mistakes)
        if source is None or target is None:
            continue
        if any(segment.startswith("$") for segment in (*source, *target)):
            mistakes.add(at, "$rename does not go through arrays", "use $set and $unset on the elements")
        elif source == target:
            mistakes.add(at, "the new name is the old one", "give another name")
        else:
            leaves += [
                UpdateLeaf("$rename", source, RenameSource()),
                UpdateLeaf("$rename", target, RenameTarget(source, target)),
            ]
    return leaves


def _read_path(text: Any, at: str, mistakes: Mistakes, *, may_identify: bool = False) -> Path | None:
    path: Any = mistakes.collect(at, lambda: parse_update_path(text))
    if path is MISSING:
        return None
    if is_identity(path):
        if may_identify and len(path) == 1:
            return ("_id",)
        mistakes.add(at, "the id of a document never changes", "insert a document with the new id, delete the old")
    segments: Path = path
    return segments


def _read_filters(written: Any, mistakes: Mistakes) -> dict[str, Filter]:
    if written is None:
        return {}
    if not isinstance(written, list | tuple):
        mistakes.add("array_filters", "array filters are a list", 'write [{"name": condition}]')
        return {}
    found: dict[str, Filter] = {}
    for position, item in enumerate(written):
        at = f"array_filters[{position}]"
        names = sorted(_roots(item)) if isinstance(item, Mapping) else []
        if len(names) != 1 or not IDENTIFIER.fullmatch(names[0]):
            reason = "an array filter is about one name, of letters, digits and _"
            mistakes.add(at, f"{reason}, not {', '.join(names) or 'none'}", 'write {"name": condition}, for `$[name]`')
        elif names[0] in found:
            mistakes.add(at, f"there is another array filter {names[0]}", "join the two with $and")
        else:
            tree = mistakes.collect(at, lambda: parse_filter(item, embedded=True))  # noqa: B023 - called at once
            if tree is not MISSING:
                found[names[0]] = tree
    return found


def _roots(written: Mapping[Any, Any]) -> set[str]:
    """The first segments of all paths of a filter."""
    found: set[str] = set()
    for name, operand in written.items():
        if name in LOGICAL_OPERATORS:
            inner = operand if isinstance(operand, list | tuple) else [operand]
            found.update(*(_roots(item) for item in inner if isinstance(item, Mapping)))
        else:
            found.add(str(name).partition(".")[0])
    return found


def _check_filters(leaves: list[UpdateLeaf], filters: dict[str, Filter], mistakes: Mistakes) -> None:
    used: set[str] = set()
    for leaf in leaves:
        names = {name for segment in leaf.path if (name := filter_name(segment))}
        used |= names
        for name in sorted(names - set(filters)):
            at = f"{leaf.name}.{'.'.join(leaf.path)}"
            mistakes.add(at, f"there is no array filter {name}", f'add {{"{name}": condition}} to array_filters')
    for name in sorted(set(filters) - used):
        mistakes.add(
            "array_filters", f"the array filter {name} is not used", f"use $[{name}] in a path, or leave it out"
        )


def _matched_arrays(leaves: list[UpdateLeaf], query: Filter | None, mistakes: Mistakes) -> tuple[str, ...]:
    arrays: dict[str, None] = {}
    for leaf in leaves:
        if MATCHED in leaf.path:
            array = leaf.path[: leaf.path.index(MATCHED)]
            if query is not None and not names_array(query, array):
                reason = f"the filter has no condition on {'.'.join(array)}, so `$` stands for no element"
                fix = "add a condition, or use `$[]` or `$[name]`"
                mistakes.add(f"{leaf.name}.{'.'.join(leaf.path)}", reason, fix)
            arrays[".".join(array)] = None
    return tuple(arrays)


def _grow(leaves: list[UpdateLeaf], mistakes: Mistakes) -> UpdateNode:
    """The tree; one that changes nothing where operators name no field, as {"$set": {}}, which MongoDB takes too."""
    left = list(leaves)
    for _ in range(_CONFLICTS_MAX):
        try:
            return grow(left) if left else Fields(())
        except ConflictingPathsError as conflict:
            first, second = sorted((conflict.first, conflict.second), key=leaves.index)
            other, path = (".".join(leaf.path) for leaf in (first, second))
            reason = f"{first.name} of {other} changes the same value as {second.name} of {path}"
            mistakes.add(f"{second.name}.{path}", reason, "change each value once")
            left.remove(second)
    return Fields(())
