"""List indexes and their kinds: from the definition of an index to what makes its lists, and back."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.lists.kind import ListKind, kind_of
from wormdb.engine.tree.definition import Index

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.format.kinds import Document
    from wormdb.format.list_run import Calibration
    from wormdb.format.root import IndexRoot

__all__ = ["check_lists", "is_stale", "kind_for", "list_index", "why_join", "why_renew"]

GROWN: Final = 2
"""Lists had better be made anew when there are this many times as many entries as they learned from …"""
UNEVEN: Final = 8
"""… when one of them is this many times as long as they are on average …"""
SPREAD: Final = 1.5
"""… or when this many times as many entries are needed for the usual recall as when they were made."""
CHANGED: Final = 0.25
"""The share of entries that must have changed before lists are made anew."""
STALE: Final = 0.1
"""The share of entries that must have changed before lists are measured again."""
TAKEN_BACK: Final = 0.3
"""The share of entries that count no longer from which on runs had better be joined."""


def list_index(name: str, kind: ListKind) -> Index:
    """The index of that name with lists of a kind: equal kinds make equal definitions. No requests."""
    options = msgspec.json.encode(dict(kind.options), order="deterministic")
    return Index(name, kind.fields, sparse=True, kind=kind.name, options=options)


@lru_cache(maxsize=256)
def kind_for(index: Index) -> ListKind:
    """What makes the lists of an index. No requests.

    Raises UnsupportedFormatError for a kind that this release does not have, InvalidRequestError for wrong options.
    """
    return kind_of(index.kind, msgspec.json.decode(index.options), index=index.name)


def check_lists(indexes: Sequence[Index], documents: Iterable[Document | None]) -> None:
    """Raise InvalidRequestError for the first document that one of these indexes cannot take. No requests."""
    if not indexes:
        return
    kinds = list(map(kind_for, indexes))
    for document in documents:
        if document is not None:
            for kind in kinds:
                kind.check(document)


def why_renew(stored: IndexRoot, index: Index, changes: int) -> str | None:
    """Why a ready list index had better be made anew; None if it need not be. `changes` as `Root.changes`. No requests.

    Most of it is known since it was last measured; `is_stale` says whether that is long ago. Raises
    UnsupportedFormatError.
    """
    head = stored.lists
    if head is None or stored.state != "ready":
        return None
    kind, vectors, found = kind_for(index), max(head.entries, 0), head.calibration
    if kind.sample_size(vectors) == 0 or (found is not None and changes - found.learned < CHANGED * vectors):
        return None
    known = found.learned_from if found is not None else 0 if head.trained is None else head.trained.documents
    if vectors >= GROWN * max(known, 1) and kind.sample_size(vectors) > kind.sample_size(known):
        return f"it has {vectors:,} entries, and learned from {known:,}"
    return None if found is None or not found.points else _why_uneven(found)


def _why_uneven(found: Calibration) -> str | None:
    mean = found.entries / found.lists
    if found.longest > UNEVEN * mean:
        return f"one of its {found.lists:,} lists has {found.longest:,} of {found.entries:,} entries"
    from wormdb.engine.lists.probes import share_needed

    share, first = share_needed(found), found.first / 10_000
    if share > SPREAD * first:
        return f"{share:.1%} of its entries are needed for the usual recall, and were {first:.1%} when it was made"
    return None


def is_stale(stored: IndexRoot, changes: int) -> bool:
    """Whether what the lists of a ready index find is to be measured, or measured anew. No requests."""
    head = stored.lists
    if head is None or head.trained is None or stored.state != "ready":
        return False
    found = head.calibration
    return found is None or changes - found.changes >= STALE * max(head.entries, 1)


def why_join(stored: IndexRoot) -> str | None:
    """Why the runs of a ready list index had better be joined; None if they need not be. No requests."""
    head = stored.lists
    if head is None or stored.state != "ready":
        return None
    gone, entries = sum(run.gone for run in head.runs), sum(run.entries for run in head.runs)
    return f"{gone:,} of its {entries:,} entries count no longer" if gone > TAKEN_BACK * entries else None
