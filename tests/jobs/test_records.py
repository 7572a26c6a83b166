"""However files are cut, every record of them is read once, with its line."""

from __future__ import annotations

import gzip
import io
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.jobs.rig import SendingRunner, empty_place
from wormdb.api.records import read_records
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.jobs import records as import_lines
from wormdb.jobs import records as import_parquet
from wormdb.jobs import sources
from wormdb.jobs.records import rows_of
from wormdb.jobs.sources import pieces_of
from wormdb.jobs.target import store_at

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.api.records import Record
    from wormdb.storage.store import ByteRange

    Piece = Any


def cut(source: str, step: int, form: Any = None) -> list[Piece]:
    """The pieces of a file, if these are of `step` bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "PIECE_BYTES", step)
        patch.setattr(sources, "GATHERED_BYTES", step)
        return pieces_of([source], form, None, SendingRunner(1))


def read(pieces: list[Piece]) -> list[Record]:
    """All records of pieces that know their lines."""
    return [record for piece in pieces for rows in rows_of(piece, None) for record in rows.records]


CELLS = st.text(st.sampled_from(list('ab,"\n\r\té')), max_size=6)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """CSV as programs write it, or with any mistake."""
    rows = draw(st.lists(st.tuples(CELLS, CELLS, st.booleans()), max_size=14))
    lines = ["x,y"]
    for one, other, is_wrong in rows:
        quoted = [cell if is_wrong else '"' + cell.replace('"', '""') + '"' for cell in (one, other)]
        lines.append(",".join(quoted))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    begin = draw(st.sampled_from(["", "\ufeff"]))
    return (begin + end.join(lines) + draw(st.sampled_from(["", end]))).encode()


@settings(max_examples=100)
@given(body=tables(), step=st.integers(4, 40))
def test_csv_in_parts_is_csv_as_a_whole(body: bytes, step: int) -> None:
    place = empty_place()
    store_at(place).put("x.csv", body)
    assert read(cut(f"{place}/x.csv", step)) == list(read_records(io.BytesIO(body), "csv"))


def test_csv_is_really_cut(tmp_path: Path) -> None:
    body = "x,y\n" + "".join(f'{n},"a\n""b"""\n' for n in range(50))
    (tmp_path / "x.csv").write_text(body)
    pieces = cut(str(tmp_path / "x.csv"), 100)
    assert len(pieces) >= 4
    assert [piece.parts[0].first for piece in pieces] == sorted({piece.parts[0].first for piece in pieces})
    found = read(pieces)
    assert [record.line for record in found] == [2 + 2 * n for n in range(50)]
    assert pieces[1].name.endswith(f"x.csv, bytes {pieces[1].parts[0].start:,} to {pieces[1].parts[0].stop:,}")


def test_parquet_is_read_by_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_parquet, "_ROWS", 7)
    table = pa.table({"id": [f"k{n:04}" for n in range(500)], "n": list(range(500))})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=50)
    pieces = cut(str(tmp_path / "x.parquet"), 1_500)
    assert [(piece.parts[0].start, piece.parts[0].first) for piece in pieces] == [
        (start, start * 50) for start in range(0, 10, pieces[0].parts[0].stop)
    ]
    assert len(pieces) >= 4
    batches = [(rows.first, rows.batch) for piece in pieces for rows in rows_of(piece, None)]
    assert [row for _, batch in batches if batch is not None for row in batch.to_pylist()] == table.to_pylist()
    assert all(batch is not None and batch.column("n")[0].as_py() == first for first, batch in batches)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
def test_a_list_of_json_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Any) -> None:
    """No more than a step of it is fetched before its first record is there."""
    records = [{"id": str(n), "pad": sha256(str(n).encode()).hexdigest()} for n in range(4_000)]
    (tmp_path / "x.json").write_bytes(pack(b"[" + b",\n".join(map(json.encode, records)) + b"]"))
    asked: list[int] = []
    store = store_at(str(tmp_path))
    real = type(store).get_range

    def get_range(own: Any, key: str, span: ByteRange) -> bytes:
        asked.append(span.length)
        return real(own, key, span)

    monkeypatch.setattr(type(store), "get_range", get_range)
    monkeypatch.setattr("wormdb.jobs.records.MIB", 500)
    monkeypatch.setattr(import_lines.FileRange.__init__, "__defaults__", (1_000,))
    found = rows_of(cut(str(tmp_path / "x.json"), 100)[0], None)
    first = next(found).records
    assert [record.values for record in first] == records[:1_000]
    size = (tmp_path / "x.json").stat().st_size
    assert sum(asked) < size / 2
    assert max(asked) <= 64 * 1024
    assert [record.values for rows in found for record in rows.records] == records[1_000:]


def test_small_files_are_read_together_and_hidden_ones_are_not_read(tmp_path: Path) -> None:
    for name in ("a/1.json", "a/2.json", ".worm.index/status.json", "_SUCCESS", "b/.worm"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"n": 1}')
    (piece,) = cut(str(tmp_path), 1_000, "entities")
    assert piece.name == f"{tmp_path}/a/1.json and 1 more"
    assert [record.values for record in read([piece])] == [{"id": "1", "n": 1}, {"id": "2", "n": 1}]


def test_a_file_that_shrinks_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[" + "{}," * 1_000 + "{}]")
    pieces = cut(str(tmp_path / "x.json"), 1_000)
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(InvalidRequestError, match="became shorter while it was read"):
        read(pieces)
