"""What is asked of an aggregation on the command line, and how its result is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from wormdb.cli.show.rows import FORMATS, write_rows
from wormdb.cli.show.text import TextColumn, cell_of, is_number, number_text, print_ruled
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["FORMAT", "AggregateArguments", "with_functions"]

FUNCTIONS: Final = ("sum", "avg", "min", "max")
_OPTIONS: Final = (
    click.option("--group-by", metavar="FIELD,…", help="One result for each value of the fields."),
    click.option(
        "--count", "counts", is_flag=True, help="The number of documents; the default without another function."
    ),
    click.option("--sum", "sum", multiple=True, metavar="FIELD", help="The sum of the numbers of a field."),
    click.option("--avg", "avg", multiple=True, metavar="FIELD", help="Their average."),
    click.option("--min", "min", multiple=True, metavar="FIELD", help="The least value of a field."),
    click.option("--max", "max", multiple=True, metavar="FIELD", help="The greatest one."),
)
FORMAT = click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="How rows look."
)


def with_functions(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the options for functions and groups."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class AggregateArguments:
    """One aggregation, read from options."""

    groups: list[str]
    counts: bool
    fields: dict[str, list[str]]

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> AggregateArguments:
        """No requests."""
        fields = {name: _fields(options[name]) for name in FUNCTIONS}
        counts = options["counts"] or not any(fields.values())
        return cls(_fields([options["group_by"] or ""]), counts, fields)

    @property
    def functions(self) -> dict[str, Any]:
        """As `Collection.aggregate` takes them."""
        return {
            "group_by": _one_or_more(self.groups),
            "count": self.counts or None,
            **{name: _one_or_more(names) for name, names in self.fields.items()},
        }

    def show(self, found: dict[str, Any], form: str, *, as_json: bool, is_safe: bool) -> None:
        """Print a result."""
        if as_json:
            click.echo(msgspec.json.format(json.encode(found), indent=2))
            return
        labels: list[tuple[str, str | None]] = [("count", None)] * self.counts
        labels += [(name, field) for name, names in self.fields.items() for field in names]
        rows = [_row(results, key, self.groups, labels) for key, results in _results(found, self.groups)]
        if form == "table":
            _print(rows, self.groups, [_label(*label) for label in labels])
        else:
            names = [*self.groups, *(_label(*label) for label in labels)]
            write_rows(rows, form, {name: (name,) for name in names}, is_safe=is_safe)


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
    columns = [TextColumn(name, 0) for name in groups]
    columns += [
        TextColumn(label, 0, all(is_number(row[label]) or row[label] is None for row in rows)) for label in labels
    ]
    cells = [[*(cell_of(row[name]) for name in groups), *(number_text(row[label]) for label in labels)] for row in rows]
    print_ruled(columns, cells)
