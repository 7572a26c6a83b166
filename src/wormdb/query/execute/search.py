"""Text search over whole documents, all of which are read because scores depend on all; or by the lists of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.match import compile_filter
from wormdb.bql.search.expression import has_phrases
from wormdb.bql.search.rank import Scorer, TextStatistics, matches, read_words, round_length
from wormdb.bql.tree import MatchAll
from wormdb.format import json
from wormdb.query.execute.rows import IdBatch, KeyBatch
from wormdb.query.physical.searches import resolve_search

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.bql.search.rank import Search
    from wormdb.bql.tree import Filter
    from wormdb.engine.lists.postings import TextReader
    from wormdb.format.kinds import Document
    from wormdb.query.execute.executor import Demand, Executor
    from wormdb.query.execute.rows import DocumentBatch, RowBatch
    from wormdb.query.plan import TextScan
    from wormdb.query.request import QueryRequest

__all__ = ["found_by_lists", "rank_batches", "resolve_search", "shows_ids_only"]

_AT_ONCE: Final = 1_024
_CHECKED_FIRST: Final = 32
"""Candidates that are fetched at once, to begin with, where a filter or a phrase decides."""


def rank_batches(search: Search, tree: Filter, batches: Iterable[DocumentBatch]) -> list[tuple[bytes, float]]:
    """The keys and scores of the documents that a search and a filter find, the best first and ties in order of id.

    `batches` are all documents in any order. Memory holds a few numbers for each that is found.
    """
    statistics, terms = TextStatistics.empty(search), search.terms
    passes = None if isinstance(tree, MatchAll) else compile_filter(tree)
    candidates: list[tuple[bytes, list[tuple[int, ...]], list[int]]] = []
    for batch in batches:
        for key, document in zip(batch.keys, batch.documents, strict=True):
            words = read_words(document, search.fields)
            times = [words.times(term) for term in terms]
            statistics.add(words, times)
            if not any(map(any, times)) or search.tree is None or not matches(search.tree, words):
                continue
            if passes is None or passes(document):
                candidates.append((key, times, [round_length(length) for length in words.lengths]))
    scorer = Scorer(search, statistics)
    found = [(-scorer.score(times, lengths), key) for key, times, lengths in candidates]
    return [(key, -score) for score, key in sorted(found)]


def found_by_lists(executor: Executor, node: TextScan, reader: TextReader, demand: Demand) -> Iterator[RowBatch]:
    """The documents that a search and a filter find, by the lists of its words, as many as are taken.

    Costs as `search_lists`; where there is a phrase or a filter, documents of candidates are fetched until enough pass.
    """
    from wormdb.query.execute.text_lists import search_lists

    search, tree = node.search, node.search.tree
    assert tree is not None, "something can be found"
    is_sure = search.needed is not None or not has_phrases(tree)
    passes = None if isinstance(node.filter, MatchAll) else compile_filter(node.filter)
    is_told = is_sure and passes is None
    # Of candidates that are held against documents some do not pass: a second fetch is a round more.
    size = demand.first if is_told else min(max(4 * demand.first, _CHECKED_FIRST), _AT_ONCE)
    has_ids_only = is_told and shows_ids_only(executor.request)
    for some in search_lists(search, reader, is_sure=is_sure, first=size):
        executor.look(len(some))
        keys = [each[1] for each in some]
        executor.scores.update(zip(keys, [-each[0] for each in some], strict=True))
        if has_ids_only:
            yield IdBatch(keys, _documents_of([each[2] for each in some]), None)
        elif is_told:
            # What lists say of a document that is not there must not be seen; a number may trust them.
            yield KeyBatch(keys, is_sure=executor.request.is_count)
        else:
            unsure = {key for _, key, _, is_known in some if not is_known}
            found = executor.fetch(KeyBatch(keys, is_sure=False))
            rows = [
                row
                for row, (key, document) in enumerate(zip(found.keys, found.documents, strict=True))
                if (passes is None or passes(document))
                and (key not in unsure or matches(tree, read_words(document, search.fields)))
            ]
            if rows:
                yield found.pick(rows)


def shows_ids_only(request: QueryRequest) -> bool:
    """Whether rows of a text search show nothing but their ids: then lists tell all, as they tell a number."""
    projection = request.projection
    is_plain = request.near is None and not request.sort.fields and not request.is_raw and not request.is_count
    return is_plain and projection is not None and projection.mode == "include" and [*projection.parts.parts] == ["_id"]


def _documents_of(ids: Sequence[bytes]) -> list[Document]:
    """Documents that have their ids only."""
    found: list[Any] = json.decode(b"[" + b",".join(ids) + b"]", name="document ids")
    return [{"_id": identity} for identity in found]
