"""Versions from the command line, and for work over whole collections in parts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.jobs.rig import pipeline
from wormdb.cli.main import run
from wormdb.jobs.aggregate import AggregateOptions
from wormdb.jobs.compact import CompactOptions

if TYPE_CHECKING:
    from pathlib import Path

MANUAL = wormdb.Settings(forward="manual", forward_interval_ms=0)


def schema(version: int, field: str) -> dict[str, Any]:
    """A model with one field and an index over it."""
    model = {
        "path": "@customers/(id:string)",
        "version": version,
        "fields": {field: {"type": "integer", "required": True}},
        "indexes": {"byValue": {"field": field}},
    }
    return {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Customer": model}}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with twenty documents of version 1, and in it the schema of version 2."""
    monkeypatch.chdir(tmp_path)
    url = str(tmp_path / "db")
    with wormdb.connect(url, schema=schema(1, "a"), apply=True, settings=MANUAL) as database:
        database.model("Customer").insert_many([{"id": f"c{number:02}", "a": number} for number in range(20)])
        database.forward()
    (tmp_path / "schema.json").write_text(json.dumps(schema(2, "b")))
    (tmp_path / "mapping.json").write_text(json.dumps({"Customer": {"$rename": {"a": "b"}}}))
    (tmp_path / "renaming.py").write_text(
        "def rename(document):\n    document['b'] = document.pop('a')\n    return document\n"
    )
    return url


def test_a_plan_is_shown_and_nothing_is_done(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "apply", place, "--mapping", "mapping.json", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "Customer version 1 becomes 2" in said
    assert "20 documents are mapped; 1 block" in said
    assert run(["schema", "apply", place, "--dry-run", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["models"]
    assert told["warnings"] == ["b was any and is integer"]
    with wormdb.connect(place) as database:
        assert database.status(["Customer"])[0].version == 1


def test_a_mapping_and_how_far_it_is(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "apply", place, "--mapping", "mapping.json", "--yes", "--rewrite"]) == 0
    assert capsys.readouterr().out.endswith("applied\n")
    assert run(["table", "inspect", "Customer", "--url", place, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == {"number": 2, "olderBlocks": 0}


def test_a_function_and_what_is_wrong_with_it(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("Customer=renaming:nothing", "Customer=nowhere:rename", "renaming:rename"):
        assert run(["schema", "apply", place, "--migrate", wrong, "--yes"]) == 2
        assert wrong.partition("=")[0] in capsys.readouterr().err
    assert run(["schema", "apply", place, "--migrate", "Customer=renaming:rename", "--yes"]) == 0
    with wormdb.connect(place) as database:
        assert [one["b"] for one in database.model("Customer").find({"id": "c07"})] == [7]


def test_work_in_parts_sees_the_newest_version(place: str) -> None:
    with wormdb.connect(place, schema=schema(2, "b"), settings=MANUAL) as database:
        database.apply_schema(mappings={"Customer": {"$rename": {"a": "b"}}})
        work = pipeline(database, model="Customer")
        asked = {"count": True, "sum": "b"}
        for _ in range(2):
            options = AggregateOptions(filter={"b": {"$gte": 10}}, tasks=3)
            assert work.aggregate(asked, options) == {"count": 10, "sum": 145}
            assert work.aggregate(asked, AggregateOptions(filter={"a": {"$exists": True}}))["count"] == 0
            database.model("Customer")._ledger._advance.run()
        work.compact(CompactOptions(everything=True))
        assert database.status(["Customer"])[0].older_blocks == 0
        assert work.aggregate(asked, AggregateOptions()) == {"count": 20, "sum": 190}
        assert not work.verify().findings
