"""worm pipeline: older names of commands, for one release."""

from __future__ import annotations

import importlib
from typing import Final

import click

from wormdb.cli.verbs import Verbs

__all__ = ["MOVED", "command"]

MOVED: Final = {
    "aggregate": "table aggregate",
    "analyze": "table analyze",
    "compact": "table compact",
    "export": "table export",
    "history": "table history",
    "rebuild": "table rebuild",
    "verify": "verify",
}
"""Each verb, and the command that does it now."""


class _Moved(Verbs):
    """A group whose commands are others'."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command that a verb means now."""
        if cmd_name not in MOVED:
            return super().get_command(ctx, cmd_name)
        module = MOVED[cmd_name].replace(" ", ".")
        command = importlib.import_module(f"wormdb.cli.commands.{module}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, after one line that names it; it tells lines of JSON in a pipe, as it did here."""
        name, command, rest = super().resolve_command(ctx, args)
        if ctx.resilient_parsing or name not in MOVED:
            return name, command, rest
        click.echo(f"worm: worm pipeline {name} is deprecated: use worm {MOVED[name]}", err=True)
        return name, command, ["--progress", *rest]


@click.command(
    "pipeline",
    cls=_Moved,
    modules="wormdb.cli.commands.pipeline_",
    verbs={"import": "Read files into a collection by one change."},
)
def command() -> None:
    """Older names of worm import, worm verify and commands of worm table, for one release."""
