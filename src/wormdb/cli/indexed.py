"""Indexes in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.cli.output import counted

if TYPE_CHECKING:
    from wormdb.status import IndexDescription

__all__ = ["amount_of", "kind_of", "line_of"]


def kind_of(index: IndexDescription) -> str:
    """What kind of index it is, as the seeds call it."""
    if index.unique:
        return "unique" if index.type == "standard" else f"unique {index.type}"
    return index.type


def amount_of(index: IndexDescription, *, several: str = "distinct values") -> str:
    """What is in it: entries of a unique one, different values of others; or why there is nothing."""
    if index.state != "ready":
        return index.state if index.reason is None else f"{index.state}: {index.reason}"
    if not index.height:
        return "no entries yet"
    if index.unique:
        return counted(index.entries, "entry", "entries")
    return counted(index.distinct, several.removesuffix("s"), several)


def line_of(index: IndexDescription) -> str:
    """All of it in one line: `byStatus: status (standard) 3 distinct values`."""
    return f"{index.name}: {', '.join(index.fields)} ({kind_of(index)}) {amount_of(index)}"
