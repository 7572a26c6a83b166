"""Files that are called as their documents: read and adopted where they lie, written, and proposed by their keys."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wormdb
from tests.cli.printed import worm
from tests.files.adopt.rig import database_on, new_clock
from wormdb.engine.log.paths import bytes_max
from wormdb.errors import NotFoundError, WormError
from wormdb.jobs import infer
from wormdb.schema.load import load_schema
from wormdb.schema.proposal import propose_paths, show_keys
from wormdb.storage.conditions import ensure_conditions
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import Always
from wormdb.system.clock import SeededChance
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.files.adopt.adopt import Adoption
    from wormdb.storage.store import Store

USERS = {
    "ada": {"name": "Ada", "age": 36},
    "bob.smith": {"id": "bob.smith", "name": "Bob", "age": 7},
    "a%2Fb": {"name": "Slash", "age": 1},
}
IDS = ["a/b", "ada", "bob.smith"]


def schema_of(mode: str = "readwrite", path: str = "#org/@users/(id:string).json", **more: Any) -> dict[str, Any]:
    fields = {"name": {"type": "string"}, "age": {"type": "integer"}}
    model = {"path": path, "mode": mode, "fields": fields, **more}
    return {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"User": model}}


def write(place: Path, files: dict[str, Any]) -> None:
    for key, value in files.items():
        (place / key).parent.mkdir(parents=True, exist_ok=True)
        (place / key).write_text(json.dumps(value))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write(tmp_path, {f"org/users/{name}.json": value for name, value in USERS.items()})
    write(tmp_path, {"org/users/notes/readme.json": {}, "org/users/.hidden.json": {}, "other.json": {}})
    return tmp_path


def test_flat_files_of_others_are_read_where_they_are(place: Path) -> None:
    with wormdb.connect(place, schema=schema_of("readonly")) as db:
        users = db.model("User")
        assert (users.source, users.count()) == ("files", 3)
        assert sorted(row.id for row in users) == IDS
        assert [row["name"] for row in users.find("age>6", sort="age")] == ["Bob", "Ada"]
        assert [row["name"] for row in (users.find_by_id("a/b"),) if row is not None] == ["Slash"]
        assert users.exists("bob.smith")
        assert not users.exists("notes")
        assert users.find_by_id("eve") is None


def test_flat_files_are_adopted_and_written_from_then_on(place: Path) -> None:
    with wormdb.connect(place, schema=schema_of(softDelete=True, oplog=True)) as db:
        assert db.adopt("User").counts.documents == 3
        users = db.model("User")
        users.insert({"id": "eve", "name": "Eve"})
        users.update_one({"id": "ada"}, {"$set": {"age": 37}})
        users.delete("bob.smith")
        db.forward()
        (checked,) = db.verify()
        assert checked.findings == ()
    names = sorted(path.name for path in (place / "org" / "users").glob("[a-z]*.json"))
    assert names == ["a%2Fb.json", "ada.json", "eve.json"]
    assert json.loads((place / "org/users/ada.json").read_text())["age"] == 37
    trashed = [path.name for path in place.rglob("bob.smith*.json")]
    assert trashed == ["bob.smith.json"], "only the trash has it"
    with wormdb.connect(place) as again:
        assert sorted(row.id for row in again.model("User")) == ["a/b", "ada", "eve"]


def test_flat_files_that_are_lost_are_written_again(place: Path) -> None:
    with wormdb.connect(place, schema=schema_of()) as db:
        db.adopt("User")
        (place / "org/users/ada.json").unlink()
        write(place, {"org/users/bob.smith.json": {"name": "edited"}})
        (before,) = db.verify()
        assert {finding.key for finding in before.findings} == {"org/users/ada.json", "org/users/bob.smith.json"}
        db.files.sync("User")
        (after,) = db.verify()
        assert after.findings == ()
    assert json.loads((place / "org/users/ada.json").read_text())["name"] == "Ada"


def test_a_fault_at_every_write_of_an_adoption_leaves_all_or_nothing() -> None:
    def filled() -> MemoryStore:
        store = MemoryStore(clock=new_clock(), bound=bytes_max)
        ensure_conditions(store, SeededChance(0))
        for name, value in USERS.items():
            store.put(f"org/users/{name}.json", json.dumps(value).encode(), Always())
        return store

    def adopt(store: Store, seed: int = 1) -> None:
        database_on(store, schema_of(), seed, forward="manual", block_bytes=200).adopt("User", job="j")

    clean = FaultStore(filled())
    adopt(clean)
    writes = [one.number for one in clean.trace if one.verb in ("put", "delete")]
    assert len(writes) > 5
    for number in writes:
        for fault in (Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE):
            inner = filled()
            store = FaultStore(inner, {number: fault})
            with suppress(WormError, SimulatedCrash):
                adopt(store)
            assert database_on(inner, None, 2)["org/users"].count() in (0, 3), f"{fault} at {number}"
            store.land()
            adopt(inner, 3)
            after = database_on(inner, None, 4)
            assert sorted(row.id for row in after.model("User")) == IDS, f"{fault} at {number}"
            after.files.sync("User")  # of a run that ended right behind the entry the next forwarding does it
            assert after.verify(["User"])[0].is_sound, f"{fault} at {number}"


@pytest.mark.parametrize("is_skipped", [False, True], ids=["all taken", "one skipped"])
def test_a_run_that_was_cut_off_behind_its_entry_is_finished_by_the_next(is_skipped: bool) -> None:
    """Files of another log, which pass for newer than ours, are written again, however often that is cut off."""

    def filled() -> MemoryStore:
        store = MemoryStore(clock=new_clock(), bound=bytes_max)
        ensure_conditions(store, SeededChance(0))
        for name, value in USERS.items():
            store.put(f"org/users/{name}.json", json.dumps({**value, "_rev": 99}).encode(), Always())
        if is_skipped:
            store.put("org/users/worth keeping.json", b"{}", Always())
        return store

    def adopt(store: Store, seed: int = 1) -> Adoption:
        db = database_on(store, schema_of(), seed, forward="manual")
        return db.adopt("User", job="j", on_broken="skip" if is_skipped else "error")

    clean = FaultStore(filled())
    whole = adopt(clean)
    assert (whole.stale, whole.counts.skipped) == (is_skipped, is_skipped)
    traced = [one for one in clean.trace if one.verb in ("put", "delete")]
    entry = next(place for place, one in enumerate(traced) if "/committed/" in one.key)
    behind = [one.number for one in traced[entry:]]
    assert len(behind) >= (3 if is_skipped else 8)
    for number in behind:
        inner = filled()
        with suppress(WormError, SimulatedCrash):
            adopt(FaultStore(inner, {number: Fault.CRASH_AFTER}))
        again = adopt(inner, 3)
        assert again.already, number
        after = database_on(inner, None, 4)
        assert sorted(row.id for row in after.model("User")) == IDS, number
        files = {name: json.loads(inner.get(f"org/users/{name}.json").body)["_rev"] for name in USERS}
        assert set(files.values()) == {99 if is_skipped else 1}, number
        kept = inner.probe("org/users/worth keeping.json").found
        assert (kept is not None) is is_skipped, number
        assert inner.probe("org/users/.worm.db/adopt").found is None, number


# --- paths that fit ---


@pytest.mark.parametrize(
    ("keys", "paths"),
    [
        (["users/ada.json", "users/bob.json"], ["@users/(id:string).json"]),
        (["org/users/a/profile.json", "org/users/b/profile.json"], ["#org/@users/(id:string)/[profile].json"]),
        (
            ["t/acme/users/a.json", "t/beta/users/b.json", "t/beta/users/c.json"],
            ["#t/(part1:string)/@users/(id:string).json"],
        ),
        (
            ["a/1.json", "a/2.json", "b/x/data.json", "b/y/data.json", "b/z/data.json"],
            ["@b/(id:string)/[data].json", "@a/(id:string).json"],
        ),
        (["users/ada.json"], ["@users/(id:string).json"]),
        (["ada.json", "users/.x.json", "_tmp/a.json", "users/a.csv", "year=2026/a.json"], []),
        ([], []),
    ],
)
def test_paths_are_proposed_by_keys(keys: list[str], paths: list[str]) -> None:
    assert [each.path for each in propose_paths(keys)] == paths


NAMES = st.text("ab1-", min_size=1, max_size=3).filter(lambda name: name[0] not in "-." and name[-1] != "-")


@given(st.lists(st.lists(NAMES, min_size=1, max_size=4).map(lambda parts: "/".join(parts) + ".json"), unique=True))
def test_every_proposal_fits_its_keys_and_can_be_a_model(keys: list[str]) -> None:
    proposals = propose_paths(keys)
    for proposal in proposals:
        model = load_schema(schema_of(path=proposal.path)).models["User"]
        for key in proposal.keys:
            found = model.path.parse_key(key)
            assert found is not None
            assert found[1] == proposal.id_of(key)
    told = [key for proposal in proposals for key in proposal.keys]
    assert sorted(told) == sorted(key for key in keys if "/" in key)


def test_three_keys_stand_for_many() -> None:
    assert show_keys([f"k{n}" for n in range(100)]) == "k0, k50, k99"
    assert show_keys(["a"]) == "a"
    assert show_keys([]) == ""


def test_where_nothing_fits_keys_that_are_there_and_the_path_that_fits_are_told(place: Path) -> None:
    with (
        wormdb.connect(place, schema=schema_of(path="#org/@users/(id:string)/[user].json")) as db,
        pytest.raises(NotFoundError, match="nothing to adopt") as caught,
    ):
        db.adopt("User")
    assert caught.value.reason.count(".json,") == 2
    assert caught.value.fix == "give the model the path #org/@users/(id:string).json"
    with (
        wormdb.connect(place / "empty", schema=schema_of()) as db,
        pytest.raises(NotFoundError, match="no files at all"),
    ):
        db.adopt("User")


# --- worm schema infer of a place ---


def test_the_schema_of_a_place_reads_it(place: Path) -> None:
    printed = worm("schema", "infer", str(place / "org" / ".."))
    assert printed.code == 0, printed.errors
    schema = json.loads(printed.text)
    user = schema["models"]["User"]
    assert user["path"] == "#org/@users/(id:string).json"
    assert user["mode"] == "readonly"
    assert user["fields"]["age"]["type"] == "integer"
    with wormdb.connect(place, schema=schema) as db:
        assert sorted(row.id for row in db.model("User")) == IDS
        assert db.adopt("User", mode="readwrite").counts.documents == 3


LEFT_OUT = {
    "users/empty.json": (b"", "it is empty"),
    "users/list.json": (b'[{"n": 1}]', "its JSON is not an object"),
    "users/large.json": (b'{"n": 12345678901234567890}', "an integer does not fit in 64 bits"),
    "users/other.json": (b'{"id": "mine"}', "its id is 'mine', not 'other'"),
    "users/wide.json": ('{"n": 1}'.encode("utf-16"), "JSON is malformed"),
}


@pytest.mark.parametrize("key", sorted(LEFT_OUT))
def test_a_file_that_reading_would_refuse_is_told_and_the_schema_is_that_of_the_others(
    tmp_path: Path, key: str
) -> None:
    body, reason = LEFT_OUT[key]
    (tmp_path / "users").mkdir()
    (tmp_path / key).write_bytes(body)
    assert "readonly" not in worm("schema", "infer", str(tmp_path)).text
    (tmp_path / "users/ada.json").write_text('{"n": 1}')
    printed = worm("schema", "infer", str(tmp_path))
    assert f"{key} does not fit @users/(id:string).json: {reason}" in printed.errors
    schema = json.loads(printed.text)
    assert schema["models"]["User"]["fields"] == {"n": {"type": "integer", "required": True}}
    with wormdb.connect(tmp_path, schema=schema, settings=wormdb.Settings(on_broken="skip")) as db:
        assert [row.id for row in db.model("User")] == ["ada"]
    with wormdb.connect(tmp_path, schema=schema) as db, pytest.raises(wormdb.CorruptionError, match=key):
        list(db.model("User"))


def test_files_that_no_path_names_are_told(tmp_path: Path) -> None:
    for key in ("users/ada.json", "a folder/x.json", "root.json", "users/lines.ndjson", "_own/y.json", "read.md"):
        (tmp_path / key).parent.mkdir(exist_ok=True)
        (tmp_path / key).write_text('{"n": 1}')
    printed = worm("schema", "infer", str(tmp_path))
    assert [*json.loads(printed.text)["models"]] == ["User"]
    assert printed.errors == "worm: 3 files fit no path of a model: a folder/x.json, root.json, users/lines.ndjson\n"
    printed = worm("schema", "infer", str(tmp_path / "users"))
    assert "no model fits" in printed.errors
    assert "worm import" in printed.errors


def test_a_folder_with_many_files_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infer, "FOLDER_FILES", 1_000)
    for number in range(2_100):
        path = tmp_path / ("many" if number < 2_050 else "others") / f"{number:04}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"n": 1}')
    printed = worm("schema", "infer", str(tmp_path), "--limit", "5000")
    models = json.loads(printed.text)["models"]
    assert models["Many"]["fields"] == {"n": {"type": "integer"}}, "some were not looked at"
    assert models["Other"]["fields"] == {"n": {"type": "integer", "required": True}}
    assert "of many/ only the first files were looked at" in printed.errors


def test_the_path_of_the_folder_that_was_meant_is_told(tmp_path: Path) -> None:
    for key in ("anything/a.json", "anything/b.json", "customers/x.json"):
        (tmp_path / key).parent.mkdir(exist_ok=True)
        (tmp_path / key).write_text("{}")
    for path, right in (("@costumers", "@customers"), ("@unlike", "@anything")):
        with wormdb.connect(tmp_path, schema=schema_of(path=f"{path}/(id:string).json")) as db:
            with pytest.raises(NotFoundError) as caught:
                db.adopt("User")
            assert caught.value.fix == f"give the model the path {right}/(id:string).json"


def test_what_is_packed_is_read_and_adopted_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    (tmp_path / "users/ada.json").write_bytes(gzip.compress(b'{"n": 1}'))
    schema = json.loads(worm("schema", "infer", str(tmp_path)).text)
    with wormdb.connect(tmp_path, schema=schema) as db:
        assert [(row.id, row["n"]) for row in db.model("User")] == [("ada", 1)]
        assert db.adopt("User", mode="readwrite").counts.documents == 1
        db.model("User").update_one({"id": "ada"}, {"$set": {"n": 2}})
        db.forward()
        (found,) = db.verify(["User"])
        assert found.is_sound
    assert json.loads((tmp_path / "users/ada.json").read_text())["n"] == 2


def test_a_place_with_records_has_the_model_of_its_records(tmp_path: Path) -> None:
    (tmp_path / "sales" / "year=2025").mkdir(parents=True)
    (tmp_path / "sales" / "year=2025" / "a.csv").write_text("id;total\na;3\nb;4\n")
    printed = worm("schema", "infer", str(tmp_path / "sales"))
    assert printed.code == 0, printed.errors
    assert json.loads(printed.text)["models"]["Sale"]["fields"] == {"total": {"type": "integer", "required": True}}


@pytest.mark.s3
def test_the_schema_of_a_bucket_reads_and_adopts_it(s3_url: str) -> None:
    with wormdb.open_store(s3_url) as store:
        for name, value in USERS.items():
            store.put(f"users/{name}.json", json.dumps(value).encode())
    printed = worm("schema", "infer", s3_url)
    assert printed.code == 0, printed.errors
    schema = json.loads(printed.text)
    assert schema["models"]["User"]["path"] == "@users/(id:string).json"
    with wormdb.connect(s3_url, schema=schema) as db:
        assert sorted(row.id for row in db.model("User")) == IDS
        assert db.adopt("User", mode="readwrite").counts.documents == 3
