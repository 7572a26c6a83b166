"""worm schema apply: make a schema the database's, and bring documents to new versions of their models."""

from __future__ import annotations

import importlib
import re
import sys
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from wormdb.api.database import Database, connect
from wormdb.api.schema import SchemaPlan
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

    from wormdb.api.schema import ModelPlan

__all__ = ["command"]

_CLASS: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    "apply",
    cls=Verb,
    examples=(
        "worm schema apply ./shop --file schema.json",
        "worm schema apply ./shop --mapping v2.json --dry-run",
        "worm schema apply ./shop --migrate Customer=migrations:to_v2 --yes",
        "worm schema apply app.models:Note --url ./shop",
    ),
)
@click.argument("places", nargs=-1, metavar="[URL] [MODULE:CLASS]...")
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
def command(places: tuple[str, ...], url: str | None, **options: Any) -> int:
    """Make a schema, or classes of a program, the database's: one log entry for each model that changes.

    MODULE is imported from the folder in which the command runs.

    Says first what changes, what is written again and about how long that takes. Then asks, unless --yes is given;
    exits with 1 if the answer is no. Documents are in the new version at once. Blocks are written again by worm
    forward, by nodes, and by writers; worm table inspect tells how many are left.
    """
    mappings, migrate = _mappings(options["mapping"]), _functions(options["migrate"])
    named = [each for each in places if _CLASS.fullmatch(each)]
    rest = [each for each in places if each not in named]
    if len(rest) > 1:
        raise click.UsageError(f"one URL, and classes as MODULE:CLASS; not {' '.join(rest[1:])}")
    where, file = only_place(rest[0] if rest else None, url), options["file"]
    if named:
        return _apply_classes(where, [_load(each, each) for each in named], (mappings or {}, migrate or {}), options)
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
            _rewrite(database, [each.name for each in plan.models if each.version_to])
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
    return {each.partition("=")[0]: _load(each.partition("=")[2], f"--migrate {each}") for each in named} or None


def _load(target: str, what: str) -> Any:
    """A function or class by MODULE:NAME; raises InvalidRequestError about `what`."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    module, _, name = target.partition(":")
    try:
        return attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        fix = f"write {'MODEL=MODULE:FUNCTION' if '=' in what else 'MODULE:CLASS'}, and run it where MODULE is"
        raise InvalidRequestError(what, reason=str(error), fix=fix) from error


def _apply_classes(
    where: str, classes: Sequence[type[Any]], ways: tuple[Mapping[str, Any], Mapping[str, Any]], options: dict[str, Any]
) -> int:
    """Make classes of a program the database's definitions of their models."""
    with connect(where) as database:
        changes = {cls.__name__: database.class_change(cls) for cls in classes}
        known = {} if database.schema is None else database.schema.models
        for name in changes:
            if name in known:
                raise InvalidRequestError(
                    f"class {name}",
                    reason="the published schema has a model of this name, of which the class is a view",
                    fix="change the schema, and apply that: worm schema apply --file FILE",
                )
        given = {name: (ways[0].get(name), ways[1].get(name)) for name in changes}
        plans = {name: change.plan(*given[name]) for name, change in changes.items()}
        found = SchemaPlan(tuple(plan for plan in plans.values() if plan is not None))
        _print(found, as_json=options["as_json"])
        if found.is_empty or options["dry_run"]:
            return 0
        question = f"Change {counted(len(found.models), 'model', 'models')} in {database.url}?"
        if not is_confirmed(question, yes=options["yes"]):
            return 1
        with show_work("looking at all documents"):
            for name, plan in plans.items():
                if plan is not None:
                    changes[name].apply(*given[name])
        if options["rewrite"]:
            _rewrite(database, [changes[each.name].evolution.ledger.collection for each in found.models])
    if not options["as_json"]:
        click.echo("applied")
    return 0


def _rewrite(database: Database, names: Sequence[str]) -> None:
    """Forward models, or folders, until nothing is left to do."""
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
