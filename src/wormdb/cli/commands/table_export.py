"""worm table export: documents to standard output."""

from __future__ import annotations

import csv
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.asked import AS_OF, CSV_SAFE, FILTER, SELECT, SORT, STRATEGY, Asked, columns_for
from wormdb.cli.engines import ENGINE, opened_pipeline, wants_spark
from wormdb.cli.place import MODEL, ON_BROKEN, SCHEMA, URL, find_collection, model_of, open_database
from wormdb.cli.progress import counting
from wormdb.cli.rows import columns_in, write_parts, write_rows
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError
from wormdb.limits import MIB
from wormdb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.collection import Collection
    from wormdb.document import Document
    from wormdb.schema.model import Model

__all__ = ["command"]

# Everything is read once, so there is little use in keeping it.
SETTINGS = Settings(cache_bytes=16 * MIB)


@click.command(
    "export",
    cls=Verb,
    examples=(
        "worm table export Customer --format csv --filter status=active > active-customers.csv",
        "worm table export Invoice --format ndjson > invoices.ndjson",
        "worm table export Customer --format json --select name,email,status",
    ),
)
@MODEL
@click.option(
    "--format",
    "form",
    type=click.Choice(["ndjson", "json", "csv"]),
    default="ndjson",
    show_default=True,
    help="Lines of JSON, one list, or a table for spreadsheets.",
)
@CSV_SAFE
@FILTER
@SELECT
@SORT
@click.option("--limit", type=int, metavar="N", help="At most so many documents.")
@AS_OF
@STRATEGY
@ENGINE
@URL
@SCHEMA
@ON_BROKEN
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(model: str, url: str, **options: Any) -> None:
    """Write documents to standard output, however many there are.

    All of one state, in order of id if they are not sorted. Values that JSON does not have are written as MongoDB's
    extended JSON. CSV has the columns of --select, else those of the model, else every field that a document has, for
    which the documents are read twice; nested values are JSON, null and missing are empty. On Spark, which auto takes
    for large collections, a temporary folder holds the rows before they are written; --sort, --limit and --strategy are
    for this process.
    """
    asked = Asked.of(options)
    form = "json" if options["as_json"] else options["form"]
    own = [name for name in ("sort", "limit", "strategy") if options[name] is not None]
    if own and options["engine"] == "spark":
        raise InvalidRequestError(
            f"--{own[0]} with --engine spark", reason="parts know nothing of each other", fix="use --engine local"
        )
    with open_database(url, options, SETTINGS) as database:
        collection = find_collection(database, model)
        is_spark = not own and wants_spark(collection, options)
        if not is_spark:
            _write(asked, collection, form, model_of(database, collection), is_safe=options["csv_safe"])
    if is_spark:
        _write_by_spark(model, url, asked, {**options, "engine": "spark", "form": form})


def _write(asked: Asked, collection: Collection[Document], form: str, known: Model | None, *, is_safe: bool) -> None:
    found = asked.find(collection)
    columns = columns_for(asked, known)
    if form == "csv" and columns is None:
        columns = columns_in(found)

    def total() -> int | None:
        return asked.limit or (collection.count() if asked.is_of_all else None)

    write_rows(counting(found, "documents", total), form, columns, is_safe=is_safe)


def _write_by_spark(model: str, url: str, asked: Asked, options: dict[str, Any]) -> None:
    """The same rows, from files that workers on this machine wrote."""
    from wormdb.jobs.export import ExportOptions

    is_csv, moment = options["form"] == "csv", asked.options.get("as_of")
    with TemporaryDirectory(prefix="worm-export-") as folder, opened_pipeline(model, url, options) as pipeline:
        chosen = ExportOptions(
            form="csv" if is_csv else "ndjson",
            csv_safe=options["csv_safe"],
            filter=asked.filter,
            select=asked.select,
            as_of=None if moment is None else str(moment),
        )
        done = pipeline.export(folder, chosen)
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
