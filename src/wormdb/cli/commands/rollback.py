"""worm rollback: bring a version of a document back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import connect
from wormdb.cli.input.document import ACTOR, IN_MODEL, ask_to_return, document_words, find_document
from wormdb.cli.input.place import AS_JSON, URL, YES
from wormdb.cli.show.changes import ENDS
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
        if any(entry.seq == seq and entry.op in ENDS for entry in named.history):
            raise InvalidRequestError(
                f"Cannot roll back to seq {seq}", reason="entity was deleted", fix="choose a seq before or after it"
            )
        code = ask_to_return(named, seq, str(seq), f"Roll {named.label} back to {seq}?", options)
        if code is not None:
            return code
        document = named.collection.rollback(named.id, to_seq=seq)
    print_values(dict(document)) if options["as_json"] else click.echo(f"rolled back: change {document.seq}")
    return 0
