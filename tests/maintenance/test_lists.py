"""Lists under verify, repair, garbage collection and rebuild."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from unittest import mock

import msgspec
import pytest

import wormdb
from tests.engine.lists.rig import BUCKETS, WORDS, with_kinds
from tests.engine.sweeps.commits import World, world_of
from tests.jobs.rig import empty_place, pipeline
from tests.maintenance.damage import damage
from wormdb.api.database import Database
from wormdb.bql.search.fields import parse_fields
from wormdb.engine.commit.define import create_index
from wormdb.engine.lists import shelf
from wormdb.engine.lists.advance import ListEdit
from wormdb.engine.lists.definition import kind_for, list_index
from wormdb.engine.lists.draft import ListDraft, RunDraft
from wormdb.engine.lists.read import read_lists
from wormdb.engine.lists.shelf import ListFolder, ListShelf
from wormdb.engine.lists.text_kind import TextKind
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.state.successor import following_root
from wormdb.errors import CorruptionError
from wormdb.format.list_part import PartDraft
from wormdb.jobs.rebuild import RebuildOptions
from wormdb.maintenance.audit.repair import repair
from wormdb.maintenance.audit.verify import verify
from wormdb.settings import Settings
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.storage.store import Always
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.engine.lists.read import ListReader
    from wormdb.engine.tree.definition import Index
    from wormdb.format.list_run import ListHead
    from wormdb.format.root import Root
    from wormdb.maintenance.collection import StoredCollection
    from wormdb.storage.store import Store

SETTINGS = Settings(forward="manual", forward_interval_ms=0, cache_bytes=0)
PATHS = EnginePaths.of_collection("things/")
TEXT = list_index("byText", TextKind(parse_fields(["text^2", "more"], "english")))
"""The words of texts, as users index them."""
ALL = (WORDS, BUCKETS, TEXT)

with_kinds()


def database_on(store: Store, seed: int = 3) -> Database:
    world = world_of(store)
    return Database(
        MeteredStore(store, clock=world.manual),
        SerialPool(),
        settings=SETTINGS,
        schema=None,
        actor=None,
        clock=world.manual,
        chance=SeededChance(seed),
    )


def filled(world: World) -> Collection[Document]:
    """Lists in two runs, of which the newer takes entries back."""
    things = database_on(world)["things"]
    for index in ALL:
        ledger = things._ledger
        ledger.commit(create_index(ledger.batch_id(), index, seen=ledger.view()))
    things.insert_many([{"id": f"t{number:02d}", "text": f"red w{number % 7}", "n": number} for number in range(30)])
    things.forward()
    things.save({"id": "t03", "text": "blue", "n": 100})
    things.delete("t04")
    things.forward()
    return things


def site_on(store: Store, seed: int = 3) -> StoredCollection:
    return database_on(store, seed)._site("things/")


def root_on(world: World) -> Root:
    root = site_on(world).register.read().root
    assert root is not None
    return root


def head_on(world: World, name: str) -> ListHead:
    found = root_on(world).index(name)
    assert found is not None
    assert found.lists is not None
    return found.lists


def reader_on(world: World, index: Index) -> ListReader:
    ledger = database_on(world)["things"]._ledger
    found = read_lists(ledger.view(), index, ledger.trees.lists)
    assert found is not None
    return found


def test_lists_as_they_are_written_are_sound() -> None:
    world = World()
    filled(world)
    found = verify(site_on(world), unreferenced=True)
    assert found.findings == ()
    assert len(head_on(world, "byWord").runs) == 2


@pytest.mark.parametrize("how", ["flip", "truncate", "delete"])
@pytest.mark.parametrize("name", ["byWord", "byBucket", "byText"])
def test_damage_of_lists_is_found_and_mended(how: str, name: str) -> None:
    world = World()
    things = filled(world)
    things.drop_index("byBucket")  # and made again of documents, of which it learns
    things._ledger.commit(create_index(things._ledger.batch_id(), BUCKETS, seen=things._ledger.view()))
    things.forward()
    assert (head_on(world, name).trained is not None) == (name == "byBucket")
    for victim in head_on(world, name).names:
        hurt = world.copy()
        assert damage(hurt, f"{PATHS.index(name)}{victim}", how)
        found = verify(site_on(hurt))
        (finding,) = found.findings
        assert (finding.kind, finding.key) == ("index", f"{PATHS.index(name)}{victim}")
        assert ("it is missing" in finding.what) == (how == "delete")
        repair(site_on(hurt))
        assert verify(site_on(hurt)).findings == ()


@pytest.mark.parametrize("index", [WORDS, TEXT], ids=["words", "text"])
@pytest.mark.parametrize("lie", ["lacks", "has", "counts"])
def test_lists_that_do_not_say_what_the_documents_say_are_found_and_mended(lie: str, index: Index) -> None:
    world = World()
    filled(world)
    site = site_on(world)
    state = site.register.read()
    root = state.root
    assert root is not None
    stored = root.index(index.name)
    assert stored is not None
    assert stored.lists is not None
    width = len(stored.lists.tally)
    draft = RunDraft([b'"t05"'], [False], {}, (0,) * width)
    if lie == "lacks":
        draft.lists = {b"red": ListDraft(gone=[0])}
    elif lie == "has":
        columns = kind_for(index).columns
        assert columns is not None
        draft.lists = {b"red ": ListDraft([0], [b"\1" * sum(columns)])}
    else:
        draft.tally = (1, *(0,) * (width - 1))
    edit = ListEdit(stored.lists, things_folder(site, root, index), kind_for(index), site.writer, 1)
    edit.add(draft, root.applied)
    changed = msgspec.structs.replace(stored, lists=edit.head, entries=edit.head.entries)
    indexes = tuple(changed if one.name == index.name else one for one in root.indexes)
    lying = msgspec.structs.replace(root, indexes=indexes)
    site.register.swap(state, following_root(state, lying, (), site.writer, site.paths))
    said = " ".join(finding.what for finding in verify(site_on(world)).findings)
    assert {
        "lacks": 'it lacks an entry of document "t05"',
        "has": "it has 1 entries that no document has",
        "counts": "its statistics are not those of the documents",
    }[lie] in said
    repair(site_on(world))
    assert verify(site_on(world)).findings == ()


def things_folder(site: StoredCollection, root: Root, index: Index) -> ListFolder:
    return ListShelf(site.store, site.paths, site.pool).folder(root, index.name)


def test_bytes_behind_an_object_of_lists_are_found_and_mended() -> None:
    """Readers take ranges of a large object by its directory, and never see them."""
    world = World()
    filled(world)
    with mock.patch.object(shelf, "WHOLE_BYTES_MAX", 8):
        for name in ("byWord", "byBucket", "byText"):
            for victim in head_on(world, name).names:
                key, hurt = f"{PATHS.index(name)}{victim}", world.copy()
                hurt.put(key, world.get(key).body + b"!", Always())
                (finding,) = verify(site_on(hurt)).findings
                assert (finding.kind, finding.key) == ("index", key)
                repair(site_on(hurt))
                assert verify(site_on(hurt)).findings == ()


def test_a_large_object_of_lists_that_agrees_only_with_itself_is_found_and_mended() -> None:
    world = World()
    filled(world)
    part = head_on(world, "byBucket").runs[0].parts[0]
    key = f"{PATHS.index('byBucket')}{part.name}"
    body = world.get(key).body
    folder = things_folder(site_on(world), root_on(world), BUCKETS)
    (directory,) = folder.learn([part])
    pages = [body[start:stop] for start, stop in pairwise(directory.starts)]
    pages[-1] = pages[-1][:-1] + bytes([pages[-1][-1] ^ 1])
    draft = PartDraft(is_packed=False, form=directory.form, widths=directory.widths)
    for first, page in zip(directory.firsts, pages, strict=True):
        draft.add_page(first, page)
    lying, _ = draft.finish(part.name, identity=folder.scope + part.name)
    assert len(lying) == part.length
    world.put(key, lying, Always())
    with mock.patch.object(shelf, "WHOLE_BYTES_MAX", 8):
        (finding,) = verify(site_on(world)).findings
        assert (finding.key, finding.what) == (key, "index byBucket: its SHA-256 is not the one that names it")
        repair(site_on(world))
        assert verify(site_on(world)).findings == ()


def test_a_reader_believes_no_byte_of_lists_unchecked() -> None:
    world = World()
    filled(world)
    for index in ALL:
        for victim in head_on(world, index.name).names:
            hurt = world.copy()
            damage(hurt, f"{PATHS.index(index.name)}{victim}", "flip")
            reader = reader_on(hurt, index)
            with pytest.raises(CorruptionError):
                (reader.trained(), [reader.all_ids(one) for runs in reader.read_range(b"").values() for one in runs])


def test_garbage_collection_keeps_what_the_root_names_and_removes_what_it_retired() -> None:
    world = World()
    things = filled(world)
    before = {
        f"{PATHS.index(name)}{one}" for name in ("byWord", "byBucket", "byText") for one in head_on(world, name).names
    }
    for turn in range(4):
        things.save({"id": f"x{turn}", "text": "green", "n": turn})
        things.forward()
    for _ in range(3):
        database_on(world)["things"].gc()
        world.manual.advance(2 * 86_400)
    after = {
        f"{PATHS.index(name)}{one}" for name in ("byWord", "byBucket", "byText") for one in head_on(world, name).names
    }
    there = {info.key for page in world.list(PATHS.indexes) for info in page.objects}
    assert there == after
    assert before - after
    assert verify(site_on(world)).findings == ()


def test_a_rebuild_makes_the_same_lists_and_learns_anew() -> None:
    place = empty_place()
    with wormdb.connect(place, settings=wormdb.Settings(forward="manual", block_bytes=900)) as database:
        things = database["things"]
        for index in ALL:
            ledger = things._ledger
            ledger.commit(create_index(ledger.batch_id(), index, seen=ledger.view()))
        rows = ({"id": f"t{number:02d}", "text": f"red w{number % 7}", "n": number} for number in range(40))
        things.insert_many(list(rows))
        things.delete("t07")
        things.forward()
        done = pipeline(database, collection="things").rebuild(RebuildOptions(block_bytes=900))
        assert [(one.name, one.entries) for one in done.indexes] == [("byBucket", 39), ("byText", 78), ("byWord", 78)]
        site = database._site("things/")
        assert verify(site).findings == ()
        root = site.register.read().root
        assert root is not None
        made = {one.name: one.lists for one in root.indexes}
        assert made["byBucket"] is not None
        assert made["byBucket"].trained is not None
        assert made["byBucket"].trained.documents == 39


def test_an_index_says_what_it_is_and_when_it_is_outgrown() -> None:
    world = World()
    things = filled(world)
    found = things.describe_index("byBucket")
    assert (found.state, found.entries, found.runs, found.is_outgrown) == ("ready", 29, 2, True)
    assert found.size == head_on(world, "byBucket").size
    assert not things.describe_index("byWord").is_outgrown
    assert [each.name for each in things.indexes()] == ["_id", "byBucket", "byText", "byWord"]
