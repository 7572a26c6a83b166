"""Listings become byte order from both orders that stores use, and no offset skips a key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wormdb.settings import LIST_PAGE_KEYS
from wormdb.storage.cloud.listing import exact_offset, in_byte_order, paged, paged_level, safe_offset
from wormdb.storage.store import ObjectInfo
from wormdb.system.types import StoreTime

segments = st.text(alphabet="a0b1 -.!~zé", min_size=1, max_size=3).filter(lambda text: text not in (".", ".."))
keys = st.lists(segments, min_size=1, max_size=4).map("/".join)
folders = st.sampled_from(["", "a/", "a0/b/"])


def info(key: str) -> ObjectInfo:
    return ObjectInfo(key, 0, StoreTime(0), None)


def by_folders(key: str) -> list[bytes]:
    """The order of a store that walks a tree: segment by segment."""
    return [segment.encode() for segment in key.split("/")]


@given(folders, st.sets(keys))
def test_both_orders_become_byte_order(prefix: str, names: set[str]) -> None:
    found = [prefix + name for name in names]
    expected = sorted(found, key=str.encode)
    for order in (str.encode, by_folders):
        listed = [info(key) for key in sorted(found, key=order)]
        assert [entry.key for entry in in_byte_order(prefix, listed)] == expected


@given(folders, st.sets(keys), keys)
def test_no_offset_skips_a_key_above_after(prefix: str, names: set[str], last: str) -> None:
    after = prefix + last
    above = {prefix + name for name in names if (prefix + name).encode() > after.encode()}
    offset = safe_offset(prefix, after)
    if offset is not None:
        assert offset.startswith(prefix)
        assert {key for key in above if key.encode() > offset.encode()} == above
        assert {key for key in above if by_folders(key) > by_folders(offset)} == above
    exact = exact_offset(prefix, after)
    assert exact is None or {key for key in above if key.encode() > exact.encode()} == above


def test_an_offset_in_a_log_is_close() -> None:
    """The numbers of a log are resumed near where they were left, also at a round number."""
    assert safe_offset("log/", "log/00000000000000000123") == "log/00000000000000000122~"
    assert safe_offset("log/", "log/00000000000000000120") == "log/0000000000000000011~"
    assert safe_offset("log/", "log/.hidden") is None
    assert safe_offset("log/", "other") is None
    assert exact_offset("log/", "log/a/../b") is None


def test_pages_are_full_until_the_last() -> None:
    for count in (0, 1, LIST_PAGE_KEYS - 1, LIST_PAGE_KEYS, LIST_PAGE_KEYS + 1, 2 * LIST_PAGE_KEYS):
        pages = list(paged(info(f"{number:06}") for number in range(count)))
        sizes = [len(page.objects) for page in pages]
        assert sum(sizes) == count
        assert len(sizes) == max(1, -(-count // LIST_PAGE_KEYS))


def test_one_level_is_paged_over_objects_and_folders_together() -> None:
    objects = [info(f"{number:05}") for number in range(0, 3000, 2)]
    prefixes = [f"{number:05}/" for number in range(1, 3000, 2)]
    pages = list(paged_level(objects, prefixes, "00099/"))
    assert all(len(page.objects) + len(page.prefixes) <= LIST_PAGE_KEYS for page in pages)
    names = [[*(entry.key for entry in page.objects), *page.prefixes] for page in pages]
    assert sorted(name for page in names for name in page) == [name for page in names for name in sorted(page)]
    assert sum(len(page) for page in names) == 3000 - 100
    assert [len(page.objects) + len(page.prefixes) for page in paged_level([], [], "")] == [0]
