"""Text search by an index of words: the lists of the words of a search, joined and scored run by run.

All entries of a document that count are in one run of the index, so a document is its run and its place there. Lists
say how often a word is in each field and how long the fields are, which is all that scores need. What the tail changed
is taken from its documents: those before leave the statistics, those after are scored as they are. Only phrases need
documents of candidates, which come in the order of their scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

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
from wormdb.bql.search.rank import (
    LEVELS,
    TIMES_MAX,
    DocumentWords,
    Scorer,
    Search,
    TextStatistics,
    matches,
    read_words,
    round_length,
)
from wormdb.engine.state.view import id_key
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wormdb.engine.lists.read import ListReader, RunList

__all__ = ["TextCandidate", "search_lists"]

_IDS_FIRST: Final = 32
"""Candidates of a run whose ids are read at once, to begin with."""
_IDS_MAX: Final = 4_096

Payloads: TypeAlias = "dict[int, tuple[int, ...]]"
"""By place what a run says of a word in each document: times for each field, then levels of lengths."""


@dataclass(frozen=True, slots=True)
class TextCandidate:
    """A document that a search may find."""

    key: bytes
    score: float
    is_sure: bool
    """Whether phrases were looked at too."""


def search_lists(search: Search, reader: ListReader, *, is_sure: bool) -> Iterator[TextCandidate]:
    """The documents that a search finds at the state of a reader, the best first and ties in order of id.

    With `is_sure` lists tell everything; otherwise candidates must be held against the search. Costs as
    `ListReader.read` and `read_range` for all words, then as `ListReader.ids` for candidates as they are taken.
    """
    found = _FoundLists(search, reader)
    tail = sorted((-score, key) for key, score in found.tail())
    streams: list[Iterator[tuple[float, bytes, bool]]] = [iter([(score, key, True) for score, key in tail])]
    streams += [found.run(number, is_sure=is_sure) for number in range(len(reader.head.runs))]
    for score, key, is_told in merge(*streams, key=lambda each: each[:2]):
        yield TextCandidate(key, -score, is_told)


def _ranked(scores: Mapping[int, float]) -> Iterator[tuple[float, int]]:
    """Negative scores and places, the best first and ties in order of place.

    Few scores are different, so these are put in order, and places only of those that are taken.
    """
    places: dict[float, list[int]] = {}
    for at, score in scores.items():
        known = places.get(score)
        if known is None:
            places[score] = [at]
        else:
            known.append(at)
    for score in sorted(places, reverse=True):
        for at in sorted(places[score]):
            yield -score, at


class _FoundLists:
    """The lists of a search's words, and what follows from them."""

    def __init__(self, search: Search, reader: ListReader) -> None:
        self._search = search
        self._reader = reader
        assert search.tree is not None, "something can be found"
        self._tree: Expression = search.tree
        self._width = len(search.fields.fields)
        terms = terms_of(self._tree)
        exact = {term.term.encode() for term in terms if not term.is_prefix}
        lists = dict(reader.read(sorted(exact)))
        ranges: dict[bytes, dict[bytes, list[RunList]]] = {}
        for prefix in sorted({term.term.encode() for term in terms if term.is_prefix}):
            ranges[prefix] = reader.read_range(prefix)
        self._payloads = {term: self._of_term(term, lists, ranges) for term in terms}
        self._scorer = Scorer(search, self._statistics())

    def _of_term(
        self,
        term: SearchTerm,
        lists: Mapping[bytes, Sequence[RunList]],
        ranges: Mapping[bytes, Mapping[bytes, Sequence[RunList]]],
    ) -> dict[int, Payloads]:
        """By run what it says of a word."""
        key = term.term.encode()
        some = list(ranges[key].values()) if term.is_prefix else [lists.get(key, ())]
        made: dict[int, Payloads] = {}
        for found in (found for runs in some for found in runs):
            entries = found.entries
            rows: Iterable[tuple[int, tuple[int, ...]]] = zip(
                entries.places, zip(*entries.columns, strict=True), strict=True
            )
            if found.hidden:
                rows = [row for at, row in enumerate(rows) if at not in found.hidden]
            known = made.setdefault(found.run, {})
            if not known:
                known.update(rows)
            else:
                self._add(known, rows)
        if term.field is not None:
            place = term.field
            made = {run: {at: row for at, row in rows.items() if row[place]} for run, rows in made.items()}
        return made

    def _add(self, known: Payloads, rows: Iterable[tuple[int, tuple[int, ...]]]) -> None:
        """Take in what another word with the same beginning has."""
        width = self._width
        for at, row in rows:
            before = known.get(at)
            if before is None:
                known[at] = row
            else:
                times = [min(a + b, TIMES_MAX) for a, b in zip(before[:width], row[:width], strict=True)]
                known[at] = (*times, *row[width:])

    # --- statistics ---

    def _statistics(self) -> TextStatistics:
        total, *lengths = self._reader.tally() or (0, *[0] * self._width)
        found = [sum(map(len, self._payloads[term].values())) for term in self._search.terms]
        for document in self._reader.replaced():
            if document is not None:
                words = self._words(document)
                found = [count - words.has(term) for count, term in zip(found, self._search.terms, strict=True)]
        self._tail = [(id_key(held.id), self._words(held.document)) for held in self._reader.tail if held.document]
        for _, words in self._tail:
            found = [count + words.has(term) for count, term in zip(found, self._search.terms, strict=True)]
        return TextStatistics(total, lengths, found)

    def _words(self, document: bytes) -> DocumentWords:
        return read_words(json.decode_document(document, name="document"), self._search.fields)

    def tail(self) -> Iterator[tuple[bytes, float]]:
        """The keys and scores of documents of the tail that are found."""
        for key, words in self._tail:
            if matches(self._tree, words):
                times = [words.times(term) for term in self._search.terms]
                yield key, self._scorer.score(times, [round_length(length) for length in words.lengths])

    # --- runs ---

    def run(self, run: int, *, is_sure: bool) -> Iterator[tuple[float, bytes, bool]]:
        """The negative scores and keys of the documents of a run that may be found, the best first."""
        counted = [self._payloads[term].get(run, {}) for term in self._search.terms]
        ranked = _ranked(self._scores(counted, self._chosen(run, counted)))
        size, touched = _IDS_FIRST, self._reader.touched
        while some := list(islice(ranked, size)):
            for (score, _), key in zip(some, self._keys(run, [at for _, at in some]), strict=True):
                if key not in touched:
                    yield score, key, is_sure
            size = min(2 * size, _IDS_MAX)

    def _chosen(self, run: int, counted: Sequence[Payloads]) -> Iterable[int]:
        """The places of a run that may match: those of a single word, or begun with the rarest that all must have."""
        tree = self._tree
        if isinstance(tree, SearchTerm):
            return counted[0]
        needed = (
            [child for child in tree.children if isinstance(child, SearchTerm)] if isinstance(tree, AllWords) else []
        )
        if not needed:
            return self._upper(tree, run, set().union(*counted))
        rarest = min(needed, key=lambda term: len(self._payloads[term].get(run, ())))
        return self._upper(tree, run, set(self._payloads[rarest].get(run, ())))

    def _keys(self, run: int, places: Sequence[int]) -> list[bytes]:
        return [id_key(identity) for identity in self._reader.ids_at(run, places)]

    def _scores(self, counted: Sequence[Payloads], chosen: Iterable[int]) -> dict[int, float]:
        """The score of each place: sums in the order of the words, as `Scorer.score` makes them."""
        scores = dict.fromkeys(chosen, 0.0)
        for number, rows in enumerate(counted):
            known: dict[tuple[int, ...], float] = {}
            for at in rows if len(rows) < len(scores) else list(scores):
                row = rows.get(at)
                if row is not None and at in scores:
                    value = known.get(row)
                    if value is None:
                        value = known[row] = self._value(number, row)
                    scores[at] += value
        return scores

    def _value(self, number: int, row: tuple[int, ...]) -> float:
        """What one word counts for a document."""
        term, width = self._search.terms[number], self._width
        times = [count if term.field in {None, place} else 0 for place, count in enumerate(row[:width])]
        return self._scorer.value(number, times, [LEVELS[level] for level in row[width:]])

    # --- what lists tell of a search: all that may match, and all that must ---

    def _upper(self, tree: Expression, run: int, everything: set[int]) -> set[int]:
        """All places that may match, among `everything`."""
        match tree:
            case SearchTerm():
                known = self._payloads[tree].get(run, {})
                return {at for at in everything if at in known}
            case SearchPhrase(items):
                return reduce(lambda left, item: self._upper(item[1], run, left), items, everything)
            case AllWords(children):
                return reduce(lambda left, child: self._upper(child, run, left), children, everything)
            case AnyWord(children):
                return reduce(set.__or__, [self._upper(child, run, everything) for child in children])
            case WithoutWord(child):
                return everything - self._lower(child, run, everything)
            case OptionalWords():
                return everything

    def _lower(self, tree: Expression, run: int, everything: set[int]) -> set[int]:
        """All places that are sure to match, among `everything`."""
        match tree:
            case SearchPhrase():
                return set()
            case AllWords(children):
                return reduce(set.__and__, [self._lower(child, run, everything) for child in children])
            case AnyWord(children):
                return reduce(set.__or__, [self._lower(child, run, everything) for child in children])
            case WithoutWord(child):
                return everything - self._upper(child, run, everything)
            case _:
                return self._upper(tree, run, everything)
