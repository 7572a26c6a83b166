"""Names and arguments of pymongo that are not here: the error says what to write instead.

A program that comes from pymongo meets them line by line. What is here under the same name needs no line in this
module; `docs/coming-from-mongodb.md` has the whole table.
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "ARGUMENTS",
    "NAMES",
    "PymongoNames",
    "UnknownArgumentError",
    "UnknownNameError",
    "explained",
    "refuse_unknown_argument",
    "unknown_name",
]

F = TypeVar("F", bound="Callable[..., Any]")


class UnknownNameError(InvalidRequestError, AttributeError):
    """There is no such name here; the fix says what there is."""


class UnknownArgumentError(InvalidRequestError, TypeError):
    """A call has no such argument here; the fix says what to do."""


_AGAIN: Final = "leave it out: results are asked anew each time that they are gone through"
_HINT: Final = 'leave it out: the planner chooses; explain() shows it, and find(…, strategy="full_scan") forces one'
_SECONDS: Final = "give the call its seconds: find(…, timeout=0.5)"
_TRANSACTION: Final = "use db.transaction(), or db.run(work)"
_CONCERN: Final = "leave it out: a write that returns is stored for good, and a read sees it"

NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "Database": {
        "get_collection": 'write db["orders"]',
        "create_collection": 'write db["orders"]: a collection is there with its first document',
        "drop_collection": 'write db.drop("orders")',
        "list_collections": "write db.list_collection_names(), or db.status()",
        "validate_collection": "write db.verify()",
        "dereference": "use populate in find",
        "command": "there are no commands: db.status() and db.cost() tell what a server would",
        "cursor_command": "there are no commands: db.status() and db.cost() tell what a server would",
        "next": "go through db.list_collection_names()",
        "read_concern": _CONCERN,
        "aggregate": "call it on a collection",
        "watch": "call watch() on each collection",
        "client": "wormdb.connect(url) is both: one database, closed by db.close()",
        "name": "write db.url",
        "codec_options": "leave it out: values are read as they were written",
        "read_preference": _CONCERN,
        "write_concern": _CONCERN,
        "with_options": "call it on a collection",
        "start_session": _TRANSACTION,
        "list_database_names": "a database is a folder of a bucket: connect to each",
        "drop_database": "drop its collections: for name in db.list_collection_names(): db.drop(name)",
        "admin": "there is no server to administer: db.status() and `worm doctor URL` tell how it is",
        "server_info": "there is no server; wormdb.__version__ is the library's",
    },
    "Collection": {
        "drop": "write db.drop(collection.name)",
        "rename": "write db.rename(old, new)",
        "remove": "write delete_one(filter) or delete_many(filter)",
        "update": "write update_one(filter, update), update_many(filter, update) or save(document)",
        "find_and_modify": "write find_one_and_update(filter, update)",
        "ensure_index": "write create_index(fields)",
        "create_indexes": "call create_index(fields) for each",
        "list_indexes": "write indexes()",
        "index_information": "write indexes()",
        "drop_indexes": "call drop_index(name) for each of indexes()",
        "reindex": "write build_index(name), or `worm table rebuild`",
        "options": "write db.status([collection.name])",
        "full_name": "write collection.prefix",
        "database": "keep the database that you connected to",
        "map_reduce": 'write aggregate([{"$group": …}]), or a table: find(…).to_arrow()',
        "inline_map_reduce": 'write aggregate([{"$group": …}]), or a table: find(…).to_arrow()',
        "group": 'write aggregate([{"$group": …}])',
        "parallel_scan": "write scan(), or use Spark",
        "find_raw_batches": "write find(…, raw=True)",
        "aggregate_raw_batches": "write aggregate(…)",
        "initialize_ordered_bulk_op": "write bulk_write([…]), or with collection.batch() as batch",
        "initialize_unordered_bulk_op": "write bulk_write([…]), or with collection.batch() as batch",
        "create_search_index": "write create_text_index(fields) or create_vector_index(field, dimensions=…)",
        "create_search_indexes": "call create_text_index(fields) or create_vector_index(field, dimensions=…) for each",
        "update_search_index": "write drop_index(name), then create_text_index(fields)",
        "next": "a collection is gone through by find(): for document in collection.find()",
        "list_search_indexes": "write indexes()",
        "drop_search_index": "write drop_index(name)",
        "codec_options": "leave it out: values are read as they were written",
        "read_preference": _CONCERN,
        "write_concern": _CONCERN,
        "read_concern": _CONCERN,
    },
    "Results": {
        "next": "write find_one(…), found.first(), or next(iter(found))",
        "rewind": _AGAIN,
        "clone": _AGAIN,
        "alive": _AGAIN,
        "retrieved": "count the rows while you go through them",
        "distinct": "write collection.distinct(field, filter)",
        "batch_size": "leave it out, or write collection.cursor(filter, batch_size=100)",
        "hint": _HINT,
        "max_time_ms": _SECONDS,
        "max_await_time_ms": "write watch(follow=True, poll_seconds=1)",
        "comment": "leave it out: no server keeps a list of queries",
        "close": "leave it out: results hold nothing open; a cursor does",
        "cursor_id": "write collection.cursor(filter), whose token goes on in another process",
        "session": _TRANSACTION,
        "collection": "keep the collection that you asked",
        "allow_disk_use": "leave it out",
        "collation": "keep a field in small letters, and sort by that",
        "where": "write a filter: conditions in JavaScript are not there",
        "max": 'write a condition: {"field": {"$lt": value}}',
        "min": 'write a condition: {"field": {"$gte": value}}',
        "max_scan": "write find(…, max_scanned=10_000)",
        "add_option": "leave it out",
        "remove_option": "leave it out",
    },
    "UpdateResult": {"raw_result": "write matched_count, modified_count, upserted_id"},
    "DeleteResult": {"raw_result": "write deleted_count"},
    "BulkWriteResult": {
        "bulk_api_result": "write inserted_count, matched_count, modified_count, deleted_count, upserted_ids"
    },
    "ChangeStream": {
        "try_next": "write next(stream, None): without follow it ends with the newest change",
        "next": "write next(stream)",
        "resume_token": "write stream.resume",
        "alive": "leave it out: next(stream) ends it",
    },
}
"""By class what pymongo has and we have not, and what to write instead."""

ARGUMENTS: Final[Mapping[str, str]] = {
    "ordered": "leave it out: all of them are written, in one step, or none",
    "bypass_document_validation": "leave it out: a model counts for every write",
    "session": "leave it out; in a transaction call it on tx[name]: with db.transaction() as tx",
    "let": "leave it out",
    "comment": "leave it out; metadata={…} of a write is kept with the change",
    "collation": "keep a field in small letters, and ask for that",
    "hint": _HINT,
    "projection": "it is called 'select' here",
    "max_time_ms": "give seconds: timeout=0.5",
    "maxTimeMS": "give seconds: timeout=0.5",
    "allowDiskUse": "leave it out",
    "allow_disk_use": "leave it out",
    "allow_partial_results": "leave it out: an answer is whole, or an error",
    "batchSize": "leave it out",
    "batch_size": "leave it out, or use collection.cursor(filter, batch_size=100)",
    "no_cursor_timeout": "leave it out",
    "cursor_type": "use watch(follow=True)",
    "show_record_id": "leave it out",
    "return_key": "leave it out",
    "background": "leave it out: writers and readers go on while an index is built; wait=False does not wait for it",
    "partialFilterExpression": "leave it out: a sparse index has the documents with the field",
    "collectionName": "leave it out",
    "hidden": "leave it out",
    "weights": "use create_text_index(fields)",
    "full_document": "leave it out: each change has the documents before and after",
    "full_document_before_change": "leave it out: each change has the documents before and after",
    "start_after": "it is called 'resume_after' here",
    "start_at_operation_time": "give watch a change's resume, or the number of an entry",
    "max_await_time_ms": "give seconds: poll_seconds=1.0",
    "write_concern": _CONCERN,
    "read_concern": _CONCERN,
    "read_preference": _CONCERN,
    "codec_options": "leave it out: values are read as they were written",
    "multi": "use update_many or delete_many",
    "new": 'write return_document="after"',
    "manipulate": "leave it out",
    "limit": "leave it out, or count the rows of find(filter, limit=…)",
    "skip": "leave it out, or count the rows of find(filter, offset=…)",
}
"""Arguments of pymongo that calls have not, and what to do."""


def unknown_name(kind: str, name: str, owner: object) -> UnknownNameError:
    """The error for a name that `owner`, of class `kind`, does not have. No requests."""
    fix = NAMES.get(kind, {}).get(name, "")
    if not fix and kind == "Database" and not name.startswith("_"):
        fix = f'a collection is db["{name}"]'
    error = UnknownNameError(f"{kind!r} object has no attribute {name!r}", fix=fix)
    error.name, error.obj = name, owner  # Python suggests a name that is nearly the same
    return error


class PymongoNames:
    """Tells what to write instead of a name that pymongo has. Costs nothing where a name is there."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker knows every name that is there

        def __getattr__(self, name: str) -> Any:
            kinds = (kind.__name__.removeprefix("Async") for kind in type(self).__mro__)
            raise unknown_name(next((kind for kind in kinds if kind in NAMES), type(self).__name__), name, self)


