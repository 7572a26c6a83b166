"""Why no file of a collection fits the path of its model: keys that are there, and the path that would fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.errors import NotFoundError
from wormdb.schema.problems import find_nearest
from wormdb.schema.proposal import has_data, propose_paths, show_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.files.contents.names import FileNames
    from wormdb.schema.proposal import PathProposal

__all__ = ["describe_misfit", "describe_nothing"]

_TABLES = "they are tables: worm import copies them into a collection, and Spark reads them where they are"


def describe_nothing(names: FileNames, keys: Sequence[str], what: str) -> NotFoundError:
    """The error where no file fits: three of the keys that are there, and the path that would fit. No requests."""
    keys = [key for key in keys if not any(part.startswith(".") for part in key.split("/"))]
    fitting = propose_paths(keys)
    there = f"; there are {show_keys(keys)}" if keys else "; there are no files at all"
    fix = "check the path of the model, and the layout in `storage` of the schema"
    if not fitting and any(key.endswith((".parquet", ".csv", ".orc", ".avro")) for key in keys):
        fix = _TABLES
    path = _nearest(names, fitting)
    return NotFoundError(
        f"{what} at {names.collection}",
        reason=f"no file there is a {names.model.name} by its path {names.model.path}{there}",
        fix=fix if path is None else f"give the model the path {path}",
    )


def _nearest(names: FileNames, fitting: Sequence[PathProposal]) -> str | None:
    """The path of the folder that is called most like the model's own; else the one with most files; None for none."""
    by_name = {each.collection_name: each.path for each in reversed(fitting)}
    nearest = find_nearest(names.collection.rstrip("/").rpartition("/")[2], by_name)
    return by_name[nearest] if nearest is not None else fitting[0].path if fitting else None


def describe_misfit(names: FileNames, keys: Sequence[str]) -> NotFoundError | None:
    """The error where files of data are in a collection that is only read, and none fits; None if none is of data."""
    return describe_nothing(names, keys, "nothing to read") if any(map(has_data, keys)) else None
