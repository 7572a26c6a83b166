"""BUCKET.INDEX: indexes made, listed, described, dropped and measured, in Kronotop's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wormdb.api.create import create_indexes
from wormdb.api.indexes import read_index, read_text_index, read_vector_index
from wormdb.bql.nearest import DISTANCES
from wormdb.errors import AlreadyExistsError, InvalidRequestError, MissingExtraError, NotFoundError
from wormdb.format.bson_types import bson_type_of, stored_in_model
from wormdb.server.commands import Command, refuse_bare
from wormdb.server.documents import read_object
from wormdb.server.index_names import shown_name, stored_name
from wormdb.server.replies import OK, ErrorReply
from wormdb.settings import VECTOR_DIMENSIONS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.api.status import IndexDescription
    from wormdb.engine.state.indexes import IndexStatus
    from wormdb.engine.tree.definition import Index
    from wormdb.server.buckets import ServedBucket
    from wormdb.server.session import ClientSession

__all__ = ["INDEX_COMMANDS", "read_schemas"]

_PRIMARY: Final = "_id"
_FIELDS_MAX: Final = 32
_TYPES: Final = frozenset(
    {"string", "int", "long", "double", "bool", "date", "timestamp", "binData", "objectId", "decimal"}
)

_TEXT_OPTIONS: Final = ("fields", "language", "stop_words", "name")


# --- schemas of indexes ---


def read_schemas(data: bytes) -> list[Index]:
    """The indexes that a schema wants. An ErrorReply for a schema that cannot be."""
    schema = read_object(data, "index schema")
    if not schema:
        raise ErrorReply("Index schemas cannot be empty")
    indexes: list[Index] = []
    for name, value in schema.items():
        if name == "$compound":
            indexes += [_compound(each) for each in (value if isinstance(value, list) else [value])]
        elif name == "$vector":
            indexes.append(_vector(value))
        elif name == "$text":
            indexes.append(_text(value))
        elif name.startswith("$"):
            raise ErrorReply(f"Unknown directive: {name}")
        else:
            indexes.append(_single(name, value))
    return indexes


def _single(selector: str, schema: Any) -> Index:
    if not isinstance(schema, dict):
        raise ErrorReply("Invalid index schema")
    alias = _type_of(schema)
    _refuse_collation(schema)
    unique = _flag(schema, "unique")
    if unique and _flag(schema, "multi_key"):
        raise ErrorReply("A unique index cannot be multi-key")
    name = schema.get("name") or f"selector:{selector}.bsonType:{stored_in_model(alias).upper()}"
    return _index([selector], name, [alias], unique=unique)


def _compound(schema: Any) -> Index:
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise ErrorReply("Invalid index schema")
    fields = schema["fields"]
    if not all(isinstance(each, dict) and isinstance(each.get("selector"), str) for each in fields):
        raise ErrorReply("Invalid index schema")
    if len(fields) < 2:
        raise ErrorReply("Compound index requires at least 2 fields")
    if len(fields) > _FIELDS_MAX:
        raise ErrorReply(f"Compound index supports at most {_FIELDS_MAX} fields")
    _refuse_collation(schema)
    selectors = [each["selector"] for each in fields]
    for selector in selectors:
        if selectors.count(selector) > 1:
            raise ErrorReply(f"Duplicate selector in compound index: '{selector}'")
    if sum(_flag(each, "multi_key") for each in fields) > 1:
        raise ErrorReply("Compound index allows at most one multi-key field")
    aliases = [_type_of(each) for each in fields]
    parts = [f"{path}.{stored_in_model(alias).upper()}" for path, alias in zip(selectors, aliases, strict=True)]
    return _index(
        selectors, schema.get("name") or f"compound:{'_'.join(parts)}", aliases, unique=_flag(schema, "unique")
    )


def _vector(schema: Any) -> Index:
    if not isinstance(schema, dict) or not isinstance(field := schema.get("field"), str):
        raise ErrorReply("Invalid index schema")
    dimensions, distance = schema.get("dimensions"), schema.get("distance")
    if isinstance(dimensions, bool) or not isinstance(dimensions, int) or not isinstance(distance, str):
        raise ErrorReply("Invalid index schema")
    if dimensions < 1:
        raise ErrorReply(f"Vector index 'dimensions' must be >= 1, got {dimensions}")
    if dimensions > VECTOR_DIMENSIONS_MAX:
        raise ErrorReply(f"Vector index 'dimensions' must be <= {VECTOR_DIMENSIONS_MAX}, got {dimensions}")
    if distance.lower() not in DISTANCES:
        raise ErrorReply(f"Unknown distance function: {distance}")
    name = schema.get("name") or f"vector:{field}.dimensions:{dimensions}.distance:{distance.upper()}"
    if not isinstance(name, str):
        raise ErrorReply("Invalid index schema")
    try:
        return read_vector_index(field, stored_name(name), dimensions, distance.lower())
    except InvalidRequestError as error:
        raise ErrorReply(str(error)) from error


def _text(schema: Any) -> Index:
    """Of words, which Kronotop has none of: as `Collection.create_text_index`."""
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise ErrorReply("Invalid index schema")
    unknown = [name for name in schema if name not in _TEXT_OPTIONS]
    name = schema.get("name")
    if unknown or not isinstance(name, str | None):
        raise ErrorReply("Invalid index schema")
    try:
        return read_text_index(
            schema["fields"], name, language=schema.get("language"), stop_words=schema.get("stop_words")
        )
    except (InvalidRequestError, MissingExtraError) as error:
        raise ErrorReply(str(error)) from error


def _index(fields: list[str], name: Any, aliases: list[str], *, unique: bool) -> Index:
    if not isinstance(name, str):
        raise ErrorReply("Invalid index schema")
    try:
        # Null and missing count as a value, as Kronotop has it: so the index leaves no document out.
        return read_index(fields, stored_name(name), unique=unique, sparse=False, bson_type=aliases)
    except InvalidRequestError as error:
        raise ErrorReply(str(error)) from error


def _type_of(schema: dict[str, Any]) -> str:
    written = schema.get("bson_type")
    if written is None:
        raise ErrorReply("'bson_type' cannot be null")
    alias = bson_type_of(written)
    if alias not in _TYPES:
        raise ErrorReply(f"Unknown BSON type: {written}")
    assert alias is not None
    return alias


def _flag(schema: dict[str, Any], name: str) -> bool:
    value = schema.get(name, False)
    if not isinstance(value, bool):
        raise ErrorReply("Invalid index schema")
    return value


def _refuse_collation(schema: dict[str, Any]) -> None:
    if schema.get("collation"):
        raise ErrorReply("COLLATION is not supported: texts are compared by their code points")


# --- commands ---


def _bucket(session: ClientSession, words: list[bytes]) -> ServedBucket:
    bucket = session.bucket(words[2])
    bucket.check_there()
    return bucket


def _named(words: list[bytes]) -> tuple[str, str]:
    shown = words[3].decode("utf-8", "replace")
    return shown, stored_name(shown)


def create(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.INDEX CREATE bucket schema."""
    wanted = read_schemas(words[3])
    bucket = _bucket(session, words)
    bucket.collection.refresh()
    there = bucket.view.definition.indexes
    for index in wanted:
        _check_free(index, there)
    try:
        create_indexes(bucket.collection, wanted)
    except AlreadyExistsError as error:
        raise ErrorReply(f"'{shown_name(wanted[0].name)}' has already exist") from error
    session.service.build(bucket)
    return OK


