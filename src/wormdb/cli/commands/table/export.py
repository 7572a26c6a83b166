"""worm table export: documents to standard output, or to files."""

from __future__ import annotations

import csv
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import click

from wormdb.cli.input.engine import TASKS, opened_pipeline, wants_spark, with_engine
from wormdb.cli.input.place import MODEL, ON_BROKEN, SCHEMA, URL, find_collection, model_of, open_database
from wormdb.cli.input.question import AS_OF, CSV_SAFE, FILTER, SELECT, SORT, STRATEGY, QueryArguments, columns_for
from wormdb.cli.show.progress import show_count
from wormdb.cli.show.rows import columns_in, write_parts, write_rows
from wormdb.cli.show.text import camel, counted, print_json, size_text
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError
from wormdb.settings import MIB, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.jobs.export import ExportOptions, Form
    from wormdb.schema.model import Model

__all__ = ["command"]

# Everything is read once, so there is little use in keeping it.
SETTINGS = Settings(cache_bytes=16 * MIB)
_OF_ONE = ("sort", "limit", "strategy")
_OF_FILES = ("partition_by", "overwrite")
_APART = "parts know nothing of each other"


@click.command(
    "export",
    cls=Verb,
    examples=(
        "worm table export Customer --format csv --filter status=active > active-customers.csv",
        "worm table export Customer --format json --select name,email,status",
        "worm table export Customer --to customers-parquet",
        "worm table export Invoice --to s3://lake/invoices --partition-by status --master spark://head:7077",
    ),
)
@MODEL
@click.option(
    "--to", "target", metavar="URL", help="Write files to an empty folder, or s3://bucket/prefix, gs://, az://."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["ndjson", "json", "csv", "parquet"]),
    help="Lines of JSON, one list, a table for spreadsheets, or Parquet.  [ndjson; parquet with --to]",
)
@CSV_SAFE
@FILTER
@SELECT
@SORT
@click.option("--limit", type=int, metavar="N", help="At most N documents.")
@AS_OF
@STRATEGY
@click.option("--partition-by", metavar="FIELD,…", help="A folder for each value of the fields, as Hive has them.")
@click.option("--overwrite", is_flag=True, help="Replace an export that is there.")
@TASKS
@with_engine
@URL
@SCHEMA
@ON_BROKEN
@click.option("--json", "as_json", is_flag=True, help="The same as --format json; with --to, report as JSON.")
def command(model: str, url: str, **options: Any) -> None:
    """Write documents to standard output, or to files in a folder or a bucket.

    All of one state, in order of id if they are not sorted. Values that JSON does not have are written as MongoDB's
    extended JSON. CSV has the columns of --select, else those of the model, else every field that a document has, for
    which the documents are read twice; nested values are JSON, null and missing are empty. On Spark, which auto takes
    for large collections, a temporary folder holds the rows before they are written to standard output; --sort, --limit
    and --strategy are for this process.

    With --to each part of the work writes a file: Parquet, NDJSON or CSV. Parquet has the columns of CSV, without a
    model id and doc. A column has one type in all files, also where that depends on the values. _SUCCESS is written
    last, and lists the files; what a broken export left is removed by the next one.
    """
    form = _checked_form(options)
    asked = QueryArguments.of(options)
    if options["target"] is not None:
        _write_files(model, url, asked, {**options, "form": form})
        return
    own = _given(options, _OF_ONE)
    if own and options["engine"] == "spark":
        raise InvalidRequestError(f"{own} with --engine spark", reason=_APART, fix="use --engine local")
    with open_database(url, options, SETTINGS) as database:
        collection = find_collection(database, model)
        is_spark = not own and wants_spark(collection, options)
        in_parts = is_spark or (not own and options["tasks"] is not None)
        if not in_parts:
            _write(asked, collection, form, model_of(database, collection), is_safe=options["csv_safe"])
    if in_parts:
        _write_parts(model, url, asked, {**options, "engine": "spark" if is_spark else "local", "form": form})


