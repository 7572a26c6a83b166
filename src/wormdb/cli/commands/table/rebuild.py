"""worm table rebuild: columns and indexes made again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import connect
from wormdb.cli.input.engine import FILES, opened_pipeline, with_engine
from wormdb.cli.input.place import AS_JSON, MODEL, URL, find_collection, model_of
from wormdb.cli.show.indexes import amount_of, indexes_of
from wormdb.cli.show.text import counted, print_json, size_text
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError
from wormdb.settings import Settings
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.api.status import IndexDescription, ManifestStatus
    from wormdb.jobs.rebuild import RebuildResult
    from wormdb.schema.model import Model

__all__ = ["command"]

MANUAL = Settings(forward="manual")


@click.command(
    "rebuild",
    cls=Verb,
    examples=(
        "worm table rebuild Customer",
        "worm table rebuild org/customers --url s3://bucket/shop",
        "worm table rebuild Event --no-files --master spark://head:7077",
    ),
)
@MODEL
@FILES
@with_engine
@URL
@AS_JSON
def command(model: str, url: str, *, files: bool, as_json: bool, **options: Any) -> int:
    """Make blocks, columns and indexes again, up to date with the log.

    Brings the log forward, writes all blocks again with the columns of the schema, and makes all indexes again from the
    documents; those that wait or failed too. Readable files are compared and mended. Safe at any time: writers go on.
    Exits with 1 if an index cannot be built. A damaged block is named, and repaired by worm verify --repair.
    """
    from wormdb.jobs.rebuild import RebuildOptions

    clock = SystemClock()
    begun = clock.monotonic()
    with connect(url, settings=MANUAL) as database:
        collection = find_collection(database, model)
        count = collection.count()
        _say(f"Scanning collection: {collection.prefix}\nFound {counted(count, 'entity', 'entities')}\n", as_json)
        _say("Building manifest... ", as_json)
        with opened_pipeline(model, url, options) as pipeline:
            done = pipeline.rebuild(RebuildOptions(files=files))
        collection.invalidate_manifest()
        manifest = collection.build_manifest()
        _say(f"{_made(manifest)}\n", as_json)
        indexes = _build_indexes(collection, model_of(database, collection), as_json)
    seconds = clock.monotonic() - begun
    failed = [each.name for each in indexes if each.state != "ready"]
    if as_json:
        _print_json(collection, done, manifest, indexes, seconds)
    else:
        if done.files:
            click.echo(f"{counted(done.files, 'readable file', 'readable files')} mended", err=True)
        left = f", {counted(len(failed), 'index', 'indexes')} failed" if failed else ""
        click.echo(f"Rebuild complete in {seconds:.1f}s{left}")
    return 1 if failed else 0


def _build_indexes(collection: Collection[Document], known: Model | None, as_json: bool) -> list[IndexDescription]:
    made = []
    for each in indexes_of(collection, known):
        _say(f"Building index: {', '.join(each.fields)}... ", as_json)
        try:
            if each.state != "ready":  # forwarding has built the others
                collection.build_index(each.name)
        except InvalidRequestError as error:
            _say(f"failed ({error.reason})\n", as_json)
        index = collection.describe_index(each.name)
        if index.state == "ready":
            _say(f"done ({amount_of(index, several='values')})\n", as_json)
        made.append(index)
    return made


def _made(manifest: ManifestStatus) -> str:
    if manifest.state == "none":
        return f"none ({manifest.reason})"
    left = "" if manifest.fresh else f", {manifest.state}: {manifest.reason}"
    return f"done ({size_text(manifest.size_bytes)}){left}"


def _say(text: str, as_json: bool) -> None:
    if not as_json:
        click.echo(text, nl=False)


def _print_json(
    collection: Collection[Document],
    done: RebuildResult,
    manifest: ManifestStatus,
    indexes: list[IndexDescription],
    seconds: float,
) -> None:
    print_json(
        {
            "model": collection.name,
            "prefix": collection.prefix,
            "count": manifest.count,
            "blocks": done.blocks,
            "sizeBytes": done.size,
            "files": done.files,
            "manifest": manifest.to_dict(),
            "indexes": [each.to_dict() for each in indexes],
            "seconds": round(seconds, 3),
        }
    )
