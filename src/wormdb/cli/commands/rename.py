"""worm rename: another name for a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wormdb.cli.input.place import AS_JSON, URL, complete_models
from wormdb.cli.show.text import camel, counted, print_json
from wormdb.cli.verbs import Verb
from wormdb.settings import Settings

if TYPE_CHECKING:
    from wormdb.maintenance.renaming import RenameResult

__all__ = ["command"]


@click.command("rename", cls=Verb, examples=("worm rename drafts letters", "worm rename drafts letters --wait"))
@click.argument("old", metavar="COLLECTION", shell_complete=complete_models)
@click.argument("new", metavar="NAME")
@URL
@click.option("--wait", is_flag=True, help="Wait until no process reads the old name, over a minute.")
@AS_JSON
def command(old: str, new: str, url: str, *, wait: bool, as_json: bool) -> None:
    """Give a collection without a model another name, with all that it has.

    Everything is copied, then one entry of its log ends the old name: at that moment the new one is the collection, in
    every process. NAME must be one that was never used. One that broke off is finished by the same command; until the
    old name has ended, worm drop NAME undoes it.
    """
    from wormdb.api.database import connect

    with connect(url, settings=Settings(forward="manual")) as database:
        done = database.rename(old, new, wait=wait)
    _show(done, as_json=as_json)


def _show(result: RenameResult, *, as_json: bool) -> None:
    if as_json:
        print_json(camel(result))
        return
    documents = counted(result.documents, "document", "documents")
    copied = f"{counted(result.objects, 'object', 'objects')} of {counted(result.bytes, 'byte', 'bytes')}"
    click.echo(f"{result.old} is {result.new} now, with {documents}: {copied} copied")
