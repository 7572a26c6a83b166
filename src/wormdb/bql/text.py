r"""Filters and sorts as they are typed on a command line.

    status=active,tags~vip          all conditions hold; ~ is $contains
    amount>100                      also >= < <= != =
    name="Smith, John"              quotes, single or double, make text of anything; \ keeps the next letter as it is
    createdAt>=2024-01-01           a bare date is a moment in UTC; bare numbers, true, false, null are what they say
    tags=["a","b"]                  [ and { begin a value in extended JSON
    {"amount": {"$gt": 100}}        a text that begins with { is a whole filter in JSON

A sort is `name`, `-name`, `name:desc`, or several of them with commas.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

from wormdb.bql.parse import OperandError, parse_filter, read_value
from wormdb.bql.sorting import SortSpec, parse_sort
from wormdb.bql.tree import Compare, Contains, Filter, Not, conjunction
from wormdb.errors import InvalidRequestError, LimitExceededError, Problem
from wormdb.format import json
from wormdb.format.path import Path, parse_path
from wormdb.settings import FILTER_CONDITIONS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["parse_filter_text", "parse_sort_text"]

_OPERATORS: Final[dict[str, Callable[[Path, Any], Filter]]] = {
    ">=": lambda path, value: Compare(path, "gte", value),
    "<=": lambda path, value: Compare(path, "lte", value),
    "!=": lambda path, value: Not(Compare(path, "eq", value)),
    "=": lambda path, value: Compare(path, "eq", value),
    ">": lambda path, value: Compare(path, "gt", value),
    "<": lambda path, value: Compare(path, "lt", value),
    "~": Contains,
}
_SIGNS: Final = frozenset("=<>!~,")
_BLANKS: Final = " \t\r\n"
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", re.ASCII)
_DATE: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[-+][0-9]{2}:?[0-9]{2})?)?",
    re.ASCII,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_SHOWN_CHARS: Final = 60


def parse_filter_text(text: str) -> Filter:
    """The tree of a filter on a command line; everything if there is no text.

    Raises InvalidRequestError with all mistakes; its message shows the first one with a caret below it.
    LimitExceededError over FILTER_CONDITIONS_MAX. No requests.
    """
    if text.lstrip(_BLANKS).startswith("{"):
        return parse_filter(json.parse(text, operators=True))
    reader = _TextReader(text)
    conditions = reader.conditions()
    if reader.mistakes:
        place = reader.mistakes[0].place
        raise InvalidRequestError(
            f"the filter cannot be read\n{_pointed(text, place)}\ncolumn {place + 1}",
            reason=reader.mistakes[0].reason,
            fix=reader.mistakes[0].fix,
            problems=[Problem(f"column {error.place + 1}", error.reason, error.fix) for error in reader.mistakes],
        )
    return conjunction(conditions)


def parse_sort_text(text: str) -> SortSpec:
    """The order of a sort on a command line: names with commas, each with `-` before or `:asc`, `:desc` behind it.

    Raises InvalidRequestError with all mistakes. No requests.
    """
    names = [name.strip(_BLANKS) for name in text.split(",")] if text.strip(_BLANKS) else []
    pairs: list[str | tuple[str, str | int]] = []
    for name in names:
        field, colon, direction = name.rpartition(":")
        pairs.append((field, direction) if colon and direction in {"asc", "desc"} else name)
    return parse_sort(pairs)


def _pointed(text: str, place: int) -> str:
    """The text around a place, and a caret below it."""
    start = max(0, place - _SHOWN_CHARS)
    shown = "".join(letter if letter.isprintable() else " " for letter in text[start : place + _SHOWN_CHARS])
    return f"  {shown}\n  {' ' * (place - start)}^"


class _SyntaxError(Exception):
    """A condition cannot be read: where, why, and what to write."""

    def __init__(self, place: int, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.place = place
        self.reason = reason
        self.fix = fix


class _TextReader:
    """Reads conditions from left to right; after a mistake it goes on behind the next comma."""

    def __init__(self, text: str) -> None:
        self.mistakes: list[_SyntaxError] = []
        self._text = text
        self._place = 0

    def conditions(self) -> list[Filter]:
        """All conditions that can be read."""
        found: list[Filter] = []
        self._skip_blanks()
        more = bool(self._text.strip(_BLANKS))
        while more:
            if len(found) + len(self.mistakes) >= FILTER_CONDITIONS_MAX:
                reason = f"FILTER_CONDITIONS_MAX is {FILTER_CONDITIONS_MAX}"
                raise LimitExceededError("the filter has too many conditions", reason=reason, fix="shorten it")
            try:
                found.append(self._condition())
            except _SyntaxError as error:
                self.mistakes.append(error)
                comma = self._text.find(",", max(self._place, error.place))
                self._place = comma if comma >= 0 else len(self._text)
            more = self._take(",")
        return found

    def _condition(self) -> Filter:
        self._skip_blanks()
        start = self._place
        name, _ = self._quoted() if self._at() in {'"', "'"} else self._bare(_SIGNS)
        if not name:
            self._refuse(start, "a field is missing", "write such as status=active, with one comma between conditions")
        try:
            path = parse_path(name)
        except InvalidRequestError as error:
            self._refuse(start, error.reason or error.what, error.fix)
        self._skip_blanks()
        sign = next((sign for sign in _OPERATORS if self._text.startswith(sign, self._place)), None)
        if sign is None:
            self._refuse(self._place, "an operator is missing", f"write one of {' '.join(_OPERATORS)}")
        self._place += len(sign)
        value = self._value()
        if self._place < len(self._text) and self._at() != ",":
            self._refuse(self._place, "a comma is missing", "quote the whole value, or separate conditions with ,")
        return _OPERATORS[sign](("_id", *path[1:]) if path[0] == "id" else path, value)

    def _value(self) -> Any:
        self._skip_blanks()
        start = self._place
        if self._at() in {'"', "'"}:
            value: Any = self._quoted()[0]
        elif self._at() in {"[", "{"}:
            value = self._json()
        elif self._at() == "=":
            self._refuse(start, "a bare value begins with =", 'write one = only, or quote the value, as in a="=b"')
        else:
            word, is_text = self._bare(frozenset(","))
            if not word and not is_text:
                self._refuse(start, "a value is missing", 'write "" for empty text, or null')
            value = word if is_text else self._typed(word, start)
        self._skip_blanks()
        try:
            return read_value(value)
        except OperandError as error:
            self._refuse(start, error.reason, error.fix)

    def _typed(self, word: str, start: int) -> Any:
        """What a bare word stands for."""
        if word in _WORDS:
            return _WORDS[word]
        if _INTEGER.fullmatch(word):
            if len(word) > 20:
                self._refuse(start, "the number does not fit in 64 bits", "quote it to make it text")
            return int(word)
        if _NUMBER.fullmatch(word):
            return float(word)
        if not _DATE.fullmatch(word):
            return word
        try:
            moment = datetime.fromisoformat(word)
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        except ValueError:
            self._refuse(start, f"{word} is not a date", "quote it to make it text")

    def _json(self) -> Any:
        """A value in extended JSON, up to the bracket that closes it."""
        start, depth = self._place, 0
        for token in _BRACKETS.finditer(self._text, start):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
            if depth == 0:
                self._place = token.end()
                break
        else:
            self._place = len(self._text)
            self._refuse(start, "a bracket is not closed", "close it, or quote the value to make it text")
        try:
            return json.parse(self._text[start : self._place])
        except InvalidRequestError as error:
            self._refuse(start, error.reason or error.what, error.fix)

    def _quoted(self) -> tuple[str, bool]:
        """What stands between quotes."""
        start, quote = self._place, self._at()
        self._place += 1
        text, _ = self._letters(frozenset(quote))
        if self._at() != quote:
            self._refuse(start, "a quote is not closed", f"close it with {quote}")
        self._place += 1
        return text, True

    def _bare(self, ends: frozenset[str]) -> tuple[str, bool]:
        """What stands before one of the ends, without blanks around it; and whether a letter of it is escaped."""
        text, escaped = self._letters(ends)
        return (text.strip(_BLANKS), False) if not escaped else (text, True)

    def _letters(self, ends: frozenset[str]) -> tuple[str, bool]:
        letters: list[str] = []
        escaped = False
        while self._place < len(self._text) and (letter := self._text[self._place]) not in ends:
            if letter == "\\":
                self._place += 1
                letter, escaped = _ESCAPES.get(self._at(), self._at()), True
                if not letter:
                    self._refuse(self._place - 1, "nothing follows \\", "write \\\\ for the sign itself")
            letters.append(letter)
            self._place += 1
        return "".join(letters), escaped

    def _at(self) -> str:
        return self._text[self._place : self._place + 1]

    def _take(self, sign: str) -> bool:
        taken = self._at() == sign
        self._place += taken
        return taken

    def _skip_blanks(self) -> None:
        while self._at() and self._at() in _BLANKS:
            self._place += 1

    def _refuse(self, place: int, reason: str, fix: str) -> NoReturn:
        raise _SyntaxError(place, reason, fix)


_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
