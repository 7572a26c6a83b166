"""worm import: files into a collection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from wormdb.api.database import connect
from wormdb.api.imports import CONFLICT_RULES, ImportResult
from wormdb.api.records import FORMS, plain_cells
from wormdb.cli.input.document import ACTOR
from wormdb.cli.input.place import AS_JSON, URL, complete_models, find_collection
from wormdb.cli.input.rejects import Rejects, mended
from wormdb.cli.input.sources import open_source
from wormdb.cli.show.progress import loading
from wormdb.cli.show.text import counted, print_json
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError, WormError
from wormdb.settings import MIB, Settings

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document
    from wormdb.api.imports import ImportOptions

__all__ = ["command"]

# What is written is not read again.
SETTINGS = Settings(cache_bytes=32 * MIB)
COUNTS = ("inserted", "replaced", "unchanged", "ignored", "rejected")


@click.command(
    "import",
    cls=Verb,
    examples=(
        "worm import customers.csv --model Customer",
        "worm import *.ndjson.gz --model Invoice --on-conflict ignore",
        "zcat events.gz | worm import - --model Event --format ndjson --max-errors 100",
        "worm import customers.csv.rejects.ndjson --from-rejects --model Customer",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--model", "-m", required=True, shell_complete=complete_models, help="The model, or the folder.")
@click.option("--create", "creates", is_flag=True, help="Make the collection, without a model, if it is not there.")
@click.option("--id-field", metavar="FIELD", help="The field that is the id.  [default: id or _id]")
@click.option(
    "--on-conflict",
    type=click.Choice(CONFLICT_RULES),
    default="error",
    show_default=True,
    help="Of a record whose id exists, in the collection or before it in the files: reject it, replace, or ignore it.",
)
@click.option("--rejects", type=click.Path(dir_okay=False, path_type=Path), help="Where rejected records are written.")
@click.option("--from-rejects", is_flag=True, help="The files are such: import what was corrected in them.")
@click.option("--max-errors", type=click.IntRange(min=0), metavar="N", help="Allow N rejected records, stop at more.")
@click.option("--format", "form", type=click.Choice(FORMS), help="How files are written.  [default: as they look]")
@click.option("--separator", metavar="SIGN", help="What is between cells of CSV.  [default: a comma; a tab in .tsv]")
@click.option("--csv-safe", is_flag=True, help="CSV was exported with --csv-safe: take that back.")
@click.option("--from-line", type=click.IntRange(min=1), metavar="N", help="Begin with the record on line N.")
@ACTOR
@URL
@AS_JSON
def command(files: tuple[str, ...], url: str, **options: Any) -> int:
    """Read files into a collection: NDJSON, JSON or CSV.

    FILE may be packed by gzip; - is standard input. Files of any size are read in batches, each of which happens or
    does not. The model decides about types: cells of CSV are text, and become what it declares. Ids are given, or made
    as the model says.

    Records that do not fit are written to FILE.rejects.ndjson with line and reason, and the others go in; it exits with
    1 then, unless --max-errors allows it. Whatever happens, the same command with --on-conflict ignore finishes the
    work: ids that are made depend on the file and the place in it. Those of standard input and of the strategy seq do
    not, so records without an id are refused there.
    """
    rejects = Rejects(options["rejects"])
    rejects.check(files)
    results: dict[str, ImportResult] = {}
    try:
        with connect(url, actor=options["actor"], settings=SETTINGS) as database:
            collection = _collection(database, options["model"], creates=options["creates"])
            for name in files:
                results[name] = _import(collection, name, rejects, options, _left(results, options["max_errors"]))
                if results[name].is_stopped:
                    break
    finally:
        rejects.close()
    _print(collection, results, rejects, as_json=options["as_json"])
    rejected = sum(result.rejected for result in results.values())
    return 1 if rejected > (options["max_errors"] or 0) else 0


def _left(results: dict[str, ImportResult], most: int | None) -> int | None:
    return None if most is None else most - sum(result.rejected for result in results.values())


def _import(
    collection: Collection[Document], name: str, rejects: Rejects, options: dict[str, Any], rejects_max: int | None
) -> ImportResult:
    with open_source(name, options["form"], options["separator"]) as source:
        saved = ImportResult()

        def tell(result: ImportResult) -> None:
            saved.line = result.line

        chosen: ImportOptions = {
            "on_conflict": options["on_conflict"],
            "id_field": options["id_field"],
            "source": source.digest(),
            "from_line": options["from_line"] or 0,
            "rejects_max": rejects_max,
            "told": tell,
        }
        records = mended(source.records()) if options["from_rejects"] else source.records()
        if options["csv_safe"]:
            records = map(plain_cells, records)
        try:
            return collection.import_records(
                loading(records, "records", source.done),
                rejected=lambda rejected: rejects.add(name, rejected),
                **chosen,
            )
        except WormError as error:
            if saved.line:
                error.fix += f"{'; ' if error.fix else ''}{_saved(name, saved.line)}"
            raise
        except KeyboardInterrupt:
            click.echo(_saved(name, saved.line), err=True)
            raise


def _saved(name: str, line: int) -> str:
    return f"{name} is saved through line {line:,}"


def _collection(database: Database, name: str, *, creates: bool) -> Collection[Document]:
    """The collection of a model, or at a folder, and then of the model whose path leads there."""
    for model in {} if database.schema is None else database.schema.models.values():
        outer = model.path.parse_folder(name.strip("/") + "/")
        if outer:
            return database.model(model.name, **outer)
    try:
        return find_collection(database, name)
    except InvalidRequestError as error:
        if creates:
            return database[name.rstrip("/")]
        error.fix = f"{error.fix}; --create makes a collection without a model"
        raise


def _print(
    collection: Collection[Document], results: dict[str, ImportResult], rejects: Rejects, *, as_json: bool
) -> None:
    if as_json:
        found = [
            {**result.to_dict(), "file": name, "rejects": str(rejects.path_of(name)) if result.rejected else None}
            for name, result in results.items()
        ]
        total = {count: sum(cast("int", each[count]) for each in found) for count in ("read", *COUNTS)}
        print_json({"model": collection.name, "prefix": collection.prefix, **total, "files": found})
        return
    for name, result in results.items():
        counts = [f"{getattr(result, count):,} {count}" for count in COUNTS if getattr(result, count)]
        line = f"{name}: {', '.join([counted(result.read, 'record', 'records'), *counts])}"
        click.echo(line + (f", see {rejects.path_of(name)}" if result.rejected else ""))
        if result.is_stopped:
            click.echo(f"stopped: too many were rejected; {_saved(name, result.line)}", err=True)
