"""Text search by an index of words: the lists of the words of a search, joined and scored run by run.

All entries of a document that count are in one run of the index, so a document is its run and its place there. Lists
say how often a word is in each field and how long the fields are, which is all that scores need. What the tail changed
is taken from its documents: those before leave the statistics, those after are scored as they are. Only phrases need
documents of candidates, which come in the order of their scores.

Entries are arrays, and what is done to them is done by the same operations of floating point, in the same order, as
`wormdb.bql.search.rank.Scorer` does: so scores have the same bits.
"""

from __future__ import annotations

from functools import reduce
from heapq import merge
from itertools import chain, islice
from operator import and_, or_
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wormdb.bql.search.expression import (
    AllWords,
    AnyWord,
    Expression,
    OptionalWords,
    SearchPhrase,
    SearchTerm,
    WithoutWord,
    terms_of,
)
from wormdb.bql.search.rank import Scorer, matches, round_length
from wormdb.engine.state.view import id_key
from wormdb.system.installed import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wormdb.bql.search.rank import Search
    from wormdb.engine.lists.postings import Floats, Places, RunWord, TextReader

    Mask: TypeAlias = "NDArray[np.bool_]"

__all__ = ["RankedKey", "search_lists"]

_PUT_IN_ORDER: Final = 512
"""Scores up to which all are put in order, also if few of them are taken."""
_IDS_FIRST: Final = 10
"""Candidates of a run whose ids are read at once, to begin with."""
_IDS_MAX: Final = 4_096

RankedKey: TypeAlias = tuple[float, bytes, bytes, bool]
"""The negative score of a document that a search may find, the key of its id, the id, and whether it is sure."""


def search_lists(search: Search, reader: TextReader, *, is_sure: bool, first: int) -> Iterator[list[RankedKey]]:
    """The documents that a search finds at the state of a reader, the best first and ties in order of id; in parts.

    With `is_sure` lists tell everything; otherwise candidates must be held against the search. Parts have any length,
    about `first` to begin with. Costs as `ListReader.read` and `read_range` for all words, then as `ListReader.ids` for
    candidates as they are taken.
    """
    found = _FoundLists(search, reader)
    runs = [found.run(number, is_sure=is_sure, first=first) for number in found.runs]
    tail = sorted(found.tail())
    if not tail and len(runs) < 2:
        yield from runs[0] if runs else ()
        return
    ranked = merge(tail, *(chain.from_iterable(run) for run in runs))
    size = first
    while some := list(islice(ranked, size)):
        yield some
        size = min(2 * size, _IDS_MAX)


class _FoundLists:
    """The lists of a search's words, and what follows from them."""

    def __init__(self, search: Search, reader: TextReader) -> None:
        assert search.tree is not None, "something can be found"
        self._search = search
        self._reader = reader
        self._tree: Expression = search.tree
        self._scored = search.terms
        self._words = reader.words(terms_of(self._tree))
        counts = [reader.count(term, self._words[term]) for term in self._scored]
        self._scorer = Scorer(search, reader.statistics(counts))
        self.runs = sorted({run for term in self._scored for run in self._words[term].runs})
        """Those that may have something."""

    def tail(self) -> Iterator[RankedKey]:
        """The documents of the tail that are found."""
        for key, identity, words in self._reader.tail:
            if matches(self._tree, words):
                times = [words.times(term) for term in self._scored]
                score = self._scorer.score(times, [round_length(length) for length in words.lengths])
                yield -score, key, identity, True

    def run(self, run: int, *, is_sure: bool, first: int) -> Iterator[list[RankedKey]]:
        """The documents of a run that may be found, the best first, in parts."""
        words = {term: word.runs[run] for term, word in self._words.items() if run in word.runs}
        join = _WordJoin(self._tree, self._scored, words, self._reader)
        scores = join.scores(self._scored, self._scorer.rarities)
        size, touched = max(first, _IDS_FIRST), self._reader.lists.touched
        for places, own in _ranked(join.places, scores, size):
            start = 0
            while start < len(places):
                ids = self._reader.ids(run, places[start : start + size])
                keys = map(id_key, ids)
                known = zip(own[start : start + size], keys, ids, strict=True)
                yield [(-score, key, identity, is_sure) for score, key, identity in known if key not in touched]
                start, size = start + size, min(2 * size, _IDS_MAX)


def _ranked(places: Places, scores: Floats, first: int) -> Iterator[tuple[list[int], list[float]]]:
    """Places with their scores, the best first and ties in order of place: at least `first`, then all others."""
    rest: Any = None
    if len(scores) > max(_PUT_IN_ORDER, 2 * first):
        least = load("numpy", "text").partition(scores, len(scores) - first)[len(scores) - first]
        is_first = scores >= least
        rest = ~is_first
        yield _put_in_order(places[is_first], scores[is_first])
        places, scores = places[rest], scores[rest]
    if len(places):
        yield _put_in_order(places, scores)


