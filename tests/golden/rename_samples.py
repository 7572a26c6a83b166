"""A rename, for the golden files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from tests.golden.samples import PATH, closed_root, closing_entry, write_id
from wormdb.format.event import CollectionClosed

if TYPE_CHECKING:
    from wormdb.format.entry import Entry
    from wormdb.format.root import Root

__all__ = ["renaming_entry", "stage_root"]


def stage_root() -> Root:
    """A copy of another collection under a new name, which counts when that one has ended."""
    closed = CollectionClosed(reason="rename", follows=(PATH,), source="org/old/", slot=12)
    return structs.replace(closed_root(), marks=(), closed=closed, removed=1, removed_at=1_700_000_060_000)


def renaming_entry() -> Entry:
    """The end of a collection that goes on under another name."""
    return structs.replace(
        closing_entry(), write_id=write_id(56), events=(CollectionClosed(reason="rename", follows=("org/new/",)),)
    )
