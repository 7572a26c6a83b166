"""worm schema: one module a verb."""

from wormdb.cli.commands.schema.group import command

__all__ = ["command"]
