"""Filters and options of queries as callers write them, checked before anything is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from itertools import repeat
from operator import is_not
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, cast
from zlib import crc32

from wormdb.api.access import Access, Freshness
from wormdb.api.pymongo_names import ARGUMENTS
from wormdb.api.text_search import may_have_text, read_text_options
from wormdb.bql.parse import parse_filter
from wormdb.bql.projection import Projection, parse_projection, write_projection
from wormdb.bql.search.search import SearchQuery
from wormdb.bql.sorting import SortSpec, WrittenSort, parse_sort
from wormdb.bql.tree import EVERYTHING, Compare, Filter, FunctionCall, has_calls
from wormdb.engine.state.definition import functions_of
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.query.request import BY_ID, STRATEGIES, QueryRequest, Strategy
from wormdb.schema.problems import did_you_mean
from wormdb.settings import INT_MAX

if TYPE_CHECKING:
    from datetime import datetime

    from wormdb.bql.nearest import Near, WrittenNear
    from wormdb.bql.search.search import WrittenSearch
    from wormdb.engine.state.moments import AsOf
    from wormdb.format.path import Path
    from wormdb.schema.model import Model

__all__ = [
    "CheckedQuery",
    "FindOneOptions",
    "FindOptions",
    "Moment",
    "TokenKind",
    "WrittenFilter",
    "WrittenSelect",
    "check_freshness",
    "check_query",
    "expand_functions",
    "id_or_filter",
    "page_token",
    "read_filter",
    "refuse_beside_near",
    "refuse_token",
    "seal",
    "state_token",
    "unseal",
]


# --- Places in answers as text: opaque, safe in URLs, and refused when they are damaged.
#
# A token is neither a secret nor a right: it says where to go on, and each request needs its own rights.

TokenKind: TypeAlias = Literal["page", "cursor", "state"]
"""What a token is for."""

_VERSION: Final = 1
_MARKS: Final[Mapping[TokenKind, int]] = {"page": 0x70, "cursor": 0x63, "state": 0x73}
_FIXES: Final[Mapping[TokenKind, str]] = {
    "page": "give the next_page of the page before as it is, or leave it out to begin at the first page",
    "cursor": "give the token of a cursor as it is, or open a new cursor",
    "state": "give the token of a collection as it is, or the rev of a document of it",
}
_SUM_BYTES: Final = 4
_SHOWN_CHARS: Final = 24


def seal(kind: TokenKind, body: bytes) -> str:
    """Bytes as a token. No requests."""
    content = bytes([_MARKS[kind], _VERSION]) + body
    return _text(content + crc32(content).to_bytes(_SUM_BYTES, "big"))


def unseal(kind: TokenKind, token: object) -> bytes:
    """The bytes of a token; raises InvalidRequestError for anything else. No requests."""
    from base64 import urlsafe_b64decode

    if not isinstance(token, str):
        raise refuse_token(kind, token, f"it must be a string, not {type(token).__name__}")
    try:
        whole = urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
    except ValueError:
        whole = b""
    content, check = whole[:-_SUM_BYTES], whole[-_SUM_BYTES:]
    # Letters that the alphabet does not have are passed over by the decoder.
    if len(content) < 2 or crc32(content).to_bytes(_SUM_BYTES, "big") != check or _text(whole) != token:
        raise refuse_token(kind, token, "it is damaged, or not a token")
    if content[0] != _MARKS[kind]:
        raise refuse_token(kind, token, "it is a token for something else")
    if content[1] != _VERSION:
        raise refuse_token(kind, token, "another version of wormdb made it")
    return content[2:]


def refuse_token(kind: TokenKind, token: object, reason: str) -> InvalidRequestError:
    """What is raised for a token that cannot be used. No requests."""
    shown = f"{token[:_SHOWN_CHARS]}…" if isinstance(token, str) and len(token) > _SHOWN_CHARS else token
    return InvalidRequestError(f"the {kind} token {shown!r:.60}", reason=reason, fix=_FIXES[kind])


def _text(whole: bytes) -> str:
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(whole).decode().rstrip("=")


# ruff: noqa: A002 - `filter` is the name that users know


WrittenFilter: TypeAlias = "Mapping[str, Any] | str | Filter | None"
"""{"age": {"$gt": 30}}, or as on the command line: "age>30,tags~vip"."""

WrittenSelect: TypeAlias = "Sequence[str] | Mapping[str, Any]"
"""["name", "address.city"], or a projection: {"name": 1, "tags": {"$slice": 3}}, {"notes": 0}."""

Moment: TypeAlias = "int | datetime | str | None"
"""A log number, a datetime with a time zone, or ISO text; None is now."""


class FindOneOptions(TypedDict, total=False):
    """Options of queries, beside the filter."""

    sort: WrittenSort | SortSpec
    """"name", "-name", ["city", "-age"], [("name", "desc")]; ties, and without it all rows, are in order of id."""
    near: WrittenNear | None
    """Only the nearest vectors, the nearest first: {"embedding": {"vector": v, "k": 10}}; also recall, exact, min_score
    and distance. A vector is a list, an array of numpy, or packed; neither sort nor page go with it."""
    search: WrittenSearch | None
    """Only what a text search finds, the best first unless there is a sort: 'red shoes -leather "running shoe" adi*';
    or {"query": …, "index": …}, or {"query": …, "fields": ["title^3", "body"], "language": "english"}; no pages."""
    strategy: Strategy | None
    """The only way to be used: index_lookup, manifest_scan, manifest_fetch or full_scan; an error if it cannot be."""
    max_scanned: int | None
    """How many rows may be looked at before LimitExceededError."""
    timeout: float | None
    """Seconds that it may take before UnavailableError, from the first row that is asked for."""
    timeout_seconds: float | None
    """The older name of `timeout`."""
    as_of: Moment
    """The state of a moment: a log number, a datetime with a time zone, or ISO text."""
    at_least: int | str | None
    """Any state from this log number on, or from that of a token: no request if this process knows one."""
    stale_ms: float | None
    """Any state that was the newest at most this many milliseconds ago; 0 for the newest, whatever the settings say."""


class FindOptions(FindOneOptions, total=False):
    """Options of queries with many rows, beside the filter."""

    limit: int | None
    """How many rows at most, 1 or more."""
    offset: int
    """How many rows are passed over first; pages by `page` cost less, however far they go."""
    page: str | None
    """The `next_page` of the page before, of the same filter, sort and selection."""


_DIGEST_BYTES: Final = 12
_NO_SCORES: Final[tuple[Path, ...]] = ()
_KNOWN_OF_ONE: Final = dict.fromkeys(("select", "populate", "raw", *FindOneOptions.__annotations__))
_KNOWN: Final = dict.fromkeys((*_KNOWN_OF_ONE, *FindOptions.__annotations__))
_OTHER_NAMES: Final[Mapping[str, str]] = {
    "skip": "offset",
    "projection": "select",
    "fields": "select",
    "columns": "select",
    "order_by": "sort",
    "_strategy": "strategy",
    "where": "filter",
    "query": "filter",
}
"""What people know from elsewhere, and how it is called here."""


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A checked question. No state was read for it."""

    request: QueryRequest
    """Without a deadline: time counts from the first read."""
    collection: str
    moment: AsOf | None = None
    """None for now."""
    is_past: bool = False
    """Whether documents are shown as copies of what once was."""
    timeout_seconds: float | None = None
    populate: tuple[str, ...] = ()
    freshness: Freshness | None = None
    """How new the state must be; None as the collection's handle says."""
    is_raw: bool = False
    """Whether rows are JSON."""
    scores: tuple[Path, ...] = ()
    """The paths at which rows show the score of their text."""

    def at(self, moment: AsOf) -> CheckedQuery:
        """The same question to the state of a moment."""
        # Not `dataclasses.replace`: every cursor comes here, and that takes longer than finding one row.
        return CheckedQuery(
            self.request,
            self.collection,
            moment,
            self.is_past,
            self.timeout_seconds,
            self.populate,
            self.freshness,
            self.is_raw,
            self.scores,
        )

    @property
    def digest(self) -> bytes:
        """Equal for questions whose rows have the same order and form, whatever part of them is asked for."""
        request = self.request
        shown = {} if request.projection is None else write_projection(request.projection)
        projection = "" if request.projection is None else json.encode(dict(sorted(shown.items()))).decode()
        parts = (request.filter.text, str(request.sort), projection, "" if self.moment is None else str(self.moment))
        return sha256("\0".join(parts).encode()).digest()[:_DIGEST_BYTES]


