"""worm erase: leave nothing of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from wormdb.cli.input.body import read_past_id
from wormdb.cli.input.document import ACTOR
from wormdb.cli.input.place import AS_JSON, MODEL, URL, YES, find_collection, is_confirmed, open_database
from wormdb.cli.show.text import counted, print_values
from wormdb.cli.verbs import Verb
from wormdb.errors import NotFoundError
from wormdb.settings import RETIRED_MS
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.erase import EraseResult

__all__ = ["command"]

SLEEPER: Final = SystemClock()
_ROUND_SECONDS: Final = RETIRED_MS / 1000 + 5
_ROUNDS: Final = 3
"""What a job attached takes two of them; the third is for what was forwarded late."""


@click.command(
    "erase",
    cls=Verb,
    examples=("worm erase Customer acme --yes", "worm erase people 17 18 --yes --wait"),
)
@MODEL
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option(
    "--wait", is_flag=True, help="Stay until nothing can be recovered: an hour, collect garbage, read every object."
)
@click.option("--missing-ok", is_flag=True, help="Pass over an ID that has no document and never had one.")
@YES
@ACTOR
@URL
@AS_JSON
def command(model: str, ids: Sequence[str], url: str, **options: Any) -> int:
    """Leave nothing of documents: versions, snapshots, trash, blobs of their own and readable files.

    No read finds anything of them from then on, and nothing brings them back. What older states of the collection
    named, and the log until then, is deleted by the next garbage collection an hour later (worm gc, or a node); worm
    verify --erased tells whether that is done. With --wait the command does all that, and exits with 1 if something is
    left after three hours. It asks first. Exits with 1 if an ID never had a document.
    """
    with open_database(url, options) as database:
        collection = find_collection(database, model)
        wanted = []
        for text in ids:
            try:
                wanted.append(read_past_id(database, collection, text))
            except NotFoundError:
                if not options["missing_ok"]:
                    raise
        question = f"Erase {counted(len(wanted), 'document', 'documents')} of {collection.name}, with all history?"
        if not is_confirmed(question, yes=options["yes"]):
            return 1
        done = [collection.erase(each, missing_ok=True, actor=options["actor"]) for each in wanted]
        erased = [each for each in done if each.number]
        if not options["as_json"]:
            click.echo(f"{counted(len(erased), 'document', 'documents')} erased")
            if erased and not options["wait"]:
                _tell_rest(model, ids[0], erased)
        is_left = bool(erased) and options["wait"] and not _is_gone(database, collection, wanted)
    if options["as_json"]:
        values = [_shown(each) for each in done]
        print_values({"erased": len(erased), "entries": values, **({"left": is_left} if options["wait"] else {})})
    elif options["wait"]:
        click.echo(f"something is left: worm verify {model} --erased {ids[0]}" if is_left else "nothing is left")
    return 1 if is_left else 0


def _shown(result: EraseResult) -> dict[str, Any]:
    after = {} if result.gone_after is None else {"goneAfter": f"{result.gone_after:%Y-%m-%dT%H:%M:%SZ}"}
    return {"number": result.number, "forwarded": result.is_forwarded, "waitMs": result.wait_ms, **after}


def _tell_rest(model: str, identity: str, erased: Sequence[EraseResult]) -> None:
    last = max(each.gone_after for each in erased if each.gone_after is not None)
    click.echo(f"no read finds them; after {last:%Y-%m-%d %H:%M} UTC worm gc {model}, or a node, deletes what is left,")
    click.echo(f"and worm verify {model} --erased {identity} --value TEXT proves it; --wait does both")


def _is_gone(database: Database, collection: Collection[Any], wanted: Sequence[Any]) -> bool:
    """Wait, collect garbage and look, as often as it may take; whether nothing of the documents is left."""
    for _ in range(_ROUNDS):
        SLEEPER.sleep(_ROUND_SECONDS)
        collection.forward()
        database.gc([collection.prefix])
        found = (trace for each in wanted for trace in database.find_traces(collection.prefix, each))
        if all(trace.is_mention for trace in found):
            return True
    return False
