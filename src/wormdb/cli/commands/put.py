"""worm put: save one document, new or not."""

from __future__ import annotations

from typing import Any

import click

from wormdb.api.document import rev_of
from wormdb.cli.input.body import BODY, read_document
from wormdb.cli.input.document import ACTOR
from wormdb.cli.input.place import AS_JSON, MODEL, NEW_URL, find_collection, open_database
from wormdb.cli.show.text import cell_of, print_values
from wormdb.cli.verbs import Verb

__all__ = ["command"]


@click.command(
    "put",
    cls=Verb,
    examples=(
        'worm put notes \'{"id": "first", "text": "hello"}\'',
        "worm get Customer acme | jq '.status = \"active\"' | worm put Customer",
        "worm put Customer @acme.json --if-rev 17",
    ),
)
@MODEL
@BODY
@click.option("--if-rev", type=click.IntRange(min=1), metavar="N", help="Only if what is there has this revision.")
@ACTOR
@NEW_URL
@AS_JSON
def command(model: str, body: str | None, url: str, **options: Any) -> None:
    """Save one document: it is new, or replaces the one that has its id.

    JSON is plain or extended, and comes from standard input if it is left out. A collection without a model is made by
    its first document. Prints the id and the revision.
    """
    document = read_document(body)
    with open_database(url, options) as database:
        collection = find_collection(database, model, may_be_new=True)
        saved = collection.save(document, if_rev=options["if_rev"], actor=options["actor"])
        rev = rev_of(saved)
    if options["as_json"]:
        print_values({"id": saved.id, "rev": rev})
    else:
        click.echo(f"{cell_of(saved.id)} at revision {rev}")
