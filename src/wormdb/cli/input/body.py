"""Documents and updates that a person types, pipes or keeps in a file: JSON, plain or extended."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from wormdb.cli.input.document import exact_id, readings
from wormdb.cli.input.place import model_of
from wormdb.errors import ErasedError, InvalidRequestError, NotFoundError, WormError
from wormdb.format import json

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document

__all__ = ["BODY", "read_document", "read_documents", "read_id", "read_past_id", "read_text", "read_update"]

BODY = click.argument("body", required=False, metavar="[JSON | @FILE | -]")
"""Where documents come from; without it from standard input."""

_SHOWN: Final = 60


def read_document(body: str | None) -> dict[str, Any]:
    """The one document that was given. Raises InvalidRequestError for none, for several and for what is no object."""
    documents = read_documents(body)
    if len(documents) != 1:
        raise InvalidRequestError(
            f"{len(documents):,} documents were given",
            reason="the command takes one",
            fix="use worm insert for several, or worm import for files of them",
        )
    return documents[0]


def read_documents(body: str | None) -> list[dict[str, Any]]:
    """The documents that were given: one, a list of them, or one a line. Raises InvalidRequestError with the place."""
    text = read_text(body)
    try:
        value = json.parse(text)
    except InvalidRequestError:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        if len(lines) < 2:
            raise
        found = [_line(number, line) for number, line in lines]
    else:
        found = value if isinstance(value, list) else [value]
    for place, document in enumerate(found, 1):
        if not isinstance(document, dict):
            raise InvalidRequestError(
                f"document {place}: {json.encode(document).decode()!r:.{_SHOWN}}",
                reason="a document is a JSON object",
                fix='write {"id": "a", "name": "Ada"}; quote it for the shell',
            )
    return found


def read_update(body: str | None) -> dict[str, Any]:
    """The operators of an update. Raises InvalidRequestError for anything but an object of them."""
    update = json.parse(read_text(body), operators=True)
    if not isinstance(update, dict) or not update or not all(name.startswith("$") for name in update):
        raise InvalidRequestError(
            f"update {json.encode(update).decode() if not isinstance(update, dict) else list(update)!r:.{_SHOWN}}",
            reason="an update is an object of operators",
            fix='write {"$set": {"status": "active"}}; worm put replaces a whole document',
        )
    return update


def _line(number: int, line: str) -> Any:
    try:
        return json.parse(line)
    except WormError as error:
        raise InvalidRequestError(f"line {number}: {error.what}", reason=error.reason, fix=error.fix) from error


def read_text(body: str | None) -> str:
    """What was written, or is in the file of @FILE, or comes by standard input for - and None.

    Raises InvalidRequestError for what cannot be read, and for standard input that is a terminal.
    """
    if body is not None and body.startswith("@"):
        try:
            return Path(body[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise InvalidRequestError(f"file {body[1:]!r}", reason=f"it cannot be read: {error}") from error
    if body not in {None, "-"}:
        assert body is not None
        return body
    if sys.stdin.isatty():
        raise InvalidRequestError(
            "nothing is given", reason="standard input is a terminal", fix="write it as JSON, or as @FILE"
        )
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeError as error:
        raise InvalidRequestError("standard input", reason=f"it is not UTF-8: {error}") from error


def read_past_id(database: Database, collection: Collection[Document], text: str) -> Any:
    """The id that a text stands for, of a document that is there or was.

    Costs as `get_history` for each way to read it.

    Raises NotFoundError if there never was such a document, or it was erased; InvalidRequestError if it may be several.
    """
    found = []
    for identity in readings(text, model_of(database, collection)):
        with suppress(InvalidRequestError, ErasedError):
            found += [identity] if collection.get_history(identity) else []
    if len(found) == 1:
        return found[0]
    if found:
        forms = "; ".join(exact_id(identity) for identity in found)
        raise InvalidRequestError(f"{text!r:.100} is the id of {len(found)} documents", fix=f"write one of: {forms}")
    raise NotFoundError(
        f"document {text!r:.100} in {collection.name}", reason="there is no such document, and never was"
    )


def read_id(
    database: Database, collection: Collection[Document], text: str | None, *, as_of: int | str | None = None
) -> tuple[Any, Document]:
    """The id that a text stands for, and its document. Costs as `find_by_id` for each way to read it.

    Raises NotFoundError if there is no such document, InvalidRequestError if it may be several.
    """
    model = model_of(database, collection)
    if text is None and (model is None or not model.is_singleton):
        raise click.UsageError("Missing argument 'ID'.")
    refusals: list[InvalidRequestError] = []
    found = []
    ways = readings(text or "", model)
    for identity in ways:
        try:
            document = collection.find_by_id(identity, as_of=as_of)
        except InvalidRequestError as error:
            refusals.append(error)
            continue
        if document is not None:
            found.append((identity, document))
    if len(found) == 1:
        return found[0]
    if found:
        forms = "; ".join(exact_id(identity) for identity, _ in found)
        raise InvalidRequestError(f"{text!r:.100} is the id of {len(found)} documents", fix=f"write one of: {forms}")
    if len(refusals) == len(ways):
        raise refusals[0]
    raise NotFoundError(
        f"document {text!r:.100} in {collection.name}",
        reason="it does not exist",
        fix="worm table query shows those there are; worm history shows deleted ones",
    )
