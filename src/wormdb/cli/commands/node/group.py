"""worm node: services that look after a database."""

from __future__ import annotations

import click

from wormdb.cli.verbs import Verbs

__all__ = ["command"]

VERBS = {
    "list": "Show nodes, whose turn it is, and how far each collection is behind its log.",
    "remove": "Take an id from the node that holds it.",
    "run": "Look after a database until stopped, or for one round.",
}


@click.command("node", cls=Verbs, modules="wormdb.cli.commands.node.", verbs=VERBS)
def command() -> None:
    """Run and show the services that look after a database.

    A node brings logs forward, merges blocks, builds indexes, writes readable files, and removes what expired. Any
    number of them share the work by turns. None is needed: without nodes, writers do it.
    """
