"""What pages refer to is there: links and their anchors, and the files, modules and names of the code.

Pages that explain the code (README, CONTRIBUTING, ARCHITECTURE, docs/design) name it by paths such as src/wormdb/bql,
and by dotted names such as wormdb.errors.WormError. A module that moves shows here which pages named it.
"""

from __future__ import annotations

import importlib
import re
import tomllib
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.test_docs import FENCE, PAGES, ROOT, named

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = ROOT / "src" / "wormdb"
OF_THE_CODE = [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md")]
OF_THE_CODE += sorted((ROOT / "docs" / "design").glob("*.md"))

LINK = re.compile(r"\]\((?!\w+:)([^)\s]*)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", flags=re.MULTILINE)
# A file or folder by its path, from the root of the checkout or of the package.
PATH = re.compile(r"(?<![\w/.:-])((?:src/)?wormdb|src|tests|examples|benchmarks|docs|requirements)/([\w./-]*\w)")
DOTTED = re.compile(r"(?<![\w/.-])wormdb((?:\.[A-Za-z_]\w*)+)")
FILE_ENDINGS = {"json", "py", "md", "toml", "txt"}


def prose(page: Path) -> str:
    """The page without its code."""
    return FENCE.sub("", page.read_text())


@cache
def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links: small letters and digits, spaces as hyphens, marks left out."""
    plain = [re.sub(r"[`*]|\[|\]\([^)]*\)", "", title) for title in HEADING.findall(prose(page))]
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in plain}


def is_live(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page if not path else (page.parent / path).resolve()
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or (target.suffix == ".md" and anchor in anchors(target))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=named)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert [link for link in LINK.findall(prose(page)) if not is_live(page, link)] == []


def exists(top: str, rest: str) -> bool:
    base = SOURCE if top.endswith("wormdb") else ROOT / top
    return (base / rest).exists() or (base / f"{rest}.py").is_file()


def resolves(dotted: str) -> bool:
    """Whether a dotted name is a module of the package, or an attribute of one."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        return all(hasattr(found, name) and ((found := getattr(found, name)) or True) for name in parts[end:])
    return False


@pytest.mark.parametrize("page", [page for page in OF_THE_CODE if page.exists()], ids=named)
def test_every_file_and_module_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    gone = [f"{top}/{rest}" for top, rest in PATH.findall(text) if not exists(top, rest)]
    names = {f"wormdb{rest}" for rest in DOTTED.findall(text) if rest.rpartition(".")[2] not in FILE_ENDINGS}
    assert gone + sorted(name for name in names if not resolves(name)) == []


def test_links_of_the_readme_work_on_a_package_index() -> None:
    """There the page stands alone: the build makes each relative link one to the project's home."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    home = project["project"]["urls"]["Homepage"]
    (rule,) = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]
    page = (ROOT / "README.md").read_text()
    shown = re.sub(rule["pattern"], rule["replacement"], page)
    assert LINK.findall(shown) == []
    base = f"{home}/blob/main/"
    linked = re.findall(rf"\]\({re.escape(base)}([^)]*)\)", shown)
    assert linked == LINK.findall(page)
    assert "](#" not in page, "a package index gives headings no anchors"
