"""Figures on pages equal the constants of the code, and none is forgotten.

A figure is a number with a unit of size or time. Each must lie in a sentence of `figures.BOUND`, which is made of the
constant, or in one of `figures.FREE`, which lists examples and measurements.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from tests.docs.figures import BOUND, FREE
from tests.docs.pages import PAGES, ROOT, named, prose
from wormdb.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

# What changed in older versions is history, and no page of use.
FIGURED = [page for page in PAGES if page.name != "CHANGELOG.md"]
FIGURE = re.compile(
    r"(?<![\w.,$-])\d[\d,]*(?:\.\d+)? (?:[KMGT]i?B|kB|bytes?|ms|s|seconds?|minutes?|hours?|days?|weeks?)\b"
)
DEFAULT = re.compile(r"`(?:Settings\.)?(\w+)` \(([\d,.]+)(?: (days|by default))?\)")
DAY_MS = 86_400_000


def _sentences(page: Path) -> list[str]:
    bound = [template.format(*values) for template, values in BOUND.get(named(page), [])]
    return [*bound, *FREE.get(named(page), [])]


@pytest.mark.parametrize("page", FIGURED, ids=named)
def test_every_figure_is_bound_or_listed_as_free(page: Path) -> None:
    text = prose(page)
    known = [found.span() for each in _sentences(page) for found in re.finditer(re.escape(each), text)]
    found = [
        text[max(0, match.start() - 50) : match.end() + 20]
        for match in FIGURE.finditer(text)
        if not any(start <= match.start() and match.end() <= end for start, end in known)
    ]
    assert found == [], "name the constant in BOUND of tests/docs/figures.py, or list it in FREE"


@pytest.mark.parametrize(
    ("page", "sentence"),
    [(page, template.format(*values)) for page, bound in BOUND.items() for template, values in bound]
    + [(page, sentence) for page, free in FREE.items() for sentence in free],
)
def test_pages_say_what_the_constants_are(page: str, sentence: str) -> None:
    assert sentence in prose(ROOT / page)


def test_defaults_in_parentheses_are_those_of_the_settings() -> None:
    """`commit_seconds` (30) on any page: the figure behind the name of a setting is its default."""
    names = {field.name for field in fields(Settings)}
    told = [
        (named(page), name, float(figure.replace(",", "")) * (DAY_MS if unit == "days" else 1))
        for page in FIGURED
        for name, figure, unit in DEFAULT.findall(prose(page))
        if name in names
    ]
    assert len(told) > 5
    assert [each for each in told if getattr(Settings(), each[1]) != each[2]] == []


@pytest.mark.parametrize("text", ["at most 16 MiB long", "for 1,000 ms", "in 0.1 s", "7 days"])
def test_figures_are_found(text: str) -> None:
    assert FIGURE.search(text)
