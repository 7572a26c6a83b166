"""Regular expressions of dynamic types, limited to those that no id can slow down.

Python's matcher tries one way after another. How many ways there are is a property of the pattern: each
repeat of variable length and each alternative multiplies them, and a repeat around a repeat raises them to
a power. Patterns with more ways than `PATTERN_WAYS_MAX` are refused, so the time of a match is bounded by the
pattern, whatever id a caller sends.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from wormdb.settings import PATTERN_CHARS_MAX, PATTERN_WAYS_MAX, SEGMENT_BYTES_MAX

__all__ = ["compile_pattern", "pattern_problem"]

_REPEAT: Final = re.compile(r"(?:([*+?])|\{(\d*)(,?)(\d*)\})[?+]?")
_FUTURE_SETS: Final = re.compile(r"\[\^?\[|--|&&|~~|\|\|")
"""Signs that Python warns of, because a later version may give them a meaning."""
_GROUPS_MAX: Final = 20
_BRACES_FIX: Final = "use character classes and fixed lengths, for example [a-z0-9-]+ or [0-9]{4}"


class _UnsupportedPatternError(Exception):
    """Why the pattern is not taken, and what to do."""


def pattern_problem(pattern: str) -> tuple[str, str] | None:
    """Why a pattern cannot be a dynamic type, and the fix; None if it can."""
    if len(pattern) > PATTERN_CHARS_MAX:
        return f"the pattern has {len(pattern)} characters; the limit is {PATTERN_CHARS_MAX}", "shorten it"
    if _FUTURE_SETS.search(pattern):
        return "it could be read as an operation on sets", "put \\ before the second of the two signs"
    if pattern.count("(") > _GROUPS_MAX:
        return f"it has more than {_GROUPS_MAX} groups", "simplify it"
    try:
        compile_pattern(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"it must be a regular expression: {error}", "correct it"
    try:
        ways = _Counter(_core(pattern)).count()
    except _UnsupportedPatternError as refusal:
        reason, fix = refusal.args
        return reason, fix
    if ways > PATTERN_WAYS_MAX:
        return "a long id could keep it busy: repeats inside repeats, or too many of variable length", _BRACES_FIX
    return None


@lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern for `fullmatch`; raises re.error. Anchors at its ends are implied."""
    return re.compile(_core(pattern), re.ASCII)


def _core(pattern: str) -> str:
    core = pattern.removeprefix("^")
    body = core.removesuffix("$")
    slashes = len(body) - len(body.rstrip("\\"))
    return body if slashes % 2 == 0 else core


class _Counter:
    """Counts the ways in which a compiled pattern can match; it has no syntax errors."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def count(self) -> int:
        return self._alternatives()

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _alternatives(self) -> int:
        ways = self._sequence()
        while self._peek() == "|":
            self._at += 1
            ways = _bounded(ways + self._sequence())
        return ways

    def _sequence(self) -> int:
        ways = 1
        while self._peek() not in {"", "|", ")"}:
            ways = _bounded(ways * self._repeated(self._atom()))
        return ways

    def _atom(self) -> int:
        sign = self._peek()
        self._at += 1
        if sign == "[":
            self._skip_class()
        elif sign == "\\":
            self._escape()
        elif sign == "(":
            return self._group()
        return 1

    def _skip_class(self) -> None:
        self._at += self._peek() == "^"
        self._at += 1  # a ] in first place is a member
        while self._peek() != "]":
            self._at += 2 if self._peek() == "\\" else 1
        self._at += 1

    def _escape(self) -> None:
        if self._peek().isdigit():
            raise _UnsupportedPatternError("it refers back to a group", "write the pattern without back references")
        self._at += 1

    def _group(self) -> int:
        if self._peek() == "?":
            if self._pattern[self._at : self._at + 2] != "?:":
                raise _UnsupportedPatternError("it uses a (?…) form", "use plain groups: (…) or (?:…)")
            self._at += 2
        ways = self._alternatives()
        self._at += 1
        return ways

    def _repeated(self, ways: int) -> int:
        found = _REPEAT.match(self._pattern, self._at)
        if found is None or found[0].startswith("{}"):  # empty braces are two plain characters
            return ways
        self._at = found.end()
        least, most = _times(found)
        if ways == 1:
            return most - least + 1
        # Beyond this exponent the result is over every limit: no need to compute it.
        return _bounded(ways ** min(most, 64) * (most - least + 1))


def _times(found: re.Match[str]) -> tuple[int, int]:
    """The least and the greatest number of repeats; an id has no more characters than its segment."""
    sign, low, comma, high = found.groups()
    if sign:
        return (1 if sign == "+" else 0), (1 if sign == "?" else SEGMENT_BYTES_MAX)
    least = int(low or 0)
    most = int(high or SEGMENT_BYTES_MAX) if comma else least
    return min(least, SEGMENT_BYTES_MAX), max(min(most, SEGMENT_BYTES_MAX), min(least, SEGMENT_BYTES_MAX))


def _bounded(ways: int) -> int:
    return min(ways, PATTERN_WAYS_MAX + 1)
