"""No pattern keeps a query busy. A matcher that goes back would not end before this test does: nothing is timed."""

from __future__ import annotations

import pytest

import wormdb
from wormdb.bql.regex import compile_regex
from wormdb.errors import InvalidRequestError
from wormdb.schema.pattern import compile_pattern, pattern_problem
from wormdb.settings import REGEX_BYTES_MAX

EVIL = [
    r"(a+)+$",
    r"(a|a)*$",
    r"(a|aa)+$",
    r"(a*)*$",
    r"([a-zA-Z]+)*$",
    r"(.*a){20}$",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(a?){50}a{50}$",
    r"(x+x+)+y",
    r"^(a+)*b$",
    r"((a+)+)+$",
    r"(a|b|ab)*c",
    r"(?:a+){2,}b",
    r"^(\w+\s?)*$",
    r"(\d+)*\D$",
    r"^([a-z0-9]+)*@x$",
    r"(.+)+=x",
    r"(\s*)*x$",
    r"^(?:(?:a|b)+)+c",
    r"(a{1,30}){1,30}b",
]
TEXTS = ["a" * 20_000 + "!", "x" * 20_000, "ab" * 10_000 + "!", " " * 20_000 + "!"]


@pytest.mark.parametrize("pattern", EVIL)
def test_evil_patterns_end(pattern: str) -> None:
    try:
        holds = compile_regex(pattern)
    except InvalidRequestError:
        return  # too large a program: refused when the query is read
    assert isinstance(holds(TEXTS[0]), bool)
    assert [holds(text) for text in TEXTS] == [holds(text) for text in TEXTS]


def test_they_end_in_queries_too() -> None:
    with wormdb.connect("memory://") as database:
        database["texts"].insert_many([{"id": str(number), "text": text} for number, text in enumerate(TEXTS)])
        database.forward(["texts"])
        for pattern in EVIL:
            with_regex = database["texts"].query().regex("text", pattern)
            assert with_regex.count() <= len(TEXTS)


@pytest.mark.parametrize("pattern", [r"(a)\1", r"(?=a)b", r"(?<!a)b", r"(?P=x)"])
def test_what_needs_going_back_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRequestError):
        compile_regex(pattern)


@pytest.mark.parametrize("pattern", ["a" * REGEX_BYTES_MAX + "a", "((a{1000}){1000}){1000}"])
def test_patterns_have_limits(pattern: str) -> None:
    with pytest.raises(InvalidRequestError):
        compile_regex(pattern)


@pytest.mark.parametrize("pattern", EVIL)
def test_patterns_of_a_schema_are_counted_before_they_are_used(pattern: str) -> None:
    """Ids are matched by Python, which goes back: so a pattern that could run away is not taken."""
    if pattern_problem(pattern) is None:
        for text in TEXTS:
            compile_pattern(pattern).fullmatch(text[:240])
    else:
        assert pattern != r"[a-z]+"
    assert pattern_problem(r"[a-z]+") is None