def _put_in_order(places: Places, scores: Floats) -> tuple[list[int], list[float]]:
    order = (-scores).argsort(kind="stable")
    return places[order].tolist(), scores[order].tolist()


def _needed(tree: Expression) -> Sequence[SearchTerm]:
    """Words without which a tree does not match."""
    if isinstance(tree, SearchTerm):
        return (tree,)
    return [term for _, term in tree.items] if isinstance(tree, SearchPhrase) else ()


class _WordJoin:
    """The documents of a run that may match a search, by place, with where the words that it needs have them."""

    def __init__(
        self, tree: Expression, scored: Sequence[SearchTerm], words: dict[SearchTerm, RunWord], reader: TextReader
    ) -> None:
        self._numpy = load("numpy", "text")
        self._words = words
        self._reader = reader
        self._found: dict[SearchTerm, Places | slice] = {}
        """For words that all of the documents have, where they are among its entries."""
        self.places: Places = self._numpy.empty(0, self._numpy.int64)
        children = tree.children if isinstance(tree, AllWords) else (tree,)
        needed = tuple(dict.fromkeys(term for child in children for term in _needed(child)))
        if all(term in words for term in needed):
            self._begin(needed or [term for term in scored if term in words], is_all=bool(needed))
            others = tuple(child for child in children if not _needed(child))
            if others:
                self._keep(self._upper(AllWords(others)))

    def _begin(self, terms: Sequence[SearchTerm], *, is_all: bool) -> None:
        """The documents that have all of these words, or any."""
        if not is_all:
            numpy = self._numpy
            self.places = numpy.unique(numpy.concatenate([self._words[term].places for term in terms]))
            return
        first, *others = sorted(terms, key=lambda term: len(self._words[term].places))
        self.places = self._words[first].places
        self._found[first] = slice(None)
        for term in others:
            at, is_there = self._locate(term)
            self._keep(is_there)
            self._found[term] = at[is_there]

    def _keep(self, mask: Mask) -> None:
        """Only some of the documents."""
        self.places = self.places[mask]
        places = self._numpy.flatnonzero(mask)
        self._found = {term: places if isinstance(at, slice) else at[mask] for term, at in self._found.items()}

    def _locate(self, term: SearchTerm) -> tuple[Places, Mask]:
        """Where a word may have each of the documents, and whether it has."""
        own = self._words[term].places
        at = own.searchsorted(self.places)
        return at, own.take(at, mode="clip") == self.places

    def scores(self, terms: Sequence[SearchTerm], rarities: Sequence[float]) -> Floats:
        """The scores of the documents: sums in the order of the words, as `Scorer.score` makes them."""
        total: Floats | None = None
        for term, rarity in zip(terms, rarities, strict=True):
            word = self._words.get(term)
            if word is None:
                continue
            known = self._found.get(term)
            if known is not None:
                value = rarity * word.values(self._reader)[known]
            else:
                at, is_there = self._locate(term)
                value = rarity * word.values(self._reader).take(at, mode="clip")
                value[~is_there] = 0.0
            total = value if total is None else total + value
        return self._numpy.zeros(len(self.places)) if total is None else total

    # --- what lists tell of a search: all that may match, and all that must ---

    def _has(self, term: SearchTerm) -> Mask:
        if term in self._found:
            return self._numpy.ones(len(self.places), bool)  # type: ignore[no-any-return] # numpy is loaded late
        if term not in self._words:
            return self._numpy.zeros(len(self.places), bool)  # type: ignore[no-any-return] # numpy is loaded late
        return self._locate(term)[1]

    def _upper(self, tree: Expression) -> Mask:
        """Which documents may match."""
        match tree:
            case SearchTerm():
                return self._has(tree)
            case SearchPhrase(items):
                return reduce(and_, [self._has(term) for _, term in items])
            case AllWords(children):
                return reduce(and_, [self._upper(child) for child in children])
            case AnyWord(children):
                return reduce(or_, [self._upper(child) for child in children])
            case WithoutWord(child):
                return ~self._lower(child)
            case OptionalWords():
                return self._numpy.ones(len(self.places), bool)  # type: ignore[no-any-return] # numpy is loaded late

    def _lower(self, tree: Expression) -> Mask:
        """Which documents are sure to match."""
        match tree:
            case SearchPhrase():
                return self._numpy.zeros(len(self.places), bool)  # type: ignore[no-any-return] # numpy is loaded late
            case AllWords(children):
                return reduce(and_, [self._lower(child) for child in children])
            case AnyWord(children):
                return reduce(or_, [self._lower(child) for child in children])
            case WithoutWord(child):
                return ~self._upper(child)
            case _:
                return self._upper(tree)
