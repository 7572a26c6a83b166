"""worm table compact: few large blocks instead of many small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.input.engine import opened_pipeline, with_engine
from wormdb.cli.input.place import AS_JSON, MODEL, URL, YES, is_confirmed
from wormdb.cli.show.text import TextColumn, camel, counted, print_json, print_ruled, size_text
from wormdb.cli.verbs import Verb

if TYPE_CHECKING:
    from wormdb.jobs.compact import CompactPlan, ListPlan

__all__ = ["command"]

_LISTS = {"blocks": "documents", "history": "history"}


@click.command(
    "compact",
    cls=Verb,
    examples=(
        "worm table compact Customer --dry-run",
        "worm table compact Event --yes --master spark://head:7077",
    ),
)
@MODEL
@click.option("--dry-run", is_flag=True, help="Show the plan, and do nothing.")
@click.option("--no-history", is_flag=True, help="Leave the blocks of history as they are.")
@YES
@with_engine
@URL
@AS_JSON
def command(model: str, url: str, *, dry_run: bool, no_history: bool, yes: bool, as_json: bool, **options: Any) -> int:
    """Write many small blocks, and blocks that hide each other, again as few large ones.

    Shows first which blocks are written again and what that costs, and asks. Documents, history and indexes stay what
    they are, and so do blocks that are large and lie alone, unless an older version wrote them: then they get columns
    for frequent paths. Writers go on meanwhile. What was replaced stays for readers of older states, until worm gc
    removes it. Exits with 1 if others replaced blocks meanwhile and some are left.
    """
    from wormdb.jobs.compact import CompactOptions

    chosen = CompactOptions(history=not no_history)
    with opened_pipeline(model, url, options) as pipeline:
        plan = pipeline.plan_compact(chosen)
        if dry_run and as_json:
            print_json(_told(plan))
            return 0
        if not as_json:
            _show(plan)
        if dry_run or (plan.is_empty and not as_json):
            return 0
        if not plan.is_empty and not is_confirmed(f"Compact {plan.collection}?", yes=yes):
            return 1
        done = pipeline.compact(chosen, plan=plan)
    if as_json:
        print_json({**camel(done), "plan": _told(plan)})
    else:
        blocks = f"{done.blocks_before:,} → {counted(done.blocks_after, 'block', 'blocks')}"
        sizes = f"{size_text(done.size_before)} → {size_text(done.size_after)}"
        click.echo(f"compacted {done.rows:,} rows: {blocks}, {sizes}, {done.runs_before:,} → {done.runs_after:,} runs")
        if not done.is_done:
            click.echo("others replaced blocks meanwhile: run it again", err=True)
    return 0 if done.is_done else 1


def _told(plan: CompactPlan) -> dict[str, Any]:
    return {
        "collection": plan.collection,
        "number": plan.number,
        "lists": [
            {
                "name": _LISTS[each.name],
                "runs": each.runs,
                "blocks": each.blocks,
                "sizeBytes": each.size,
                "rows": each.rows,
                "kept": each.kept,
                "makes": each.makes,
                "pieces": len(each.pieces),
                "gets": each.gets,
                "puts": each.puts,
            }
            for each in plan.lists
        ],
    }


def _show(plan: CompactPlan) -> None:
    if plan.is_empty:
        blocks = sum(each.kept for each in plan.lists)
        click.echo(f"{plan.collection}: nothing to compact in {counted(blocks, 'block', 'blocks')}")
        return
    columns = [TextColumn("of", 0)]
    names = ("runs", "blocks", "stay", "rows", "bytes", "become", "GET", "PUT")
    columns += [TextColumn(name, 0, is_right=True) for name in names]
    print_ruled(columns, [_row(each) for each in plan.lists])


def _row(each: ListPlan) -> list[str]:
    counts = (each.runs, each.blocks, each.kept, each.rows)
    costs = (each.makes, each.gets, each.puts)
    return [_LISTS[each.name], *(f"{n:,}" for n in counts), size_text(each.size), *(f"~{n:,}" for n in costs)]
