"""What is exported can be read back: the same documents, whatever is in them."""

from __future__ import annotations

import csv
import io
import json
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.cli.printed import captured, worm
from wormdb.cli.show.rows import columns_of, write_rows, write_table
from wormdb.system.clock import SystemChance

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Thing": {
            "path": "@things/(id:string)",
            "id": "given",
            "fields": {
                "text": {"type": "string"},
                "whole": {"type": "integer"},
                "part": {"type": "number"},
                "flag": {"type": "boolean"},
                "list": {"type": "array"},
                "tree": {"type": "object"},
            },
        }
    },
}
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from('",;\r\n\t \\東é€😀'), max_size=8)
NAMES = st.text("abcdé ,\"'", min_size=1, max_size=4)
PLAIN = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
NESTED = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
DOCUMENTS = st.lists(
    st.fixed_dictionaries(
        {"id": st.text("abc123", min_size=1, max_size=5)},
        optional={
            "text": TEXTS,
            "whole": st.integers(-(2**63), 2**63 - 1),
            "part": st.floats(allow_nan=False, allow_infinity=False),
            "flag": st.booleans(),
            "list": st.lists(NESTED, max_size=3),
            "tree": st.dictionaries(NAMES, NESTED, max_size=3),
        },
    ),
    max_size=6,
    unique_by=lambda document: document["id"],
)


def stored(documents: list[dict[str, Any]], *, schema: dict[str, Any] | None) -> str:
    url = f"memory://rows-{SystemChance().token(8).hex()}"
    with wormdb.connect(url, schema=schema, apply=schema is not None) as database:
        things = database["things"] if schema is None else database.model("Thing")
        things.insert_many(documents)
        if not documents and schema is None:
            things.insert({"id": "gone"})
            things.delete("gone")
    return url


def by_id(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(documents, key=lambda document: str(document["id"]))


def parsed_csv(data: bytes) -> tuple[list[str], list[dict[str, Any]]]:
    """The names of a table, and its rows; empty text and no text at all look alike to this reader."""
    head, *rows = csv.reader(io.StringIO(data.decode(), newline=""), strict=True)
    shown = [
        {
            name: cell if name in {"id", "text"} else json.loads(cell)
            for name, cell in zip(head, row, strict=True)
            if cell and name not in {"createdAt", "updatedAt"}
        }
        for row in rows
    ]
    return head, shown


def without_empty_text(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in each.items() if value != ""} for each in documents]


@given(DOCUMENTS)
def test_what_is_written_can_be_read(documents: list[dict[str, Any]]) -> None:
    assert json.loads(captured(lambda: write_rows(documents, "json"))) == documents
    lines = captured(lambda: write_rows(documents, "ndjson")).split(b"\n")
    assert [json.loads(line) for line in lines[:-1]] == documents
    assert lines[-1] == b""
    columns = columns_of(["id", "text", "whole", "part", "flag", "list", "tree"])
    _, rows = parsed_csv(captured(lambda: write_rows(documents, "csv", columns)))
    assert rows == without_empty_text(documents)


@given(DOCUMENTS)
@settings(max_examples=12)
def test_what_is_stored_is_exported(documents: list[dict[str, Any]]) -> None:
    url = stored(documents, schema=SCHEMA)
    head, rows = parsed_csv(worm("table", "export", "Thing", "--format", "csv", "--url", url).data)
    assert head == ["id", "text", "whole", "part", "flag", "list", "tree", "createdAt", "updatedAt"]
    assert rows == without_empty_text(by_id(documents))
    whole = json.loads(worm("table", "export", "Thing", "--format", "json", "--url", url).data)
    assert [{name: each[name] for name in each if not name.endswith("At")} for each in whole] == by_id(documents)
    lines = worm("table", "export", "Thing", "--format", "ndjson", "--url", url)
    assert [json.loads(line) for line in lines.data.split(b"\n") if line] == whole
    page = worm("table", "query", "Thing", "--json", "--url", url)
    assert json.loads(page.data) == {"rows": whole, "nextPage": None}


@given(DOCUMENTS)
@settings(max_examples=8)
def test_csv_without_a_model_has_every_field(documents: list[dict[str, Any]]) -> None:
    url = stored(documents, schema=None)
    printed = worm("table", "export", "things", "--format", "csv", "--url", url)
    head, *rows = csv.reader(io.StringIO(printed.data.decode(), newline=""), strict=True)
    assert set(head) == {"id", *(name for document in documents for name in document)}
    assert [row[0] for row in rows] == [each["id"] for each in by_id(documents)]


def test_csv_of_every_kind_of_value() -> None:
    from datetime import UTC, datetime

    from bson import Decimal128, ObjectId

    day = datetime(2024, 2, 29, 12, tzinfo=UTC)
    oid = ObjectId("65e0a1b2c3d4e5f601234567")
    url = stored(
        [
            {
                "id": 1,
                "at": day,
                "sum": Decimal128("1.50"),
                "oid": oid,
                "nan": float("nan"),
                "empty": "",
                "a": {"b": 1},
            },
            {"id": 2, "at": None, "empty": " x ", "a": [{"b": 2}, {"b": 3}]},
        ],
        schema=None,
    )
    printed = worm("table", "export", "things", "--format", "csv", "--select", "at,sum,oid,nan,empty,a.b", "--url", url)
    assert printed.data == (
        b"id,at,sum,oid,nan,empty,a.b\r\n"
        b'1,2024-02-29T12:00:00.000Z,1.50,65e0a1b2c3d4e5f601234567,nan,"",1\r\n'
        b'2,,,,," x ","[2,3]"\r\n'
    )


def test_an_empty_collection() -> None:
    url = stored([], schema=SCHEMA)
    assert worm("table", "export", "Thing", "--url", url).data == b""
    assert json.loads(worm("table", "export", "Thing", "--json", "--url", url).data) == []
    csv_text = worm("table", "export", "Thing", "--format", "csv", "--url", url).text
    assert csv_text == "id,text,whole,part,flag,list,tree,createdAt,updatedAt\r\n"
    assert worm("table", "query", "Thing", "--url", url).text == "(0 rows)\n"
    assert worm("table", "query", "Thing", "--select", "text", "--url", url).lines[0] == "id  text"


def test_rows_are_written_as_they_come() -> None:
    """However many rows there are: what was written is not held."""
    drawn: list[int] = []
    written: list[int] = []

    class Sink(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            written.append(len(drawn))
            drawn.clear()
            return len(data)

    def rows() -> Iterator[dict[str, Any]]:
        for number in range(20_000):
            drawn.append(number)
            yield {"id": number, "text": "x" * 100}

    with redirect_stdout(io.TextIOWrapper(io.BufferedWriter(Sink()), encoding="utf-8")):
        assert write_rows(rows(), "ndjson") == 20_000
    assert sum(written) == 20_000
    assert max(written) < 1_000


def test_a_longer_cell_behind_the_first_rows_is_not_cut() -> None:
    rows = ({"id": f"u{number}", "n": number} for number in (*range(1_000), 123_456_789, 5))
    lines = captured(lambda: write_table(rows)).decode().splitlines()
    assert lines[-2].split() == ["u123456789", "123456789"]
    assert lines[-1] == lines[2 + 5], "the next row is in its columns again"
