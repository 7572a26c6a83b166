"""Options of commands: words behind the positional arguments, in any order; of a repeated one the last counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from wormdb.server.documents import read_object
from wormdb.server.faults import unknown_argument, unsupported_argument
from wormdb.server.replies import ErrorReply

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from wormdb.server.session import ClientSession

__all__ = ["LIMIT_MAX", "QueryOptions", "read_options"]

LIMIT_MAX: Final = 10_000
_KNOWN: Final = frozenset(
    {"SHARDS", "INDEXES", "COLLATION", "IF-NOT-EXISTS", "DOCS", "SORTBY", "RESULTSORT", "PROJECTION", "LIMIT"}
    | {"FILTER", "TOP", "THRESHOLD", "MAX-SCAN-CANDIDATES", "OVERQUERY", "IDS"}
)
_OF_ONE_WORD: Final = {
    "FILTER": "a filter",
    "TOP": "a positive integer",
    "THRESHOLD": "a number",
    "MAX-SCAN-CANDIDATES": "a positive integer",
    "OVERQUERY": "a number",
}
_DIRECTIONS: Final = {"ASC": "", "DESC": "-"}


@dataclass(slots=True)
class QueryOptions:
    """What a query, update or delete was told beside its filter."""

    limit: int = 0
    sort: str | None = None
    """As the API writes it: `-name`."""
    result_sort: str | None = None
    projection: dict[str, Any] | None = None
    words: dict[str, bytes] = field(default_factory=dict)
    """What commands read for themselves, by option: of those with one word."""


def read_options(session: ClientSession, words: Sequence[bytes], allowed: Collection[str]) -> QueryOptions:
    """The options of a query among `allowed`. An ErrorReply for a word that means nothing here, or stands alone."""
    options = QueryOptions(limit=session.attributes.limit)
    at = 0
    while at < len(words):
        word = words[at].decode("utf-8", "replace").upper()
        if word not in _KNOWN:
            raise unknown_argument(word)
        if word not in allowed:
            raise unsupported_argument(word)
        following = words[at + 1 : at + 3]
        match word:
            case "LIMIT":
                options.limit = _limit(following) or session.attributes.limit
                at += 2
            case "SORTBY":
                options.sort = _order(following, word)
                at += 3
            case "RESULTSORT":
                options.result_sort = _order(following, word)
                at += 3
            case "PROJECTION":
                options.projection = _projection(following)
                at += 2
            case "COLLATION":
                raise ErrorReply(f"{word} is not supported: texts are compared by their code points")
            case _:
                options.words[word] = _word(following, word)
                at += 2
    _check_orders(options)
    return options


def _check_orders(options: QueryOptions) -> None:
    if options.sort is not None and options.result_sort is not None:
        name = options.sort.removeprefix("-")
        if name == options.result_sort.removeprefix("-"):
            raise ErrorReply(f"SORTBY and RESULTSORT cannot use the same field: '{name}'")


def _word(following: Sequence[bytes], word: str) -> bytes:
    if word not in _OF_ONE_WORD:
        raise unsupported_argument(word)
    if not following:
        raise ErrorReply(f"{word} argument must be followed by {_OF_ONE_WORD[word]}")
    return following[0]


def _limit(following: Sequence[bytes]) -> int:
    if not following:
        raise ErrorReply("LIMIT argument must be followed by a positive integer")
    text = following[0]
    if not text.removeprefix(b"-").isdigit() or len(text) > 18 or int(text) < 0:
        raise ErrorReply("LIMIT argument must be a non-negative integer")
    if int(text) >= LIMIT_MAX:
        raise ErrorReply(f"Maximum limit value is {LIMIT_MAX}")
    return int(text)


def _order(following: Sequence[bytes], word: str) -> str:
    if len(following) < 2:
        raise ErrorReply(f"{word} argument must be followed by a field name and direction (ASC or DESC)")
    direction = following[1].decode("utf-8", "replace").upper()
    if direction not in _DIRECTIONS:
        raise ErrorReply(f"Invalid sort direction: {direction}")
    return _DIRECTIONS[direction] + following[0].decode("utf-8", "replace")


def _projection(following: Sequence[bytes]) -> dict[str, Any] | None:
    if not following:
        raise ErrorReply("PROJECTION argument must be followed by a projection spec")
    spec = read_object(following[0], "projection spec")
    kinds = {bool(value) for name, value in spec.items() if name != "_id" and not isinstance(value, dict)}
    if len(kinds) > 1:
        raise ErrorReply("Cannot mix inclusion and exclusion in projection spec (except _id: 0)")
    for name, value in spec.items():
        if isinstance(value, dict) and set(value) != {"$slice"}:
            raise ErrorReply(f"Unsupported projection operator for field '{name}': only $slice is supported")
    return spec or None
