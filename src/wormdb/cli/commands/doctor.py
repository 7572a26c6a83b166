"""worm doctor: can this bucket or folder hold a database?"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from wormdb.cli.input.place import complete_folders, existing_place
from wormdb.cli.show.text import print_json, print_table
from wormdb.cli.verbs import Verb
from wormdb.storage.cloud.bucket import bucket_findings
from wormdb.storage.examine import CheckStatus, Examination, examine
from wormdb.storage.open import open_store
from wormdb.storage.pool import ThreadPool
from wormdb.storage.roles import Role, examine_role, s3_policy
from wormdb.storage.url import parse_url
from wormdb.system.clock import SystemChance, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["command"]

STYLES = {CheckStatus.OK: "green", CheckStatus.WARN: "yellow", CheckStatus.FAIL: "bold red", CheckStatus.SKIP: "dim"}


@click.command(
    "doctor",
    cls=Verb,
    examples=(
        "worm doctor s3://bucket/prefix",
        "worm doctor ./data --read-only",
        "worm doctor s3://bucket/prefix --role writer",
        "worm doctor s3://bucket/prefix --role reader --policy > policy.json",
    ),
)
@click.argument("url", envvar="WORM_URL", shell_complete=complete_folders)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
@click.option("--read-only", is_flag=True, help="Write nothing; test only what reading needs.")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    help="Test that the key has the rights of this role, no more.",
)
@click.option("--policy", is_flag=True, help="Only print the S3 policy of the role, for this URL.")
def command(url: str, *, as_json: bool, read_only: bool, role: str | None, policy: bool) -> int:
    """Test whether a bucket or folder can hold a database.

    URL is a path, s3://bucket/prefix?endpoint=…&region=…, gs://, az:// or memory://name.
    Writes about 80 small objects below .worm.probe/ and removes them. Exits with 1
    if the store is not safe to write to.

    With --role the key in the environment is tried instead: what a reader, a writer or
    a service needs, and what it must not be able to do. Then exits with 1 if it has
    too few rights or too many.
    """
    if policy:
        if role is None:
            raise click.UsageError("--policy needs --role")
        print_json(s3_policy(Role(role), parse_url(url)))
        return 0
    if role is not None and read_only:
        raise click.UsageError("--role tries to write; leave out --read-only")
    if read_only or role is not None:
        existing_place(url)
    with _left_as_it_was(url):
        result = _examine(url, None if role is None else Role(role), writing=not read_only)
    if as_json:
        print_json({**msgspec.to_builtins(result), "passed": result.passed, "verdict": result.verdict})
    else:
        _print(result)
    return 0 if result.passed else 1


@contextmanager
def _left_as_it_was(url: str) -> Iterator[None]:
    """Remove the folder again that an examination made: another command takes one that is there for a database."""
    parsed = parse_url(url)
    folder = Path(parsed.path)
    is_new = parsed.scheme == "file" and not folder.exists()
    try:
        yield
    finally:
        if is_new and {each.name for each in folder.glob("*")} <= {".worm.tmp", ".worm.probe"}:
            shutil.rmtree(folder, ignore_errors=True)


def _examine(url: str, role: Role | None, *, writing: bool) -> Examination:
    clock, chance = SystemClock(), SystemChance()
    pool = ThreadPool()
    try:
        with open_store(url, clock=clock, chance=chance) as store:
            if role is not None:
                return examine_role(store, role, chance=chance)
            result = examine(store, pool=pool, clock=clock, chance=chance, writing=writing)
            return replace(result, findings=(*result.findings, *bucket_findings(store)))
    finally:
        pool.close()


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
