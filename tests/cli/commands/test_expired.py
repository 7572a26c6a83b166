"""Documents that are over, from the command line: no verb shows one, before any process has removed it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.cli.printed import worm
from wormdb.format.wrappers import moment
from wormdb.settings import Settings
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

VERBS: dict[str, tuple[tuple[str, ...], str]] = {
    "get": (("get", "things", "over"), "it does not exist"),
    "update": (("update", "things", "over", '{"$set":{"n":5}}'), "it does not exist"),
    "delete": (("delete", "things", "over"), "it does not exist"),
    "query": (("table", "query", "things"), r"there .*\n\(1 row\)"),
    "count": (("table", "query", "things", "--count"), r"^1\n$"),
    "aggregate": (("table", "aggregate", "things", "--group-by", "kind", "--count"), r"there +1\n"),
    "export": (("table", "export", "things"), r'^\{"id":"there",.*\n$'),
    "list": (("table", "list"), r"things +1 "),
    "inspect": (("table", "inspect", "things"), r"Count: +1\n"),
    "status": (("status",), r"things +1 "),
}
"""A command line, and what it prints."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("expired")
    now = moment(SystemClock().now_ms())
    with wormdb.connect(made, settings=Settings(forward="manual")) as database:
        things = database["things"]
        things.insert({"_id": "over", "at": now - timedelta(seconds=1), "kind": "over"})
        things.insert({"_id": "there", "at": now + timedelta(hours=1), "kind": "there"})
        things.forward()
        things.expire("at")
    return made


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_shows_what_is_over(place: Path, verb: str) -> None:
    words, expected = VERBS[verb]
    printed = worm(*words, "--url", str(place))
    assert re.search(expected, printed.text + printed.errors), printed
    assert "over" not in printed.text


def test_an_export_into_files_has_what_is_there(place: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert worm("table", "export", "things", "--to", str(target), "--format", "ndjson", "--url", str(place)).code == 0
    assert [line[:13] for file in target.glob("part*") for line in file.read_text().splitlines()] == ['{"id":"there"']
