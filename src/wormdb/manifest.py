"""The manifest of a collection: the columns of its blocks, which answer queries without documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wormdb.format.past import misc_ms
from wormdb.format.wrappers import moment
from wormdb.query.engine_source import EngineSource

if TYPE_CHECKING:
    from datetime import datetime

    from wormdb.access import Access
    from wormdb.engine.state import View

__all__ = ["Manifest", "ManifestStatus"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ManifestStatus:
    """What the columns of a collection's blocks can answer. Nothing in it makes an answer wrong, only dearer."""

    exists: bool
    """Whether there are blocks: the log was brought forward once."""
    fresh: bool
    """Whether every block has every field of the manifest as a column, and its type."""
    count: int
    """How many documents there are."""
    last_updated: datetime | None
    """When the log was last brought forward, in UTC."""
    size_bytes: int
    """Bytes of these columns, about, as stored."""
    partitioned: bool
    """Whether there are several blocks."""
    fields: tuple[str, ...]
    """The model's manifest fields; without a model those that every block has as columns."""
    lag_entries: int
    """Log entries that are not in blocks yet; every reader reads them besides."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON, with names and times as the files have them."""
        time = self.last_updated
        return {
            "exists": self.exists,
            "fresh": self.fresh,
            "count": self.count,
            "lastUpdated": None if time is None else f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z",
            "sizeBytes": self.size_bytes,
            "partitioned": self.partitioned,
            "fields": list(self.fields),
            "lagEntries": self.lag_entries,
        }


@dataclass(frozen=True, slots=True)
class Manifest(Generic[T]):
    """Shows how far the columns of one collection are, and brings them up to date."""

    access: Access[T]

    def status(self) -> ManifestStatus:
        """1 GET in a warm process."""
        return self._status(self.access.present())

    def build(self) -> ManifestStatus:
        """Bring the log forward. Costs as `Collection.forward`, and 1 GET."""
        self.access.ledger.forward()
        return self.status()

    def invalidate(self) -> None:
        """Forget what this process knows. No requests."""
        self.access.ledger.forget()

    def _status(self, view: View) -> ManifestStatus:
        facts = EngineSource.of(view, self.access.ledger).facts
        root = None if view.place is None else view.place.root
        model = self.access.writer.in_force(view)
        columns = sorted(facts.column_bytes)
        fields = tuple(columns) if model is None else model.manifest_fields
        return ManifestStatus(
            exists=root is not None,
            fresh=root is not None and (not facts.blocks or facts.columns.issuperset(fields)),
            count=view.count,
            last_updated=None if root is None else moment(misc_ms(root.misc)),
            size_bytes=sum(facts.column_bytes.get(name, 0) for name in fields),
            partitioned=facts.blocks > 1,
            fields=fields,
            lag_entries=view.number - view.base_number,
        )
