"""Text search over whole documents: all are read, because scores depend on all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.bql.match import compile_filter
from wormdb.bql.search.rank import Scorer, TextStatistics, matches, read_words, round_length
from wormdb.bql.tree import MatchAll
from wormdb.query.physical.searches import resolve_search

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.bql.search.rank import Search
    from wormdb.bql.tree import Filter
    from wormdb.query.execute.rows import DocumentBatch

__all__ = ["rank_batches", "resolve_search"]


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
