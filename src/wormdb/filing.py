"""Readable files of a database: how a new collection keeps them, and what switches them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.files.claim import claim_name
from wormdb.format.event import FilesSwitched
from wormdb.schema.model import StorageDefinition

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.state.definition import Definition
    from wormdb.schema.model import Model, Schema
    from wormdb.storage.store import Store

__all__ = ["Filing"]


@dataclass(frozen=True, slots=True)
class Filing:
    """Where the readable files of a database's collections lie."""

    store: Store
    schema: Callable[[], Schema | None]
    before_first_write: Callable[[], None]

    def switch_on(self, model: Model, collection: str) -> FilesSwitched:
        """Files are kept, in the layout of the schema. 1 PUT if the short name in root folders has to be claimed."""
        schema = self.schema()
        storage = StorageDefinition() if schema is None else schema.storage
        oplog, snapshots, trash = (storage.layout_of(kind) for kind in ("oplog", "snapshots", "trash"))
        name = collection
        if "root" in {oplog, snapshots, trash} and not model.path.outer:
            self.before_first_write()
            name = claim_name(self.store, model.path.collection_name, collection)
        return FilesSwitched(enabled=True, oplog=oplog, snapshots=snapshots, trash=trash, name=name)

    def switched(self, model: Model, before: Definition, collection: str) -> FilesSwitched | None:
        """What a new model switches; None if files stay as they are. Costs as `switch_on`."""
        is_new = before.model is None or before.model.files != model.files
        if not is_new or model.files == before.keeps_files:
            return None
        if before.files is None:
            return self.switch_on(model, collection)
        return FilesSwitched(
            enabled=model.files,
            oplog=before.files.oplog,
            snapshots=before.files.snapshots,
            trash=before.files.trash,
            name=before.files.name,
        )
