"""worm pipeline import: files into a collection, by one change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.input.engine import opened_pipeline, with_engine
from wormdb.cli.input.infer import apply_inferred
from wormdb.cli.input.place import AS_JSON, URL, complete_models
from wormdb.cli.show.text import camel, counted, print_json
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
        "worm pipeline import customers.csv --model Customer --infer --id email",
        "worm pipeline import old-bucket/customers --model Customer --format entities",
        "worm pipeline import --table sales.orders --model Order",
    ),
)
@click.argument("sources", nargs=-1, metavar="[FILE]...")
@click.option("--table", metavar="NAME", help="A table of Spark instead of files.")
@click.option("--model", "-m", required=True, shell_complete=complete_models, help="The model, or the folder.")
@click.option("--create", "creates", is_flag=True, help="Make the collection, without a model, if it is not there.")
@click.option("--infer", "infers", is_flag=True, help="Make the model of the records, show it, and apply it first.")
@click.option("--job", default="", metavar="NAME", help="With the same name again nothing is imported twice.")
@click.option("--id", "--id-field", "id_field", metavar="FIELD", help="The field that is the id.  [default: id or _id]")
@click.option(
    "--on-conflict",
    type=click.Choice(["error", "replace", "ignore"]),
    default="error",
    show_default=True,
    help="If a record's id exists, there or before it: set the record aside, replace the document, or leave it.",
)
@click.option("--strict", "is_strict", is_flag=True, help="Import nothing if any record does not fit.")
@click.option("--rejects", type=click.Path(dir_okay=False, path_type=Path), help="Where rejected records are written.")
@click.option(
    "--max-errors", type=click.IntRange(min=0), default=0, metavar="N", help="Exit with 0 for up to N of them."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["ndjson", "json", "csv", "parquet", "entities"]),
    help="How files are written; entities have one document each.",
)
@click.option("--separator", metavar="SIGN", help="What is between cells of CSV.  [default: a comma; a tab in .tsv]")
@with_engine
@URL
@AS_JSON
def command(sources: tuple[str, ...], model: str, url: str, **options: Any) -> int:
    """Read files into a collection by one change: NDJSON, JSON, CSV or Parquet; or a table of Spark.

    FILE is a file, a folder or a bucket with files, which workers of Spark must reach too. All records go in by one
    entry of the log, or none; other writers go on meanwhile. Those that do not fit the model, and those whose id or
    unique value another one has, are left out and written to MODEL.rejects.ndjson with file, line and reason: it exits
    with 1 then, unless --max-errors allows it. Large files are read in parts. A broken import can be run again, with
    --job as often as you like.
    """
    if bool(sources) == (options["table"] is not None):
        raise InvalidRequestError("worm pipeline import", reason="it needs records", fix="name files, or --table NAME")
    path = options["rejects"] or Path(f"{model.strip('/').replace('/', '-')}.rejects.ndjson")
    if not path.parent.is_dir() or path.is_dir():
        raise InvalidRequestError(f"{path} cannot be written", fix="name another file: --rejects FILE")
    done = _from_files(sources, model, url, options) if sources else _from_table(model, url, options)
    if done.rejected:
        path.write_bytes(b"".join(record.to_line() for record in done.rejected))
    _print(done, path, as_json=options["as_json"])
    return 1 if len(done.rejected) > options["max_errors"] else 0


def _from_files(sources: tuple[str, ...], model: str, url: str, options: dict[str, Any]) -> Imported:
    from wormdb.jobs.import_ import FileRecords
    from wormdb.jobs.import_sources import size_of

    named = ("form", "separator", "id_field", "on_conflict", "job", "is_strict")
    records = FileRecords(sources, **{name: options[name] for name in named})
    if options["infers"]:
        from wormdb.jobs.import_infer import infer_files

        apply_inferred(url, model, lambda folder: infer_files(records, folder))
    with opened_pipeline(model, url, options, size=size_of(sources), creates=options["creates"]) as pipeline:
        return pipeline.import_files(records)


def _from_table(model: str, url: str, options: dict[str, Any]) -> Imported:
    from wormdb.jobs.import_ import ImportRules
    from wormdb.spark.jobs import import_table, infer_table, spark_at

    rules = ImportRules(**{name: options[name] for name in ("id_field", "on_conflict", "job", "is_strict")})
    with spark_at(options["master"] or "local[*]"):
        if options["infers"]:
            apply_inferred(url, model, lambda folder: infer_table(options["table"], folder, rules.id_field))
        chosen = {**options, "engine": "spark"}
        with opened_pipeline(model, url, chosen, size=0, creates=options["creates"]) as pipeline:
            return import_table(pipeline.where, options["table"], rules)


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
