"""Deep and huge documents, filters and files meet a limit with a name before they meet the stack or the memory."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

import wormdb
from wormdb.api.records import read_records
from wormdb.cli.main import run
from wormdb.errors import CorruptionError, InvalidRequestError, LimitExceededError, WormError
from wormdb.format.frame import FrameKind, decode_frame, encode_frame
from wormdb.settings import (
    DOCUMENT_BYTES_MAX,
    DOCUMENT_DEPTH_MAX,
    DOCUMENT_KEYS_MAX,
    FIELD_NAME_BYTES_MAX,
    FILTER_CONDITIONS_MAX,
    FILTER_DEPTH_MAX,
    FILTER_VALUES_MAX,
    INT_MAX,
    INT_MIN,
    MIB,
    RECORD_BYTES_MAX,
    SORT_FIELDS_MAX,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

REFUSED = (InvalidRequestError, LimitExceededError)


@pytest.fixture
def things() -> Iterator[wormdb.Collection[wormdb.Document]]:
    with wormdb.connect("memory://") as database:
        yield database["things"]


def deep(levels: int, *, of: Callable[[Any], Any] = lambda inner: {"a": inner}) -> Any:
    """A document of so many levels; the document that holds it is one more."""
    value: Any = 1
    for _ in range(levels):
        value = of(value)
    return value


def text_of(size: int) -> str:
    return "x" * size


DOCUMENTS: list[tuple[str, Callable[[int], dict[str, Any]], int]] = [
    ("depth of documents", lambda size: {"id": "a", "x": deep(size - 1)}, DOCUMENT_DEPTH_MAX),
    ("depth of arrays", lambda size: {"id": "a", "x": deep(size - 1, of=lambda inner: [inner])}, DOCUMENT_DEPTH_MAX),
    ("fields", lambda size: {"id": "a", **{f"f{number}": 1 for number in range(size - 1)}}, DOCUMENT_KEYS_MAX),
    ("name of a field", lambda size: {"id": "a", text_of(size): 1}, FIELD_NAME_BYTES_MAX),
    ("integer", lambda size: {"id": "a", "x": size}, INT_MAX),
    ("negative integer", lambda size: {"id": "a", "x": -size}, -INT_MIN),
    ("bytes", lambda size: {"id": "a", "x": text_of(size - len('{"_id":"a","x":""}'))}, DOCUMENT_BYTES_MAX),
]


@pytest.mark.parametrize(("make", "limit"), [row[1:] for row in DOCUMENTS], ids=[row[0] for row in DOCUMENTS])
def test_a_document_at_its_limit_and_one_beyond(
    things: wormdb.Collection[wormdb.Document], make: Callable[[int], dict[str, Any]], limit: int
) -> None:
    with pytest.raises(REFUSED):
        things.insert(make(limit + 1))
    assert "a" not in things
    for size in (limit - 1, limit):
        things.save(make(size))
        assert things.find_by_id("a") is not None


@pytest.mark.parametrize("levels", [1_000, 100_000])
@pytest.mark.parametrize("of", [lambda inner: {"a": inner}, lambda inner: [inner]], ids=["documents", "arrays"])
def test_what_is_deeper_than_the_stack_is_refused_by_the_limit(
    things: wormdb.Collection[wormdb.Document], levels: int, of: Callable[[Any], Any]
) -> None:
    value = deep(levels, of=of)
    for call in (
        lambda: things.insert({"id": "a", "x": value}),
        lambda: things.find_all({"x": value}),
        lambda: things.find_all({"x": {"$in": [value]}}),
        lambda: things.update_one({"id": "a"}, {"$set": {"x": value}}),
        lambda: things.find_by_id(value),
    ):
        with pytest.raises(REFUSED):
            call()


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' * 200_000, b'{"id":"a","x":' + b"[" * 200_000])
def test_deep_json_of_files_is_refused(body: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = list(read_records(io.BytesIO(body + b"\n"), "ndjson"))
    assert [record.values for record in records] == [None]
    (tmp_path / "schema.json").write_bytes(body)
    assert run(["lint", str(tmp_path / "schema.json")]) in (1, 2)
    assert run(["table", "query", "things", "--url", "memory://x", "--filter", body.decode()]) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err


FILTERS: list[tuple[str, Callable[[int], dict[str, Any]], int]] = [
    (
        "depth",
        lambda size: deep(size, of=lambda inner: {"$and": [inner if isinstance(inner, dict) else {"a": 1}]}),
        FILTER_DEPTH_MAX,
    ),
    ("conditions", lambda size: {"$or": [{"a": number} for number in range(size)]}, FILTER_CONDITIONS_MAX),
    ("values", lambda size: {"a": {"$in": list(range(size))}}, FILTER_VALUES_MAX),
]


@pytest.mark.parametrize(("make", "limit"), [row[1:] for row in FILTERS], ids=[row[0] for row in FILTERS])
def test_a_filter_far_beyond_its_limit_is_refused_before_anything_is_read(
    things: wormdb.Collection[wormdb.Document], make: Callable[[int], dict[str, Any]], limit: int
) -> None:
    things.find_all(make(limit // 20))
    with pytest.raises(REFUSED):
        things.find_all(make(limit + 10))


def test_a_sort_has_a_limit(things: wormdb.Collection[wormdb.Document]) -> None:
    things.find_all(sort={f"f{number}": 1 for number in range(SORT_FIELDS_MAX)})
    with pytest.raises(REFUSED):
        things.find_all(sort={f"f{number}": 1 for number in range(SORT_FIELDS_MAX + 1)})


def bounded(call: Callable[[], object], bytes_max: int) -> None:
    """Run it and check that it never held more than `bytes_max`."""
    tracemalloc.start()
    try:
        call()
        assert tracemalloc.get_traced_memory()[1] < bytes_max
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", list(FrameKind))
def test_a_bomb_in_any_framed_object_is_not_unpacked(kind: FrameKind) -> None:
    """One that says how large it is, and whose checksum is right."""
    bomb = encode_frame(kind, version=1, identity="a", payload=bytes(64 * MIB))
    assert len(bomb) < MIB

    def read() -> None:
        with pytest.raises(CorruptionError, match="would unpack to"):
            decode_frame(bomb, kind, name="some/object", version_max=1, bytes_max=MIB)

    bounded(read, MIB)


def test_a_bomb_in_place_of_a_block_is_not_unpacked(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with wormdb.connect(tmp_path) as database:
        database["things"].insert_many([{"id": str(number)} for number in range(10)])
        database.forward(["things"])
    (block,) = tmp_path.glob("things/.worm.db/data/*.parquet")
    column = pa.array([b"\0" * MIB]).take(pa.array([0] * 100))
    pq.write_table(pa.table({"_id": column, "_doc": column}), block, compression="zstd")
    with wormdb.connect(tmp_path) as database:
        for read in (database["things"].find_all, lambda: database["things"].find_by_id("1")):
            with pytest.raises(CorruptionError, match="things/"):
                read()


def test_a_packed_file_is_unpacked_bit_by_bit_and_one_record_has_a_limit(tmp_path: Path) -> None:
    """32 MB of one line in 32 KB; a second, honest line is still read."""
    path = tmp_path / "bomb.ndjson.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"id": "a", "x": "')
        for _ in range(RECORD_BYTES_MAX // MIB):
            file.write(b"0" * MIB)
        file.write(b'"}\n{"id": "b"}\n')
    assert path.stat().st_size < MIB

    def read() -> None:
        with gzip.open(path) as file:
            first, second = read_records(io.BufferedReader(file), "ndjson")
        assert first.values is None
        assert second.values == {"id": "b"}

    bounded(read, 3 * RECORD_BYTES_MAX)


def test_a_bomb_in_a_document_is_only_bytes(things: wormdb.Collection[wormdb.Document]) -> None:
    """What a user stores is never unpacked."""
    bomb = zstandard.ZstdCompressor().compress(bytes(16 * MIB))
    things.insert({"id": "a", "data": bomb})
    assert [found["data"] for found in things.find_all()] == [bomb]


def test_errors_about_huge_values_stay_short(things: wormdb.Collection[wormdb.Document]) -> None:
    for call in (
        lambda: things.insert({"id": text_of(MIB)}),
        lambda: things.insert({"id": "a", text_of(MIB): 1}),
        lambda: things.find_all({"$" + text_of(MIB): 1}),
        lambda: things.find_all({"a": {"$regex": "(" * MIB}}),
        lambda: things.insert({"id": "a", "x": 10**4_000}),
        lambda: wormdb.connect("s3://" + text_of(MIB)),
        lambda: things.find_all(json.loads('{"a.' + text_of(MIB) + '": {"$x": 1}}')),
    ):
        with pytest.raises(WormError) as caught:
            call()
        assert len(str(caught.value)) < 4_000
        assert len(repr(caught.value)) < 4_000
