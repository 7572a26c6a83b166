from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from tests.format.groups import read_group
from tests.golden import samples
from wormdb.errors import CorruptionError, InvalidRequestError, UnsupportedFormatError
from wormdb.format import block as block_module
from wormdb.format import page as pagemap
from wormdb.format.block import RESERVED, EncodedBlock, Row, write_block
from wormdb.format.blockread import (
    Block,
    assemble_block,
    open_block,
    parts_for,
    read_arrow,
    read_columns,
    read_documents,
    read_page,
    read_page_rows,
)
from wormdb.format.columns import ELSEWHERE, ColumnSpec
from wormdb.format.json import decode_document, encode_document
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, equal
from wormdb.format.path import get_direct, parse_path
from wormdb.format.sidecar import GroupRef, PageRef, Sidecar, decode_sidecar, locate
from wormdb.testing.strategies import documents, ids

if TYPE_CHECKING:
    from pathlib import Path


def opened(block: EncodedBlock) -> Block:
    return open_block(block.parquet, name="data/b.parquet", sha256=block.sha256)


def sidecar_of(block: EncodedBlock) -> Sidecar:
    return decode_sidecar(block.sidecar, name="data/b.sidecar", identity=block.sha256.hex(), block="data/b.parquet")


def fetch(block: EncodedBlock, sidecar: Sidecar, identity: Any) -> Row | None:
    """One ranged read of one page."""
    ref = locate(sidecar, encode_key(identity))
    if ref is None:
        return None
    assert isinstance(ref, PageRef)
    found = read_page(block.parquet[ref.offset : ref.offset + ref.length], ref, [encode_key(identity)])
    return found[0] if found else None


def numbered(count: int, bytes_each: int = 200) -> list[Row]:
    return [
        Row(number, 1000 - number, number % 5 + 1, encode_document({"_id": number, "n": number, "t": "x" * bytes_each}))
        for number in range(count)
    ]


@st.composite
def stored_rows(draw: st.DrawFn) -> list[Row]:
    chosen = draw(st.lists(st.tuples(ids(), documents()), min_size=1, max_size=6))
    unique = {encode_key(identity): (identity, document) for identity, document in chosen}
    rows = []
    for _, (identity, document) in sorted(unique.items()):
        rev, seq = draw(st.integers(0, 2**62)), draw(st.integers(1, 2**40))
        image = encode_document({**document, "_id": identity})
        tombstone = encode_document({"_id": identity, "deletedBy": None, "document": {**document, "_id": identity}})
        fates = ((image, None), (None, None), (None, tombstone))
        rows.append(Row(identity, rev, seq, *draw(st.sampled_from(fates))))
    return rows


def same_rows(expected: list[Row], actual: list[Row]) -> bool:
    pairs = zip(expected, actual, strict=True)
    return all(
        equal(one.id, other.id)
        and (one.rev, one.seq, one.document, one.trash) == (other.rev, other.seq, other.document, other.trash)
        for one, other in pairs
    )


@given(stored_rows(), st.data())
def test_rows_columns_and_pages_come_back(rows: list[Row], data: st.DataObject) -> None:
    paths = data.draw(st.lists(st.sampled_from(["a", "b", "c", "a.b", "0", "é.a"]), unique=True))
    block = write_block(rows, [ColumnSpec(path) for path in paths])
    file = opened(block)
    assert same_rows(rows, list(read_documents(file)))
    sidecar = sidecar_of(block)
    assert same_rows(rows, [row for row in (fetch(block, sidecar, one.id) for one in rows) if row is not None])
    columns = read_columns(file, paths)
    for path in paths:
        for row, found in zip(rows, columns[path], strict=True):
            if row.document is None:
                assert found is MISSING
                continue
            expected = get_direct(decode_document(row.document, name="x"), parse_path(path))
            assert found is expected or found is ELSEWHERE or equal(found, expected)


def test_every_type_and_everything_that_does_not_fit() -> None:
    block = write_block(samples.rows(), samples.COLUMNS)
    columns = read_columns(opened(block), ["_id", "_rev", *(spec.path for spec in samples.COLUMNS)])
    assert columns["_id"][:4] == [1, 2, 3, 4]
    assert columns["_id"][4:] == [ELSEWHERE] * 5
    assert columns["_rev"] == [row.rev for row in samples.rows()]
    assert columns["age"][:5] == [30, MISSING, None, ELSEWHERE, 41]
    assert columns["score"][:4] == [1.5, MISSING, None, 7]
    assert columns["born"][0] == datetime(1815, 12, 10, 1, 2, 3, 4000, tzinfo=UTC)
    assert columns["parent"][0] == ObjectId("0123456789abcdef01234567")
    assert columns["tags"][:4] == [["x", "y", None], MISSING, None, ELSEWHERE]
    assert columns["address"][3] == [{"city": "Paris"}]
    assert columns["address.city"][:4] == ["London", MISSING, MISSING, ELSEWHERE]
    assert columns["items.price"][:4] == [ELSEWHERE, MISSING, MISSING, 2.5]


