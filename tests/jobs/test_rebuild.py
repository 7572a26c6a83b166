"""What a rebuild makes is what forwarding makes: the same documents, the same entries of indexes, the same columns."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.jobs.rig import SCHEMA, SendingRunner, customers, empty_place, pipeline
from wormdb.engine.blocks.runs import Runs
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.index.shelf import IndexShelf
from wormdb.engine.state.definition import Definition
from wormdb.errors import CorruptionError
from wormdb.jobs import place
from wormdb.jobs.pipeline import Pipeline
from wormdb.jobs.place import Where
from wormdb.jobs.rebuild import RebuildOptions
from wormdb.settings import FOUND_VALUE_BYTES_MAX
from wormdb.storage.pool import SerialPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb import Database
    from wormdb.jobs.work import Item, ProgressListener, Work

SMALL = RebuildOptions(block_bytes=4_000)
INDEXES = {
    "byAge": {"field": "age"},
    "byName": {"field": "name", "unique": True},
    "byTotal": {"field": "orders.total"},
    "byStatusAge": {"fields": ["status", "age"]},
}


def shop(*manifest: str) -> dict[str, Any]:
    """The schema of customers with more indexes, and more fields if the manifest has them."""
    model = SCHEMA["models"]["Customer"]
    fields = {**{name: {"type": "string"} for name in manifest}, **model["fields"]}
    more = {"manifest": {"enabled": True, "fields": list(manifest)}} if manifest else {}
    return {**SCHEMA, "models": {"Customer": {**model, "indexes": INDEXES, "fields": fields, **more}}}


def blocks(db: Database) -> set[str]:
    """The keys of the blocks of the newest root."""
    site = db._site("customers/")
    root = site.register.read().root
    assert root is not None
    return {site.paths.block(block.name) for block in root.blocks}


def trees(db: Database) -> dict[str, list[tuple[bytes, bytes]]]:
    """All entries of all indexes of the newest root."""
    site = db._site("customers/")
    root = site.register.read().root
    assert root is not None
    shelf = IndexShelf(site.store, site.paths, SerialPool())
    return {one.name: list(shelf.reader(root, one).scan()) for one in root.indexes if one.state == "ready"}


def rows(db: Database) -> list[Any]:
    """All rows of the newest root, deleted ones too, and the declared columns that blocks have."""
    site = db._site("customers/")
    root = site.register.read().root
    assert root is not None
    runs = Runs(Shelf(site.store, site.pool, site.paths.data), root.blocks, root.block_pages)
    found = [(key, row.rev, row.seq, row.document, row.trash) for key, row in runs.scan()]
    # Others are chosen for each block, by the documents that it has.
    declared = {"_id", *(spec.path for spec in Definition.of_root(root).columns)}
    columns = {tuple(stats.path for stats in block.columns if stats.path in declared) for block in runs.blocks()}
    return [found, columns, root.rows, root.applied]


def timeless(found: list[Any]) -> list[Any]:
    """Rows without the times at which they were made: two databases are not written at once."""
    kept, _, count, applied = found
    return [[(key, rev, seq, _undated(document)) for key, rev, seq, document, _ in kept], count, applied]


def _undated(document: bytes | None) -> dict[str, Any] | None:
    if document is None:
        return None
    values: dict[str, Any] = json.loads(document)
    return {name: value for name, value in values.items() if name not in {"createdAt", "updatedAt"}}


class Disturbed(SendingRunner):
    """Lets others do something before each step of a job, and after it."""

    def __init__(self, between: Callable[[], object]) -> None:
        super().__init__(1)
        self._between = between

    def run(self, job: str, work: Work, items: Sequence[Item], told: ProgressListener | None = None) -> list[bytes]:
        self._between()
        done = super().run(job, work, items, told)
        self._between()
        return done


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["save", "save", "delete", "load", "forward"]),
        st.lists(st.integers(0, 12), min_size=1, max_size=5, unique=True),
        st.integers(0, 5),
    ),
    max_size=4,
)


def act(db: Database, done: tuple[str, list[int], int]) -> None:
    verb, ids, value = done
    model = db.model("Customer")
    if verb == "forward":
        model.forward()
        return
    with model.batch() as batch:
        for each in ids:
            if verb == "delete":
                batch.delete(f"c{each:02}")
            else:
                document = {"id": f"c{each:02}", "name": f"n{each}", "age": value, "orders": [{"total": value}]}
                batch.save({**document, "pad": "x" * (500 if verb == "load" else 1)})


def opened(url: str) -> Database:
    chosen = wormdb.Settings(forward="manual", block_bytes=600, stage_bytes=1_500, forward_interval_ms=0)
    return wormdb.connect(url, schema=shop(), apply=True, settings=chosen)


@pytest.fixture(autouse=True, scope="module")
def _hurried() -> Iterator[None]:
    """Nobody waits a second between two roots."""
    chosen = replace(place.WORKER_SETTINGS, forward_interval_ms=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, "WORKER_SETTINGS", chosen)
        yield


@pytest.mark.long
@given(ACTS, st.lists(ACTS, max_size=6))
@settings(max_examples=60)
def test_a_rebuilt_collection_is_a_forwarded_one_in_many_cases(before: list[Any], between: list[list[Any]]) -> None:
    check_rebuilt(before, between)


@given(ACTS, st.lists(ACTS, max_size=4))
@settings(max_examples=5)
def test_a_rebuilt_collection_is_a_forwarded_one(before: list[Any], between: list[list[Any]]) -> None:
    check_rebuilt(before, between)


def check_rebuilt(before: list[Any], between: list[list[Any]]) -> None:
    with opened(empty_place()) as rebuilt, opened(empty_place()) as forwarded:
        waiting = iter(between)

        def do(acts: list[Any]) -> None:
            for done in acts:
                act(rebuilt, done)
                act(forwarded, done)

        do([*before, ("save", [1], 1)])
        runner = Disturbed(lambda: do(next(waiting, [])))
        Pipeline(Where.named(rebuilt.url, "Customer"), runner).rebuild(RebuildOptions(block_bytes=600))
        for acts in waiting:
            do(acts)
        for db in (rebuilt, forwarded):
            db.model("Customer").forward()
        assert timeless(rows(rebuilt)) == timeless(rows(forwarded))
        assert trees(rebuilt) == trees(forwarded)
        assert rebuilt.verify(["Customer"])[0].findings == ()


def test_a_rebuild_makes_all_again() -> None:
    with customers(count=60) as db:
        model = db.model("Customer")
        model.forward()
        names = blocks(db)
        expected, found = (rows(db), trees(db)), list(model.find_all())
        done = pipeline(db, "Customer").rebuild(SMALL)
        assert (done.documents, done.files) == (model.count(), 0)
        assert [(one.name, one.entries) for one in done.indexes] == [("byAge", len(trees(db)["byAge"]))]
        assert (rows(db), trees(db)) == expected
        assert names.isdisjoint(blocks(db))
        assert list(model.find_all()) == found
        assert db.verify(["Customer"], unreferenced=True)[0].findings == ()


def test_a_changed_manifest_is_fresh_after_it() -> None:
    url = empty_place()
    manual = wormdb.Settings(forward="manual", block_bytes=4_000)
    with wormdb.connect(url, schema=shop("name"), apply=True, settings=manual) as db:
        # Too long to be a column that nothing declares.
        people = [{"id": f"c{n}", "name": f"n{n}", "nick": f"x{n}" + "y" * FOUND_VALUE_BYTES_MAX} for n in range(50)]
        db.model("Customer").insert_many(people)
        db.model("Customer").forward()
    with wormdb.connect(url, schema=shop("name", "nick"), apply=True, settings=manual) as db:
        model = db.model("Customer")
        assert not model.get_manifest_status().columns_fresh
        pipeline(db, "Customer").rebuild(SMALL)
    with wormdb.connect(url) as db:
        assert db.model("Customer").get_manifest_status().columns_fresh
        assert db.model("Customer").count({"nick": "x7" + "y" * FOUND_VALUE_BYTES_MAX}) == 1


def test_a_damaged_index_is_made_again_and_a_damaged_block_is_named() -> None:
    with customers(count=60) as db:
        model = db.model("Customer")
        model.forward()
        expected = trees(db)
        node = next(info.key for page in db.store.list("customers/.worm.db/indexes/") for info in page.objects)
        db.store.put(node, b"damaged")
        pipeline(db, "Customer").rebuild(SMALL)
        assert trees(db) == expected
        block = min(blocks(db))
        db.store.put(block, b"damaged")
        with pytest.raises(CorruptionError, match=rf"rebuild blocks stopped at .*{block}"):
            pipeline(db, "Customer").rebuild(SMALL)


def test_readable_files_are_mended_if_wanted() -> None:
    with customers(count=12) as db:
        db.model("Customer").forward()
        db.files.on("Customer")
        file = next(info.key for page in db.store.list("customers/c0001/") for info in page.objects)
        db.store.put(file, b"{}")
        assert pipeline(db, "Customer").rebuild(RebuildOptions(files=False)).files == 0
        assert db.store.get(file).body == b"{}"
        assert pipeline(db, "Customer").rebuild().files == 1
        assert db.store.get(file).body != b"{}"


def test_a_collection_without_documents_is_rebuilt_to_nothing() -> None:
    with wormdb.connect(empty_place(), schema=shop(), apply=True) as db:
        assert pipeline(db, "Customer").rebuild().documents == 0


@pytest.mark.parametrize("step", range(6))
def test_a_version_that_comes_meanwhile_is_not_undone_by_trees_of_before(step: int) -> None:
    """A mapping changes what documents have in an index, and leaves their revisions as they are."""
    newer = shop()
    newer["models"]["Customer"] = {**newer["models"]["Customer"], "version": 2}
    steps = iter(range(6))
    with opened(empty_place()) as db:
        act(db, ("save", list(range(9)), 3))
        db.model("Customer").forward()

        def disturb() -> None:
            if next(steps, None) == step:
                chosen = wormdb.Settings(forward="manual", forward_interval_ms=0)
                with wormdb.connect(db.url, schema=newer, settings=chosen) as other:
                    other.apply_schema(mappings={"Customer": {"$inc": {"age": 10}}})
                    for _ in range(4):
                        other.model("Customer").forward()

        Pipeline(Where.named(db.url, "Customer"), Disturbed(disturb)).rebuild(RebuildOptions(block_bytes=600))
        with wormdb.connect(db.url) as fresh:
            found = fresh.model("Customer").find({"age": 13}, strategy="index_lookup")
            assert len(list(found)) == 9
            assert not list(fresh.model("Customer").find({"age": 3}, strategy="index_lookup"))
            assert fresh.verify(["Customer"])[0].findings == ()
