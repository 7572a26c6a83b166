"""worm adopt: make a collection of files that others wrote a managed one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.input.place import AS_JSON, MODEL, URL
from wormdb.cli.show.progress import tell_line
from wormdb.cli.show.text import camel, counted, print_json
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wormdb.api.adopt import AdoptOptions
    from wormdb.files.adopt.adopt import Adoption

__all__ = ["command"]

_SHOWN = 100
_BAR = 30
_EXAMPLES = (
    "worm adopt Customer --url s3://bucket --schema schema.json --dry-run",
    "worm adopt Customer --url s3://bucket --schema schema.json --job customers-1",
    "worm adopt Customer --url bucket --on-broken skip --on-mismatch entity",
)


@click.command("adopt", cls=Verb, examples=_EXAMPLES)
@MODEL
@URL
@click.option(
    "--schema",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The schema with the model.  [default: the published one]",
)
@click.option(
    "--outer", multiple=True, metavar="NAME=VALUE", help="An outer part of the model's path; may be repeated."
)
@click.option("--mode", type=click.Choice(["readwrite", "readonly", "append"]), help="Of the model from then on.")
@click.option(
    "--on-broken",
    type=click.Choice(["error", "skip"]),
    default="error",
    help="What to do about a file that cannot be read: refuse all, or leave its document out.",
    show_default=True,
)
@click.option(
    "--on-mismatch",
    type=click.Choice(["error", "entity"]),
    default="error",
    help="What to do about a document that is not as its oplog ends: refuse all, or take its own file.",
    show_default=True,
)
@click.option("--job", help="A name for the job: with the same one nothing is adopted twice.")
@click.option("--actor", help="The person or program that adopts it, for the history.")
@click.option("--dry-run", is_flag=True, help="Read and judge everything, and write nothing.")
@click.option("--no-verify", is_flag=True, help="Do not compare what was written with every file before it counts.")
@AS_JSON
def command(model: str, url: str, schema: Path | None, *, actor: str | None, as_json: bool, **given: Any) -> int:
    """Make a collection of files that others wrote a managed one.

    The documents of MODEL, and their oplog, snapshots and trash where they exist, become a log and its history; the
    files stay where they are. One log entry makes all of it visible. A run that was cut off goes on when it is
    started again. Exits with 1 if something is wrong with the files: then nothing was written.
    """
    from wormdb.api.database import connect

    told = _progress() if sys.stderr.isatty() and not as_json else None
    with connect(url, schema=schema, actor=actor) as database:
        declared = {} if database.schema is None else database.schema.models
        mode = declared[model].mode if model in declared else None
        try:
            done = database.adopt(model, **_options(given, told))
        except InvalidRequestError as error:
            _forget(told)
            if not error.problems:
                raise
            return _refused(error, as_json=as_json)
    _forget(told)
    if as_json:
        print_json(camel(done))
    else:
        _print(done, is_dry=given["dry_run"])
        if schema is not None and not given["dry_run"] and done.mode != mode:
            click.echo(f'  its mode is now {done.mode}: write "mode": "{done.mode}" in {schema} too')
    return 1 if done.refused else 0


def _options(given: Mapping[str, Any], told: Callable[[str, int, int], None] | None) -> AdoptOptions:
    options: AdoptOptions = {
        "on_broken": given["on_broken"],
        "on_mismatch": given["on_mismatch"],
        "dry_run": given["dry_run"],
        "verify": not given["no_verify"],
        "outer": dict(_pair(text) for text in given["outer"]),
    }
    if given["mode"] is not None:
        options["mode"] = given["mode"]
    if given["job"] is not None:
        options["job"] = given["job"]
    if told is not None:
        options["told"] = told
    return options


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidRequestError(f"--outer {text}", reason="it must be a name with a value", fix="write NAME=VALUE")
    return name, value


# --- what is printed ---


def _refused(error: InvalidRequestError, *, as_json: bool) -> int:
    if as_json:
        print_json({"adopted": False, "fix": error.fix, "problems": [camel(one) for one in error.problems]})
    _print_problems(error.problems)
    click.echo(f"worm: {error.what}: refused, nothing was written ({error.fix})", err=True)
    return 1


def _print(done: Adoption, *, is_dry: bool) -> None:
    counts = done.counts
    if done.already:
        click.echo(f"{done.collection}: adopted already by job {done.job}, in entry {done.number}")
        return
    # What was let through by choice is no error any more.
    _print_problems(done.problems, done.left_out, is_error=bool(done.refused))
    news = "would adopt" if is_dry else f"adopted in entry {done.number}:"
    if done.refused:
        news = f"would be refused for {counted(done.refused, 'problem', 'problems')}:"
    amount = [
        counted(counts.documents, "document", "documents"),
        f"{counts.trashed:,} in the trash",
        f"{counts.deleted:,} deleted",
        counted(counts.versions, "version", "versions"),
        counted(counts.snapshots, "snapshot", "snapshots"),
    ]
    click.echo(f"{done.collection}: {news} {', '.join(amount)}, of {counted(counts.files, 'file', 'files')}")
    if counts.skipped or counts.mismatched:
        click.echo(f"  {counts.skipped:,} skipped, {counts.mismatched:,} taken as their own file has them")
    if counts.skipped:
        click.echo("  move files that were skipped away if they are worth keeping: worm files sync removes them")
    if not is_dry:
        compared = "compared with every file" if done.verified else "not compared"
        click.echo(f"  job {done.job}{', resumed' if done.resumed else ''}, {compared}")
        if done.stale:
            click.echo("  its files say that they are of a later log: worm files sync writes them again")


def _print_problems(problems: Sequence[Problem], left_out: int = 0, *, is_error: bool = True) -> None:
    for problem in problems[:_SHOWN]:
        severity = problem.severity if is_error else "warning"
        click.echo(f"{severity}: {problem.path}: {problem.reason}", err=True)
    more = left_out + max(len(problems) - _SHOWN, 0)
    if more:
        click.echo(f"and {counted(more, 'problem', 'problems')} more; see them with --json", err=True)


def _progress() -> Callable[[str, int, int], None]:
    """One line that is written over and over."""

    def tell(what: str, done: int, total: int) -> None:
        part = done / total if total else 0.0
        bar = f"[{'#' * int(_BAR * part):{_BAR}}] {part:4.0%} of {total:,}" if total else f"{done:,}"
        tell_line(f"{what} {bar}")

    return tell


def _forget(told: Callable[[str, int, int], None] | None) -> None:
    if told is not None:
        tell_line("")
