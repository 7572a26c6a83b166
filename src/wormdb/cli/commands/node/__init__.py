"""worm node: one module a verb."""

from wormdb.cli.commands.node.group import command

__all__ = ["command"]
