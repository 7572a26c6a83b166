"""worm cost: the bill of a month, estimated from a few numbers or measured in the bucket."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import msgspec

from wormdb.cli.input.place import existing_place
from wormdb.cli.show.text import print_json, print_table
from wormdb.cli.verbs import Verb
from wormdb.jobs.costs import PRICE_LISTS, Bill, BucketUsage, Workload, measure_usage, predict
from wormdb.storage.open import open_store
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["command"]

GIGABYTE = 1e9


@click.command(
    "cost",
    cls=Verb,
    examples=(
        "worm cost --documents 1e6 --writes-per-day 1e4 --reads-per-day 1e5 --indexes 1",
        "worm cost --documents 1e5 --nodes 0 --store gcs --explain",
        "worm cost s3://bucket/prefix --used",
    ),
)
@click.argument("url", required=False, envvar="WORM_URL")
@click.option("--used", "is_used", is_flag=True, help="Show what the database at URL uses, by listing it.")
@click.option("--days", default=7.0, show_default=True, help="With --used: the time in which writes are counted.")
@click.option("--documents", type=float, default=0, help="Documents in all, such as 1e6.")
@click.option("--bytes", type=float, default=1_000, show_default=True, help="Bytes of a document as JSON.")
@click.option("--writes-per-day", type=float, default=0, help="Documents inserted, changed or deleted in a day.")
@click.option("--batch", type=float, default=1, show_default=True, help="Documents in one commit.")
@click.option("--transactions-per-day", type=float, default=0, help="Transactions over several collections in a day.")
@click.option("--transaction-collections", type=float, default=2, show_default=True, help="Collections of each.")
@click.option("--reads-per-day", type=float, default=0, help="Reads of a few documents in a day.")
@click.option("--collections", type=float, default=1, show_default=True, help="Collections.")
@click.option("--indexes", type=float, default=0, show_default=True, help="Indexes of each collection.")
@click.option("--vector-indexes", type=float, default=0, show_default=True, help="Vector indexes of each collection.")
@click.option("--dimensions", type=float, default=384, show_default=True, help="Numbers of a vector.")
@click.option("--searches-per-day", type=float, default=0, help="Questions for the nearest vectors in a day.")
@click.option("--nodes", type=float, default=1, show_default=True, help="Services that run all day (worm node run).")
@click.option("--months", type=float, default=1, show_default=True, help="Months of changes kept as history.")
@click.option("--keep-days", type=float, default=0, help="Days for which models keep older versions; 0: for ever.")
@click.option("--versions", type=float, default=0, help="Versions of a document that models keep; 0: all.")
@click.option("--store", type=click.Choice(list(PRICE_LISTS)), default="s3", show_default=True, help="Price list.")
@click.option("--explain", is_flag=True, help="Show the formula of each line.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
def command(
    url: str | None, *, is_used: bool, days: float, store: str, explain: bool, as_json: bool, **workload: float
) -> int:
    """Estimate the monthly bill of a workload, or show what a database uses.

    Without --used nothing is asked of any store: the bill of a month follows from the
    numbers given. With --used the bucket is listed (1 request for each 1,000 objects)
    and its objects are summed up by kind; the root of each collection (1 GET) tells what
    is not kept of history. Prices are list prices in US dollars.
    """
    prices = PRICE_LISTS[store]
    source = click.get_current_context().get_parameter_source("url")
    if not is_used and url is not None and source is not click.core.ParameterSource.ENVIRONMENT:
        raise click.UsageError(f"A bill is estimated from numbers alone: add --used to see what {url} uses.")
    if not is_used:
        given = Workload(**workload)
        bill = predict(given, prices)
        saved = predict(replace(given, keep_days=0, versions=0), prices).dollars - bill.dollars
        if as_json:
            print_json({**msgspec.to_builtins(bill), "dollars": bill.dollars, "savedDollars": saved})
        else:
            _print_bill(bill, explain=explain)
            if given.keep_days or given.versions:
                click.echo(f"history that is not kept saves ${saved:,.4f} a month")
        return 0
    if url is None:
        raise click.UsageError("--used needs a URL")
    existing_place(url)
    clock = SystemClock()
    with open_store(url, clock=clock) as opened:
        found = measure_usage(opened, now_ms=clock.now_ms(), prices=prices, days=days)
    if as_json:
        print_json(_as_json(found))
    else:
        _print_used(found)
    return 0


def _as_json(found: BucketUsage) -> Mapping[str, Any]:
    sums = {"bytes": found.bytes, "storageDollars": found.storage_dollars}
    plain = msgspec.to_builtins(found)
    return {
        **{name: plain[name] for name in ("store", "prices", "days", "kinds", "history")},
        **sums,
        "writeDollars": found.write_dollars,
    }


def _print_bill(bill: Bill, *, explain: bool) -> None:
    click.echo(f"a month, at the prices of {bill.prices}")
    rows = [
        (item.name, _counted(item.unit, item.count), f"${item.dollars:,.4f}", *((item.formula,) if explain else ()))
        for item in bill.items
    ]
    print_table(("what", "how many", "dollars", *(("formula",) if explain else ())), rows)
    click.echo(f"in all ${bill.dollars:,.2f} a month")


def _print_used(found: BucketUsage) -> None:
    click.echo(f"{found.store}, at the prices of {found.prices}")
    rows = [
        (kind.name, f"{kind.objects:,}", _counted("bytes", kind.bytes), f"${kind.dollars:,.4f}", f"{kind.written:,}")
        for kind in found.kinds
    ]
    print_table(("what", "objects", "stored", "dollars a month", f"written in {found.days:g} days"), rows)
    click.echo(f"storage ${found.storage_dollars:,.2f} a month; writes at least ${found.write_dollars:,.2f} a month")
    saved = found.history
    if saved.collections:
        size = _counted("bytes", saved.bytes)
        click.echo(
            f"history that is not kept saves about {saved.versions:,} versions, {size}, ${saved.dollars:,.4f} a month"
        )


def _counted(unit: str, count: float) -> str:
    return f"{count / GIGABYTE:,.3f} GB" if unit == "bytes" else f"{count:,.0f} {unit.upper()}"
