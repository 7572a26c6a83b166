"""CSV for spreadsheets: no formula, no control character, and exactly what it was when it is imported again."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

import wormdb
from tests.cli.printed import worm
from wormdb.api.records import plain_cell, safe_cell

if TYPE_CHECKING:
    from pathlib import Path

FORMULAS = ["=cmd|' /C calc'!A0", "@SUM(1)", "+1", "-1+1", "'=x", "''", "\t=1", "\r=1"]
HOSTILE = [*FORMULAS, "a\x1b[31m", "\\u0041", "=\\x\x9b", "a\nb"]
mixed = st.lists(st.sampled_from("='@+-\\u0\t\r\n\x1b a"), max_size=8).map("".join)
texts = st.text() | st.sampled_from(HOSTILE) | mixed


@given(texts)
def test_a_safe_cell_comes_back_exactly(text: str) -> None:
    safe = safe_cell(text)
    assert plain_cell(safe) == text
    assert not re.match(r"[=+@\t\r-]", safe)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", safe)
    if not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]|^[=+@'-]", text):
        assert safe == text


def test_an_export_for_a_spreadsheet_is_imported_as_it_was(tmp_path: Path) -> None:
    url, file = str(tmp_path / "db"), tmp_path / "out.csv"
    with wormdb.connect(url) as database:
        database["notes"].insert_many(
            [{"id": f"a{number:02}", "=field": text, "n": -number} for number, text in enumerate(HOSTILE)]
        )
    options = ["--url", url, "--format", "csv"]
    plain = worm("table", "export", "notes", *options).data
    assert b"=cmd|" in plain.replace(b'"', b"")
    for verb in ("export", "query"):
        file.write_bytes(worm("table", verb, "notes", *options, "--csv-safe").data)
        head, *rows = csv.reader(io.StringIO(file.read_bytes().decode(), newline=""))
        assert sorted(head) == ["'=field", "id", "n"]
        column = head.index("'=field")
        assert not [row for row in rows if re.match(r"[=+@\t\r-]", row[column])]
        assert rows[3][head.index("n")] == "-3", "numbers stay numbers"
    assert worm("import", str(file), "--model", "copy", "--create", "--csv-safe", "--url", url).code == 0
    with wormdb.connect(url) as database:
        assert [each["=field"] for each in database["copy"].find_all()] == HOSTILE
    target = ["--to", str(tmp_path / "p")]
    assert worm("table", "export", "notes", "--csv-safe", *options, *target).code == 0
    (part,) = (tmp_path / "p").glob("*.csv")
    assert sorted(part.read_bytes().splitlines()) == sorted(file.read_bytes().splitlines())


def test_sums_for_a_spreadsheet_have_no_formulas(memory: str) -> None:
    with wormdb.connect(memory) as database:
        database["notes"].insert_many([{"id": n, "kind": text} for n, text in enumerate(["=1+1", "plain"])])
    asked = ["table", "aggregate", "notes", "--group-by", "kind", "--format", "csv", "--url", memory]
    assert worm(*asked).lines[1:] == ["=1+1,1", "plain,1"]
    assert worm(*asked, "--csv-safe").lines[1:] == ["'=1+1,1", "plain,1"]
