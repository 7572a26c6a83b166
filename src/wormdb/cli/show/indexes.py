"""Indexes in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.cli.show.text import counted
from wormdb.engine.state.indexes import PRIMARY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.api.status import IndexDescription, IndexSummary
    from wormdb.schema.model import Model

__all__ = ["amount_of", "file_of", "indexes_of", "kind_of", "line_of", "written_fields"]


def indexes_of(collection: Collection[Document], model: Model | None) -> list[IndexSummary]:
    """The indexes of a collection but for that of the id: those of the model in its order, then others by name."""
    declared: Mapping[str, object] = {} if model is None else model.indexes
    places = {name: place for place, name in enumerate(declared)}
    found = [each for each in collection.indexes() if each.name != PRIMARY]
    return sorted(found, key=lambda each: (places.get(each.name, len(places)), each.name))


def kind_of(index: IndexDescription) -> str:
    """What kind of index it is, as the seeds call it."""
    if index.unique:
        return "unique" if index.type == "standard" else f"unique {index.type}"
    return index.type


def written_fields(index: IndexDescription) -> tuple[str, ...]:
    """Its fields; those of a text index with their weights."""
    return tuple((index.options or {}).get("fields", index.fields))


def amount_of(index: IndexDescription, *, several: str = "distinct values") -> str:
    """What is in it: entries of a unique one, different values of others; or why there is nothing."""
    if index.state != "ready":
        return index.state if index.reason is None else f"{index.state}: {index.reason}"
    if index.runs:
        return counted(index.entries, "entry", "entries")
    if not index.height:
        return "no entries yet"
    if index.unique:
        return counted(index.entries, "entry", "entries")
    return counted(index.distinct, several.removesuffix("s"), several)


def file_of(index: IndexDescription) -> str:
    """What is wrong with its readable file; empty if nothing is, or none is kept."""
    if index.file in (None, "fresh"):
        return ""
    return f", file {index.file} ({index.file_reason})"


def line_of(index: IndexDescription) -> str:
    """All of it in one line: `byStatus: status (standard) 3 distinct values`."""
    return f"{index.name}: {', '.join(written_fields(index))} ({kind_of(index)}) {amount_of(index)}{file_of(index)}"
