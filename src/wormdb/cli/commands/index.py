"""worm index: make, show and drop indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from wormdb.api.database import connect
from wormdb.bql.nearest import DISTANCES
from wormdb.cli.input.place import AS_JSON, MODEL, URL, find_collection
from wormdb.cli.show.indexes import kind_of, line_of, written_fields
from wormdb.cli.show.progress import show_work
from wormdb.cli.show.text import TextColumn, counted, print_json, print_ruled, size_text
from wormdb.cli.verbs import Verb, VerbGroup
from wormdb.format.bson_types import TYPE_NAMES
from wormdb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.api.status import IndexDescription, IndexSummary

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


@click.group("index", cls=VerbGroup)
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
        "worm index create Product embedding --vector --dimensions 384 --distance cosine",
        "worm index create Product --text title^3,body --language english",
    ),
)
@MODEL
@click.argument("fields", nargs=-1)
@click.option("--name", help="Its name; made of the fields if it is not given, and text with --text.")
@click.option("--unique", is_flag=True, help="No two documents may have the same value.")
@click.option("--sparse/--no-sparse", default=True, show_default=True, help="Leave out documents without the fields.")
@click.option(
    "--bson-type",
    multiple=True,
    help=f"Type that values must have to be written, once for each field: {', '.join(TYPE_NAMES)}.",
)
@click.option("--vector", is_flag=True, help="An index of the vectors at one field, for --near.")
@click.option("--dimensions", type=int, metavar="N", help="With --vector: how many numbers a vector has.")
@click.option(
    "--distance", type=click.Choice(DISTANCES), help="With --vector: how far vectors are from each other.  [cosine]"
)
@click.option("--text", metavar="FIELD^WEIGHT,…", help="An index of the words of these fields, for --search.")
@click.option("--language", metavar="NAME", help="With --text: the language whose stems are compared.")
@click.option(
    "--stop-words", metavar="WORD,…", help="With --text: words that are left out; true for those of the language."
)
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Build it now, or leave it to the next forwarding."
)
@URL
@AS_JSON
def create(model: str, fields: Sequence[str], url: str, **options: Any) -> None:
    """Make an index over a field, or over several in order; or one of vectors, or of words.

    Writers go on meanwhile. Values that a unique index finds more than once are listed, and nothing is made then.
    """
    about = _check_options(fields, options)
    with connect(url, settings=MANUAL) as database:
        collection = find_collection(database, model)
        with show_work(f"Building index: {about}…"):
            made = _create(collection, fields, options)
        index = collection.describe_index(made.name)
    _print_one(index, as_json=options["as_json"])


def _check_options(fields: Sequence[str], options: Mapping[str, Any]) -> str:
    """What is indexed, for people. Raises click.UsageError for options that do not go together."""
    kind = "vector" if options["vector"] else "text" if options["text"] is not None else "standard"
    others = [
        name for owner, names in _OPTIONS_OF.items() if owner != kind for name in names if _is_given(options, name)
    ]
    if others:
        owner = next(owner for owner, names in _OPTIONS_OF.items() if others[0] in names)
        needs = "is of an index of values alone" if owner == "standard" else f"needs --{owner}"
        raise click.UsageError(f"--{others[0].replace('_', '-')} {needs}")
    if options["vector"] and options["text"] is not None:
        raise click.UsageError("--vector and --text are two indexes: make one after the other")
    if kind == "text":
        if fields:
            raise click.UsageError(f"--text names the fields: write --text {','.join((*fields, options['text']))}")
        return str(options["text"])
    if not fields:
        raise click.UsageError("Missing argument 'FIELDS...'.")
    if kind == "vector" and (len(fields) > 1 or options["dimensions"] is None):
        raise click.UsageError("--vector needs one field, and --dimensions")
    return ", ".join(fields)


_OPTIONS_OF: Final = {
    "standard": ("unique", "bson_type"),
    "vector": ("dimensions", "distance"),
    "text": ("language", "stop_words"),
}
"""Options that only one kind of index has."""


def _is_given(options: Mapping[str, Any], name: str) -> bool:
    return options[name] not in (None, False, ())


def _create(collection: Collection[Document], fields: Sequence[str], options: Mapping[str, Any]) -> IndexSummary:
    name, wait = options["name"], options["wait"]
    if options["vector"]:
        return collection.create_vector_index(
            fields[0], dimensions=options["dimensions"], distance=options["distance"] or "cosine", name=name, wait=wait
        )
    if options["text"] is not None:
        words = options["stop_words"]
        return collection.create_text_index(
            _split(options["text"]),
            language=options["language"],
            stop_words=None if words is None else True if words == "true" else _split(words),
            name=name,
            wait=wait,
        )
    return collection.create_index(
        fields[0] if len(fields) == 1 else list(fields),
        name=name,
        unique=options["unique"],
        sparse=options["sparse"],
        bson_type=options["bson_type"] or None,
        wait=wait,
    )


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


@command.command("list", cls=Verb, examples=("worm index list Customer",))
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


@command.command("tasks", cls=Verb, examples=("worm index tasks Customer",))
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


@command.command("drop", cls=Verb, examples=("worm index drop Customer byEmail",))
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


@command.command("analyze", cls=Verb, examples=("worm index analyze Customer",))
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
            ", ".join(written_fields(each)),
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
    facts = {
        "Index": index.name,
        "Fields": ", ".join(written_fields(index)),
        "Type": kind_of(index) + (", sparse" if index.sparse and index.options is None else ""),
        "Made by": "model" if index.declared else "create",
        "State": index.state if index.reason is None else f"{index.state}: {index.reason}",
        "Entries": f"{index.entries:,}",
    }
    facts |= _facts_of_tree(index) if index.options is None else _facts_of_lists(index)
    if index.file is not None:
        facts["File"] = index.file if index.file_reason is None else f"{index.file}: {index.file_reason}"
    for name, value in facts.items():
        click.echo(f"{name + ':':12}{value}")


def _facts_of_tree(index: IndexDescription) -> dict[str, str]:
    arrays = [field for field, has_array in zip(index.fields, index.arrays, strict=False) if has_array]
    return {
        "Distinct": f"{index.distinct:,}",
        "Histogram": counted(index.buckets, "bucket", "buckets"),
        "Arrays": ", ".join(arrays) or ("none" if index.arrays else "not known"),
        "Height": counted(index.height, "level", "levels"),
    }


def _facts_of_lists(index: IndexDescription) -> dict[str, str]:
    """What an index of vectors or of words was made with, and what a look-up reads."""
    options = index.options or {}
    names = {"dimensions": "Dimensions", "distance": "Distance", "language": "Language"}
    facts = {shown: str(options[name]) for name, shown in names.items() if name in options}
    if options.get("stop_words"):
        facts["Stop words"] = ", ".join(options["stop_words"])
    facts["Runs"] = f"{index.runs:,}, {size_text(index.size)}"
    if index.recall is not None and index.read_share is not None:
        facts["Recall"] = (
            f"about {index.recall:g}: {index.read_share:.0%} of all entries are read, in {index.lists:,} lists"
        )
    if index.is_renewed or index.outgrown_reason is not None:
        facts["Outgrown"] = "it is made anew" if index.is_renewed else f"{index.outgrown_reason}; worm index build"
    return facts
