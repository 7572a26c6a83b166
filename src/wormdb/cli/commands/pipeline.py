"""worm pipeline: older names of commands, for one release."""

from __future__ import annotations

from typing import Final

import click

__all__ = ["MOVED", "command"]

MOVED: Final = {
    "aggregate": "table aggregate",
    "analyze": "table analyze",
    "compact": "table compact",
    "embed": "table embed",
    "export": "table export",
    "history": "table history",
    "import": "import",
    "rebuild": "table rebuild",
    "verify": "verify",
}
"""Each verb, and the command that does it now."""


class _OldNames(click.Group):
    """A group whose commands are others'."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The verbs, in their order."""
        return list(MOVED)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command that a verb means now."""
        found: click.Command | None = ctx.find_root().command
        for name in MOVED.get(cmd_name, "no such verb").split():
            found = found.get_command(ctx, name) if isinstance(found, click.Group) else None
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, after one line that names it; it tells lines of JSON in a pipe, as it did here."""
        name, command, rest = super().resolve_command(ctx, args)
        if ctx.resilient_parsing or name is None:
            return name, command, rest
        click.echo(f"worm: worm pipeline {name} is deprecated: use worm {MOVED[name]}", err=True)
        return name, command, ["--progress", *rest]


@click.command("pipeline", cls=_OldNames)
def command() -> None:
    """Older names of worm import, worm verify and commands of worm table, for one release."""
