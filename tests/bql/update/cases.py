"""The cases of cases.txt."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wormdb.format.json import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW: Final = datetime(2026, 11, 16, 12, 0, 0, 123000, tzinfo=UTC)


@dataclass(frozen=True)
class Case:
    """One update of one document: `after` is the document, or a part of the reason why it is refused."""

    why: str
    document: dict[str, Any]
    update: dict[str, Any]
    after: dict[str, Any] | str
    extra: dict[str, Any] = field(default_factory=dict)


def read_cases() -> list[Case]:
    """All cases, in the order of the file."""
    return list(_cases())


def _cases() -> Iterator[Case]:
    text = (Path(__file__).parent / "cases.txt").read_text()
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith(("#", "=="))]
        if not lines:
            continue
        why, case, *more = lines
        before, update, after = case.split(" | ")
        extra = {name: parse(value, operators=True) if value else True for name, _, value in map(_split, more)}
        expected = after[2:] if after.startswith("! ") else parse(after)
        yield Case(why, parse(before), parse(update, operators=True), expected, extra)


def _split(line: str) -> tuple[str, str, str]:
    return line.partition(" ")
