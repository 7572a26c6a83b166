"""The part of the store contract about sizes: what is longer than its bound is never read whole, and never written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from wormdb.errors import CorruptionError, LimitExceededError
from wormdb.storage.pool import SerialPool
from wormdb.storage.store import Always, BoundedStore, ByteRange, IfAbsent, IfMatch, Precondition, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


__all__ = ["BYTES_MAX", "BoundContract", "bound"]

BYTES_MAX: Final = 1_000
"""The bound of every key but `free`."""


def bound(key: str) -> int:
    """The rule that `bounded_store` is opened with. No requests."""
    return 10 * BYTES_MAX if key == "free" else BYTES_MAX


class BoundContract:
    """A store that is opened with a rule keeps to it; `other_handle` has none, and writes what is too long."""

    @pytest.fixture
    def bounded_store(self, store: Store) -> Iterator[Store]:
        """A handle on the same data with the rule `bound`, as `connect` makes it of a store without one.

        Override it for a store that takes a rule when it is opened.
        """
        yield BoundedStore(store, bound)

    @pytest.mark.parametrize("size", [0, 1, BYTES_MAX - 1, BYTES_MAX])
    def test_up_to_its_bound_an_object_is_read(self, bounded_store: Store, other_handle: Store, size: int) -> None:
        """By every verb, and it may be written."""
        body = bytes(range(256)) * 4
        other_handle.put("a/key", body[:size])
        assert bounded_store.get("a/key").body == body[:size]
        found = bounded_store.probe("a/key").found
        assert found is not None
        assert found.body == body[:size]
        assert bounded_store.put("b/key", body[:size], IfAbsent()).version
        assert other_handle.get("b/key").body == body[:size]

    @pytest.mark.parametrize("more", [1, 100_000])
    def test_what_is_longer_is_not_read_whole(self, bounded_store: Store, other_handle: Store, more: int) -> None:
        """The error names the object, and everything that does not read it whole goes on."""
        body = bytes(range(250)) * (BYTES_MAX // 250) + bytes(more)
        version = other_handle.put("a/key", body).version
        readers: tuple[Callable[[], object], ...] = (
            lambda: bounded_store.get("a/key"),
            lambda: bounded_store.probe("a/key"),
            lambda: bounded_store.get_many(["a/key", "a/none"], SerialPool()),
        )
        for read in readers:
            with pytest.raises(CorruptionError) as caught:
                read()
            assert caught.value.key == "a/key"
            assert str(BYTES_MAX) in caught.value.reason
        assert bounded_store.head("a/key").size == len(body)
        assert bounded_store.get_range("a/key", ByteRange(3, 5)) == body[3:8]
        assert bounded_store.get_ranges("a/key", [ByteRange(0, 2), ByteRange(len(body) - 1, 9)]) == (
            body[:2],
            body[-1:],
        )
        assert [info.size for page in bounded_store.list("a/") for info in page.objects] == [len(body)]
        assert bounded_store.probe("a/none").found is None
        bounded_store.put("a/key", b"short again", IfMatch(version))
        assert bounded_store.get("a/key").body == b"short again"

    @pytest.mark.parametrize("kind", ["Always", "IfAbsent", "IfMatch"])
    def test_unreadable_sizes_are_not_written(self, bounded_store: Store, other_handle: Store, kind: str) -> None:
        """It is refused before anything is sent."""
        version = other_handle.put("old", b"old").version
        conditions: dict[str, Precondition] = {"Always": Always(), "IfAbsent": IfAbsent(), "IfMatch": IfMatch(version)}
        key = "new" if kind == "IfAbsent" else "old"
        with pytest.raises(LimitExceededError) as caught:
            bounded_store.put(key, bytes(BYTES_MAX + 1), conditions[kind])
        assert caught.value.key == key
        assert [info.key for page in other_handle.list() for info in page.objects] == ["old"]
        assert other_handle.get("old").body == b"old"

    def test_the_rule_goes_by_the_key(self, bounded_store: Store) -> None:
        """One object may be longer than another."""
        bounded_store.put("free", bytes(10 * BYTES_MAX))
        assert len(bounded_store.get("free").body) == 10 * BYTES_MAX
