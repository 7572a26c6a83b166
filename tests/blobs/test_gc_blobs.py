"""Blobs go when nobody owns them, by an entry first and an hour later in fact; and never otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.blobs.blob_rig import DAY, HOUR, World, check_intact, forwarded, gc, objects, people, soft_of
from tests.engine.sweeps.commits import database_on
from wormdb.engine.commit.operations import Pending
from wormdb.errors import ConflictError, NotFoundError
from wormdb.format.blob import BlobKey
from wormdb.format.event import JobOpened
from wormdb.maintenance.gc.blobs import condemn, plan_blobs
from wormdb.system.types import StoreTime, WriteId

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.engine.ledger import Ledger
    from wormdb.format.blob import BlobReference
    from wormdb.maintenance.collection import StoredCollection
    from wormdb.maintenance.gc.blobs import BlobPlan

CONTENT = b"content"


def condemned(collection: Collection[Any]) -> set[str]:
    return {blob.key for blob in collection.list_blobs() if blob.is_condemned}


def given(world: World, *owners: str) -> tuple[Collection[Document], BlobReference]:
    """A collection with one blob, old enough to go, and documents that own it."""
    collection = people(world)
    reference = collection.put_blob(CONTENT)
    for owner in owners:
        collection.insert({"id": owner, "photo": reference})
    forwarded(collection, 2 * DAY)
    return collection, reference


def test_what_is_owned_stays_until_its_last_owner_goes() -> None:
    world = World()
    collection, reference = given(world, "1", "2")
    collection.delete("1")
    for _ in range(2):
        forwarded(collection, DAY)
        assert gc(world) == set()
        assert not condemned(collection)
    assert check_intact(world) == {reference.key}
    collection.update_one({"_id": "2"}, {"$unset": {"photo": ""}})
    forwarded(collection)
    (collected,) = database_on(world, seed=7).gc(["people/"])
    assert not any(victim.kind == "blob" for victim in collected.victims), "it is condemned, and stays for an hour"
    assert collected.waiting >= 1
    assert condemned(collection) == {str(reference.key)}
    assert collection.open_blob(reference).read() == CONTENT
    forwarded(collection, HOUR / 2)
    assert gc(world) == set()
    forwarded(collection, HOUR / 2)
    assert gc(world, dry_run=True) == {reference.sha256}
    assert objects(world) == {reference.sha256}
    assert gc(world) == {reference.sha256}
    assert objects(world) == set()
    with pytest.raises(NotFoundError, match="not there"):
        collection.open_blob(reference)


@pytest.mark.parametrize("is_forwarded", [True, False])
def test_the_tail_owns_too(is_forwarded: bool) -> None:
    world = World()
    collection, reference = given(world)
    collection.insert({"id": "late", "photo": reference})
    if is_forwarded:
        forwarded(collection)
    gc(world)
    assert not condemned(collection)
    assert check_intact(world) == {reference.key}


def test_an_upload_has_a_day_to_find_an_owner() -> None:
    world = World()
    collection = people(world)
    collection.insert({"id": "0"})
    reference = collection.put_blob(CONTENT)
    forwarded(collection, DAY - 100)
    gc(world)
    assert not condemned(collection)
    forwarded(collection, 200)
    gc(world)
    assert condemned(collection) == {str(reference.key)}


def test_a_condemned_blob_is_refused_and_written_under_another_key() -> None:
    world = World()
    collection, reference = given(world)
    late = people(world, seed=5)
    late.find_by_id("nobody")  # knows the state of before
    gc(world)
    for writer in (collection, late):
        with pytest.raises(NotFoundError, match="was removed") as caught:
            writer.insert({"id": "1", "photo": reference})
        assert "create_blob_target" in (caught.value.fix or "")
    again = late.put_blob(CONTENT)
    number = collection._access.ledger.view().number
    assert again.key == BlobKey(reference.sha256, number)
    late.insert({"id": "1", "photo": again})
    assert collection.put_blob(CONTENT) == again
    forwarded(collection, 2 * HOUR)
    assert gc(world) == {reference.key.name}
    assert objects(world) == {again.key.name}
    assert check_intact(world) == {again.key}


def test_who_writes_a_condemned_key_late_leaves_garbage_that_goes() -> None:
    world = World()
    collection, reference = given(world)
    gc(world)
    forwarded(collection, 2 * HOUR)
    assert gc(world) == {reference.sha256}
    world.put(f"people/.worm.db/blobs/{reference.sha256}", CONTENT)
    with pytest.raises(NotFoundError):
        collection.insert({"id": "1", "photo": reference})
    assert gc(world) == {reference.sha256}


def test_the_trash_owns() -> None:
    world = World()
    collection = soft_of(world)
    reference = collection.put_blob(CONTENT)
    collection.insert({"id": "1", "photo": reference})
    collection.delete("1")
    forwarded(collection, 2 * DAY)
    gc(world, folder="soft/")
    assert not condemned(collection)
    assert check_intact(world, "soft/") == {reference.key}
    collection.restore("1")
    collection.delete("1")
    collection.purge("1")
    forwarded(collection)
    gc(world, folder="soft/")
    assert condemned(collection) == {str(reference.key)}


def test_a_rollback_to_what_is_gone_is_refused() -> None:
    world = World()
    collection, reference = given(world, "1")
    collection.update_one({"_id": "1"}, {"$unset": {"photo": ""}})
    forwarded(collection)
    gc(world)
    with pytest.raises(NotFoundError, match="was removed"):
        collection.rollback("1", to_seq=1)
    assert len(collection.get_history("1")) == 2
    assert collection.open_blob(reference).read() == CONTENT


def test_other_collections_are_left_alone() -> None:
    world = World()
    _, reference = given(world)
    other = soft_of(world)
    other.insert({"id": "1", "photo": other.put_blob(CONTENT)})
    forwarded(other, 2 * DAY)
    gc(world)
    gc(world, folder="soft/")
    world.manual.advance(2 * HOUR)
    assert gc(world) == {reference.sha256}
    assert gc(world, folder="soft/") == set()
    assert check_intact(world, "soft/") == {reference.key}


def test_condemned_keys_are_forgotten_with_their_entries_and_never_used_again() -> None:
    world = World()
    collection, gone = given(world)
    kept = collection.put_blob(b"kept")
    collection.insert({"id": "1", "photo": kept})
    forwarded(collection)
    gc(world)
    number = collection._access.ledger.view().number
    forwarded(collection, 2 * HOUR)
    assert gc(world) == {gone.sha256}
    for _ in range(3):  # the log is trimmed, and the next root forgets
        forwarded(collection, 8 * DAY)
        collection.insert({"id": str(world.manual.now_ms())})
        gc(world)
    forwarded(collection)
    fresh = people(world, seed=8)
    root = fresh._access.ledger.view().place
    assert root is not None
    assert (root.root.condemned, root.root.blob_newest, root.root.blob_floor) == ((), number, 1)
    world.put(f"people/.worm.db/blobs/{gone.sha256}", CONTENT)  # by somebody who slept
    with pytest.raises(NotFoundError, match="was removed"):
        fresh.insert({"id": "2", "photo": gone})
    again = fresh.put_blob(CONTENT)
    assert again.key == BlobKey(gone.sha256, number)
    fresh.insert({"id": "2", "photo": again})
    fresh.insert({"id": "3", "photo": kept})
    assert people(world, seed=9).put_blob(b"kept") == kept, "what is owned is found, whatever its age"
    forwarded(fresh, 2 * DAY)
    gc(world)
    forwarded(fresh, 2 * HOUR)
    assert gc(world) == {gone.sha256}
    assert check_intact(world) == {again.key, kept.key}


# --- the entry that condemns ---


def planned(world: World) -> tuple[StoredCollection, Ledger, BlobPlan]:
    """What gc is about to condemn."""
    site = database_on(world, seed=7)._ledgers.site("people/")
    ledger = site.ledger()
    plan = plan_blobs(site, ledger.view(), StoreTime(world.manual.now_ms()))
    assert plan is not None
    return site, ledger, plan


def commits(collection: Collection[Document], reference: BlobReference) -> None:
    collection.insert({"id": "9", "photo": reference})


def forwards(collection: Collection[Document], reference: BlobReference) -> None:
    collection.insert({"id": "9", "photo": reference})
    forwarded(collection)


def attaches(collection: Collection[Document], reference: BlobReference) -> None:
    collection.insert_many([{"id": f"x{n}", "photo": reference, "pad": "x" * 9000} for n in range(1000)])


def comes_and_goes_to_the_trash(collection: Collection[Document], reference: BlobReference) -> None:
    collection.insert({"id": "9", "photo": reference})
    collection.delete("9")


@pytest.mark.parametrize("rival", [commits, forwards, attaches])
def test_a_writer_who_comes_between_keeps_the_blob(rival: Any) -> None:
    world = World()
    collection, reference = given(world)
    site, ledger, plan = planned(world)
    assert plan.unowned == [reference.key]
    rival(collection, reference)
    with pytest.raises(ConflictError):
        condemn(site, ledger, plan.view, plan.unowned)
    assert not condemned(collection)
    assert check_intact(world) == {reference.key}
    assert gc(world) == set()
    assert not condemned(collection)


def test_a_document_that_came_and_went_to_the_trash_keeps_the_blob() -> None:
    world = World()
    collection = soft_of(world)
    reference = collection.put_blob(CONTENT)
    forwarded(collection, 2 * DAY)
    site = database_on(world, seed=7)._ledgers.site("soft/")
    ledger = site.ledger()
    plan = plan_blobs(site, ledger.view(), StoreTime(world.manual.now_ms()))
    assert plan is not None
    comes_and_goes_to_the_trash(collection, reference)
    with pytest.raises(ConflictError):
        condemn(site, ledger, plan.view, plan.unowned)
    collection.restore("9")
    assert check_intact(world, "soft/") == {reference.key}


def test_other_writers_do_not_matter() -> None:
    world = World()
    collection, reference = given(world)
    site, ledger, plan = planned(world)
    collection.insert({"id": "9", "photo": collection.put_blob(b"another")})
    condemn(site, ledger, plan.view, plan.unowned)
    assert condemned(collection) == {str(reference.key)}


def test_an_open_job_keeps_all_blobs() -> None:
    world = World()
    collection, reference = given(world)
    ledger = collection._access.ledger
    site, condemning, plan = planned(world)
    opened = JobOpened(job=WriteId("a" * 32), kind="batch", base=ledger.view().number)
    ledger.commit(Pending("b" * 32, events=(opened,)))
    with pytest.raises(ConflictError, match="job"):
        condemn(site, condemning, plan.view, plan.unowned)
    assert planned(world)[2].unowned == []
    gc(world)
    assert not condemned(collection)
    assert collection.open_blob(reference).read() == CONTENT


def test_two_collectors_at_once() -> None:
    world = World()
    collection, reference = given(world)
    first, second = planned(world), planned(world)
    for site, ledger, plan in (first, second):
        condemn(site, ledger, plan.view, plan.unowned)
    assert condemned(collection) == {str(reference.key)}
    again = collection.put_blob(CONTENT)
    assert again.key.suffix == collection._access.ledger.view().definition.blobs.condemned[reference.key]


def test_nothing_is_collected_before_owners_are_known() -> None:
    """The index is made when the first blob comes; where documents are there already, it has to be built."""
    world = World()
    collection, reference = given(world)
    site, _, plan = planned(world)
    states = plan.view.definition.indexes
    owners = states.owners
    assert owners is not None
    for state in ("waiting", "building", "failed"):
        unready = replace(states, known={**states.known, "_blobs": replace(owners, state=state)})
        view = replace(plan.view, definition=replace(plan.view.definition, indexes=unready))
        assert plan_blobs(site, view, StoreTime(world.manual.now_ms())) is None
    assert collection.open_blob(reference).read() == CONTENT
