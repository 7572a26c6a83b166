"""Writes that another server hands to this one: committed here, whatever this server thinks whose they are.

    WORM.WRITE mark number milliseconds folder INSERT input_type ids document [document …]
    WORM.WRITE mark number milliseconds folder UPDATE filter update sort ids
    WORM.WRITE mark number milliseconds folder DELETE filter "" sort ids
    WORM.WRITE mark number milliseconds folder UPSERT filter update limit id

Filters, updates and documents are the words of the client; ids and the sort are extended JSON. The reply is extended
JSON: a log number that has the write, and the ids of what was written. A write is handed on once at most, because this
command never hands on. The mark goes into the metadata of the write, where the server that handed it on finds it if the
reply is lost; that server may withdraw it then (`wormdb.server.withdrawal`), behind the number that it knew.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from wormdb.format import json
from wormdb.server.commands import Command
from wormdb.server.documents import read_document, read_filter
from wormdb.server.replies import ErrorReply
from wormdb.server.routing import NOT_BEGUN
from wormdb.server.session import GLOBAL
from wormdb.server.updates import read_update, upserted
from wormdb.server.withdrawal import MARK, UntoldWriteError, WithdrawnWriteError, commit_marked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.api.collection import Collection
    from wormdb.server.buckets import ServedBucket
    from wormdb.server.session import ClientSession

__all__ = ["HANDED_COMMANDS"]

_MARK: Final = re.compile("[0-9a-f]{32}")


def write(session: ClientSession, words: list[bytes]) -> Any:
    """WORM.WRITE mark number milliseconds folder kind …."""
    mark, number, milliseconds, prefix = (word.decode("utf-8", "replace") for word in words[1:5])
    folder, _, name = prefix.rstrip("/").rpartition("/")
    namespace = folder.replace("/", ".") or GLOBAL
    if not session.account.is_admin or not session.account.may(namespace, write=True):
        raise ErrorReply("only a user of servers may hand on writes", "NOPERM")
    if not milliseconds.isdigit() or not number.isdigit() or len(number) > 18 or not _MARK.fullmatch(mark):
        raise ErrorReply("WORM.WRITE is for servers")
    bucket = session.service.bucket(namespace, name.encode())
    bucket.check_there()
    options = {"metadata": {MARK: mark}, "timeout": int(milliseconds) / 1000}

    def commit(collection: Collection[Any]) -> list[Any]:
        return _carry_out(bucket, collection, words[5].upper(), words[6:], options)

    try:
        ids = commit_marked(bucket.collection, mark, int(number), commit)
    except (WithdrawnWriteError, UntoldWriteError) as error:
        raise ErrorReply(str(error), NOT_BEGUN) from error
    return json.encode([bucket.number, ids])


def _carry_out(
    bucket: ServedBucket, collection: Collection[Any], kind: bytes, rest: Sequence[bytes], options: dict[str, Any]
) -> list[Any]:
    match kind, rest:
        case b"INSERT", (form, ids, *texts) if texts:
            is_json = form == b"json"
            documents = [read_document(text, "json" if is_json else "bson") for text in texts]
            given = json.decode(ids, name="ids")
            if not bucket.has_model:
                documents = [
                    document if "_id" in document or "id" in document else {"_id": identity, **document}
                    for document, identity in zip(documents, given, strict=True)
                ]
            return collection.insert_many(documents, **options)
        case b"UPDATE" | b"DELETE", (filter_, text, sort, ids):
            tree = read_filter(filter_)
            several = {"$and": [tree, {"_id": {"$in": json.decode(ids, name="ids")}}]}
            if kind == b"DELETE":
                return collection.delete_many(several, **options).deleted_ids
            update = read_update(text, tree)
            order = json.decode(sort, name="sort")
            return collection.update_many(
                several, update.operators, array_filters=update.array_filters, sort=order, **options
            ).modified_ids
        case b"UPSERT", (filter_, text, limit, made) if limit.isdigit():
            tree = read_filter(filter_)
            update = read_update(text, tree)
            operators, identity = update.operators, json.decode(made, name="id")
            if identity is not None:
                operators = {**operators, "$setOnInsert": {"_id": identity, **operators.get("$setOnInsert", {})}}
            return upserted(
                collection.update_many(
                    tree, operators, array_filters=update.array_filters, upsert=True, limit=int(limit), **options
                )
            )
        case _:
            raise ErrorReply("WORM.WRITE is for servers")


HANDED_COMMANDS: Final = (
    Command(
        "WORM.WRITE",
        "mark number milliseconds folder INSERT|UPDATE|DELETE|UPSERT …",
        "Of servers among themselves: commit a write that arrived at another one.",
        write,
        least=7,
        place="handed",
        is_write=True,
        group="server",
    ),
)
