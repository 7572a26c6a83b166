"""worm watch: the changes of a collection, as they come."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.input.place import MODEL, URL, find_collection, open_database
from wormdb.cli.verbs import Verb
from wormdb.format import json
from wormdb.format.past import misc_ms
from wormdb.format.wrappers import moment

if TYPE_CHECKING:
    from wormdb.api.feed import Change

__all__ = ["command"]


@click.command(
    "watch",
    cls=Verb,
    examples=(
        "worm watch Invoice",
        "worm watch Invoice --after 0 --no-follow | jq -r .op | sort | uniq -c",
        "worm watch Invoice --after 17@5f0c2a9be1d3c4a7",
    ),
)
@MODEL
@click.option("--after", metavar="MARK", help="Begin behind a log number, or the resume of a change.  [default: now]")
@click.option("--follow/--no-follow", default=True, help="Wait for what comes, or stop at the end.  [default: wait]")
@click.option("--poll", type=click.FloatRange(min=0.05), default=1.0, show_default=True, help="Seconds between looks.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N changes.")
@URL
def command(model: str, url: str, **options: Any) -> None:
    """Print each change of a collection as one line of JSON.

    A line has number, op, id, seq, before, after, actor, metadata, time and resume. --after with the resume of the last
    line goes on exactly behind it. With --no-follow it shows the whole log that is kept, if --after does not say less.
    """
    with open_database(url, options) as database:
        collection = find_collection(database, model)
        after: int | str | None = options["after"]
        if after is None:
            after = database.status([collection.prefix])[0].number if options["follow"] else 0
        changes = collection.watch(after, follow=options["follow"], poll_seconds=options["poll"])
        for change in islice(changes, options["limit"]):
            sys.stdout.buffer.write(json.encode(_shown(change)) + b"\n")
            sys.stdout.buffer.flush()


def _shown(change: Change) -> dict[str, Any]:
    shown = {
        "number": change.number,
        "op": change.op,
        "id": change.id,
        "seq": change.seq,
        "before": change.before,
        "after": change.after,
        "actor": change.actor,
        "metadata": change.metadata,
        "time": moment(misc_ms(change.misc)),
        "resume": change.resume,
    }
    return {name: value for name, value in shown.items() if value is not None}
