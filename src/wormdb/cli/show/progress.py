"""How far a command is, on one line of a terminal that is written over; nothing in a pipe."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from wormdb.cli.show.terminal import write_own
from wormdb.cli.show.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    T = TypeVar("T")

__all__ = ["bar_line", "show_count", "show_load", "show_work", "tell_line", "told_of"]

_EVERY: Final = 500
_BAR: Final = 30


@contextmanager
def show_work(text: str) -> Iterator[None]:
    """Say what is being done, for as long as it takes."""
    if not sys.stderr.isatty():
        yield
        return
    tell_line(text)
    try:
        yield
    finally:
        tell_line("")


@contextmanager
def told_of(word: str, total: Callable[[], int | None]) -> Iterator[Callable[[int], None]]:
    """What to tell how many are done: a bar if the total is known. `total` is asked on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    whole = total()
    try:
        yield lambda count: tell_line(_bar(count, whole, word))
    finally:
        tell_line("")


def show_count(rows: Iterable[T], word: str, total: Callable[[], int | None]) -> Iterator[T]:
    """The rows, and on a terminal how many there were; a bar if the total is known. `total` is asked there only."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield from rows
        return
    whole = total()
    try:
        for count, row in enumerate(rows):
            if count % _EVERY == 0:
                tell_line(_bar(count, whole, word))
            yield row
    finally:
        tell_line("")


def show_load(rows: Iterable[T], word: str, done: Callable[[], float | None]) -> Iterator[T]:
    """The rows, and on a terminal how many there were, with a bar for how much `done` says is read."""
    if not sys.stderr.isatty():
        yield from rows
        return
    try:
        for count, row in enumerate(rows):
            if count % _EVERY == 0:
                tell_line(bar_line(done(), f"{count:,} {word}"))
            yield row
    finally:
        tell_line("")


def _bar(count: int, whole: int | None, word: str) -> str:
    return bar_line(count / whole, f"{count:,} of {whole:,} {word}") if whole else bar_line(None, f"{count:,} {word}")


def bar_line(done: float | None, text: str) -> str:
    """A text, and before it a bar for how much is done, from 0 to 1, if that is known."""
    if done is None:
        return text
    part = min(done, 1.0)
    return f"[{'#' * int(_BAR * part):{_BAR}}] {part:4.0%}  {text}"


def tell_line(text: str) -> None:
    """Write over the last line of the terminal."""
    write_own(f"\r\x1b[K{one_line(text)}", err=True)
