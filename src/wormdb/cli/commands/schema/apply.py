"""worm schema apply: make a schema the database's, and bring documents to new versions of their models."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import Database, connect
from wormdb.cli.input.place import PLACE, YES, is_confirmed, only_place
from wormdb.cli.input.schema import schema_file
from wormdb.cli.show.progress import show_work, tell_line
from wormdb.cli.show.text import counted, print_json, size_text
from wormdb.cli.verbs import Verb
from wormdb.engine.tree.definition import OWNERS
from wormdb.errors import InvalidRequestError
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wormdb.api.schema import ModelPlan, SchemaPlan

__all__ = ["command"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    "apply",
    cls=Verb,
    examples=(
        "worm schema apply ./shop --file schema.json",
        "worm schema apply ./shop --mapping v2.json --dry-run",
        "worm schema apply ./shop --migrate Customer=migrations:to_v2 --yes",
    ),
)
@click.argument("place", required=False, metavar="[URL]")
@PLACE
@click.option(
    "--file",
    "--schema",
    "-f",
    "file",
    type=_FILE,
    help="The schema to apply.  [default: .worm/schema.json, or else schema.json]",
)
@click.option(
    "--mapping",
    "mapping",
    type=_FILE,
    help="A JSON file: for each model the update that makes its documents those of the new version.",
)
@click.option(
    "--migrate",
    metavar="MODEL=MODULE:FUNCTION",
    multiple=True,
    help="A function that makes a new document of each; MODULE is looked for here too.",
)
@click.option("--rewrite", is_flag=True, help="Wait until all blocks are written again and all indexes are built.")
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
@YES
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
def command(place: str | None, url: str | None, **options: Any) -> int:
    """Make a schema the database's: one log entry for each model that changes.

    Says first what changes, what is written again and about how long that takes. Then asks, unless --yes is given;
    exits with 1 if the answer is no. Documents are in the new version at once. Blocks are written again by worm
    forward, by nodes, and by writers; worm table inspect tells how many are left.
    """
    mappings, migrate = _mappings(options["mapping"]), _functions(options["migrate"])
    where, file = only_place(place, url), options["file"]
    with connect(where, schema=schema_file(file, fix="name the file: --file FILE")) as database:
        plan = database.plan_schema(mappings=mappings, migrate=migrate)
        _print(plan, as_json=options["as_json"])
        if plan.is_empty or options["dry_run"]:
            return 0
        question = f"Change {counted(len(plan.models), 'model', 'models')} in {database.url}?"
        if not is_confirmed(question, yes=options["yes"]):
            return 1
        with show_work("looking at all documents" if mappings or migrate else "applying"):
            database.apply_schema(mappings=mappings, migrate=migrate)
        if options["rewrite"]:
            _rewrite(database, plan.models)
    if not options["as_json"]:
        click.echo("applied")
    return 0


def _mappings(file: Path | None) -> Mapping[str, Mapping[str, Any]] | None:
    if file is None:
        return None
    found = json.parse(file.read_text(), operators=True)
    if not isinstance(found, dict) or any(not isinstance(value, dict) for value in found.values()):
        raise InvalidRequestError(
            f"--mapping {file}",
            reason="it must be an object of updates",
            fix='write {"Customer": {"$rename": {"a": "b"}}}',
        )
    return found


def _functions(named: Sequence[str]) -> dict[str, Callable[[dict[str, Any]], Any]] | None:
    """The functions that were named, by model; raises InvalidRequestError."""
    if not named:
        return None
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    found = {}
    for each in named:
        model, _, target = each.partition("=")
        module, _, function = target.partition(":")
        try:
            found[model] = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            raise InvalidRequestError(
                f"--migrate {each}", reason=str(error), fix="write MODEL=MODULE:FUNCTION, and run it where MODULE is"
            ) from error
    return found


def _rewrite(database: Database, plans: Sequence[ModelPlan]) -> None:
    """Forward until nothing is left to do."""
    names = [plan.name for plan in plans if plan.version_to]
    while names:
        database.forward(names)
        left = sum(status.older_blocks for status in database.status(names))
        if not left:
            break
        if sys.stderr.isatty():
            tell_line(f"{left:,} blocks to write again")
    if sys.stderr.isatty():
        tell_line("")


def _print(plan: SchemaPlan, *, as_json: bool) -> None:
    if as_json:
        print_json(plan.to_dict())
        return
    if plan.is_empty:
        click.echo("no difference")
    for each in plan.models:
        for change in each.changes:
            click.echo(str(change))
        for line in _cost(each):
            click.echo(f"  {line}")


def _cost(plan: ModelPlan) -> list[str]:
    """What a change does to documents and indexes, in sentences."""
    lines = [f"note: {warning}" for warning in plan.warnings]
    if plan.version_from != plan.version_to and plan.version_from:
        lines.append(f"{plan.name} version {plan.version_from} becomes {plan.version_to}")
    if plan.is_migrated:
        lines.append(f"a function writes {plan.documents:,} documents again before the change")
    elif plan.mapping:
        lines.append(
            f"{plan.documents:,} documents are mapped; {_blocks(plan)} will be written again in the background"
        )
    if plan.indexes:
        names = ["owners of blobs" if name == OWNERS.name else name for name in plan.indexes]
        lines.append(f"indexes to build: {', '.join(names)}")
    if plan.documents or plan.indexes:
        lines.append(f"about {plan.requests:,} requests and {max(plan.seconds, 1):,.0f} s")
    return lines


def _blocks(plan: ModelPlan) -> str:
    return f"{counted(plan.blocks, 'block', 'blocks')} ({size_text(plan.bytes)})"
