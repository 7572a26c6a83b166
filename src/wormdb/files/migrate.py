"""Move the system folders of a collection to other places: oplog, snapshots and trash.

An entry of the log says where they lie from then on. Then every file is written at its new place before it is removed
from the old one, document by document; the record of the files knows how far this is, so that any process can go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from wormdb.errors import InvalidRequestError
from wormdb.files.contents.names import Placement
from wormdb.files.write.record import claim_name
from wormdb.format.event import FilesSwitched, Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.engine.state.view import View
    from wormdb.schema.model import Layout
    from wormdb.storage.store import Store

__all__ = ["LayoutMigration", "plan_migration", "switch_to"]

_KINDS: Final = ("oplog", "snapshots", "trash")


@dataclass(frozen=True, slots=True)
class LayoutMigration:
    """Where the system folders of a collection lay, and where they shall lie."""

    collection: str
    before: Placement
    after: Placement
    documents: int
    """How many ids there are whose files may move, deleted ones not counted."""

    @property
    def is_needed(self) -> bool:
        """Whether any of them moves."""
        return self.before != self.after

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "collection": self.collection,
            "from": {kind: getattr(self.before, kind) for kind in _KINDS},
            "to": {kind: getattr(self.after, kind) for kind in _KINDS},
            "moves": [kind for kind in _KINDS if getattr(self.before, kind) != getattr(self.after, kind)],
            "documents": self.documents,
        }


def plan_migration(view: View, collection: str, wanted: Mapping[str, Layout]) -> LayoutMigration:
    """What it takes to have some of `oplog`, `snapshots` and `trash` elsewhere. No requests.

    Raises InvalidRequestError if the collection keeps no readable files, or for an unknown folder or layout.
    """
    for kind, layout in wanted.items():
        if kind not in _KINDS or layout not in get_args(Place):
            raise InvalidRequestError(
                f"the layout {layout!r} of {kind!r}",
                reason=f"the folders are {', '.join(_KINDS)}, the layouts {', '.join(get_args(Place))}",
            )
    files = view.definition.files
    if files is None or not view.definition.keeps_files:
        raise InvalidRequestError(
            f"the layout of {collection}", reason="it keeps no readable files", fix="switch them on: worm files on"
        )
    before = Placement.switched(files)
    oplog, snapshots, trash = (wanted.get(kind, getattr(before, kind)) for kind in _KINDS)
    return LayoutMigration(collection, before, Placement(oplog, snapshots, trash, before.name), view.count)


def switch_to(migration: LayoutMigration, view: View, store: Store) -> FilesSwitched:
    """The event that puts a migration in force. 1 PUT if a folder at the root of the bucket needs its short name."""
    model, after = view.definition.model, migration.after
    assert model is not None, "only models have readable files"
    name = after.name
    if "root" in (after.oplog, after.snapshots, after.trash) and not model.path.outer:
        name = claim_name(store, model.path.collection_name, migration.collection)
    return FilesSwitched(enabled=True, oplog=after.oplog, snapshots=after.snapshots, trash=after.trash, name=name)