def check_query(
    access: Access[Any],
    filter: WrittenFilter,
    options: Mapping[str, Any],
    *,
    is_single: bool = False,
    first: int | None = None,
) -> CheckedQuery:
    """The question that a caller's filter and options make; with `is_single` for one row, with `first` of a cursor.

    Raises InvalidRequestError with all mistakes of the first part that has some, and LimitExceededError. No requests,
    but for a filter with functions: 1 GET, as they are now.
    """
    is_plain = filter is None and first is None and not is_single
    if is_plain and (ranked := _search_query(access, options) or _nearest_query(access, options)) is not None:
        return ranked
    what = f"a query of {access.writer.name}"
    known = _KNOWN_OF_ONE if is_single else _KNOWN
    if not options.keys() <= known.keys():
        for name in options:
            _check_known(name, what, tuple(known))
    written, search, scores = filter, None, _NO_SCORES
    if options.get("search") is not None or may_have_text(filter):
        written, options, search, scores = read_text_options(filter, options, what)
    is_raw, freshness = _is_raw(options.get("raw"), what), None
    # Most queries have a filter and nothing else, or ask for raw rows besides, or for a state that is new enough.
    at_least = options.get("at_least")
    is_plain = search is None and sum(map(is_not, options.values(), repeat(None))) <= is_raw + (at_least is not None)
    if at_least is not None or not is_plain:
        freshness = check_freshness(access, at_least, options.get("stale_ms"), options.get("as_of"))
    tree = read_filter(written)
    if type(tree) is not Compare and has_calls(tree):
        tree = expand_functions(access, tree, freshness)
    if is_plain:
        request = QueryRequest(filter=tree, limit=1 if is_single else None, is_raw=is_raw, first=first)
        if access.writer.model is not None:
            _tell_typos(access, access.writer.model, request)
        return CheckedQuery(request, access.ledger.collection, freshness=freshness, is_raw=is_raw)
    select, sort, populate = options.get("select"), options.get("sort"), _names(options.get("populate"), what)
    moment = _moment(options.get("as_of"), access)
    query = CheckedQuery(
        request=QueryRequest(
            filter=tree,
            sort=sort if isinstance(sort, SortSpec) else parse_sort(sort),
            limit=1 if is_single else _whole(options.get("limit"), "limit", 1, what),
            offset=_whole(options.get("offset", 0), "offset", 0, what) or 0,
            projection=None if select is None else parse_projection(select, query=tree),
            strategy=_strategy(options.get("strategy"), what),
            rows_max=_whole(options.get("max_scanned"), "max_scanned", 1, what),
            is_raw=is_raw and select is None and not populate and not scores,
            first=first,
            near=_near(options, what),
            search=search,
        ),
        collection=access.ledger.collection,
        moment=moment,
        is_past=moment is not None,
        timeout_seconds=_seconds(options, what),
        freshness=freshness,
        populate=populate,
        is_raw=is_raw,
        scores=scores,
    )
    if access.writer.model is not None:
        _tell_typos(access, access.writer.model, query.request)
    page = options.get("page")
    return query if page is None else _after(query, page)


