"""Text search over whole documents, all of which are read because scores depend on all; or by the lists of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wormdb.bql.match import compile_filter
from wormdb.bql.search.expression import has_phrases
from wormdb.bql.search.rank import Scorer, TextStatistics, matches, read_words, round_length
from wormdb.bql.tree import MatchAll
from wormdb.query.execute.rows import KeyBatch
from wormdb.query.physical.searches import resolve_search

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wormdb.bql.search.rank import Search
    from wormdb.bql.tree import Filter
    from wormdb.engine.lists.postings import TextReader
    from wormdb.query.execute.executor import Demand, Executor
    from wormdb.query.execute.rows import DocumentBatch, RowBatch
    from wormdb.query.execute.text_lists import RankedKey
    from wormdb.query.plan import TextScan

__all__ = ["found_by_lists", "rank_batches", "resolve_search"]

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
    is_sure = not has_phrases(tree)
    passes = None if isinstance(node.filter, MatchAll) else compile_filter(node.filter)
    is_told = is_sure and passes is None
    # Of candidates that are held against documents some do not pass: a second fetch is a round more.
    size = demand.first if is_told else min(max(4 * demand.first, _CHECKED_FIRST), _AT_ONCE)
    for some in _cut(search_lists(search, reader, is_sure=is_sure, first=size), size):
        executor.look(len(some))
        keys = [key for _, key, _ in some]
        executor.scores.update(zip(keys, [-score for score, _, _ in some], strict=True))
        if is_told:
            # What lists say of a document that is not there must not be seen; a number may trust them.
            yield KeyBatch(keys, is_sure=executor.request.is_count)
        else:
            unsure = {key for _, key, is_known in some if not is_known}
            found = executor.fetch(KeyBatch(keys, is_sure=False))
            rows = [
                row
                for row, (key, document) in enumerate(zip(found.keys, found.documents, strict=True))
                if (passes is None or passes(document))
                and (key not in unsure or matches(tree, read_words(document, search.fields)))
            ]
            if rows:
                yield found.pick(rows)


def _cut(parts: Iterable[list[RankedKey]], size: int) -> Iterator[list[RankedKey]]:
    """The same in parts of `size`, and then of twice as many."""
    for part in parts:
        start = 0
        while start < len(part):
            yield part[start : start + size] if start or len(part) > size else part
            start, size = start + size, min(2 * size, _AT_ONCE)
