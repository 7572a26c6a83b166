"""The part of the store contract about keys: odd ones survive, hostile ones are refused."""

from __future__ import annotations

import pytest

from wormdb.errors import InvalidRequestError
from wormdb.settings import KEY_BYTES_MAX, SEGMENT_BYTES_MAX
from wormdb.storage.store import ByteRange, IfAbsent, IfMatch, Store

__all__ = ["HOSTILE_KEYS", "LONGEST_KEY", "ODD_KEYS", "KeyContract"]

ODD_KEYS: tuple[str, ...] = (
    "with space",
    "trailing space ",
    " leading",
    "ünïcødé/Ω/日本語/🪱",
    "e\u0301 is not \u00e9",
    "%2F",
    "%",
    "100%25",
    "a#b",
    "a?b=c&d",
    "plus+minus-",
    "equals=",
    "~tilde",
    "it's",
    'quote"d',
    "star*",
    "colon:semi;comma,",
    "(round)[square]{curly}<angle>",
    "at@dollar$bang!caret^back`pipe|",
    ".worm",
    ".worm.db/block0",
    "...",
    "..a",
    "a..",
    "a.b",
    "committed/00000000000000000042",
    "UPPER/lower",
    "s" * SEGMENT_BYTES_MAX,
    "ü" * (SEGMENT_BYTES_MAX // 2),
)

HOSTILE_KEYS: tuple[str, ...] = (
    "",
    ".",
    "..",
    "../escape",
    "a/../b",
    "a/./b",
    "a/..",
    "/absolute",
    "a//b",
    "//",
    "/",
    "a/",
    "nul\x00",
    "line\nbreak",
    "carriage\r",
    "tab\t",
    "delete\x7f",
    "back\\slash",
    "..\\escape",
    "lone surrogate \ud800",
    "s" * (SEGMENT_BYTES_MAX + 1),
    "ü" * (SEGMENT_BYTES_MAX // 2 + 1),
    "/".join(["d" * 99] * (KEY_BYTES_MAX // 100 + 1)),
)

LONGEST_KEY = "/".join(["k" * 127] * 8) + "k"
assert len(LONGEST_KEY) == KEY_BYTES_MAX


class KeyContract:
    """A key means the same to every verb, and a bad key reaches no store."""

    @pytest.mark.parametrize("key", [*ODD_KEYS, LONGEST_KEY], ids=lambda key: ascii(key)[1:31])
    def test_an_odd_key_survives_every_verb(self, store: Store, other_handle: Store, key: str) -> None:
        """Put, get, ranges, probe, head, list, swap and delete mean this key and no other."""
        written = store.put(key, b"write id 1", IfAbsent())
        assert other_handle.get(key).key == key
        assert other_handle.get_range(key, ByteRange(6, 2)) == b"id"
        probed = other_handle.probe(key).found
        assert probed is not None
        assert (probed.key, probed.body, probed.version) == (key, b"write id 1", written.version)
        assert other_handle.head(key).key == key
        assert [info.key for page in other_handle.list() for info in page.objects] == [key]
        store.put(key, b"write id 2", IfMatch(written.version))
        assert other_handle.get(key).body == b"write id 2"
        store.delete(key)
        assert other_handle.probe(key).found is None
        store.put(key, b"write id 3")
        store.delete_many([key])
        store.delete_many([key])  # it is missing now
        assert [page.objects for page in other_handle.list() if page.objects] == []

    def test_odd_keys_are_all_different(self, store: Store, other_handle: Store) -> None:
        """No two of them are one object, and they are listed in the order of their bytes."""
        for key in ODD_KEYS:
            store.put(key, key.encode(), IfAbsent())
        listed = [info.key for page in other_handle.list() for info in page.objects]
        assert listed == sorted(ODD_KEYS, key=str.encode)
        for key in ODD_KEYS:
            assert other_handle.get(key).body == key.encode()

    def test_an_odd_folder_is_listed(self, store: Store, other_handle: Store) -> None:
        """Its objects and no other, by level, and behind a key of it."""
        for key in ODD_KEYS:
            store.put(f"{key}/a b", b"")
            store.put(f"{key}/c%", b"")
        for key in ODD_KEYS:
            both, second = [f"{key}/a b", f"{key}/c%"], [f"{key}/c%"]
            assert [info.key for page in other_handle.list(f"{key}/") for info in page.objects] == both
            level = [info.key for page in other_handle.list(f"{key}/", delimiter="/") for info in page.objects]
            assert level == both
            later = [info.key for page in other_handle.list(f"{key}/", after=both[0]) for info in page.objects]
            assert later == second

    @pytest.mark.parametrize("key", HOSTILE_KEYS, ids=lambda key: ascii(key)[1:31] or "empty")
    def test_a_hostile_key_is_refused(self, store: Store, key: str) -> None:
        """By every verb, before anything is sent: a good key in the same call is not touched."""
        version = store.put("good", b"body").version
        calls = (
            lambda: store.get(key),
            lambda: store.get_range(key, ByteRange(0, 1)),
            lambda: store.get_ranges(key, [ByteRange(0, 1)]),
            lambda: store.probe(key),
            lambda: store.head(key),
            lambda: store.put(key, b"body"),
            lambda: store.put(key, b"body", IfAbsent()),
            lambda: store.put(key, b"body", IfMatch(version)),
            lambda: store.delete(key),
            lambda: store.delete_many(["good", key]),
        )
        for call in calls:
            with pytest.raises(InvalidRequestError):
                call()
        assert [info.key for page in store.list() for info in page.objects] == ["good"]

    @pytest.mark.parametrize("prefix", ["a", "a/b", "/", "../", "a//", "a/../", "./", "a\x00/", "a\\/"])
    def test_a_prefix_is_a_folder(self, store: Store, prefix: str) -> None:
        """Half a name, and what no key could begin with, is refused."""
        store.put("a/b/c", b"body")
        with pytest.raises(InvalidRequestError):
            list(store.list(prefix))
