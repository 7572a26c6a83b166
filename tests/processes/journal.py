"""What a writer did, on disk before it goes on: the only witness that survives kill -9."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Deed", "Journal", "read_deeds", "read_lines"]


class Journal:
    """One thread's own file; a line is on disk when `note` returns."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        # What a kill tore must not join the first line of the next process.
        self._file.write(b"\n")

    def note(self, **facts: Any) -> None:
        self._file.write(json.dumps(facts).encode() + b"\n")
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


@dataclass
class Deed:
    """One operation: what was begun, and what the writer was told."""

    token: str
    verb: str
    target: str
    outcome: str | None = None
    """acknowledged, refused, committed, not committed, unknown; None if the writer died before it heard."""
    number: int | None = None
    told: list[str] = field(default_factory=list)
    """Every outcome noted, in order: unknown, then what it was resolved to."""
    reason: str = ""


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines; one that a kill tore was not noted."""
    if not path.exists():
        return
    for line in path.read_bytes().split(b"\n"):
        try:
            yield json.loads(line)
        except ValueError:
            continue


def read_deeds(path: Path) -> dict[str, Deed]:
    """The deeds in a journal, by token; raises AssertionError for one that was begun twice."""
    deeds: dict[str, Deed] = {}
    begun: Counter[str] = Counter()
    for line in read_lines(path):
        token = line["token"]
        if "verb" in line:
            deeds[token] = Deed(token, line["verb"], line["target"])
            begun[token] += 1
            continue
        deed = deeds[token]
        deed.outcome, deed.number = line["outcome"], line.get("number")
        deed.told.append(line["outcome"])
        deed.reason = line.get("reason", "") or deed.reason
    assert max(begun.values(), default=1) == 1, f"tokens used twice in {path}"
    return deeds
