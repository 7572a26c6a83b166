"""Commands that pages name exist, with the options that stand beside them."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import click
import pytest

from tests.docs.pages import PAGES, named, prose
from wormdb.cli.main import worm

if TYPE_CHECKING:
    from pathlib import Path

NAMED = re.compile(r"`(worm [^`]*)`")
# What an older version had, and what another program has.
OTHERS = {"CHANGELOG.md"}
FOREIGN = {"worm push", "worm table …"}


def problem(line: str) -> str | None:
    """What is wrong with a command line, if something is."""
    try:
        _, *words = shlex.split(line.replace("…", "").replace("|", " "))
    except ValueError as error:
        return f"{line}: {error}"
    command: click.Command = worm
    while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            return f"{line}: no {words[0]}"
        command, words = found, words[1:]
    options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
    unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in options]
    return f"{line}: no {unknown}" if unknown else None


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in OTHERS], ids=named)
def test_commands_that_a_page_names_exist(page: Path) -> None:
    lines = set(NAMED.findall(prose(page))) - FOREIGN
    assert sorted(filter(None, map(problem, lines))) == []


@pytest.mark.parametrize("line", ["worm fly", "worm table fly", "worm gc --fly"])
def test_what_does_not_exist_is_noticed(line: str) -> None:
    assert problem(line)
