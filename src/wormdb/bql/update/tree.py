"""An update as a tree of the paths that it changes, with one operator at the end of each.

A tree cannot hold two operators for one value, which is how conflicts are found: when it is built for paths that are
the same or lead through one another, and when it is applied for segments that turn out to be the same element.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias

from wormdb.errors import InvalidRequestError, LimitExceededError, Problem
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import Path, is_position, parse_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime


__all__ = [
    "IDENTIFIER",
    "MATCHED",
    "ConflictingPathsError",
    "Elements",
    "Fields",
    "Occasion",
    "Operator",
    "UpdateLeaf",
    "UpdateNode",
    "UpdatePlace",
    "filter_name",
    "grow",
    "is_identity",
    "leaves_of",
    "merge",
    "parse_update_path",
]


# --- Paths of updates: dotted, with positional segments.
#
# `$` is the element of the array that the query matched, `$[]` each element, `$[name]` each that matches the array
# filter of that name. A segment of digits is a position where an array stands, and the name of a field elsewhere.

MATCHED: Final = "$"
IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What an array filter may be called."""

_FILTERED: Final = re.compile(r"\$\[([A-Za-z_][A-Za-z0-9_]*)?\]")


def parse_update_path(text: str) -> Path:
    """The segments of the path of an update, positional ones as they are written.

    Raises InvalidRequestError for what no path is: also for a positional segment in first place, for two of `$`, and
    for `$` after `$[]` or `$[name]`; LimitExceededError. No requests.
    """
    if not isinstance(text, str):
        raise InvalidRequestError(f"a path is text, not {type(text).__name__}", fix="write it as 'a.b.c'")
    segments = text.split(".")
    parse_path(
        ".".join("x" if filter_name(segment) is not None or segment == MATCHED else segment for segment in segments)
    )
    what = f"path {text[:80]!r} cannot be used"
    if segments[0].startswith("$"):
        raise InvalidRequestError(
            what, reason="no array stands before the positional segment", fix="name the array first"
        )
    if MATCHED in segments:
        place = segments.index(MATCHED)
        if MATCHED in segments[place + 1 :]:
            raise InvalidRequestError(what, reason="it has two segments `$`", fix="use `$[name]` and an array filter")
        if any(segment.startswith("$[") for segment in segments[:place]):
            reason = "`$` follows a segment that stands for several elements"
            raise InvalidRequestError(what, reason=reason, fix="use `$[name]` and an array filter")
    return tuple(segments)


def filter_name(segment: str) -> str | None:
    """The name of the array filter of `$[name]`, "" of `$[]`, None of any other segment."""
    found = _FILTERED.fullmatch(segment)
    return None if found is None else found[1] or ""


def is_identity(path: Path) -> bool:
    """Whether the path is the id of a document or leads into it."""
    return path[0] in {"_id", "id"}


def _segment_order(segment: str) -> tuple[bool, int, str]:
    """Keys in the order in which updates are applied: positions as numbers, then names; new fields come in it."""
    return (False, int(segment), "") if is_position(segment) else (True, 0, segment)


@dataclass(frozen=True, slots=True)
class Occasion:
    """All that one application of an update knows besides the update."""

    document: Document
    matched: Mapping[str, int]
    now: datetime
    is_insert: bool
    filters: Mapping[str, Callable[[Document], bool]]


@dataclass(frozen=True, slots=True)
class UpdatePlace:
    """Where an operator is at work: its name, the path with real positions, and the occasion."""

    operator: str
    path: Path
    occasion: Occasion

    def refuse(self, reason: str, fix: str, *, limit: bool = False) -> NoReturn:
        """Raise InvalidRequestError that names operator, document and path; LimitExceededError if `limit`."""
        identity = self.occasion.document.get("_id", MISSING)
        which = "the document to insert" if identity is MISSING else f"document {identity!r}"
        problem = Problem(".".join(self.path), reason, fix)
        kind = LimitExceededError if limit else InvalidRequestError
        raise kind(f"{self.operator} cannot be applied to {which}", problems=[problem])


