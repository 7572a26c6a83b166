"""What the package says about itself: extras, addresses, the page that a package index shows."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import pytest

from wormdb.system.installed import EXTRAS, Extra

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOR_DEVELOPERS = {"bench", "demo", "dev"}


def test_every_extra_is_one_that_the_code_knows() -> None:
    extras = PROJECT["optional-dependencies"]
    assert sorted(extras.keys() - FOR_DEVELOPERS - {"all"}) == [extra.name for extra in EXTRAS]
    assert extras["all"] == [f"wormdb[{','.join(extra.name for extra in EXTRAS)}]"]


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: extra.name)
def test_every_extra_is_used(extra: Extra) -> None:
    """A package that no line of the code imports is not offered."""
    named = Path(inspect.getfile(Extra))
    sources = [path.read_text() for path in (ROOT / "src").rglob("*.py") if path != named]
    for module in extra.modules:
        used = re.compile(rf'^\s*(?:import|from) {module}\b|"{module}"', flags=re.MULTILINE)
        assert any(used.search(text) for text in sources), module


def test_the_project_has_addresses() -> None:
    urls = PROJECT["urls"]
    assert list(urls) == ["Homepage", "Documentation", "Changelog", "Issues", "Source"]
    home = urls["Homepage"]
    assert all(url.startswith(home) for url in urls.values())
    pages = [url.removeprefix(f"{home}/blob/main/") for url in urls.values() if "/blob/main/" in url]
    assert len(pages) == 2
    assert [page for page in pages if not (ROOT / page).is_file()] == []
