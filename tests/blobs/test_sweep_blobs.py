"""Every fault at every request of writing a blob and of collecting blobs, and rivals between any two requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.blobs.blob_rig import DAY, HOUR, World, check_intact, forwarded, gc, objects, people
from wormdb.errors import NotFoundError
from wormdb.storage.store import WrappedStore
from wormdb.testing.fault_store import Fault
from wormdb.testing.sweep import FAULTS, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.format.blob import BlobReference
    from wormdb.storage.store import ByteRange, ListPage, ObjectInfo, Probe, PutResult, Store, StoredObject
    from wormdb.testing.sweep import SweepCase

CONTENT, OWNED, CONDEMNED, LEFT = b"content", b"owned", b"condemned", b"left"


def start() -> World:
    """A collection with documents, some in blocks and some in the tail, and no blob yet."""
    world = World()
    collection = people(world)
    collection.insert({"id": "0"})
    forwarded(collection)
    collection.insert({"id": "1"})
    return world


def write(store: Store) -> BlobReference:
    """A blob and a document that refers to it."""
    collection = people(store, seed=2)
    reference = collection.put_blob(CONTENT)
    collection.insert({"id": "new", "photo": reference})
    return reference


def settled(world: Store) -> None:
    """Whatever happened, writing it again works, and gc takes nothing that is needed."""
    again = people(world, seed=3)
    reference = again.put_blob(CONTENT)
    again.save({"id": "again", "photo": reference})
    forwarded(again, 2 * DAY)
    gc(world)
    forwarded(again, 2 * HOUR)
    gc(world)
    assert reference.key in check_intact(world)
    assert again.open_blob(reference).read() == CONTENT


# A rival of the plain kind damages what it meets; those that write what they may come further down.
QUICK = (Fault.CRASH_AFTER, Fault.ANSWER_LOST)
REST = tuple(fault for fault in FAULTS if fault not in (*QUICK, Fault.RACE_412))
EVERY = [pytest.param(QUICK, id="quick"), pytest.param(REST, id="rest", marks=pytest.mark.long)]


@pytest.mark.parametrize("faults", EVERY)
def test_writing_a_blob_and_its_document(faults: Sequence[Fault]) -> None:
    worlds = start()

    def check(case: SweepCase[BlobReference]) -> None:
        found = check_intact(case.inner)
        if case.error is None:
            assert case.result is not None
            assert found == {case.result.key}, case.label
        assert len(objects(case.inner)) <= 1, case.label
        if case.number % 7 == 0 and (case.is_landed or case.fault is not Fault.LANDS_LATE):
            settled(case.inner)

    runs = sweep(worlds.copy, write, check, faults=faults)
    assert runs > 15


def collectable() -> tuple[World, BlobReference, BlobReference]:
    """Blobs in every state: owned, condemned long ago, left behind, and one that nobody owns."""
    world = World()
    collection = people(world)
    owned = collection.put_blob(OWNED)
    collection.insert({"id": "0", "photo": owned})
    collection.put_blob(CONDEMNED)
    forwarded(collection, 2 * DAY)
    gc(world)
    unowned = collection.put_blob(CONTENT)
    forwarded(collection, 2 * DAY)
    return world, owned, unowned


def collect(store: Store) -> set[str]:
    return gc(store, seed=4)


@pytest.mark.parametrize("faults", EVERY)
def test_collecting_blobs(faults: Sequence[Fault]) -> None:
    worlds, owned, unowned = collectable()

    def check(case: SweepCase[set[str]]) -> None:
        world = case.inner
        assert check_intact(world) == {owned.key}, case.label
        assert unowned.key.name in objects(world), "it is condemned first, and goes an hour later"
        late = people(world, seed=5)
        try:
            late.insert({"id": "late", "photo": unowned})
            wanted = {owned.key, unowned.key}
        except NotFoundError:
            again = late.put_blob(CONTENT)
            assert again.key != unowned.key
            late.insert({"id": "late", "photo": again})
            wanted = {owned.key, again.key}
        for _ in range(2):
            forwarded(late, 2 * DAY)
            gc(world)
        assert check_intact(world) == wanted, case.label
        assert objects(world) == {key.name for key in wanted}, case.label

    def judged(case: SweepCase[set[str]]) -> None:
        # What lands late is judged when it has landed: the rest of the story would run ahead of it.
        if case.fault is not Fault.LANDS_LATE or case.is_landed or not case.is_fired:
            check(case)

    runs = sweep(worlds.copy, collect, judged, faults=faults)
    assert runs > 15


class Between(WrappedStore):
    """Calls somebody else before request `number`."""

    def __init__(self, inner: Store, number: int, rival: Callable[[], None]) -> None:
        super().__init__(inner)
        self._number = number
        self._rival = rival
        self.requests = 0

    def _count(self) -> None:
        self.requests += 1
        if self.requests == self._number:
            self._rival()

    def get(self, key: str) -> StoredObject:
        self._count()
        return super().get(key)

    def get_range(self, key: str, span: ByteRange) -> bytes:
        self._count()
        return super().get_range(key, span)

    def probe(self, key: str) -> Probe:
        self._count()
        return super().probe(key)

    def head(self, key: str) -> ObjectInfo:
        self._count()
        return super().head(key)

    def list(self, prefix: str = "", **options: Any) -> Iterator[ListPage]:
        self._count()
        return super().list(prefix, **options)

    def put(self, *arguments: Any, **options: Any) -> PutResult:
        self._count()
        return super().put(*arguments, **options)

    def delete_many(self, keys: Sequence[str]) -> None:
        self._count()
        super().delete_many(keys)


def between(make: Callable[[], World], mine: Callable[[Store], Any], rival: Callable[[World], Any]) -> Iterator[World]:
    """The worlds in which a rival came between any two requests."""
    number = 0
    while True:
        number += 1
        world = make()
        store = Between(world, number, lambda world=world: rival(world))  # type: ignore[misc] # bound now
        mine(store)
        if store.requests < number:
            assert number > 5
            return
        yield world


def owns(world: World) -> None:
    """Somebody writes the same content, and a document with it."""
    other = people(world, seed=6)
    other.insert({"id": "rival", "photo": other.put_blob(CONTENT)})


def owns_and_forwards(world: World) -> None:
    owns(world)
    people(world, seed=8).forward()


@pytest.mark.parametrize("rival", [owns, owns_and_forwards])
def test_somebody_takes_the_blob_while_it_is_collected(rival: Callable[[World], None]) -> None:
    worlds, _, _ = collectable()
    for world in between(worlds.copy, collect, rival):
        later = people(world, seed=9)
        for _ in range(2):
            assert len(check_intact(world)) == 2
            forwarded(later, 2 * HOUR)
            gc(world)


def test_somebody_writes_the_same_content_meanwhile() -> None:
    worlds = start()
    for world in between(worlds.copy, write, owns):
        (key,) = check_intact(world)
        assert objects(world) == {key.name}


def test_the_blob_is_collected_while_somebody_takes_it() -> None:
    worlds, owned, _ = collectable()

    def write_again(store: Store) -> None:
        collection = people(store, seed=2, commit_seconds=9 * DAY)
        try:
            collection.insert({"id": "new", "photo": collection.put_blob(CONTENT)})
        except NotFoundError:
            collection.insert({"id": "new", "photo": collection.put_blob(CONTENT)})

    def condemned_and_gone(world: World) -> None:
        gc(world)
        world.manual.advance(2 * HOUR)
        gc(world)

    for world in between(worlds.copy, write_again, condemned_and_gone):
        keys = check_intact(world)
        assert len(keys) == 2
        assert owned.key in keys
