from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from bson import Binary, Decimal128, ObjectId
from hypothesis import given
from hypothesis import strategies as st

from tests.files.models import CUSTOMER, SETTINGS, TENANT, layouts, model_of, names_of
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.files.contents.names import (
    FileKey,
    FileNames,
    Placement,
    id_of,
    id_text,
    short_snapshot_name,
    snapshot_name,
)
from wormdb.format.event import FilesSwitched
from wormdb.format.key import encode_key
from wormdb.schema.layout import StorageResolver
from wormdb.schema.load import load_schema
from wormdb.schema.model import StorageDefinition
from wormdb.testing.strategies import ids

if TYPE_CHECKING:
    from wormdb.schema.model import Layout, Model

MODEL = model_of(CUSTOMER)
FLAT = model_of(CUSTOMER, path="#org/@customers/(id:any).json")
FOLDER = "org/customers/"
NOON = datetime(2026, 2, 24, 12, tzinfo=UTC)
placements = st.sampled_from(layouts())
short_ids = ids().filter(lambda identity: len(str(identity).encode()) < 60)
moments = st.integers(0, 10**16).map(
    lambda us: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us % (10**16))
)
field_paths = st.lists(st.text("abc.jsonAé _-+%/", min_size=1, max_size=8), min_size=1, max_size=3).filter(
    lambda fields: not any(name.startswith(".") for name in fields)
)


@pytest.mark.parametrize(
    ("layout", "oplog", "snapshot", "trashed", "tombstone"),
    [
        (
            "inline",
            "org/customers/abc-123/.oplog/0001.json",
            "org/customers/abc-123/.snapshots/2026-02-24T12:00:00.000000Z.json",
            "org/customers/abc-123/.worm.trash/profile.json",
            "org/customers/abc-123/.worm.trash/.worm.tombstone",
        ),
        (
            "collection",
            "org/customers/.oplog/abc-123/0001.json",
            "org/customers/.snapshots/abc-123/2026-02-24T12:00:00.000000Z.json",
            "org/customers/.worm.trash/abc-123/profile.json",
            "org/customers/.worm.trash/abc-123/.worm.tombstone",
        ),
        (
            "root",
            ".oplog/customers/abc-123/0001.json",
            ".snapshots/customers/abc-123/2026-02-24T12:00:00.000000Z.json",
            ".worm.trash/customers/abc-123/profile.json",
            ".worm.trash/customers/abc-123/.worm.tombstone",
        ),
    ],
)
def test_the_keys_of_a_document(layout: Layout, oplog: str, snapshot: str, trashed: str, tombstone: str) -> None:
    names = names_of(MODEL, Placement(layout, layout, layout, "customers/"))
    assert names.entity("abc-123") == "org/customers/abc-123/profile.json"
    assert names.oplog("abc-123", 1) == oplog
    assert names.snapshot("abc-123", NOON) == snapshot
    assert names.trashed("abc-123") == trashed
    assert names.tombstone("abc-123") == tombstone


def test_the_keys_of_tables() -> None:
    names = names_of(MODEL, Placement(name="customers/"))
    assert names.manifest == "org/customers/.worm.manifest.json"
    assert names.manifest_meta == "org/customers/.worm.manifest/_meta.json"
    assert names.manifest_partition(3) == "org/customers/.worm.manifest/partition-3.json"
    assert names.index(["status"]) == "org/customers/.worm.index/status.json"
    assert names.index(["address.city", "born"]) == "org/customers/.worm.index/address.city+born.json"
    assert names.index_meta(["status"]) == "org/customers/.worm.index/status/_meta.json"
    assert names.index_partition(["status"], 0) == "org/customers/.worm.index/status/partition-0.json"
    assert names.sentinel == "org/customers/.worm"
    assert names.roots == ("org/customers/", ".oplog/customers/", ".snapshots/customers/", ".worm.trash/customers/")


def test_folders_are_those_of_the_resolver() -> None:
    models = {"Customer": CUSTOMER, "Settings": SETTINGS, "User": TENANT}
    for layout in ("inline", "collection", "root"):
        written = {"schemaVersion": "1.0", "sourceOfTruth": "local", "storage": {"layout": layout}, "models": models}
        schema = load_schema(written)
        resolver = StorageResolver(schema)
        for model, outer in (("Customer", {}), ("Settings", {}), ("User", {"tenant": "acme"})):
            definition = schema.models[model]
            prefix = definition.path.collection_prefix(outer)
            own = prefix if outer else f"{definition.path.collection_name}/"
            names = FileNames(definition, prefix, Placement.of(schema.storage, own))
            assert names.oplog_folder("a/b") == resolver.oplog_path(model, "a/b", outer)
            assert names.snapshot_folder("a/b") == resolver.snapshot_path(model, "a/b", outer)
            assert names.trash_folder("a/b") == resolver.trash_path(model, "a/b", outer)
            assert names.entity("a/b") == definition.path.entity_key("a/b", outer)


