"""The pages that people read, written and generated, as plain text."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

__all__ = ["PAGES", "ROOT", "named", "prose"]

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

# What a page shows of programs and of what they print is compared by tests/test_docs.py; drawings are sentences too.
_CODE = re.compile(r"^```(?!text)\w+[^\n]*\n.*?^```$", flags=re.MULTILINE | re.DOTALL)


def named(page: Path) -> str:
    """The page's path in the project."""
    return page.relative_to(ROOT).as_posix()


@cache
def prose(page: Path) -> str:
    """The sentences of a page on one line: without code, and with one space where there was a line break."""
    return " ".join(_CODE.sub("", page.read_text()).split())
