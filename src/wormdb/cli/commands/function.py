"""worm function: named filters of a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wormdb.api.database import connect
from wormdb.cli.input.place import AS_JSON, MODEL, URL, find_collection
from wormdb.cli.input.question import FILTER, read_filters
from wormdb.cli.show.text import TextColumn, print_ruled, print_values
from wormdb.cli.verbs import Verb, VerbGroup
from wormdb.format import json

if TYPE_CHECKING:
    from wormdb.api.functions import FunctionDefinition

__all__ = ["command"]

COLUMNS = (
    TextColumn("Function", 0),
    TextColumn("Hash", 0),
    TextColumn("Entry", 0, is_right=True),
    TextColumn("Filter", 0),
)
NAME = click.argument("name")
_HASH_SHOWN = len("sha256:") + 12


@click.group("function", cls=VerbGroup)
def command() -> None:
    """Register, show and drop named filters of a collection.

    Other filters use them as {"$fn": "name"}.
    """


@command.command(
    "register",
    cls=Verb,
    examples=(
        "worm function register Customer isAdult --filter 'age>=18'",
        'worm function register Customer isBuyer --filter \'{"$fn": "isAdult", "orders": {"$gt": 0}}\'',
    ),
)
@MODEL
@NAME
@FILTER
@URL
@AS_JSON
def register(model: str, name: str, url: str, *, filters: tuple[str, ...], as_json: bool) -> None:
    """Have a name stand for a filter, in place of what it may have stood for.

    Every process knows it from then on. It may use other functions, but not itself.
    """
    if not filters:
        raise click.UsageError("Missing option '--filter': what the name stands for.")
    with connect(url) as database:
        made = find_collection(database, model).functions.register(name, read_filters(filters))
    print_values(made.to_dict()) if as_json else click.echo(f"registered {name}: {_text(made)}")


@command.command("list", cls=Verb, examples=("worm function list Customer",))
@MODEL
@URL
@AS_JSON
def show_all(model: str, url: str, *, as_json: bool) -> None:
    """List the functions of a collection, in order of their names."""
    with connect(url) as database:
        found = find_collection(database, model).functions.list()
    if as_json:
        print_values([each.to_dict() for each in found])
    elif not found:
        click.echo("no functions")
    else:
        print_ruled(COLUMNS, [(each.name, each.hash[:_HASH_SHOWN], str(each.number), _text(each)) for each in found])


@command.command("drop", cls=Verb, examples=("worm function drop Customer isAdult",))
@MODEL
@NAME
@URL
@AS_JSON
def drop(model: str, name: str, url: str, *, as_json: bool) -> None:
    """Forget a function that no other one uses."""
    with connect(url) as database:
        find_collection(database, model).functions.drop(name)
    print_values({"dropped": name}) if as_json else click.echo(f"dropped {name}")


def _text(function: FunctionDefinition) -> str:
    return json.encode(function.filter).decode()
