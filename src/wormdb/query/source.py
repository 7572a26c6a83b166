"""Where documents come from: what an executor asks, and what a planner knows.

The engine's view of a collection is one source, readable files are another. A source is one state that does
not move: asked twice, it answers the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from wormdb.query.plan import ALL_IDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.engine.blocks.portion import Portion
    from wormdb.engine.state.view import Held
    from wormdb.engine.tree.entries import Entry, Range
    from wormdb.query.facts import Facts

__all__ = ["Counted", "Entries", "Source"]


class Entries(Protocol):
    """The entries of one index: (key of the values and of the id, id as JSON and covered values)."""

    def scan(self, span: Range = ..., *, reverse: bool = ..., limit: int | None = ...) -> Iterator[Entry]:
        """The entries of a range in order of key, or against it; `limit` says how many will be taken at most."""
        ...

    def ranges(self, spans: Sequence[Range]) -> list[list[Entry]]:
        """The entries of each of some ranges, read side by side."""
        ...

    def count(self, span: Range = ...) -> int:
        """How many entries a range has, without reading what lies inside."""
        ...


class Source(Protocol):
    """One state of a collection. Every method may raise CorruptionError, SnapshotTooOldError, UnavailableError."""

    @property
    def facts(self) -> Facts:
        """What is known without requests."""
        ...

    def scan(
        self,
        names: Sequence[str],
        *,
        span: Range = ALL_IDS,
        bounds: Mapping[str, Range] | None = None,
        in_order: bool = True,
        rows: int | None = None,
    ) -> Iterator[Portion]:
        """Columns of all documents whose id's key is in `span`, as `wormdb.engine.columns.scan.scan_columns` gives them.

        Names are dotted paths, `_id`, DOCUMENT, and VERSION. `bounds` may leave out blocks without a value in one of
        them, and without an array at its path or on the way. In order of id, unless `in_order` is False: then as is
        cheapest, still each document once. `rows` says about how many will be taken: then no more is read ahead.
        """
        ...

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, Held]:
        """The live documents under some keys of ids, read side by side; without those that do not exist."""
        ...

    def entries(self, name: str) -> Entries:
        """An index by its name, one of `facts.indexes`. No requests yet."""
        ...


@runtime_checkable
class Counted(Protocol):
    """A source that knows how many documents there are."""

    def count_all(self) -> int:
        """How many, exactly. No requests."""
        ...
