"""Docs are programs: every code block is run, or says why it is not.

python    executed, one namespace a page, in an empty folder
console   `$ …` lines are run, and the lines below them are compared (… matches anything)
json      parsed
text      a picture or a file listing: nothing to run
other     needs `<!-- not run: reason -->` on the line above

A block whose fence says `title="name"` is what a reader saves under that name.

Blocks run in the order of the page, as a reader would type them. Everything runs in this process, `worm` too: starting
Python for each line took most of the time. That the command can be started is for tests/cli. Pages that start Spark
are run by tests/spark, which has a session already. Links are for test_references.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import subprocess
import sys
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from tests.cli.printed import worm

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [*(ROOT / f"{name}.md" for name in ("ARCHITECTURE", "CONTRIBUTING", "README")), *(ROOT / "docs").rglob("*.md")]
)
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')
EXCUSE = re.compile(r"<!-- not run: .{10,} -->\s*$")
STARTS_SPARK = re.compile(
    r"^```python\n(?:(?!^```).*\n)*?(?:import|from) (?:pyspark|wormdb\.spark)\b", flags=re.MULTILINE
)
SPARK_PAGES = [page for page in PAGES if STARTS_SPARK.search(page.read_text())]


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int
    excused: bool
    title: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for match in FENCE.finditer(text):
        before = text[: match.start()]
        title = TITLE.search(match[2])
        found.append(
            Block(
                match[1],
                match[3],
                before.count("\n") + 2,
                EXCUSE.search(before) is not None,
                title[1] if title else None,
            )
        )
    return found


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@contextmanager
def newcomer(folder: Path) -> Iterator[ModuleType]:
    """An empty folder and an empty namespace; what a page changes of the process ends with it."""
    page = ModuleType("page")
    log = logging.getLogger("wormdb")
    environment, level, handlers = dict(os.environ), log.level, logging.root.handlers[:]
    sys.modules["page"] = page
    try:
        with chdir(folder):
            yield page
    finally:
        del sys.modules["page"]
        os.environ.clear()
        os.environ.update(environment)
        log.setLevel(level)
        logging.root.handlers[:] = handlers


def run_python(page: Path, part: Block, module: ModuleType) -> None:
    """Execute one block, so that a traceback shows its lines in the page."""
    program = compile("\n" * (part.line - 1) + part.code, str(page), "exec", dont_inherit=True)
    exec(program, vars(module))


def run_console(page: Path, part: Block) -> None:
    """Run each `$ ` line and compare what it prints with the lines below it."""
    for chunk in re.split(r"^\$ ", part.code, flags=re.MULTILINE)[1:]:
        command, _, expected = chunk.partition("\n")
        printed = "\n".join(line.rstrip() for line in output_of(command).splitlines() if line.strip())
        wanted = "\n".join(line.rstrip() for line in expected.splitlines() if line.strip())
        pattern = re.escape(wanted).replace("…", ".*?")
        assert re.fullmatch(pattern, printed, flags=re.DOTALL), f"{named(page)}: $ {command}\n{printed}"


def output_of(command: str) -> str:
    """What a command line prints, then its errors. All but `worm`, `> file` behind it and `export` is for a shell."""
    name, *arguments = shlex.split(command)
    if name == "export":
        os.environ.update(word.partition("=")[::2] for word in arguments)
        return ""
    if name != "worm":
        process = subprocess.run(
            command, shell=True, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, check=False
        )
        return process.stdout + process.stderr
    *words, sign, target = ["", "", *arguments]
    done = worm(*(words[2:] if sign == ">" else arguments))
    if sign == ">":
        Path(target).write_bytes(done.data)
        return done.errors
    return done.text + done.errors


def run_page(page: Path, folder: Path) -> None:
    """Run every block of a page that is not excused, in its order."""
    with newcomer(folder) as module:
        for part in blocks(page):
            if part.title is not None:
                Path(part.title).write_text(part.code)
            match part.language:
                case _ if part.excused:
                    pass
                case "python":
                    run_python(page, part, module)
                case "console":
                    run_console(page, part)
                case "json":
                    json.loads(part.code)
                case "text":
                    pass
                case other:
                    pytest.fail(
                        f"{named(page)}:{part.line}: a block of {other or 'no language'!r} is neither run nor excused"
                    )


@pytest.mark.parametrize("page", [page for page in PAGES if page not in SPARK_PAGES], ids=named)
def test_every_block_runs(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_page_has_one_title(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    assert len(re.findall(r"^# ", text, flags=re.MULTILINE)) == 1


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
