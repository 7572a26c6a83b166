"""worm sync: one module a verb."""

from wormdb.cli.commands.sync.group import command

__all__ = ["command"]
