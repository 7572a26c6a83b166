"""Which document a command is about: `[MODEL] ID`, as people write it."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import click

from wormdb.cli.input.place import complete_models, find_collection, find_model, is_confirmed, model_of
from wormdb.cli.show.changes import ENDS, say_changes
from wormdb.cli.show.text import cell_of
from wormdb.errors import ConflictError, InvalidRequestError, NotFoundError
from wormdb.format import json
from wormdb.format.kinds import ObjectId
from wormdb.format.segment import decode_segment, encode_segment
from wormdb.format.values import normalize
from wormdb.schema.path import SINGLETON_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document
    from wormdb.api.history import HistoryEntry
    from wormdb.schema.model import Model

__all__ = [
    "ACTOR",
    "IN_MODEL",
    "NamedDocument",
    "ask_to_return",
    "document_words",
    "exact_id",
    "find_document",
    "readings",
    "trashing_collection",
]

IN_MODEL = click.option(
    "--model", "in_model", metavar="MODEL", shell_complete=complete_models, help="The model, if it is not given before."
)
ACTOR = click.option(
    "--actor",
    envvar="WORM_ACTOR",
    show_envvar=True,
    metavar="NAME",
    help="The person or program that makes the change; kept with it.",
)

_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NamedDocument:
    """A document that was found by its name."""

    collection: Collection[Document]
    id: Any
    history: list[HistoryEntry]
    """Every change of it, oldest first; one at least."""

    @property
    def label(self) -> str:
        """Its name for people."""
        return f"{self.collection.name} {cell_of(self.id)}"

    def check_unmoved(self) -> None:
        """Raise ConflictError if it changed since it was found: a yes is meant for what was shown."""
        if self.collection.get_history(self.id)[-1].seq != self.history[-1].seq:
            raise ConflictError(self.label, reason="another writer changed it meanwhile", fix="look again, and retry")


def document_words(more: str = "") -> Callable[[Any], Any]:
    """The argument `[MODEL] ID`, and what stands behind it."""
    metavar = f"[MODEL] ID {more}".strip()
    return click.argument("words", nargs=-1, required=True, metavar=metavar, shell_complete=_complete_first)


def _complete_first(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [] if context.params.get("words") else complete_models(context, parameter, incomplete)


def find_document(database: Database, words: Sequence[str], model: str | None) -> NamedDocument:
    """The document of `[MODEL] ID`. 1 GET for the schema, and what history costs of each way to read the id.

    Without a model every model of the schema is asked, or every collection if there is no schema. Raises
    InvalidRequestError for an id of several documents and for too many words, NotFoundError if there never was one.
    """
    if len(words) > (1 if model is not None else 2):
        what = "MODEL is given twice" if model is not None else f"too many words: {' '.join(words)!r:.100}"
        raise InvalidRequestError(what, fix="write MODEL ID; quote an id with blanks")
    if model is None and len(words) == 2:
        model = words[0]
    text = words[-1]
    if model is None:
        known = find_model(database, text)
        if known is None or not known.is_singleton:
            return _search(database, text)
        model = text
    collection = find_collection(database, model)
    found, refusal = _documents(database, collection, text)
    if not found:
        raise refusal or NotFoundError(
            f"No history of {collection.name} {text!r:.100}",
            reason="there never was such a document",
            fix="check the id: worm table query shows those there are",
        )
    return _single(found, text)


def trashing_collection(database: Database, model: str | None) -> Collection[Document]:
    """The collection that is named, or that of the only model with a trash. 1 GET for the schema.

    Raises InvalidRequestError if there are several, or none.
    """
    if model is not None:
        return find_collection(database, model)
    models = {} if database.schema is None else database.schema.models
    names = [name for name, each in models.items() if each.soft_delete.enabled and not each.path.outer]
    if len(names) != 1:
        reason = f"{', '.join(names[:8])} have a trash" if names else "no model of the schema has a trash"
        raise InvalidRequestError("no model is named", reason=reason, fix="name one")
    return find_collection(database, names[0])


def _names(database: Database) -> list[str]:
    """Models with one collection; without a schema the folders of all collections."""
    if database.schema is None:
        return [prefix.rstrip("/") for prefix in database.collections()]
    return [name for name, model in database.schema.models.items() if not model.path.outer]


def _search(database: Database, text: str) -> NamedDocument:
    names = [name for name in _names(database) if not _is_singleton(database, name)]
    asked = [_documents(database, find_collection(database, name), text) for name in names]
    found = [each for documents, _ in asked for each in documents]
    refusals = [refusal for _, refusal in asked if refusal is not None]
    if refusals and len(refusals) == len(names):
        raise refusals[0]
    if not found:
        raise NotFoundError(
            f"No history of {text!r:.100}",
            reason=f"no document of {', '.join(names[:8]) or 'any model'} ever had this id",
            fix="check the id, or name the collection: MODEL ID",
        )
    return _single(found, text)


def _is_singleton(database: Database, name: str) -> bool:
    model = find_model(database, name)
    return model is not None and model.is_singleton


def _documents(
    database: Database, collection: Collection[Document], text: str
) -> tuple[list[NamedDocument], InvalidRequestError | None]:
    """What a text names in a collection, one document as a rule; and the refusal if it cannot be an id there."""
    found: list[NamedDocument] = []
    refusals: list[InvalidRequestError] = []
    ways = readings(text, model_of(database, collection))
    for identity in ways:
        try:
            history = collection.get_history(identity)
        except InvalidRequestError as error:
            refusals.append(error)
            continue
        if history:
            found.append(NamedDocument(collection, identity, history))
    return found, refusals[0] if len(refusals) == len(ways) else None


def _single(found: Sequence[NamedDocument], text: str) -> NamedDocument:
    if len(found) == 1:
        return found[0]
    forms = [f"{each.collection.name} {exact_id(each.id)}" for each in found]
    raise InvalidRequestError(
        f"{text!r:.100} is the id of {len(found)} documents", fix=f"write one of: {'; '.join(forms)}"
    )


def exact_id(identity: Any) -> str:
    """An id in the one form that means nothing else."""
    return f"'{json.encode(identity).decode()}'" if isinstance(identity, str) else encode_segment(identity)


def ask_to_return(named: NamedDocument, seq: int, shown: str, question: str, options: Mapping[str, Any]) -> int | None:
    """Show what differs if a document goes back to one of its changes, and ask; None to go on, else an exit code.

    `shown` names the change. Nothing is asked where nothing differs. 1 GET in a warm process; raises ConflictError if
    the document changed while the question stood.
    """
    newest = named.history[-1]
    diff = named.collection.diff(named.id, newest.seq, seq)
    if not diff and newest.op not in ENDS:
        click.echo(f"{named.label}: nothing differs from {shown}, nothing was changed", err=True)
        return 0
    if not options["as_json"]:
        click.echo(f"{named.label}: {newest.seq} → {seq}")
        say_changes(diff)
    if not is_confirmed(question, yes=options["yes"]):
        return 1
    named.check_unmoved()
    return None


def readings(text: str, model: Model | None) -> list[Any]:
    """The ids that a text may stand for, the likeliest first. No requests.

    The text itself, or the id whose name in a key it is. Where ids need not be text, also a number, an ObjectId, a
    UUID. JSON, in quotes or braces, is that value alone.
    """
    if model is not None and model.is_singleton:
        return [SINGLETON_ID]
    if text[:1] in {'"', "{"}:
        try:
            return [json.parse(text)]
        except InvalidRequestError:
            return [text]
    found: list[Any] = [text]
    with suppress(InvalidRequestError):
        found.append(decode_segment(text))
    if model is None or (model.path.id is not None and model.path.id.type == "any"):
        found += _others(text)
    kinds: dict[tuple[type, Any], Any] = {(type(value), value): value for value in found}
    return list(kinds.values())


def _others(text: str) -> Iterator[Any]:
    if _NUMBER.fullmatch(text):
        try:
            yield json.parse(text)
        except InvalidRequestError:  # over 64 bits
            return
    if ObjectId.is_valid(text):
        yield ObjectId(text)
    if _UUID.fullmatch(text):
        yield normalize(UUID(text))