def _check_free(index: Index, there: Iterable[IndexStatus]) -> None:
    for each in there:
        known = each.index
        if each.state == "dropped" or known.is_owners:
            continue
        if known.name == index.name:
            raise ErrorReply(f"'{shown_name(index.name)}' has already exist")
        if (known.kind, known.fields) != (index.kind, index.fields) or each.state == "failed":
            continue
        if index.kind == "text":
            raise ErrorReply(f"A text index on the same fields already exists: '{shown_name(known.name)}'")
        if index.kind == "vector":
            raise ErrorReply(f"A vector index on field '{index.fields[0]}' already exists")
        if len(index.fields) == 1:
            raise ErrorReply(f"An index on field '{index.fields[0]}' already exists")
        raise ErrorReply(f"A compound index on the same fields already exists: '{shown_name(known.name)}'")


def list_(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.INDEX LIST bucket."""
    return [shown_name(each.name) for each in _bucket(session, words).collection.indexes()]


def describe(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.INDEX DESCRIBE bucket index."""
    found = _described(_bucket(session, words), words)
    if found.type == "vector":
        return _described_vector(found)
    if found.type == "text":
        return _described_text(found)
    types = [stored_in_model(alias).upper() for alias in found.bson_types] or [""] * len(found.fields)
    is_compound = len(found.fields) > 1
    about: dict[str, Any] = {"index_type": "compound" if is_compound else "single_field", "id": shown_name(found.name)}
    if is_compound:
        about["fields"] = [
            {"selector": path, "bson_type": kind} for path, kind in zip(found.fields, types, strict=True)
        ]
    else:
        about |= {"selector": found.fields[0], "bson_type": "OBJECTID" if found.name == _PRIMARY else types[0]}
    about |= {"status": found.state.upper(), "unique": found.unique, "collation": {}}
    return {**about, "statistics": {"cardinality": found.entries, "distinct": found.distinct}}


def _described_vector(found: IndexDescription) -> dict[str, Any]:
    options = found.options or {}
    return {
        "index_type": "vector",
        "id": shown_name(found.name),
        "selector": found.fields[0],
        "dimensions": options.get("dimensions"),
        "distance": str(options.get("distance")).upper(),
        "status": found.state.upper(),
        "statistics": {"cardinality": found.entries} | ({} if found.recall is None else {"recall": found.recall}),
    }


def _described_text(found: IndexDescription) -> dict[str, Any]:
    options = found.options or {}
    return {
        "index_type": "text",
        "id": shown_name(found.name),
        "fields": options.get("fields"),
        "language": options.get("language"),
        "stop_words": options.get("stop_words", []),
        "status": found.state.upper(),
        "statistics": {"cardinality": found.entries},
    }


def _described(bucket: ServedBucket, words: list[bytes]) -> IndexDescription:
    shown, stored = _named(words)
    try:
        return bucket.collection.describe_index(stored)
    except NotFoundError:
        raise ErrorReply(f"No such index: '{shown}'", "NOSUCHINDEX") from None


def drop(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.INDEX DROP bucket index."""
    bucket = _bucket(session, words)
    found = _described(bucket, words)
    if found.name == _PRIMARY:
        raise ErrorReply("Cannot drop the primary index")
    if found.state == "dropped":
        raise ErrorReply("Index is already in the 'DROPPED' status")
    bucket.collection.drop_index(found.name)
    return OK


def analyze(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.INDEX ANALYZE bucket index."""
    bucket = _bucket(session, words)
    found = _described(bucket, words)
    if found.state != "ready":
        raise ErrorReply(f"Cannot analyze index: index is not in READY state (current={found.state.upper()})")
    bucket.collection.analyze_index(found.name)
    return OK


_TASKS: Final = {"waiting": "WAITING", "building": "RUNNING", "failed": "FAILED"}


def tasks(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.INDEX TASKS bucket index."""
    bucket = _bucket(session, words)
    found = _described(bucket, words)
    if found.state == "ready" and (found.is_renewed or found.is_outgrown):
        status = "RUNNING" if found.is_renewed else "WAITING"
        return {f"renew-{shown_name(found.name)}": {"kind": "RENEW", "status": status, "error": ""}}
    if found.state not in _TASKS:
        return {}
    task = {"kind": "BUILD", "status": _TASKS[found.state], "error": found.reason or ""}
    return {f"build-{shown_name(found.name)}": task}


def _subcommand(name: str, syntax: str, summary: str, run: Any, *, count: int, is_write: bool = False) -> Command:
    return Command(
        name,
        syntax,
        summary,
        run,
        least=count,
        most=count,
        place="thread",
        is_write=is_write,
        bucket_at=2,
        group="index",
    )


INDEX_COMMANDS: Final = (
    Command(
        "BUCKET.INDEX",
        "CREATE|LIST|DESCRIBE|DROP|ANALYZE|TASKS bucket …",
        "Make, list, describe, drop and measure the indexes of a bucket.",
        refuse_bare,
        least=1,
        group="index",
        subcommands=(
            _subcommand(
                "CREATE",
                "bucket schema",
                "Make indexes; they are built in the background.",
                create,
                count=2,
                is_write=True,
            ),
            _subcommand("LIST", "bucket", "The names of the indexes.", list_, count=1),
            _subcommand("DESCRIBE", "bucket index", "One index in detail.", describe, count=2),
            _subcommand("DROP", "bucket index", "Drop an index.", drop, count=2, is_write=True),
            _subcommand(
                "ANALYZE", "bucket index", "Measure an index, for the planner.", analyze, count=2, is_write=True
            ),
            _subcommand("TASKS", "bucket index", "What is still to be done for an index.", tasks, count=2),
        ),
    ),
)
