"""The ids that indexes find: entries of ranges, what several have in common, and what they have together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from wormdb.engine.state.view import id_key
from wormdb.engine.tree.entries import Range
from wormdb.query.execute.rows import Keys

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    import pyarrow as pa

    from wormdb.engine.blocks.portion import Portion
    from wormdb.engine.tree.entries import Entry
    from wormdb.query.execute.execute import Limits
    from wormdb.query.plan import IndexScan
    from wormdb.query.source import Entries, IndexFacts, Source

__all__ = ["BATCH_MAX", "Demand", "count_entries", "scan_index"]

BATCH_MAX: Final = 1_024
"""Rows that go through a plan at once, where they are not a block's."""
_BATCH_FIRST: Final = 128
"""Ids that are taken at first if nobody knows how many are needed."""
_AT_ONCE_ENTRIES: Final = 2_048
"""Ranges that have no more entries than this together, about, are read side by side."""
_AT_ONCE_SPANS: Final = 256


@dataclass(frozen=True, slots=True)
class Demand:
    """How many rows will be taken."""

    rows: int | None = None
    """None: all."""
    is_firm: bool = False
    """Whether it is these and no more; otherwise it is where to begin."""
    in_order: bool = True
    """Whether the order of the node is wanted; otherwise rows may come in any."""
    narrow: Callable[[Portion, pa.Array | pa.ChunkedArray], Portion] | None = None
    """Which rows of a portion and a mask matter, where not all of the mask do."""

    @property
    def first(self) -> int:
        """How many to begin with."""
        return _BATCH_FIRST if self.rows is None else max(1, min(self.rows, BATCH_MAX))

    def loosened(self) -> Demand:
        """As much to begin with, and perhaps more."""
        return Demand(self.rows, in_order=self.in_order)


def scan_index(node: IndexScan, source: Source, demand: Demand, limits: Limits) -> Iterator[Keys]:
    """The ids of the entries of ranges, each once, in the order of its first entry.

    An index of which a document may have several entries keeps the
    keys of all ids seen. Costs as `Entries`: ranges of few entries are read side by side, others one after the other.
    """
    facts = source.facts.find_index(node.index)
    spans = node.spans[::-1] if node.reverse else node.spans
    entries = _entries(source.entries(node.index), spans, facts, node.reverse, demand)
    found = (id_key(identity) for _, identity in entries)
    keys = _distinct(found) if facts is None or any(facts.may_have_arrays) else found
    size = demand.first
    while some := list(islice(keys, limits.allowed(size))):
        limits.look(len(some))
        yield Keys(some)
        size = min(2 * size, BATCH_MAX)


def _distinct(keys: Iterable[bytes]) -> Generator[bytes, None, None]:
    seen: set[bytes] = set()
    for key in keys:
        if key not in seen:
            seen.add(key)
            yield key


def _entries(
    index: Entries, spans: Sequence[Range], facts: IndexFacts | None, reverse: bool, demand: Demand
) -> Iterator[Entry]:
    for group, size in _groups(spans, facts, demand):
        # Of one range that is read to its end all leaves are asked for at once, if they are few.
        if len(group) == 1 and (demand.rows is not None or size > _AT_ONCE_ENTRIES):
            yield from _one_by_one(index, group[0], reverse, demand)
            continue
        for found in index.ranges(group):
            yield from reversed(found) if reverse else found


def _one_by_one(index: Entries, span: Range, reverse: bool, demand: Demand) -> Iterator[Entry]:
    """The entries of one range; if more than were asked for are needed after all, the others too."""
    if not demand.is_firm or demand.rows is None:
        yield from index.scan(span, reverse=reverse)
        return
    taken, last = 0, b""
    for entry in index.scan(span, reverse=reverse, limit=demand.rows):
        yield entry
        taken, last = taken + 1, entry[0]
    if taken == demand.rows:
        rest = Range(span.low, last) if reverse else Range(last + b"\0", span.high)
        yield from index.scan(rest, reverse=reverse)


def _groups(spans: Sequence[Range], facts: IndexFacts | None, demand: Demand) -> Iterator[tuple[list[Range], int]]:
    """Ranges to read side by side: several small ones, or one; and how many entries they have, about."""
    enough = _AT_ONCE_ENTRIES if demand.rows is None else min(2 * demand.rows, _AT_ONCE_ENTRIES)
    group: list[Range] = []
    total = 0
    for span in spans:
        size = _size(span, facts)
        if group and (total + size > enough or len(group) >= _AT_ONCE_SPANS):
            yield group, total
            group, total = [], 0
            enough = min(2 * enough, _AT_ONCE_ENTRIES)
        group.append(span)
        total += size
    if group:
        yield group, total


def _size(span: Range, facts: IndexFacts | None) -> int:
    """How many entries a range has, about: a guess for a narrow one if nobody has measured."""
    if facts is None or facts.statistics is None:
        return _AT_ONCE_ENTRIES + 1 if span.high is None else 16
    return min(facts.statistics.estimate(span), facts.statistics.entries)


def count_entries(index: Entries, spans: Iterable[Range]) -> int:
    """How many entries ranges have. Costs as `Entries.count` for each."""
    return sum(index.count(span) for span in spans)