def _search_query(access: Access[Any], options: Mapping[str, Any]) -> CheckedQuery | None:
    """The question of a text search with a limit and names of fields at most, as most are; None for any other."""
    text, limit, names = options.get("search"), options.get("limit"), options.get("select")
    if type(text) is not str:
        return None
    if not options.keys() <= _SEARCHING or options.get("populate") is not None or options.get("raw") is not None:
        return None
    if limit is not None and (type(limit) is not int or limit < 1):
        return None
    if names is not None and (type(names) is not list or {*map(type, names)} != _TEXTS):
        return None
    projection = None if names is None else _shown_fields(tuple(names))
    request = QueryRequest(limit=limit, projection=projection, search=SearchQuery(text))
    if access.writer.model is not None:
        _tell_typos(access, access.writer.model, request)
    return CheckedQuery(request, access.ledger.collection)


def _nearest_query(access: Access[Any], options: Mapping[str, Any]) -> CheckedQuery | None:
    """The same for the nearest vectors, with names of fields at most."""
    written, names = options.get("near"), options.get("select")
    if written is None or not options.keys() <= _NEAREST:
        return None
    if options.get("populate") is not None or options.get("raw") is not None:
        return None
    if names is not None and (type(names) is not list or {*map(type, names)} != _TEXTS):
        return None
    from wormdb.bql.nearest import parse_near  # few queries ask for vectors

    projection = None if names is None else _shown_fields(tuple(names))
    request = QueryRequest(projection=projection, near=parse_near(written))
    if access.writer.model is not None:
        _tell_typos(access, access.writer.model, request)
    return CheckedQuery(request, access.ledger.collection)


