"""The map stays a map: ARCHITECTURE.md is short, and each design note has a date and the four parts."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT, named

if TYPE_CHECKING:
    from pathlib import Path

NOTES = sorted((ROOT / "docs" / "design").glob("[0-9]*.md"))
PARTS = ["Context", "Decision", "Alternatives", "Consequences"]
WORDS_MAX = 2_500
DATED = re.compile(r"^Decided 20\d\d-\d\d-\d\d", flags=re.MULTILINE)


def test_the_architecture_fits_on_a_map() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert len(text.split()) <= WORDS_MAX
    titles = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert {"Layers", "The path of a save", "The path of a find", "The path of a forwarding"} <= {*titles}


def drawn(title: str) -> list[str]:
    """The names in the drawing of layers under a heading or a sentence, from the top."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    (block,) = re.findall(rf"{re.escape(title)}.*?```text\n(.*?)```", text, flags=re.DOTALL)
    return [re.match(r"\w+(?: \| \w+)*", line)[0] for line in block.splitlines()]  # type: ignore[index]  # all begin so


def layers(container: str) -> list[str]:
    """The layers of a package that exist, from the top, as import-linter has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each.get("containers") == [container])
    folder = ROOT.joinpath("src", *container.split("."))
    rows = [[name for name in re.findall(r"\w+", row) if list(folder.glob(f"{name}*"))] for row in contract["layers"]]
    return [" | ".join(row) for row in rows if row]


def exists(room: str) -> bool:
    path = ROOT.joinpath("src", "wormdb", *room.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


@pytest.mark.parametrize(("title", "container"), [("## Layers", "wormdb"), ("Inside `engine`", "wormdb.engine")])
def test_the_drawing_has_the_layers_that_are_checked(title: str, container: str) -> None:
    assert drawn(title) == layers(container)


def test_rooms_in_the_drawings_exist() -> None:
    """A path through the code names its modules, and a module that moves takes the drawing along."""
    blocks = re.findall(r"```text\n(.*?)```", (ROOT / "ARCHITECTURE.md").read_text(), flags=re.DOTALL)
    rooms = {
        room
        for block in blocks
        for room in re.findall(r"\b(?:api|bql|engine|files|maintenance|query)\.[a-z.]+\b", block)
    }
    assert len(rooms) > 12
    assert [room for room in sorted(rooms) if not exists(room)] == []


@pytest.mark.parametrize("note", NOTES, ids=named)
def test_a_note_has_a_date_and_four_parts(note: Path) -> None:
    text = note.read_text()
    assert DATED.search(text)
    assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE) == PARTS
    assert all(len(part.split()) > 5 for part in re.split(r"^## .*$", text, flags=re.MULTILINE)[1:])


def test_notes_are_numbered_and_listed() -> None:
    numbers = [int(note.name[:4]) for note in NOTES]
    assert all(after == before + 1 for before, after in pairwise([0, *numbers]))
    listed = (ROOT / "docs" / "design" / "README.md").read_text()
    assert [note.name for note in NOTES if f"({note.name})" not in listed] == []
