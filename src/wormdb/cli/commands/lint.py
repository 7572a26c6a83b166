"""worm lint: every mistake of a schema at once."""

from __future__ import annotations

from pathlib import Path

import click

from wormdb.cli.input.schema import schema_file
from wormdb.cli.show.text import print_json, print_table
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError, Problem
from wormdb.schema.load import SchemaCheck, check_schema
from wormdb.settings import SCHEMA_BYTES_MAX

__all__ = ["command"]

STYLES = {"error": "bold red", "warning": "yellow"}


@click.command(
    "lint",
    cls=Verb,
    examples=(
        "worm lint",
        "worm lint schema.json --json",
    ),
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
def command(file: Path | None, *, as_json: bool) -> int:
    """Show every mistake of a schema, with its place, the reason and the fix.

    FILE is .worm/schema.json or else schema.json if it is not given. Exits with 1 if there
    are errors, with 0 if there are only warnings, with 2 if the file cannot be read.
    """
    file = schema_file(file, fix="name the file: worm lint FILE")
    checked = check_schema(_content(file))
    if as_json:
        print_json({"file": str(file), "valid": not checked.errors, "problems": checked.problems})
    else:
        _print(file, checked)
    return 1 if checked.errors else 0


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(SCHEMA_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidRequestError(f"{file} cannot be read", reason=error.strerror or str(error)) from error


def _print(file: Path, checked: SchemaCheck) -> None:
    if checked.problems:
        print_table(
            ("", "where", "what"),
            [(problem.severity, problem.path or "the file", _what(problem)) for problem in checked.problems],
            styles=[STYLES[problem.severity] for problem in checked.problems],
        )
    counts = f"{_count(len(checked.errors), 'error')}, {_count(len(checked.warnings), 'warning')}"
    models = "" if checked.schema is None else f", {_count(len(checked.schema.models), 'model')}"
    click.echo(f"{file}: {counts}{models}")


def _what(problem: Problem) -> str:
    return f"{problem.reason}\n→ {problem.fix}" if problem.fix else problem.reason


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