_TEXTS: Final = {str}
_NEAREST: Final = {"near", "select", "populate", "raw"}
_SEARCHING: Final = {"search", "limit", "select", "populate", "raw"}


@lru_cache(maxsize=256)
def _shown_fields(names: tuple[str, ...]) -> Projection:
    """What shows some fields: the same object for the same names, which many queries of a program have."""
    return parse_projection(names, query=EVERYTHING)


def _tell_typos(access: Access[Any], model: Model, request: QueryRequest) -> None:
    """As `tell_unknown_fields`; an equality of a declared field, which most queries are, costs nothing more."""
    tree = request.filter
    is_known = type(tree) is Compare and len(tree.path) == 1 and tree.path[0] in model.fields
    if is_known and request.sort is BY_ID and request.projection is None and not request.is_ranked:
        return
    if access.settings.unknown_fields != "ignore":
        from wormdb.api.names import tell_unknown_fields

        tell_unknown_fields(model, request, access.settings.unknown_fields)


def id_or_filter(written: Any) -> Any:
    """What `find_one` was given, as a filter: an id becomes one. Text with a sign of a condition is a filter."""
    if isinstance(written, Filter | FunctionCall):
        return written
    is_condition = isinstance(written, str) and (not written.strip() or any(sign in written for sign in "=<>~{"))
    return written if is_condition else {"_id": written}


def read_filter(written: WrittenFilter) -> Filter:
    """The tree of a filter in any of its forms; everything for None.

    Raises InvalidRequestError with all mistakes, LimitExceededError, MissingExtraError. No requests.
    """
    if written is None:
        return EVERYTHING
    if isinstance(written, str):
        from wormdb.bql.text import parse_filter_text

        return parse_filter_text(written)
    if isinstance(written, dict | Mapping):
        return parse_filter(written)
    if isinstance(written, Filter | FunctionCall):
        return written
    raise InvalidRequestError(
        f"a filter of type {type(written).__name__}",
        reason="it is neither a mapping nor text",
        fix='write {"age": {"$gt": 30}} or "age>30"; find_by_id takes an id',
    )


def _moment(as_of: Moment, access: Access[Any]) -> AsOf | None:
    if as_of is None:
        return None
    from wormdb.api.history import parse_as_of  # the present is asked for more often than the past

    return parse_as_of(as_of, access.clock.now_ms())


def expand_functions(access: Access[Any], tree: Filter, freshness: Freshness | None = None) -> Filter:
    """The filter with what functions stand for now in the place of their names. 1 GET if it names some, else none.

    Raises NotFoundError for one that is not registered, LimitExceededError for a filter that becomes too large.
    """
    if not has_calls(tree):
        return tree
    if access.files is not None:
        from wormdb.bql.functions import Functions

        return Functions(collection=access.name).expanded(tree)
    return functions_of(access.view(freshness).definition, access.name).expanded(tree)


# --- options ---


def _check_known(name: str, what: str, known: Sequence[str]) -> None:
    if name in known:
        return
    other = _OTHER_NAMES.get(name)
    fix = ARGUMENTS.get(name) or did_you_mean(name, known) if other is None else f"it is called {other!r} here"
    raise InvalidRequestError(what, reason=f"there is no option {name!r}", fix=fix)


def _whole(value: object, name: str, least: int, what: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        fix = "leave it out for all rows" if name == "limit" else "leave it out"
        reason = f"{name} must be a whole number of {least} or more, not {value!r:.40}"
        raise InvalidRequestError(what, reason=reason, fix=fix)
    return value


def _seconds(options: Mapping[str, Any], what: str) -> float | None:
    name = "timeout" if options.get("timeout") is not None else "timeout_seconds"
    value = options.get(name)
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
        return float(value)
    reason = f"{name} must be a number above 0, not {value!r:.40}"
    raise InvalidRequestError(what, reason=reason, fix="give seconds, or leave it out")


def _strategy(value: Any, what: str) -> Strategy | None:
    if value is None:
        return None
    if value not in STRATEGIES:
        reason = f"there is no strategy {value!r:.40}"
        raise InvalidRequestError(what, reason=reason, fix=did_you_mean(str(value), STRATEGIES))
    strategy: Strategy = value
    return strategy


def _is_raw(value: object, what: str) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool):
        reason = f"raw must be true or false, not {value!r:.40}"
        raise InvalidRequestError(what, reason=reason, fix="leave it out for documents")
    return value


