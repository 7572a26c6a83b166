"""BUCKET.VECTOR: the documents whose vectors are nearest to a given one, in Kronotop's words."""

from __future__ import annotations

import re
import sys
from array import array
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from wormdb.bql.nearest import Near
from wormdb.errors import InvalidRequestError, WormError
from wormdb.format.kinds import Decimal128
from wormdb.server.bucket_commands import BATCH_BYTES_MAX, check_filter
from wormdb.server.commands import Command
from wormdb.server.documents import read_filter, read_json, show_rows
from wormdb.server.index_names import shown_name
from wormdb.server.options import read_options
from wormdb.server.replies import ErrorReply, ReplyFields
from wormdb.settings import NEAR_ROWS_MAX

if TYPE_CHECKING:
    from wormdb.query.sources.source import VectorFacts
    from wormdb.server.buckets import ServedBucket
    from wormdb.server.options import QueryOptions
    from wormdb.server.session import ClientSession

__all__ = ["VECTOR_COMMANDS"]

_OPTIONS: Final = frozenset(
    {"FILTER", "PROJECTION", "TOP", "THRESHOLD", "MAX-SCAN-CANDIDATES", "OVERQUERY", "COLLATION"}
)
_TOP: Final = 10
_TEXT: Final = re.compile(rb"\[[ -~\t\r\n]*\]")
_PLAIN: Final = msgspec.json.Decoder(list[float])


def search(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.VECTOR bucket selector vector …, at the newest state, outside the session's transaction."""
    bucket = session.bucket(words[1])
    options = read_options(session, words[4:], _OPTIONS)
    tree = read_filter(options.words["FILTER"]) if "FILTER" in options.words else {}
    k, least = _top(options), _threshold(options)
    _check_efforts(options)
    if session.transaction is not None:  # only reads outside of one are preceded by a probe
        session.fresh.pop(bucket.prefix, None)
    number = session.fresh_number(bucket)
    found = _index(session, bucket, words[2].decode("utf-8", "replace"))
    vector = _read_vector(words[3], found)
    near = Near(found.path, tuple(vector), k=k, distance=found.distance, min_score=least)
    at_least = None if number < 0 else number
    try:
        rows = bucket.collection.find(tree, near=near, select=options.projection, raw=True, at_least=at_least).scored()
        return _shown(rows, session)
    except InvalidRequestError:
        check_filter(tree)
        raise


def _shown(rows: Any, session: ClientSession) -> list[ReplyFields]:
    shown, size = [], 0
    for row, score in rows:
        (entry,) = show_rows([row], session.attributes.reply_type)
        size += len(entry)
        if size > BATCH_BYTES_MAX:
            reason = f"The documents are more than {BATCH_BYTES_MAX >> 20} MiB"
            raise ErrorReply(f"{reason}: ask for fewer by TOP, or for a part of each by PROJECTION")
        shown.append(ReplyFields({"score": score, "entry": entry}))
    return shown


def _index(session: ClientSession, bucket: ServedBucket, selector: str) -> VectorFacts:
    """The index that answers; an ErrorReply if there is none, or it is not ready. No requests."""
    from wormdb.query.sources.vectors import find_vector_facts  # with numpy, which few servers need

    view = bucket.view
    there = [
        each
        for each in view.definition.indexes
        if each.index.kind == "vector" and each.index.fields == (selector,) and each.state != "dropped"
    ]
    if not there:
        raise ErrorReply(f"No vector index found for selector: '{selector}'")
    path = there[0].index.paths[0]
    found = next((each for each in find_vector_facts(view) if each.path == path and each.is_ready), None)
    if found is None:
        name = f"{session.namespace}/{bucket.name}/{shown_name(there[0].index.name)}"
        reason = f"is not ready: {there[0].reason}" if there[0].state == "failed" else "is not ready yet"
        raise ErrorReply(f"Vector index '{name}' {reason}", "VECTORINDEXNOTREADY")
    return found


# --- what clients write ---


def _read_vector(data: bytes, index: VectorFacts) -> array[float]:
    """An array of JSON, or float32 in little-endian order, which has 4 bytes for each dimension."""
    given: list[float] | None = None
    # Text may be as long as packed numbers are, and these do not look like text.
    if len(data) == 4 * index.dimensions and not _TEXT.fullmatch(data):
        vector = array("f", data)
        if sys.byteorder == "big":
            vector.byteswap()
    else:
        given = _read_numbers(data)
        vector = array("f", given)
    if not vector:
        raise ErrorReply("Vector cannot be empty")
    if not isfinite(sum(vector)):
        place = next(place for place, each in enumerate(vector) if not isfinite(each))
        number = vector[place] if given is None else given[place]
        raise ErrorReply(f"Vector component at index {place} overflows float range: {number}")
    if len(vector) != index.dimensions:
        name = shown_name(index.name)
        raise ErrorReply(
            f"Vector index '{name}' requires {index.dimensions} dimensions but query vector has {len(vector)}"
        )
    return vector


def _read_numbers(data: bytes) -> list[float]:
    """The numbers of an array in JSON."""
    if not data:
        return []
    try:
        return _PLAIN.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass  # perhaps it is JSON of the shell, or has typed numbers
    try:
        found = read_json(data)
    except WormError as error:
        raise ErrorReply(f"Invalid vector: {error}") from error
    if not isinstance(found, list):
        raise ErrorReply("Invalid vector: it must be an array of numbers, or float32 in little-endian order")
    return [_component(place, each) for place, each in enumerate(found)]


def _component(place: int, value: Any) -> float:
    if isinstance(value, Decimal128):
        value = value.to_decimal()
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise ErrorReply(f"Invalid vector: component at index {place} must be a number")
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _top(options: QueryOptions) -> int:
    text = options.words.get("TOP")
    if text is None:
        return _TOP
    if not text.isdigit() or len(text) > 18:
        raise ErrorReply("TOP argument must be a non-negative integer")
    if int(text) > NEAR_ROWS_MAX:
        raise ErrorReply(f"Maximum TOP value is {NEAR_ROWS_MAX}")
    return int(text) or _TOP


def _threshold(options: QueryOptions) -> float:
    least = _decimal(options, "THRESHOLD", 0.0)
    if not isfinite(least):
        _refuse("THRESHOLD", "a number")
    return least


def _check_efforts(options: QueryOptions) -> None:
    """An ErrorReply for what bounds a search in a graph, and is wrong: here nothing has to be bound by hand."""
    text = options.words.get("MAX-SCAN-CANDIDATES", b"1")
    if not text.isdigit() or not text.strip(b"0"):
        _refuse("MAX-SCAN-CANDIDATES", "a positive integer")
    if not 1.0 <= _decimal(options, "OVERQUERY", 1.0) < inf:
        _refuse("OVERQUERY", "a number greater than or equal to 1.0")


def _decimal(options: QueryOptions, word: str, usual: float) -> float:
    text = options.words.get(word)
    try:
        return usual if text is None else float(text)
    except ValueError:
        _refuse(word, "a number")


def _refuse(word: str, what: str) -> NoReturn:
    raise ErrorReply(f"{word} argument must be {what}")


VECTOR_COMMANDS: Final = (
    Command(
        "BUCKET.VECTOR",
        "bucket selector vector [FILTER filter] [PROJECTION spec] [TOP n] [THRESHOLD score] "
        "[MAX-SCAN-CANDIDATES n] [OVERQUERY factor]",
        "The documents whose vectors are nearest, with their scores, the nearest first.",
        search,
        least=3,
        place="fresh",
        bucket_at=1,
        group="bucket",
    ),
)
