"""worm import: files in every form, what is set aside, and what the exit code says."""

from __future__ import annotations

import gzip
import io
import json
from contextlib import redirect_stderr
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.cli.printed import Printed, worm
from wormdb.api.imports import stream
from wormdb.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Customer": {
            "path": "#org/@customers/(id:string)",
            "fields": {
                "name": {"type": "string", "required": True},
                "age": {"type": "integer"},
                "since": {"type": "datetime"},
                "tags": {"type": "array"},
            },
        },
        "Event": {"path": "@events/(id:ulid)"},
        "User": {"path": "#org/(tenant:slug)/@users/(id:slug)", "fields": {"age": {"type": "integer"}}},
    },
}
CUSTOMERS = (
    'id,name,age,since,tags\nada,Ada,36,2026-01-01,"[""vip""]"\nbob,"Bob, Jr.",old,,\nada,Again,1,,\ncyd,Cyd,,,\n'
)


@pytest.fixture
def url(memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    with wormdb.connect(memory, schema=SCHEMA, apply=True):
        return memory


def load(url: str, *arguments: str, model: str = "Customer") -> Printed:
    return worm("import", *arguments, "--model", model, "--url", url)


def rows(url: str, model: str = "Customer") -> list[dict[str, Any]]:
    found = worm("table", "export", model, "--url", url).lines
    times = {"createdAt", "updatedAt"}
    return [{name: value for name, value in json.loads(line).items() if name not in times} for line in found]


def rejects(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_csv_by_the_types_of_the_model(url: str, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(CUSTOMERS)
    printed = load(url, "c.csv")
    assert printed.code == 1
    assert printed.text == "c.csv: 4 records, 2 inserted, 2 rejected, see c.csv.rejects.ndjson\n"
    assert rows(url) == [
        {"id": "ada", "name": "Ada", "age": 36, "since": {"$date": "2026-01-01T00:00:00Z"}, "tags": ["vip"]},
        {"id": "cyd", "name": "Cyd"},
    ]
    bob, again = rejects(tmp_path / "c.csv.rejects.ndjson")
    assert bob == {
        "file": "c.csv",
        "line": 3,
        "reason": "age: expected integer, got string 'old'",
        "fix": "use a whole number of 64 bits",
        "form": "csv",
        "record": {"id": "bob", "name": "Bob, Jr.", "age": "old"},
    }
    assert (again["line"], again["reason"]) == (4, "the id 'ada' exists already: the record of line 2 has it")


def test_what_was_corrected_in_the_file_of_rejects(url: str, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(CUSTOMERS)
    load(url, "c.csv", "--on-conflict", "ignore")
    file = tmp_path / "c.csv.rejects.ndjson"
    file.write_text(file.read_text().replace('"old"', '"41"') + '{"line":1}\nxx\n')
    printed = load(url, file.name, "--from-rejects", "--max-errors", "2")
    assert (printed.code, printed.text) == (
        0,
        f"{file.name}: 3 records, 1 inserted, 2 rejected, see {file.name}.rejects.ndjson\n",
    )
    assert [row.get("age") for row in rows(url)] == [36, 41, None]


@pytest.mark.parametrize("rule", ["replace", "ignore"])
def test_again_with_a_rule(url: str, tmp_path: Path, rule: str) -> None:
    (tmp_path / "c.csv").write_text(CUSTOMERS.replace("old", ""))
    assert load(url, "c.csv", "--on-conflict", rule).code == 0
    before = rows(url)
    assert before[0]["name"] == ("Again" if rule == "replace" else "Ada")
    again = load(url, "c.csv", "--on-conflict", rule)
    assert (again.code, rows(url)) == (0, before)
    assert not (tmp_path / "c.csv.rejects.ndjson").exists()


def test_forms_and_packed_files_for_programs(url: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"n": 1},\n {"n": 2}]')
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'{"n": 3}\n{"n": 4}\n'))
    (tmp_path / "c.tsv").write_text("n\tt\n5\ta,b\n")
    (tmp_path / "d.txt").write_text('{\n"n": 6}\n{"n": 7}')
    printed = load(url, "a.json", "b.jsonl.gz", "c.tsv", "d.txt", "--json", model="Event")
    found = json.loads(printed.text)
    assert (found["model"], found["inserted"], found["rejected"]) == ("Event", 7, 0)
    assert [(each["file"], each["rejected"]) for each in found["files"]] == [
        ("a.json", 0),
        ("b.jsonl.gz", 0),
        ("c.tsv", 0),
        ("d.txt", 0),
    ]
    assert sorted(row["n"] for row in rows(url, "Event")) == [1, 2, 3, 4, 5, 6, 7]
    again = load(url, "a.json", "b.jsonl.gz", "c.tsv", "d.txt", "--on-conflict", "ignore", "--json", model="Event")
    assert json.loads(again.text)["ignored"] == 7


def test_standard_input(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Piped:
        buffer = io.BufferedReader(io.BytesIO(b"id;name\na;Ada\nb\n"))

    monkeypatch.setattr("sys.stdin", Piped)
    printed = load(url, "-", "--separator", ";")
    assert printed.text == "-: 2 records, 1 inserted, 1 rejected, see stdin.rejects.ndjson\n"
    assert rejects(tmp_path / "stdin.rejects.ndjson")[0]["text"] == "b"
    assert not Piped.buffer.closed


def test_where_rejects_go_and_how_many_are_allowed(url: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.ndjson").write_text('{"id": "x"}\n' * 2)
    printed = load(url, "a.ndjson", "b.ndjson", "--rejects", "all.ndjson", "--max-errors", "4")
    assert printed.code == 0
    assert [(each["file"], each["line"]) for each in rejects(tmp_path / "all.ndjson")] == [
        ("a.ndjson", 1),
        ("a.ndjson", 2),
        ("b.ndjson", 1),
        ("b.ndjson", 2),
    ]
    stopped = load(url, "a.ndjson", "b.ndjson", "--max-errors", "1")
    assert (stopped.code, stopped.lines[-1].startswith("2 sources: 4 records, 4 rejected, see a.ndjson")) == (1, True)
    assert stopped.errors == "stopped: too many records were rejected; nothing was imported\n"


def test_collections_by_their_folder(url: str, tmp_path: Path) -> None:
    """A folder that a model's path leads to has its types; another one has to be asked for."""
    (tmp_path / "u.csv").write_text("id,age\nada,36\n")
    assert load(url, "u.csv", model="org/acme/users").code == 0
    assert rows(url, "org/acme/users") == [{"id": "ada", "age": 36}]
    refused = load(url, "u.csv", model="new/place")
    assert (refused.code, "--create" in refused.errors) == (2, True)
    assert load(url, "u.csv", "--create", model="new/place").code == 0
    assert rows(url, "new/place") == [{"id": "ada", "age": 36}]


def test_export_and_import_give_the_same(url: str, tmp_path: Path) -> None:
    with wormdb.connect(url) as database:
        database.model("Customer").insert_many(
            [
                {"id": "a", "name": 'x "y", z', "age": 1, "tags": [1, "b", {"c": None}]},
                {"id": "b/ü", "name": "", "since": "2026-01-01T10:00:00Z", "tags": []},
                {"id": "c", "name": "two\r\nlines", "age": -5},
            ]
        )
    before = rows(url)
    for form in ("csv", "ndjson", "json"):
        file = tmp_path / f"out.{form}"
        file.write_bytes(worm("table", "export", "Customer", "--format", form, "--url", url).data)
        with wormdb.connect(url) as database:
            assert database.model("Customer").delete_many({}).deleted == 3
        assert load(url, file.name).code == 0
        assert rows(url) == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nix.csv"], "nix.csv cannot be read: there is no such file or folder"),
        (["torn.gz"], "torn.gz cannot be unpacked"),
        (["twice.csv"], "'a' is there twice"),
        (["twice.csv", "--rejects", "nix/x.ndjson"], "nix/x.ndjson cannot be written"),
        (["twice.csv", "--rejects", "twice.csv"], "twice.csv is read and written"),
        ([], "it needs records (name files, or --table NAME)"),
        (["twice.csv", "--table", "t"], "name files, or --table NAME"),
        (["-", "--infer"], "write it to a file first"),
        (["-", "--engine", "spark"], "workers cannot read it"),
        (["-", "--format", "parquet"], "standard input is text"),
    ],
)
def test_what_cannot_be_read(url: str, tmp_path: Path, arguments: list[str], text: str) -> None:
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    (tmp_path / "torn.gz").write_bytes(gzip.compress(b'{"id": "x", "name": "y"}\n' * 9)[:-9])
    printed = load(url, *arguments)
    assert (printed.code, printed.errors.count("\n")) == (2, 1)
    assert text in printed.errors


def test_a_file_that_breaks_off_imports_nothing(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b"".join(b'{"id": "%d", "name": "%s"}\n' % (number, b"%06d" % (number * 7919)) for number in range(8_000))
    (tmp_path / "big.ndjson.gz").write_bytes(gzip.compress(lines)[:24_000])
    monkeypatch.setattr(stream, "IMPORT_RECORDS", 500)
    printed = load(url, "big.ndjson.gz")
    assert (printed.code, rows(url)) == (2, [])
    assert "big.ndjson.gz cannot be unpacked" in printed.errors


def test_a_strict_import_tells_all_that_is_wrong(url: str, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(CUSTOMERS)
    printed = load(url, "c.csv", "--strict")
    assert (printed.code, rows(url)) == (2, [])
    assert "2 records do not fit; c.csv, line 3: age: expected integer" in printed.errors
    assert "see c.csv.rejects.ndjson" in printed.errors
    assert [each["line"] for each in rejects(tmp_path / "c.csv.rejects.ndjson")] == [3, 4]


def test_lines_that_are_passed_over(url: str, tmp_path: Path) -> None:
    (tmp_path / "c.ndjson").write_text("".join(f'{{"id": "{number}", "name": "x"}}\n' for number in range(9)))
    assert load(url, "c.ndjson", "--from-line", "8").text == "c.ndjson: 2 records, 2 inserted\n"
    assert [row["id"] for row in rows(url)] == ["7", "8"]


def test_progress_on_a_terminal(url: str, tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    (tmp_path / "c.ndjson").write_text("".join(f'{{"id": "{number}", "name": "x"}}\n' for number in range(600)))
    with redirect_stderr(Terminal()) as errors:
        assert run(["import", "c.ndjson", "--model", "Customer", "--url", url]) == 0
    assert "100%  import: 1 of 1 parts, 16.1 KB, 600 rows" in errors.getvalue()
