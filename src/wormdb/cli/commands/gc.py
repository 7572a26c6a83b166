"""worm gc: remove objects that nothing needs any more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from wormdb.api.database import connect
from wormdb.cli.input.place import NAMES, PLACE, existing_status, place_of
from wormdb.cli.show.progress import tell_line
from wormdb.cli.show.text import camel, counted, print_json, print_table
from wormdb.cli.verbs import Verb
from wormdb.settings import Settings
from wormdb.storage.conditions import remove_probes

if TYPE_CHECKING:
    from wormdb.maintenance.gc.report import GcResult

__all__ = ["command"]

_SHOWN_MAX = 20
_COLUMNS_SHOWN = 100


@click.command(
    "gc",
    cls=Verb,
    examples=(
        "worm gc s3://bucket/prefix --dry-run",
        "worm gc Customer",
    ),
)
@NAMES
@PLACE
@click.option("--dry-run", is_flag=True, help="Only show what would go; nothing is written.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
def command(url: str | None, names: tuple[str, ...], *, dry_run: bool, as_json: bool) -> None:
    """Remove what no process needs any more.

    Objects that were replaced an hour ago or more, what writers left behind that crashed or lost a race, bulk jobs
    that were not ended for a week, and log entries past their retention. COLLECTION is a model's name or a folder;
    without any, the bucket is searched for collections. Safe at any time, and by several processes at once.
    """
    place, names = place_of(url, names)
    with connect(place, settings=Settings(forward="manual")) as database:
        wanted = (
            [each.prefix for each in existing_status(database, names)]
            if names
            else database.collections(with_removed=True)
        )
        is_shown = sys.stderr.isatty() and not as_json
        found = database.gc(wanted, dry_run=dry_run, told=_tell if is_shown else None)
        if not names and not dry_run:
            remove_probes(database.store)
        if is_shown:
            tell_line("")
    if as_json:
        print_json([{**camel(each), "objects": each.objects, "bytes": each.bytes} for each in found])
        return
    for each in found:
        _print(each)
    if not found:
        click.echo("no collections")


def _print(found: GcResult) -> None:
    verb = "would remove" if found.is_dry else "removed"
    amount = counted(found.objects, "object", "objects")
    news = f"{verb} {amount}, {counted(found.bytes, 'byte', 'bytes')}" if found.objects else "nothing to remove"
    if found.waiting:
        news += f"; {found.waiting:,} more wait until no reader can need them"
    click.echo(f"{found.collection}: {news}")
    for job in found.expired:
        click.echo(f"  job {job} {'would be' if found.is_dry else 'is'} given up: it was open for too long")
    rows = [(kind, f"{tally.objects:,}", f"{tally.bytes:,}") for kind, tally in found.kinds.items()]
    if rows:
        print_table(("kind", "objects", "bytes"), rows)
    if found.is_dry and found.victims:
        shown = found.victims[:_SHOWN_MAX]
        print_table(("object", "bytes", "why"), [(one.key, f"{one.bytes:,}", one.reason) for one in shown])
        if found.objects > len(shown):
            click.echo(f"  and {found.objects - len(shown):,} more (--json lists up to 1,000 of a kind)")


def _tell(where: str) -> None:
    """One line that is written over and over."""
    tell_line(where[-_COLUMNS_SHOWN:])
