"""What commands about a folder and its bucket share: which folder, which bucket, what becomes of conflicts.

push, pull and sync take the same options but for a few, and do the same with them: `sync_options` and `carry_out`.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.input.place import AS_JSON
from wormdb.cli.show.synced import print_synced, rate_told
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.sync import ConflictPolicy, Sync, SyncReport

__all__ = [
    "BUCKET",
    "DELETE",
    "FOLDER",
    "LAZY",
    "REBASE",
    "SCOPES",
    "carry_out",
    "open_folder",
    "scope_of",
    "sync_options",
]

SCOPES = click.argument("scopes", nargs=-1, metavar="[SCOPE]...")
FOLDER = click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), default=Path(), help="The folder.  [default: here]"
)
BUCKET = click.option(
    "--url", metavar="URL", help="The bucket: s3://bucket/prefix, gs://, az://, a folder.  [default: as the last time]"
)
CONFLICTS = click.option(
    "--conflicts",
    type=click.Choice(["keep-both", "keep-remote", "keep-local"]),
    help="Of a file that changed on both sides: the bucket's takes its place and the local one gets another name; "
    "only the bucket's; or only the local one.  [default: by sourceOfTruth of the folder's schema, else keep-both]",
)
DELETE = click.option(
    "--delete", is_flag=True, help="Make the other side exactly like this one: what only it has goes."
)
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only show what would be done; nothing is written.")
LAZY = click.option("--lazy", is_flag=True, help="Leave bodies of data (data/**/raw) in the bucket.")
SCAN = click.option("--scan", is_flag=True, help="List the bucket first, for what others wrote without its index.")
REBASE = click.option(
    "--rebase",
    is_flag=True,
    help="Where both sides of a collection went on, commit the batches of this side behind those of the bucket.",
)


def sync_options(*more: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The options of push, pull and sync, and some more of one of them; the command gets the context first."""

    def decorate(command: Any) -> Any:
        decorated = click.pass_context(command)
        for option in reversed((SCOPES, FOLDER, BUCKET, CONFLICTS, DRY_RUN, SCAN, *more, AS_JSON)):
            decorated = option(decorated)
        return decorated

    return decorate


def carry_out(
    context: click.Context, given: dict[str, Any], work: Callable[..., SyncReport], *, makes_folder: bool = False
) -> None:
    """Do what a command with `sync_options` was told, say what was done, and exit: 3 for what changed on both sides.

    `work` gets the open folder, the scope, and the options that are not about where.
    """
    place = {name: given.pop(name) for name in ("folder", "url", "conflicts")}
    scope, as_json = scope_of(given.pop("scopes")), given.pop("as_json")
    with open_folder(**place, makes_folder=makes_folder) as sync:
        report = work(sync, scope, **given)
    context.exit(print_synced(report, as_json=as_json))


@contextmanager
def open_folder(
    folder: Path, url: str | None, conflicts: ConflictPolicy | None = None, *, makes_folder: bool = False
) -> Iterator[Sync]:
    """Both sides, with a line that tells how far it is. No requests."""
    from wormdb.sync import Sync

    if url is not None and makes_folder:
        folder.mkdir(parents=True, exist_ok=True)
    with rate_told() as told, Sync(folder, url, conflicts=conflicts, told=told) as sync:
        yield sync


def scope_of(scopes: tuple[str, ...]) -> Any:
    """Paths and models as they were typed: `model:TYPE/ID` is a model. Raises InvalidRequestError."""
    return [_scope(each) for each in scopes] or None


def _scope(text: str) -> str | dict[str, str]:
    if not text.startswith("model:"):
        return text
    kind, slash, identity = text.removeprefix("model:").rpartition("/")
    if not slash or not kind or not identity:
        raise InvalidRequestError(f"scope {text!r}", reason="a model is written model:TYPE/ID")
    return {"type": kind, "id": identity}
