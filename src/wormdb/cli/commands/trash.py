"""worm trash: deleted documents that can be restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import connect
from wormdb.cli.input.document import ACTOR, IN_MODEL, document_words, find_document, trashing_collection
from wormdb.cli.input.place import AS_JSON, URL, YES, complete_models, is_confirmed
from wormdb.cli.show.text import TextColumn, cell_of, counted, print_ruled, print_values, time_text
from wormdb.cli.verbs import Verb, VerbGroup
from wormdb.errors import NotFoundError
from wormdb.format.wrappers import moment
from wormdb.jobs.plain_text import plain_of
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.api.document import Document
    from wormdb.api.trash import TrashedDocument

__all__ = ["command"]

COLUMNS = (TextColumn("Id", 0), TextColumn("Deleted", 0), TextColumn("By", 0), TextColumn("Expires", 0))
MODEL_MAYBE = click.argument("model", required=False, shell_complete=complete_models)
_IDS_SHOWN = 10


@click.group("trash", cls=VerbGroup)
def command() -> None:
    """List, restore and purge deleted documents of models with softDelete.

    MODEL may be left out if one model only has a trash. What is purged leaves the trash for good; its history stays.
    """


@command.command("list", cls=Verb, examples=("worm trash list Customer", "worm trash list Customer --json"))
@MODEL_MAYBE
@URL
@AS_JSON
def show_all(model: str | None, url: str, *, as_json: bool) -> None:
    """List what is in the trash of a collection, in order of id."""
    with connect(url) as database:
        found = trashing_collection(database, model).list_trashed()
    if as_json:
        print_values([_json(each) for each in found])
    elif not found:
        click.echo("the trash is empty")
    else:
        rows = [(cell_of(e.id), time_text(e.deleted_at), e.deleted_by or "--", time_text(e.expires_at)) for e in found]
        print_ruled(COLUMNS, rows)


@command.command("restore", cls=Verb, examples=("worm trash restore Customer acme",))
@document_words()
@IN_MODEL
@ACTOR
@URL
@AS_JSON
def restore(words: Sequence[str], url: str, **options: Any) -> None:
    """Bring a document back from the trash, as it was."""
    with connect(url, actor=options["actor"]) as database:
        named = find_document(database, words, options["in_model"])
        document = named.collection.restore(named.id)
    print_values(dict(document)) if options["as_json"] else click.echo(f"restored {named.label}")


@command.command("purge", cls=Verb, examples=("worm trash purge Customer acme", "worm trash purge Customer acme --yes"))
@document_words()
@IN_MODEL
@YES
@ACTOR
@URL
@AS_JSON
def purge(words: Sequence[str], url: str, **options: Any) -> int:
    """Take a document out of the trash for good, with its snapshots.

    Asks first, unless --yes is given; exits with 1 if the answer is no.
    """
    with connect(url, actor=options["actor"]) as database:
        named = find_document(database, words, options["in_model"])
        if not any(each.id == named.id for each in named.collection.list_trashed()):
            raise NotFoundError(
                f"Cannot purge {named.label}", reason="it is not in the trash", fix="worm trash list shows what is"
            )
        if not is_confirmed(f"Purge {named.label} for good?", yes=options["yes"]):
            return 1
        named.collection.purge(named.id)
    _report([named.id], as_json=options["as_json"])
    return 0


@command.command("purge-expired", cls=Verb, examples=("worm trash purge-expired Customer --yes   # in a nightly job",))
@MODEL_MAYBE
@YES
@ACTOR
@URL
@AS_JSON
def purge_expired(model: str | None, url: str, **options: Any) -> int:
    """Purge what has been in the trash for longer than the model's ttl.

    Asks first, unless --yes is given; exits with 1 if the answer is no.
    """
    with connect(url, actor=options["actor"]) as database:
        collection = trashing_collection(database, model)
        if not options["yes"]:
            over = _expired(collection.list_trashed())
            if over and not is_confirmed(f"Purge {_listed(over)} of {collection.name} for good?", yes=False):
                return 1
            purged = collection.purge_expired() if over else []
        else:
            purged = collection.purge_expired()
    _report(purged, as_json=options["as_json"])
    return 0


def _expired(found: Sequence[TrashedDocument[Document]]) -> list[str]:
    now = moment(SystemClock().now_ms())
    return [cell_of(each.id) for each in found if each.expires_at is not None and each.expires_at <= now]


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _IDS_SHOWN:,} more" if len(ids) > _IDS_SHOWN else ""
    return f"{counted(len(ids), 'document', 'documents')} ({', '.join(ids[:_IDS_SHOWN])}{more})"


def _report(purged: Sequence[Any], *, as_json: bool) -> None:
    if as_json:
        print_values({"purged": list(purged)})
    elif not purged:
        click.echo("nothing is expired")
    else:
        click.echo(f"purged {_listed([cell_of(each) for each in purged])}")


def _json(trashed: TrashedDocument[Document]) -> dict[str, Any]:
    return {
        "id": trashed.id,
        "deletedAt": plain_of(trashed.deleted_at),
        "deletedBy": trashed.deleted_by,
        "expiresAt": plain_of(trashed.expires_at),
        "document": dict(trashed.document),
    }
