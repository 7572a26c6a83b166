"""A bucket of another program becomes a collection, with everything that its files tell."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.files.adopt.bucket import BEGIN, LAYOUTS, Bucket, plain, sample, schema
from tests.files.adopt.rig import check, database_on, fill, fill_folder, world
from wormdb.errors import AlreadyExistsError, InvalidRequestError, NotFoundError, SnapshotTooOldError

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.storage.memory import MemoryStore

ROOT = LAYOUTS["root"]
ONE_FORM = re.compile(r"\.[0-9]+Z(?=\.json$)")
"""The fraction in the name of a snapshot: ours always has six digits."""


def keys(store: MemoryStore) -> set[str]:
    return {found.key for page in store.list("") for found in page.objects}


# --- the whole of it ---


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_in_any_layout(tmp_path: Path, layout: str) -> None:
    bucket = sample(LAYOUTS[layout])
    fill_folder(tmp_path, bucket)
    with wormdb.connect(tmp_path, schema=schema(LAYOUTS[layout])) as database:
        done = database.adopt("Customer")
        assert (done.number, done.verified, done.resumed, done.problems) == (1, True, False, ())
        assert (done.counts.documents, done.counts.trashed, done.counts.deleted) == (2, 1, 1)
        assert (done.counts.versions, done.counts.snapshots) == (10, 2)
        assert done.counts.files == len(bucket.files)
        check(database.model("Customer"), bucket)
    # Who comes later finds the model in the bucket, and all of it in blocks.
    with wormdb.connect(tmp_path) as database:
        customers = database.model("Customer")
        assert customers.mode == "readwrite"
        customers.forward()
        check(customers, bucket)
        assert all(found.is_sound for found in database.verify(unreferenced=True))
    for key, text in bucket.files.items():
        assert (tmp_path / key).read_text() == text


@pytest.mark.s3
def test_a_bucket(s3_url: str) -> None:
    bucket = sample(LAYOUTS["mix"])
    fill(s3_url, bucket)
    with wormdb.connect(s3_url, schema=schema(LAYOUTS["mix"])) as database:
        assert database.adopt("Customer").verified
        database.model("Customer").forward()
        check(database.model("Customer"), bucket)
        assert all(found.is_sound for found in database.verify())


_ACTS = st.lists(
    st.tuples(
        st.sampled_from(["create", "update", "update", "delete", "purge", "restore", "snapshot"]),
        st.sampled_from(["a", "b", "É/x", "c"]),
        st.sampled_from(["name", "email", "note"]),
        st.sampled_from([None, "x", "y", 1, [1, {"z": None}]]),
        st.sampled_from([None, "ada"]),
    ),
    max_size=25,
)


def _acted(bucket: Bucket, acts: list[tuple[str, str, str, Any, str | None]]) -> None:
    for act, name, field, value, actor in acts:
        if act == "create" and name not in bucket.alive and name not in bucket.trash:
            bucket.create(name, actor, **({} if value is None else {field: value}))
        elif act == "update" and name in bucket.alive:
            bucket.update(name, actor, "why", **{field: value})
        elif act in ("delete", "purge") and name in bucket.alive:
            bucket.delete(name, actor, soft=act == "delete")
        elif act == "restore" and name in bucket.trash:
            bucket.restore(name, actor)
        elif act == "snapshot" and name in bucket.alive:
            bucket.snapshot(name)


class _Encoded(Bucket):
    """Writes ids as folders may be called."""

    def entity(self, name: str) -> str:
        return super().entity(name.replace("É/x", "%C3%89%2Fx"))

    def system(self, kind: str, name: str) -> str:
        return super().system(kind, name.replace("É/x", "%C3%89%2Fx"))


@settings(max_examples=15)
@given(acts=_ACTS, layout=st.sampled_from(sorted(LAYOUTS)), stamps=st.booleans(), small=st.booleans())
def test_adopted_history_is_the_oplog(
    acts: list[tuple[str, str, str, Any, str | None]], layout: str, stamps: bool, small: bool
) -> None:
    bucket = _Encoded(LAYOUTS[layout], stamps=stamps)
    bucket.create("first", name="F")
    _acted(bucket, acts)
    store = world(bucket)
    declared = schema(LAYOUTS[layout], indexes={"byName": {"field": "name"}})
    limits = {"block_bytes": 600} if small else {}
    with database_on(store, declared, **limits) as database:
        done = database.adopt("Customer")
        assert done.verified
        customers = database.model("Customer")
        check(customers, bucket)
        customers.forward()
        check(customers, bucket)
        (found,) = database.verify()
        assert found.is_sound, found.findings


# --- what can be done with it afterwards ---


def test_what_was_adopted_is_gone_on_with() -> None:
    bucket = sample(ROOT)
    with database_on(world(bucket), schema(ROOT)) as database:
        database.adopt("Customer")
        customers = database.model("Customer")
        assert plain(customers.rollback("a", to_seq=1))["name"] == "Acme Corp"
        assert customers.diff("a", 1, 2) == {"name": ("Acme Corp", "Acme Inc")}
        (moment, seq), *_ = bucket.taken["a"]
        assert customers.restore_snapshot("a", moment)["name"] == "Acme Inc"
        assert [entry.op for entry in customers.get_history("a")] == [
            "create",
            "update",
            "update",
            "restore",
            "restore",
        ]
        assert seq == 2
        assert customers.restore("b")["name"] == "Bolt"
        customers.insert({"id": "c", "name": "again"})
        assert [entry.seq for entry in customers.get_history("c")] == [1, 2, 3]
        with pytest.raises(AlreadyExistsError):
            customers.insert({"name": "twice", "email": "b@x", "id": "e"})
        customers.forward()
        assert database.verify()[0].is_sound
        with pytest.raises(SnapshotTooOldError):
            customers.find_by_id("a", as_of=BEGIN)


def test_a_log_number_before_the_adoption_has_nothing() -> None:
    with database_on(world(sample(ROOT)), schema(ROOT)) as database:
        database.adopt("Customer")
        customers = database.model("Customer")
        for _ in range(2):
            assert list(customers.scan(as_of=0)) == []
            assert {found.id for found in customers.scan(as_of=1)} == {"a", "d"}
            customers.forward()


def test_the_feed_has_each_document_once() -> None:
    bucket = sample(ROOT)
    with database_on(world(bucket), schema(ROOT)) as database:
        database.adopt("Customer")
        customers = database.model("Customer")
        changes = list(customers.watch(after=0))
        assert [(change.id, change.op, change.seq) for change in changes] == [
            ("a", "create", 3),
            ("b", "delete", 2),
            ("c", "delete", 2),
            ("d", "create", 3),
        ]
        assert {change.actor for change in changes} == {"adopter"}
        assert [plain(change.after) for change in changes if change.after] == [bucket.alive["a"], bucket.alive["d"]]
        assert [change.id for change in customers.watch(after=changes[1].resume)] == ["c", "d"]


def test_without_an_oplog_history_begins_with_the_document() -> None:
    bucket = Bucket(ROOT, keeps_oplog=False)
    bucket.create("a", name="A")
    bucket.update("a", name="B")
    bucket.create("b", name="T")
    bucket.delete("b", "ada")
    with database_on(world(bucket), schema(ROOT, oplog=False)) as database:
        done = database.adopt("Customer")
        customers = database.model("Customer")
        (only,) = customers.get_history("a")
        assert (only.seq, only.op, only.ts) == (1, "create", bucket.past["a"][0].ts)
        assert [(entry.op, entry.actor) for entry in customers.get_history("b")] == [
            ("create", None),
            ("delete", "ada"),
        ]
        assert customers.get_history("b")[1].ts == bucket.past["b"][1].ts
        assert done.problems == ()


def test_without_an_oplog_snapshots_are_versions() -> None:
    bucket = Bucket(ROOT, keeps_oplog=False, stamps=False)
    bucket.create("a", name="A")
    bucket.snapshot("a")
    bucket.update("a", name="B")
    bucket.snapshot("a")
    bucket.update("a", name="C")
    with database_on(world(bucket), schema(ROOT)) as database:
        database.adopt("Customer")
        customers = database.model("Customer")
        found = [(entry.seq, entry.op) for entry in customers.get_history("a")]
        assert found == [(1, "create"), (2, "update"), (3, "update")]
        assert [(each.ts, each.seq) for each in customers.list_snapshots("a")] == [
            (bucket.taken["a"][0][0], 1),
            (bucket.taken["a"][1][0], 2),
        ]
        assert customers.restore_snapshot("a", bucket.taken["a"][0][0])["name"] == "A"


# --- readable files ---


@pytest.mark.parametrize("layout", ["inline", "mix"])
def test_files_that_are_kept_stay_where_they_are(layout: str) -> None:
    bucket = sample(LAYOUTS[layout])
    store = world(bucket)
    with database_on(store, schema(LAYOUTS[layout], files=True)) as database:
        database.adopt("Customer")
        database.model("Customer").forward()
        check(database.model("Customer"), bucket)
        assert database.verify()[0].findings == ()
        told = {key for key in keys(store) if ".worm" not in key.replace(".worm.trash", "").replace(".worm.tomb", "")}
        assert {ONE_FORM.sub("Z", key) for key in told} == {ONE_FORM.sub("Z", key) for key in bucket.files}
        assert all(ONE_FORM.search(key) for key in told if ".snapshots/" in key)


def test_a_log_that_was_lost_is_made_again_from_the_files() -> None:
    declared = schema(ROOT, files=True, mode="readwrite")
    store = world(Bucket(ROOT))
    with database_on(store, declared, files_seconds=0) as database:
        customers = database.model("Customer")
        for name in ("a", "b", "c"):
            made = customers.insert({"id": name, "name": name, "joined": BEGIN, "more": {"x": None}})
            customers.save(made | {"email": f"{name}@x"})
        customers.snapshot("a")
        customers.delete("b", actor="ada", metadata={"why": "asked"})
        customers.purge("b")
        customers.delete("c")
        customers.rollback("a", to_seq=1)
        database.files.sync("Customer")
        before = {name: customers.get_history(name) for name in ("a", "b", "c")}
        kept, trashed = customers.list_snapshots("a"), customers.list_trashed()
        for key in keys(store):
            if "/.worm.db/" in key:
                store.delete(key)
        again = database_on(store, declared, 2, later=3600)
        done = again.adopt("Customer")
        assert (done.problems, done.stale) == ((), False)
        customers = again.model("Customer")
        for name, entries in before.items():
            found = customers.get_history(name)
            assert [replace(entry, rev=0) for entry in found] == [replace(entry, rev=0) for entry in entries]
        assert [each.seq for each in customers.list_snapshots("a")] == [each.seq for each in kept]
        assert [(each.id, each.deleted_at) for each in customers.list_trashed()] == [
            (each.id, each.deleted_at) for each in trashed
        ]
        # The files said that they were of later entries; they do not any more.
        assert again.verify()[0].findings == ()


# --- definitions ---


def test_a_definition_without_documents_is_no_obstacle() -> None:
    bucket = sample(ROOT)
    store = world(bucket)
    with database_on(store, schema(ROOT, mode="readwrite")) as database:
        database.apply_schema()
        assert database.adopt("Customer").number == 2
        check(database.model("Customer"), bucket)
        database.model("Customer").forward()
        check(database.model("Customer"), bucket)


@pytest.mark.parametrize(("mode", "given", "becomes"), [("readonly", "append", "append"), ("append", None, "append")])
def test_the_mode(mode: str, given: Any, becomes: str) -> None:
    with database_on(world(sample(ROOT)), schema(ROOT, mode=mode)) as database:
        database.adopt("Customer", **({} if given is None else {"mode": given}))
        assert database.model("Customer").mode == becomes


def test_outer_parts_of_a_path() -> None:
    bucket = Bucket(LAYOUTS["collection"])
    bucket.create("a", name="A")
    declared = schema(LAYOUTS["collection"], path="(tenant:slug)/@customers/(id:string)/[profile].json")
    with database_on(world(bucket), declared) as database:
        assert database.adopt("Customer", outer={"tenant": "org"}).counts.documents == 1
        check(database.model("Customer", tenant="org"), bucket)


def test_one_document_of_a_singleton() -> None:
    bucket = Bucket(ROOT)
    bucket.put("org/settings/data.json", {"theme": "dark"})
    declared = schema(ROOT)
    declared["models"]["Settings"] = {"path": "#org/@settings/[data].json", "mode": "readonly", "files": False}
    with database_on(world(bucket), declared) as database:
        assert database.adopt("Settings").counts.documents == 1
        found = database.model("Settings").find_by_id("any")
        assert found is not None
        assert found["theme"] == "dark"


@pytest.mark.parametrize("stamps", [True, False])
@pytest.mark.parametrize("keeps_oplog", [True, False])
def test_changes_of_what_was_adopted_say_when_it_was_created_as_its_file_did(stamps: bool, keeps_oplog: bool) -> None:
    bucket = Bucket(ROOT, stamps=stamps, keeps_oplog=keeps_oplog)
    names = ("update", "save", "blind", "modify", "replace", "batch")
    for name in names:
        bucket.create(name, name="a")
    with database_on(world(bucket), schema(ROOT)) as database:
        database.adopt("Customer")
        customers = database.model("Customer")
        before = {name: customers.find_by_id(name) for name in names}
        customers.update_one({"id": "update"}, {"$set": {"name": "b"}})
        customers.save((before["save"] or {}) | {"name": "b"})
        customers.save({"id": "blind", "name": "b"})
        customers.modify("modify", lambda customer: customer | {"name": "b"})
        customers.replace_one({"id": "replace"}, {"name": "b"})
        customers.batch().save({"id": "batch", "name": "b"}).flush()
        for name in names:
            was, now = before[name], customers.find_by_id(name)
            assert was is not None
            assert now is not None
            assert now["name"] == "b"
            assert ("createdAt" in now) == stamps
            assert now.get("createdAt") == was.get("createdAt")
            assert now["updatedAt"] != was.get("updatedAt")


# --- refused ---


def test_a_live_log_is_left_alone() -> None:
    store = world(sample(ROOT))
    with database_on(store, schema(ROOT)) as database:
        database.adopt("Customer")
        before = keys(store)
        with pytest.raises(AlreadyExistsError, match="managed already"):
            database.adopt("Customer")
        customers = database.model("Customer")
        for found in list(customers):
            customers.delete(found.id)
        with pytest.raises(AlreadyExistsError, match="managed already"):
            database.adopt("Customer", dry_run=True)
        assert before <= keys(store)


def test_a_job_is_done_once() -> None:
    store = world(sample(ROOT))
    with database_on(store, schema(ROOT)) as database:
        first = database.adopt("Customer", job="night 1")
        again = database.adopt("Customer", job="night 1")
        assert (again.already, again.number, again.job) == (True, first.number, first.job)
        assert database.adopt("Customer", job=first.job, dry_run=True).already
        assert database.model("Customer").forward() == 1


def test_nothing_to_adopt() -> None:
    database = database_on(world(Bucket(ROOT)), schema(ROOT))
    with pytest.raises(NotFoundError, match="nothing to adopt"):
        database.adopt("Customer")


@pytest.mark.parametrize(
    "options", [{"mode": "rw"}, {"on_broken": "ignore"}, {"on_mismatch": "oplog"}, {"job": ""}, {"outer": {"x": 1}}]
)
def test_bad_options_are_named(options: Any) -> None:
    database = database_on(world(sample(ROOT)), schema(ROOT))
    with pytest.raises(InvalidRequestError, match=next(iter(options))):
        database.adopt("Customer", **options)
