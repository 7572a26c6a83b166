"""The page on security names tests that exist, and every file of tests here."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "security.md").read_text()


def test_every_limit_names_a_test_that_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) >= 25
    assert [(file, test) for file, test in named if f"def {test}(" not in (ROOT / file).read_text()] == []
    here = {f"tests/security/{path.name}" for path in Path(__file__).parent.glob("test_*.py")}
    assert here - {file for file, _ in named} == {"tests/security/test_page.py"}
