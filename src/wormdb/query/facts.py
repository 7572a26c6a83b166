"""What a planner knows of a source without reading: how much there is, which columns, which indexes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.format.field_statistics import FieldStatistics
    from wormdb.format.kinds import Document
    from wormdb.index.definition import Index
    from wormdb.index.statistics import IndexStatistics

__all__ = ["Facts", "IndexFacts"]


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """One index that can answer for every document of the state."""

    index: Index
    height: int
    """Levels of its tree; 0 if it is empty."""
    statistics: IndexStatistics | None
    """None if nobody has measured it yet."""
    may_have_arrays: tuple[bool, ...]
    """For each field whether some document may have an array at it or on the way: then two bounds on it may hold for
    two elements, and an entry's value is not the whole value of the field."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A value; nothing in it decides what is true, only what is cheap."""

    rows: int = 0
    """Documents, the tail included."""
    tail_rows: int = 0
    """Ids that the tail changed: they are in memory already."""
    blocks: int = 0
    """Objects that a scan reads."""
    document_bytes: int = 0
    """Stored bytes of all documents, about."""
    column_bytes: Mapping[str, int] = field(default_factory=dict)
    """Stored bytes of each column that every block has, by path, about. These paths are the manifest's fields: a
    query that needs no others reads no documents. `_id` is always there."""
    indexes: tuple[IndexFacts, ...] = ()
    """By name; ids have none of their own, because blocks are sorted by them."""
    sample: tuple[Document, ...] = ()
    """Some documents, chosen fairly; long texts in them are shortened."""
    fields: Mapping[str, FieldStatistics] = field(default_factory=dict)
    """By path what was found out about the values of fields, if not too much has changed since."""
    version: int = 0
    """Another one whenever a plan should be made anew: the number of the root."""

    @property
    def columns(self) -> frozenset[str]:
        """The paths that columns answer."""
        return frozenset(self.column_bytes) | {"_id"}

    def find_index(self, name: str) -> IndexFacts | None:
        """The index of that name, if it can be used."""
        return next((each for each in self.indexes if each.index.name == name), None)
