"""worm rollback: bring a version of a document back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import connect
from wormdb.cli.input.document import ACTOR, IN_MODEL, document_words, find_document
from wormdb.cli.input.place import AS_JSON, URL, YES, is_confirmed
from wormdb.cli.show.changes import ENDS, say_changes
from wormdb.cli.show.text import print_values
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]


@click.command(
    "rollback",
    cls=Verb,
    examples=("worm rollback Customer acme --to 3", "worm rollback Customer acme --to 3 --yes --actor user:ada"),
)
@document_words()
@click.option("--to", "seq", type=click.IntRange(min=1), required=True, metavar="SEQ", help="The change to go back to.")
@IN_MODEL
@YES
@ACTOR
@URL
@AS_JSON
def command(words: Sequence[str], seq: int, url: str, **options: Any) -> int:
    """Bring a document back to what one of its changes left, also if it is deleted now.

    Shows what will be different and asks first, unless --yes is given; exits with 1 if the answer is no. That is one
    more change, so that it can be rolled back too. MODEL and ID are as for worm history, which shows the numbers.
    """
    with connect(url, actor=options["actor"]) as database:
        named = find_document(database, words, options["in_model"])
        newest = named.history[-1]
        diff = named.collection.diff(named.id, newest.seq, seq)
        if any(entry.seq == seq and entry.op in ENDS for entry in named.history):
            raise InvalidRequestError(
                f"Cannot roll back to seq {seq}", reason="entity was deleted", fix="choose a seq before or after it"
            )
        if not diff and newest.op not in ENDS:
            click.echo(f"{named.label}: nothing differs from {seq}, nothing was changed", err=True)
            return 0
        if not options["as_json"]:
            click.echo(f"{named.label}: {newest.seq} → {seq}")
            say_changes(diff)
        if not is_confirmed(f"Roll {named.label} back to {seq}?", yes=options["yes"]):
            return 1
        named.check_unmoved()
        document = named.collection.rollback(named.id, to_seq=seq)
    print_values(dict(document)) if options["as_json"] else click.echo(f"rolled back: change {document.seq}")
    return 0