def _given(options: dict[str, Any], names: Sequence[str]) -> str:
    """The first of some options that was given, as it is typed; "" if none was."""
    return next((f"--{name.replace('_', '-')}" for name in names if options[name]), "")


def _checked_form(options: dict[str, Any]) -> str:
    """Which form is written. Raises InvalidRequestError for options that do not go together."""
    to_files, form = options["target"] is not None, options["form"]
    wrong = _given(options, _OF_ONE if to_files else _OF_FILES)
    if wrong and to_files:
        raise InvalidRequestError(f"{wrong} with --to", reason=_APART, fix=f"leave out {wrong}, or --to")
    if wrong:
        raise InvalidRequestError(wrong, reason="it is for files", fix="name a folder or a bucket: --to URL")
    if to_files and form == "json":
        raise InvalidRequestError("--format json with --to", reason=_APART, fix="use --format ndjson")
    if not to_files and form == "parquet":
        raise InvalidRequestError(
            "--format parquet", reason="it is for files", fix="name a folder or a bucket: --to URL"
        )
    if to_files:
        return form or "parquet"
    return "json" if options["as_json"] else form or "ndjson"


def _export_options(asked: QueryArguments, options: dict[str, Any], form: str) -> ExportOptions:
    from wormdb.jobs.export import ExportOptions

    moment = asked.options.get("as_of")
    return ExportOptions(
        form=cast("Form", form),
        csv_safe=options["csv_safe"],
        filter=asked.filter,
        select=asked.select,
        as_of=None if moment is None else str(moment),
        partition_by=tuple(name.strip() for name in (options["partition_by"] or "").split(",") if name.strip()),
        overwrite=options["overwrite"],
        tasks=options["tasks"],
    )


def _write_files(model: str, url: str, asked: QueryArguments, options: dict[str, Any]) -> None:
    target = options["target"]
    with opened_pipeline(model, url, options) as pipeline:
        done = pipeline.export(target, _export_options(asked, options, options["form"]))
    if options["as_json"]:
        print_json({**camel(done), "target": target})
        return
    files = counted(len(done.files), "file", "files")
    click.echo(f"{counted(done.rows, 'document', 'documents')} in {files} ({size_text(done.size)}): {target}")


def _write(
    asked: QueryArguments, collection: Collection[Document], form: str, known: Model | None, *, is_safe: bool
) -> None:
    found = asked.find(collection)
    columns = columns_for(asked, known)
    if form == "csv" and columns is None:
        columns = columns_in(found)

    def total() -> int | None:
        return asked.limit or (collection.count() if asked.is_of_all else None)

    write_rows(show_count(found, "documents", total), form, columns, is_safe=is_safe)


def _write_parts(model: str, url: str, asked: QueryArguments, options: dict[str, Any]) -> None:
    """The same rows, from files that workers on this machine wrote."""
    is_csv = options["form"] == "csv"
    with TemporaryDirectory(prefix="worm-export-") as folder, opened_pipeline(model, url, options) as pipeline:
        done = pipeline.export(folder, _export_options(asked, options, "csv" if is_csv else "ndjson"))
        files = [Path(folder, made.name) for made in done.files]
        write_parts(_list(files) if options["form"] == "json" else _lines(files, is_csv=is_csv))


def _lines(files: Sequence[Path], *, is_csv: bool) -> Iterator[bytes]:
    """The lines of all files; of tables the names of columns once."""
    head = _head_lines(files[0]) if is_csv and files else 0
    for number, file in enumerate(files):
        with file.open("rb") as lines:
            yield from islice(lines, head if number else 0, None)


def _head_lines(file: Path) -> int:
    """How many lines the names of columns take: a name may have several."""
    with file.open(newline="") as lines:
        reader = csv.reader(lines)
        next(reader, None)
        return reader.line_num


def _list(files: Sequence[Path]) -> Iterator[bytes]:
    """One list of all documents, as `write_json` has it."""
    yield b"["
    for place, line in enumerate(_lines(files, is_csv=False)):
        yield (b",\n" if place else b"\n") + line.removesuffix(b"\n")
    yield b"\n]\n"
