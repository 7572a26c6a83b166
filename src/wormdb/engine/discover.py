"""Find the collections of a bucket when nobody knows them: the last resort, because it lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.engine.paths import ENGINE_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.storage.store import Store

__all__ = ["find_collections"]


def find_collections(store: Store, below: str = "") -> Iterator[str]:
    """The folders that hold a collection, in order. 1 LIST for each folder above them and for each of them.

    A collection's own folders are not searched: no other one lies in them.
    """
    folders = [folder for page in store.list(below, delimiter="/") for folder in page.prefixes]
    if below + ENGINE_FOLDER in folders:
        yield below
        return
    for folder in folders:
        if not folder.removeprefix(below).startswith("."):
            yield from find_collections(store, folder)
