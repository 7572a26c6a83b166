"""worm pipeline import: files into a collection, by one change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.engines import ENGINE, MASTER, opened_pipeline
from wormdb.cli.output import camel, counted, print_json
from wormdb.cli.place import AS_JSON, URL, complete_models
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from wormdb.jobs.import_ import Imported

__all__ = ["command"]


@click.command(
    "import",
    cls=Verb,
    examples=(
        "worm pipeline import exports/ --model Customer --job nightly-2026-02-24",
        "worm pipeline import s3://lake/events/ --model Event --on-conflict ignore --master spark://head:7077",
        "worm pipeline import logs.ndjson --model logs --create",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="FILE...")
@click.option("--model", "-m", required=True, shell_complete=complete_models, help="The model, or the folder.")
@click.option("--create", "creates", is_flag=True, help="Make the collection, without a model, if it is not there.")
@click.option("--job", default="", metavar="NAME", help="With the same name again nothing is imported twice.")
@click.option("--id-field", metavar="FIELD", help="The field that is the id.  [default: id or _id]")
@click.option(
    "--on-conflict",
    type=click.Choice(["error", "replace", "ignore"]),
    default="error",
    show_default=True,
    help="If a record's id exists: import nothing, replace the document, or leave it as it is.",
)
@click.option("--rejects", type=click.Path(dir_okay=False, path_type=Path), help="Where rejected records are written.")
@click.option(
    "--max-errors", type=click.IntRange(min=0), default=0, metavar="N", help="Exit with 0 for up to N of them."
)
@click.option(
    "--format", "form", type=click.Choice(["ndjson", "json", "csv", "parquet"]), help="How files are written."
)
@click.option("--separator", metavar="SIGN", help="What is between cells of CSV.  [default: a comma; a tab in .tsv]")
@ENGINE
@MASTER
@URL
@AS_JSON
def command(sources: tuple[str, ...], model: str, url: str, **options: Any) -> int:
    """Read files into a collection by one change: NDJSON, JSON, CSV or Parquet.

    FILE is a file, a folder or a bucket with files, which workers of Spark must reach too. All records go in by one
    entry of the log, or none; other writers go on meanwhile. Those that do not fit the model are left out and written
    to MODEL.rejects.ndjson with file, line and reason: it exits with 1 then, unless --max-errors allows it. NDJSON is
    cut into parts, other files are one part each. A broken import can be run again, with --job as often as you like.
    """
    from wormdb.jobs.import_ import FileRecords
    from wormdb.jobs.import_sources import size_of

    path = options["rejects"] or Path(f"{model.strip('/').replace('/', '-')}.rejects.ndjson")
    if not path.parent.is_dir() or path.is_dir():
        raise InvalidRequestError(f"{path} cannot be written", fix="name another file: --rejects FILE")
    records = FileRecords(
        sources,
        form=options["form"],
        separator=options["separator"],
        id_field=options["id_field"],
        on_conflict=options["on_conflict"],
        job=options["job"],
    )
    with opened_pipeline(model, url, options, size=size_of(sources), creates=options["creates"]) as pipeline:
        done = pipeline.import_files(records)
    if done.rejected:
        path.write_bytes(b"".join(record.to_line() for record in done.rejected))
    _print(done, path, as_json=options["as_json"])
    return 1 if len(done.rejected) > options["max_errors"] else 0


def _print(done: Imported, path: Path, *, as_json: bool) -> None:
    if as_json:
        rejects = str(path) if done.rejected else None
        print_json({**camel(done), "rejected": len(done.rejected), "rejects": rejects})
    elif done.is_repeated:
        click.echo(f"job {done.job} was done before, by entry {done.number}: nothing was imported")
    else:
        counts = [("inserted", done.inserted), ("replaced", done.replaced), ("unchanged", done.unchanged)]
        counts.append(("rejected", len(done.rejected)))
        told = ", ".join(f"{count:,} {name}" for name, count in counts if count)
        click.echo(f"{counted(done.read, 'record', 'records')}: {told}" + (f", see {path}" if done.rejected else ""))
