"""How far a command is: on a terminal, and only there."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

from wormdb.cli.show.progress import show_count, show_work

if TYPE_CHECKING:
    from collections.abc import Callable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(work: Callable[[], object], *, to_terminal: bool) -> str:
    errors = Terminal() if to_terminal else io.StringIO()
    with redirect_stderr(errors), redirect_stdout(io.StringIO()):
        work()
    return errors.getvalue()


def test_rows_are_counted_on_a_terminal() -> None:
    lines = told(lambda: list(show_count(range(1_200), "documents", lambda: 2_000)), to_terminal=True).split("\r\x1b[K")
    assert lines[2] == "[#######                       ]  25%  500 of 2,000 documents"
    assert lines[-1] == ""
    unknown = told(lambda: list(show_count(range(600), "documents", lambda: None)), to_terminal=True)
    assert "500 documents" in unknown


def test_work_is_named_while_it_lasts() -> None:
    def work() -> None:
        with show_work("Building index: email…"):
            pass

    assert told(work, to_terminal=True) == "\r\x1b[KBuilding index: email…\r\x1b[K"
    assert told(work, to_terminal=False) == ""


def test_nothing_in_a_pipe() -> None:
    def never() -> int:
        raise AssertionError("a total nobody sees is not asked for")

    rows: list[int] = []
    assert told(lambda: rows.extend(show_count(range(3), "documents", never)), to_terminal=False) == ""
    assert rows == [0, 1, 2]
