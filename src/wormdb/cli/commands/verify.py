"""worm verify: check everything that is stored, and repair what can be made again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import Database, connect
from wormdb.cli.input.document import readings
from wormdb.cli.input.engine import LOCAL_MASTER, opened_pipeline, wants_spark, with_engine
from wormdb.cli.input.place import NAMES, PLACE, find_collection, find_model, missing_collection, model_of, place_of
from wormdb.cli.show.progress import tell_line
from wormdb.cli.show.text import camel, counted, print_json, print_table
from wormdb.cli.verbs import Verb
from wormdb.errors import ErasedError, InvalidRequestError, NotFoundError
from wormdb.maintenance.audit.report import CheckedCounts, Finding, Repair, Verification
from wormdb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.api.collection import Collection

__all__ = ["command"]

_COLUMNS_SHOWN = 100


@click.command(
    "verify",
    cls=Verb,
    examples=(
        "worm verify s3://bucket/shop",
        "worm verify Customer --repair",
        "worm verify Customer --erased acme --value 'ada@example.com'",
        "worm verify Event --master spark://head:7077 --json",
    ),
)
@NAMES
@PLACE
@click.option("--repair", "repairs", is_flag=True, help="Make again what is damaged and can be made again.")
@click.option("--accept-loss", is_flag=True, help="Repair also if documents are lost by it; they are listed.")
@click.option("--erased", metavar="ID", help="Search every object of one COLLECTION for an erased document instead.")
@click.option("--value", "values", multiple=True, metavar="TEXT", help="With --erased: a text that was in it. Again.")
@click.option("--unreferenced", is_flag=True, help="List the bucket too, for objects that nothing names.")
@with_engine
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
def command(
    url: str | None, names: tuple[str, ...], *, repairs: bool, accept_loss: bool, as_json: bool, **options: Any
) -> int:
    """Check everything that is stored, and repair what can be made again.

    The log, every object that a collection needs, that all of them agree, and every readable file.
    COLLECTION is a model's name or a folder; without any, the bucket is searched for collections. Writes nothing
    without --repair. Exits with 1 if something is wrong, and with --repair if something is left.

    With --erased it reads every object of a collection, also those that nothing names, and tells where the ID or one of
    the texts can still be found. Exits with 1 if so; places where another document has them are told, and are fine.

    On Spark blocks are checked in parts, and then ranges of documents with their history and what indexes must have
    of them; this process reads the log, the indexes and readable files. If something is wrong, one pass in this process
    names it, so the findings are the same. Repairs are done in this process.
    """
    if accept_loss and not repairs:
        raise InvalidRequestError("--accept-loss", reason="nothing is repaired without --repair", fix="add --repair")
    if repairs and options["engine"] == "spark":
        raise InvalidRequestError(
            "--repair with --engine spark", reason="one process repairs", fix="use --engine local"
        )
    place, names = place_of(url, names)
    if options["erased"] is not None:
        return _find_traces(place, names, options, as_json=as_json)
    with connect(place, settings=Settings(forward="manual")) as database:
        wanted = names or database.collections()
        shows = options["progress"] is not False and sys.stderr.isatty() and not as_json
        told = _progress() if shows else None
        if repairs:
            return _repair(database, wanted, accept_loss, told, as_json=as_json)
        in_parts = [name for name in wanted if _is_for_spark(database, name, options)]
        here = [name for name in wanted if name not in in_parts]
        found = database.verify(here, unreferenced=options["unreferenced"], told=told)
        _forget_progress(told)
        for each in found:
            if names and each.checked == CheckedCounts() and not each.findings:
                raise missing_collection(database, each.collection)
    if in_parts:
        found = sorted([*found, *_by_spark(in_parts, place, options)], key=lambda each: each.collection)
    if as_json:
        print_json([camel(each) for each in found])
    else:
        _print_found(found)
    return 0 if all(each.is_sound for each in found) else 1


def _find_traces(place: str, names: tuple[str, ...], options: dict[str, Any], *, as_json: bool) -> int:
    """Search one collection for what is left of a document."""
    if len(names) != 1:
        raise InvalidRequestError("--erased", reason="it is about one collection", fix="name it: worm verify NAME")
    with connect(place, settings=Settings(forward="manual")) as database:
        collection = find_collection(database, names[0])
        ways = readings(options["erased"], model_of(database, collection))
        shows = options["progress"] is not False and sys.stderr.isatty() and not as_json
        told = _progress() if shows else None
        values = options["values"]
        found = [
            trace for way in ways for trace in database.find_traces(collection.prefix, way, values=values, told=told)
        ]
        _forget_progress(told)
        left = [trace for trace in found if not trace.is_mention]
        when = _when_erased(collection, ways) if left else ""
    if as_json:
        print_json([camel(trace) for trace in found])
        return 1 if left else 0
    rows = [("mention" if trace.is_mention else "left", trace.key, trace.what) for trace in found]
    if rows:
        print_table(("kind", "object", "what"), rows)
    click.echo(f"{counted(len(left), 'trace', 'traces')} left" if left else "nothing is left")
    if left:
        click.echo(f"{when}; worm gc {names[0]} an hour later deletes what readers of that time may need", err=True)
    return 1 if left else 0


def _when_erased(collection: Collection[Any], ways: Sequence[Any]) -> str:
    """When a document was erased, as its history tells."""
    for way in ways:
        try:
            collection.get_history(way)
        except ErasedError as error:
            return error.reason or "it was erased"
        except NotFoundError:
            continue
    return "it was not erased, or long ago: worm erase does it"


def _is_for_spark(database: Database, name: str, options: dict[str, Any]) -> bool:
    model = find_model(database, name)
    if model is None or model.path.outer:
        return wants_spark(database[name.rstrip("/")], options)
    return wants_spark(database.model(model.name), options)


def _by_spark(names: Sequence[str], place: str, options: dict[str, Any]) -> list[Verification]:
    """What workers and this process find, one collection after the other in one session."""
    from wormdb.spark.jobs import spark_at

    found = []
    with spark_at(options["master"] or LOCAL_MASTER):
        for name in names:
            with opened_pipeline(name, place, {**options, "engine": "spark"}) as pipeline:
                found.append(pipeline.verify(unreferenced=options["unreferenced"]))
    return found


def _repair(
    database: Database, names: Sequence[str], accept_loss: bool, told: Callable[[str], None] | None, *, as_json: bool
) -> int:
    try:
        done = database.repair(names, accept_loss=accept_loss, told=told)
    except InvalidRequestError as error:
        _forget_progress(told)
        for problem in error.problems:
            click.echo(f"{problem.path}: {problem.reason}", err=True)
        click.echo(f"worm: {error.what}: refused, because it would lose documents ({error.fix})", err=True)
        return 1
    _forget_progress(told)
    untouched = {each.collection for each in done if not each.repaired and not each.left}
    for prefix in sorted(untouched.difference(database.collections() if untouched else ())):
        raise missing_collection(database, prefix)
    if as_json:
        print_json([camel(each) for each in done])
    else:
        for each in done:
            _print_done(each)
    return 1 if any(each.left for each in done) else 0


def _print_found(found: Sequence[Verification]) -> None:
    """Show what was looked at, and what is wrong."""
    for each in found:
        checked = each.checked
        amount = ", ".join(
            [
                counted(checked.entries, "entry", "entries"),
                counted(checked.blocks, "block", "blocks"),
                counted(checked.nodes, "node", "nodes"),
                counted(checked.documents, "document", "documents"),
                counted(checked.versions, "version", "versions"),
                *([counted(checked.files, "file", "files")] if checked.files else []),
                *([counted(checked.blobs, "blob", "blobs")] if checked.blobs else []),
            ]
        )
        count = len(each.findings) + each.left_out
        news = counted(count, "finding", "findings") if count else "sound"
        click.echo(f"{each.collection}: {news} ({amount})")
        _print_findings(each.findings)
    if not found:
        click.echo("no collections")


def _print_done(done: Repair) -> None:
    news = f"{len(done.repaired):,} repaired, {len(done.lost):,} lost, {len(done.left):,} left"
    click.echo(f"{done.collection}: {news if done.repaired or done.left else 'sound'}")
    for finding in done.repaired:
        click.echo(f"  repaired {finding.key}: {finding.what}")
    for loss in done.lost:
        click.echo(f"  lost {'document ' + loss.id if loss.id is not None else 'something'}: {loss.what}")
    _print_findings(done.left)


def _print_findings(findings: Sequence[Finding]) -> None:
    if findings:
        rows = [(finding.kind, finding.key, finding.what, finding.fix) for finding in findings]
        print_table(("kind", "object", "what", "fix"), rows)


def _progress() -> Callable[[str], None]:
    """One line that is written over and over."""

    def tell(where: str) -> None:
        tell_line(where[-_COLUMNS_SHOWN:])

    return tell


def _forget_progress(told: Any) -> None:
    if told is not None:
        tell_line("")
