"""worm table aggregate: numbers over documents."""

from __future__ import annotations

from typing import Any

import click

from wormdb.cli.input.engine import TASKS, opened_pipeline, wants_spark, with_engine
from wormdb.cli.input.place import AS_JSON, MODEL, ON_BROKEN, SCHEMA, URL, find_collection, open_database
from wormdb.cli.input.question import AS_OF, CSV_SAFE, FILTER, read_as_of, read_filters
from wormdb.cli.input.sums import FORMAT, AggregateArguments, with_functions
from wormdb.cli.verbs import Verb

__all__ = ["command"]


@click.command(
    "aggregate",
    cls=Verb,
    examples=(
        "worm table aggregate Invoice --group-by status --count --sum total --avg total",
        "worm table aggregate Invoice --filter 'total>100' --max total --json",
        "worm table aggregate Event --group-by kind --master spark://head:7077",
    ),
)
@MODEL
@with_functions
@FILTER
@AS_OF
@FORMAT
@CSV_SAFE
@TASKS
@with_engine
@URL
@SCHEMA
@ON_BROKEN
@AS_JSON
def command(model: str, url: str, **options: Any) -> None:
    """Count, add up and average documents, in groups or of all together.

    Functions may be given several times, or with several fields and commas. --json prints what Collection.aggregate
    returns; --format gives one row for each group. With --tasks, or on Spark, documents are scanned in parts, and an
    index is used where few of them match the filter.
    """
    asked = AggregateArguments.of(options)
    tree, moment = read_filters(options["filters"]), read_as_of(options["as_of"])
    with open_database(url, options) as database:
        collection = find_collection(database, model)
        is_spark = wants_spark(collection, options)
        is_whole = not is_spark and options["tasks"] is None
        found = collection.aggregate(filter=tree, as_of=moment, **asked.functions) if is_whole else {}
    if not is_whole:
        from wormdb.jobs.aggregate import AggregateOptions

        chosen = AggregateOptions(tree, None if moment is None else str(moment), options["tasks"])
        engine = "spark" if is_spark else "local"
        with opened_pipeline(model, url, {**options, "engine": engine}) as pipeline:
            found = pipeline.aggregate(asked.functions, chosen)
    asked.show(found, options["form"], as_json=options["as_json"], is_safe=options["csv_safe"])