def _unknown_argument(method: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]) -> Exception | None:
    """The error for a call whose arguments do not fit, if it can say more than Python does. No requests."""
    signature = inspect.signature(method)
    try:
        signature.bind(None, *given, **named)
    except TypeError:
        pass
    else:
        return None
    parameters = signature.parameters
    unknown = [name for name in named if name not in parameters]
    if unknown:
        fix = ARGUMENTS.get(unknown[0])
        if fix is None:
            return None
        return UnknownArgumentError(f"{method.__name__}({unknown[0]}=…)", reason="there is no such argument", fix=fix)
    by_place = [name for name, each in parameters.items() if each.kind in _BY_PLACE][1:]
    by_name = [name for name, each in parameters.items() if each.kind is inspect.Parameter.KEYWORD_ONLY]
    if len(given) <= len(by_place):
        return None
    if not by_name:
        fix = _PLACES.get(method.__name__)
        what = f"{method.__name__}({given[len(by_place)]!r:.40})"
        return None if fix is None else UnknownArgumentError(what, reason="there is no such argument", fix=fix)
    return UnknownArgumentError(
        f"{method.__name__}() with {len(given)} arguments",
        reason=f"it takes {', '.join(by_place) or 'none'} by place, and all others by name",
        fix=f"name them, such as {by_name[0]}=…; there are {', '.join(by_name)}",
    )


_PLACES: Final[Mapping[str, str]] = {"to_list": "write found.limit(100).to_list()"}
"""Calls that take nothing by place here, and what to do."""

_BY_PLACE: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def refuse_unknown_argument(
    method: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any], error: TypeError
) -> None:
    """Raise UnknownArgumentError for a call that Python refused, if there is more to say than it did. No requests."""
    told = _unknown_argument(method, given, named)
    if told is not None:
        raise told from error


def explained(method: F) -> F:
    """A call that says what to do about an argument that pymongo has and it has not."""

    @wraps(method)
    def call(self: object, *given: Any, **named: Any) -> Any:
        try:
            return method(self, *given, **named)
        except TypeError as error:
            refuse_unknown_argument(method, given, named, error)
            raise

    return cast("F", call)
