"""Questions before something is changed that people may want to keep."""

from __future__ import annotations

import sys

import click

from wormdb.errors import InvalidRequestError

__all__ = ["YES", "is_confirmed"]

YES = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def is_confirmed(question: str, *, yes: bool) -> bool:
    """Ask on a terminal, and say that nothing was changed if the answer is no.

    Raises InvalidRequestError where nobody can answer: what comes through a pipe is no answer.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidRequestError(
            question.rstrip("?"), reason="there is no terminal to ask for confirmation", fix="add --yes"
        )
    if click.confirm(question, err=True):
        return True
    click.echo("nothing was changed", err=True)
    return False
