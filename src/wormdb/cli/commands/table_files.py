"""worm table files: what other programs can read of a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import connect
from wormdb.cli.duckdb_sql import duckdb_view
from wormdb.cli.output import counted, print_json
from wormdb.cli.place import AS_JSON, MODEL, URL, find_collection
from wormdb.cli.ruled import Column, print_ruled
from wormdb.cli.shown import size_text
from wormdb.cli.verbs import Verb
from wormdb.errors import NotFoundError

if TYPE_CHECKING:
    from wormdb.api.status import ParquetFiles

__all__ = ["command"]

COLUMNS = (
    Column("Run", 0, is_right=True),
    Column("Rows", 0, is_right=True),
    Column("Deleted", 0, is_right=True),
    Column("Size", 0, is_right=True),
    Column("File", 0),
)


@click.command(
    "files", cls=Verb, examples=("worm table files Customer", "worm table files Customer --sql duckdb > customer.sql")
)
@MODEL
@click.option("--sql", type=click.Choice(["duckdb"]), help="Print a view of the documents in them instead.")
@URL
@AS_JSON
def command(model: str, url: str, *, sql: str | None, as_json: bool) -> None:
    """List the Parquet files of a collection, or a view of them in SQL.

    They hold the documents as they were when the log was last brought forward. Of rows with one _id that of the
    greatest run counts, and none if it is _deleted: the view knows. Files that newer ones have replaced are deleted
    some time later: make the view again before you use it.
    """
    with connect(url) as database:
        collection = find_collection(database, model)
        files = collection.parquet_files()
    if not files.files and (sql or not as_json):
        raise NotFoundError(
            f"files of {collection.name}",
            reason="the log was never brought forward, or there is nothing in it",
            fix=f"worm table rebuild {model}",
        )
    if sql:
        click.echo(duckdb_view(collection.name, files))
    elif as_json:
        print_json(_json(files))
    else:
        rows = [
            (str(each.run), f"{each.rows:,}", f"{each.deleted:,}", size_text(each.size_bytes), files.locate(each))
            for each in files.files
        ]
        print_ruled(COLUMNS, rows)
        behind = f", {counted(files.lag_entries, 'entry', 'entries')} behind the log" if files.lag_entries else ""
        click.echo(
            f"({counted(len(rows), 'file', 'files')}, {size_text(files.size_bytes)}, through {files.number:,}{behind})"
        )


def _json(files: ParquetFiles) -> dict[str, Any]:
    return {
        "files": [
            {
                "location": files.locate(each),
                "run": each.run,
                "rows": each.rows,
                "deleted": each.deleted,
                "sizeBytes": each.size_bytes,
            }
            for each in files.files
        ],
        "through": files.number,
        "lagEntries": files.lag_entries,
    }
