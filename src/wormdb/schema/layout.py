"""Where the oplog, snapshots and trash of an entity lie, in the three layouts of S3WORM.

==========  ==================================
inline      org/customers/<id>/.oplog/
collection  org/customers/.oplog/<id>/
root        .oplog/customers/<id>/
==========  ==================================

In the root layout a collection is known by its last name. Another collection with the same last name, and
every collection below an outer segment, uses its full path instead: `.oplog/archive/customers/<id>/`. The
owner of a short name must never change, so it is recorded (`taken_names`) and given back on the next start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from wormdb.errors import InvalidRequestError
from wormdb.format.segment import encode_segment
from wormdb.schema.path import SINGLETON_ID
from wormdb.schema.problems import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.schema.model import Model, Schema

__all__ = ["StorageResolver"]

_Kind = Literal["oplog", "snapshots", "trash"]
_FOLDERS: Final[Mapping[_Kind, str]] = {"oplog": ".oplog", "snapshots": ".snapshots", "trash": ".worm.trash"}


class StorageResolver:
    """Prefixes of system folders for the models of one schema; all end with /."""

    def __init__(self, schema: Schema, *, taken_names: Mapping[str, str] | None = None) -> None:
        """`taken_names` is what an earlier resolver of this database recorded."""
        self._schema = schema
        self._taken = dict(taken_names or {})
        for model in schema.models.values():
            if not model.path.outer:
                self._taken.setdefault(model.path.collection_name, model.path.collection_prefix())

    @property
    def taken_names(self) -> dict[str, str]:
        """Last name → folder of the collection that has it; to be recorded with the database."""
        return dict(self._taken)

    def oplog_path(self, model: str, entity_id: Any = SINGLETON_ID, outer: Mapping[str, Any] | None = None) -> str:
        """The folder of an entity's oplog. Raises InvalidRequestError for an unknown model or missing `outer`."""
        return self._path("oplog", model, entity_id, outer)

    def snapshot_path(self, model: str, entity_id: Any = SINGLETON_ID, outer: Mapping[str, Any] | None = None) -> str:
        """The folder of an entity's snapshots; raises as `oplog_path`."""
        return self._path("snapshots", model, entity_id, outer)

    def trash_path(self, model: str, entity_id: Any = SINGLETON_ID, outer: Mapping[str, Any] | None = None) -> str:
        """The folder of a deleted entity; raises as `oplog_path`."""
        return self._path("trash", model, entity_id, outer)

    def _path(self, kind: _Kind, name: str, entity_id: Any, outer: Mapping[str, Any] | None) -> str:
        model = self._schema.models.get(name)
        if model is None:
            raise InvalidRequestError(f"Unknown model: {name}", fix=did_you_mean(name, self._schema.models))
        folder = _FOLDERS[kind]
        collection = model.path.collection_prefix(outer)
        entity = encode_segment(SINGLETON_ID if model.is_singleton else entity_id)
        match self._schema.storage.layout_of(kind):
            case "inline":
                return f"{model.path.entity_prefix(entity_id, outer)}{folder}/"
            case "collection":
                return f"{collection}{folder}/{entity}/"
            case "root":
                return f"{folder}/{self._root_name(model, collection)}{entity}/"

    def _root_name(self, model: Model, collection: str) -> str:
        """`customers/` for the collection that has the name, the whole path for any other."""
        last = model.path.collection_name
        return f"{last}/" if self._taken.get(last) == collection else collection
