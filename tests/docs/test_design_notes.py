"""The map stays a map: ARCHITECTURE.md is short, and each design note has a date and the four parts."""

from __future__ import annotations

import re
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
