"""worm pipeline export: documents to files."""

from __future__ import annotations

from typing import Any

import click

from wormdb.cli.asked import AS_OF, CSV_SAFE, FILTER, SELECT, Asked
from wormdb.cli.engines import ENGINE, MASTER, TASKS, opened_pipeline
from wormdb.cli.output import camel, counted, print_json
from wormdb.cli.place import AS_JSON, MODEL, URL
from wormdb.cli.shown import size_text
from wormdb.cli.verbs import Verb

__all__ = ["command"]


@click.command(
    "export",
    cls=Verb,
    examples=(
        "worm pipeline export Customer --to customers-parquet",
        "worm pipeline export Invoice --to s3://lake/invoices --partition-by status --master spark://head:7077",
        "worm pipeline export Customer --to active --format ndjson --filter status=active",
    ),
)
@MODEL
@click.option(
    "--to", "target", required=True, metavar="URL", help="An empty folder, or s3://bucket/prefix, gs://, az://."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "ndjson", "csv"]),
    default="parquet",
    show_default=True,
    help="How files are written.",
)
@CSV_SAFE
@FILTER
@SELECT
@click.option("--partition-by", metavar="FIELD,…", help="A folder for each value of the fields, as Hive has them.")
@click.option("--overwrite", is_flag=True, help="Replace an export that is there.")
@AS_OF
@TASKS
@ENGINE
@MASTER
@URL
@AS_JSON
def command(model: str, url: str, **options: Any) -> None:
    """Write documents to files: Parquet, NDJSON or CSV, in a folder or a bucket.

    All of one state, a file for each part of the work, in order of id. Columns of Parquet and CSV are those of
    --select, else those of the model; without a model Parquet has id and doc, CSV every field that a document has. A
    column has one type in all files, also where that depends on the values. _SUCCESS is written last, and lists the
    files; what a broken export left is removed by the next one.
    """
    from wormdb.jobs.export import ExportOptions

    asked = Asked.of({**options, "sort": None})
    by = tuple(name.strip() for name in (options["partition_by"] or "").split(",") if name.strip())
    moment = asked.options.get("as_of")
    chosen = ExportOptions(
        form=options["form"],
        csv_safe=options["csv_safe"],
        filter=asked.filter,
        select=asked.select,
        as_of=None if moment is None else str(moment),
        partition_by=by,
        overwrite=options["overwrite"],
        tasks=options["tasks"],
    )
    with opened_pipeline(model, url, options) as pipeline:
        done = pipeline.export(options["target"], chosen)
    if options["as_json"]:
        print_json({**camel(done), "target": options["target"]})
        return
    files = counted(len(done.files), "file", "files")
    click.echo(
        f"{counted(done.rows, 'document', 'documents')} in {files} ({size_text(done.size)}): {options['target']}"
    )
