"""BUCKET.* commands about documents: INSERT, QUERY, UPDATE, DELETE, and the cursors that go on with them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from wormdb.bql.parse import parse_filter
from wormdb.bql.sorting import parse_sort, sort_key
from wormdb.errors import InvalidRequestError, WormError
from wormdb.format import json
from wormdb.server.commands import Command
from wormdb.server.documents import read_document, read_filter, show_ids, show_rows, written_filter
from wormdb.server.faults import unknown_argument
from wormdb.server.options import QueryOptions, read_options
from wormdb.server.replies import OK, ErrorReply, ReplyFields
from wormdb.server.routing import HandedWrite
from wormdb.server.session import SessionCursor
from wormdb.server.updates import ChangeBatches, RowParts, read_update

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.server.buckets import ServedBucket
    from wormdb.server.session import BatchSource, ClientSession, CursorKind
    from wormdb.server.updates import RowBatches

__all__ = ["BATCH_BYTES_MAX", "DOCUMENT_COMMANDS", "ask", "check_filter"]

_QUERY_OPTIONS: Final = frozenset({"SORTBY", "RESULTSORT", "PROJECTION", "LIMIT", "COLLATION"})
_KINDS: Final = ("QUERY", "UPDATE", "DELETE")
_PART_ROWS_MAX: Final = 100
BATCH_BYTES_MAX: Final = 32 << 20
"""Rows of a batch; it is shorter than its limit if they are large. Only an empty one is the end."""
_NAMES: Final = {"QUERY": "entries", "UPDATE": "object_ids", "DELETE": "object_ids"}


def insert(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.INSERT bucket DOCS document …."""
    bucket = session.bucket(words[1])
    if words[2].upper() != b"DOCS":
        raise unknown_argument(words[2].decode("utf-8", "replace").upper())
    if len(words) < 4:
        raise ErrorReply("No documents provided")
    make = session.service.object_id
    form = session.attributes.input_type
    read = [read_document(word, form) for word in words[3:]]
    bucket.check_there()
    store = session.service.database.store
    documents = [bucket.identified(document, make, store) for document in read]
    given = [document.get("_id", document.get("id")) for document in documents]
    handed = HandedWrite(
        lambda: [b"INSERT", form.encode(), json.encode(given), *words[3:]], None if bucket.has_model else given
    )

    def here(metadata: Mapping[str, Any] | None) -> list[Any]:
        more: Any = {} if metadata is None else {"metadata": metadata}
        return session.collection(bucket).insert_many(documents, **more)

    return show_ids(session.write(bucket, handed, here), session.attributes.object_id_format)


# --- queries ---


def check_filter(tree: dict[str, Any]) -> None:
    """An ErrorReply that begins as Kronotop's do, for a filter with mistakes."""
    try:
        parse_filter(tree)
    except WormError as error:
        raise ErrorReply(f"BQL parse error: {error}") from error


def ask(session: ClientSession, words: list[bytes]) -> tuple[ServedBucket, dict[str, Any], QueryOptions]:
    """The bucket, the filter and the options of a query. What is wrong with the filter is told by who reads it."""
    bucket = session.bucket(words[1])
    options = (
        read_options(session, words[3:], _QUERY_OPTIONS) if len(words) > 3 else QueryOptions(session.attributes.limit)
    )
    return bucket, read_filter(words[2]), options


class _QueryBatches:
    """The batches of a query, as a reply has them: rows up to the limit, and up to a number of bytes."""

    def __init__(self, cursor: RowBatches, session: ClientSession, options: QueryOptions) -> None:
        self._cursor = cursor
        self._session = session
        self._limit = options.limit
        self._result_sort = options.result_sort
        self._rows: list[bytes] = []
        """Read and not given out yet; an error on the way leaves them here."""
        self._is_read = False

    @property
    def is_over(self) -> bool:
        return self._is_read and not self._rows

    def next_batch(self) -> list[Any]:
        size = 0
        while len(self._rows) < self._limit and size < BATCH_BYTES_MAX and not self._is_read:
            some = self._cursor.next_batch()
            self._is_read = len(some) < self._cursor.batch_size
            size += sum(map(len, some))
            self._rows += some
        rows, self._rows = self._rows[: self._limit], self._rows[self._limit :]
        if self._result_sort is not None:
            rows = _sorted(rows, self._result_sort)
        return show_rows(rows, self._session.attributes.reply_type)

    def close(self) -> None:
        self._cursor.close()


def _sorted(rows: list[bytes], order: str) -> list[bytes]:
    key = sort_key(parse_sort([order]))

    def of(row: bytes) -> bytes:
        values = json.decode_document(row, name="row")
        return key({"_id": values.pop("id", None), **values})

    return sorted(rows, key=of)