class Operator(Protocol):
    """What happens to the value at the end of a path; frozen."""

    def apply(self, value: Any, place: UpdatePlace) -> Any:
        """The new value for `value`; MISSING, before or after, for a field that is not there."""

    def insists(self, place: UpdatePlace) -> bool:
        """Whether it is an error that something else stands in the way of the path."""


@dataclass(frozen=True, slots=True)
class UpdateLeaf:
    """The end of a path."""

    name: str
    path: Path
    operator: Operator


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of a document or positions of an array, in the order in which they change."""

    children: tuple[tuple[str, UpdateNode], ...]
    matched: UpdateNode | None = None
    array: str = field(default="", compare=False)
    """The path up to here, by which the query's match is known; only where there is `matched`."""


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of an array: each (""), or those that match an array filter."""

    children: tuple[tuple[str, UpdateNode], ...]


UpdateNode: TypeAlias = UpdateLeaf | Fields | Elements


class ConflictingPathsError(Exception):
    """Two leaves change the same value; never leaves this package."""

    def __init__(self, first: UpdateLeaf, second: UpdateLeaf) -> None:
        """The two, in no order."""
        self.first = first
        self.second = second
        super().__init__(first, second)


def grow(leaves: Sequence[UpdateLeaf], depth: int = 0) -> UpdateNode:
    """The tree of some leaves, one at least; raises ConflictingPathsError. No requests."""
    ended = next((leaf for leaf in leaves if len(leaf.path) == depth), None)
    if ended is not None:
        other = next((leaf for leaf in leaves if leaf is not ended), None)
        if other is not None:
            raise ConflictingPathsError(ended, other)
        return ended
    groups: dict[str, list[UpdateLeaf]] = {}
    for leaf in leaves:
        groups.setdefault(leaf.path[depth], []).append(leaf)
    nodes = {segment: grow(group, depth + 1) for segment, group in groups.items()}
    filtered = {name: nodes[segment] for segment in nodes if (name := filter_name(segment)) is not None}
    if filtered:
        if len(filtered) < len(nodes):
            plain = next(segment for segment in nodes if filter_name(segment) is None)
            every = next(segment for segment in nodes if filter_name(segment) is not None)
            raise ConflictingPathsError(groups[plain][0], groups[every][0])
        return Elements(tuple(sorted(filtered.items())))
    return _fields(nodes, leaves[0].path[:depth])


def _fields(nodes: dict[str, UpdateNode], path: Path) -> Fields:
    matched = nodes.pop(MATCHED, None)
    children = tuple((segment, nodes[segment]) for segment in sorted(nodes, key=_segment_order))
    return Fields(children, matched, ".".join(path) if matched is not None else "")


def merge(nodes: Iterable[UpdateNode]) -> UpdateNode:
    """One tree that does what all do, for segments that are the same element; raises ConflictingPathsError."""
    first, *others = nodes
    for other in others:
        first = _merge_two(first, other)
    return first


def _merge_two(first: UpdateNode, second: UpdateNode) -> UpdateNode:
    if isinstance(first, Fields) and isinstance(second, Fields):
        children = _merge_children(first.children, second.children)
        matched = [node for node in (first.matched, second.matched) if node is not None]
        array = first.array or second.array
        ordered = tuple((segment, children[segment]) for segment in sorted(children, key=_segment_order))
        return Fields(ordered, merge(matched) if matched else None, array)
    if isinstance(first, Elements) and isinstance(second, Elements):
        return Elements(tuple(sorted(_merge_children(first.children, second.children).items())))
    raise ConflictingPathsError(next(leaves_of(first)), next(leaves_of(second)))


def _merge_children(
    first: tuple[tuple[str, UpdateNode], ...], second: tuple[tuple[str, UpdateNode], ...]
) -> dict[str, UpdateNode]:
    children = dict(first)
    for segment, node in second:
        children[segment] = _merge_two(children[segment], node) if segment in children else node
    return children


def leaves_of(node: UpdateNode) -> Iterator[UpdateLeaf]:
    """All ends of paths below a node, one at least."""
    if isinstance(node, UpdateLeaf):
        yield node
        return
    for _, child in node.children:
        yield from leaves_of(child)
    if isinstance(node, Fields) and node.matched is not None:
        yield from leaves_of(node.matched)
