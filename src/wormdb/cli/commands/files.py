"""worm files: the readable files of collections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import connect
from wormdb.cli.input.place import AS_JSON, MODEL, URL, YES, complete_models, find_collection, is_confirmed
from wormdb.cli.show.progress import told_of
from wormdb.cli.show.text import TextColumn, counted, print_json, print_ruled
from wormdb.cli.verbs import Verb, VerbGroup
from wormdb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.files.status import FilesStatus
    from wormdb.files.sync import FilesSyncResult

__all__ = ["command"]

COLUMNS = (
    TextColumn("Collection", 0),
    TextColumn("Files", 0),
    TextColumn("Oplog", 0),
    TextColumn("Snapshots", 0),
    TextColumn("Trash", 0),
    TextColumn("Through", 0, is_right=True),
    TextColumn("Lag", 0, is_right=True),
    TextColumn("Pending", 0, is_right=True),
    TextColumn("Count", 0, is_right=True),
)
MANUAL = Settings(forward="manual")
_SHOWN_MAX = 100


@click.group("files", cls=VerbGroup)
def command() -> None:
    """Show, reconcile, switch on and switch off readable files.

    They are plain JSON beside the log, for people and other tools: documents, manifest, indexes, oplog, snapshots and
    trash. They follow the log by themselves, and no answer depends on them.
    """


@command.command("status", cls=Verb, examples=("worm files status", "worm files status Customer --count"))
@click.argument("models", nargs=-1, shell_complete=complete_models)
@click.option("--count", "counted_too", is_flag=True, help="List the bucket too, to count the files.")
@URL
@AS_JSON
def status(models: tuple[str, ...], url: str, *, counted_too: bool, as_json: bool) -> None:
    """Show how far the readable files of collections are behind their log.

    Lag is the number of log entries that are not in files, Pending the changes that manifest and index files wait
    for. Without MODELS all collections are shown.
    """
    with connect(url, settings=MANUAL) as database:
        names = [find_collection(database, each).prefix for each in models] if models else database.collections()
        found = database.files.status(names, counted=counted_too)
    if as_json:
        print_json([each.to_dict() for each in found])
    else:
        print_ruled(COLUMNS, [_row(each) for each in found])


@command.command("sync", cls=Verb, examples=("worm files sync", "worm files sync Customer"))
@click.argument("models", nargs=-1, shell_complete=complete_models)
@URL
@AS_JSON
def sync(models: tuple[str, ...], url: str, *, as_json: bool) -> int:
    """Reconcile every readable file of collections with their documents and history.

    What is missing or was edited is written again, and what should not be there is removed; files of others in the
    same folders are left alone. It may be stopped and started again, while others write. Without MODELS all collections
    that keep files are reconciled, and what is left of files that were switched off is removed. Exits with 1 if
    something is left that others change all the time.
    """
    done: dict[str, FilesSyncResult] = {}
    with connect(url, settings=MANUAL) as database:
        names = [find_collection(database, each).prefix for each in models]
        if not models:
            names = [each.collection for each in database.files.status(database.collections()) if each.oplog]
        for name in names:
            with told_of("documents", database[name.rstrip("/")].count) as told:
                done[name] = database.files.sync(name, told)
    _print_synced(done, as_json=as_json)
    return 1 if any(each.left for each in done.values()) else 0


@command.command("on", cls=Verb, examples=("worm files on Customer",))
@MODEL
@URL
@AS_JSON
def on(model: str, url: str, *, as_json: bool) -> int:
    """Keep readable files of a collection from now on, and write all of them."""
    with connect(url, settings=MANUAL) as database:
        collection = find_collection(database, model)
        with told_of("documents", collection.count) as told:
            done = database.files.on(collection.prefix, told)
    _print_synced({collection.prefix: done}, as_json=as_json)
    return 1 if done.left else 0


@command.command("off", cls=Verb, examples=("worm files off Customer --yes",))
@MODEL
@URL
@YES
@AS_JSON
def off(model: str, url: str, *, yes: bool, as_json: bool) -> None:
    """Keep no readable files of a collection any more, and remove those that are there.

    Documents and their history stay as they are: they are in the log and in blocks.
    """
    with connect(url, settings=MANUAL) as database:
        prefix = find_collection(database, model).prefix
        if not is_confirmed(f"Remove all readable files of {prefix}?", yes=yes):
            return
        with told_of("files", lambda: None) as told:
            removed = database.files.off(prefix, told)
    if as_json:
        print_json({"collection": prefix, "removed": removed})
    else:
        click.echo(f"{prefix}: {counted(removed, 'file', 'files')} removed")


def _row(status: FilesStatus) -> Sequence[str]:
    if status.oplog is None:
        return (status.collection, "off", *["--"] * 7)
    return (
        status.collection,
        "filling" if status.is_filling and status.enabled else "on" if status.enabled else "off",
        status.oplog,
        status.snapshots or "--",
        status.trash or "--",
        f"{status.through:,}",
        f"{status.lag_entries:,}",
        f"{status.pending:,}",
        "--" if status.files is None else f"{status.files:,}",
    )


def _print_synced(synced: Mapping[str, FilesSyncResult], *, as_json: bool) -> None:
    if as_json:
        print_json([{"collection": name, **_shown(done)} for name, done in synced.items()])
        return
    for name, done in synced.items():
        _print_one(name, done)
    if not synced:
        click.echo("no collection keeps readable files")


def _print_one(name: str, done: FilesSyncResult) -> None:
    if not done.through and not done.files:
        click.echo(f"{name}: files are off, {counted(done.removed, 'file', 'files')} removed")
        return
    news = f"{counted(len(done.mended), 'file', 'files')} mended" if done.mended else "nothing was wrong"
    left = f", {len(done.left):,} left" if done.left else ""
    removed = f", {counted(done.removed, 'file', 'files')} removed" if done.removed else ""
    counts = f"{counted(done.files, 'file', 'files')} of {counted(done.documents, 'document', 'documents')}"
    click.echo(f"{name}: {counts}: {news}{left}{removed}")
    for fault in done.mended[:_SHOWN_MAX]:
        click.echo(f"  mended {fault.key}: {fault.what}")
    for fault in done.left[:_SHOWN_MAX]:
        click.echo(f"  left {fault.key}: {fault.what}")


def _shown(done: FilesSyncResult) -> dict[str, Any]:
    return {
        "through": done.through,
        "documents": done.documents,
        "files": done.files,
        "removed": done.removed,
        "mended": [{"key": fault.key, "what": fault.what} for fault in done.mended],
        "left": [{"key": fault.key, "what": fault.what} for fault in done.left],
    }
