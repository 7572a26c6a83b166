"""worm update: change documents by operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.input.body import read_id, read_update
from wormdb.cli.input.document import ACTOR
from wormdb.cli.input.place import AS_JSON, MODEL, NEW_URL, existing_place, find_collection, open_database
from wormdb.cli.input.question import FILTER, written_filter
from wormdb.cli.show.text import cell_of, counted, print_values
from wormdb.cli.verbs import Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]


@click.command(
    "update",
    cls=Verb,
    examples=(
        'worm update Customer acme \'{"$set": {"status": "active"}}\'',
        'worm update Invoice \'{"$inc": {"reminders": 1}}\' --filter status=open',
        'worm update counters hits \'{"$inc": {"n": 1}}\' --upsert',
    ),
)
@MODEL
@click.argument("words", nargs=-1, required=True, metavar="[ID] UPDATE")
@FILTER
@click.option("--all", "is_all", is_flag=True, help="Every document of the collection.")
@click.option("--upsert", is_flag=True, help="Insert the document if there is none with this ID.")
@ACTOR
@NEW_URL
@AS_JSON
def command(model: str, words: Sequence[str], url: str, **options: Any) -> None:
    """Change one document by its id, or all that --filter finds, in one batch.

    UPDATE is an object of operators such as $set, $unset, $inc and $push; @FILE and - read it from a file and from
    standard input. Prints how many documents were found and how many are different now.
    """
    if len(words) > 2:
        raise click.UsageError("Too many arguments: write [ID] UPDATE, and quote the update for the shell.")
    identity = words[0] if len(words) == 2 else None
    if (identity is not None) + bool(options["filters"]) + options["is_all"] != 1:
        raise click.UsageError("Name one ID, or --filter, or --all.")
    if options["upsert"] and identity is None:
        raise click.UsageError("--upsert needs an ID.")
    update = read_update(words[-1])
    if not options["upsert"]:
        existing_place(url)
    with open_database(url, options) as database:
        collection = find_collection(database, model, may_be_new=options["upsert"])
        if identity is None:
            wanted = written_filter(options["filters"])
            done = collection.update_many(wanted, update, actor=options["actor"])
        else:
            known = identity if options["upsert"] else read_id(database, collection, identity)[0]
            done = collection.update_one({"id": known}, update, upsert=options["upsert"], actor=options["actor"])
    if options["as_json"]:
        shown = {"matched": done.matched, "modified": done.modified}
        print_values({**shown, "upsertedId": done.upserted_id, "number": done.number})
    elif done.upserted_id is not None:
        click.echo(f"inserted {cell_of(done.upserted_id)}")
    else:
        click.echo(f"{counted(done.matched, 'document', 'documents')} found, {done.modified:,} changed")
