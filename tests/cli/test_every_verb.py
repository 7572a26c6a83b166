"""What holds for every verb of worm: examples, suggestions, and that a mistyped folder is an error."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import pytest

import wormdb
from tests.cli.printed import worm
from wormdb.cli.main import worm as command
from wormdb.schema.problems import find_nearest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def leaves(group: click.Group = command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from leaves(found, *path, name)
        else:
            yield (*path, name), found


VERBS = dict(leaves())


@pytest.mark.parametrize("path", VERBS, ids=" ".join)
def test_every_verb_has_examples_of_itself_with_options_that_it_has(path: tuple[str, ...]) -> None:
    examples = getattr(VERBS[path], "examples", ())
    assert examples, "a stranger begins with an example"
    known = {name for each in VERBS[path].params for name in (*each.opts, *each.secondary_opts)}
    own = 0
    for example in examples:
        for part in example.partition("#")[0].replace("&&", "|").split("|"):
            words = part.partition(" > ")[0].split()
            words = words[words.index("worm") :] if "worm" in words else words
            if words[1 : 1 + len(path)] == [*path] or path in {("completion",), ("sync", "run")}:
                own += 1
                assert not {word.partition("=")[0] for word in words if word.startswith("--")} - known, example
    assert own


MAKES_ONE: set[tuple[str, ...]] = {("insert",), ("put",), ("import",), ("init",), ("doctor",), ("serve",), ("push",)}
MAKES_ONE |= {("schema", "apply"), ("schema", "diff")}
"""Verbs that make a database, or a folder, where there is none, or tell what would be made."""
WITHOUT: set[tuple[str, ...]] = {("completion",), ("lint",), ("version",), ("cost",), ("pull",)}
WITHOUT |= {("schema", "infer"), ("layout", "migrate")}
"""Verbs without a database, or with one only at choice."""


MEANT = {
    ("update",): ("x", "x", '{"$set": {"n": 1}}'),
    ("rollback",): ("x", "x", "--to", "1"),
    ("node", "run"): ("--once",),
}
"""Words of verbs for which any word will not do."""


def arguments_of(verb: click.Command) -> Iterator[str]:
    for each in verb.params:
        if isinstance(each, click.Argument) and each.required and each.name not in {"place", "url", "names"}:
            yield "{}" if each.name in {"update", "body"} else "x"
        elif isinstance(each, click.Option) and each.required and each.name != "url":
            yield from (each.opts[0], "x")


@pytest.mark.parametrize("path", [path for path in VERBS if path[0] != "sync"], ids=" ".join)
def test_a_folder_that_is_not_there_is_an_error_and_is_not_made(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WORM_URL", raising=False)
    verb = VERBS[path]
    if path in MAKES_ONE | WITHOUT or not any(each.name in {"url", "place"} for each in verb.params):
        assert path in MAKES_ONE | WITHOUT
        return
    (tmp_path / "x").write_text("{}")
    words = MEANT.get(path) or tuple(arguments_of(verb))
    printed = worm(*path, *words, "--url", "./typo")
    assert (printed.code, "'./typo'" in printed.errors) == (1, True), printed
    assert not (tmp_path / "typo").exists()


def test_a_doctor_leaves_no_folder_and_the_use_of_none_is_an_error(tmp_path: Path) -> None:
    place = tmp_path / "typo"
    assert worm("doctor", str(place)).code == 0
    assert not place.exists()
    for arguments in (["doctor", str(place), "--read-only"], ["cost", str(place), "--used"]):
        printed = worm(*arguments)
        assert (printed.code, "it does not exist" in printed.errors) == (1, True)
    place.mkdir()
    (place / "mine.txt").write_text("kept")
    assert worm("doctor", str(place)).code == 0
    assert (place / "mine.txt").read_text() == "kept"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("gte", "'get'"),
        ("isnert", "'insert'"),
        ("tabel query", "'table'"),
        ("table qurey", "'query'"),
        ("schema infre", "'infer'"),
        ("index lsit", "'list'"),
        ("trash resotre", "'restore'"),
        ("infer", "'schema infer'"),
        ("find", "'table query'"),
        ("count", "'table query --count'"),
        ("collections", "'table list'"),
        ("help", "'--help'"),
    ],
)
def test_a_mistyped_verb_gets_a_suggestion(words: str, meant: str) -> None:
    printed = worm(*words.split())
    assert (printed.code, f"Did you mean {meant}?" in printed.errors) == (2, True), printed.errors


@pytest.mark.parametrize(
    ("typed", "known", "meant"),
    [
        ("$icn", ["$min", "$inc", "$max"], "$inc"),
        ("uid", ["ulid", "uuid"], "uuid"),
        ("gte", ["get", "gc", "diff"], "get"),
        ("sattus", ["status", "state"], "status"),
        ("Name", ["name"], "name"),
        ("custmer", ["customer", "custom"], "customer"),
        ("x", ["y"], None),
        ("frobnicate", ["table", "rename"], None),
    ],
)
def test_the_nearest_name_is_that_of_the_fewest_slips(typed: str, known: list[Any], meant: str | None) -> None:
    assert find_nearest(typed, known) == meant


@pytest.mark.parametrize("form", ["table", "json", "ndjson", "csv"])
def test_a_reader_that_went_away_is_no_error(form: str, tmp_path: Path) -> None:
    """`worm … | head`: head has what it wanted, and worm ends with 0 and says nothing."""
    with wormdb.connect(tmp_path) as db:
        db["notes"].insert_many([{"id": number, "text": "x" * 500} for number in range(1_000)])
    worm_line = [
        sys.executable,
        "-m",
        "wormdb.cli",
        "table",
        "query",
        "notes",
        "--format",
        form,
        "--url",
        str(tmp_path),
    ]
    with subprocess.Popen(worm_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        assert writer.stdout.readline()
        writer.stdout.close()
        assert (writer.stderr.read(), writer.wait(60)) == (b"", 0)
