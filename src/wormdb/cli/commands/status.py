"""worm status: how far each collection is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wormdb.cli.found import existing_status
from wormdb.cli.output import camel, counted, print_json, print_table
from wormdb.database import connect

if TYPE_CHECKING:
    from wormdb.status import CollectionStatus

__all__ = ["command"]


@click.command("status")
@click.argument("url", envvar="WORM_URL")
@click.argument("names", nargs=-1, metavar="[COLLECTION]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
def command(url: str, names: tuple[str, ...], *, as_json: bool) -> None:
    """Show how far each collection is behind its log.

    With its documents, blocks and indexes. COLLECTION is a model's name or a folder; without any, the bucket is
    searched for collections. Writes nothing.
    """
    with connect(url) as database:
        found = existing_status(database, names)
    if as_json:
        print_json([camel(each) for each in found])
        return
    if not found:
        click.echo("no collections")
        return
    columns = ("collection", "documents", "log", "applied", "lag", "blocks", "runs", "indexes")
    print_table(columns, [_row(each) for each in found], styles=[_style(each) for each in found])


def _row(status: CollectionStatus) -> tuple[str, ...]:
    name = status.prefix.rstrip("/")
    return (
        name if status.name in {name, ""} else f"{name} ({status.name})",
        f"{status.count:,}",
        f"{status.number:,}",
        f"{status.applied:,}",
        f"{counted(status.lag_entries, 'entry', 'entries')}, {status.lag_bytes:,} bytes"
        if status.lag_entries
        else "none",
        f"{status.blocks:,}",
        f"{status.runs:,}",
        ", ".join(f"{index.name} {index.state}" for index in status.indexes),
    )


def _style(status: CollectionStatus) -> str:
    return "yellow" if any(index.state == "failed" for index in status.indexes) else ""
