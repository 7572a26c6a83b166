"""worm doctor: can this bucket or folder hold a database?"""

from __future__ import annotations

import click
import msgspec

from wormdb.cli.output import print_json, print_table
from wormdb.clock import SystemChance, SystemClock
from wormdb.storage.examine import Examination, Status, examine
from wormdb.storage.open import open_store
from wormdb.storage.pool import ThreadPool

__all__ = ["command"]

STYLES = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "bold red", Status.SKIP: "dim"}


@click.command("doctor")
@click.argument("url", envvar="WORM_URL")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
@click.option("--read-only", is_flag=True, help="Write nothing; test only what reading needs.")
def command(url: str, *, as_json: bool, read_only: bool) -> int:
    """Test whether a bucket or folder can hold a database.

    URL is a path, s3://bucket/prefix?endpoint=…&region=…, gs://, az:// or memory://name.
    Writes about 80 small objects below .worm.probe/ and removes them. Exits with 1
    if the store is not safe to write to.
    """
    clock, chance = SystemClock(), SystemChance()
    pool = ThreadPool()
    try:
        with open_store(url, clock=clock, chance=chance) as store:
            result = examine(store, pool=pool, clock=clock, chance=chance, writing=not read_only)
    finally:
        pool.close()
    if as_json:
        print_json({**msgspec.to_builtins(result), "passed": result.passed, "verdict": result.verdict})
    else:
        _print(result)
    return 0 if result.passed else 1


def _print(result: Examination) -> None:
    click.echo(result.store)
    print_table(
        ("check", "result", "what was seen"),
        [
            (
                finding.check,
                finding.status.value,
                f"{finding.detail}\n→ {finding.fix}" if finding.fix else finding.detail,
            )
            for finding in result.findings
        ],
        styles=[STYLES[finding.status] for finding in result.findings],
    )
    click.echo(result.verdict)
