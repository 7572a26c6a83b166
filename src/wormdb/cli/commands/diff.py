"""worm diff: two versions of a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import connect
from wormdb.cli.input.document import IN_MODEL, document_words, find_document
from wormdb.cli.input.place import AS_JSON, URL
from wormdb.cli.show.changes import say_changes
from wormdb.cli.show.text import print_values
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]


@click.command("diff", cls=Verb, examples=("worm diff Customer acme 1 2", "worm diff acme 1 2 --model Customer --json"))
@document_words("A B")
@IN_MODEL
@URL
@AS_JSON
def command(words: Sequence[str], url: str, **options: Any) -> None:
    """Show the fields in which two versions of a document differ.

    A and B are the numbers of changes that worm history shows; after a delete every field is absent. MODEL and ID
    are as for worm history.
    """
    one, two = _numbers(words)
    with connect(url) as database:
        named = find_document(database, words[:-2], options["in_model"])
        diff = named.collection.diff(named.id, one, two)
    if options["as_json"]:
        print_values({name: list(pair) for name, pair in diff.items()})
        return
    click.echo(f"{named.label}: {one} → {two}" + ("" if diff else ", no difference"))
    say_changes(diff)


def _numbers(words: Sequence[str]) -> tuple[int, int]:
    last = words[-2:]
    if len(words) < 3 or not all(word.isascii() and word.isdecimal() for word in last):
        raise InvalidRequestError(
            f"worm diff {' '.join(words)}"[:100],
            reason="it needs an id and the numbers of two changes",
            fix="write worm diff MODEL ID 1 2; worm history MODEL ID shows the numbers",
        )
    return int(last[0]), int(last[1])
