"""worm shell: verbs line by line."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wormdb
from tests.cli.printed import Printed, fill, worm
from wormdb.cli.commands.shell import _options_of, _statements, _verbs_of
from wormdb.cli.input.lines import Completer, UnfinishedLineError, expanded, split_line
from wormdb.format import json

if TYPE_CHECKING:
    from pathlib import Path


def script(url: str, monkeypatch: pytest.MonkeyPatch, text: str) -> Printed:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    return worm("shell", url)


def test_lines_are_verbs_in_one_process(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        'insert notes {"id": "a", "n": 1}\n# nothing\n\nupdate notes a {"$inc": {"n": 1}}\ncount notes {"n": 2}\nexit\n'
    )
    done = script(memory, monkeypatch, lines)
    assert (done.code, done.lines[-1]) == (0, "1"), done


def test_a_statement_goes_on_while_a_bracket_is_open(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = script(memory, monkeypatch, 'insert notes {"id": "a",\n  "text": "}{"}\nget notes a --plain\n')
    assert (done.code, done.lines[0], '"text": "}{"' in done.text) == (0, "a", True)


def test_an_empty_line_within_a_document_belongs_to_it(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = script(memory, monkeypatch, 'insert notes {"id": "a",\n\n  "n": 1}\n\ncount notes n=1\n')
    assert (done.code, done.lines) == (0, ["a", "1"]), done


def test_an_interrupt_drops_what_was_typed_and_nothing_else() -> None:
    lines = iter(['insert notes {"id":', "\x03", "count notes"])
    assert list(_statements(lambda _: next(lines, None))) == [["count", "notes"]]


@pytest.mark.parametrize(
    ("line", "meant"), [("fnd notes", "find"), ("cuont notes", "count"), ("colections", "collections")]
)
def test_a_mistyped_short_form_gets_a_suggestion(
    memory: str, monkeypatch: pytest.MonkeyPatch, line: str, meant: str
) -> None:
    done = script(memory, monkeypatch, line)
    assert (done.code, f"Did you mean '{meant}'?" in done.errors) == (2, True), done.errors


def test_help_of_a_verb_in_a_group(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in ("help table query", "help find"):
        assert "Usage: worm table query" in script(memory, monkeypatch, line).text


def test_a_script_ends_at_the_first_mistake(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = script(memory, monkeypatch, 'insert notes {"id": "a"}\nget notes zz\ninsert notes {"id": "b"}\n')
    assert done.code == 1
    assert "does not exist" in done.errors
    with wormdb.connect(memory) as database:
        assert database["notes"].count() == 1


def test_the_environment_is_as_before(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORM_URL", raising=False)
    script(memory, monkeypatch, "collections\n")
    assert "WORM_URL" not in os.environ


def test_words_and_documents() -> None:
    assert split_line("""find notes 'a b' "c d" {"x": ["}", {"y": 1}]} --limit 3""") == [
        "find",
        "notes",
        "a b",
        "c d",
        '{"x": ["}", {"y": 1}]}',
        "--limit",
        "3",
    ]
    for text in ('{"a"', "get 'x", '["'):
        with pytest.raises(UnfinishedLineError):
            split_line(text)
    assert expanded(["find", "notes", "n>1", "--limit", "3"]) == [
        "table",
        "query",
        "notes",
        "--filter",
        "n>1",
        "--limit",
        "3",
    ]
    assert expanded(["count", "notes"]) == ["table", "query", "notes", "--count"]
    assert expanded(["get", "notes", "a"]) == ["get", "notes", "a"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_a_document_is_one_word_whatever_is_in_it(value: object) -> None:
    text = json.encode({"value": value}).decode()
    assert split_line(f"put notes {text} --json") == ["put", "notes", text, "--json"]


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        ("", "fi", ["files", "find"]),
        ("find ", "Cust", ["Customer"]),
        ("find ", "no", ["notes"]),
        ("find Customer ", "st", ["status"]),
        ("find notes ", "te", ["text"]),
        ("find notes ", "--li", ["--limit"]),
        ('find notes {"n": {"', "$gt", ["$gt", "$gte"]),
        ('update notes a {"', "$pus", ["$push"]),
        ("find nothing ", "x", []),
        ("index ", "dr", ["drop"]),
        ("table ", "qu", ["query"]),
        ("table query ", "Cust", ["Customer"]),
        ("table query Customer ", "st", ["status"]),
        ("get ", "Cust", ["Customer"]),
        ("help ", "fin", ["find"]),
        ("help table ", "qu", ["query"]),
    ],
)
def test_what_may_follow_is_offered(memory: str, line: str, word: str, expected: list[str]) -> None:
    fill(memory, 1)
    with wormdb.connect(memory) as database:
        completer = Completer(database, _verbs_of, _options_of)
        assert completer.offers(line, word) == expected


def test_a_terminal_has_a_prompt_and_completion(tmp_path: Path) -> None:
    url = str(tmp_path / "data")
    with wormdb.connect(url) as database:
        database["notes"].insert({"id": "a", "text": "hello"})
    main, side = pty.openpty()
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "TERM": "dumb"}
    with subprocess.Popen(
        [sys.executable, "-m", "wormdb.cli", "shell", url], stdin=side, stdout=side, stderr=side, env=environment
    ) as process:
        os.close(side)
        shown = b""
        for line in (b"get no\ta\n", b"nonsense\n", b"exit\n"):
            while not shown.endswith(b"worm> "):
                shown += os.read(main, 100_000)
            shown += b"\n"
            os.write(main, line)
        assert process.wait(60) == 0
    os.close(main)
    assert b'"text": "hello"' in shown
    assert b"No such command 'nonsense'" in shown
    assert "get notes" in (tmp_path / "state" / "worm" / "history").read_text()
