"""How far a job is: a bar on a terminal, lines of JSON in a pipe."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from wormdb.cli.output import camel
from wormdb.cli.progress import bar_line, tell_line
from wormdb.cli.shown import size_text
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.jobs.work import Step

__all__ = ["told_steps"]

_LINE_SECONDS: Final = 1.0
"""In a pipe there is a line for begin and end of each step, and between them one in this time."""


@contextmanager
def told_steps(progress: bool | None) -> Iterator[Callable[[Step], None]]:
    """What to tell of each step, on standard error, as --progress says: without it only on a terminal."""
    if progress is False or not sys.stderr.isatty():
        yield _Lines() if progress else lambda _: None
        return
    try:
        yield lambda step: tell_line(bar_line(_part(step), _text(step)))
    finally:
        tell_line("")


def _part(step: Step) -> float | None:
    return step.done / step.items if step.items else None


def _text(step: Step) -> str:
    left = "" if step.seconds_left is None else f", {step.seconds_left:,.0f} s left"
    return f"{step.job}: {step.done:,} of {step.items:,} parts, {size_text(step.size)}, {step.rows:,} rows{left}"


class _Lines:
    def __init__(self) -> None:
        self._last: tuple[str, float] = ("", 0.0)

    def __call__(self, step: Step) -> None:
        job, seconds = self._last
        if job == step.job and 0 < step.done < step.items and step.seconds - seconds < _LINE_SECONDS:
            return
        self._last = (step.job, step.seconds)
        told = camel(step)
        for name in ("seconds", "secondsLeft"):
            told[name] = None if told[name] is None else round(told[name], 3)
        click.echo(json.encode(told).decode(), err=True)