def test_what_the_root_learns() -> None:
    block = write_block(samples.rows(), samples.COLUMNS)
    entry = block.entry("data/x.parquet", "data/x.sidecar", kind="delta", level=3)
    assert (entry.rows, entry.deleted, entry.trashed, entry.level, entry.kind) == (9, 2, 1, 3, "delta")
    assert (entry.key_first, entry.key_last) == (encode_key(1), encode_key(ObjectId("0123456789abcdef01234567")))
    assert (entry.rev_first, entry.rev_last) == (100, 301)
    assert entry.length == len(block.parquet)
    assert entry.sidecar.length == len(block.sidecar)
    age = next(stats for stats in entry.columns if stats.path == "age")
    assert (age.values, age.nulls, age.missing, age.others) == (4, 1, 3, 1)
    assert (age.low, age.high) == (encode_key(30), encode_key(2**62))


def tombstone(identity: Any) -> bytes:
    return encode_document({"_id": identity, "deletedBy": "ada", "document": {"_id": identity, "n": 1}})


def test_the_trash_is_read_however_a_row_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        Row("a", 1, 1, encode_document({"_id": "a", "n": 1})),
        Row("b", 2, 2, None, tombstone("b")),
        Row("c", 3, 2, None),
        Row(ObjectId("0123456789abcdef01234567"), 4, 3, None, tombstone(ObjectId("0123456789abcdef01234567"))),
    ]
    block = write_block(rows, [ColumnSpec("n")])
    assert list(read_documents(opened(block))) == rows
    assert [fetch(block, sidecar_of(block), row.id) for row in rows] == rows
    assert read_columns(opened(block), ["n", "_deleted"]) == {
        "n": [1, *[MISSING] * 3],
        "_deleted": [False, *[True] * 3],
    }
    entry = block.entry("b", "b", kind="delta")
    assert (entry.rows, entry.deleted, entry.trashed) == (4, 3, 2)

    def unmapped(*_: object) -> None:
        return None

    monkeypatch.setattr(pagemap, "_pages", unmapped)
    block = write_block(rows)
    for row in rows:
        ref = locate(sidecar_of(block), encode_key(row.id))
        assert isinstance(ref, GroupRef)
        assert read_group(opened(block), ref, encode_key(row.id)) == row


def test_a_deletion_without_trash_is_none_whatever_its_id() -> None:
    identities = [{"d": 1, "s": 2}, {"d": 1, "s": 3}, {"document": {"_id": 5}}]
    rows = [Row(identity, 1, 1, None) for identity in sorted(identities, key=encode_key)]
    block = write_block(rows)
    assert (block.deleted, block.trashed) == (3, 0)
    assert list(read_documents(opened(block))) == rows
    assert [fetch(block, sidecar_of(block), row.id) for row in rows] == rows


