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
    from wormdb.format.root import IndexRoot

__all__ = ["check_lists", "is_outgrown", "kind_for", "list_index"]

GROWN: Final = 2
"""Lists had better be made anew when there are this many times as many documents as they learned from."""


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


def is_outgrown(stored: IndexRoot, index: Index, documents: int) -> bool:
    """Whether a ready list index had better be made anew: it learned from few of the documents that there are.

    No requests; raises UnsupportedFormatError.
    """
    if stored.lists is None or stored.state != "ready":
        return False
    kind = kind_for(index)
    known = 0 if stored.lists.trained is None else stored.lists.trained.documents
    return documents >= GROWN * max(known, 1) and kind.sample_size(documents) > kind.sample_size(known)
