"""Find the collections of a bucket when nobody knows them: the last resort, because it lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.engine.log.paths import ENGINE_FOLDER
from wormdb.storage.pool import SerialPool

if TYPE_CHECKING:
    from wormdb.schema.model import Schema
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store

__all__ = ["find_collections"]


def find_collections(store: Store, schema: Schema | None = None, pool: Pool | None = None) -> list[str]:
    """The folders that hold a collection, in order. 1 LIST for each folder above them and for each of them.

    Folders of one depth are listed side by side. The folders inside a collection may be one for each document: they are
    searched only if the schema has a model whose collections lie there.
    """
    paths = [] if schema is None else [model.path for model in schema.models.values()]
    found: list[str] = []
    depth = [("", False)]

    def inner(folder: str) -> list[str]:
        return [inner for page in store.list(folder, delimiter="/") for inner in page.prefixes]

    while depth:
        listed = zip(depth, (pool or SerialPool()).map(inner, [folder for folder, _ in depth]), strict=True)
        depth = []
        for (below, is_inside), folders in listed:
            is_collection = below + ENGINE_FOLDER in folders
            if is_collection:
                found.append(below)
            for folder in folders:
                is_free = not (is_inside or is_collection) or any(path.may_lie_in(folder) for path in paths)
                if is_free and not folder.removeprefix(below).startswith("."):
                    depth.append((folder, is_inside or is_collection))
    return sorted(found)
