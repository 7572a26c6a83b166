"""Docs are programs: every code block is run, or says why it is not.

python    executed top to bottom, one namespace a page, in an empty folder
console   `$ worm …` lines are run, and the lines below them are compared (… matches anything)
json      parsed
text      a picture or a file listing: nothing to run
other     needs `<!-- not run: reason -->` on the line above
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
EXCUSE = re.compile(r"<!-- not run: .{10,} -->\s*$")


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int
    excused: bool


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for match in FENCE.finditer(text):
        before = text[: match.start()]
        found.append(Block(match[1], match[2], before.count("\n") + 2, EXCUSE.search(before) is not None))
    return found


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def run_python(page: Path, parts: list[Block], folder: Path) -> None:
    """Run a page's Python blocks as one program in a process of its own."""
    program = "".join(
        "\n" * (part.line - 1) + part.code if not index else part.code for index, part in enumerate(parts)
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{named(page)}\n{done.stdout}\n{done.stderr}"


def run_console(page: Path, part: Block, folder: Path) -> None:
    """Run each `$ ` line and compare what it prints with the lines below it."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for chunk in re.split(r"^\$ ", part.code, flags=re.MULTILINE)[1:]:
        command, _, expected = chunk.partition("\n")
        done = subprocess.run(
            shlex.split(command), cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        printed = "\n".join(line.rstrip() for line in (done.stdout + done.stderr).splitlines() if line.strip())
        wanted = "\n".join(line.rstrip() for line in expected.splitlines() if line.strip())
        pattern = re.escape(wanted).replace("…", ".*?")
        assert re.fullmatch(pattern, printed, flags=re.DOTALL), f"{named(page)}: $ {command}\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_runs(page: Path, tmp_path: Path) -> None:
    parts = [part for part in blocks(page) if not part.excused]
    python = [part for part in parts if part.language == "python"]
    if python:
        run_python(page, python, tmp_path)
    for part in parts:
        match part.language:
            case "python" | "text":
                pass
            case "console":
                run_console(page, part, tmp_path)
            case "json":
                json.loads(part.code)
            case other:
                pytest.fail(
                    f"{named(page)}:{part.line}: a block of {other or 'no language'!r} is neither run nor excused"
                )


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_page_has_one_title_and_live_links(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    assert len(re.findall(r"^# ", text, flags=re.MULTILINE)) == 1
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_is_reachable_from_the_index() -> None:
    """A page nobody links to is a page nobody reads."""
    seen: set[Path] = set()
    queue = [ROOT / "README.md"]
    while queue:
        page = queue.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
        queue += [target for link in links if (target := (page.parent / link).resolve()).is_file()]
    assert [named(page) for page in PAGES if page not in seen] == []


def test_generated_reference_is_current() -> None:
    """`make docs` writes the reference from the code; a change of either shows here."""
    from docs.generate import generate

    stale = [named(path) for path, text in generate().items() if not path.exists() or path.read_text() != text]
    assert stale == [], "run: make docs"
