"""worm table history: every change as a row."""

from __future__ import annotations

from typing import Any

import click

from wormdb.cli.input.engine import TASKS, opened_pipeline, with_engine
from wormdb.cli.input.place import AS_JSON, MODEL, URL
from wormdb.cli.show.text import camel, counted, print_json, size_text
from wormdb.cli.verbs import Verb

__all__ = ["command"]


@click.command("history", cls=Verb, examples=("worm table history Customer --to audit",))
@MODEL
@click.option(
    "--to", "target", required=True, metavar="URL", help="An empty folder, or s3://bucket/prefix, gs://, az://."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "ndjson"]),
    default="parquet",
    show_default=True,
    help="How files are written.",
)
@click.option("--overwrite", is_flag=True, help="Replace an export that is there.")
@TASKS
@with_engine
@URL
@AS_JSON
def command(model: str, url: str, **options: Any) -> None:
    """Write every change of every document to files, for audits.

    One row for each change, in order of id: id, seq, log, op, time, actor, metadata, the names of the fields that an
    update changed, and the documents before and after it as JSON.
    """
    with opened_pipeline(model, url, options) as pipeline:
        done = pipeline.export_history(
            options["target"], form=options["form"], overwrite=options["overwrite"], tasks=options["tasks"]
        )
    if options["as_json"]:
        print_json({**camel(done), "target": options["target"]})
        return
    files, rows = counted(len(done.files), "file", "files"), counted(done.rows, "change", "changes")
    click.echo(f"{rows} in {files} ({size_text(done.size)}): {options['target']}")
