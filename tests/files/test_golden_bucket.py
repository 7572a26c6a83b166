"""One script of operations gives exactly the expected files, in every layout and on every kind of store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.files.golden_bucket import GOLDEN, LAYOUTS, golden_tree, play

if TYPE_CHECKING:
    from pathlib import Path


def check(url: str, layout: str) -> None:
    play(url, layout)
    expected = json.loads((GOLDEN / f"{layout}.json").read_text(encoding="utf-8"))
    found = golden_tree(url)
    assert sorted(found) == sorted(expected)
    assert found == expected


@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_a_folder(layout: str, tmp_path: Path) -> None:
    check(str(tmp_path / "bucket"), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_on_s3(layout: str, s3_url: str) -> None:
    check(s3_url, layout)


def test_layouts_differ_only_in_places() -> None:
    trees = [json.loads((GOLDEN / f"{layout}.json").read_text(encoding="utf-8")) for layout in LAYOUTS]
    contents = [sorted(json.dumps(file) for key, file in tree.items() if key != ".worm") for tree in trees]
    assert all(content == contents[0] for content in contents)
    assert len({tuple(sorted(tree)) for tree in trees}) == len(LAYOUTS)
