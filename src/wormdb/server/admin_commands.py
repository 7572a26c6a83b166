"""Commands about buckets, namespaces and sessions as such."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from wormdb.api.create import create_collection
from wormdb.errors import AlreadyExistsError
from wormdb.jobs.node.shards import SHARDS, name_shards
from wormdb.server.bucket_options import propose_ids, settle_ids
from wormdb.server.commands import Command, refuse_bare
from wormdb.server.faults import unknown_argument, unsupported_argument
from wormdb.server.index_commands import read_schemas
from wormdb.server.namespaces import (
    check_inhabited,
    check_kept,
    check_namespace,
    create_namespace,
    has_namespace,
    list_buckets,
    list_namespaces,
)
from wormdb.server.removal_commands import allowed_namespace, purge_namespace, refuse_move, remove_namespace
from wormdb.server.replies import OK, ErrorReply
from wormdb.server.session import GLOBAL

if TYPE_CHECKING:
    from wormdb.engine.tree.definition import Index
    from wormdb.server.bucket_options import IdRule
    from wormdb.server.session import ClientSession

__all__ = ["ADMIN_COMMANDS"]


def create(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.CREATE bucket …."""
    bucket = session.bucket(words[1])
    wanted = _creation(words[2:])
    store = session.service.database.store
    chance = session.service.chance
    check_kept(store, session.namespace)
    if bucket.probe() == 0 and wanted.ids == "any":
        propose_ids(store, bucket.prefix, "any", chance, is_made=lambda: bucket.probe() > 0)
    try:
        create_collection(bucket.collection, wanted.indexes)
    except AlreadyExistsError as error:
        if not wanted.is_lenient:
            raise ErrorReply(f"Bucket already exists: {bucket.name}", "BUCKETALREADYEXISTS") from error
    else:
        # This is the one that made it: whatever others, who came too late or broke off, have written does not count.
        settle_ids(store, bucket.prefix, wanted.ids, chance)
        if wanted.shards:
            name_shards(store, bucket.prefix, wanted.shards)
    session.service.forget(bucket)
    bucket.check_there()
    return OK


@dataclass(slots=True)
class _Creation:
    """The options of BUCKET.CREATE."""

    indexes: list[Index] = field(default_factory=list)
    ids: IdRule = "objectid"
    shards: list[int] = field(default_factory=list)
    is_lenient: bool = False


def _creation(words: list[bytes]) -> _Creation:
    wanted = _Creation()
    at = 0
    while at < len(words):
        word = words[at].decode("utf-8", "replace").upper()
        match word:
            case "IF-NOT-EXISTS":
                wanted.is_lenient = True
                at += 1
            case "INDEXES":
                if at + 1 >= len(words):
                    raise ErrorReply("INDEXES argument must be followed by index schemas")
                wanted.indexes = read_schemas(words[at + 1])
                at += 2
            case "IDS":
                wanted.ids = _id_rule(words[at + 1 : at + 2])
                at += 2
            case "SHARDS":
                wanted.shards = _shards(words, at + 1)
                at += 1 + len(wanted.shards)
            case "COLLATION":
                raise ErrorReply("COLLATION is not supported: texts are compared by their code points")
            case "SORTBY" | "RESULTSORT" | "PROJECTION" | "LIMIT" | "DOCS":
                raise unsupported_argument(word)
            case _:
                raise unknown_argument(word)
    return wanted


def _id_rule(following: list[bytes]) -> IdRule:
    match [word.upper() for word in following]:
        case [b"ANY"]:
            return "any"
        case [b"OBJECTID"]:
            return "objectid"
        case _:
            raise ErrorReply("IDS argument must be followed by OBJECTID or ANY")


def _shards(words: list[bytes], at: int) -> list[int]:
    """Ids of shards; an ErrorReply if there is none, or one that cannot be."""
    found: list[int] = []
    while at < len(words) and words[at].isdigit():
        found.append(int(words[at][:18]))
        if found[-1] >= SHARDS:
            raise ErrorReply(f"No route found for Bucket shard: {found[-1]}")
        at += 1
    if not found:
        raise ErrorReply("SHARDS argument must be followed by shard ids")
    return found


