"""worm get: one document as JSON."""

from __future__ import annotations

from typing import Any

import click

from wormdb.cli.input.body import read_id
from wormdb.cli.input.place import MODEL, ON_BROKEN, SCHEMA, URL, find_collection, open_database
from wormdb.cli.input.question import AS_OF, read_as_of
from wormdb.cli.show.text import PLAIN, print_document
from wormdb.cli.verbs import Verb

__all__ = ["command"]


@click.command(
    "get",
    cls=Verb,
    examples=(
        "worm get Customer acme",
        "worm get notes 17 --plain | jq .title",
        "worm get Customer acme --as-of 2026-02-24",
    ),
)
@MODEL
@click.argument("identity", metavar="[ID]", required=False)
@AS_OF
@PLAIN
@URL
@SCHEMA
@ON_BROKEN
def command(model: str, identity: str | None, url: str, **options: Any) -> None:
    """Print one document as JSON.

    MODEL is a model's name or a folder. ID is the text as it is; where ids may also be numbers and the like these are
    tried too, and '"17"' in quotes is text only. A model that has one document needs no ID. What is printed is extended
    JSON, which worm put takes as it is. Exits with 1 if there is no such document.
    """
    with open_database(url, options) as database:
        collection = find_collection(database, model)
        _, document = read_id(database, collection, identity, as_of=read_as_of(options["as_of"]))
        print_document(document, is_plain=options["plain"])
