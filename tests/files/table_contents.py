"""What the tables of a state hold, told from all of its documents at once: what files are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wormdb.files.contents.index import index_texts
from wormdb.files.contents.manifest import manifest_row
from wormdb.files.contents.names import id_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.engine.tree.definition import Index
    from wormdb.schema.model import Model


@dataclass(slots=True)
class TableContents:
    """What the manifest and the indexes of a state hold."""

    entities: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The row of each document, by the text of its id; none if the model has no manifest."""
    entries: dict[tuple[str, ...], dict[str, list[str]]] = field(default_factory=dict)
    """Of each index, by its fields, the sorted texts of ids for each value."""
    count: int = 0
    """Documents that there are."""


def contents_of(documents: Iterable[tuple[Any, bytes]], model: Model, indexes: Iterable[Index]) -> TableContents:
    """What the tables of a state hold, from the ids and stored documents of all that it has. No requests."""
    contents = TableContents()
    indexes = () if model.is_singleton else tuple(indexes)
    contents.entries = {index.fields: {} for index in indexes}
    has_manifest = model.manifest.enabled and not model.is_singleton
    for identity, document in documents:
        text = id_text(identity)
        contents.count += 1
        if has_manifest:
            contents.entities[text] = manifest_row(document, model)
        for index in indexes:
            entries = contents.entries[index.fields]
            for value in index_texts(index, document, model):
                entries.setdefault(value, []).append(text)
    for entries in contents.entries.values():
        for ids in entries.values():
            ids.sort()
    return contents
