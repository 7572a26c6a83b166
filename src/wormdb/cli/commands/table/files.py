"""worm table files: what other programs can read of a collection."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import connect
from wormdb.cli.input.place import AS_JSON, MODEL, URL, find_collection
from wormdb.cli.show.text import TextColumn, counted, print_json, print_ruled, size_text
from wormdb.cli.verbs import Verb
from wormdb.errors import NotFoundError
from wormdb.storage.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.api.status import ParquetFile, ParquetFiles

__all__ = ["command", "duckdb_view"]


# --- A view in SQL over the Parquet files of a collection, for DuckDB.


def duckdb_view(name: str, files: ParquetFiles) -> str:
    """The statement that makes the view, after comments about what it does not show. There is one file at least.

    Its rows are the documents as the files have them: the newest version of each, without deleted ones. No requests.
    """
    mixed = _mixed(files.files)
    told = {path for paths in mixed for path in paths}
    partial = sorted({path for file in files.files for path in file.partial} - {"_id"} - told)
    lacking = sorted(_lacking(files.files) - told)
    lines = [f"-- {name} through log number {files.number:,}"]
    if files.lag_entries:
        newer = counted(files.lag_entries, "newer log entry is", "newer log entries are")
        lines.append(f"-- {newer} not in these files: worm table rebuild {name}")
    if partial:
        lines.append(f"-- null where a value is of another type than its column, see _doc: {', '.join(partial)}")
    if lacking:
        lines.append(f"-- null for rows of files without such a column, see _doc: {', '.join(lacking)}")
    if told:
        lines.append(f"-- as JSON, because files have different types: {', '.join(sorted(told))}")
    if files.older:
        older = counted(files.older, "file is", "files are")
        lines.append(f"-- {older} of an older version of the model: worm forward {name}")
    lines += [*_secret(files), f"CREATE OR REPLACE VIEW {_name(name)} AS"]
    runs = [list(group) for _, group in groupby(files.files, key=lambda file: file.run)]
    # Columns that begin with $ tell only us what a null stands for.
    lines.append("SELECT COLUMNS('^[^$]') FROM (")
    if mixed:
        replaced = ", ".join(map(_from_documents, mixed))
        lines.append(f"  SELECT * REPLACE ({replaced}) FROM (")  # noqa: S608 - names are quoted
    lines += _one_run(files, runs[0]) if len(runs) == 1 else _several_runs(files, runs)
    return "\n".join([*lines, *(["  )"] if mixed else []), ");"])


def _mixed(files: Sequence[ParquetFile]) -> list[tuple[str, ...]]:
    """The columns that DuckDB cannot join, by the spellings of their name, which it takes for one."""
    types: dict[str, set[str]] = {}
    spellings: dict[str, dict[str, None]] = {}
    for path, kind in (column for file in files for column in file.columns):
        types.setdefault(path.casefold(), set()).add("double" if kind == "int64" else kind)
        spellings.setdefault(path.casefold(), {})[path] = None
    return [tuple(paths) for name, paths in spellings.items() if len(paths) > 1 or len(types[name]) > 1]


def _lacking(files: Sequence[ParquetFile]) -> set[str]:
    """The columns that some files have and others have not."""
    paths = [{path for path, _ in file.columns} for file in files]
    return set[str]().union(*paths) - paths[0].intersection(*paths)


def _from_documents(paths: Sequence[str]) -> str:
    """A column out of the documents: JSON, whatever its type; null and missing are null."""
    parts = [f"json_extract(_doc, {_pointer(path)})" for path in paths]
    value = parts[0] if len(parts) == 1 else f"coalesce({', '.join(parts)})"
    return f"nullif(CAST({value} AS VARCHAR), 'null') AS {_name(paths[0])}"


def _pointer(path: str) -> str:
    names = [name.replace("~", "~0").replace("/", "~1").replace("'", "''") for name in path.split(".")]
    return "'/" + "/".join(names) + "'"


def _one_run(files: ParquetFiles, run: Sequence[ParquetFile]) -> Iterator[str]:
    yield f"  SELECT * EXCLUDE (_deleted) FROM {_read(files, run)}"  # noqa: S608 - names are quoted
    yield "  WHERE NOT _deleted"


def _several_runs(files: ParquetFiles, runs: Sequence[Sequence[ParquetFile]]) -> Iterator[str]:
    """Of each id the row of the newest run: rows of a job have no revision of their own, so that the run decides."""
    types = {file.id_type for file in files.files}
    identity = "_id" if len(types) == 1 and None not in types else "json_extract(_doc, '$._id')"
    yield "  SELECT * EXCLUDE (_deleted) FROM ("
    yield "    SELECT * FROM ("
    for place, run in enumerate(runs):
        union = "      UNION ALL BY NAME " if place else "      "
        yield f'{union}SELECT *, {run[0].run} AS "$run" FROM {_read(files, run)}'  # noqa: S608 - names are quoted
    yield f'    ) QUALIFY row_number() OVER (PARTITION BY {identity} ORDER BY "$run" DESC) = 1'
    yield "  ) WHERE NOT _deleted"


def _read(files: ParquetFiles, run: Sequence[ParquetFile]) -> str:
    places = ", ".join("'" + files.locate(file).replace("'", "''") + "'" for file in run)
    return f"read_parquet([{places}], union_by_name = true)"


def _secret(files: ParquetFiles) -> Iterator[str]:
    """How DuckDB finds a store that is not Amazon's own, without secrets."""
    url = parse_url(files.place)
    if url.scheme == "s3" and url.endpoint is not None:
        scheme, _, host = url.endpoint.partition("://")
        secure = "true" if scheme == "https" else "false"
        region = f", REGION '{url.region}'" if url.region else ""
        yield "-- before it: INSTALL httpfs; LOAD httpfs; INSTALL aws; LOAD aws;"
        yield (
            "-- CREATE SECRET (TYPE s3, PROVIDER credential_chain, "
            f"ENDPOINT '{host}', URL_STYLE 'path', USE_SSL {secure}{region});"
        )


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


COLUMNS = (
    TextColumn("Run", 0, is_right=True),
    TextColumn("Rows", 0, is_right=True),
    TextColumn("Deleted", 0, is_right=True),
    TextColumn("Size", 0, is_right=True),
    TextColumn("File", 0),
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
