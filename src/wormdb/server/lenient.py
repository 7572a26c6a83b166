"""JSON as MongoDB's shell reads it, made strict: names without quotes, 'single quotes', ObjectId("…"), /regex/i.

Strict JSON never comes here. What is not this language either raises ValueError, and the strict reader says why.
"""

from __future__ import annotations

import json as standard
import re
from typing import Final

__all__ = ["make_strict"]

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_NAME: Final = re.compile(r"[A-Za-z_$][\w$.]*")
_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_REGEX: Final = re.compile(r"/((?:[^/\\\n]|\\.)+)/([a-z]*)")
_QUOTED: Final = {
    '"': re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL),
    "'": re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL),
}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}
_WORDS: Final = {
    "true": "true",
    "false": "false",
    "null": "null",
    "undefined": "null",
    "NaN": '{"$numberDouble":"NaN"}',
    "Infinity": '{"$numberDouble":"Infinity"}',
    "MinKey": '{"$minKey":1}',
    "MaxKey": '{"$maxKey":1}',
}
_DEPTH_MAX: Final = 200


def make_strict(text: str) -> str:
    """The same value in strict JSON with extended forms; raises ValueError for anything else."""
    reader = _ShellReader(text)
    value = reader.value(0)
    reader.skip()
    if reader.at != len(text):
        raise ValueError(f"more follows at {reader.at}")
    return value


class _ShellReader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self) -> None:
        found = _BLANKS.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def value(self, depth: int) -> str:
        if depth > _DEPTH_MAX:
            raise ValueError("it is nested too deep")
        self.skip()
        sign = self.text[self.at : self.at + 1]
        if sign == "{":
            return self._object(depth)
        if sign == "[":
            return "[" + ",".join(self._items("]", depth)) + "]"
        if sign in _QUOTED:
            return standard.dumps(self._string())
        if sign == "/":
            pattern, options = self._match(_REGEX).groups()
            return _form("$regularExpression", {"pattern": pattern, "options": options})
        if self.text.startswith("-Infinity", self.at):
            self.at += len("-Infinity")
            return '{"$numberDouble":"-Infinity"}'
        if _NAME.match(self.text, self.at):
            return self._word(depth)
        return _number(self._match(_NUMBER).group())

    def _object(self, depth: int) -> str:
        members = []
        self.at += 1
        while not self._ends("}"):
            name = self._string() if self.text[self.at] in _QUOTED else self._match(_NAME).group()
            self.skip()
            if self.text[self.at : self.at + 1] != ":":
                raise ValueError(f"a colon is missing at {self.at}")
            self.at += 1
            members.append(f"{standard.dumps(name)}:{self.value(depth + 1)}")
            self._separate("}")
        return "{" + ",".join(members) + "}"

    def _items(self, end: str, depth: int) -> list[str]:
        items = []
        self.at += 1
        while not self._ends(end):
            items.append(self.value(depth + 1))
            self._separate(end)
        return items

    def _ends(self, end: str) -> bool:
        self.skip()
        if self.at >= len(self.text):
            raise ValueError("it ends too early")
        if self.text[self.at] != end:
            return False
        self.at += 1
        return True

    def _separate(self, end: str) -> None:
        self.skip()
        if self.text[self.at : self.at + 1] == ",":
            self.at += 1
        elif self.text[self.at : self.at + 1] != end:
            raise ValueError(f"a comma is missing at {self.at}")

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise ValueError(f"it cannot be read at {self.at}")
        self.at = found.end()
        return found

    def _string(self) -> str:
        body = self._match(_QUOTED[self.text[self.at]]).group(1)
        return _ESCAPE.sub(_unescaped, body)

    def _word(self, depth: int) -> str:
        word = self._match(_NAME).group()
        if word == "new":
            self.skip()
            word = self._match(_NAME).group()
        self.skip()
        if self.text[self.at : self.at + 1] != "(":
            if word not in _WORDS:
                raise ValueError(f"{word} has no meaning")
            return _WORDS[word]
        return _construct(word, [standard.loads(item) for item in self._items(")", depth)])


def _unescaped(found: re.Match[str]) -> str:
    letter = found.group(1)
    return chr(int(letter[1:], 16)) if len(letter) > 1 else _ESCAPES.get(letter, letter)


def _number(text: str) -> str:
    text = text.removeprefix("+")
    try:
        standard.loads(text)
    except ValueError:
        return standard.dumps(float(text))
    return text


def _form(name: str, value: object) -> str:
    return standard.dumps({name: value})


def _construct(name: str, given: list[object]) -> str:
    match name, given:
        case (("ObjectId" | "UUID"), [str() as digits]):
            return _form("$oid" if name == "ObjectId" else "$uuid", digits)
        case (("ISODate" | "Date"), [str() | int() as moment]):
            return _form("$date", moment if isinstance(moment, str) else {"$numberLong": str(moment)})
        case (("NumberInt" | "NumberLong" | "NumberDecimal"), [int() | float() | str() as count]):
            return _form(f"$n{name[1:]}", str(count))
        case "Timestamp", [int() as time, int() as increment]:
            return _form("$timestamp", {"t": time, "i": increment})
        case "BinData", [int() as subtype, str() as text]:
            return _form("$binary", {"base64": text, "subType": f"{subtype:02x}"})
        case (("MinKey" | "MaxKey"), []):
            return _WORDS[name]
    raise ValueError(f"{name} has no meaning with these values")
