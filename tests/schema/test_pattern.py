"""Patterns of dynamic types: those that could keep the matcher busy are refused before they are used."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.schema.identity import BUILT_IN_TYPES
from wormdb.schema.pattern import compile_pattern, pattern_problem
from wormdb.settings import PATTERN_CHARS_MAX


@pytest.mark.parametrize(
    "pattern",
    [
        *BUILT_IN_TYPES.values(),
        "^0x[0-9a-fA-F]{40}$",
        "[A-Z]{3}-[0-9]+",
        "(cus|inv)_[a-z0-9]{8,32}",
        "(?:[0-9a-f]{4}-){3}[0-9a-f]+",
        "[a-z]+@[a-z]+[.][a-z]+",
        "(a|b){1,3}",
        "[]a]+",
        "[^]]+",
        r"\d{4}-\w+",
        "a{}b",
        r"a\$",
        "a{2,}",
        "a{,3}",
        "(x)?",
    ],
)
def test_ordinary_patterns_are_taken(pattern: str) -> None:
    assert pattern_problem(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+",
        "(a*)*b",
        "(a|a)*",
        "(a|aa)+$",
        "([a-z]+-)*x",
        "(?:(?:a{1,9}){1,9}){1,9}",
        "(.*)(.*)(.*)(.*)x",
        "a*a*a*a*b",
        r"(\w+\s?)+",
        "(x+x+)+y",
        r"(a)\1",
        "(?=a)a",
        "(?P<n>a)",
        "(?i)a",
        "(",
        "[a",
        "a**",
        "a{99999999999}",
        "x" * (PATTERN_CHARS_MAX + 1),
        "(" * 200 + ")" * 200,
        "[[]",
        "[a--b]",
        "a||b",
    ],
)
def test_patterns_that_could_explode_or_are_none_are_refused(pattern: str) -> None:
    problem = pattern_problem(pattern)
    assert problem is not None
    assert all(problem)


@given(st.text("ab*+?{}|()[]^$\\,1.-", max_size=12))
def test_whatever_is_accepted_compiles_and_matches(pattern: str) -> None:
    if pattern_problem(pattern) is None:
        compile_pattern(pattern).fullmatch("a" * 240 + "!")


def test_anchors_are_implied() -> None:
    assert compile_pattern("^[0-9]+$").fullmatch("12")
    assert not compile_pattern("[0-9]+").fullmatch("12x")
    assert compile_pattern("^[0-9]+$").fullmatch("12\n") is None
    assert compile_pattern(r"a\$").fullmatch("a$")
    assert compile_pattern(r"a\\$").fullmatch("a\\")
    assert compile_pattern("a|b$").fullmatch("a")


def test_digits_are_ascii() -> None:
    assert compile_pattern(r"\d+").fullmatch("٣") is None
    assert compile_pattern(r"\d+").flags & re.ASCII
