"""Where the oplog, snapshots and trash of one collection lie: fixed by an entry of its log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wormdb.format.event import FilesSwitched
    from wormdb.schema.model import Layout, StorageDefinition

__all__ = ["Placement"]


@dataclass(frozen=True, slots=True)
class Placement:
    """The layout of each system folder, and the collection's folder inside those at the root of the bucket."""

    oplog: Layout = "root"
    snapshots: Layout = "root"
    trash: Layout = "root"
    name: str = ""
    """Ends with /: `customers/`, or the whole prefix `archive/customers/`. Only root layouts use it."""

    @classmethod
    def of(cls, storage: StorageDefinition, name: str) -> Placement:
        """As a schema says, with `name` as the folder in root layouts. No requests."""
        return cls(storage.layout_of("oplog"), storage.layout_of("snapshots"), storage.layout_of("trash"), name)

    @classmethod
    def switched(cls, event: FilesSwitched) -> Placement:
        """As the log says. No requests."""
        return cls(event.oplog, event.snapshots, event.trash, event.name)
