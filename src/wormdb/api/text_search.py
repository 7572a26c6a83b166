"""Text searches in the options of a query: `search`, and $text with {"$meta": "textScore"} as MongoDB spells them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wormdb.bql.search.search import SearchQuery, is_text_score, parse_written_search, take_scores, take_text
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from wormdb.format.path import Path

__all__ = ["TextOptions", "may_have_text", "read_text_options"]


class TextOptions(NamedTuple):
    """What is left of a filter and of options, and the search that was in them."""

    filter: Any
    options: Mapping[str, Any]
    search: SearchQuery | None
    scores: tuple[Path, ...] = ()
    """The paths at which rows show their scores."""


def may_have_text(written: object) -> bool:
    """Whether a filter may have $text. No requests."""
    return isinstance(written, Mapping) and ("$text" in written or "$and" in written)


def read_text_options(written: Any, options: Mapping[str, Any], what: str) -> TextOptions:
    """The search of a filter and of options, and what is left of them. No requests.

    Raises InvalidRequestError for two searches, for a page, and for a score among other orders.
    """
    rest, search = take_text(written) if isinstance(written, Mapping) else (written, None)
    given = options.get("search")
    if given is not None:
        if search is not None:
            raise InvalidRequestError(what, reason="search and $text together", fix="leave out one of them")
        search = parse_written_search(given)
    if search is None:
        return TextOptions(written, options, None)
    if options.get("page") is not None:
        reason = "search and page together: a page goes on in the order of a sort"
        raise InvalidRequestError(what, reason=reason, fix="use offset and limit")
    left = {name: value for name, value in options.items() if name != "search"}
    select, scores = take_scores(options.get("select"), what)
    left["select"] = select
    left["sort"] = _order(options.get("sort"), what)
    return TextOptions(rest, left, search, scores)


def _order(sort: Any, what: str) -> Any:
    """An order; None for that of scores."""
    pairs: list[Any] = []
    if isinstance(sort, Mapping):
        pairs = list(sort.values())
    elif isinstance(sort, Sequence) and not isinstance(sort, str):
        pairs = [
            each[1] for each in sort if isinstance(each, Sequence) and not isinstance(each, str) and len(each) == 2
        ]
    if not any(map(is_text_score, pairs)):
        return sort
    if len(pairs) > 1:
        reason = "rows are sorted by their scores, or by fields"
        raise InvalidRequestError(what, reason=reason, fix="leave out the other orders: ties are in order of id")
    return None
