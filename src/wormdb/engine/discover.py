"""Find the collections of a bucket when nobody knows them: the last resort, because it lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.engine.paths import ENGINE_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.schema.model import Schema
    from wormdb.storage.store import Store

__all__ = ["find_collections"]


def find_collections(store: Store, schema: Schema | None = None) -> Iterator[str]:
    """The folders that hold a collection, in order. 1 LIST for each folder above them and for each of them.

    The folders inside a collection may be one for each document: they are searched only if the schema has a model whose
    collections lie there.
    """
    paths = [] if schema is None else [model.path for model in schema.models.values()]
    yield from _found(store, "", lambda folder: any(path.may_lie_in(folder) for path in paths), is_inside=False)


def _found(store: Store, below: str, may_hold: Callable[[str], bool], *, is_inside: bool) -> Iterator[str]:
    folders = [folder for page in store.list(below, delimiter="/") for folder in page.prefixes]
    if below + ENGINE_FOLDER in folders:
        yield below
        is_inside = True
    for folder in folders:
        if not folder.removeprefix(below).startswith(".") and (not is_inside or may_hold(folder)):
            yield from _found(store, folder, may_hold, is_inside=is_inside)