def test_the_filter_may_be_over_other_keys_than_the_ids() -> None:
    rows = [
        Row(
            {"d": number // 10, "s": number % 10}, 1, 1, encode_document({"_id": {"d": number // 10, "s": number % 10}})
        )
        for number in range(500)
    ]
    members = [encode_key(row.id["d"]) for row in rows]
    sidecar = sidecar_of(write_block(rows, members=members))
    assert all(map(sidecar.membership.might_contain, members))
    assert sum(sidecar.membership.might_contain(encode_key(number)) for number in range(50, 1050)) < 30
    assert len(sidecar.membership) <= 50
    assert sidecar.map == sidecar_of(write_block(rows)).map
    assert sidecar.map.found == sidecar_of(write_block(rows)).map.found
    with pytest.raises(AssertionError):
        write_block(rows, members=members[1:])


def test_keys_that_the_caller_knows_are_not_made_again() -> None:
    rows = numbered(50)
    keys = [encode_key(row.id) for row in rows]
    assert write_block(rows, [ColumnSpec("n")], keys=keys) == write_block(rows, [ColumnSpec("n")])
    for wrong in (keys[1:], keys[::-1]):
        with pytest.raises(AssertionError):
            write_block(rows, keys=wrong)


def test_ids_that_are_not_there_are_not_found() -> None:
    rows = numbered(2000)
    block = write_block(rows[::2])
    sidecar = sidecar_of(block)
    assert all(fetch(block, sidecar, row.id) is None for row in rows[1::2])
    assert all(fetch(block, sidecar, identity) is None for identity in (-1, 5000, "x", None))
    absent = sum(locate(sidecar, encode_key(row.id)) is None for row in rows[1::2])
    assert absent > 980


def test_an_id_is_found_by_value_whatever_its_type() -> None:
    block = write_block(numbered(10))
    row = fetch(block, sidecar_of(block), 3.0)
    assert row is not None
    assert (row.id, type(row.id)) == (3, int)


def test_pages_are_about_64_kb_and_cover_the_block() -> None:
    block = write_block(numbered(1500, 500))
    page_map = sidecar_of(block).map
    assert page_map.pages is not None
    assert len(page_map.pages) == pytest.approx(1500 * 530 / 65_536, abs=3)
    found = []
    for place, (offset, page) in enumerate(zip(page_map.offsets, page_map.pages, strict=True)):
        data = block.parquet[offset : offset + page.length]
        found += read_page_rows(data, PageRef(page_map, place, offset, page.length))
    assert found == numbered(1500, 500)


def test_one_large_document_has_a_page_of_its_own_size() -> None:
    rows = numbered(40, 100)
    rows[20] = Row(20, 7, 1, encode_document({"_id": 20, "t": "y" * (16 * 1024 * 1024 - 100)}))
    block = write_block(rows, [ColumnSpec("n")])
    sidecar = sidecar_of(block)
    assert all(fetch(block, sidecar, row.id) == row for row in (rows[0], rows[19], rows[20], rows[21], rows[39]))
    assert list(read_documents(opened(block))) == rows


def test_many_row_groups_are_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "_GROUP_ROWS", 300)
    monkeypatch.setattr(block_module, "_GROUP_BYTES", 100_000)
    rows = numbered(1000)
    block = write_block(rows, [ColumnSpec("n")])
    file, sidecar = opened(block), sidecar_of(block)
    assert file.groups == len(sidecar.map.groups) >= 4
    assert list(read_documents(file)) == rows
    assert all(fetch(block, sidecar, row.id) == row for row in rows[::37])
    assert read_columns(file, ["n"], groups=[1])["n"] == list(range(300, 600))


def test_columns_are_read_and_checked_without_the_rest() -> None:
    block = write_block(samples.rows(), samples.COLUMNS)
    page_map = sidecar_of(block).map
    parts = parts_for(page_map, ["age", "address"])
    assert sum(part.length for part in parts) < len(block.parquet) / 1.2
    assert {part.column for part in parts} >= {"footer", "age", "$kind.age", "address", "address.city"}
    fetched = [(part, block.parquet[part.offset : part.offset + part.length]) for part in parts]
    partial = assemble_block(page_map, fetched)
    assert read_columns(partial, ["age", "address"]) == read_columns(opened(block), ["age", "address"])
    with pytest.raises(CorruptionError, match=r"data/b\.parquet"):
        read_columns(partial, ["score"])


def test_columns_come_as_arrow_has_them_with_their_companions() -> None:
    import pyarrow as pa

    block = opened(write_block(samples.rows(), samples.COLUMNS))
    table = read_arrow(block, ["_rev", "address", "age", "born"])
    assert table.column_names == ["_rev", "address", "age", "born", "$kind.address", "$kind.age", "$kind.born"]
    assert table.schema.field("born").type == pa.timestamp("ms", tz="UTC")
    assert table.column("age").to_pylist()[:5] == [30, None, None, None, 41]
    assert table.column("$kind.age").to_pylist()[:5] == [0, 2, 1, 3, 0]
    assert read_arrow(opened(write_block(numbered(3), [ColumnSpec("n")])), ["n"]).column_names == ["n"]
    with pytest.raises(InvalidRequestError, match="no column"):
        read_arrow(block, ["$kind.age"])


def test_arrow_columns_of_one_row_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "_GROUP_ROWS", 10)
    block = opened(write_block(numbered(25), [ColumnSpec("n")]))
    assert read_arrow(block, ["n"], groups=[2, 0]).column("n").to_pylist() == [*range(20, 25), *range(10)]


