"""Lines of the shell: their words, and what may stand at the place of the cursor."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from wormdb.cli.verbs import SHORT
from wormdb.errors import WormError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wormdb.api.database import Database

__all__ = ["BREAKS", "Completer", "UnfinishedLineError", "expanded", "split_line"]

BREAKS: Final = " \t\n{}[](),:=<>~\"'"
"""Letters behind which another word begins, for completion."""

_SAMPLE: Final = 20
"""Documents whose fields are offered where there is no model."""
_OPENING: Final = {"{": "}", "[": "]"}


class UnfinishedLineError(Exception):
    """A bracket or a quote is open: the next line belongs to it."""


def split_line(line: str) -> list[str]:
    """The words of a line, as a shell has them; but what begins with { or [ is one word up to its end, unquoted.

    Raises UnfinishedLineError. No requests.
    """
    words: list[str] = []
    rest = line.strip()
    while rest:
        if rest[0] in _OPENING:
            end = _end_of_json(rest)
            words.append(rest[:end])
        elif rest[0] == "#":
            break
        else:
            end = _end_of_word(rest)
            words += shlex.split(rest[:end])
        rest = rest[end:].lstrip()
    return words


def _end_of_word(text: str) -> int:
    quote = ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and (quote == "'" or text[place - 1] != "\\") else quote
        elif letter in "'\"":
            quote = letter
        elif letter.isspace():
            return place
    if quote:
        raise UnfinishedLineError
    return len(text)


def _end_of_json(text: str) -> int:
    open_brackets, in_text, escaped = [], False, False
    for place, letter in enumerate(text):
        if in_text:
            in_text = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
        elif letter == '"':
            in_text = True
        elif letter in _OPENING:
            open_brackets.append(_OPENING[letter])
        elif letter in "}]":
            if letter != open_brackets.pop():
                return len(text)  # its parser tells what is wrong
            if not open_brackets:
                return place + 1
    raise UnfinishedLineError


def expanded(words: Sequence[str]) -> list[str]:
    """The command line that words stand for: short forms written out, a filter with its option. No requests."""
    if not words or words[0] not in SHORT:
        return list(words)
    verbs, rest = SHORT[words[0]], list(words[1:])
    if words[0] != "collections" and len(rest) > 1 and not rest[1].startswith("-"):
        rest[1:2] = ["--filter", rest[1]]
    return [*verbs[:2], *rest, *verbs[2:]]


@dataclass(slots=True)
class Completer:
    """What may stand at a place of a line. It asks the database once for names, and once a collection for fields."""

    database: Database
    verbs_of: Callable[[Sequence[str]], Sequence[str] | None]
    """The verbs that may follow words; None if they have one already."""
    options_of: Callable[[Sequence[str]], Iterable[str]]
    """The options of the command that words begin."""
    _names: list[str] | None = None
    _fields: dict[str, list[str]] = field(default_factory=dict)

    def forget(self) -> None:
        """Ask again: a line may have made or changed something. No requests."""
        self._names = None
        self._fields.clear()

    def offers(self, line: str, word: str) -> list[str]:
        """The words that may follow `line`, which ends before `word`, and begin with it. Nothing at an error."""
        before = line.split()
        try:
            return sorted(each for each in self._known(before, word) if each.startswith(word))
        except WormError:
            return []

    def _known(self, before: Sequence[str], word: str) -> Iterable[str]:
        if not before:
            return [*SHORT, *(self.verbs_of([]) or ()), "help", "exit"]
        if word.startswith("$"):
            return _operators()
        if word.startswith("-"):
            return self.options_of(expanded(before))
        if before[0] == "help":
            return [*(SHORT if len(before) == 1 else ()), *(self.verbs_of(before[1:]) or ())]
        verbs = None if before[0] in SHORT else self.verbs_of(before)
        if verbs is not None:
            return verbs
        is_deep = before[0] not in SHORT and self.verbs_of(before[:1]) is not None
        behind = before[2 if is_deep else 1 :]
        return self._fields_of(behind[0]) if behind else self._collections()

    def _collections(self) -> list[str]:
        if self._names is None:
            models = () if self.database.schema is None else tuple(self.database.schema.models)
            self._names = [*models, *(prefix.rstrip("/") for prefix in self.database.collections())]
        return self._names

    def _fields_of(self, name: str) -> list[str]:
        if name not in self._fields:
            models = {} if self.database.schema is None else self.database.schema.models
            if name in models:
                found = ["id", *models[name].columns]
            else:
                rows = islice(self.database[name].find({}, limit=_SAMPLE), _SAMPLE)
                found = list(dict.fromkeys(each for row in rows for each in row))
            self._fields[name] = found
        return self._fields[name]


def _operators() -> Iterable[str]:
    from wormdb.bql.parse import FIELD_OPERATORS, LOGICAL_OPERATORS
    from wormdb.bql.update.update import OPERATORS

    return {*FIELD_OPERATORS, *LOGICAL_OPERATORS, *OPERATORS}
