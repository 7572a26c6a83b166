"""What commands about a folder and its bucket share: which folder, which bucket, what becomes of conflicts."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.show.synced import rate_told
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.sync import ConflictPolicy, Sync

__all__ = ["BUCKET", "CONFLICTS", "DELETE", "DRY_RUN", "FOLDER", "LAZY", "SCAN", "SCOPES", "open_folder", "scope_of"]

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
    default="keep-both",
    show_default=True,
    help="Of a file that changed on both sides: the bucket's takes its place and the local one gets another name; "
    "only the bucket's; or only the local one.",
)
DELETE = click.option(
    "--delete", is_flag=True, help="Make the other side exactly like this one: what only it has goes."
)
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only show what would be done; nothing is written.")
LAZY = click.option("--lazy", is_flag=True, help="Leave bodies of data (data/**/raw) in the bucket.")
SCAN = click.option("--scan", is_flag=True, help="List the bucket first, for what others wrote without its index.")


@contextmanager
def open_folder(
    folder: Path, url: str | None, conflicts: ConflictPolicy = "keep-both", *, makes_folder: bool = False
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