def _names(value: object, what: str) -> tuple[str, ...]:
    if value is None:
        return ()
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        reason = f"populate must be a list of names, not {value!r:.60}"
        raise InvalidRequestError(what, reason=reason, fix='name refs of the model, as in ["customer"]')
    return tuple(dict.fromkeys(names))


def _near(options: Mapping[str, Any], what: str) -> Near | None:
    written = options.get("near")
    if written is None:
        return None
    others = [name for name in ("sort", "page") if options.get(name) is not None]
    if others:
        raise refuse_beside_near(what, others[0])
    from wormdb.bql.nearest import parse_near  # few queries ask for vectors

    near = parse_near(written)
    # Indexes are of the present: of another moment every match is scored.
    return near if options.get("as_of") is None else replace(near, is_exact=True, is_past=True)


def refuse_beside_near(what: str, name: str) -> InvalidRequestError:
    """What is raised for an option that does not go with `near`. No requests."""
    reason = f"near and {name} together: the nearest come first, and there are k of them"
    return InvalidRequestError(what, reason=reason, fix=f"leave out {name}; a larger k gives more rows")


# --- pages ---


def page_token(query: CheckedQuery, order: bytes) -> str:
    """The token of the page that begins behind a row, given the row's sort key. No requests."""
    return seal("page", _place_of(query.collection) + query.digest + order)


def _after(query: CheckedQuery, token: str) -> CheckedQuery:
    if query.request.offset:
        raise InvalidRequestError(
            f"page and offset={query.request.offset} together",
            reason="a page begins where the one before it ended",
            fix="leave out offset",
        )
    body = unseal("page", token)
    place, digest, order = body[:_DIGEST_BYTES], body[_DIGEST_BYTES : 2 * _DIGEST_BYTES], body[2 * _DIGEST_BYTES :]
    if place != _place_of(query.collection):
        raise refuse_token("page", token, f"it is for another collection than {query.collection.rstrip('/')}")
    if digest != query.digest:
        raise refuse_token("page", token, "it is for a query with another filter, sort, selection or as_of")
    return replace(query, request=replace(query.request, after=order))


# --- states ---


def check_freshness(access: Access[Any], at_least: object, stale_ms: object, as_of: object = None) -> Freshness | None:
    """What a call says about the state that it reads; None if nothing.

    Raises InvalidRequestError for a token that is damaged or of another collection, and for what is no number. No
    requests.
    """
    if at_least is None and stale_ms is None:
        return None
    what = f"a read of {access.name}"
    if as_of is not None:
        reason = f"as_of names one state, and {'at_least' if stale_ms is None else 'stale_ms'} allows several"
        raise InvalidRequestError(what, reason=reason, fix="leave out one of them")
    is_time = isinstance(stale_ms, int | float) and not isinstance(stale_ms, bool) and 0 <= stale_ms < math.inf
    if stale_ms is not None and not is_time:
        reason = f"stale_ms must be a number of 0 or more, not {stale_ms!r:.40}"
        raise InvalidRequestError(what, reason=reason, fix="give milliseconds, or leave it out")
    number = 0 if at_least is None else at_least
    if isinstance(number, str):
        number = _read_state_token(number, access.ledger.collection)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= INT_MAX:
        reason = f"at_least must be a log number or a token, not {at_least!r:.40}"
        raise InvalidRequestError(what, reason=reason, fix="give the rev of a document, or the token of a collection")
    if number:
        _ = access.log  # files of another program have no numbers
    return Freshness(math.inf if stale_ms is None else cast("float", stale_ms), number)


def state_token(collection: str, number: int) -> str:
    """The token of a log number of a collection. No requests."""
    return seal("state", _place_of(collection) + number.to_bytes(8, "big"))


def _read_state_token(token: str, collection: str) -> int:
    """The log number of a token; raises InvalidRequestError if it is of another collection. No requests."""
    body = unseal("state", token)
    if body[:_DIGEST_BYTES] != _place_of(collection):
        raise refuse_token("state", token, f"it is for another collection than {collection.rstrip('/')}")
    return int.from_bytes(body[_DIGEST_BYTES:], "big")


def _place_of(collection: str) -> bytes:
    return sha256(collection.encode()).digest()[:_DIGEST_BYTES]
