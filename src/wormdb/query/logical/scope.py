"""The level of a filter, and what its paths may hold there: one value or several, and of which kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wormdb.bql.tree import Compare, EndsWith, Exists, Filter, In, Mod, RegexMatch, StartsWith, Type
from wormdb.format.kinds import Kind
from wormdb.query.logical.values import ALL, Spans, ValueSet, bracket, join_spans, value_set

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.format.path import Path
    from wormdb.query.logical.literals import Groups

__all__ = ["Scope", "always_true"]

_TESTED: Final = (Compare, In, Exists, Type, Mod, RegexMatch, StartsWith, EndsWith)
_ID_KINDS: Final = (
    Kind.NUMBER,
    Kind.STRING,
    Kind.BINARY,
    Kind.OBJECTID,
    Kind.BOOLEAN,
    Kind.DATE,
    Kind.TIMESTAMP,
)
_IDS: Final = join_spans([bracket(kind) for kind in _ID_KINDS])
_ELEMENTS: Final = join_spans([bracket(kind) for kind in Kind if kind is not Kind.MISSING])
_NO_ARRAYS: Final = join_spans([bracket(kind) for kind in Kind if kind is not Kind.ARRAY])


def always_true(_: Path) -> bool:
    """Some document may have an array at any path."""
    return True


class Scope:
    """One level: whole documents, or the elements that an `ElemMatch` is about.

    `arrays` tells whether a path of the documents may have an array at it or on the way.
    """

    def __init__(self, arrays: Callable[[Path], bool] = always_true, *, is_top: bool = True) -> None:
        """Without `is_top` the filter is about elements: their paths may have anything."""
        self.settled: dict[int, Filter] = {}
        """By its address, each filter of this level that no rule changes; kept, so that no other gets the address."""
        self.groups: dict[int, tuple[Filter, Groups]] = {}
        """By its address, the literals of each list; kept with the list for the same reason."""
        self._arrays = arrays
        self._is_top = is_top
        self._sets: dict[int, tuple[Filter, ValueSet | None]] = {}

    def within(self) -> Scope:
        """The level of the elements of an array."""
        return Scope(self._arrays, is_top=False)

    def has_no_array(self, path: Path) -> bool:
        """Whether no document has an array at the path or on the way; no id is one."""
        return self._is_top and bool(path) and (path[0] == "_id" or not self._arrays(path))

    def is_single(self, path: Path) -> bool:
        """Whether the path always has exactly one value; missing is one."""
        return not path or self.has_no_array(path)

    def is_filled(self, path: Path) -> bool:
        """Whether the path always has a value; missing is one. Behind an array it may have none."""
        return len(path) < 2 or self.has_no_array(path)

    def domain(self, path: Path) -> Spans:
        """What the values of the path may be."""
        if not path:
            return _ELEMENTS
        if not self._is_top:
            return ALL
        if path == ("_id",):
            return _IDS
        return _NO_ARRAYS if self.has_no_array(path) else ALL

    def values_of(self, leaf: Filter) -> ValueSet | None:
        """Which values pass the test of a condition; None if it is none that a single value passes."""
        known = self._sets.get(id(leaf))
        if known is None:
            known = leaf, value_set(leaf) if isinstance(leaf, _TESTED) else None
            self._sets[id(leaf)] = known
        return known[1]
