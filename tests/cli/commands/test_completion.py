"""What a shell completes, and that help costs nothing of what lies below."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.shell_completion import ShellComplete

from tests.cli.printed import SHOP, fill, worm
from wormdb.cli.main import VERBS
from wormdb.cli.main import worm as command

if TYPE_CHECKING:
    from pathlib import Path


def completed(*words: str) -> list[str]:
    """What is offered for the last word."""
    complete = ShellComplete(command, {}, "worm", "_WORM_COMPLETE")
    return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(shell: str) -> None:
    printed = worm("completion", shell)
    assert printed.code == 0
    assert f"_WORM_COMPLETE={shell}_complete" in printed.text
    assert worm("completion", "cmd").code == 2


def test_commands_and_options() -> None:
    assert completed("") == list(VERBS)
    assert completed("ta") == ["table"]
    assert completed("table", "re") == ["rebuild"]
    assert "--strategy" in completed("table", "query", "--s")
    assert completed("table", "query", "Customer", "--format", "nd") == ["ndjson"]
    assert completed("--v") == ["--version"]


def test_models_of_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(tmp_path / "shop")
    fill(url, customers=1)
    monkeypatch.chdir(tmp_path)
    assert completed("table", "query", "Cus") == []
    assert completed("table", "query", "--url", url, "Cus") == ["Customer"]
    monkeypatch.setenv("WORM_URL", url)
    assert completed("index", "list", "") == ["Customer", "Invoice", "OrgSettings", "User"]
    assert completed("history", "Cus") == completed("trash", "list", "Cus") == ["Customer"]
    assert completed("history", "Customer", "Cus") == []
    assert completed("import", "x.csv", "--model", "Inv") == ["Invoice"]
    monkeypatch.setenv("WORM_URL", "ftp://nowhere")
    assert completed("index", "list", "") == []


def test_files_and_folders_are_left_to_the_shell() -> None:
    complete = ShellComplete(command, {}, "worm", "_WORM_COMPLETE")
    for words, kind in (
        (["import", "cust"], "file"),
        (["schema", "infer", "cust"], "file"),
        (["table", "query", "--url", "da"], "dir"),
        (["status", "./da"], "dir"),
        (["shell", "./da"], "dir"),
        (["doctor", "./da"], "dir"),
    ):
        (item,) = complete.get_completions(words[:-1], words[-1])
        assert (item.type, item.value) == (kind, words[-1])


def test_collections_of_a_database_without_a_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORM_URL", str(tmp_path))
    assert worm("insert", "notes", '{"id": "a"}').code == 0
    assert completed("get", "n") == ["notes"]


def test_models_of_the_file_beside_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORM_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.json").write_text(json.dumps(SHOP))
    assert completed("table", "inspect", "In") == ["Invoice"]
    (tmp_path / "schema.json").write_text("{")
    assert completed("table", "inspect", "In") == []


def test_help_imports_no_more_than_it_needs() -> None:
    """`worm --help` takes little more than `import click`: none of what commands need is there."""
    program = (
        "import sys; from wormdb.cli.main import run; run(['--help']); run(['table', '--help']);"
        "print([name for name in sys.modules if name.startswith(('wormdb.', 'msgspec', 'rich', 'pyarrow', 'bson'))],"
        " file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert sorted(json.loads(done.stderr.replace("'", '"'))) == [
        "wormdb.cli",
        "wormdb.cli.commands",
        "wormdb.cli.commands.table",
        "wormdb.cli.commands.table.group",
        "wormdb.cli.main",
        "wormdb.cli.show",
        "wormdb.cli.show.terminal",
        "wormdb.cli.verbs",
        "wormdb.errors",
        "wormdb.system",
        "wormdb.system.installed",
    ]
    assert [verb for verb in VERBS if verb not in done.stdout] == []


def test_examples_end_the_help() -> None:
    for verb in ("list", "inspect", "query", "aggregate", "rebuild", "export", "files"):
        text = worm("table", verb, "--help").text
        assert f"\nExamples:\n  worm table {verb}" in text
    assert "\nExamples:\n  worm index create" in worm("index", "create", "--help").text
