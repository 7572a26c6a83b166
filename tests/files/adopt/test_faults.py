"""Files that cannot be read, and files that do not agree: each is named, and let through only by choice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.files.adopt.bucket import BEGIN, LAYOUTS, Bucket, iso, plain, sample, schema
from tests.files.adopt.rig import database_on, world
from wormdb.errors import InvalidRequestError
from wormdb.format import json as format_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.storage.memory import MemoryStore

ROOT = LAYOUTS["root"]


def refused(bucket: Bucket, declared: dict[str, Any] | None = None, **options: Any) -> dict[str, str]:
    """Why a bucket is not adopted, by key; and nothing was written."""
    store = world(bucket)
    before = contents(store)
    with database_on(store, declared or schema(ROOT)) as database:
        dry = database.adopt("Customer", dry_run=True, **options)
        with pytest.raises(InvalidRequestError) as caught:
            database.adopt("Customer", **options)
        assert contents(store) == before
    assert dry.refused == len(caught.value.problems)
    assert set(caught.value.problems) <= set(dry.problems)
    return {problem.path: problem.reason for problem in caught.value.problems}


def contents(store: MemoryStore) -> dict[str, bytes]:
    return {found.key: store.get(found.key).body for page in store.list("") for found in page.objects}


# --- broken files ---


def test_every_broken_file_is_named() -> None:
    bucket = sample(ROOT)
    bucket.create("e", name="E")
    bucket.files[bucket.entity("a")] = '{"id": "a"'
    bucket.files[bucket.entity("d")] = '{"id": "other"}'
    bucket.files[bucket.oplog("c", 1)] = "[]"
    bucket.edit(bucket.oplog("c", 2), seq=7)
    bucket.edit(bucket.system("trash", "b") + ".worm.tombstone", deletedAt="yesterday")
    bucket.edit(bucket.oplog("e", 1), ts="1969-12-31T23:59:59Z")
    found = refused(bucket, on_mismatch="entity")
    assert set(found) == {
        bucket.entity("a"),
        bucket.entity("d"),
        bucket.oplog("c", 1),
        bucket.oplog("c", 2),
        bucket.oplog("e", 1),
        bucket.system("trash", "b") + ".worm.tombstone",
    }
    assert "other" in found[bucket.entity("d")]


def test_documents_with_broken_files_are_skipped() -> None:
    bucket = sample(ROOT)
    bucket.files[bucket.entity("a")] = "?"
    with database_on(world(bucket), schema(ROOT)) as database:
        done = database.adopt("Customer", on_broken="skip")
        assert (done.counts.skipped, done.counts.documents) == (1, 1)
        assert [problem.path for problem in done.problems] == [bucket.entity("a")]
        customers = database.model("Customer")
        assert [found.id for found in customers] == ["d"]
        assert customers.get_history("a") == []
        assert database.verify()[0].is_sound


SPOILED: dict[str, Callable[[str], str]] = {
    "sound": lambda name: json.dumps({"id": name, "name": name}),
    "cut": lambda name: json.dumps({"id": name})[:-1],
    "another": lambda _: json.dumps({"id": "another"}),
    "large": lambda name: json.dumps({"id": name, "name": "x" * 3_000}),
    "long": lambda name: json.dumps({"id": name}).ljust(10_000),
    "deep": lambda name: json.dumps({"id": name, "name": 0}).replace("0", "[" * 200 + "]" * 200),
}
# What begins with a dot is a folder of the system's own.
SEGMENTS = st.text(st.sampled_from("abAZ09 -_.%+~üé京"), min_size=1, max_size=4).filter(lambda text: text[0] != ".")


@settings(max_examples=10)
@given(st.dictionaries(SEGMENTS, st.sampled_from(sorted(SPOILED)), min_size=1, max_size=6))
@example({"plain": "sound", "müller": "sound", "北京": "sound", "a b": "sound"})
@example({"a": "sound", "big": "large"})
@example({"a": "sound", "big": "long"})
def test_what_is_adopted_and_what_is_left_out_are_all_there_is(folders: dict[str, str]) -> None:
    """Whatever folders are called, and whatever is wrong with the files in them."""
    bucket = Bucket(ROOT)
    for folder, how in folders.items():
        bucket.files[f"org/customers/{folder}/profile.json"] = SPOILED[how](folder)
    bucket.files["org/customers/sound/profile.json"] = SPOILED["sound"]("sound")
    store = world(bucket)
    keys = {found.key for page in store.list("org/") for found in page.objects}
    with pytest.MonkeyPatch.context() as patch, database_on(store, schema(ROOT), on_broken="skip") as database:
        patch.setattr(format_json, "DOCUMENT_BYTES_MAX", 2_000)
        patch.setattr(store, "_bound", lambda key: 9_000)
        readable = {found.id for found in database.model("Customer").find_all()}
        dry = database.adopt("Customer", on_broken="skip", dry_run=True)
        done = database.adopt("Customer", on_broken="skip")
        assert dry.counts == done.counts
        assert done.counts.documents + done.counts.skipped == len(keys)
        assert len({problem.path for problem in done.problems if problem.severity == "error"}) == done.counts.skipped
        assert {problem.path for problem in done.problems} <= keys
        adopted = {found.id for found in database.model("Customer").find_all()}
        assert adopted <= readable
        assert len(adopted) == done.counts.documents


def test_nothing_but_broken_files() -> None:
    bucket = Bucket(ROOT)
    bucket.put(bucket.entity("a"), [])
    database = database_on(world(bucket), schema(ROOT))
    with pytest.raises(InvalidRequestError, match="nothing is left"):
        database.adopt("Customer", on_broken="skip")


@pytest.mark.parametrize(
    ("key", "part"),
    [
        (".oplog/customers/a/1.json", "system folder"),
        (".oplog/customers/a/notes.txt", "system folder"),
        ("org/customers/x y/profile.json", "not an id"),
        ("org/customers/a/.oplog/0001.json", "system folder"),
    ],
)
def test_files_that_nobody_understands(key: str, part: str) -> None:
    bucket = sample(ROOT)
    bucket.put(key, {})
    assert part in refused(bucket)[key]


def test_files_beside_documents_are_nobodys_business() -> None:
    bucket = sample(ROOT)
    bucket.put("org/customers/a/photo.json", {})
    bucket.put("org/customers/.worm", {"model": "Customer"})
    bucket.put("org/customers/.worm.manifest.json", {})
    with database_on(world(bucket), schema(ROOT)) as database:
        assert database.adopt("Customer").problems == ()


def test_another_layout_than_the_schema_says() -> None:
    found = refused(sample(ROOT), schema(LAYOUTS["inline"]))
    assert set(found) == {".oplog/customers/", ".snapshots/customers/", ".worm.trash/customers/"}


def test_an_id_that_the_model_does_not_take() -> None:
    bucket = sample(ROOT)
    declared = schema(ROOT, path="#org/@customers/(id:uuid)/[profile].json")
    assert set(refused(bucket, declared)) == {bucket.entity(name) for name in "abcd"}


def test_values_of_a_unique_index_are_unique() -> None:
    bucket = sample(ROOT)
    bucket.create("e", name="E", email="d@x")
    bucket.create("f", name="F", email=["f@x", "d@x"])
    found = refused(bucket, on_broken="skip", on_mismatch="entity")
    assert set(found) == {bucket.entity("e"), bucket.entity("f")}
    assert "'d@x'" in found[bucket.entity("e")]
    assert "'d'" in found[bucket.entity("e")]


def test_what_does_not_fit_the_model_is_a_warning() -> None:
    bucket = sample(ROOT)
    bucket.create("e", name=5)
    with database_on(world(bucket), schema(ROOT)) as database:
        done = database.adopt("Customer")
        assert [(problem.path, problem.severity) for problem in done.problems] == [
            (f"{bucket.entity('e')}: name", "warning")
        ]
        found = database.model("Customer").find_by_id("e")
        assert found is not None
        assert found["name"] == 5


# --- files that do not agree ---


def _by_hand(bucket: Bucket) -> None:
    bucket.edit(bucket.entity("a"), name="by hand", more=1)


def _wrong_before(bucket: Bucket) -> None:
    bucket.edit(bucket.oplog("a", 2), diff={"name": ["someone", "Acme Inc"]})


def _gap(bucket: Bucket) -> None:
    del bucket.files[bucket.oplog("a", 2)]


def _no_beginning(bucket: Bucket) -> None:
    del bucket.files[bucket.oplog("a", 1)]


def _no_end(bucket: Bucket) -> None:
    del bucket.files[bucket.oplog("a", 3)]


def _nothing_to_change(bucket: Bucket) -> None:
    bucket.edit(bucket.oplog("a", 1), op="delete", snapshot=None)


def _no_snapshot(bucket: Bucket) -> None:
    bucket.edit(bucket.oplog("a", 1), snapshot=None)


def _entity_gone(bucket: Bucket) -> None:
    del bucket.files[bucket.entity("a")]


def _not_deleted(bucket: Bucket) -> None:
    bucket.put(bucket.entity("b"), {"id": "b", "name": "back"})


def _other_trash(bucket: Bucket) -> None:
    bucket.edit(bucket.system("trash", "b") + "profile.json", name="other")


def _no_delete(bucket: Bucket) -> None:
    del bucket.files[bucket.oplog("b", 2)]


def _other_delete(bucket: Bucket) -> None:
    bucket.edit(bucket.oplog("b", 2), snapshot={"name": "other"})


def _other_snapshot(bucket: Bucket) -> None:
    key = next(key for key in bucket.files if key.startswith(".snapshots/customers/a/"))
    bucket.edit(key, name="never")


_CASES: list[tuple[Callable[[Bucket], None], str, str, list[tuple[int, str]], dict[str, Any] | None]] = [
    (_by_hand, "a", "entity", [(1, "create"), (2, "update"), (3, "update"), (4, "restore")], {"name": "by hand"}),
    (_wrong_before, "a", "oplog 2", [(4, "restore")], {"name": "Acme Inc"}),
    (_gap, "a", "oplog 3", [(4, "restore")], {"name": "Acme Inc"}),
    (_no_beginning, "a", "oplog 2", [(4, "restore")], {"name": "Acme Inc"}),
    (_no_end, "a", "entity", [(1, "create"), (2, "update"), (3, "restore")], {"name": "Acme Inc"}),
    (_nothing_to_change, "a", "oplog 2", [(4, "restore")], {"name": "Acme Inc"}),
    (_no_snapshot, "a", "oplog 1", [(4, "restore")], {"name": "Acme Inc"}),
    (_entity_gone, "a", "entity", [(1, "create"), (2, "update"), (3, "update"), (4, "delete")], None),
    (_not_deleted, "b", "entity", [(1, "create"), (2, "delete"), (3, "restore")], {"name": "back"}),
    (_other_trash, "b", "trash", [(1, "create"), (2, "delete")], None),
    (_no_delete, "b", "trash", [(1, "create"), (2, "delete")], None),
    (_other_delete, "b", "oplog 2", [(2, "delete")], None),
]


@pytest.mark.parametrize(("edit", "name", "where", "past", "now"), _CASES)
def test_an_oplog_that_does_not_lead_to_the_document(
    edit: Callable[[Bucket], None], name: str, where: str, past: list[tuple[int, str]], now: dict[str, Any] | None
) -> None:
    bucket = sample(ROOT)
    edit(bucket)
    kind, _, seq = where.partition(" ")
    paths = {"entity": bucket.entity(name), "trash": bucket.system("trash", name)}
    path = bucket.oplog(name, int(seq)) if seq else paths[kind]
    assert path in refused(bucket, on_broken="skip")
    with database_on(world(bucket), schema(ROOT)) as database:
        done = database.adopt("Customer", on_mismatch="entity")
        assert (done.counts.mismatched, done.verified, done.refused) == (1, True, 0)
        assert path in {problem.path for problem in done.problems}
        customers = database.model("Customer")
        for _ in range(2):
            assert [(entry.seq, entry.op) for entry in customers.get_history(name)] == past
            found = customers.find_by_id(name)
            assert (found is None) == (now is None)
            assert found is None or now is None or now.items() <= plain(found).items()
            customers.forward()
        assert database.verify()[0].is_sound
        if now is None and name == "b":
            kept = json.loads(bucket.files[bucket.system("trash", "b") + "profile.json"])
            assert plain(customers.restore("b"))["name"] == kept["name"]
        else:
            customers.save({"id": name, "name": "after"})
        assert [entry.seq for entry in customers.get_history(name)][-1] == past[-1][0] + 1


def test_a_snapshot_of_nothing_that_ever_was() -> None:
    bucket = sample(ROOT)
    _other_snapshot(bucket)
    (path,) = refused(bucket)
    assert path.startswith(".snapshots/customers/a/")
    with database_on(world(bucket), schema(ROOT)) as database:
        database.adopt("Customer", on_mismatch="entity")
        assert database.model("Customer").list_snapshots("a") == []


def test_a_document_that_is_alive_and_in_the_trash_is_alive() -> None:
    bucket = sample(ROOT)
    bucket.put(bucket.system("trash", "a") + "profile.json", {"id": "a", "name": "old"})
    with database_on(world(bucket), schema(ROOT)) as database:
        done = database.adopt("Customer")
        assert [problem.severity for problem in done.problems] == ["warning"]
        assert [each.id for each in database.model("Customer").list_trashed()] == ["b"]


def test_a_tombstone_alone_and_a_document_without_one() -> None:
    bucket = sample(ROOT)
    del bucket.files[bucket.system("trash", "b") + "profile.json"]
    with database_on(world(bucket), schema(ROOT)) as database:
        database.adopt("Customer")
        assert plain(database.model("Customer").restore("b"))["name"] == "Bolt"
    bucket = sample(ROOT)
    del bucket.files[bucket.system("trash", "b") + ".worm.tombstone"]
    with database_on(world(bucket), schema(ROOT)) as database:
        database.adopt("Customer")
        (trashed,) = database.model("Customer").list_trashed()
        assert (trashed.deleted_at, trashed.deleted_by) == (bucket.past["b"][-1].ts, "ada")


# --- what a file cannot tell ---


def test_times_that_go_back_or_are_to_come_are_moved() -> None:
    bucket = sample(ROOT)
    bucket.edit(bucket.oplog("a", 2), ts=iso(BEGIN))
    bucket.edit(bucket.oplog("d", 3), ts="2999-01-01T00:00:00Z")
    with database_on(world(bucket), schema(ROOT)) as database:
        done = database.adopt("Customer")
        assert {(problem.path, problem.severity) for problem in done.problems} == {
            (bucket.oplog("a", 2), "warning"),
            (bucket.oplog("d", 3), "warning"),
        }
        customers = database.model("Customer")
        times = [entry.ts for entry in customers.get_history("a")]
        assert times == sorted(times)
        newest = customers.get_history("d")[-1].ts
        assert {found.id for found in customers.scan(as_of=newest)} == {"a", "d"}


def test_null_and_absent_are_told_by_the_document() -> None:
    bucket = Bucket(ROOT)
    bucket.create("a", name="A", note=1)
    bucket.update("a", note=2)
    bucket.edit(bucket.oplog("a", 2), diff={"note": [1, None]})
    bucket.update("a", name="B")
    bucket.edit(bucket.entity("a"), note=None)
    with database_on(world(bucket), schema(ROOT)) as database:
        assert database.adopt("Customer").problems == ()
        customers = database.model("Customer")
        assert [entry.diff for entry in customers.get_history("a")][1:] == [{"note": (1, None)}, {"name": ("A", "B")}]


def test_numbers_and_orders_of_other_tools() -> None:
    bucket = Bucket(ROOT)
    bucket.create("a", name="A", size=1, where={"x": 1, "y": 2})
    bucket.update("a", size=2)
    bucket.edit(bucket.entity("a"), size=2.0, where={"y": 2, "x": 1.0})
    with database_on(world(bucket), schema(ROOT)) as database:
        assert database.adopt("Customer").problems == ()
