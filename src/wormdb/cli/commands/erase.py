"""worm erase: leave nothing of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.input.body import read_past_id
from wormdb.cli.input.document import ACTOR
from wormdb.cli.input.place import AS_JSON, MODEL, URL, YES, find_collection, is_confirmed, open_database
from wormdb.cli.show.text import counted, print_values
from wormdb.cli.verbs import Verb
from wormdb.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]


@click.command(
    "erase",
    cls=Verb,
    examples=("worm erase Customer acme --yes", "worm erase people 17 18 --yes && worm verify people --erased 17"),
)
@MODEL
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--missing-ok", is_flag=True, help="Pass over an ID that has no document and never had one.")
@YES
@ACTOR
@URL
@AS_JSON
def command(model: str, ids: Sequence[str], url: str, **options: Any) -> int:
    """Leave nothing of documents: versions, snapshots, trash, blobs of their own and readable files.

    No read finds anything of them from then on, and nothing brings them back. What older states of the collection
    named, and the log until then, is deleted by the next garbage collection an hour later (worm gc, or a node); worm
    verify --erased tells whether that is done. It asks first. Exits with 1 if an ID never had a document.
    """
    with open_database(url, options) as database:
        collection = find_collection(database, model)
        wanted = []
        for text in ids:
            try:
                wanted.append(read_past_id(database, collection, text))
            except NotFoundError:
                if not options["missing_ok"]:
                    raise
        question = f"Erase {counted(len(wanted), 'document', 'documents')} of {collection.name}, with all history?"
        if not is_confirmed(question, yes=options["yes"]):
            return 1
        done = [collection.erase(each, missing_ok=True, actor=options["actor"]) for each in wanted]
    erased = [each for each in done if each.number]
    if options["as_json"]:
        values = [{"number": each.number, "forwarded": each.is_forwarded, "waitMs": each.wait_ms} for each in done]
        print_values({"erased": len(erased), "entries": values})
    else:
        click.echo(f"{counted(len(erased), 'document', 'documents')} erased")
        if erased:
            minutes = max(each.wait_ms for each in erased) // 60_000
            click.echo(f"run worm gc in {minutes} minutes, or let a node do it; then nothing of them can be recovered")
    return 0
