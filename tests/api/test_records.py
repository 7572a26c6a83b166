"""Records in streams: every form, cut anywhere, and what is wrong with one is told by it alone."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wormdb import InvalidRequestError
from wormdb.api import records
from wormdb.api.records import Record, form_of, read_records


class Drip(io.BytesIO):
    """A stream that gives a few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        super().__init__(data)
        self.step = step

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self.step if size is None or size < 0 else min(size, self.step))


def read(data: bytes, form: str = "", step: int = 7) -> list[Record]:
    return list(read_records(Drip(data, step), form or form_of(data)))  # type: ignore[arg-type] # names of forms


def told(data: bytes, form: str = "") -> list[tuple[int, Any]]:
    found = read(data, form)
    return [(record.line, record.problem if record.values is None else record.values) for record in found]


def _is_name(name: str) -> bool:
    return bool(name) and not name.startswith("$") and "\0" not in name


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(['"', "\\", "[", "}", '\\"'])
numbers = st.integers(-(2**63), 2**63 - 1)
plain = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts.filter(_is_name), inner, max_size=3),
    max_leaves=8,
)
documents = st.lists(st.dictionaries(texts.filter(_is_name), plain, max_size=3), max_size=5)


@settings(max_examples=25)
@given(documents, st.sampled_from([None, 2]), st.integers(1, 40))
def test_json_in_every_form(found: list[dict[str, Any]], indent: int | None, step: int) -> None:
    """A list, values one after the other and lines say the same, whatever the size of the pieces that come."""
    whole = json.dumps(found, indent=indent, ensure_ascii=indent is None).encode()
    row = "\n".join(json.dumps(one, indent=indent) for one in found).encode()
    assert [record.values for record in read(whole, "json", step)] == found
    assert [record.values for record in read(row, "json", step)] == found
    lines = "\n\n".join(json.dumps(one) for one in found).encode()
    assert [record.values for record in read(lines, "ndjson", step)] == found
    assert [record.line for record in read(lines, "ndjson", step)] == list(range(1, 2 * len(found), 2))


@settings(max_examples=25)
@given(documents)
def test_lines_of_a_list(found: list[dict[str, Any]]) -> None:
    """A record begins in the line where its first bracket is."""
    text = json.dumps(found, indent=1)
    begins = [number for number, line in enumerate(text.split("\n"), 1) if line.startswith(" {")]
    assert [record.line for record in read(text.encode(), "json")] == begins


def test_what_cannot_be_read_is_a_record_too() -> None:
    assert told(b'\xef\xbb\xbf{"a":1}\nxx\n[1]\n\n{"b":"\xff"}\n{"a":2}') == [
        (1, {"a": 1}),
        (2, "JSON is malformed: invalid character"),
        (3, "it must be a JSON object"),
        (5, "it must be UTF-8: byte 7 is not"),
        (6, {"a": 2}),
    ]
    assert told(b'[{"a":1},\n{bad}, 3,\n{"a":2}]') == [
        (1, {"a": 1}),
        (2, "JSON is malformed: object keys must be strings"),
        (2, "it must be a JSON object"),
        (3, {"a": 2}),
    ]
    assert told(b'[{"a":1},\n{"a":') == [(1, {"a": 1}), (2, "the list does not end")]
    assert told(b"[") == [(1, "the list does not end")]
    assert told(b'[{"a":1}] x') == [(1, {"a": 1}), (1, "it must be a JSON object")]
    assert told(b'{"a":1} } {"a":2}', "json") == [
        (1, {"a": 1}),
        (1, "JSON is malformed: invalid character"),
        (1, {"a": 2}),
    ]
    assert told(b"[]") == told(b"") == told(b" \n", "json") == []


def test_a_record_that_is_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "RECORD_BYTES_MAX", 200)
    monkeypatch.setattr(records, "_CHUNK", 16)
    monkeypatch.setattr(records, "_TEXT_SHOWN", 20)
    long = json.dumps({"a": "x" * 500, "b": ["\n"] * 9}, indent=1)
    problem = "it is longer than 200 bytes"
    lines = long.count("\n")
    assert told(f'[{long},\n{{"b":1}}]'.encode(), "json") == [(1, problem), (lines + 2, {"b": 1})]
    assert told(f'{json.dumps({"a": "x" * 500})}\n{{"b":1}}\n'.encode(), "ndjson") == [(1, problem), (2, {"b": 1})]
    assert len(read(f"[{long}]".encode(), "json")[0].text) == 20


@pytest.mark.parametrize(
    ("begin", "form"),
    [
        (b'\xef\xbb\xbf [{"a"', "json"),
        (b'{"a":1}\n{"b"', "ndjson"),
        (b'{"a":"{"}\n', "ndjson"),
        (b'{\n "a":1}', "json"),
        (b'{"a":1', "ndjson"),
        (b"id,name\n", "csv"),
        (b"", "csv"),
    ],
)
def test_the_form_is_seen_at_the_beginning(begin: bytes, form: str) -> None:
    assert form_of(begin) == form


# --- CSV ---

cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6) | st.sampled_from(
    ['"', '""', "a,b", "\r\n", "\n", '5"', " x ", "é"]
)


rows_of_cells = st.lists(st.lists(cells, min_size=3, max_size=3), max_size=6)


@given(rows_of_cells, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_csv_as_others_write_it(rows: list[list[str]], end: str, quoting: bool) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL if quoting else csv.QUOTE_MINIMAL)
    writer.writerow(["a", "b", "c"])
    writer.writerows(rows)
    found = read(text.getvalue().encode(), "csv")
    wanted = [{name: cell for name, cell in zip("abc", row, strict=True) if cell or quoting} for row in rows]
    assert [record.values for record in found] == wanted
    assert all(record.is_text for record in found)


def test_rows_that_are_none() -> None:
    assert told(
        b'\xef\xbb\xbfid,name\r\n1,""\r\n2,\r\n\r\n3\r\n4,"x"y\n5,5" pipe\n6,\xff\n7,"two\nlines"\n8,"open\n'
    ) == [
        (2, {"id": "1", "name": ""}),
        (3, {"id": "2"}),
        (5, "it has 1 cell, and there are 2 columns"),
        (6, "a quote is not closed, or there is text behind one"),
        (7, {"id": "5", "name": '5" pipe'}),
        (8, "it must be UTF-8, or its encoding told (--encoding latin-1)"),
        (9, {"id": "7", "name": "two\nlines"}),
        (11, "a quote is not closed, or there is text behind one"),
    ]


@pytest.mark.parametrize("head", ["a,a", "a,,b", '"a\nb"x,c'])
def test_a_first_line_without_columns(head: str) -> None:
    with pytest.raises(InvalidRequestError):
        read(f"{head}\n1,2\n".encode(), "csv")


def test_another_separator_and_the_stream_stays_open() -> None:
    stream = io.BytesIO(b'a\tb\n1,5\t"x\ty"\n')
    (record,) = read_records(stream, "csv", separator="\t")
    assert record.values == {"a": "1,5", "b": "x\ty"}
    assert not stream.closed