def test_a_part_that_is_not_what_was_written_is_corruption() -> None:
    block = write_block(samples.rows(), samples.COLUMNS)
    page_map = sidecar_of(block).map
    for part in parts_for(page_map, [spec.path for spec in samples.COLUMNS]):
        data = bytearray(block.parquet[part.offset : part.offset + part.length])
        data[len(data) // 2] ^= 1
        for wrong in (bytes(data), bytes(data[:-1])):
            with pytest.raises(CorruptionError) as caught:
                assemble_block(page_map, [(part, wrong)])
            assert caught.value.key == "data/b.parquet"


def test_the_file_is_what_was_written_or_refused() -> None:
    block, other = write_block(numbered(5)), write_block(numbered(6))
    with pytest.raises(CorruptionError) as caught:
        open_block(other.parquet, name="data/b.parquet", sha256=block.sha256)
    assert caught.value.key == "data/b.parquet"


def test_files_that_are_no_block_are_refused() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def parquet(table: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        return bytes(sink.getvalue())

    for data in (b"", b"PAR1", parquet(pa.table({"a": [1]}))):
        with pytest.raises(CorruptionError, match=r"data/b\.parquet"):
            open_block(data, name="data/b.parquet", sha256=sha256(data).digest())
    newer = parquet(pa.table({"a": [1]}).replace_schema_metadata({"wormdb.format": "2"}))
    with pytest.raises(UnsupportedFormatError, match="version 2"):
        open_block(newer, name="data/b.parquet", sha256=sha256(newer).digest())


@pytest.mark.parametrize("path", ["_id", "_rev", "_seq", "_deleted", "_doc"])
def test_reserved_columns_are_refused(path: str) -> None:
    with pytest.raises(InvalidRequestError, match="reserved"):
        write_block(numbered(1), [ColumnSpec(path)])


def test_columns_named_twice_and_unknown_ones_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="twice"):
        write_block(numbered(1), [ColumnSpec("n"), ColumnSpec("n", "json")])
    block = write_block(numbered(1), [ColumnSpec("n")])
    for name in ("t", "$kind.n"):
        with pytest.raises(InvalidRequestError, match="no column"):
            read_columns(opened(block), [name])
        with pytest.raises(InvalidRequestError, match="no column"):
            parts_for(sidecar_of(block).map, [name])


def test_our_own_mistakes_are_caught_before_writing() -> None:
    rows = numbered(2)
    for wrong in ([], rows[::-1], [rows[0], rows[0]], [Row(9, 1, 1, rows[0].document)]):
        with pytest.raises(AssertionError):
            write_block(wrong, [ColumnSpec("n")])
    with pytest.raises(InvalidRequestError, match="UTF-8"):
        write_block([Row(0, 1, 1, b'{"_id":0,"t":"\xff"}')])


def asked(path: Path, query: str) -> list[tuple[Any, ...]]:
    """DuckDB's answer; the block is the table `block`."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"create view block as select * from read_parquet('{path}')")
        return connection.execute(query).fetchall()


def test_other_tools_read_the_same_values(tmp_path: Path) -> None:
    import polars as pl

    born = datetime(2024, 5, 6, 7, 8, 9, 10_000, tzinfo=UTC)
    rows = [
        Row(f"id-{number:03}", number, 1, encode_document({"_id": f"id-{number:03}", "n": number, "born": born}))
        for number in range(100)
    ]
    rows.append(Row("id-999", 100, 2, None))
    path = tmp_path / "block.parquet"
    path.write_bytes(write_block(rows, [ColumnSpec("n"), ColumnSpec("born"), ColumnSpec("none")]).parquet)
    expected_ids, expected_docs = [row.id for row in rows], [row.document for row in rows[:-1]]

    assert asked(path, "select _id from block order by _id") == [(name,) for name in expected_ids]
    totals = asked(path, "select sum(n), min(_doc->>'$.n'), max(epoch_ms(born)) from block where not _deleted")
    assert totals == [(4950, "0", int(born.timestamp() * 1000))]
    texts = asked(path, "select _doc from block where not _deleted order by _id")
    assert [text.encode() for (text,) in texts] == expected_docs

    frame = pl.read_parquet(path)
    assert frame["_id"].to_list() == expected_ids
    assert frame.filter(~pl.col("_deleted"))["n"].sum() == 4950
    assert frame["born"][0] == born
    assert json.loads(frame["_doc"][100]) == {"_id": "id-999"}
    assert frame["none"].null_count() == 101


def test_strange_columns_open_in_other_tools(tmp_path: Path) -> None:
    import polars as pl

    path = tmp_path / "block.parquet"
    path.write_bytes(write_block(samples.rows(), samples.COLUMNS).parquet)
    assert asked(path, "select sum(balance), count(*) from block") == [(Decimal("12.5"), 9)]
    frame = pl.read_parquet(path)
    assert frame["tags"].to_list()[0] == ["x", "y", None]
    assert set(RESERVED) < set(frame.columns)
