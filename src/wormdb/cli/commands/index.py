"""worm index: make, show and drop indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import connect
from wormdb.cli.input.place import AS_JSON, MODEL, NEW_URL, URL, find_collection
from wormdb.cli.show.indexes import kind_of, line_of
from wormdb.cli.show.progress import show_work
from wormdb.cli.show.text import TextColumn, counted, print_json, print_ruled, size_text
from wormdb.cli.verbs import Verb
from wormdb.format.bson_types import TYPE_NAMES
from wormdb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.api.status import IndexDescription

__all__ = ["command"]

COLUMNS = (
    TextColumn("Index", 0),
    TextColumn("Fields", 0),
    TextColumn("Type", 0),
    TextColumn("State", 0),
    TextColumn("Entries", 0, is_right=True),
    TextColumn("Distinct", 0, is_right=True),
)
NAME = click.argument("name")
MANUAL = Settings(forward="manual")


@click.group("index")
def command() -> None:
    """Make, show and drop the indexes of a collection.

    A collection is named by its model, or by its folder. The database is named by --url or WORM_URL. Answers never
    depend on indexes, only what they cost.
    """


@command.command(
    "create",
    cls=Verb,
    examples=(
        "worm index create Customer email --unique --name byEmail",
        "worm index create Invoice customer createdAt --no-wait",
    ),
)
@MODEL
@click.argument("fields", nargs=-1, required=True)
@click.option("--name", help="Its name; made of the fields if it is not given.")
@click.option("--unique", is_flag=True, help="No two documents may have the same value.")
@click.option("--sparse/--no-sparse", default=True, show_default=True, help="Leave out documents without the fields.")
@click.option(
    "--bson-type",
    multiple=True,
    help=f"Type that values must have to be written, once for each field: {', '.join(TYPE_NAMES)}.",
)
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Build it now, or leave it to the next forwarding."
)
@NEW_URL
@AS_JSON
def create(model: str, fields: Sequence[str], url: str, **options: Any) -> None:
    """Make an index over a field, or over several in order.

    Writers go on meanwhile. Values that a unique index finds more than once are listed, and nothing is made then.
    """
    with connect(url, settings=MANUAL) as database:
        collection = find_collection(database, model)
        with show_work(f"Building index: {', '.join(fields)}…"):
            made = collection.create_index(
                fields[0] if len(fields) == 1 else list(fields),
                name=options["name"],
                unique=options["unique"],
                sparse=options["sparse"],
                bson_type=options["bson_type"] or None,
                wait=options["wait"],
            )
        index = collection.describe_index(made.name)
    _print_one(index, as_json=options["as_json"])


@command.command("list")
@MODEL
@URL
@AS_JSON
def show_all(model: str, url: str, *, as_json: bool) -> None:
    """List the indexes of a collection, the primary one first.

    Numbers are those of the last forwarding; the primary one has no tree to count.
    """
    with connect(url) as database:
        collection = find_collection(database, model)
        indexes = [collection.describe_index(each.name) for each in collection.indexes()]
    _print_all(indexes, as_json=as_json)


@command.command("tasks")
@MODEL
@URL
@AS_JSON
def tasks(model: str, url: str, *, as_json: bool) -> None:
    """List the indexes that wait, are being built, are to be made anew, or failed."""
    with connect(url) as database:
        collection = find_collection(database, model)
        indexes = [collection.describe_index(each.name) for each in collection.index_tasks()]
    if not indexes and not as_json:
        click.echo("nothing to do")
        return
    _print_all(indexes, as_json=as_json)


@command.command("describe", cls=Verb, examples=("worm index describe Customer byEmail",))
@MODEL
@NAME
@URL
@AS_JSON
def describe(model: str, name: str, url: str, *, as_json: bool) -> None:
    """Show one index in detail."""
    with connect(url) as database:
        index = find_collection(database, model).describe_index(name)
    _print_detail(index, as_json=as_json)


@command.command("drop")
@MODEL
@NAME
@URL
@AS_JSON
def drop(model: str, name: str, url: str, *, as_json: bool) -> None:
    """Drop an index that create made; those of a model go with worm schema apply."""
    with connect(url, settings=MANUAL) as database:
        find_collection(database, model).drop_index(name)
    if as_json:
        print_json({"dropped": name})
    else:
        click.echo(f"dropped {name}")


@command.command("build", cls=Verb, examples=("worm index build Product embedding",))
@MODEL
@NAME
@URL
@AS_JSON
def build(model: str, name: str, url: str, *, as_json: bool) -> None:
    """Build an index that waits or failed, or make the lists of one anew that is outgrown.

    Brings the log forward first. If it is broken off, another call goes on.
    """
    with connect(url, settings=MANUAL) as database:
        collection = find_collection(database, model)
        with show_work(f"Building index: {name}…"):
            collection.build_index(name)
        index = collection.describe_index(name)
    _print_one(index, as_json=as_json)


@command.command("analyze")
@MODEL
@NAME
@URL
@AS_JSON
def analyze(model: str, name: str, url: str, *, as_json: bool) -> None:
    """Bring an index up to date with the log, measure it if it changed much, and show it."""
    with connect(url, settings=MANUAL) as database:
        collection = find_collection(database, model)
        with show_work(f"Measuring index: {name}…"):
            index = collection.analyze_index(name)
    _print_detail(index, as_json=as_json)


def _print_one(index: IndexDescription, *, as_json: bool) -> None:
    if as_json:
        print_json(index.to_dict())
    else:
        click.echo(line_of(index))


def _print_all(indexes: Sequence[IndexDescription], *, as_json: bool) -> None:
    if as_json:
        print_json([each.to_dict() for each in indexes])
        return
    rows = [
        (
            each.name,
            ", ".join(each.fields),
            kind_of(each),
            each.state,
            f"{each.entries:,}" if each.height or each.runs else "--",
            f"{each.distinct:,}" if each.height else "--",
        )
        for each in indexes
    ]
    print_ruled(COLUMNS, rows)
    for each in indexes:
        if each.reason is not None:
            click.echo(f"{each.name}: {each.reason}")
        if each.is_renewed:
            click.echo(f"{each.name}: it is made anew")
        elif each.outgrown_reason is not None:
            click.echo(f"{each.name}: {each.outgrown_reason}; worm index build makes it anew")


def _print_detail(index: IndexDescription, *, as_json: bool) -> None:
    if as_json:
        print_json(index.to_dict())
        return
    arrays = [field for field, has_array in zip(index.fields, index.arrays, strict=False) if has_array]
    facts = {
        "Index": index.name,
        "Fields": ", ".join(index.fields),
        "Type": kind_of(index) + (", sparse" if index.sparse else ""),
        "Made by": "model" if index.declared else "create",
        "State": index.state if index.reason is None else f"{index.state}: {index.reason}",
        "Entries": f"{index.entries:,}",
        "Distinct": f"{index.distinct:,}",
        "Histogram": counted(index.buckets, "bucket", "buckets"),
        "Arrays": ", ".join(arrays) or ("none" if index.arrays else "not known"),
        "Height": counted(index.height, "level", "levels"),
    }
    if index.type in {"text", "vector"}:
        facts = {name: value for name, value in facts.items() if name not in _OF_TREES} | _of_lists(index)
    if index.file is not None:
        facts["File"] = index.file if index.file_reason is None else f"{index.file}: {index.file_reason}"
    for name, value in facts.items():
        click.echo(f"{name + ':':12}{value}")


_OF_TREES = {"Distinct", "Histogram", "Arrays", "Height"}


def _of_lists(index: IndexDescription) -> dict[str, str]:
    """What is told of an index of lists instead."""
    facts = {"Runs": f"{index.runs:,}, {size_text(index.size)}"}
    if index.recall is not None and index.read_share is not None:
        facts["Recall"] = (
            f"about {index.recall:g}: {index.read_share:.0%} of all entries are read, in {index.lists:,} lists"
        )
    if index.is_renewed or index.outgrown_reason is not None:
        facts["Outgrown"] = "it is made anew" if index.is_renewed else f"{index.outgrown_reason}; worm index build"
    return facts
