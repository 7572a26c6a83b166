"""worm table: one module a verb."""

from wormdb.cli.commands.table.group import command

__all__ = ["command"]
