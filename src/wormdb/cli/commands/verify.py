"""worm verify: check everything that is stored, and repair what can be made again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.found import missing_collection
from wormdb.cli.output import camel, counted, print_json, print_table
from wormdb.cli.place import NAMES, PLACE, place_of
from wormdb.cli.progress import tell_line
from wormdb.database import connect
from wormdb.errors import InvalidRequestError
from wormdb.maintenance.report import Checked
from wormdb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.database import Database
    from wormdb.maintenance.report import Finding, Repair, Verification

__all__ = ["command", "print_found"]

_COLUMNS_SHOWN = 100


@click.command("verify")
@NAMES
@PLACE
@click.option("--repair", "repairs", is_flag=True, help="Make again what is damaged and can be made again.")
@click.option("--accept-loss", is_flag=True, help="Repair also if documents are lost by it; they are listed.")
@click.option("--unreferenced", is_flag=True, help="List the bucket too, for objects that nothing names.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
def command(
    url: str | None, names: tuple[str, ...], *, repairs: bool, accept_loss: bool, unreferenced: bool, as_json: bool
) -> int:
    """Check everything that is stored, and repair what can be made again.

    The log, every object that a collection needs, that all of them agree, and every readable file.
    COLLECTION is a model's name or a folder; without any, the bucket is searched for collections. Writes nothing
    without --repair. Exits with 1 if something is wrong, and with --repair if something is left.
    """
    if accept_loss and not repairs:
        raise InvalidRequestError("--accept-loss", reason="nothing is repaired without --repair", fix="add --repair")
    place, names = place_of(url, names)
    with connect(place, settings=Settings(forward="manual")) as database:
        wanted = names or database.collections()
        told = _progress() if sys.stderr.isatty() and not as_json else None
        if repairs:
            return _repair(database, wanted, accept_loss, told, as_json=as_json)
        found = database.verify(wanted, unreferenced=unreferenced, told=told)
        _forget_progress(told)
        for each in found:
            if names and each.checked == Checked() and not each.findings:
                raise missing_collection(database, each.collection)
    if as_json:
        print_json([camel(each) for each in found])
    else:
        print_found(found)
    return 0 if all(each.is_sound for each in found) else 1


def _repair(
    database: Database, names: Sequence[str], accept_loss: bool, told: Callable[[str], None] | None, *, as_json: bool
) -> int:
    try:
        done = database.repair(names, accept_loss=accept_loss, told=told)
    except InvalidRequestError as error:
        _forget_progress(told)
        for problem in error.problems:
            click.echo(f"{problem.path}: {problem.reason}", err=True)
        click.echo(f"worm: {error.what}: refused, because it would lose documents ({error.fix})", err=True)
        return 1
    _forget_progress(told)
    untouched = {each.collection for each in done if not each.repaired and not each.left}
    for prefix in sorted(untouched.difference(database.collections() if untouched else ())):
        raise missing_collection(database, prefix)
    if as_json:
        print_json([camel(each) for each in done])
    else:
        for each in done:
            _print_done(each)
    return 1 if any(each.left for each in done) else 0


def print_found(found: Sequence[Verification]) -> None:
    """Show what was looked at, and what is wrong."""
    for each in found:
        checked = each.checked
        amount = ", ".join(
            [
                counted(checked.entries, "entry", "entries"),
                counted(checked.blocks, "block", "blocks"),
                counted(checked.nodes, "node", "nodes"),
                counted(checked.documents, "document", "documents"),
                counted(checked.versions, "version", "versions"),
                *([counted(checked.files, "file", "files")] if checked.files else []),
                *([counted(checked.blobs, "blob", "blobs")] if checked.blobs else []),
            ]
        )
        count = len(each.findings) + each.left_out
        news = counted(count, "finding", "findings") if count else "sound"
        click.echo(f"{each.collection}: {news} ({amount})")
        _print_findings(each.findings)
    if not found:
        click.echo("no collections")


def _print_done(done: Repair) -> None:
    news = f"{len(done.repaired):,} repaired, {len(done.lost):,} lost, {len(done.left):,} left"
    click.echo(f"{done.collection}: {news if done.repaired or done.left else 'sound'}")
    for finding in done.repaired:
        click.echo(f"  repaired {finding.key}: {finding.what}")
    for loss in done.lost:
        click.echo(f"  lost {'document ' + loss.id if loss.id is not None else 'something'}: {loss.what}")
    _print_findings(done.left)


def _print_findings(findings: Sequence[Finding]) -> None:
    if findings:
        rows = [(finding.kind, finding.key, finding.what, finding.fix) for finding in findings]
        print_table(("kind", "object", "what", "fix"), rows)


def _progress() -> Callable[[str], None]:
    """One line that is written over and over."""

    def tell(where: str) -> None:
        tell_line(where[-_COLUMNS_SHOWN:])

    return tell


def _forget_progress(told: Any) -> None:
    if told is not None:
        tell_line("")
