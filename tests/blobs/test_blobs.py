"""Blobs as users write, read and list them."""

from __future__ import annotations

import io
import shutil
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.blobs.blob_rig import World, check_intact, forwarded, objects, people, soft_of
from tests.engine.sweeps.commits import database_on
from wormdb.api import blobs as blob_streams
from wormdb.api.blobs import BlobReader, BlobTarget
from wormdb.errors import (
    CorruptionError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from wormdb.format.blob import BlobKey, BlobReference
from wormdb.testing.fault_store import Fault, FaultStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.storage.store import Store

CONTENT = b"meow " * 100
DIGEST = sha256(CONTENT).hexdigest()
NOWHERE = {"_blob": "sha256:" + "0" * 64, "size": 1, "contentType": "text/plain"}


def test_a_blob_is_read_as_it_was_written(database_url: str) -> None:
    with wormdb.connect(database_url) as db:
        photos = db["photos"]
        with photos.create_blob_target("image/png", "cat.png") as target:
            shutil.copyfileobj(io.BytesIO(CONTENT), target, 7)
        reference = target.reference
        assert (reference.sha256, reference.size, reference.content_type, reference.name) == (
            DIGEST,
            len(CONTENT),
            "image/png",
            "cat.png",
        )
        photos.insert({"id": "1", "photo": reference, "more": [{"deep": reference}]})
        photos.forward()
    with wormdb.connect(database_url) as db:
        read = db["photos"].find_by_id("1")
        assert read is not None
        assert wormdb.reference_of(read["more"][0]["deep"]) == reference
        with db["photos"].open_blob(read["photo"]) as stream:
            assert stream.read() == CONTENT
            assert (stream.content_type, stream.size) == ("image/png", len(CONTENT))
        assert db["photos"].find(f'{{"photo._blob": "sha256:{DIGEST}"}}').count() == 1


def test_a_new_model_comes_with_its_first_blob() -> None:
    world = World()
    collection = people(world)
    reference = collection.put_blob(CONTENT)
    collection.insert({"id": "1", "photo": reference})
    assert check_intact(world) == {reference.key}
    assert [index.name for index in collection.indexes()] == ["_id", "byEmail"]
    with pytest.raises(NotFoundError):
        collection.drop_index("_blobs")
    with pytest.raises(NotFoundError):
        collection.describe_index("_blobs")
    with pytest.raises(InvalidRequestError, match="blobs"):
        collection.create_index("x", name="_blobs")


def test_the_content_type_is_guessed_from_the_name() -> None:
    collection = people(World())
    kinds = {name: collection.put_blob(b"x", name=name).content_type for name in ("a.png", "a.html", "a.unheard")}
    assert kinds == {"a.png": "image/png", "a.html": "text/html", "a.unheard": "application/octet-stream"}
    assert collection.put_blob(b"x").content_type == "application/octet-stream"


@pytest.mark.parametrize("options", [{"content_type": "nonsense"}, {"name": ""}, {"name": "a\nb"}, {"name": "x" * 256}])
def test_wrong_options_are_refused_before_anything_is_written(options: dict[str, str]) -> None:
    world = World()
    with pytest.raises(InvalidRequestError) as caught:
        people(world).create_blob_target(**options)
    assert caught.value.fix
    assert not any(page.objects for page in world.list(""))


def test_only_bytes_go_into_a_blob() -> None:
    with people(World()).create_blob_target() as target, pytest.raises(InvalidRequestError, match="encode"):
        target.write("text")  # type: ignore[arg-type] # that is what is refused


def test_a_readonly_model_takes_no_blob(tmp_path: Any) -> None:
    schema = {
        "schemaVersion": "1.0",
        "sourceOfTruth": "local",
        "models": {"Feed": {"path": "@feed/(id:string)", "mode": "readonly"}},
    }
    with wormdb.connect(str(tmp_path), schema=schema) as db, pytest.raises(PermissionDeniedError):
        db.model("Feed").create_blob_target()


def test_a_target_is_stored_by_close_alone() -> None:
    world = World()
    collection = people(world)
    target = collection.create_blob_target()
    target.write(CONTENT)
    with pytest.raises(InvalidRequestError, match="close"):
        _ = target.reference
    assert objects(world) == set()
    target.close()
    target.close()
    assert objects(world) == {DIGEST}
    assert target.closed
    assert not target.writable()
    with pytest.raises(InvalidRequestError, match="closed"):
        target.write(b"more")


def test_an_error_in_the_block_stores_nothing() -> None:
    world = World()

    def broken() -> None:
        with people(world).create_blob_target() as target:
            target.write(CONTENT)
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert objects(world) == set()
    aborted = people(world).create_blob_target()
    aborted.write(CONTENT)
    aborted.abort()
    aborted.close()
    assert objects(world) == set()


def test_close_can_be_called_again_after_an_error() -> None:
    world = World()
    collection = people(world)
    collection.put_blob(b"the first of the collection")
    store = FaultStore(world, {3: Fault.UNAVAILABLE_503})
    again = people(store, seed=2)
    target = again.create_blob_target()
    target.write(CONTENT)
    failures = 0
    for _ in range(9):
        try:
            target.close()
        except UnavailableError:
            failures += 1
    assert target.reference.sha256 == DIGEST
    assert DIGEST in objects(world)


def test_a_blob_over_the_limit_is_refused() -> None:
    target = BlobTarget(lambda *_: BlobKey(DIGEST), "text/plain", None, 10)
    target.write(b"0123456789")
    with pytest.raises(LimitExceededError, match="BLOB_BYTES_MAX"):
        target.write(b"x")
    target.close()
    assert target.reference.size == 10


def test_identical_content_is_stored_and_sent_once() -> None:
    world = World()
    first = people(world)
    first.put_blob(CONTENT, name="a.png")
    store = FaultStore(world)
    second = people(store, seed=2).put_blob(CONTENT, name="b.png")
    assert second.name == "b.png"
    assert objects(world) == {DIGEST}
    assert not [trace for trace in store.trace if trace.verb == "put" and "/blobs/" in trace.key]


def test_two_collections_never_share() -> None:
    world = World()
    mine = people(world).put_blob(CONTENT)
    assert objects(world, "soft/") == set()
    soft = soft_of(world)
    with pytest.raises(NotFoundError, match="create_blob_target"):
        soft.insert({"id": "1", "photo": mine})
    soft.put_blob(CONTENT)
    assert objects(world, "soft/") == objects(world) == {DIGEST}


def inserts(collection: Collection[Document]) -> None:
    collection.insert({"id": "1", "photo": NOWHERE})


def saves_deep(collection: Collection[Document]) -> None:
    collection.save({"id": "1", "a": [{"b": [NOWHERE]}]})


def updates(collection: Collection[Document]) -> None:
    collection.update_many({}, {"$set": {"photo": NOWHERE}})


def upserts(collection: Collection[Document]) -> None:
    collection.update_one({"_id": "9"}, {"$set": {"photo": NOWHERE}}, upsert=True)


def imports(collection: Collection[Document]) -> None:
    collection.import_records([{"id": "7", "photo": NOWHERE}])


def batches(collection: Collection[Document]) -> None:
    with collection.batch() as batch:
        batch.insert({"id": "7"})
        batch.insert({"id": "8", "photo": NOWHERE})


@pytest.mark.parametrize("write", [inserts, saves_deep, updates, upserts, imports, batches])
@pytest.mark.parametrize("has_blobs", [True, False])
def test_a_reference_to_nothing_is_refused(write: Callable[[Collection[Document]], None], has_blobs: bool) -> None:
    world = World()
    collection = people(world)
    if has_blobs:
        collection.put_blob(CONTENT)
    collection.insert({"id": "0"})
    before = collection._access.ledger.view().number
    with pytest.raises(NotFoundError, match="it is not there") as caught:
        write(collection)
    assert caught.value.fix
    assert collection._access.ledger.view().number == before


def test_a_large_batch_with_references_is_checked_too() -> None:
    world = World()
    collection = database_on(world).model("Person")
    reference = collection.put_blob(CONTENT)
    many = [{"id": f"{n:05}", "photo": reference, "pad": "x" * 9000} for n in range(1000)]
    with pytest.raises(NotFoundError):
        collection.insert_many([*many, {"id": "last", "photo": NOWHERE}])
    collection.insert_many(many)
    forwarded(collection)
    (blob,) = collection.list_blobs()
    assert blob.owners == 1000


def test_a_commit_asks_for_each_unknown_blob_once() -> None:
    world = World()
    writer = people(world)
    references = [writer.put_blob(bytes([n])) for n in range(5)]
    store = FaultStore(world)
    other = people(store, seed=2)
    other.insert_many([{"id": str(n), "all": references} for n in range(9)])
    other.insert({"id": "more", "one": references[0]})
    assert len([trace for trace in store.trace if trace.verb == "head"]) == 5
    (loaded,) = other.find({"_id": "more"})
    fresh_store = FaultStore(world)
    fresh = people(fresh_store, seed=3)
    read = fresh.find_by_id("more")
    assert read is not None
    read["note"] = "changed"
    fresh.save(read)
    assert not [trace for trace in fresh_store.trace if trace.verb == "head"]
    assert loaded["one"] == references[0]


def test_blobs_are_listed_with_their_owners() -> None:
    world = World()
    collection = people(world)
    shared, unused = collection.put_blob(b"shared"), collection.put_blob(b"unused")
    collection.insert({"id": "1", "a": shared, "b": [shared]})
    collection.insert({"id": "2", "c": {"d": shared}})
    for _ in range(2):
        found = {blob.key: blob.owners for blob in collection.list_blobs()}
        assert found == {str(shared.key): 2, str(unused.key): 0}
        forwarded(collection)
    collection.delete("1")
    assert {blob.owners for blob in collection.list_blobs()} == {0, 1}
    assert list(people(World()).list_blobs()) == []


# --- reading ---


def stored(store: Store, body: bytes, **options: Any) -> BlobReader:
    reference = BlobReference(BlobKey(sha256(body).hexdigest()), len(body))
    store.put("blob", body)
    return BlobReader(store, "blob", reference, **options)


def test_a_reader_is_a_file() -> None:
    body = bytes(range(256)) * 10
    store = FaultStore(World())
    reader = stored(store, body, read_bytes=1000)
    model = io.BytesIO(body)
    moves: list[tuple[int, int, int]] = [(0, 0, 5), (100, 0, 2000), (-7, 2, 50), (3, 1, 1), (0, 0, 0), (9999, 0, 4)]
    for offset, whence, size in [*moves, (2000, 0, -1), (0, 0, -1)]:
        assert reader.seek(offset, whence) == model.seek(offset, whence)
        wanted = model.read(size)
        got = b""
        while (size < 0 or len(got) < size) and (some := reader.read(size - len(got) if size > 0 else size)):
            got += some
        assert got == wanted
        assert reader.tell() == model.tell()
    with pytest.raises(InvalidRequestError):
        reader.seek(-1)
    with pytest.raises(InvalidRequestError):
        reader.seek(0, 7)
    assert reader.readable()
    assert reader.seekable()


def test_a_reader_asks_for_few_parts_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    world = World()
    inner = world.get_range

    def get_range(key: str, span: Any) -> bytes:
        asked.append(span.length)
        return inner(key, span)

    monkeypatch.setattr(world, "get_range", get_range)
    body = b"z" * 100_000
    assert stored(world, body, read_bytes=30_000).read() == body
    assert asked == [30_000, 30_000, 30_000, 10_000]


@pytest.mark.parametrize("damage", [lambda body: body[:-1] + b"!", lambda body: b"!" + body[1:]])
def test_another_content_is_found_when_all_was_read(damage: Callable[[bytes], bytes]) -> None:
    world = World()
    collection = people(world)
    reference = collection.put_blob(CONTENT)
    world.put(f"people/.worm.db/blobs/{DIGEST}", damage(CONTENT))
    with pytest.raises(CorruptionError, match="SHA-256"):
        collection.open_blob(reference).read()
    with collection.open_blob(reference) as part:
        part.seek(10)
        assert part.read(5) == CONTENT[10:15]


def test_another_size_is_found_at_once_and_mended_by_writing_again() -> None:
    world = World()
    collection = people(world)
    reference = collection.put_blob(CONTENT)
    world.put(f"people/.worm.db/blobs/{DIGEST}", CONTENT[:-5])
    with pytest.raises(CorruptionError, match="bytes"):
        collection.open_blob(reference)
    assert collection.put_blob(CONTENT) == reference
    assert collection.open_blob(reference).read() == CONTENT


def test_a_blob_that_is_gone_says_so() -> None:
    world = World()
    collection = people(world)
    reference = collection.put_blob(CONTENT)
    reader = collection.open_blob(reference)
    world.delete(f"people/.worm.db/blobs/{DIGEST}")
    for read in (
        reader.read,
        lambda: collection.open_blob(reference),
        lambda: collection.open_blob(str(reference.key)),
    ):
        with pytest.raises(NotFoundError, match=DIGEST) as caught:
            read()
        assert caught.value.fix
    with pytest.raises(InvalidRequestError):
        collection.open_blob("sha256:short")
    with pytest.raises(InvalidRequestError):
        collection.open_blob({"size": 5})


def test_an_empty_blob() -> None:
    collection = people(World())
    reference = collection.put_blob(b"")
    assert collection.open_blob(reference).read() == b""
    assert reference.size == 0


def test_long_blobs_are_spooled_and_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With lower limits: no piece that is held is longer than a part."""
    monkeypatch.setattr(blob_streams, "UPLOAD_PART_BYTES", 1000)
    monkeypatch.setattr("wormdb.engine.commit.blobs.UPLOAD_PART_BYTES", 1000)
    world = World()
    parts: list[int] = []

    def upload(key: str, source: Any, *, content_type: str) -> None:
        assert content_type == "text/plain"
        pieces = list(source.parts())
        parts.extend(map(len, pieces))
        world.put(key, b"".join(pieces))

    monkeypatch.setattr(world, "upload", upload)
    collection = people(world)
    body = bytes(range(250)) * 13
    reference = collection.put_blob(io.BytesIO(body), content_type="text/plain")
    assert parts == [1000, 1000, 1000, 250]
    assert collection.open_blob(reference).read() == body
