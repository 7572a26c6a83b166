"""worm table embed: vectors of a field, made by a function of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wormdb.cli.input.engine import TASKS, opened_pipeline, with_engine
from wormdb.cli.input.place import AS_JSON, MODEL, URL
from wormdb.cli.input.question import FILTER, written_filter
from wormdb.cli.show.text import camel, counted, print_json
from wormdb.cli.verbs import Verb

__all__ = ["command"]


@click.command(
    "embed",
    cls=Verb,
    examples=(
        "worm table embed Product vectors:of_texts --from title --to embedding",
        "worm table embed Product vectors:of_rows --from title,body --to embedding --mark embeddedFrom --batch 256",
        "worm table embed notes vectors:of_texts --from text --to embedding --engine spark --progress",
    ),
)
@MODEL
@click.argument("function", metavar="MODULE:FUNCTION")
@click.option(
    "--from", "source", required=True, metavar="FIELD,…", help="What the function gets; of several fields objects."
)
@click.option("--to", "target", required=True, metavar="FIELD", help="The field that gets the vectors.")
@click.option(
    "--mark", metavar="FIELD", help="Note here of what a vector was made, and make those again whose value changed."
)
@click.option("--all", "again", is_flag=True, help="Also documents that have a vector.")
@click.option("--batch", type=int, default=64, show_default=True, metavar="N", help="Documents for one call.")
@click.option(
    "--form",
    type=click.Choice(["auto", "packed", "list"]),
    default="auto",
    show_default=True,
    help="How vectors are stored. auto: packed, unless the model declares an array.",
)
@FILTER
@TASKS
@with_engine
@URL
@AS_JSON
def command(model: str, url: str, *, function: str, as_json: bool, **options: Any) -> None:
    """Give documents the vectors that a function of yours makes of a field.

    FUNCTION gets a list of values and gives a vector for each. MODULE is imported from the folder in which the command
    runs. Only documents without a vector are embedded, so a run that stopped goes on: each batch is written at once, by
    one entry of the log. A document that changed meanwhile is embedded again.
    """
    from wormdb.jobs.embed import EmbedOptions

    chosen = EmbedOptions(
        source=tuple(name.strip() for name in options["source"].split(",") if name.strip()),
        target=options["target"],
        filter=written_filter(options["filters"]),
        batch_rows=options["batch"],
        mark=options["mark"],
        again=options["again"],
        form=options["form"],
        folder=str(Path.cwd()),
        tasks=options["tasks"],
    )
    with opened_pipeline(model, url, options) as pipeline:
        done = pipeline.embed(function, chosen)
    if as_json:
        print_json(camel(done))
        return
    size = "" if done.dimensions is None else f" of {counted(done.dimensions, 'number', 'numbers')}"
    again = f", {done.changed:,} of them again" if done.changed else ""
    click.echo(f"{done.collection}: {counted(done.embedded, 'document', 'documents')} embedded{again}{size}")
