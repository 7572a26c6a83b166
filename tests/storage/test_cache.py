"""The cache: only immutable keys, bounded, and never a wrong byte."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import NotFoundError, PermissionDeniedError, UnavailableError, WormError
from wormdb.storage.cache import CachedStore
from wormdb.storage.folder.store import LocalStore
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.store import ByteRange, IfAbsent
from wormdb.testing.fault_store import Fault, FaultStore

if TYPE_CHECKING:
    from wormdb.storage.store import Store, StoredObject


def is_block(key: str) -> bool:
    return key.startswith("data/")


def make(folder: Path | None = None, *, bytes_max: int = 100_000, inner: Store | None = None) -> CachedStore:
    metered = MeteredStore(inner or MemoryStore())
    return CachedStore(metered, immutable=is_block, bytes_max=bytes_max, folder=folder)


def gets(store: CachedStore) -> int:
    assert isinstance(store.inner, MeteredStore)
    return store.inner.mark().gets


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_an_immutable_object_is_asked_for_once() -> None:
    store = make()
    written = store.put("data/1", b"0123456789")
    first = store.get("data/1")
    second = store.get("data/1")
    assert (first.body, first.version) == (second.body, second.version) == (b"0123456789", written.version)
    assert first.time is not None
    assert second.time is None
    assert store.get_range("data/1", ByteRange(2, 3)) == b"234"
    assert store.get_ranges("data/1", [ByteRange(8, 9), ByteRange(20, 1)]) == (b"89", b"")
    assert gets(store) == 1
    assert (store.stats().hits, store.stats().misses) == (4, 1)


def test_a_mutable_object_is_asked_for_every_time() -> None:
    store = make()
    store.put("block0", b"1")
    store.get("block0")
    store.inner.put("block0", b"2")
    assert store.get("block0").body == b"2"
    assert store.get_range("block0", ByteRange(0, 1)) == b"2"
    assert gets(store) == 3
    assert store.stats().bytes_held == 0


def test_misses_and_errors_are_not_remembered() -> None:
    faults = FaultStore(MemoryStore(), {2: Fault.UNAVAILABLE_503})
    store = make(inner=faults)
    with pytest.raises(NotFoundError):
        store.get("data/1")
    with pytest.raises(UnavailableError):
        store.get("data/1")
    assert store.probe("data/1").found is None
    faults.put("data/1", b"now")
    assert store.get("data/1").body == b"now"


def test_probe_always_asks_and_keeps_what_it_finds() -> None:
    store = make()
    store.inner.put("data/1", b"1")
    for _ in range(2):
        assert store.probe("data/1").time is not None
    assert gets(store) == 2
    assert store.get("data/1").body == b"1"
    assert gets(store) == 2


@pytest.mark.parametrize("on_disk", [False, True])
def test_ranges_are_cut_out_of_wider_ones(tmp_path: Path, on_disk: bool) -> None:
    store = make(tmp_path if on_disk else None)
    body = bytes(range(200))
    store.put("data/1", body)
    assert store.get_range("data/1", ByteRange(50, 100)) == body[50:150]
    assert store.get_range("data/1", ByteRange(60, 10)) == body[60:70]
    assert store.get_ranges("data/1", [ByteRange(50, 1), ByteRange(149, 1)]) == (body[50:51], body[149:150])
    assert gets(store) == 1
    assert store.get_range("data/1", ByteRange(150, 1000)) == body[150:]
    assert store.get_range("data/1", ByteRange(190, 100)) == body[190:]
    assert gets(store) == 2
    assert store.get_ranges("data/1", [ByteRange(0, 5), ByteRange(60, 5), ByteRange(0, 5)]) == (
        body[:5],
        body[60:65],
        body[:5],
    )
    assert gets(store) == 3


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("get"), st.integers(0, 3)),
            st.tuples(st.just("range"), st.integers(0, 3), st.integers(0, 70), st.integers(0, 70)),
            st.tuples(st.just("delete"), st.integers(0, 3)),
            st.tuples(st.just("put"), st.integers(0, 3)),
        ),
        max_size=30,
    )
)
def test_answers_are_those_of_the_store_and_memory_is_bounded(steps: list[tuple[str | int, ...]]) -> None:
    store = make(bytes_max=700)
    bodies: dict[str, bytes] = {}
    for count, (verb, number, *more) in enumerate(steps):
        key = f"data/{number}"
        if verb == "put":
            bodies[key] = bytes([count + 1]) * 5 + bytes(range(50))
            store.put(key, bodies[key])
        elif verb == "delete":
            bodies.pop(key, None)
            store.delete(key)
        else:
            span = ByteRange(*(int(value) for value in more)) if more else None
            expected = bodies.get(key)
            try:
                found = store.get(key).body if span is None else store.get_range(key, span)
            except NotFoundError:
                assert expected is None
            else:
                assert expected is not None
                assert found == (expected if span is None else expected[span.start : span.stop])
        assert store.stats().bytes_held <= 700
        for each in (f"data/{place}" for place in range(4)):
            kept = [stored for (held, _), stored in store._memory._items.items() if held == each]
            assert store.held_of(each) == sum(len(stored.body) for stored in kept)


def test_the_longest_unused_goes_first() -> None:
    store = make(bytes_max=3 * (256 + len("data/1") + 1000))
    for number in (1, 2, 3):
        store.put(f"data/{number}", b"x" * 1000)
        store.get(f"data/{number}")
    store.get("data/1")
    store.put("data/4", b"x" * 1000)
    store.get("data/4")
    before = gets(store)
    for number in (1, 3, 4):
        store.get(f"data/{number}")
    assert gets(store) == before
    store.get("data/2")
    assert gets(store) == before + 1


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    store = make(tmp_path, bytes_max=500)
    store.put("data/small", b"s")
    store.get("data/small")
    store.put("data/large", b"x" * 1000)
    for _ in range(2):
        assert len(store.get("data/large").body) == 1000
    assert gets(store) == 3
    store.get("data/small")
    assert gets(store) == 3


def test_what_is_larger_than_the_cache_takes_the_place_of_nothing() -> None:
    store = make(bytes_max=2_000)
    store.put("data/small", b"x" * 100)
    store.put("data/large", b"x" * 5_000)
    store.get("data/small")
    store.get("data/large")
    before = gets(store)
    store.get("data/small")
    assert gets(store) == before


def test_writes_and_deletes_through_the_cache_forget(tmp_path: Path) -> None:
    store = make(tmp_path)
    store.put("data/1", b"first")
    store.get("data/1")
    store.get_range("data/1", ByteRange(0, 2))
    store.put("data/1", b"second")
    assert store.get("data/1").body == b"second"
    assert store.get_range("data/1", ByteRange(0, 2)) == b"se"
    for is_bulk in (False, True):
        store.put("data/1", b"again")
        store.get("data/1")
        if is_bulk:
            store.delete_many(["data/2", "data/1"])
        else:
            store.delete("data/1")
        assert files(tmp_path) == []
        with pytest.raises(NotFoundError):
            store.get("data/1")
        with pytest.raises(NotFoundError):
            store.get_range("data/1", ByteRange(0, 1))


def test_a_write_whose_outcome_is_unknown_forgets_too() -> None:
    store = make(inner=FaultStore(MemoryStore(), {3: Fault.ANSWER_LOST}))
    store.put("data/1", b"first")
    store.get("data/1")
    with pytest.raises(WormError):
        store.put("data/1", b"second")
    assert store.get("data/1").body == b"second"


def test_a_read_that_a_write_overtook_is_not_kept() -> None:
    """The answer was on its way when the object was written through the same cache."""
    inner = MemoryStore()

    class Overtaken(MeteredStore):
        def get(self, key: str) -> StoredObject:
            found = super().get(key)
            if found.body == b"old":
                store.put(key, b"new")
            return found

    store = CachedStore(Overtaken(inner), immutable=is_block, bytes_max=10_000)
    inner.put("data/1", b"old")
    assert store.get("data/1").body == b"old"
    assert store.get("data/1").body == b"new"


# --- on disk ---


def test_disk_survives_the_process_and_is_shared(tmp_path: Path) -> None:
    inner = MemoryStore("cached")
    one = make(tmp_path, inner=inner)
    version = one.put("data/1", b"0123456789").version
    one.get("data/1")
    one.get_range("data/1", ByteRange(1, 2))
    two = make(tmp_path, inner=inner)
    stored = two.get("data/1")
    assert (stored.body, stored.version, stored.time) == (b"0123456789", version, None)
    assert two.get_range("data/1", ByteRange(3, 3)) == b"345"
    assert gets(two) == 0
    three = make(tmp_path, inner=inner)
    assert three.get_range("data/1", ByteRange(3, 3)) == b"345"
    assert gets(three) == 0


def test_stores_of_other_names_do_not_meet(tmp_path: Path) -> None:
    one = make(tmp_path, inner=MemoryStore("one"))
    two = make(tmp_path, inner=MemoryStore("two"))
    one.put("data/1", b"one")
    two.put("data/1", b"two")
    assert (one.get("data/1").body, two.get("data/1").body) == (b"one", b"two")
    fresh = make(tmp_path, inner=MemoryStore("two"))
    assert fresh.get("data/1").body == b"two"
    assert gets(fresh) == 0


def test_names_on_disk_tell_nothing_and_need_no_escaping(tmp_path: Path) -> None:
    store = make(tmp_path / "cache")
    store.put("data/secret: 100% * ü", b"1")
    store.get("data/secret: 100% * ü")
    (path,) = files(tmp_path)
    assert re.fullmatch(r"cache/[0-9a-f]{2}/[0-9a-f]{62}-whole", str(path.relative_to(tmp_path)))
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0


def damaged(content: bytes) -> list[bytes]:
    middle = len(content) // 2
    return [
        b"",
        content[:-1],
        content[:middle],
        content + b"x",
        content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        bytes([content[0] ^ 1]) + content[1:],
        content[:-1] + bytes([content[-1] ^ 0x80]),
        b"something else entirely",
    ]


@pytest.mark.parametrize("case", range(8))
@pytest.mark.parametrize("span", [None, ByteRange(2, 4)])
def test_a_damaged_file_is_noticed_and_fetched_again(tmp_path: Path, case: int, span: ByteRange | None) -> None:
    inner = MemoryStore("damaged")

    def read(store: CachedStore) -> bytes:
        return store.get("data/1").body if span is None else store.get_range("data/1", span)

    first = make(tmp_path, inner=inner)
    first.put("data/1", b"0123456789")
    expected = read(first)
    (path,) = files(tmp_path)
    path.write_bytes(damaged(path.read_bytes())[case])
    second = make(tmp_path, inner=inner)
    assert read(second) == expected
    assert gets(second) == 1
    third = make(tmp_path, inner=inner)
    assert read(third) == expected
    assert gets(third) == 0


def test_a_file_of_another_object_is_noticed(tmp_path: Path) -> None:
    inner = MemoryStore("swapped")
    store = make(tmp_path, inner=inner)
    for number in (1, 2):
        store.put(f"data/{number}", b"body %d" % number)
        store.get(f"data/{number}")
    one, two = files(tmp_path)
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    fresh = make(tmp_path, inner=inner)
    assert [fresh.get(f"data/{number}").body for number in (1, 2)] == [b"body 1", b"body 2"]
    assert gets(fresh) == 2


def test_the_folder_is_bounded(tmp_path: Path) -> None:
    inner = MemoryStore("bounded")
    store = CachedStore(inner, immutable=is_block, bytes_max=0, folder=tmp_path, folder_bytes_max=50_000)
    for number in range(100):
        store.put(f"data/{number}", b"x" * 2_000)
        store.get(f"data/{number}")
        # One sixteenth more may be written before the folder is measured again.
        assert sum(path.stat().st_size for path in files(tmp_path)) <= 50_000 * 17 // 16 + 2_300
    assert sum(path.stat().st_size for path in files(tmp_path)) > 30_000
    assert store.get("data/99").body == b"x" * 2_000
    assert store.stats().hits == 1


def test_a_new_process_trims_what_others_left(tmp_path: Path) -> None:
    inner = MemoryStore("left")
    large = CachedStore(inner, immutable=is_block, bytes_max=0, folder=tmp_path, folder_bytes_max=10**6)
    for number in range(50):
        large.put(f"data/{number}", b"x" * 2_000)
        large.get(f"data/{number}")
    small = CachedStore(inner, immutable=is_block, bytes_max=0, folder=tmp_path, folder_bytes_max=20_000)
    small.put("data/new", b"x" * 2_000)
    small.get("data/new")
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 20_000


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    others = [tmp_path / name for name in ("notes.txt", "ab/notes.txt", "photos/1.jpg", "ab/" + "0" * 62 + "-mine")]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 50_000)
        os.utime(path, (1, 1))
    store = CachedStore(MemoryStore(), immutable=is_block, bytes_max=0, folder=tmp_path, folder_bytes_max=20_000)
    for number in range(20):
        store.put(f"data/{number}", b"x" * 2_000)
        store.get(f"data/{number}")
    assert all(path.stat().st_size == 50_000 for path in others)
    assert store.get("data/19").body == b"x" * 2_000
    assert store.stats().hits == 1
    assert len(files(tmp_path)) < 20


def test_half_written_files_of_dead_processes_go(tmp_path: Path) -> None:
    (tmp_path / "ab").mkdir()
    pending = tmp_path / "ab" / ".pending-1-2"
    pending.write_bytes(b"half")
    os.utime(pending, (1, 1))
    store = make(tmp_path)
    store.put("data/1", b"1")
    store.get("data/1")
    assert not pending.exists()
    assert len(files(tmp_path)) == 1


def test_a_disk_that_fails_costs_hits_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CachedStore(MemoryStore(), immutable=is_block, bytes_max=0, folder=tmp_path, folder_bytes_max=10**6)
    store.put("data/1", b"1")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        assert store.get("data/1").body == b"1"
    assert files(tmp_path) == []
    assert store.get("data/1").body == b"1"
    assert len(files(tmp_path)) == 1


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((PermissionDeniedError, UnavailableError), match="cache folder"):
        make(tmp_path / "file" / "cache")


HAMMER = """
import sys
from wormdb.storage.cache import CachedStore
from wormdb.storage.folder.store import LocalStore
local = LocalStore(sys.argv[1])
store = CachedStore(local, immutable=bool, bytes_max=0, folder=sys.argv[2], folder_bytes_max=30_000)
for turn in range(15):
    for number in range(20):
        body = store.get(f"data/{number}").body
        assert body == bytes([number]) * 3_000, number
"""


def test_processes_share_a_small_folder_without_harm(tmp_path: Path) -> None:
    """They write, read, trim and remove under each other's hands."""
    with LocalStore(tmp_path / "store") as local:
        for number in range(20):
            local.put(f"data/{number}", bytes([number]) * 3_000)
    workers = [
        subprocess.Popen([sys.executable, "-c", HAMMER, str(tmp_path / "store"), str(tmp_path / "cache")])
        for _ in range(3)
    ]
    assert [worker.wait(timeout=60) for worker in workers] == [0, 0, 0]
    assert sum(path.stat().st_size for path in files(tmp_path / "cache")) <= 30_000 * 19 // 16 + 10_000


def test_if_absent_through_the_cache_is_the_stores() -> None:
    store = make()
    store.put("data/1", b"1", IfAbsent())
    store.get("data/1")
    store.inner.delete("data/1")
    store.put("data/1", b"2", IfAbsent())
    assert store.get("data/1").body == b"2"