def query(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.QUERY bucket filter …."""
    bucket, tree, options = ask(session, words)
    try:
        reader = _rows(session, bucket, tree, options)
    except InvalidRequestError:
        check_filter(tree)
        raise
    return _first("QUERY", session, bucket, tree, _QueryBatches(reader, session, options))


def _rows(session: ClientSession, bucket: ServedBucket, tree: dict[str, Any], options: QueryOptions) -> RowBatches:
    size = min(options.limit, _PART_ROWS_MAX)
    if session.transaction is not None:
        bucket.check_there()
        rows = session.collection(bucket).find(tree, sort=options.sort, select=options.projection, raw=True)
        return RowParts(iter(rows), size)
    number = session.fresh_number(bucket)
    return bucket.collection.cursor(
        tree,
        sort=options.sort,
        select=options.projection,
        batch_size=size,
        at_least=None if number < 0 else number,
        raw=True,
    )


def _first(
    kind: CursorKind, session: ClientSession, bucket: ServedBucket, tree: dict[str, Any], batches: BatchSource
) -> ReplyFields:
    """The first batch of a cursor, and its id. One that came short is at its end, and holds nothing any more."""
    rows = batches.next_batch()
    is_over = not rows or batches.is_over
    if is_over:
        batches.close()
    cursor = SessionCursor(kind, partial(written_filter, tree), bucket, None if is_over else batches)
    return ReplyFields({"cursor_id": session.keep(cursor), _NAMES[kind]: rows})


def change(kind: CursorKind, session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.UPDATE bucket filter update …, BUCKET.DELETE bucket filter …."""
    bucket = session.bucket(words[1])
    is_update = kind == "UPDATE"
    allowed = {"LIMIT", "COLLATION", "SORTBY"} if is_update else {"LIMIT", "COLLATION"}
    options = read_options(session, words[4 if is_update else 3 :], allowed)
    tree = read_filter(words[2])
    check_filter(tree)
    update = read_update(words[3], tree) if is_update else None
    bucket.check_there()
    batches = ChangeBatches(bucket, tree, update, options, session, words)
    return _first(kind, session, bucket, tree, batches)


# --- cursors ---


def _kind(word: bytes) -> CursorKind:
    name = word.upper().decode("utf-8", "replace")
    if name not in _KINDS:
        raise ErrorReply(f"Unknown '{word.decode('utf-8', 'replace')}' action")
    return cast("CursorKind", name)


def _number(word: bytes) -> int:
    if not word.isdigit() or len(word) > 18:
        raise ErrorReply("cursor id must be a positive integer")
    return int(word)


def advance(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.ADVANCE kind id."""
    kind, number = _kind(words[1]), _number(words[2])
    cursor = session.cursor(kind, number)
    cursor.bucket.check_there()
    rows = [] if cursor.source is None else cursor.source.next_batch()
    if not rows:
        cursor.close()
    return ReplyFields({"cursor_id": number, _NAMES[kind]: rows})


def close(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.CLOSE kind id."""
    kind, number = _kind(words[1]), _number(words[2])
    found = session.cursors.get(number)
    if found is None or found.kind != kind:
        raise ErrorReply("no cursor found")
    session.cursors.pop(number).close()
    return OK


def cursors(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.CURSORS [kind]."""
    kinds = _KINDS if len(words) == 1 else (_kind(words[1]),)
    return {
        kind: {number: each.filter() for number, each in session.cursors.items() if each.kind == kind} for kind in kinds
    }


_SORT = "[SORTBY field ASC|DESC]"
_QUERY_SYNTAX = f"bucket filter {_SORT} [RESULTSORT field ASC|DESC] [PROJECTION spec] [LIMIT n]"
_QUERY = Command(
    "BUCKET.QUERY",
    _QUERY_SYNTAX,
    "Documents that a filter finds, a batch of them, with a cursor for the next.",
    query,
    least=2,
    place="read",
    bucket_at=1,
    group="bucket",
)

DOCUMENT_COMMANDS: Final = (
    Command(
        "BUCKET.INSERT",
        "bucket DOCS document [document …]",
        "Insert documents, all or none; their ids.",
        insert,
        least=2,
        place="thread",
        is_write=True,
        bucket_at=1,
        group="bucket",
    ),
    _QUERY,
    Command(
        "QUERY",
        _QUERY_SYNTAX,
        "The same as BUCKET.QUERY.",
        query,
        least=2,
        place="read",
        bucket_at=1,
        group="bucket",
    ),
    Command(
        "BUCKET.UPDATE",
        f"bucket filter update {_SORT} [LIMIT n]",
        "Change documents that a filter finds, one batch by one commit; the ids of those that changed.",
        partial(change, "UPDATE"),
        least=3,
        place="thread",
        is_write=True,
        bucket_at=1,
        group="bucket",
    ),
    Command(
        "BUCKET.DELETE",
        "bucket filter [LIMIT n]",
        "Delete documents that a filter finds, one batch by one commit; their ids.",
        partial(change, "DELETE"),
        least=2,
        place="thread",
        is_write=True,
        bucket_at=1,
        group="bucket",
    ),
    Command(
        "BUCKET.ADVANCE",
        "QUERY|UPDATE|DELETE cursor",
        "The next batch of a cursor; an empty one is the end.",
        advance,
        least=2,
        most=2,
        place="thread",
        group="bucket",
    ),
    Command(
        "BUCKET.CLOSE",
        "QUERY|UPDATE|DELETE cursor",
        "Give up a cursor.",
        close,
        least=2,
        most=2,
        group="bucket",
    ),
    Command(
        "BUCKET.CURSORS",
        "[QUERY|UPDATE|DELETE]",
        "The cursors of this session, with their filters.",
        cursors,
        most=1,
        group="bucket",
    ),
)
