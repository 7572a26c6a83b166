"""worm table export: documents to standard output."""

from __future__ import annotations

from typing import Any

import click

from wormdb.cli.asked import AS_OF, FILTER, SELECT, SORT, STRATEGY, Asked, columns_for
from wormdb.cli.place import MODEL, ON_BROKEN, SCHEMA, URL, find_collection, model_of, open_database
from wormdb.cli.progress import counting
from wormdb.cli.rows import columns_in, write_rows
from wormdb.cli.verbs import Verb
from wormdb.limits import MIB
from wormdb.settings import Settings

__all__ = ["command"]

# Everything is read once, so there is little use in keeping it.
SETTINGS = Settings(cache_bytes=16 * MIB)


@click.command(
    "export",
    cls=Verb,
    examples=(
        "worm table export Customer --format csv --filter status=active > active-customers.csv",
        "worm table export Invoice --format ndjson > invoices.ndjson",
        "worm table export Customer --format json --select name,email,status",
    ),
)
@MODEL
@click.option(
    "--format",
    "form",
    type=click.Choice(["ndjson", "json", "csv"]),
    default="ndjson",
    show_default=True,
    help="Lines of JSON, one list, or a table for spreadsheets.",
)
@FILTER
@SELECT
@SORT
@click.option("--limit", type=int, metavar="N", help="At most so many documents.")
@AS_OF
@STRATEGY
@URL
@SCHEMA
@ON_BROKEN
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(model: str, url: str, **options: Any) -> None:
    """Write documents to standard output, however many there are.

    All of one state, in order of id if they are not sorted. Values that JSON does not have are written as MongoDB's
    extended JSON. CSV has the columns of --select, else those of the model, else every field that a document has, for
    which the documents are read twice; nested values are JSON, null and missing are empty.
    """
    asked = Asked.of(options)
    form = "json" if options["as_json"] else options["form"]
    with open_database(url, options, SETTINGS) as database:
        collection = find_collection(database, model)
        found = asked.find(collection)
        columns = columns_for(asked, model_of(database, collection))
        if form == "csv" and columns is None:
            columns = columns_in(found)

        def total() -> int | None:
            return asked.limit or (collection.count() if asked.is_of_all else None)

        write_rows(counting(found, "documents", total), form, columns)
