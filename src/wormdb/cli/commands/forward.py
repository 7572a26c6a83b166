"""worm forward: bring the log into blocks, indexes and history."""

from __future__ import annotations

import click

from wormdb.api.database import connect
from wormdb.cli.input.place import NAMES, PLACE, existing_status, place_of
from wormdb.cli.show.text import counted, print_json
from wormdb.cli.verbs import Verb
from wormdb.settings import Settings

__all__ = ["command"]


@click.command(
    "forward",
    cls=Verb,
    examples=(
        "worm forward s3://bucket/prefix",
        "worm forward Customer Invoice --json",
    ),
)
@NAMES
@PLACE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
def command(url: str | None, names: tuple[str, ...], *, as_json: bool) -> None:
    """Bring the log into blocks, indexes and history.

    Also goes on with indexes that are being built. COLLECTION is a model's name or a folder; without any, the
    bucket is searched for collections. Safe at any time, and by several processes at once.
    """
    place, names = place_of(url, names)
    with connect(place, settings=Settings(forward="manual")) as database:
        before = {each.prefix: each.applied for each in existing_status(database, names)}
        after = database.forward(list(before))
    if as_json:
        print_json({prefix: {"from": before[prefix], "through": number} for prefix, number in after.items()})
        return
    for prefix, number in after.items():
        came = number - before[prefix]
        news = counted(came, "entry", "entries") if came else "nothing new"
        click.echo(f"{prefix}: {news}, through {number:,}")
    if not after:
        click.echo("no collections")
