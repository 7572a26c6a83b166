"""How far a command is, on one line of a terminal that is written over; nothing in a pipe."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["counting", "loading", "told_of", "working"]

_EVERY: Final = 500
_BAR: Final = 30


@contextmanager
def working(text: str) -> Iterator[None]:
    """Say what is being done, for as long as it takes."""
    if not sys.stderr.isatty():
        yield
        return
    _tell(text)
    try:
        yield
    finally:
        _tell("")


@contextmanager
def told_of(word: str, total: Callable[[], int | None]) -> Iterator[Callable[[int], None]]:
    """What to tell how many are done: a bar if the total is known. `total` is asked on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    whole = total()
    try:
        yield lambda count: _tell(_bar(count, whole, word))
    finally:
        _tell("")


def counting(rows: Iterable[T], word: str, total: Callable[[], int | None]) -> Iterator[T]:
    """The rows, and on a terminal how many there were; a bar if the total is known. `total` is asked there only."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield from rows
        return
    whole = total()
    try:
        for count, row in enumerate(rows):
            if count % _EVERY == 0:
                _tell(_bar(count, whole, word))
            yield row
    finally:
        _tell("")


def loading(rows: Iterable[T], word: str, done: Callable[[], float | None]) -> Iterator[T]:
    """The rows, and on a terminal how many there were, with a bar for how much `done` says is read."""
    if not sys.stderr.isatty():
        yield from rows
        return
    try:
        for count, row in enumerate(rows):
            if count % _EVERY == 0:
                _tell(_drawn(done(), f"{count:,} {word}"))
            yield row
    finally:
        _tell("")


def _bar(count: int, whole: int | None, word: str) -> str:
    return _drawn(count / whole, f"{count:,} of {whole:,} {word}") if whole else _drawn(None, f"{count:,} {word}")


def _drawn(done: float | None, text: str) -> str:
    if done is None:
        return text
    part = min(done, 1.0)
    return f"[{'#' * int(_BAR * part):{_BAR}}] {part:4.0%}  {text}"


def _tell(text: str) -> None:
    click.echo(f"\r\x1b[K{text}", err=True, nl=False)
