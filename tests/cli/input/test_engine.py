"""Which engine runs a job, and how far it is on the way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from tests.cli.printed import fill, table, worm
from wormdb.cli.commands.pipeline import MOVED
from wormdb.cli.input import engine as engines
from wormdb.cli.input import engine as steps
from wormdb.cli.main import worm as root
from wormdb.jobs.work import JobProgress

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_folder_names_a_collection(jobs_shop: str) -> None:
    assert "1" in table(jobs_shop, "aggregate", "org/acme/users", "--count", "--tasks", "1").text


def test_a_name_that_is_none_is_refused(jobs_shop: str) -> None:
    done = worm("table", "aggregate", "Custmer", "--count", "--tasks", "1", "--url", jobs_shop)
    assert done.code == 2
    assert "did you mean" in done.errors


def test_without_java_one_line_says_what_to_do(jobs_shop: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    done = worm("table", "aggregate", "Invoice", "--count", "--engine", "spark", "--url", jobs_shop)
    assert done.code == 1
    assert done.errors.splitlines()[-1].startswith("worm: Spark needs Java 17 or newer: there is no java in JAVA_HOME=")


def test_auto_takes_spark_for_a_master_or_for_much(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = engines._is_spark
    monkeypatch.setattr(engines, "_has_spark", lambda: True)
    much = engines.auto_bytes("rebuild")
    assert not chosen("auto", None, much - 1, "rebuild")
    assert chosen("auto", None, much, "rebuild")
    assert not chosen("auto", None, much, "aggregate"), "which is quicker"
    assert chosen("auto", "spark://head:7077", 0, "rebuild")
    assert not chosen("local", "spark://head:7077", much, "rebuild")
    monkeypatch.setattr(engines, "_has_spark", lambda: False)
    assert not chosen("auto", None, much, "rebuild")


def test_every_job_has_a_rate_by_which_its_engine_is_chosen() -> None:
    context = click.Context(root)
    group = root.get_command(context, "table")
    assert isinstance(group, click.Group)
    found = {("table", name): group.get_command(context, name) for name in group.list_commands(context)}
    found |= {("worm", name): root.get_command(context, name) for name in root.list_commands(context)}
    takes = {name for (_, name), verb in found.items() if verb and any(each.name == "engine" for each in verb.params)}
    assert set(engines.RATES) == takes


def test_older_names_work_and_say_so_for_one_release(jobs_shop: str) -> None:
    done = worm("pipeline", "aggregate", "Invoice", "--count", "--tasks", "1", "--url", jobs_shop)
    first, second, *_ = done.errors.splitlines()
    assert (done.code, done.data) == (0, table(jobs_shop, "aggregate", "Invoice", "--count").data)
    assert first == "worm: worm pipeline aggregate is deprecated: use worm table aggregate"
    assert json.loads(second)["job"] == "aggregate"
    assert worm("pipeline", "verify", "Customer", "--url", jobs_shop).code == 0
    assert "pipeline" not in worm("--help").text
    for name, now in MOVED.items():
        assert worm(*now.split(), "--help").lines[1:] == worm("pipeline", name, "--help").lines[1:]


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with steps.told_steps(None) as told:
        told(JobProgress("export", 1, 4, 2_000_000, 50, 3.0, 9.0))
    drawn = capsys.readouterr().err
    assert "25%  export: 1 of 4 parts, 2.0 MB, 50 rows, 9 s left" in drawn


def test_a_pipe_has_few_lines(capsys: Any) -> None:
    with steps.told_steps(True) as told:
        for number in range(101):
            told(JobProgress("export", number, 100, 0, 0, number / 20, None))
    assert len(capsys.readouterr().err.splitlines()) == 6
    for progress in (None, False):
        with steps.told_steps(progress) as told:
            told(JobProgress("export", 1, 4, 0, 0, 3.0, 9.0))
    assert capsys.readouterr().err == ""


def test_a_job_is_imported_once(memory: str, tmp_path: Path) -> None:
    fill(memory, 1)
    file, rejects = tmp_path / "x.ndjson", tmp_path / "bad.ndjson"
    file.write_text('{"id": "n1", "name": "a"}\n{"id": "n2", "name": 7}\n')
    asked = ["import", str(file), "--model", "Customer", "--rejects", str(rejects), "--job", "j", "--url", memory]
    done = worm(*asked)
    assert (done.code, done.text) == (1, f"{file}: 2 records, 1 inserted, 1 rejected, see {rejects}\n")
    told = json.loads(rejects.read_text())
    assert (told["line"], told["record"]) == (2, {"id": "n2", "name": 7})
    rejects.write_text(rejects.read_text().replace("7}", '"b"}'))
    mended = worm("import", str(rejects), "--from-rejects", "--model", "Customer", "--url", memory)
    assert "1 inserted" in mended.text
    again = worm(*asked)
    assert (again.code, "was done before" in again.text) == (0, True)
    old = worm("pipeline", *asked)
    assert (old.data, old.errors) == (again.data, "worm: worm pipeline import is deprecated: use worm import\n")


def test_a_model_is_made_shown_and_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("email,name\na@x,Ada\nb@x,Bob\na@x,Eve\n")
    asked = ["import", "people.csv", "--model", "Person", "--infer", "--id", "email", "--url", "db"]
    done = worm(*asked)
    assert done.code == 1
    assert done.text == "people.csv: 3 records, 2 inserted, 1 rejected, see people.csv.rejects.ndjson\n"
    assert '"name": {\n      "type": "string",\n      "required": true' in done.errors
    again = worm(*asked)
    assert (again.code, "there is such a model already" in again.errors) == (2, True)
    assert worm("table", "query", "Person", "--url", "db", "--count").text.strip() == "2"
    strict = worm(*asked[:4], "--id", "email", "--strict", "--url", "db")
    assert (strict.code, "3 records do not fit" in strict.errors) == (2, True)
