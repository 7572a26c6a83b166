"""worm table analyze: what the values of each field are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.input.engine import TASKS, opened_pipeline, with_engine
from wormdb.cli.input.place import AS_JSON, MODEL, URL
from wormdb.cli.input.question import AS_OF, FILTER, read_as_of, read_filters
from wormdb.cli.show.text import TextColumn, camel, counted, cut, print_json, print_ruled
from wormdb.cli.verbs import Verb

if TYPE_CHECKING:
    from wormdb.jobs.analyze import FieldReport

__all__ = ["command"]

_PLACES = 24


@click.command(
    "analyze",
    cls=Verb,
    examples=(
        "worm table analyze Customer",
        "worm table analyze Customer --fields status,address.city --json",
        "worm table analyze Customer --no-save",
    ),
)
@MODEL
@click.option("--fields", metavar="FIELD,…", help="Only these fields.")
@click.option("--top", type=click.IntRange(min=0), default=10, show_default=True, help="How many frequent values.")
@click.option(
    "--save/--no-save", default=True, show_default=True, help="Whether the root keeps it for plans of queries."
)
@FILTER
@AS_OF
@TASKS
@with_engine
@URL
@AS_JSON
def command(model: str, url: str, **options: Any) -> None:
    """Show what the values of each field are: kinds, ends, different and frequent ones.

    One scan of columns; without a model one of all documents before it, for the names of fields. Different values are
    counted exactly up to 4,096, and estimated above; --json has the frequent ones with their counts, and a histogram.
    The root keeps what was found, up to 64 KiB, and the planner uses it until half of the documents have
    changed; no answer depends on it. With a filter or a past state, or with --no-save, nothing is written.
    """
    from wormdb.jobs.analyze import AnalyzeOptions

    moment = read_as_of(options["as_of"])
    chosen = AnalyzeOptions(
        fields=tuple(name.strip() for name in (options["fields"] or "").split(",") if name.strip()),
        filter=read_filters(options["filters"]),
        as_of=None if moment is None else str(moment),
        top=options["top"],
        tasks=options["tasks"],
        save=options["save"],
    )
    with opened_pipeline(model, url, options) as pipeline:
        found = pipeline.analyze(chosen)
    if options["as_json"]:
        fields = [{**camel(each), "kinds": each.kinds} for each in found.fields]
        print_json({**camel(found), "fields": fields})
        return
    click.echo(f"{found.collection}: {counted(found.documents, 'document', 'documents')}\n")
    columns = [TextColumn("field", 0), TextColumn("kinds", 0), TextColumn("missing", 0, is_right=True)]
    columns += [
        TextColumn("different", 0, is_right=True),
        TextColumn("least", 0),
        TextColumn("greatest", 0),
        TextColumn("frequent", 0),
    ]
    print_ruled(columns, [_row(each) for each in found.fields])
    if found.is_saved:
        click.echo(f"\nkept for plans of queries, as of entry {found.number:,}")
    elif options["save"] and not options["filters"] and moment is None:
        click.echo("\nnot kept: the collection was never brought forward, see worm forward")


def _row(report: FieldReport) -> list[str]:
    kinds = ", ".join(f"{kind} {count:,}" if len(report.kinds) > 1 else kind for kind, count in report.kinds.items())
    frequent = ", ".join(f"{cut(each.value, _PLACES)} {each.count:,}" for each in report.top[:3] if each.count > 1)
    ends = [cut(end or "", _PLACES) for end in (report.low, report.high)]
    different = f"{report.distinct:,}" if report.is_exact else f"~{report.distinct:,}"
    return [report.name, kinds, f"{report.missing:,}", different, *ends, frequent]
