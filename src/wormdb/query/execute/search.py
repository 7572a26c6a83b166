"""Text search over whole documents, all of which are read because scores depend on all; or by the lists of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wormdb.bql.match import compile_filter
from wormdb.bql.search.expression import has_phrases
from wormdb.bql.search.rank import Scorer, TextStatistics, matches, read_words, round_length
from wormdb.bql.tree import MatchAll
from wormdb.format import json
from wormdb.query.execute.executor import in_batches
from wormdb.query.execute.rows import IdBatch, KeyBatch
from wormdb.query.execute.text_lists import search_lists
from wormdb.query.physical.searches import resolve_search
from wormdb.query.sources.source import is_list_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wormdb.bql.search.rank import Search
    from wormdb.bql.tree import Filter
    from wormdb.engine.lists.postings import TextReader
    from wormdb.query.execute.executor import Demand, Executor
    from wormdb.query.execute.rows import DocumentBatch, RowBatch
    from wormdb.query.plan import TextScan

__all__ = ["rank_batches", "resolve_search", "search_texts"]

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


def search_texts(executor: Executor, node: TextScan, demand: Demand) -> Iterator[RowBatch]:
    """The documents that a search and a filter find, the best first: by the lists of an index, or of all documents.

    Costs as `search_lists`, or as a scan of all documents.
    """
    reader, texts = None, getattr(executor.source, "texts", None)  # not isinstance: that takes as long as a search
    if node.index is not None and texts is not None:
        reader = texts(node.index)
    if reader is None:
        return _found_by_scan(executor, node, demand)
    found_by = _found_ids if node.is_bare else _found_by_lists
    return found_by(executor, node, reader, demand)


def _found_by_scan(executor: Executor, node: TextScan, demand: Demand) -> Iterator[RowBatch]:
    found = rank_batches(node.search, node.filter, executor.documents())
    executor.scores.update(found)
    if demand.is_firm:
        found = found[: demand.rows]
    yield from in_batches([key for key, _ in found], demand, is_sure=True)


def _found_ids(executor: Executor, node: TextScan, reader: TextReader, demand: Demand) -> Iterator[RowBatch]:
    """Rows of which nothing but the id is shown, no more than are taken."""
    left = demand.rows if demand.is_firm else None
    for some in search_lists(node.search, reader, is_sure=True, first=demand.first, has_keys=False):
        executor.look(len(some.ids))
        found = IdBatch(json.decode(b"[" + b",".join(some.ids) + b"]", name="document ids"), some.scores)
        if left is not None:
            if len(some.ids) >= left:
                yield found.cut(0, left)
                return
            left -= len(some.ids)
        yield found


def _found_by_lists(executor: Executor, node: TextScan, reader: TextReader, demand: Demand) -> Iterator[RowBatch]:
    """Where there is a phrase or a filter, documents of candidates are fetched until enough pass."""
    if not executor.request.is_count and is_list_source(executor.source):
        executor.source.expect_documents()
    search, tree = node.search, node.search.tree
    assert tree is not None, "something can be found"
    is_sure = search.needed is not None or not has_phrases(tree)
    passes = None if isinstance(node.filter, MatchAll) else compile_filter(node.filter)
    is_told = is_sure and passes is None
    # Of candidates that are held against documents some do not pass: a second fetch is a round more.
    size = demand.first if is_told else min(max(4 * demand.first, _CHECKED_FIRST), _AT_ONCE)
    for some in search_lists(search, reader, is_sure=is_sure, first=size, has_keys=True):
        executor.look(len(some.ids))
        executor.scores.update(zip(some.keys, some.scores, strict=True))
        if is_told:
            # What lists say of a document that is not there must not be seen; a number may trust them.
            yield KeyBatch(some.keys, is_sure=executor.request.is_count)
        else:
            found = executor.fetch(KeyBatch(some.keys, is_sure=False))
            rows = [
                row
                for row, (key, document) in enumerate(zip(found.keys, found.documents, strict=True))
                if (passes is None or passes(document))
                and (key not in some.unsure or matches(tree, read_words(document, search.fields)))
            ]
            if rows:
                yield found.pick(rows)
