"""Listings in the order of key bytes, also from stores that walk folders.

S3, R2 and GCS list keys by their bytes: `a-b`, `a/b`, `a0`. Stores built on a tree (SeaweedFS,
and others that speak S3) list a folder where its name stands: `a/b`, `a-b`, `a0`, and they resume
after a key in that order too. What such a store says is put in order here; nothing is left out.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING

from wormdb.errors import InvalidRequestError, UnsupportedStoreError
from wormdb.settings import LIST_PAGE_KEYS
from wormdb.storage.store import ListPage, ObjectInfo, check_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["exact_offset", "in_byte_order", "paged", "paged_level", "safe_offset", "verified_order"]


def exact_offset(prefix: str, after: str) -> str | None:
    """Where a store that lists by key bytes may begin; None is the beginning."""
    if not after.startswith(prefix):
        return None
    try:
        return check_key(after.rstrip("/"))
    except InvalidRequestError:
        return None


def safe_offset(prefix: str, after: str) -> str | None:
    """Where a store may begin whose order is by bytes or by folders; None is the beginning.

    Every key above `after` has a first segment, below `prefix`, of at least the part of
    `after`'s that stands before its first character under `/`; so a name just under that part
    skips none of them, whichever of the two orders the store uses.
    """
    if not after.startswith(prefix):
        return None
    first = after[len(prefix) :].partition("/")[0]
    end = next((index for index, character in enumerate(first) if character < "/"), len(first))
    # Shorter is safe too; a digit or letter has a plain character before it, 0 has the slash.
    part = first[:end]
    while part and (part[-1] == "0" or not (part[-1].isascii() and part[-1].isalnum())):
        part = part[:-1]
    if not part:
        return None
    return f"{prefix}{part[:-1]}{chr(ord(part[-1]) - 1)}~"


def in_byte_order(prefix: str, objects: Iterable[ObjectInfo]) -> Iterator[ObjectInfo]:
    """The same objects by key bytes, from a listing by bytes or by folders.

    Holds back one folder directly below `prefix`, in memory: a sibling such as `a-b` may
    still come that belongs before `a/b`.
    """
    held: list[tuple[str, int, ObjectInfo]] = []
    for number, info in enumerate(objects):
        bound = prefix + info.key[len(prefix) :].partition("/")[0]
        while held and held[0][0] < bound:
            yield heapq.heappop(held)[2]
        heapq.heappush(held, (info.key, number, info))
    while held:
        yield heapq.heappop(held)[2]


def verified_order(name: str, objects: Iterable[ObjectInfo]) -> Iterator[ObjectInfo]:
    """The same objects, each key once; raises UnsupportedStoreError when one is out of order."""
    last = ""
    for info in objects:
        if info.key < last:
            raise UnsupportedStoreError(
                f"listing of {name}", reason=f"{info.key!r} came after {last!r}: it is not in the order of key bytes"
            )
        if info.key != last:
            yield info
        last = info.key


def paged(objects: Iterable[ObjectInfo]) -> Iterator[ListPage]:
    """Pages of LIST_PAGE_KEYS objects; an empty listing is one empty page."""
    source = iter(objects)
    page = tuple(islice(source, LIST_PAGE_KEYS))
    yield ListPage(page)
    while len(page) == LIST_PAGE_KEYS:
        page = tuple(islice(source, LIST_PAGE_KEYS))
        if page:
            yield ListPage(page)


def paged_level(objects: Iterable[ObjectInfo], prefixes: Iterable[str], after: str) -> Iterator[ListPage]:
    """Pages of LIST_PAGE_KEYS names above `after`: objects and folders of one level, merged in order."""
    by_name = {info.key: info for info in objects if info.key > after}
    folders = {prefix for prefix in prefixes if prefix > after}
    names = sorted(by_name.keys() | folders)
    for start in range(0, max(len(names), 1), LIST_PAGE_KEYS):
        part = names[start : start + LIST_PAGE_KEYS]
        yield ListPage(
            tuple(by_name[name] for name in part if name in by_name), tuple(name for name in part if name in folders)
        )
