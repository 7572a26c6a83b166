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
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wormdb.bql.search.rank import Search
    from wormdb.engine.lists.postings import Floats, Places, RunWord, TextReader, Word

    Mask: TypeAlias = "NDArray[np.bool_]"

__all__ = ["RankedKey", "search_lists"]

_PUT_IN_ORDER: Final = 512
"""Scores up to which all are put in order, also if few of them are taken."""
_PART_MAX: Final = 1_024
"""Candidates whose ids are read at once."""

_NOTHING: Final[tuple[Any, Any]] = ((), ())

RankedKey: TypeAlias = tuple[float, bytes, bytes, bool]
"""The negative score of a document that a search may find, the key of its id, the id, and whether it is sure."""


def search_lists(search: Search, reader: TextReader, *, is_sure: bool, first: int) -> Iterator[list[RankedKey]]:
    """The documents that a search finds at the state of a reader, the best first and ties in order of id; in parts.

    With `is_sure` lists tell everything; otherwise candidates must be held against the search. Parts have `first` of
    them at most, and then twice as many. Costs as `ListReader.read` and `read_range` for all words, then as
    `ListReader.ids` for candidates as they are taken.
    """
    assert search.tree is not None, "something can be found"
    words = reader.words(terms_of(search.tree) if search.needed is None else search.needed)
    rarities = [reader.rarity(term, words[term]) for term in search.terms]
    runs = [
        _in_parts(reader, run, _join(search, reader, words, rarities, run), first, is_sure=is_sure)
        for run in range(len(reader.lists.head.runs))
        if any(run in words[term].runs for term in search.terms)
    ]
    tail = _found_in_tail(search, reader, words) if reader.lists.touched else ()
    if not tail and len(runs) == 1:
        return runs[0]
    return _parts(merge(tail, *(chain.from_iterable(run) for run in runs)), first)


def _parts(ranked: Iterator[RankedKey], size: int) -> Iterator[list[RankedKey]]:
    while some := list(islice(ranked, size)):
        yield some
        size = min(2 * size, _PART_MAX)


def _found_in_tail(search: Search, reader: TextReader, words: Mapping[SearchTerm, Word]) -> list[RankedKey]:
    """The documents of the tail that are found, the best first."""
    assert search.tree is not None, "something can be found"
    scorer = Scorer(search, reader.statistics([reader.count(term, words[term]) for term in search.terms]))
    found: list[RankedKey] = []
    for key, identity, own in reader.tail:
        if matches(search.tree, own):
            times = [own.times(term) for term in search.terms]
            score = scorer.score(times, [round_length(length) for length in own.lengths])
            found.append((-score, key, identity, True))
    return sorted(found)


def _join(
    search: Search, reader: TextReader, words: Mapping[SearchTerm, Word], rarities: Sequence[float], run: int
) -> tuple[Places, Floats]:
    """The documents of a run that may be found, in order of place, and their scores."""
    there = {term: found for term, word in words.items() if (found := word.runs.get(run)) is not None}
    if search.needed is not None:
        return _meet([there[term] for term in search.terms], rarities, reader) if len(there) == len(words) else _NOTHING
    join = _WordJoin(search, there, reader)
    return join.places, join.scores(search.terms, rarities)


def _in_parts(
    reader: TextReader, run: int, found: tuple[Places, Floats], size: int, *, is_sure: bool
) -> Iterator[list[RankedKey]]:
    """The documents of a run, the best first."""
    touched = reader.lists.touched
    for ordered, values in _ranked(*found, size):
        start = 0
        while start < len(ordered):
            ids = reader.ids(run, ordered[start : start + size])
            known = zip(values[start : start + size], map(id_key, ids), ids, strict=True)
            yield [(-score, key, identity, is_sure) for score, key, identity in known if key not in touched]
            start, size = start + size, min(2 * size, _PART_MAX)


def _meet(words: Sequence[RunWord], rarities: Sequence[float], reader: TextReader) -> tuple[Places, Floats]:
    """The documents that have all of some words, and their scores: sums in the order of the words."""
    if len(words) == 1:
        return words[0].places, words[0].values(reader, rarities[0])
    order = sorted(range(len(words)), key=lambda number: len(words[number].places))
    places = words[order[0]].places
    found: list[Any] = [None] * len(words)
    for number in order[1:]:
        own = words[number].places
        at = own.searchsorted(places)
        is_there = own.take(at, mode="clip") == places
        places = places[is_there]
        for earlier in order[: order.index(number)]:
            held = found[earlier]
            found[earlier] = is_there.nonzero()[0] if held is None else held[is_there]
        found[number] = at[is_there]
    total: Floats = words[0].values(reader, rarities[0])[found[0]]
    for number in range(1, len(words)):
        total = total + words[number].values(reader, rarities[number])[found[number]]
    return places, total


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

    def __init__(self, search: Search, words: Mapping[SearchTerm, RunWord], reader: TextReader) -> None:
        assert search.tree is not None, "something can be found"
        tree: Expression = search.tree
        self._numpy = load("numpy", "text")
        self._words = words
        self._reader = reader
        self._found: dict[SearchTerm, Places | slice] = {}
        """For words that all of the documents have, where they are among its entries."""
        self.places: Places = self._numpy.empty(0, self._numpy.int64)
        children = tree.children if isinstance(tree, AllWords) else (tree,)
        needed = tuple(dict.fromkeys(term for child in children for term in _needed(child)))
        if all(term in words for term in needed):
            self._begin(needed or [term for term in search.terms if term in words], is_all=bool(needed))
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
                value = word.values(self._reader, rarity)[known]
            else:
                at, is_there = self._locate(term)
                value = word.values(self._reader, rarity).take(at, mode="clip")
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
