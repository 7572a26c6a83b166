"""worm layout: where the oplog, snapshots and trash of collections lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import click

from wormdb.api.database import Database, connect
from wormdb.cli.input.place import AS_JSON, URL, complete_models
from wormdb.cli.show.progress import told_of
from wormdb.cli.show.text import counted, print_json
from wormdb.cli.verbs import Verb, VerbGroup
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.files.migrate import LayoutMigration
    from wormdb.schema.model import Layout

__all__ = ["command"]

KINDS: Final[tuple[Literal["oplog", "snapshots", "trash"], ...]] = ("oplog", "snapshots", "trash")
PLACE = click.Choice(["inline", "collection", "root"])


@click.group("layout", cls=VerbGroup)
def command() -> None:
    """Move oplog, snapshots and trash of readable files to other places.

    They lie inline (with each document), with the collection, or at the root of the bucket.
    """


@command.command(
    "migrate",
    cls=Verb,
    examples=(
        "worm layout migrate --to collection --dry-run",
        "worm layout migrate Customer --to root --snapshots inline",
        "worm layout migrate",
    ),
)
@click.argument("models", nargs=-1, shell_complete=complete_models)
@URL
@click.option("--to", type=PLACE, help="Where all three go.  [default: as the schema says]")
@click.option("--oplog", type=PLACE, help="Where the oplog goes.")
@click.option("--snapshots", type=PLACE, help="Where snapshots go.")
@click.option("--trash", type=PLACE, help="Where the trash goes.")
@click.option("--actor", help="The person or program that does it, for the log.")
@click.option("--dry-run", is_flag=True, help="Show what would move, and write nothing.")
@AS_JSON
def migrate(models: Sequence[str], url: str, *, actor: str | None, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Move oplog, snapshots and trash to other places, of MODELS or of all that keep readable files.

    Every file is at its new place before it is removed from the old one. A run that was cut off is gone on with by the
    next one. Collections can be written to meanwhile. New collections lie where the schema says: change it there too.
    """
    with connect(url, actor=actor) as database:
        wanted = _wanted(database, given)
        names = models or _kept(database)
        made: list[LayoutMigration] = []
        for name in names:
            with told_of("documents", lambda: None) as told:
                made.append(database.files.migrate(name, wanted=wanted, dry_run=dry_run, told=told))
            if not as_json:
                click.echo(_line(made[-1], is_dry=dry_run))
    if as_json:
        print_json({"dryRun": dry_run, "collections": [each.to_dict() for each in made]})
    elif not made:
        click.echo("no collection keeps readable files")


def _wanted(database: Database, given: Mapping[str, Any]) -> dict[str, Layout]:
    wanted: dict[str, Layout] = {kind: given[kind] or given["to"] for kind in KINDS if given[kind] or given["to"]}
    if wanted:
        return wanted
    if database.schema is None:
        raise InvalidRequestError(
            "worm layout migrate", reason="there is no schema that says where to", fix="give --to"
        )
    return {kind: database.schema.storage.layout_of(kind) for kind in KINDS}


def _kept(database: Database) -> list[str]:
    """The folders of the collections that keep files."""
    return [status.collection for status in database.files.status() if status.enabled]


def _line(migration: LayoutMigration, *, is_dry: bool) -> str:
    moves = migration.to_dict()
    if not moves["moves"]:
        return f"{migration.collection}: nothing to move"
    changed = ", ".join(f"{kind} {moves['from'][kind]} → {moves['to'][kind]}" for kind in moves["moves"])
    verb = "would move" if is_dry else "moved"
    return f"{migration.collection}: {verb} {changed} ({counted(migration.documents, 'document', 'documents')})"
