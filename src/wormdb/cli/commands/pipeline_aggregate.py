"""worm pipeline aggregate: numbers over collections of any size."""

from __future__ import annotations

from typing import Any

import click

from wormdb.cli.asked import AS_OF, FILTER, read_as_of, read_filters
from wormdb.cli.engines import ENGINE, MASTER, TASKS, opened_pipeline
from wormdb.cli.place import AS_JSON, MODEL, URL
from wormdb.cli.sums import FORMAT, AskedSums, with_functions
from wormdb.cli.verbs import Verb

__all__ = ["command"]


@click.command(
    "aggregate",
    cls=Verb,
    examples=(
        "worm pipeline aggregate Invoice --group-by status --count --sum total",
        "worm pipeline aggregate Event --group-by kind --master spark://head:7077 --json",
    ),
)
@MODEL
@with_functions
@FILTER
@AS_OF
@FORMAT
@TASKS
@ENGINE
@MASTER
@URL
@AS_JSON
def command(model: str, url: str, **options: Any) -> None:
    """Count, add up and average documents, in groups or of all together.

    The same result as worm table aggregate gives, from a scan in parts. An index is used where few documents match the
    filter.
    """
    from wormdb.jobs.aggregate import AggregateOptions

    asked = AskedSums.of(options)
    moment = read_as_of(options["as_of"])
    chosen = AggregateOptions(
        filter=read_filters(options["filters"]),
        as_of=None if moment is None else str(moment),
        tasks=options["tasks"],
    )
    with opened_pipeline(model, url, options) as pipeline:
        found = pipeline.aggregate(asked.functions, chosen)
    asked.show(found, options["form"], as_json=options["as_json"])
