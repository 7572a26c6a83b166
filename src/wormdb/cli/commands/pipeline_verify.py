"""worm pipeline verify: the audit of one collection, in parts."""

from __future__ import annotations

from typing import Any

import click

from wormdb.cli.commands.verify import print_found
from wormdb.cli.engines import ENGINE, MASTER, opened_pipeline
from wormdb.cli.output import camel, print_json
from wormdb.cli.place import AS_JSON, MODEL, URL
from wormdb.cli.verbs import Verb

__all__ = ["command"]


@click.command(
    "verify",
    cls=Verb,
    examples=("worm pipeline verify Customer", "worm pipeline verify Event --master spark://head:7077 --json"),
)
@MODEL
@click.option("--unreferenced", is_flag=True, help="List the bucket too, for objects that nothing names.")
@ENGINE
@MASTER
@URL
@AS_JSON
def command(model: str, url: str, *, unreferenced: bool, as_json: bool, **options: Any) -> int:
    """Check everything that is stored of a collection.

    Finds what worm verify finds. Blocks are checked in parts, and then ranges of documents with their history and what
    indexes must have of them; this process reads the log, the indexes and readable files. If something is wrong, one
    pass in this process names it. Writes nothing, and exits with 1 then: worm verify --repair makes again what can be.
    """
    with opened_pipeline(model, url, options) as pipeline:
        found = pipeline.verify(unreferenced=unreferenced)
    if as_json:
        print_json(camel(found))
    else:
        print_found([found])
    return 0 if found.is_sound else 1
