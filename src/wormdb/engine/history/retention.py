"""How much of history is kept: what readers are shown of it, and what merges leave out.

A version goes when the one that followed it is older than `keep`, or when `versions` newer ones are there. So the state
at any time within `keep` is known, and the newest version of a document always stays. Readers are shown that from the
moment on at which it is so. What is stored goes later, by merges of blocks, once the log has forgotten it too: so they
only drop what readers are not shown any more, and cursors and the feed never miss it.

A merge sees some of the runs. It drops less then, and what it drops may leave a gap before versions of another run;
`Root.dropped_through` says up to which entry such gaps are right.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.errors import SnapshotTooOldError
from wormdb.format.key import encode_key
from wormdb.format.past import misc_ms, misc_of, past_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.state.moments import AsOf
    from wormdb.format.block import Row
    from wormdb.format.past import Version
    from wormdb.format.root import Root
    from wormdb.schema.model import HistoryDefinition
    from wormdb.system.types import StoreTime

__all__ = ["HistorySieve", "RetentionBound", "sieve_of", "too_old"]


@dataclass(frozen=True, slots=True)
class RetentionBound:
    """What readers are shown at a time of the store."""

    rule: HistoryDefinition
    now_ms: int

    def shown(self, versions: Sequence[Version]) -> Sequence[Version]:
        """The versions of a document, oldest first, without those that go. No requests."""
        first = 0
        if self.rule.keep_ms is not None:
            by = self.now_ms - self.rule.keep_ms
            first = max((place for place, each in enumerate(versions) if misc_ms(each.misc) <= by), default=0)
        if self.rule.versions is not None:
            first = max(first, len(versions) - self.rule.versions)
        return versions[first:]

    def check(self, as_of: AsOf) -> None:
        """Raise SnapshotTooOldError for a time before all that is kept. No requests."""
        keep_ms = self.rule.keep_ms
        if keep_ms is not None and as_of.is_time and as_of.bound < self.now_ms - keep_ms:
            raise too_old(as_of, self.rule)


def too_old(as_of: AsOf, rule: HistoryDefinition | None) -> SnapshotTooOldError:
    """The error for a moment whose versions are not kept."""
    reason = "versions of that time were dropped" if rule is None else f"no more of history is kept than {rule}"
    return SnapshotTooOldError(f"the state as of {as_of}", reason=reason, fix="ask for a later moment")


@dataclass(frozen=True, slots=True)
class HistorySieve:
    """What a merge of history leaves out: a value that can be sent."""

    keep_ms: int | None
    versions: int | None
    trimmed: int
    """`Root.trimmed`: what was followed by a later entry stays."""
    now_ms: int | None
    """The store's time; None if answers do not tell it: then nothing is too old."""

    def left(self, rows: Iterable[tuple[bytes, Row]]) -> Iterator[tuple[bytes, Row]]:
        """Rows of history in order of key, without what goes. In memory are `versions` of one document.

        The newest version of each document that comes stays, and what is not sure to go does.
        """
        held: deque[list[tuple[bytes, Row]]] = deque()
        """Versions that a later one may put an end to, each with the marks behind it."""
        member = b""
        for place, row in rows:
            key = encode_key(row.id["d"])
            if key != member:
                yield from _all_of(held)
                member = key
            if place != past_key(key, row.seq):
                # A mark; its version may be in another run, and goes when the one before it here does.
                if held:
                    held[-1].append((place, row))
                else:
                    yield place, row
                continue
            if row.rev > self.trimmed:
                yield from _all_of(held)
            elif self._ends(row):
                held.clear()
            elif self.versions is None:
                yield from _all_of(held)
            held.append([(place, row)])
            if self.versions is not None and len(held) > self.versions:
                held.popleft()
        yield from _all_of(held)

    def _ends(self, row: Row) -> bool:
        """Whether the versions before this one are too old."""
        if self.keep_ms is None or self.now_ms is None:
            return False
        return misc_ms(misc_of(row.cell, name="history")) <= self.now_ms - self.keep_ms


def _all_of(held: deque[list[tuple[bytes, Row]]]) -> Iterator[tuple[bytes, Row]]:
    while held:
        yield from held.popleft()


def sieve_of(root: Root, rule: HistoryDefinition | None, time: StoreTime | None) -> HistorySieve | None:
    """What merges leave out of a root that was read at a time of the store; None if nothing goes yet. No requests."""
    if rule is None or not root.trimmed:
        return None
    return HistorySieve(rule.keep_ms, rule.versions, root.trimmed, time)
