"""worm pipeline rebuild: blocks, columns and indexes made again."""

from __future__ import annotations

from typing import Any

import click

from wormdb.cli.engines import ENGINE, FILES, MASTER, opened_pipeline
from wormdb.cli.output import camel, counted, print_json
from wormdb.cli.place import AS_JSON, MODEL, URL
from wormdb.cli.shown import size_text
from wormdb.cli.verbs import Verb

__all__ = ["command"]


@click.command(
    "rebuild",
    cls=Verb,
    examples=("worm pipeline rebuild Customer", "worm pipeline rebuild Event --no-files --master spark://head:7077"),
)
@MODEL
@FILES
@ENGINE
@MASTER
@URL
@AS_JSON
def command(model: str, url: str, *, files: bool, as_json: bool, **options: Any) -> None:
    """Make blocks, columns and indexes again from the documents.

    The log is brought forward, all blocks are written again with the columns of the schema, and the entries of all
    indexes are taken from the documents, sorted and joined. The result is what forwarding makes, and writers go on
    meanwhile. A damaged block is named, and repaired by worm verify --repair.
    """
    from wormdb.jobs.rebuild import RebuildOptions

    with opened_pipeline(model, url, options) as pipeline:
        done = pipeline.rebuild(RebuildOptions(files=files))
    if as_json:
        print_json(camel(done))
        return
    blocks = f"{counted(done.blocks, 'block', 'blocks')} ({size_text(done.size)})"
    click.echo(f"{done.collection}: {counted(done.documents, 'document', 'documents')} in {blocks}")
    for index in done.indexes:
        click.echo(f"index {index.name}: {counted(index.entries, 'entry', 'entries')}")
    if done.files:
        click.echo(f"{counted(done.files, 'readable file', 'readable files')} mended")
