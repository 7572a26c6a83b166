"""Listing of a local folder: names in the order of key bytes, one directory at a time."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from wormdb.errors import InvalidRequestError
from wormdb.settings import LIST_PAGE_KEYS
from wormdb.storage.folder.directories import RESERVED_FOLDER, FolderTree, is_missing, lookup, version_of
from wormdb.storage.store import ObjectInfo, check_key
from wormdb.system.types import StoreTime

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["walk"]


def walk(tree: FolderTree, prefix: str, after: str, delimiter: str | None) -> Iterator[ObjectInfo | str]:
    """Objects below `prefix` and, with a delimiter, folders that hold one, all above `after`.

    Memory holds the names of the directories on the way down, never the tree. Raises OSError.
    """
    stack = [iter(_names(tree, prefix, after))]
    prefixes = [prefix]
    batch: list[str] = []
    while stack:
        name = next(stack[-1], None)
        if name is not None and not name.endswith("/") and len(batch) < LIST_PAGE_KEYS:
            batch.append(name)
            continue
        yield from _infos(tree, prefixes[-1], batch)
        batch = []
        if name is None:
            stack.pop()
            prefixes.pop()
        elif not name.endswith("/"):
            batch = [name]
        elif delimiter is None:
            prefixes.append(prefixes[-1] + name)
            stack.append(iter(_names(tree, prefixes[-1], after)))
        elif prefix + name > after and _holds_object(tree, prefix + name):
            yield prefix + name


def _names(tree: FolderTree, prefix: str, after: str) -> list[str]:
    """What may be listed of one directory, in the order of key bytes; folders end with /.

    The slash takes part in the order: `a-b` comes before what is in `a/`, and `a0` after.
    A set, because a file that is renamed over during the scan may show twice.
    """
    names: set[str] = set()
    try:
        with tree.open(prefix.split("/")[:-1]) as descriptor, os.scandir(descriptor) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                name = entry.name + "/" if is_folder else entry.name
                key = prefix + name
                # Code points compare as their UTF-8 bytes do. `after` may lie inside a folder.
                is_above = key > after or (is_folder and after.startswith(key))
                if is_above and _is_ours(prefix, entry.name):
                    names.add(name)
    except OSError as error:
        if not is_missing(error):
            raise
    return sorted(names)


def _is_ours(prefix: str, name: str) -> bool:
    if not prefix and name.casefold() == RESERVED_FOLDER:
        return False
    try:
        check_key(prefix + name)
    except InvalidRequestError:
        return False  # a file that no key names, put there by something else
    return True


def _infos(tree: FolderTree, prefix: str, names: list[str]) -> Iterator[ObjectInfo]:
    """Those of `names` that are files still."""
    if not names:
        return
    found: list[ObjectInfo] = []
    try:
        with tree.open(prefix.split("/")[:-1]) as descriptor:
            for name in names:
                info = lookup(descriptor, name)
                if info is not None and stat.S_ISREG(info.st_mode):
                    modified = StoreTime(info.st_mtime_ns // 1_000_000)
                    found.append(ObjectInfo(prefix + name, info.st_size, modified, version_of(info)))
    except OSError as error:
        if not is_missing(error):  # the last object may have gone, and its folder with it
            raise
    yield from found


def _holds_object(tree: FolderTree, prefix: str) -> bool:
    """Whether any object is below: an empty folder is nothing that a store knows of."""
    return next(walk(tree, prefix, "", None), None) is not None
