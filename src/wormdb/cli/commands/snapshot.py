"""worm snapshot: versions of documents that are kept to go back to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import connect
from wormdb.cli.input.document import ACTOR, IN_MODEL, ask_to_return, document_words, find_document
from wormdb.cli.input.place import AS_JSON, URL, YES
from wormdb.cli.show.text import TextColumn, print_json, print_ruled, print_values, size_text
from wormdb.cli.verbs import Verb, VerbGroup
from wormdb.errors import InvalidRequestError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.history.snapshots import Snapshot

__all__ = ["command"]

COLUMNS = (
    TextColumn("Taken", 0),
    TextColumn("Seq", 0, is_right=True),
    TextColumn("Size", 0, is_right=True),
    TextColumn("By", 0),
)


@click.group("snapshot", cls=VerbGroup)
def command() -> None:
    """Take, list and restore snapshots of documents.

    A snapshot is a version with a name: the time it was taken. MODEL and ID are as for worm history. Models have
    snapshots if their key snapshots says so; a collection without a model always has.
    """


@command.command("take", cls=Verb, examples=("worm snapshot take Customer acme",))
@document_words()
@IN_MODEL
@ACTOR
@URL
@AS_JSON
def take(words: Sequence[str], url: str, **options: Any) -> None:
    """Keep a document as it is now; the snapshot that there is, if it is kept already."""
    with connect(url, actor=options["actor"]) as database:
        named = find_document(database, words, options["in_model"])
        taken = named.collection.snapshot(named.id)
    if options["as_json"]:
        print_json(_json(taken))
    else:
        click.echo(f"{named.label}: snapshot {_time(taken)} of change {taken.seq}")


@command.command("list", cls=Verb, examples=("worm snapshot list Customer acme",))
@document_words()
@IN_MODEL
@URL
@AS_JSON
def show_all(words: Sequence[str], url: str, **options: Any) -> None:
    """List the snapshots of a document, oldest first."""
    with connect(url) as database:
        named = find_document(database, words, options["in_model"])
        found = named.collection.list_snapshots(named.id)
    if options["as_json"]:
        print_json([_json(each) for each in found])
    elif not found:
        click.echo(f"{named.label}: no snapshots")
    else:
        rows = [(_time(e), str(e.seq), size_text(e.size), "hand" if e.manual else "model") for e in found]
        print_ruled(COLUMNS, rows)


@command.command(
    "restore",
    cls=Verb,
    examples=(
        "worm snapshot restore Customer acme                          # the newest one",
        "worm snapshot restore Customer acme 2026-02-24T12:00:00Z --yes",
    ),
)
@document_words("[TIME]")
@IN_MODEL
@YES
@ACTOR
@URL
@AS_JSON
def restore(words: Sequence[str], url: str, **options: Any) -> int:
    """Bring a document back as a snapshot has it, the newest one if no time is given.

    TIME is as worm snapshot list shows it; digits that no other snapshot needs may be left out at its end. Shows what
    will be different and asks first, unless --yes is given; exits with 1 if the answer is no.
    """
    words, time = _split(words)
    with connect(url, actor=options["actor"]) as database:
        named = find_document(database, words, options["in_model"])
        chosen = _chosen(named.collection.list_snapshots(named.id), time, named.label)
        shown = _time(chosen)
        code = ask_to_return(named, chosen.seq, shown, f"Restore {named.label} from {shown}?", options)
        if code is not None:
            return code
        document = named.collection.restore_snapshot(named.id, chosen.ts)
    print_values(dict(document)) if options["as_json"] else click.echo(f"restored: change {document.seq}")
    return 0


def _split(words: Sequence[str]) -> tuple[Sequence[str], datetime | None]:
    """The words before a time, and the time if the last one is one: a date, T and more."""
    last = words[-1]
    if len(words) > 1 and last[10:11] == "T":
        try:
            time = datetime.fromisoformat(last)
        except ValueError:
            return words, None
        return words[:-1], time if time.utcoffset() is not None else time.replace(tzinfo=UTC)
    return words, None


def _chosen(found: Sequence[Snapshot], time: datetime | None, label: str) -> Snapshot:
    if not found:
        raise NotFoundError(f"{label} has no snapshots", fix="worm snapshot take keeps it as it is now")
    if time is None:
        return found[-1]
    wanted = time.astimezone(UTC).isoformat().partition("+")[0]
    fitting = [each for each in found if _time(each).startswith(wanted)]
    if len(fitting) == 1:
        return fitting[0]
    what = f"snapshot {wanted}Z of {label}"
    if fitting:
        times = ", ".join(map(_time, fitting[:10]))
        raise InvalidRequestError(what, reason=f"several are of that time: {times}", fix="name one")
    raise NotFoundError(what, reason="there is none of that time", fix="worm snapshot list shows those there are")


def _time(snapshot: Snapshot) -> str:
    return snapshot.ts.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def _json(snapshot: Snapshot) -> dict[str, Any]:
    return {"ts": _time(snapshot), "seq": snapshot.seq, "size": snapshot.size, "manual": snapshot.manual}