def list_(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """BUCKET.LIST."""
    service, namespace = session.service, session.namespace

    def is_there(name: str) -> bool:
        try:
            return bool(service.bucket(namespace, name.encode()).probe())
        except ErrorReply:  # it is being removed
            return False

    names = list_buckets(service.database.store, namespace)
    # That one was removed is in its log alone, until it is purged.
    pool = service.database._pool  # noqa: SLF001 - this package is a part of the database
    return [name for name, found in zip(names, pool.map(is_there, names), strict=True) if found]


# --- namespaces ---


def namespace_create(session: ClientSession, words: list[bytes]) -> Any:
    """NAMESPACE CREATE path."""
    namespace = allowed_namespace(session, check_namespace(words[2]), write=True)
    if namespace == GLOBAL:
        raise ErrorReply(f"Namespace already exists: {namespace}", "NAMESPACEALREADYEXISTS")
    check_kept(session.service.database.store, namespace)
    create_namespace(session.service.database.store, namespace, session.service.chance)
    return OK


def namespace_use(session: ClientSession, words: list[bytes]) -> Any:
    """NAMESPACE USE path."""
    namespace = allowed_namespace(session, check_namespace(words[2]))
    check_kept(session.service.database.store, namespace)
    check_inhabited(session.service.database.store, namespace)
    session.namespace = namespace
    return OK


def namespace_current(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """NAMESPACE CURRENT."""
    return session.namespace


def namespace_exists(session: ClientSession, words: list[bytes]) -> Any:
    """NAMESPACE EXISTS path."""
    namespace = allowed_namespace(session, check_namespace(words[2]))
    check_kept(session.service.database.store, namespace)
    return int(has_namespace(session.service.database.store, namespace))


def namespace_list(session: ClientSession, words: list[bytes]) -> Any:
    """NAMESPACE LIST [path]."""
    above = check_namespace(words[2]) if len(words) > 2 else None
    if above is not None:
        check_kept(session.service.database.store, allowed_namespace(session, above))
        check_inhabited(session.service.database.store, above)
    found = list_namespaces(session.service.database.store, above)
    prefix = "" if above is None else f"{above}."
    return [name for name in found if session.account.may(prefix + name, write=False)]


# --- sessions ---


def attribute_list(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """SESSION.ATTRIBUTE LIST."""
    mine = session.attributes
    return {
        "reply_type": mine.reply_type,
        "input_type": mine.input_type,
        "limit": mine.limit,
        "object_id_format": mine.object_id_format,
    }


def attribute_set(session: ClientSession, words: list[bytes]) -> Any:
    """SESSION.ATTRIBUTE SET name value."""
    name, value = (word.decode("utf-8", "replace") for word in words[2:4])
    mine, lower = session.attributes, value.lower()
    match name.lower():
        case "reply_type" if lower in ("bson", "json"):
            mine.reply_type = "json" if lower == "json" else "bson"
        case "input_type" if lower in ("bson", "json"):
            mine.input_type = "json" if lower == "json" else "bson"
        case "object_id_format" if lower in ("bytes", "hex"):
            mine.object_id_format = "hex" if lower == "hex" else "bytes"
        case "limit":
            if not value.isdigit() or len(value) > 18 or not int(value):
                raise ErrorReply("'limit' must be greater than 0")
            mine.limit = min(int(value), 9_999)
        case "reply_type":
            raise ErrorReply(f"Invalid reply type: {value}")
        case "input_type":
            raise ErrorReply(f"Invalid input type: {value}")
        case "object_id_format":
            raise ErrorReply(f"Invalid object id format: {value}")
        case _:
            raise ErrorReply(f"Invalid session attribute: '{name}'")
    return OK


def attribute(session: ClientSession, words: list[bytes]) -> Any:
    """SESSION.ATTRIBUTE LIST | SET name value."""
    match words[1].upper(), len(words):
        case b"LIST", 2:
            return attribute_list(session, words)
        case b"SET", 4:
            return attribute_set(session, words)
        case b"LIST" | b"SET", _:
            raise ErrorReply("invalid number of parameters")
        case _:
            raise ErrorReply(f"Invalid subcommand status: {words[1].decode('utf-8', 'replace')}")


def session_close(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """SESSION.CLOSE."""
    session.reset()
    return OK


def _sub(name: str, syntax: str, summary: str, run: Any, *, least: int, most: int) -> Command:
    place: Any = "loop" if name == "CURRENT" else "thread"
    is_write = name in ("CREATE", "REMOVE", "PURGE", "MOVE")
    return Command(
        name, syntax, summary, run, least=least, most=most, place=place, is_write=is_write, group="namespace"
    )


ADMIN_COMMANDS: Final = (
    Command(
        "BUCKET.CREATE",
        "bucket [SHARDS id [id …]] [INDEXES schemas] [IDS OBJECTID|ANY] [IF-NOT-EXISTS]",
        "Make a bucket, with indexes that are ready at once.",
        create,
        least=1,
        place="thread",
        is_write=True,
        bucket_at=1,
        group="bucket",
    ),
    Command("BUCKET.LIST", "", "The buckets of this namespace.", list_, most=0, place="thread", group="bucket"),
    Command(
        "NAMESPACE",
        "CREATE|USE|CURRENT|EXISTS|LIST|REMOVE|PURGE …",
        "Make, choose, list and remove namespaces: folders of buckets.",
        refuse_bare,
        least=1,
        group="namespace",
        subcommands=(
            _sub("CREATE", "path", "Make a namespace.", namespace_create, least=1, most=1),
            _sub("USE", "path", "Work in a namespace from now on.", namespace_use, least=1, most=1),
            _sub("CURRENT", "", "The namespace of this session.", namespace_current, least=0, most=0),
            _sub("EXISTS", "path", "Whether there is a namespace: 1 or 0.", namespace_exists, least=1, most=1),
            _sub("LIST", "[path]", "The namespaces right below one, or at the top.", namespace_list, least=0, most=1),
            _sub("REMOVE", "path", "Remove a namespace with all below it.", remove_namespace, least=1, most=1),
            _sub("PURGE", "path", "Delete what a removed namespace had.", purge_namespace, least=1, most=1),
            _sub("MOVE", "old new", "Refused: a bucket cannot rename folders.", refuse_move, least=2, most=2),
        ),
    ),
    Command(
        "SESSION.ATTRIBUTE",
        "LIST | SET reply_type|input_type|limit|object_id_format value",
        "Show and set how this session wants its documents.",
        attribute,
        least=1,
        group="session",
    ),
    Command(
        "SESSION.CLOSE",
        "",
        "Be as new: cursors, transaction, attributes, namespace, user.",
        session_close,
        most=0,
        group="session",
    ),
)
