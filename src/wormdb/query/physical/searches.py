"""Text search: in which fields, and by which ways its documents are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.bql.search.expression import has_phrases
from wormdb.bql.tree import EVERYTHING, MatchAll, shape_text
from wormdb.errors import InvalidRequestError
from wormdb.query.plan import Fetch, Node, Order, Part, TextScan
from wormdb.schema.problems import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Hashable

    from wormdb.bql.search.rank import Search
    from wormdb.bql.search.search import SearchQuery
    from wormdb.bql.tree import Filter
    from wormdb.query.request import QueryRequest
    from wormdb.query.sources.source import Facts, TextFacts

__all__ = ["SCAN_REASON", "arrange", "find_scan", "is_listed", "resolve_search", "shape_of"]

SCAN_REASON = "every document is read and scored"


def resolve_search(query: SearchQuery, facts: Facts) -> Search:
    """What is searched for, in the fields that were named or in those of a text index. No requests.

    Raises InvalidRequestError if there is no such index, or several, and for a search that cannot be read.
    """
    if query.fields is not None:
        same = next((each for each in facts.texts if each.fields == query.fields), None)
        return query.over(query.fields, None if same is None else same.name)
    known = facts.texts[0] if len(facts.texts) == 1 and query.index is None else _find_index(query, facts)
    if query.language is not None and query.language != known.fields.language:
        raise InvalidRequestError(
            f"a search in {query.language}",
            reason=f"text index {known.name} is of language {known.fields.language}",
            fix="leave out $language",
        )
    return query.over(known.fields, known.name)


def _find_index(query: SearchQuery, facts: Facts) -> TextFacts:
    what, names = f"the search {query.text!r:.60}", [each.name for each in facts.texts]
    if query.index is not None:
        found = next((each for each in facts.texts if each.name == query.index), None)
        if found is None:
            fix = did_you_mean(query.index, names) if names else "create one with create_text_index"
            raise InvalidRequestError(what, reason=f"there is no text index {query.index!r:.60}", fix=fix)
        return found
    if len(names) != 1:
        reason = f"there are {len(names)} text indexes: {', '.join(names)}" if names else "there is no text index"
        fix = 'create one with create_text_index, or name fields: {"query": "red shoes", "fields": ["title^3", "body"]}'
        if names:
            fix = f'name one: {{"query": "red shoes", "index": "{names[0]}"}}'
        raise InvalidRequestError(what, reason=reason, fix=fix)
    return facts.texts[0]


def is_listed(search: Search, facts: Facts) -> bool:
    """Whether the lists of a text index can answer for every document of the state. No requests."""
    return search.index in facts.listed_texts


def shape_of(request: QueryRequest, search: Search, facts: Facts) -> Hashable:
    """What a choice of a way depends on: of what is searched for not the words, and nothing of what is shown.

    No requests.
    """
    has_phrase = search.needed is None and search.tree is not None and has_phrases(search.tree)
    return (
        search.index,
        is_listed(search, facts),
        len(search.terms),
        has_phrase,
        None if request.filter is EVERYTHING else shape_text(request.filter),
        request.sort.fields,
        request.limit and request.limit.bit_length(),
        request.offset.bit_length(),
        request.strategy,
        request.is_count,
    )


def _is_bare(request: QueryRequest, search: Search, tree: Filter) -> bool:
    """Whether rows show nothing but their ids, and lists tell all of them: no filter and no phrase decides."""
    projection = request.projection
    if projection is None or not projection.is_id or type(tree) is not MatchAll:
        return False
    if request.near is not None or request.sort.fields or request.is_raw or request.is_count:
        return False
    return search.needed is not None or not (search.tree is None or has_phrases(search.tree))


def find_scan(root: Node) -> TextScan | None:
    """What finds the documents of a plan that `arrange` made; None if there is nothing to find. No requests."""
    while isinstance(root, Fetch | Order | Part):
        root = root.child
    return root if isinstance(root, TextScan) else None


def arrange(request: QueryRequest, search: Search, tree: Filter, index: str | None) -> Node:
    """What finds the rows, by a text index or by reading all, their order, and the part of them that is asked for.

    No requests.
    """
    is_bare = index is not None and _is_bare(request, search, tree)
    root: Node = TextScan(search, tree, index, is_bare)
    if not is_bare and not request.is_count:
        root = Fetch(root)
        if request.sort.fields:
            first = None if request.limit is None else request.offset + request.limit
            root = Order(root, request.sort, first)
    return root if request.limit is None and not request.offset else Part(root, request.offset, request.limit)
