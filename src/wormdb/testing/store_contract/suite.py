"""The suite that every store passes: subclass it, give it a store, and run pytest.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self) -> Iterator[Store]:
            with MyStore(...) as store:
                yield store

The store must be empty at the start of every test (a fresh prefix will do). Override
`other_handle` with a second, independent handle on the same data, so that a store cannot
vouch for itself through its own cache. If your store takes a rule of sizes when it is opened, override
`bounded_store` too, with the rule `wormdb.testing.store_contract.bounds.bound`. Needs pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from wormdb.errors import AlreadyExistsError, ClosedError, ConflictError, InvalidRequestError, NotFoundError
from wormdb.settings import KIB, MIB
from wormdb.storage.pool import SerialPool, ThreadPool
from wormdb.storage.store import Always, ByteRange, IfAbsent, IfMatch, Store
from wormdb.testing.store_contract.bounds import BoundContract
from wormdb.testing.store_contract.keys import KeyContract
from wormdb.testing.store_contract.lists import ListContract
from wormdb.testing.store_contract.races import RaceContract
from wormdb.testing.store_contract.uploads import UploadContract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.system.types import Version

__all__ = ["ReadWriteContract", "StoreContract"]

MINUTES_10_MS = 600_000


class ReadWriteContract:
    """Whole objects, ranges, preconditions and the end of a handle."""

    has_time: ClassVar[bool] = True
    """Whether the store's answers carry its own time."""

    def test_a_missing_object_raises_not_found(self, store: Store) -> None:
        """Every reading verb says so with the same error, which names the key."""
        readers = (
            lambda: store.get("no/such"),
            lambda: store.head("no/such"),
            lambda: store.get_range("no/such", ByteRange(0, 1)),
            lambda: store.get_ranges("no/such", [ByteRange(0, 1), ByteRange(5, 1)]),
        )
        for read in readers:
            with pytest.raises(NotFoundError) as caught:
                read()
            assert caught.value.key == "no/such"

    def test_what_is_written_is_read(self, store: Store, other_handle: Store) -> None:
        """Bytes, key and version agree between put, get, probe and head, in both handles."""
        written = store.put("a/b", b"one \x00\xff")
        for handle in (store, other_handle):
            stored = handle.get("a/b")
            assert (stored.key, stored.body, stored.version) == ("a/b", b"one \x00\xff", written.version)
            info = handle.head("a/b")
            assert (info.key, info.size, info.version) == ("a/b", 6, written.version)

    def test_put_overwrites(self, store: Store, other_handle: Store) -> None:
        """The default precondition is Always, for a new and for an existing object."""
        first = store.put("key", b"first, and longer", Always())
        second = store.put("key", b"second")
        assert first.version != second.version
        assert other_handle.get("key").body == b"second"
        assert other_handle.head("key").size == 6

    def test_an_empty_object_is_an_object(self, store: Store, other_handle: Store) -> None:
        """No bytes are not the same as no object."""
        store.put("empty", b"")
        assert other_handle.get("empty").body == b""
        assert other_handle.head("empty").size == 0
        assert other_handle.get_range("empty", ByteRange(0, 10)) == b""
        with pytest.raises(AlreadyExistsError):
            store.put("empty", b"not empty", IfAbsent())

    def test_a_large_object_survives(self, store: Store, other_handle: Store) -> None:
        """Five MiB, no two KiB alike, in one put and one get."""
        body = b"".join(number.to_bytes(8, "big") * 128 for number in range(5 * KIB))
        assert len(body) == 5 * MIB
        store.put("large", body, IfAbsent())
        assert other_handle.get("large").body == body
        assert other_handle.get_range("large", ByteRange(4 * MIB - 3, 7)) == body[4 * MIB - 3 : 4 * MIB + 4]

    def test_content_type_is_accepted(self, store: Store) -> None:
        """A content type changes nothing about the bytes."""
        store.put("typed", b"{}", content_type="application/json")
        assert store.get("typed").body == b"{}"

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [
            (0, 10, b"0123456789"),
            (3, 4, b"3456"),
            (9, 1, b"9"),
            (7, 100, b"789"),
            (10, 5, b""),
            (1000, 5, b""),
            (4, 0, b""),
            (0, 1, b"0"),
        ],
    )
    def test_a_range_is_what_exists_of_it(self, store: Store, start: int, length: int, expected: bytes) -> None:
        """Inside, at the end, over the end, beyond it, and of no length."""
        store.put("digits", b"0123456789")
        assert store.get_range("digits", ByteRange(start, length)) == expected
        assert store.get_ranges("digits", [ByteRange(start, length)]) == (expected,)

    def test_ranges_come_in_the_order_asked(self, store: Store) -> None:
        """Near, far, overlapping, repeated, empty and beyond the end, all in one call."""
        body = bytes(range(256)) * 1024
        store.put("ranged", body)
        spans = [
            ByteRange(200_000, 10),
            ByteRange(0, 5),
            ByteRange(3, 5),
            ByteRange(0, 5),
            ByteRange(50, 0),
            ByteRange(len(body) - 2, 100),
            ByteRange(len(body) + 10, 3),
            ByteRange(100_000, 70_000),
            ByteRange(120_000, 1),
        ]
        assert store.get_ranges("ranged", spans) == tuple(body[span.start : span.stop] for span in spans)
        assert store.get_ranges("ranged", []) == ()

    @pytest.mark.parametrize(("start", "length"), [(-1, 5), (0, -1)])
    def test_a_negative_range_is_refused(self, start: int, length: int) -> None:
        """Refused when it is made, so no store ever sees one."""
        with pytest.raises(InvalidRequestError):
            ByteRange(start, length)

    def test_probe_tells_what_is_there_and_when(self, store: Store) -> None:
        """A missing object is an answer, with the store's time like any other; a store may have none before a write."""
        store.put("earlier", b"")
        missing = store.probe("slot")
        written = store.put("slot", b"entry")
        found = store.probe("slot")
        assert missing.found is None
        assert found.found is not None
        assert (found.found.key, found.found.body, found.found.version) == ("slot", b"entry", written.version)
        times = (missing.time, written.time, found.time)
        if not self.has_time:
            assert times == (None, None, None)
            return
        modified = store.head("slot").modified
        for time in times:
            assert time is not None
            assert abs(time - modified) < MINUTES_10_MS

    def test_if_absent_writes_once(self, store: Store, other_handle: Store) -> None:
        """The first wins; the second is told and changes nothing."""
        first = store.put("slot/1", b"write id 1", IfAbsent())
        with pytest.raises(AlreadyExistsError) as caught:
            other_handle.put("slot/1", b"write id 2", IfAbsent())
        assert caught.value.key == "slot/1"
        stored = other_handle.get("slot/1")
        assert (stored.body, stored.version) == (b"write id 1", first.version)

    def test_if_absent_writes_again_after_delete(self, store: Store, other_handle: Store) -> None:
        """Only what is there now counts."""
        store.put("slot", b"write id 1", IfAbsent())
        store.delete("slot")
        store.put("slot", b"write id 2", IfAbsent())
        assert other_handle.get("slot").body == b"write id 2"

    def test_if_match_swaps_what_was_read(self, store: Store, other_handle: Store) -> None:
        """The version may come from put, get, probe or head, of either handle."""
        store.put("root", b"write id 0")
        probed = other_handle.probe("root").found
        assert probed is not None
        store.put("root", b"write id 1", IfMatch(probed.version))
        store.put("root", b"write id 2", IfMatch(other_handle.get("root").version))
        version = other_handle.head("root").version
        assert version is not None
        swapped = store.put("root", b"write id 3", IfMatch(version))
        store.put("root", b"write id 4", IfMatch(swapped.version))
        assert other_handle.get("root").body == b"write id 4"

    def test_a_stale_if_match_loses(self, store: Store, other_handle: Store) -> None:
        """The loser is told, and what the winner wrote stays."""
        first = store.put("root", b"write id 1")
        winner = other_handle.put("root", b"write id 2", IfMatch(first.version))
        with pytest.raises(ConflictError) as caught:
            store.put("root", b"write id 3", IfMatch(first.version))
        assert caught.value.key == "root"
        stored = store.get("root")
        assert (stored.body, stored.version) == (b"write id 2", winner.version)

    def test_if_match_of_a_missing_object_loses(self, store: Store, other_handle: Store) -> None:
        """A deleted object does not come back by IfMatch, and it is a conflict, not a missing key."""
        version = store.put("root", b"write id 1").version
        store.delete("root")
        with pytest.raises(ConflictError) as caught:
            store.put("root", b"write id 2", IfMatch(version))
        assert caught.value.key == "root"
        assert other_handle.probe("root").found is None
        with pytest.raises(ConflictError):
            store.put("never/was", b"write id 3", IfMatch(version))
        assert other_handle.probe("never/was").found is None

    def test_a_stale_if_match_loses_after_there_and_back(self, store: Store) -> None:
        """A, B, A again: with another write id inside it is another version."""
        first = store.put("root", b"state A, write id 1")
        store.put("root", b"state B, write id 2")
        store.put("root", b"state A, write id 3")
        with pytest.raises(ConflictError):
            store.put("root", b"state C, write id 4", IfMatch(first.version))
        assert store.get("root").body == b"state A, write id 3"

    def test_every_write_makes_a_new_version(self, store: Store) -> None:
        """Also over delete and re-create, and whichever precondition wrote it."""
        versions: list[Version] = []
        for number in range(12):
            body = b"write id %d" % number
            if number % 3 == 0:
                store.delete("root")
                versions.append(store.put("root", body, IfAbsent()).version)
            elif number % 3 == 1:
                versions.append(store.put("root", body).version)
            else:
                versions.append(store.put("root", body, IfMatch(versions[-1])).version)
        assert len(set(versions)) == 12

    def test_delete_is_idempotent(self, store: Store, other_handle: Store) -> None:
        """A second delete and a delete of what never was are not errors."""
        store.put("a/b/c", b"1")
        store.put("a/d", b"2")
        for _ in range(2):
            store.delete("a/b/c")
        store.delete("never/was")
        assert other_handle.probe("a/b/c").found is None
        assert other_handle.get("a/d").body == b"2"

    def test_delete_many_removes_what_is_there(self, store: Store, other_handle: Store) -> None:
        """Missing and repeated keys are not errors, and no other key is touched."""
        for name in ("x/1", "x/2", "y"):
            store.put(name, b"body")
        store.delete_many(["x/1", "never/was", "x/2", "x/1"])
        store.delete_many([])
        assert [info.key for page in other_handle.list() for info in page.objects] == ["y"]

    def test_get_many_keeps_order_and_shows_gaps(self, store: Store) -> None:
        """One result a key, None where nothing is, with threads and without."""
        for number in range(20):
            store.put(f"many/{number}", b"body %d" % number)
        keys = [f"many/{number}" for number in (7, 99, 3, 7, 0, 19, 50)]
        threads = ThreadPool(4)
        try:
            for pool in (SerialPool(), threads):
                found = store.get_many(keys, pool)
                bodies = [stored.body if stored else None for stored in found]
                assert bodies == [b"body 7", None, b"body 3", b"body 7", b"body 0", b"body 19", None]
        finally:
            threads.close()
        assert store.get_many([], SerialPool()) == ()

    def test_a_closed_store_refuses_every_verb(self, store: Store) -> None:
        """Also what a cache could have answered, and closing twice is not an error."""
        store.put("key", b"body")
        store.get("key")
        store.close()
        store.close()
        calls = (
            lambda: store.get("key"),
            lambda: store.get_range("key", ByteRange(0, 1)),
            lambda: store.get_ranges("key", [ByteRange(0, 1)]),
            lambda: store.probe("key"),
            lambda: store.head("key"),
            lambda: list(store.list()),
            lambda: store.put("key", b"again"),
            lambda: store.put("new", b"again", IfAbsent()),
            lambda: store.delete("key"),
            lambda: store.delete_many(["key"]),
            lambda: store.get_many(["key"], SerialPool()),
        )
        for call in calls:
            with pytest.raises(ClosedError) as caught:
                call()
            assert caught.value.fix

    def test_the_name_is_for_messages(self, store: Store) -> None:
        """A store has a name, and it is in its repr or the repr is at least harmless."""
        assert store.name
        assert "\n" not in store.name


class StoreContract(ReadWriteContract, BoundContract, KeyContract, ListContract, RaceContract, UploadContract):
    """The whole suite; see the module's text for how to use it."""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        """The store under test, empty. Override it."""
        raise NotImplementedError

    @pytest.fixture
    def other_handle(self, store: Store) -> Iterator[Store]:
        """A second handle on the same data; by default the same one."""
        yield store
