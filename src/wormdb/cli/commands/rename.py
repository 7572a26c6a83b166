"""worm rename: say why a collection keeps its name, and what to do instead."""

from __future__ import annotations

import click

from wormdb.cli.input.place import URL, complete_models
from wormdb.cli.verbs import Verb
from wormdb.settings import Settings

__all__ = ["command"]


@click.command("rename", cls=Verb, examples=("worm rename orders orders-2025",))
@click.argument("old", metavar="COLLECTION", shell_complete=complete_models)
@click.argument("new", metavar="NAME")
@URL
def command(old: str, new: str, url: str) -> None:
    """Refuse to give a collection another name, with the reason and what to do instead.

    No bucket moves a log in one step. Stop the writers of the collection, import its documents under the new name, and
    drop the old one.
    """
    from wormdb.api.database import connect

    with connect(url, settings=Settings(forward="manual")) as database:
        database.rename(old, new)
