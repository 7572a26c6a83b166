"""worm table query: find documents."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.input.place import MODEL, ON_BROKEN, SCHEMA, URL, find_collection, model_of, open_database
from wormdb.cli.input.question import (
    AS_OF,
    CSV_SAFE,
    EXACT,
    FILTER,
    LANGUAGE,
    NEAR,
    SEARCH,
    SEARCH_FIELDS,
    SELECT,
    SORT,
    STRATEGY,
    QueryArguments,
    columns_for,
)
from wormdb.cli.show.rows import FORMATS, json_rows, write_parts, write_rows, write_table
from wormdb.cli.show.text import counted, print_json
from wormdb.cli.verbs import Verb
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.api.results import Results
    from wormdb.schema.model import Model

__all__ = ["command"]


@click.command(
    "query",
    cls=Verb,
    examples=(
        "worm table query Customer --filter status=active --sort name:asc --limit 10 --select name,email",
        "worm table query Invoice --filter 'amount>100' --filter 'status=open,tags~vip' --format csv",
        'worm table query Invoice --filter \'{"$or": [{"amount": {"$gt": 100}}, {"status": "open"}]}\' --json',
        "worm table query Customer --filter email=ada@x.org --explain",
        "worm table query Product --search 'red shoes -leather' --in title^3,body --language english --limit 5",
        "worm table query Product --near 'embedding=[0.1, 0.2, 0.3]' --exact --select name",
    ),
)
@MODEL
@FILTER
@SORT
@SELECT
@NEAR
@SEARCH
@SEARCH_FIELDS
@LANGUAGE
@EXACT
@click.option("--limit", type=int, metavar="N", help="How many rows at most.")
@click.option("--offset", type=int, metavar="N", help="How many rows to skip.")
@click.option("--page", metavar="TOKEN", help="Go on behind the page that ended with this token.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="How rows look.")
@CSV_SAFE
@AS_OF
@STRATEGY
@click.option("--count", "counts", is_flag=True, help="Only say how many rows there are.")
@click.option("--explain", "explains", is_flag=True, help="Do not run it: say how it would be done, and what else.")
@click.option("--analyze", "analyzes", is_flag=True, help="Run it, and say how it was done and what it took.")
@URL
@SCHEMA
@ON_BROKEN
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document: the rows, and the token of the next page."
)
def command(model: str, url: str, **options: Any) -> None:
    """Find documents, and show them.

    Conditions are joined by commas, and all of them hold: = != > >= < <= and ~, which looks for a value in an array
    or a text in a text. Quotes keep commas in a value. Without --sort rows are in order of id.
    """
    asked = QueryArguments.of(options)
    with open_database(url, options) as database:
        collection = find_collection(database, model)
        if options["explains"] or options["analyzes"]:
            explained = asked.explain(collection, analyze=options["analyzes"])
            print_json(explained.to_dict()) if options["as_json"] else click.echo(str(explained))
        elif options["counts"]:
            count = asked.find(collection).count()
            print_json({"count": count}) if options["as_json"] else click.echo(str(count))
        elif options["as_json"]:
            found = asked.find(collection)
            _print_page(found, asked.rows(found))
        else:
            known = model_of(database, collection)
            _print_rows(collection, asked, options["form"], known, is_safe=options["csv_safe"])


def _print_page(found: Results[Any], rows: Iterable[Mapping[str, Any]]) -> None:
    write_parts(chain([b'{"rows": ['], json_rows(rows)))
    click.echo(f'],\n"nextPage": {json.encode(found.next_page).decode()}}}')


def _print_rows(
    collection: Collection[Document], asked: QueryArguments, form: str, model: Model | None, *, is_safe: bool
) -> None:
    found = asked.find(collection)
    if form != "table":
        write_rows(asked.rows(found), form, columns_for(asked, model), is_safe=is_safe)
        return
    columns = None if asked.names is None else columns_for(asked, model)
    count = write_table(asked.rows(found), columns)
    is_all = asked.limit is None or count < asked.limit
    rows = counted(count, "row", "rows")
    if not is_all and asked.is_of_all:
        rows = f"{count:,} of {counted(collection.count(), 'row', 'rows')}"
    elif not is_all:
        rows += ", there may be more"
    click.echo(f"({rows})")
    if found.next_page is not None:
        click.echo(f"next page: --page {found.next_page}")
