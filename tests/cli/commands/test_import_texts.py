"""worm import and worm schema infer of text as other programs write it: encodings, separators, and what is no text."""

from __future__ import annotations

import gzip
import io
import json
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import wormdb
from tests.cli.printed import Printed, worm
from wormdb.api.texts import check_text, find_separator, open_packed
from wormdb.errors import InvalidRequestError
from wormdb.jobs import sources

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [{"id": "a", "name": "Zoë", "town": "Köln; am, Rhein"}, {"id": "b", "name": "Bob", "town": "Rom"}]


def csv(separator: str) -> str:
    lines = [["id", "name", "town"], *([f'"{value}"' for value in row.values()] for row in ROWS)]
    return "".join(separator.join(line) + "\r\n" for line in lines)


@pytest.fixture
def url(memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return memory


def load(url: str, *arguments: str) -> Printed:
    return worm("import", *arguments, "--model", "people", "--create", "--url", url)


def people(url: str) -> list[dict[str, Any]]:
    with wormdb.connect(url) as db:
        return [dict(row) for row in db["people"].find(select=["name", "town"])]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz", "people.txt", "-"])
def test_the_separator_of_a_table_is_found(
    url: str, tmp_path: Path, separator: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = csv(separator).encode()
    if name == "-":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(body))))
    else:
        (tmp_path / name).write_bytes(gzip.compress(body) if name.endswith("gz") else body)
    assert load(url, name).code == 0
    assert people(url) == ROWS


def test_all_parts_of_a_large_table_have_one_separator(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "PIECE_BYTES", 1_000)
    (tmp_path / "x.csv").write_text("id;name\n" + "".join(f"{n:04};a,b,c,d\n" for n in range(500)))
    pieces = sources.pieces_of([str(tmp_path / "x.csv")], None, None, None)
    assert [part.separator for piece in pieces for part in piece.parts] == [""]
    large = sources._find_large([(str(tmp_path), pieces[0].parts[0])])
    assert [part.separator for part in large.values()] == [";"]
    assert load(url, "x.csv").code == 0
    assert {row["name"] for row in people(url)} == {"a,b,c,d"}


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("form", ["csv", "ndjson", "json"])
def test_text_of_another_encoding_is_read_when_it_is_told(url: str, tmp_path: Path, encoding: str, form: str) -> None:
    lines = [json.dumps(row, ensure_ascii=False) for row in ROWS]
    text = {"csv": csv(";"), "ndjson": "\n".join(lines), "json": f"[{','.join(lines)}]"}[form]
    (tmp_path / f"people.{form}").write_bytes(text.encode(encoding))
    assert load(url, f"people.{form}", "--encoding", encoding).code == 0
    assert people(url) == ROWS


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_mark_at_the_beginning_tells_the_encoding(url: str, tmp_path: Path, encoding: str) -> None:
    (tmp_path / "people").write_bytes(csv("\t").encode(encoding))
    assert load(url, "people").code == 0
    assert people(url) == ROWS
    found = json.loads(worm("schema", "infer", "people").text)["models"]["People"]
    assert {*found["fields"]} == {"name", "town"}


def test_bytes_that_an_encoding_has_not_are_told_and_nothing_is_imported(url: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(csv(",").encode("latin-1"))
    printed = load(url, "people.csv", "--encoding", "utf-16")
    assert (printed.code, "--encoding" in printed.errors) == (2, True)
    printed = load(url, "people.csv", "--encoding", "klingon")
    assert (printed.code, "klingon" in printed.errors) == (2, True)
    assert people(url) == []


BINARIES = {
    "sheet.csv": (b"PK\x03\x04" + b"x" * 50, "spreadsheet"),
    "rows.ndjson": (b"\xfd7zXZ\x00\x00\x04", "xz"),
    "rows.json": (b"BZh91AY&SY...", "bzip2"),
    "photo": (b"\xff\xd8\xff\xe0\x00\x10JFIF", "a picture"),
    "data.csv": (b"id,name\n1,\x00\x00\x00", "binary"),
    "noise.csv": (bytes(range(1, 32)) * 3, "control characters"),
    "packed.csv": (gzip.compress(b"\x89PNG\r\n\x1a\n" + bytes(20)), "a picture"),
}


@pytest.mark.parametrize("name", sorted(BINARIES))
def test_what_is_not_text_is_refused_as_what_it_is(url: str, tmp_path: Path, name: str) -> None:
    body, kind = BINARIES[name]
    (tmp_path / name).write_bytes(body)
    for printed in (load(url, name), worm("schema", "infer", name)):
        assert printed.code == 2
        assert "is not text" in printed.errors
        assert kind in printed.errors
    assert not list(tmp_path.glob("*.rejects.ndjson"))


@pytest.mark.parametrize("name", ["people.csv.zst", "people.zst", "-"])
def test_what_zstd_packed_is_unpacked_frame_by_frame(
    url: str, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = csv(";") if "csv" in name else "\n".join(map(json.dumps, ROWS))
    half = lines.encode()[:40]
    body = zstandard.compress(half) + zstandard.compress(lines.encode()[len(half) :])
    if name == "-":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(body))))
    else:
        (tmp_path / name).write_bytes(body)
    assert load(url, name).code == 0
    assert people(url) == ROWS