def test_a_placement_is_what_the_schema_or_the_log_says() -> None:
    made = Placement.of(StorageDefinition("collection", snapshots="inline"), "customers/")
    assert made == Placement("collection", "inline", "collection", "customers/")
    event = FilesSwitched(enabled=True, oplog="inline", snapshots="root", trash="collection", name="x/")
    assert Placement.switched(event) == Placement("inline", "root", "collection", "x/")


# --- ids ---


@given(ids(), ids())
def test_texts_are_equal_exactly_for_equal_ids(one: Any, two: Any) -> None:
    try:
        texts = id_text(one), id_text(two)
    except LimitExceededError:
        return
    assert (texts[0] == texts[1]) == (encode_key(one) == encode_key(two))


@pytest.mark.parametrize("identity", [5, 5.0, Decimal128("5.00")])
def test_an_id_has_one_key_whatever_type_its_number_has(identity: Any) -> None:
    assert id_text(identity) == "%i5"
    assert names_of(MODEL, Placement()).parse("org/customers/%r5.0/profile.json") is None


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "%zz", "%2e", "é"])
def test_what_is_the_text_of_no_id(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        id_of(text)


# --- parse ---


@given(short_ids, placements, st.integers(1, 10**6), moments, st.sampled_from([MODEL, FLAT]))
def test_parse_is_the_inverse_of_every_name_of_a_document(
    identity: Any, placement: Placement, seq: int, ts: datetime, model: Model
) -> None:
    names = names_of(model, placement)
    known = id_of(id_text(identity))
    keys = {
        names.entity(identity): FileKey("entity", known),
        names.oplog(identity, seq): FileKey("oplog", known, seq=seq),
        names.snapshot(identity, ts): FileKey("snapshot", known, ts=ts),
        names.trashed(identity): FileKey("trashed", known),
        names.tombstone(identity): FileKey("tombstone", known),
    }
    assert len(keys) == 5
    for key, meaning in keys.items():
        assert names.parse(key) == meaning
        assert any(key.startswith(root) for root in names.roots)
        assert ".worm.db/" not in key


@given(field_paths, placements, st.integers(0, 99))
def test_parse_is_the_inverse_of_every_name_of_a_table(fields: list[str], placement: Placement, number: int) -> None:
    names = names_of(MODEL, placement)
    own = tuple(fields)
    keys = {
        names.manifest: FileKey("manifest"),
        names.manifest_meta: FileKey("manifest_meta"),
        names.manifest_partition(number): FileKey("manifest_partition", partition=number),
        names.index(own): FileKey("index", fields=own),
        names.index_meta(own): FileKey("index_meta", fields=own),
        names.index_partition(own, number): FileKey("index_partition", fields=own, partition=number),
        names.sentinel: FileKey("sentinel"),
    }
    assert len(keys) == 7
    assert {key: names.parse(key) for key in keys} == keys


@given(st.lists(field_paths, min_size=2, max_size=4, unique_by=tuple))
def test_no_index_has_a_folder_where_another_has_a_file(several: list[list[str]]) -> None:
    names = names_of(MODEL, Placement())
    for one, two in combinations(several, 2):
        files = [
            {names.index(fields), names.index_meta(fields), names.index_partition(fields, 0)} for fields in (one, two)
        ]
        assert not files[0] & files[1]
        for key in files[0]:
            assert not any(other.startswith(f"{key}/") for other in files[1])


@pytest.mark.parametrize("placement", layouts())
@pytest.mark.parametrize(
    "key",
    [
        "org/customers/.worm.db/block0",
        "org/customers/.worm.db/committed/00000000000000000001",
        "org/customers/.worm.db/files",
        "org/customers/a/notes.txt",
        "org/customers/a/orders/1/profile.json",
        "org/customers/profile.json",
        "org/customers/a/",
        "org/customers/",
        "org/other/a/profile.json",
        ".worm",
        ".worm.schema.json",
        ".oplog/customers/a/1.json",
        ".oplog/customers/a/0000.json",
        ".oplog/customers/a/00001.json",
        ".oplog/customers/a/b/0001.json",
        ".oplog/orders/a/0001.json",
        ".snapshots/customers/a/2026-02-24T12:00:00.0Z.json",
        ".snapshots/customers/a/2026-02-30T12:00:00Z.json",
        ".snapshots/customers/a/latest.json",
        "org/customers/.worm.manifest/partition-01.json",
        "org/customers/.worm.manifest.json.bak",
        "org/customers/.worm.manifest/other.json",
        "org/customers/.worm.index/status",
        "org/customers/.worm.index/%zz.json",
        "org/customers/.worm.index/%i5.json",
        "org/customers/.worm.index/status/other.json",
        "org/customers/.worm.index/a.json/_meta.json",
    ],
)
def test_what_is_not_ours(placement: Placement, key: str) -> None:
    assert names_of(MODEL, placement).parse(key) is None


@pytest.mark.parametrize("placement", layouts())
def test_a_singleton_has_one_document_in_the_folder_itself(placement: Placement) -> None:
    names = names_of(model_of(SETTINGS, "Settings"), placement)
    assert names.entity("whatever") == "org/settings/data.json"
    for key in (
        names.entity("x"),
        names.oplog("x", 1),
        names.snapshot("x", NOON),
        names.trashed("x"),
        names.tombstone("x"),
    ):
        found = names.parse(key)
        assert found is not None
        assert found.id == "singleton"
    assert names.parse(f"{names.collection}.oplog/other/0001.json") is None


def test_outer_segments_are_part_of_the_prefix() -> None:
    model = model_of(TENANT, "User")
    names = names_of(model, Placement(name="org/acme/users/"), tenant="acme")
    assert names.entity("ada") == "org/acme/users/ada/user.json"
    assert names.oplog("ada", 12) == ".oplog/org/acme/users/ada/0012.json"
    assert names.parse("org/other/users/ada/user.json") is None


@given(short_ids, placements, placements)
def test_files_of_another_layout_are_known(identity: Any, one: Placement, two: Placement) -> None:
    here = names_of(MODEL, one)
    there = names_of(MODEL, replace(two, name=one.name))
    for key in (there.oplog(identity, 3), there.snapshot(identity, NOON), there.tombstone(identity)):
        found, expected = here.parse_anywhere(key), there.parse(key)
        assert expected is not None
        assert found == replace(expected, is_elsewhere=here.parse(key) is None)
        assert any(key.startswith(root) for root in here.every_root)
    assert here.parse_anywhere(f"{FOLDER}.worm.db/block0") is None


# --- snapshots and limits ---


@pytest.mark.parametrize(
    ("ts", "name"),
    [
        (NOON, "2026-02-24T12:00:00Z.json"),
        (NOON.replace(microsecond=500_000), "2026-02-24T12:00:00.5Z.json"),
        (NOON.replace(microsecond=1), "2026-02-24T12:00:00.000001Z.json"),
        (NOON.replace(second=10), "2026-02-24T12:00:10Z.json"),
        (NOON.astimezone(timezone(timedelta(hours=2))), "2026-02-24T12:00:00Z.json"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00Z.json"),
    ],
)
def test_the_name_that_others_give_a_snapshot(ts: datetime, name: str) -> None:
    assert short_snapshot_name(ts) == name


moments = st.datetimes(timezones=st.just(UTC)) | st.builds(
    lambda ms, us: NOON + timedelta(seconds=ms / 10, microseconds=us),
    st.integers(0, 30),
    st.sampled_from([0, 0, 5, 50]),
)


@given(moments, moments)
def test_names_of_snapshots_sort_as_their_times(one: datetime, two: datetime) -> None:
    assert (snapshot_name(one) < snapshot_name(two)) == (one < two)
    names = names_of(MODEL, Placement())
    for name in (snapshot_name(one), short_snapshot_name(one)):
        assert names.parse(names.snapshot_folder("a") + name) == FileKey("snapshot", "a", ts=one)


def test_an_index_over_too_many_names() -> None:
    names = names_of(MODEL, Placement())
    with pytest.raises(LimitExceededError, match="index"):
        names.index(["a" * 120, "b" * 120])


def test_kinds_of_ids_in_keys() -> None:
    names = names_of(MODEL, Placement())
    shown = [names.entity(each).split("/")[2] for each in ("a/b", 7, ObjectId("0" * 24), Binary(bytes(16), 4), True)]
    assert shown == ["a%2Fb", "%i7", f"%o{'0' * 24}", f"%u{'0' * 32}", "%y1"]
