"""worm table aggregate: numbers over documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from wormdb.cli.asked import AS_OF, FILTER, read_as_of, read_filters
from wormdb.cli.place import AS_JSON, MODEL, ON_BROKEN, SCHEMA, URL, find_collection, open_database
from wormdb.cli.rows import FORMATS, write_rows
from wormdb.cli.ruled import Column, print_ruled
from wormdb.cli.shown import cell_of, is_number, number_text
from wormdb.cli.verbs import Verb
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]

FUNCTIONS = ("sum", "avg", "min", "max")


@click.command(
    "aggregate",
    cls=Verb,
    examples=(
        "worm table aggregate Invoice --group-by status --count --sum total --avg total",
        "worm table aggregate Invoice --filter 'total>100' --max total --json",
    ),
)
@MODEL
@click.option("--group-by", metavar="FIELD,…", help="One result for each value of the fields.")
@click.option("--count", "counts", is_flag=True, help="How many documents; so without any other function.")
@click.option("--sum", "sum", multiple=True, metavar="FIELD", help="The sum of the numbers of a field.")
@click.option("--avg", "avg", multiple=True, metavar="FIELD", help="Their average.")
@click.option("--min", "min", multiple=True, metavar="FIELD", help="The least value of a field.")
@click.option("--max", "max", multiple=True, metavar="FIELD", help="The greatest one.")
@FILTER
@AS_OF
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="How rows look.")
@URL
@SCHEMA
@ON_BROKEN
@AS_JSON
def command(model: str, url: str, **options: Any) -> None:
    """Count, add up and average documents, in groups or of all together.

    Functions may be given several times, or with several fields and commas. --json prints what Collection.aggregate
    returns; --format gives one row for each group.
    """
    fields = {name: _fields(options[name]) for name in FUNCTIONS}
    counts = options["counts"] or not any(fields.values())
    groups = _fields([options["group_by"] or ""])
    tree = read_filters(options["filters"])
    with open_database(url, options) as database:
        collection = find_collection(database, model)
        found = collection.aggregate(
            group_by=_one_or_more(groups),
            count=counts or None,
            filter=tree,
            as_of=read_as_of(options["as_of"]),
            **{name: _one_or_more(names) for name, names in fields.items()},
        )
    if options["as_json"]:
        click.echo(msgspec.json.format(json.encode(found), indent=2))
        return
    labels = [("count", None)] * counts + [(name, field) for name, names in fields.items() for field in names]
    rows = [_row(results, key, groups, labels) for key, results in _results(found, groups)]
    if options["form"] == "table":
        _print(rows, groups, [_label(*label) for label in labels])
    else:
        names = [*groups, *(_label(*label) for label in labels)]
        write_rows(rows, options["form"], {name: (name,) for name in names})


def _fields(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))


def _one_or_more(names: Sequence[str]) -> str | list[str] | None:
    return None if not names else names[0] if len(names) == 1 else list(names)


def _label(function: str, field: str | None) -> str:
    return function if field is None else f"{function}({field})"


def _results(found: dict[str, Any], groups: Sequence[str]) -> list[tuple[list[Any], dict[str, Any]]]:
    """The key and the results of each group."""
    if not groups:
        return [([], found)]
    if len(groups) > 1:
        return [(json.parse(name), results) for name, results in found["groups"].items()]
    return [([name], results) for name, results in found["groups"].items()]


def _row(
    results: dict[str, Any], key: Sequence[Any], groups: Sequence[str], labels: Sequence[tuple[str, str | None]]
) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(groups, key, strict=True))
    for function, field in labels:
        value = results[function]
        is_alone = field is None or sum(name == function for name, _ in labels) == 1
        row[_label(function, field)] = value if is_alone else value[field]
    return row


def _print(rows: Sequence[dict[str, Any]], groups: Sequence[str], labels: Sequence[str]) -> None:
    columns = [Column(name, 0) for name in groups]
    columns += [Column(label, 0, all(is_number(row[label]) or row[label] is None for row in rows)) for label in labels]
    cells = [[*(cell_of(row[name]) for name in groups), *(number_text(row[label]) for label in labels)] for row in rows]
    print_ruled(columns, cells)
