"""The part of the store contract about listings: order, paging, folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from wormdb.settings import LIST_PAGE_KEYS
from wormdb.storage.pool import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.storage.store import ListPage, Store

__all__ = ["ListContract"]

TREE: tuple[str, ...] = ("a-b", "a.b", "a/b", "a/b-c", "a/c/d", "a/c/e", "a0", "b", "é", "z/y", "~", "😀", "\uffee")
"""Names whose order as bytes differs from the order of folders, of UTF-16 and of locales."""


def _keys(pages: Iterable[ListPage]) -> list[str]:
    return [info.key for page in pages for info in page.objects]


def _names(pages: Iterable[ListPage]) -> tuple[list[str], list[str]]:
    taken = list(pages)
    return _keys(taken), [prefix for page in taken for prefix in page.prefixes]


class ListContract:
    """What was written before a listing began is listed, once, in the order of key bytes."""

    many: ClassVar[int] = LIST_PAGE_KEYS + 50
    """Keys in the paging tests; lower it where writing is slow, and lose the test of pages."""

    forgets_folders: ClassVar[bool] = True
    """Whether a folder without objects is gone at once from the listing of its level."""

    def test_an_empty_store_lists_nothing(self, store: Store) -> None:
        """Also below a folder that is not there, and after any key."""
        assert _names(store.list()) == ([], [])
        assert _names(store.list("no/such/")) == ([], [])
        assert _names(store.list("no/", delimiter="/")) == ([], [])
        assert _names(store.list(after="zzz")) == ([], [])

    def test_order_is_that_of_key_bytes(self, store: Store, other_handle: Store) -> None:
        """`a-b` before `a/b` before `a0`, and unicode by its bytes."""
        for key in reversed(TREE):
            store.put(key, b"body")
        assert _keys(other_handle.list()) == sorted(TREE, key=str.encode)

    def test_a_listing_tells_size_and_time(self, store: Store, other_handle: Store) -> None:
        """As head does; the version is the same or not told."""
        store.put("folder/key", b"12345")
        (info,) = [info for page in other_handle.list("folder/") for info in page.objects]
        head = other_handle.head("folder/key")
        assert (info.key, info.size) == ("folder/key", 5)
        assert info.version in (None, head.version)
        assert abs(info.modified - head.modified) < 2_000

    def test_a_write_and_a_delete_show_at_once(self, store: Store, other_handle: Store) -> None:
        """List after write, after overwrite and after delete."""
        store.put("n/1", b"body")
        assert _keys(other_handle.list("n/")) == ["n/1"]
        store.put("n/2", b"body")
        store.put("n/1", b"other body")
        assert _keys(other_handle.list("n/")) == ["n/1", "n/2"]
        store.delete("n/1")
        assert _keys(other_handle.list("n/")) == ["n/2"]
        store.delete("n/2")
        assert _names(other_handle.list()) == ([], [])
        assert _names(other_handle.list(delimiter="/")) == ([], [] if self.forgets_folders else ["n/"])

    def test_a_prefix_is_exact(self, store: Store) -> None:
        """Neighbours that begin alike are not listed, and neither is an object of the folder's name."""
        for key in ("x/1", "x/2/3", "x-y/1", "xx/1", "w/x/1"):
            store.put(key, b"body")
        assert _keys(store.list("x/")) == ["x/1", "x/2/3"]
        assert _keys(store.list("x/2/")) == ["x/2/3"]
        assert _keys(store.list("w/x/")) == ["w/x/1"]
        assert _keys(store.list("x/1/")) == []

    @pytest.mark.parametrize(
        "after", ["a-b", "a", "a/", "a/b", "a/bb", "a/c", "a/c/d", "a/zzz", "a0", "é", "~", "z", "\U0010ffff", "A"]
    )
    def test_after_skips_up_to_and_including(self, store: Store, after: str) -> None:
        """Whether or not it exists, in the middle of a folder, at its name, and beyond the end."""
        for key in TREE:
            store.put(key, b"body")
        expected = sorted((key for key in TREE if key.encode() > after.encode()), key=str.encode)
        assert _keys(store.list(after=after)) == expected
        below = [key for key in expected if key.startswith("a/")]
        assert _keys(store.list("a/", after=after)) == below

    def test_a_delimiter_lists_one_level(self, store: Store) -> None:
        """Objects of this level, and folders with their slash, each in order and once."""
        for key in TREE:
            store.put(key, b"body")
        level = ["a-b", "a.b", "a0", "b", "~", "é", "\uffee", "😀"]
        assert _names(store.list(delimiter="/")) == (level, ["a/", "z/"])
        assert _names(store.list("a/", delimiter="/")) == (["a/b", "a/b-c"], ["a/c/"])
        assert _names(store.list("a/c/", delimiter="/")) == (["a/c/d", "a/c/e"], [])

    @pytest.mark.parametrize(
        ("after", "objects", "prefixes"),
        [
            ("d", ["e"], ["f/", "h/"]),
            ("e", [], ["f/", "h/"]),
            ("f/", [], ["h/"]),
            ("f/1", [], ["h/"]),
            ("g", [], ["h/"]),
            ("h/", [], []),
        ],
    )
    def test_after_compares_with_folders_as_names(
        self, store: Store, after: str, objects: list[str], prefixes: list[str]
    ) -> None:
        """So a listing of one level goes on after the last name seen, be it a key or a folder."""
        for key in ("c", "e", "f/1", "f/2", "h/1"):
            store.put(key, b"body")
        assert _names(store.list(after=after, delimiter="/")) == (objects, prefixes)

    def test_many_keys_come_in_pages(self, store: Store, other_handle: Store) -> None:
        """Every key once, in order, at most 1,000 a page; then bulk delete takes them all."""
        keys = [f"many/{number:05}" for number in range(self.many)]
        threads = ThreadPool(8)
        try:
            list(threads.map(lambda key: store.put(key, b"x"), [*keys, "other"]))
        finally:
            threads.close()
        pages = list(other_handle.list("many/"))
        assert _keys(pages) == keys
        assert all(len(page.objects) <= LIST_PAGE_KEYS for page in pages)
        half = keys[self.many // 2]
        assert _keys(other_handle.list("many/", after=half)) == keys[self.many // 2 + 1 :]
        assert _keys(other_handle.list("many/", delimiter="/")) == keys
        store.delete_many([*keys, "many/never"])
        assert _keys(other_handle.list()) == ["other"]
