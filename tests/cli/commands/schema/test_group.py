"""worm schema: what a database is told to be, what it is, and the way from one to the other."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click
import pytest

import wormdb
from tests.cli.printed import worm
from wormdb.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path


def schema(*, unique: bool = False) -> dict[str, Any]:
    return {
        "schemaVersion": "1.0",
        "sourceOfTruth": "remote",
        "models": {
            "Customer": {
                "path": "@customers/(id:string)",
                "fields": {"email": {"type": "string"}},
                "indexes": {"byEmail": {"field": "email", "unique": unique}},
            }
        },
    }


@pytest.fixture
def place(tmp_path: Path) -> tuple[str, Path]:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema()))
    return str(tmp_path / "db"), file


def test_diff_apply_show(place: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    url, file = place
    assert run(["schema", "diff", url, "-f", str(file)]) == 1
    assert "models.Customer: added" in capsys.readouterr().out
    assert run(["schema", "apply", url, "-f", str(file), "--yes"]) == 0
    assert run(["schema", "diff", url, "-f", str(file)]) == 0
    assert capsys.readouterr().out.endswith("no difference\n")
    assert run(["schema", "show", url]) == 0
    assert set(json.loads(capsys.readouterr().out)["models"]) == {"Customer"}


def test_whoever_says_no_changes_nothing(
    place: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url, file = place
    assert run(["schema", "apply", url, "-f", str(file)]) == 2
    assert "add --yes" in capsys.readouterr().err
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: False)
    assert run(["schema", "apply", url, "-f", str(file)]) == 1
    assert "nothing was changed" in capsys.readouterr().err
    assert run(["schema", "diff", url, "-f", str(file)]) == 1


def test_a_unique_index_over_duplicates_lists_them_and_changes_nothing(
    place: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    url, file = place
    with wormdb.connect(url, schema=schema()) as db:
        db.model("Customer").insert_many([{"id": "a", "email": "x@y"}, {"id": "b", "email": "x@y"}])
    file.write_text(json.dumps(schema(unique=True)))
    assert run(["schema", "apply", url, "-f", str(file), "--yes"]) == 2
    printed = capsys.readouterr()
    assert "email='x@y' is on 2 documents: 'a', 'b'" in printed.err
    file.write_text(json.dumps(schema()))
    assert run(["schema", "diff", url, "-f", str(file)]) == 0


def test_a_changed_definition_is_refused_until_it_is_applied(place: tuple[str, Path]) -> None:
    url, _ = place
    with wormdb.connect(url, schema=schema(), apply=True) as db:
        db.model("Customer").insert({"id": "a", "email": "x@y"})
    with wormdb.connect(url, schema=schema(unique=True)) as db:
        with pytest.raises(wormdb.SchemaMismatchError) as caught:
            db.model("Customer").count()
        assert [problem.path for problem in caught.value.problems] == ["models.Customer.indexes.byEmail.unique"]
        db.apply_schema()
        with pytest.raises(wormdb.UniqueViolationError):
            db.model("Customer").insert({"id": "b", "email": "x@y"})
    with wormdb.connect(url) as db:
        assert db.model("Customer").count() == 1
        assert db.schema is not None
        assert db.schema.models["Customer"].indexes["byEmail"].unique


def test_the_file_is_found_where_lint_finds_it(
    place: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url, file = place
    monkeypatch.chdir(file.parent)
    assert run(["schema", "diff", url]) == 1
    file.unlink()
    assert run(["schema", "diff", url]) == 2
    assert "neither .worm/schema.json nor schema.json is here (name the file: --file FILE)" in capsys.readouterr().err


def test_no_published_schema_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert run(["schema", "show", str(tmp_path / "empty")]) == 1
    assert "none is published" in capsys.readouterr().err


def test_differences_as_json(place: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    url, file = place
    assert run(["schema", "diff", url, "-f", str(file), "--json"]) == 1
    (change,) = json.loads(capsys.readouterr().out)["Customer"]
    assert (change["path"], change["kind"]) == ("models.Customer", "added")


def test_the_database_is_an_argument_or_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORM_URL", raising=False)
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"schemaVersion": "1.0", "models": {"Thing": {"path": "@things/(id:any)"}}}))
    place = str(tmp_path / "db")
    assert worm("schema", "apply", "--url", place, "--schema", str(file), "--yes").code == 0
    assert worm("schema", "diff", place, "--file", str(file)).text == "no difference\n"
    monkeypatch.setenv("WORM_URL", place)
    assert '"Thing"' in worm("schema", "show").text
    monkeypatch.delenv("WORM_URL")
    assert "Missing argument 'URL'" in worm("schema", "show").errors


@pytest.mark.parametrize("verb", [["show"], ["diff"], ["apply", "--yes"]])
def test_a_database_that_is_named_twice_is_refused(
    verb: list[str], place: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, file = place
    given = [] if verb == ["show"] else ["--file", str(file)]
    other = tmp_path / "other"
    refused = worm("schema", *verb, str(other), "--url", url, *given)
    assert refused.code == 2
    assert "named twice" in refused.errors
    assert not other.exists()
    # A URL of the environment is only for who names none.
    monkeypatch.setenv("WORM_URL", str(other))
    assert worm("schema", "apply", url, "--file", str(file), "--yes").code == 0
    assert not other.exists()
