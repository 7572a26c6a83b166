"""Files of others by date, in folders of Hive, with many documents each, and packed: read in place, some adopted."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wormdb
from tests.cli.printed import worm
from tests.files.adopt.rig import database_on, new_clock
from wormdb.engine.log.paths import bytes_max
from wormdb.errors import (
    CorruptionError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    SchemaError,
    ValidationError,
    WormError,
)
from wormdb.files.contents.names import FileNames, Placement
from wormdb.files.foreign import files as foreign_files
from wormdb.format.packed import unpack
from wormdb.format.segment import decode_folders, encode_folders
from wormdb.schema.load import load_schema
from wormdb.schema.proposal import propose_paths
from wormdb.storage.conditions import ensure_conditions
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import Always
from wormdb.system.clock import SeededChance
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.api.database import Database
    from wormdb.storage.store import Store

HIVE = {
    "year=2024/month=05/a": {"n": 1},
    "year=2024/month=06/b": {"n": 2},
    "year=2025/month=10/c": {"n": 3, "month": 11},
}
BY_DATE = {"2024/05/17/abc": {"n": 1}, "2024/05/18/abd": {"n": 2}, "2024/06/01/abc": {"n": 3}}


def schema_of(path: str, mode: str = "readonly", **fields: str) -> dict[str, Any]:
    declared = {name: {"type": kind} for name, kind in {"n": "integer", **fields}.items()}
    model = {"path": path, "mode": mode, "fields": declared}
    return {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Event": model}}


def filled(files: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore(clock=new_clock(), bound=bytes_max)
    ensure_conditions(store, SeededChance(0))
    for key, body in files.items():
        store.put(key, body, Always())
    return store


def plain(files: dict[str, Any], folder: str = "events/", extension: str = ".json") -> dict[str, bytes]:
    return {f"{folder}{name}{extension}": json.dumps(value).encode() for name, value in files.items()}


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def opened(files: dict[str, bytes], path: str, mode: str = "readonly", **fields: str) -> Database:
    return database_on(filled(files), schema_of(path, mode, **fields), 1)


# --- one document a file, in folders of any depth ---


def test_files_by_date_are_read_where_they_are() -> None:
    own = {"events/_SUCCESS.json": b"{}", "events/_delta_log/0.json": b"{}", "events/2024/.x.json": b"{}"}
    with opened(plain(BY_DATE) | own, "@events/(id:path).json") as db:
        events = db.model("Event")
        assert (events.source, events.count()) == ("files", 3)
        assert [row.id for row in events.find(sort="id")] == sorted(BY_DATE)
        assert [row["n"] for row in events.find({"id": {"$gte": "2024/06", "$lt": "2024/07"}})] == [3]
        found = events.find_by_id("2024/05/18/abd")
        assert found is not None
        assert found["n"] == 2
        assert events.exists("2024/05/17/abc")
        assert events.find_by_id("2024/05/17") is None


def test_folders_of_hive_are_fields_that_the_file_lacks() -> None:
    with opened(plain(HIVE), "@events/(id:path).json", month="integer") as db:
        events = db.model("Event")
        assert [(row["year"], row["month"]) for row in events.find(sort="n")] == [(2024, 5), (2024, 6), (2025, 11)]
        assert [row.id for row in events.find("year=2024,month>5")] == ["year=2024/month=06/b"]


@pytest.mark.parametrize("files", [BY_DATE, HIVE], ids=["by date", "Hive"])
def test_files_in_folders_are_adopted_and_written_from_then_on(files: dict[str, Any]) -> None:
    store = filled(plain(files))
    db = database_on(store, schema_of("@events/(id:path).json"), 1)
    before = db.model("Event").find_all(sort="n")
    assert db.adopt("Event").counts.documents == 3
    events = db.model("Event")
    assert [{**row} for row in events.find(sort="n")] == [{**row} for row in before]
    first, second, third = sorted(files)
    events.insert({"id": "2026/01/02/new", "n": 9})
    events.update_one({"id": first}, {"$set": {"n": 10}})
    events.delete(second)
    db.forward()
    assert db.verify()[0].findings == ()
    keys = [info.key for page in store.list("events/") for info in page.objects if "/.worm" not in info.key]
    assert keys == sorted(f"events/{name}.json" for name in (first, third, "2026/01/02/new"))
    written = json.loads(store.get(f"events/{first}.json").body)
    assert (written["id"], written["n"]) == (first, 10)
    store.delete(f"events/{third}.json")
    store.put("events/2024/stray.json", b"{}", Always())
    assert {finding.key for finding in db.verify()[0].findings} == {f"events/{third}.json", "events/2024/stray.json"}
    db.files.sync("Event")
    assert db.verify()[0].findings == ()
    assert db.drop("Event") is not None
    left = [info.key for page in store.list("events/") for info in page.objects if "/.worm" not in info.key]
    assert left == []


def test_a_crash_at_every_write_of_an_adoption_and_its_files_leaves_all_or_nothing() -> None:
    """At one in eleven; `WORMDB_STRIDE=1` tries all of them."""
    stride = int(os.environ.get("WORMDB_STRIDE", "11"))

    def work(store: Store, seed: int = 1) -> None:
        db = database_on(store, schema_of("@events/(id:path).json"), seed, forward="manual", block_bytes=200)
        db.adopt("Event", job="j")
        db.model("Event").save({"id": "2026/01/02/new", "n": 9})
        db.forward()

    clean = FaultStore(filled(plain(HIVE)))
    work(clean)
    writes = [one.number for one in clean.trace if one.verb in ("put", "delete")]
    assert len(writes) > 10
    for number in writes[::stride]:
        inner = filled(plain(HIVE))
        with suppress(WormError, SimulatedCrash):
            work(FaultStore(inner, {number: Fault.CRASH_AFTER}))
        assert database_on(inner, None, 2)["events"].count() in (0, 3, 4), number
        work(inner, 3)
        after = database_on(inner, None, 4)
        assert {row.id: row["n"] for row in after.model("Event")} == {
            **{name: value["n"] for name, value in HIVE.items()},
            "2026/01/02/new": 9,
        }, number
        assert after.verify(["Event"])[0].findings == (), number
        assert json.loads(inner.get("events/2026/01/02/new.json").body)["n"] == 9, number


@pytest.mark.parametrize("identity", ["a//b", "/a", "a/", ".x/a", "a/_b", "a.json/b", 7])
def test_an_id_that_is_not_a_path_is_refused_before_anything_is_written(identity: Any) -> None:
    with (
        opened({}, "@events/(id:path).json", "readwrite") as db,
        pytest.raises((ValidationError, InvalidRequestError)),
    ):
        db.model("Event").insert({"id": identity, "n": 1})


PARTS = st.text("ab=%. é/_", min_size=1, max_size=6)


@given(PARTS)
def test_a_path_and_its_key_are_each_others_inverse(identity: str) -> None:
    names = FileNames(load_schema(schema_of("@e/(id:path).json", "readwrite")).models["Event"], "e/", Placement())
    try:
        key = names.entity(identity)
    except InvalidRequestError:
        assert "" in identity.split("/")
        return
    assert decode_folders(encode_folders(identity)) == identity
    found = names.parse(key)
    if any(part.startswith(("_", ".")) for part in key[2:].split("/")):
        assert found is None, "hidden"
    else:
        assert found is not None
        assert (found.kind, found.id) == ("entity", identity)
        assert names.model.path.parse_key(key) == ({}, identity)
        assert names.model.path.entity_key(identity) == key


@given(st.text("ab=%2F3D./_é", max_size=9))
def test_a_key_stands_for_at_most_one_id(text: str) -> None:
    try:
        identity = decode_folders(text)
    except InvalidRequestError:
        return
    assert encode_folders(identity) == text


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("@e/(id:path)/[data].json", "is a path"),
        ("#t/(tenant:path)/@e/(id:string).json", "is a path"),
        ("@e/(id:path).parquet", "not read in place"),
        ("@e/(id:string).csv", "not read in place"),
    ],
)
def test_paths_that_cannot_be_read_are_refused_with_the_reason(path: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        load_schema(schema_of(path))


@pytest.mark.parametrize(
    ("other", "is_refused"),
    [
        ("#events/@old/(id:string).json", True),
        ("#events/@old/(id:string)/[data].json", True),
        ("#events/@old/(id:path).json", True),
        ("#events/@old/(id:string)/[data].txt", False),
        ("@event/(id:path).json", False),
    ],
)
def test_no_collection_lies_among_files_of_any_depth(other: str, is_refused: bool) -> None:
    schema = schema_of("@events/(id:path).json", "readwrite")
    schema["models"]["Other"] = {"path": other}
    for models in (schema["models"], dict(reversed(schema["models"].items()))):
        if is_refused:
            with pytest.raises(SchemaError, match="any depth"):
                load_schema({**schema, "models": models})
        else:
            assert load_schema({**schema, "models": models}).models


# --- many documents a file, and gzip ---


def test_files_of_lines_are_read_by_own_ids_or_by_file_and_line() -> None:
    files = {
        "events/2024/05/a.ndjson": lines({"n": 1}, {"id": "own", "n": 2}) + b"\r\n\n" + lines({"n": 3}),
        "events/b.ndjson": b"\xef\xbb\xbf" + lines({"_id": 7, "n": 4}),
        "events/c.ndjson": b"",
        "events/d.json": b"{}",
    }
    with opened(files, "@events/(id:path).ndjson") as db:
        events = db.model("Event")
        assert {row.id: row["n"] for row in events} == {"2024/05/a#1": 1, "own": 2, "2024/05/a#5": 3, 7: 4}
        assert [row["n"] for row in events.find("n>1", sort="-n")] == [4, 3, 2]
        assert [row["n"] for row in (events.find_by_id("own"), events.find_by_id(7)) if row is not None] == [2, 4]
        assert events.find_by_id("2024/05/a") is None
        assert (events.exists("2024/05/a#1"), events.exists("x")) == (True, False)
        assert (events.count(), events.count("n=3"), events.distinct("n")) == (4, 1, [1, 2, 3, 4])
        assert events.aggregate(sum="n")["sum"] == 10
        assert [row.id for row in events.find({"id": {"$in": ["own", "no"]}})] == ["own"]
        pages = events.find(sort="n", limit=2)
        assert [row["n"] for row in events.find(sort="n", limit=2, page=pages.next_page)] == [3, 4]


def test_a_query_over_files_of_lines_costs_a_listing_and_a_get_for_each_file() -> None:
    files = {f"events/year={year}/a.jsonl.gz": gzip.compress(lines({"n": year})) for year in range(5)}
    with opened(files, "@events/(id:path).jsonl.gz") as db:
        events = db.model("Event")
        events.find_all()
        before = db.cost()
        assert [row["year"] for row in events.find(sort="n")] == list(range(5))
        used = db.cost() - before
        assert (used.lists, used.gets, used.requests) == (1, 5, 6)
        assert events.explain().estimated_requests == 6


def test_gzip_objects_are_unpacked_also_several_members_and_plain_ones() -> None:
    body = json.dumps({"n": 1}).encode()
    files = {
        "users/a.json.gz": gzip.compress(body),
        "users/b.json.gz": gzip.compress(body[:3]) + gzip.compress(body[3:]) + b"\0\0",
        "users/c.json.gz": body,
    }
    with opened(files, "@users/(id:string).json.gz") as db:
        assert {row.id: row["n"] for row in db.model("Event")} == {"a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize("path", ["@e/(id:string).json.gz", "@e/(id:path).ndjson", "@e/(id:string).jsonl.gz"])
def test_what_is_packed_or_in_lines_is_not_written_as_files(path: str) -> None:
    schema = schema_of(path, "readwrite")
    assert load_schema(schema).models["Event"].files is False
    schema["models"]["Event"]["files"] = True
    with pytest.raises(SchemaError, match="are read, and not written"):
        load_schema(schema)


GOOD = lines({"id": "good", "n": 1})
BROKEN = {
    "not gzip": (".ndjson.gz", b"\x1f\x8brubbish", None, "cannot be unpacked"),
    "cut off": (".ndjson.gz", gzip.compress(GOOD * 50)[:-9], None, "it is cut off"),
    "checksum": (".ndjson.gz", gzip.compress(GOOD)[:-8] + bytes(8), None, "incorrect"),
    "rubbish behind": (".ndjson.gz", gzip.compress(GOOD) + b"rubbish", None, "cannot be unpacked"),
    "latin-1": (".ndjson", GOOD + b'{"n": "\xe9"}\n', 2, "line 2: it must be UTF-8: byte 8"),
    "utf-16": (".ndjson", '{"n": 1}'.encode("utf-16"), 1, "line 1: it must be UTF-8, and is UTF-16"),
    "a list": (".ndjson", GOOD + b"[1]\n", 2, "line 2: "),
    "half a line": (".ndjson", GOOD + b'\n{"n": ', 3, "line 3: "),
    "two ids": (".ndjson", b'{"id": 1, "_id": 2}', 1, "line 1: its id is"),
    "no id": (".ndjson", b'{"id": [1]}', 1, "line 1: "),
    "twice": (".ndjson", GOOD + GOOD, 2, "line 2: another document has its id, 'good'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read_is_named_by_key_and_line(name: str) -> None:
    extension, body, line, reason = BROKEN[name]
    key = f"events/x{extension}"
    whole = lines({"id": "whole", "n": 2})
    files = {key: body, f"events/y{extension}": gzip.compress(whole) if extension.endswith("gz") else whole}
    with opened(files, f"@events/(id:string){extension}") as db, pytest.raises(CorruptionError) as caught:
        db.model("Event").find_all()
    assert caught.value.key == key
    assert reason in caught.value.reason
    with database_on(filled(files), schema_of(f"@events/(id:string){extension}"), 1, on_broken="skip") as db:
        found = db.model("Event").find(sort="id")
        good = ["good"] if body.startswith(GOOD) else []
        assert [row.id for row in found] == [*good, "whole"]
        assert list(found.skipped) == [key if line is None else f"{key}:{line}"]


def test_a_bomb_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(bytes(30_000_000), 9)
    with pytest.raises(LimitExceededError, match=r"events/x\.gz") as caught:
        unpack(bomb, key="events/x.gz", limit=1_000)
    assert caught.value.reason == "it has more than 1,000 bytes, unpacked"
    monkeypatch.setattr(foreign_files, "RECORDS_BYTES_MAX", 1_000)
    some = gzip.compress(lines(*({"n": n} for n in range(60))))
    with (
        opened({f"events/{n}.ndjson.gz": some for n in range(3)}, "@events/(id:string).ndjson.gz") as db,
        pytest.raises(LimitExceededError, match="events/1"),
    ):
        db.model("Event").find_all()


@given(st.binary(max_size=60), st.integers(0, 80))
def test_gzip_comes_back_and_what_is_cut_never_does(content: bytes, cut: int) -> None:
    packed = gzip.compress(content)
    assert unpack(packed, key="k", limit=60) == content
    part = packed[:cut]
    if part.startswith(b"\x1f\x8b") and len(part) < len(packed):
        with pytest.raises(CorruptionError):
            unpack(part, key="k", limit=60)


# --- paths that fit ---


@pytest.mark.parametrize(
    ("keys", "paths"),
    [
        (["events/2024/05/17/abc.json", "events/2024/06/01/x.json"], ["@events/(id:path).json"]),
        (["events/year=2024/month=05/part-0.json"], ["@events/(id:path).json"]),
        (["raw/events/dt=2024-05-17/a.ndjson.gz", "raw/events/b.ndjson.gz"], ["#raw/@events/(id:path).ndjson.gz"]),
        (["logs/2024-05-17/a.jsonl", "logs/2024-05-18/a.jsonl"], ["@logs/(id:path).jsonl"]),
        (["events/a.ndjson", "users/a.json.gz"], ["@events/(id:string).ndjson", "@users/(id:string).json.gz"]),
        (
            ["t/acme/e/2024/01/a.json", "t/bolt/e/2024/01/b.json"],
            ["#t/(part1:string)/@e/(id:path).json"],
        ),
        (["users/1001/profile.json", "users/1002/profile.json"], ["@users/(id:string)/[profile].json"]),
        (["users/2024/profile.json", "users/eve/profile.json"], ["@users/(id:string)/[profile].json"]),
        (["events/year=2024/_temporary/a.json", "events/year=2024/a.parquet"], []),
    ],
)
def test_paths_are_proposed_for_folders_lines_and_gzip(keys: list[str], paths: list[str]) -> None:
    proposals = propose_paths(keys)
    assert [each.path for each in proposals] == paths
    for each in proposals:
        template = load_schema(schema_of(each.path)).models["Event"].path
        parsed = [template.parse_key(key) for key in each.keys]
        assert [found[1] for found in parsed if found is not None] == [each.id_of(key) for key in each.keys]


def write(place: Path, files: dict[str, bytes]) -> None:
    for key, body in files.items():
        (place / key).parent.mkdir(parents=True, exist_ok=True)
        (place / key).write_bytes(body)


def test_the_schema_that_is_inferred_reads_all_of_a_place(tmp_path: Path) -> None:
    write(tmp_path, plain(BY_DATE, "dated/") | plain(HIVE, "hive/"))
    write(tmp_path, {f"lines/{n}.ndjson.gz": gzip.compress(lines({"n": n}, {"n": n + 1})) for n in (1, 3)})
    write(tmp_path, {"flat/a.json.gz": gzip.compress(b'{"n": 1}')})
    printed = worm("schema", "infer", str(tmp_path))
    assert printed.code == 0, printed.errors
    schema = json.loads(printed.text)
    assert {name: model["path"] for name, model in schema["models"].items()} == {
        "Dated": "@dated/(id:path).json",
        "Hive": "@hive/(id:path).json",
        "Line": "@lines/(id:string).ndjson.gz",
        "Flat": "@flat/(id:string).json.gz",
    }
    assert schema["models"]["Hive"]["fields"]["month"]["type"] == "integer"
    with wormdb.connect(tmp_path, schema=schema) as db:
        assert [db.model(name).aggregate(sum="n")["sum"] for name in ("Dated", "Hive", "Line", "Flat")] == [6, 6, 10, 1]
        assert [row["month"] for row in db.model("Hive").find(sort="n")] == [5, 6, 11]


def test_files_by_date_are_imported_under_their_paths(tmp_path: Path) -> None:
    write(tmp_path / "lake", plain(BY_DATE, ""))
    (tmp_path / "schema.json").write_text(json.dumps(schema_of("@events/(id:path).json", "readwrite")))
    place = str(tmp_path / "db")
    with wormdb.connect(place, schema=tmp_path / "schema.json", apply=True):
        pass
    done = worm("import", str(tmp_path / "lake"), "--model", "Event", "--format", "entities", "--url", place)
    assert done.code == 0, done.errors
    with wormdb.connect(place) as db:
        assert {row.id: row["n"] for row in db.model("Event")} == {name: each["n"] for name, each in BY_DATE.items()}


# --- nothing fits ---


def test_a_readonly_model_that_fits_nothing_says_what_is_there_and_what_would_fit() -> None:
    files = plain({f"2024/05/{n:02}/x": {"n": n} for n in range(20)})
    with opened(files, "@events/(id:string).json") as db:
        events = db.model("Event")
        for call in (events.find_all, events.count, lambda: list(events), lambda: events.aggregate(sum="n")):
            with pytest.raises(NotFoundError, match="nothing to read at events/") as caught:
                call()
            assert caught.value.reason.count(".json") == 4, "three keys, and the path"
            assert caught.value.fix == "give the model the path @events/(id:path).json"


def test_tables_in_folders_of_hive_are_refused_with_a_pointer() -> None:
    with (
        opened({"events/year=2024/part-0.parquet": b"PAR1"}, "@events/(id:path).json") as db,
        pytest.raises(NotFoundError) as caught,
    ):
        db.model("Event").find_all()
    assert "worm import" in caught.value.fix
    assert "Spark" in caught.value.fix


def test_a_folder_without_files_is_an_error_only_if_files_are_where_no_model_is() -> None:
    elsewhere = plain(BY_DATE, "others/")
    with opened(elsewhere, "@events/(id:path).json") as db:
        for call in (db.model("Event").count, db.model("Event").find_all):
            with pytest.raises(NotFoundError, match="nothing to read at events/") as caught:
                call()
            assert caught.value.reason.count(".json") == 4, "three keys, and the path"
            assert caught.value.fix == "give the model the path @others/(id:path).json"
        assert db.model("Event").find_by_id("a") is None
    schema = schema_of("@events/(id:path).json")
    schema["models"]["Other"] = {"path": "@others/(id:path).json", "mode": "readonly"}
    empty = [
        (elsewhere, schema),
        (elsewhere, schema_of("#tenants/(t:string)/@events/(id:path).json")),
        ({"schema.json": b"{}", "others/readme.md": b"hello"}, schema_of("@events/(id:path).json")),
        ({"events/readme.md": b"hello"}, schema_of("@events/(id:path).json")),
        ({"events/a.ndjson": b"", "events/b.json": b"{}"}, schema_of("@events/(id:path).ndjson")),
        ({}, schema_of("@events/(id:path).json")),
    ]
    for files, declared in empty:
        with database_on(filled(files), declared, 1) as db:
            events = db.model("Event", t="a") if "tenants" in str(declared) else db.model("Event")
            assert (events.count(), events.find_all()) == (0, [])


@pytest.mark.s3
def test_a_bucket_is_read_by_the_schema_that_its_url_proposes(s3_url: str) -> None:
    with wormdb.connect(s3_url) as raw:
        for key, body in plain(BY_DATE, "dated/").items():
            raw.store.put(key, body)
        raw.store.put("lines/year=2024/a.ndjson.gz", gzip.compress(lines({"n": 1}, {"n": 2})))
        raw.store.put("lines/year=2025/b.ndjson.gz", gzip.compress(lines({"n": 3}))[:-5])
    printed = worm("schema", "infer", s3_url)
    assert (printed.code, "b.ndjson.gz does not fit" in printed.errors) == (0, True), "one of them is cut off"
    with wormdb.connect(s3_url) as raw:
        raw.store.put("lines/year=2025/b.ndjson.gz", gzip.compress(lines({"n": 3})))
    schema = json.loads(worm("schema", "infer", s3_url).text)
    with wormdb.connect(s3_url, schema=schema) as db:
        assert [(row.id, row["year"]) for row in db.model("Line").find("n>1", sort="n")] == [
            ("year=2024/a#2", 2024),
            ("year=2025/b#1", 2025),
        ]
        assert db.adopt("Dated").counts.documents == 3
        db.forward()
        assert db.verify(["Dated"])[0].findings == ()
