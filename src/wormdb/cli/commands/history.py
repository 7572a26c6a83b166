"""worm history: every change of a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import connect
from wormdb.cli.input.document import IN_MODEL, document_words, find_document
from wormdb.cli.input.place import AS_JSON, URL
from wormdb.cli.show.changes import history_json, say_history
from wormdb.cli.show.text import counted, print_values
from wormdb.cli.verbs import Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]


@click.command(
    "history",
    cls=Verb,
    examples=(
        "worm history Customer acme",
        "worm history 6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28 --limit 5",
        "worm history notes 17 --json",
    ),
)
@document_words()
@IN_MODEL
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N changes.")
@URL
@AS_JSON
def command(words: Sequence[str], url: str, **options: Any) -> None:
    """Show every change of a document: when, by whom, and which fields it changed.

    MODEL is a model's name or a folder, and may be left out: then every model of the schema is asked for the id, which
    is enough where ids are made by the database. ID is the text as it is, or as in a key. Where ids may also be numbers
    and the like these are tried too; '"17"' in quotes is text only, %i17 the number only. Also for deleted documents.
    """
    with connect(url) as database:
        named = find_document(database, words, options["in_model"])
    limit = options["limit"] or len(named.history)
    shown = named.history[-limit:]
    if options["as_json"]:
        print_values([history_json(entry) for entry in shown])
        return
    total = counted(len(named.history), "change", "changes")
    click.echo(f"{named.label}: {total if len(shown) == len(named.history) else f'{len(shown):,} of {total}'}")
    say_history(named.history, shown)
