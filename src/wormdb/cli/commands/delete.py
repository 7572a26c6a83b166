"""worm delete: remove documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.input.body import read_id
from wormdb.cli.input.document import ACTOR
from wormdb.cli.input.place import AS_JSON, MODEL, URL, YES, find_collection, is_confirmed, open_database
from wormdb.cli.input.question import FILTER, written_filter
from wormdb.cli.show.text import counted, print_values
from wormdb.cli.verbs import Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]


@click.command(
    "delete",
    cls=Verb,
    examples=(
        "worm delete Customer acme",
        "worm delete notes 17 18 19",
        "worm delete Invoice --filter 'status=void,total<1' --yes",
    ),
)
@MODEL
@click.argument("ids", nargs=-1, metavar="[ID]...")
@FILTER
@click.option("--all", "is_all", is_flag=True, help="Every document of the collection.")
@YES
@ACTOR
@URL
@AS_JSON
def command(model: str, ids: Sequence[str], url: str, **options: Any) -> int:
    """Delete documents by their ids, or all that --filter finds, in one batch.

    Those of a model with softDelete go to the trash (worm trash). Before documents go that were not named one by one,
    it asks. Exits with 1 if an ID has no document; then nothing was deleted.
    """
    if bool(ids) + bool(options["filters"]) + options["is_all"] != 1:
        raise click.UsageError("Name IDs, or --filter, or --all.")
    with open_database(url, options) as database:
        collection = find_collection(database, model)
        if ids:
            wanted: Any = {"id": {"$in": [read_id(database, collection, text)[0] for text in ids]}}
        else:
            wanted = written_filter(options["filters"])
            count = counted(collection.count(wanted), "document", "documents")
            if not is_confirmed(f"Delete {count} of {collection.name}?", yes=options["yes"]):
                return 1
        done = collection.delete_many(wanted, actor=options["actor"])
    if options["as_json"]:
        print_values({"deleted": done.deleted, "number": done.number})
    else:
        click.echo(f"{counted(done.deleted, 'document', 'documents')} deleted")
    return 0
