"""worm drop: remove a collection with all that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.input.place import AS_JSON, URL, YES, complete_models, is_confirmed, missing_collection
from wormdb.cli.show.text import camel, counted, print_json
from wormdb.cli.verbs import Verb
from wormdb.errors import NotFoundError, RemovedError
from wormdb.settings import Settings

if TYPE_CHECKING:
    from wormdb.api.database import Database
    from wormdb.maintenance.removal import DropResult

__all__ = ["command"]


@click.command(
    "drop",
    cls=Verb,
    examples=("worm drop Customer --dry-run", "worm drop org/customers --yes", "worm drop Customer --yes --wait"),
)
@click.argument("name", metavar="COLLECTION", shell_complete=complete_models)
@URL
@YES
@click.option("--dry-run", is_flag=True, help="Only show what would go; nothing is written.")
@click.option("--wait", is_flag=True, help="Wait until no process reads it, over a minute: then its log goes too.")
@click.option("--missing-ok", is_flag=True, help="Succeed if there is no such collection.")
@AS_JSON
def command(name: str, url: str, **options: Any) -> int:
    """Remove a collection with all that it has: its name is free then.

    Documents, indexes, history, blobs and readable files are deleted for good. COLLECTION is a model's name or a
    folder. The model stays in the schema; collections in folders inside it, and files of other programs, stay too. One
    that broke off is gone on with by the same command, by worm gc, or by a node. Asks first, unless --yes is given;
    exits with 1 if the answer is no.

    Without --wait the last entries of its log stay for 90 seconds, until worm gc or a node deletes them.
    """
    from wormdb.api.database import connect

    with connect(url, settings=Settings(forward="manual")) as database:
        found = _found(database, name, missing_ok=options["missing_ok"])
        if found is None:
            print_json(None) if options["as_json"] else click.echo(f"there is no collection {name}")
            return 0
        if options["dry_run"]:
            _show(found, "would delete", as_json=options["as_json"])
            return 0
        documents = counted(found.documents, "document", "documents")
        if not is_confirmed(f"Remove {found.collection} with {documents} for good?", yes=options["yes"]):
            return 1
        done = database.drop(name, missing_ok=True, wait=options["wait"])
    _show(done or found, "deleted", as_json=options["as_json"])
    return 0


def _found(database: Database, name: str, *, missing_ok: bool) -> DropResult | None:
    """What there is to be removed; None if there is nothing and that is well."""
    try:
        return database.removal(name).survey()
    except RemovedError:
        raise
    except NotFoundError as error:
        if missing_ok:
            return None
        raise missing_collection(database, name) from error


def _show(result: DropResult, verb: str, *, as_json: bool) -> None:
    if as_json:
        print_json(camel(result))
        return
    what = [
        counted(result.documents, "document", "documents"),
        f"{counted(result.objects, 'object', 'objects')} of {counted(result.bytes, 'byte', 'bytes')}",
    ]
    if result.files:
        what.append(counted(result.files, "readable file", "readable files"))
    click.echo(f"{result.collection}: {verb} {', '.join(what)}")
    if result.waiting:
        entries = counted(result.waiting, "entry", "entries")
        click.echo(f"  the last {entries} of the log can be deleted in 90 seconds, by worm gc or a node")
