"""What was pushed and pulled, for people and programs."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from wormdb.cli.show.progress import tell_line
from wormdb.cli.show.text import camel, counted, print_json, size_text
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.sync import FileTrouble, SyncedCollection, SyncReport

__all__ = ["CONFLICT_CODE", "print_synced", "rate_told"]

CONFLICT_CODE: Final = 3
_SHOWN_MAX: Final = 20


def print_synced(report: SyncReport, *, as_json: bool) -> int:
    """Say what was done; the exit code: 1 if a file failed, 3 if one changed on both sides."""
    if as_json:
        print_json(camel(asdict(report)))
    else:
        _print(report)
    if report.failed or any(each.verb == "failed" for each in report.collections):
        return 1
    is_parted = any(each.verb == "parted" or each.conflicts for each in report.collections)
    return CONFLICT_CODE if report.conflicts or is_parted else 0


def _print(report: SyncReport) -> None:
    would = "would be " if report.is_dry else ""
    for word, paths in (
        ("pulled", report.pulled),
        ("pushed", report.pushed),
        ("deleted here", report.deleted_here),
        ("deleted in the bucket", report.deleted_there),
    ):
        if paths:
            click.echo(f"{counted(len(paths), 'file', 'files')} {would}{word}")
            if report.is_dry:
                _print_some(paths)
    for found in report.collections:
        _print_collection(found, would)
    if not report.count and not report.conflicts and not report.failed and not report.collections:
        click.echo("nothing to do")
    for each in report.conflicts:
        kept = f"; the local one is {each.copy} now" if each.copy else ""
        click.echo(f"conflict: {each.path}: {each.reason}{kept}", err=True)
    _print_troubles("skipped", report.skipped)
    _print_troubles("failed", report.failed)


def _print_collection(found: SyncedCollection, would: str) -> None:
    reason = f": {found.reason}" if found.reason else ""
    match found.verb:
        case "pushed" | "pulled" | "rebased":
            entries = counted(found.entries, "batch" if found.verb == "rebased" else "entry", _PLURALS[found.verb])
            click.echo(f"{found.name}: {entries} {would}{found.verb}, through number {found.number:,}{reason}")
        case "parted":
            click.echo(f"conflict: {found.name}{reason}", err=True)
        case _:
            click.echo(f"{found.verb}: {found.name}{reason}", err=True)
    for each in found.conflicts:
        click.echo(f"conflict: {found.name}, entry {each.entry:,}: {each.reason}", err=True)


_PLURALS: Final = {"pushed": "entries", "pulled": "entries", "rebased": "batches"}


def _print_some(paths: Sequence[str]) -> None:
    for path in paths[:_SHOWN_MAX]:
        click.echo(f"  {path}")
    if len(paths) > _SHOWN_MAX:
        click.echo(f"  and {len(paths) - _SHOWN_MAX:,} more (--json lists all)")


def _print_troubles(word: str, troubles: Sequence[FileTrouble]) -> None:
    for each in troubles[:_SHOWN_MAX]:
        click.echo(f"{word}: {each.path}: {each.reason}", err=True)
    if len(troubles) > _SHOWN_MAX:
        click.echo(f"{word}: and {len(troubles) - _SHOWN_MAX:,} more (--json lists all)", err=True)


@contextmanager
def rate_told() -> Iterator[Callable[[str, int], None]]:
    """On a terminal a line with how many files and bytes went, and how fast; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda _path, _bytes: None
        return
    lock, clock = threading.Lock(), SystemClock()
    start = clock.monotonic()
    files = size = 0

    def told(path: str, count: int) -> None:
        nonlocal files, size
        with lock:
            files, size = files + 1, size + count
            rate = size / max(clock.monotonic() - start, 0.001)
            tell_line(f"{files:,} files, {size_text(size)}, {size_text(rate)}/s  {path}")

    try:
        yield told
    finally:
        tell_line("")