@given(st.lists(st.binary(max_size=3_000), max_size=4), st.data())
def test_frames_of_zstd_are_their_content_and_a_cut_one_is_told(parts: list[bytes], data: st.DataObject) -> None:
    packed = b"".join(map(zstandard.compress, parts))

    def read(body: bytes) -> bytes:
        return open_packed(io.BufferedReader(cast("io.RawIOBase", io.BytesIO(body)))).read()

    assert read(packed) == b"".join(parts)
    ends = {sum(len(zstandard.compress(part)) for part in parts[:count]) for count in range(len(parts) + 1)}
    cut = data.draw(st.integers(0, len(packed)))
    if cut not in ends and cut > 4:
        with pytest.raises((EOFError, OSError)):
            read(packed[:cut])


@pytest.mark.parametrize(("sign", "separator"), [("\\t", "\t"), ("tab", "\t"), ("semicolon", ";"), ("~", "~")])
def test_a_separator_may_be_told_as_people_write_it(url: str, tmp_path: Path, sign: str, separator: str) -> None:
    (tmp_path / "people.csv").write_text(csv(separator))
    assert load(url, "people.csv", "--separator", sign).code == 0
    assert people(url) == ROWS
    found = json.loads(worm("schema", "infer", "people.csv", "--separator", sign).text)["models"]["People"]
    assert {*found["fields"]} == {"name", "town"}


@pytest.mark.parametrize("sign", [";;", "", '"', "\n", "tabs"])
def test_what_is_not_one_sign_is_not_a_separator(url: str, tmp_path: Path, sign: str) -> None:
    (tmp_path / "people.csv").write_text(csv(";"))
    for printed in (
        load(url, "people.csv", "--separator", sign),
        worm("schema", "infer", "people.csv", "--separator", sign),
    ):
        assert (printed.code, "one sign" in printed.errors) == (2, True)
    assert people(url) == []


@pytest.mark.parametrize(("head", "told"), [("id,a,a", "'a' is there twice"), ("id,,b", "it has no name")])
def test_a_first_line_that_names_no_columns_is_told_with_its_file(
    url: str, tmp_path: Path, head: str, told: str
) -> None:
    (tmp_path / "good.csv").write_text("id,a\n1,2\n")
    (tmp_path / "odd.csv").write_text(f"{head}\n1,2,3\n")
    printed = load(url, "good.csv", "odd.csv")
    assert (printed.code, "odd.csv" in printed.errors, told in printed.errors) == (2, True, True)


def test_a_record_of_another_encoding_is_rejected_with_what_to_do(url: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(csv(";").encode("latin-1"))
    assert load(url, "people.csv").code == 1
    (told,) = map(json.loads, (tmp_path / "people.csv.rejects.ndjson").read_text().splitlines())
    assert "--encoding" in told["reason"]


def test_a_parquet_file_needs_no_suffix(url: str, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "people")
    assert load(url, "people").code == 0
    assert people(url) == ROWS


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1))
def test_text_is_never_taken_for_rubbish(text: str) -> None:
    if not text.startswith(("PK\x03\x04", "%PDF-", "PAR1", "GIF8")):
        check_text(text.encode(), "it")
    with pytest.raises(InvalidRequestError, match="binary"):
        check_text(f"{text}\0".encode(), "it")


@given(st.lists(st.text("ab ,;\t|", min_size=1), min_size=2), st.sampled_from(",;\t|"))
def test_signs_within_quotes_do_not_count(names: list[str], separator: str) -> None:
    assert find_separator(separator.join(f'"{name}"' for name in names).encode()) == separator


@pytest.mark.s3
def test_a_bucket_and_a_file_of_it_are_read_by_their_urls(s3_url: str, url: str) -> None:
    with wormdb.open_store(s3_url) as store:
        store.put("lake/a.csv", csv(";").encode("latin-1"))
        store.put("lake/b.txt.gz", b"")
    place, mark, options = s3_url.partition("?")
    found = load(url, f"{place}/lake/a.csv{mark}{options}", "--encoding", "latin-1")
    assert (found.code, people(url)) == (0, ROWS)
    again = load(url, f"{place}/lake{mark}{options}", "--encoding", "latin-1", "--on-conflict", "ignore", "--json")
    assert json.loads(again.text)["ignored"] == 2


def test_a_bucket_of_google_is_asked_for_by_its_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "nowhere.json")
    printed = load(url, "gs://bucket/people.csv")
    assert (printed.code != 0, "gs://bucket" in printed.errors) == (True, True)
    assert "GOOGLE_APPLICATION_CREDENTIALS" in printed.errors
    assert people(url) == []
