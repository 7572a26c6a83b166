"""worm insert: save new documents."""

from __future__ import annotations

from typing import Any

import click

from wormdb.cli.input.body import BODY, read_documents
from wormdb.cli.input.document import ACTOR
from wormdb.cli.input.place import AS_JSON, MODEL, NEW_URL, find_collection, open_database
from wormdb.cli.show.text import cell_of, print_values
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError

__all__ = ["command"]


@click.command(
    "insert",
    cls=Verb,
    examples=(
        'worm insert notes \'{"text": "hello"}\'',
        'worm insert notes \'[{"id": "a"}, {"id": "b"}]\' --actor ada',
        "jq -c '.items[]' page.json | worm insert notes",
    ),
)
@MODEL
@BODY
@ACTOR
@NEW_URL
@AS_JSON
def command(model: str, body: str | None, url: str, **options: Any) -> None:
    """Save new documents, all of them or none, and print their ids.

    JSON is one document, a list of them, or one a line; it comes from standard input if it is left out. An id that is
    taken is refused. A collection without a model is made by its first document. For large files use worm import.
    """
    documents = read_documents(body)
    if not documents:
        raise InvalidRequestError("no documents", reason="the list is empty", fix="give at least one")
    with open_database(url, options) as database:
        collection = find_collection(database, model, may_be_new=True)
        ids = collection.insert_many(documents, actor=options["actor"])
    if options["as_json"]:
        print_values({"ids": ids})
        return
    for identity in ids:
        click.echo(cell_of(identity))
