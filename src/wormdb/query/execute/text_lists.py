"""Text search by an index of words: the lists of the words of a search, joined and scored run by run.

All entries of a document that count are in one run of the index, so a document is its run and its place there. Lists
say how often a word is in each field and how long the fields are, which is all that scores need. What the tail changed
is taken from its documents: those before leave the statistics, those after are scored as they are. Only phrases need
documents of candidates, which come in the order of their scores.

Entries are arrays, and what is done to them is done by the same operations of floating point, in the same order, as
`wormdb.bql.search.rank.Scorer` does: so scores have the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from heapq import merge
from itertools import islice
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
from wormdb.engine.lists.postings import find_best
from wormdb.engine.state.view import id_keys
from wormdb.system.installed import load

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wormdb.bql.search.rank import Search
    from wormdb.engine.lists.postings import Floats, Places, RunWord, TextReader, Word

    Mask: TypeAlias = "NDArray[np.bool_]"

__all__ = ["RankedPart", "search_lists"]

_PART_MAX: Final = 1_024
"""Candidates whose ids are read at once."""
_NOTHING: Final[frozenset[bytes]] = frozenset()

RankedKey: TypeAlias = tuple[float, bytes, bytes, bool]
"""The negative score of a document that a search may find, the key of its id, the id, and whether it is sure."""


@dataclass(eq=False, slots=True)
class RankedPart:
    """Some documents that a search may find, the best first."""

    ids: list[bytes]
    """As JSON …"""
    keys: list[bytes]
    """… and their keys, if these are asked for."""
    scores: list[float]
    unsure: Collection[bytes]
    """The keys of those that must be held against the search."""


def search_lists(
    search: Search, reader: TextReader, *, is_sure: bool, first: int, has_keys: bool
) -> Iterator[RankedPart]:
    """The documents that a search finds at the state of a reader, the best first and ties in order of id; in parts.

    With `is_sure` lists tell everything; otherwise candidates must be held against the search. Parts have `first` of
    them at most, and then twice as many. Costs as `ListReader.read` and `read_range` for all words, then as
    `ListReader.ids` for candidates as they are taken. Without `has_keys` parts may have no keys, if all are sure.
    """
    assert search.tree is not None, "something can be found"
    if search.needed is not None:
        words = reader.words(search.needed)
        joined = [_meet(search.needed, words, reader, run) for run in range(len(reader.lists.head.runs))]
    else:
        words = reader.words(terms_of(search.tree))
        joined = [_join(search, words, reader, run) for run in range(len(reader.lists.head.runs))]
    if reader.is_one_run:
        (one,) = joined
        return iter(()) if one is None else _in_parts(reader, 0, one, first, is_sure=is_sure, has_keys=has_keys)
    runs = [
        _in_parts(reader, run, found, first, is_sure=is_sure, has_keys=True)
        for run, found in enumerate(joined)
        if found is not None
    ]
    tail = _found_in_tail(search, reader, words) if reader.lists.touched else ()
    return _parts(merge(tail, *map(_each, runs)), first)


def _each(parts: Iterator[RankedPart]) -> Iterator[RankedKey]:
    for part in parts:
        for score, key, identity in zip(part.scores, part.keys, part.ids, strict=True):
            yield -score, key, identity, key not in part.unsure


def _parts(ranked: Iterator[RankedKey], size: int) -> Iterator[RankedPart]:
    while some := list(islice(ranked, size)):
        unsure = {key for _, key, _, is_sure in some if not is_sure}
        yield RankedPart([each[2] for each in some], [each[1] for each in some], [-each[0] for each in some], unsure)
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


@dataclass(eq=False, slots=True)
class _JoinedWords:
    """The documents of a run that may be found, in order of place."""

    places: Places
    scores: Floats
    word: RunWord | None = None
    """The only word of the search, which keeps its best entries."""

    def best(self, count: int) -> tuple[Places, Floats]:
        """The best first, ties in order of place: these many, or all if there are fewer."""
        return find_best(self.places, self.scores, count) if self.word is None else self.word.best(self.scores, count)


def _join(search: Search, words: Mapping[SearchTerm, Word], reader: TextReader, run: int) -> _JoinedWords | None:
    """The documents of a run that may be found; None if there are none."""
    there = {term: found for term, word in words.items() if (found := word.runs.get(run)) is not None}
    if there.keys().isdisjoint(search.terms):
        return None
    join = _WordJoin(search, there)
    if not len(join.places):
        return None
    return _JoinedWords(
        join.places,
        join.scores([(term, reader.weigh(term, words[term])[run]) for term in search.terms if term in there]),
    )


def _meet(
    terms: Sequence[SearchTerm], words: Mapping[SearchTerm, Word], reader: TextReader, run: int
) -> _JoinedWords | None:
    """The documents of a run that have all of some words; None if there are none."""
    places: list[Places] = []
    values: list[Floats] = []
    found: RunWord | None = None
    for term in terms:
        word = words[term]
        found = word.runs.get(run)
        if found is None:
            return None
        held = word.weighed
        weighed = reader.weigh(term, word) if held is None or held[0] is not reader.mark else held[1]
        places.append(found.places)
        values.append(weighed[run])
    return _JoinedWords(places[0], values[0], found) if len(places) == 1 else _meet_all(places, values)


def _in_parts(
    reader: TextReader, run: int, found: _JoinedWords, size: int, *, is_sure: bool, has_keys: bool
) -> Iterator[RankedPart]:
    """The documents of a run, the best first."""
    places, scores = found.best(size)
    yield _part_of(reader, run, places, scores, is_sure=is_sure, has_keys=has_keys)
    if len(places) == len(found.places):
        return
    start, size = size, min(2 * size, _PART_MAX)
    places, scores = find_best(found.places, found.scores, len(found.places))
    while start < len(places):
        stop = start + size
        yield _part_of(reader, run, places[start:stop], scores[start:stop], is_sure=is_sure, has_keys=has_keys)
        start, size = stop, min(2 * size, _PART_MAX)


def _part_of(
    reader: TextReader, run: int, places: Places, scores: Floats, *, is_sure: bool, has_keys: bool
) -> RankedPart:
    ids, values = reader.ids(run, places.tolist()), scores.tolist()
    if not has_keys:
        return RankedPart(ids, [], values, _NOTHING)
    keys, touched = id_keys(ids), reader.lists.touched
    if touched and not touched.isdisjoint(keys):
        rows = [row for row, key in enumerate(keys) if key not in touched]
        keys, ids, values = [keys[row] for row in rows], [ids[row] for row in rows], [values[row] for row in rows]
    return RankedPart(ids, keys, values, _NOTHING if is_sure else {*keys})


def _meet_all(places: Sequence[Places], values: Sequence[Floats]) -> _JoinedWords | None:
    """The documents that are in all of some lists, and their scores: sums in the order of the lists."""
    if len(places) == 2:
        few = 0 if len(places[0]) <= len(places[1]) else 1
        return _meet_two(places[few], places[1 - few], values[few], values[1 - few])
    order = sorted(range(len(places)), key=list(map(len, places)).__getitem__)
    first = order[0]
    found: Places = places[first]
    kept: dict[int, Any] = {}
    """For each list where it has the documents."""
    for number in order[1:]:
        own = places[number]
        at = own.searchsorted(found)
        there = (own.take(at, mode="clip") == found).nonzero()[0]
        if not len(there):
            return None
        found = found[there]
        kept = {earlier: held[there] for earlier, held in kept.items()} if kept else {first: there}
        kept[number] = at[there]
    total = values[0][kept[0]]
    for number in range(1, len(values)):
        total = total + values[number][kept[number]]
    return _JoinedWords(found, total)


def _meet_two(few: Places, many: Places, few_values: Floats, many_values: Floats) -> _JoinedWords | None:
    """The same of two lists, as most searches of several words have: their sum has the same bits in either order."""
    at = many.searchsorted(few)
    there = (many.take(at, mode="clip") == few).nonzero()[0]
    if not len(there):
        return None
    return _JoinedWords(few[there], few_values[there] + many_values[at[there]])


def _needed(tree: Expression) -> Sequence[SearchTerm]:
    """Words without which a tree does not match."""
    if isinstance(tree, SearchTerm):
        return (tree,)
    return [term for _, term in tree.items] if isinstance(tree, SearchPhrase) else ()


class _WordJoin:
    """The documents of a run that may match a search, by place, with where the words that it needs have them."""

    def __init__(self, search: Search, words: Mapping[SearchTerm, RunWord]) -> None:
        assert search.tree is not None, "something can be found"
        tree: Expression = search.tree
        self._numpy = load("numpy", "text")
        self._words = words
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

    def scores(self, weighed: Sequence[tuple[SearchTerm, Floats]]) -> Floats:
        """The scores of the documents, of what the entries of words count: sums in the order of the words.

        As `Scorer.score` makes them; words that the run does not have are left out.
        """
        total: Floats | None = None
        for term, values in weighed:
            known = self._found.get(term)
            if known is not None:
                value = values[known]
            else:
                at, is_there = self._locate(term)
                value = values.take(at, mode="clip")
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
