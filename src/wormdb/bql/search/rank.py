"""Which documents a search finds, and in which order: what every plan with `search` must agree with.

The score is BM25F. A word of the search counts for a document by how often it is there, and the more the rarer it is:

    x     = sum over the fields of  weight * times / (1 - BM25_B + BM25_B * length / mean length)
    score = sum over the words of   log(1 + (N - n + 0.5) / (n + 0.5)) * x * (BM25_K1 + 1) / (BM25_K1 + x)

N are the documents with any word in these fields, n those of them that have the word (where it may be: `title:red`
counts titles only); all words of a prefix are one. Statistics are those of the whole collection at that state, whatever
the filter. Ties are in order of id. Sums are made in the order of the fields and of the words as they are written, so
that every plan has the same bits. Times count to TIMES_MAX, and lengths are rounded down as `round_length` does: an
index has a byte for each.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import force_setattr

from wormdb.bql.search.expression import (
    AllWords,
    AnyWord,
    Expression,
    OptionalWords,
    SearchPhrase,
    SearchTerm,
    WithoutWord,
    scored_terms,
)
from wormdb.bql.search.fields import SearchFields, texts_of
from wormdb.format.key import encode_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wormdb.format.kinds import Document

__all__ = [
    "BM25_B",
    "BM25_K1",
    "LEVELS",
    "TIMES_MAX",
    "DocumentWords",
    "Scorer",
    "Search",
    "TextStatistics",
    "level_of",
    "matches",
    "rank_documents",
    "rarity_of",
    "read_words",
    "round_length",
]

BM25_K1: Final = 1.2
"""How soon more of the same word stops to count."""
BM25_B: Final = 0.75
"""How much a long text counts against its words."""
TIMES_MAX: Final = 255
_LENGTH_EXACT: Final = 64
_ONE_KIND: Final = {SearchTerm}


class Search(msgspec.Struct, frozen=True):
    """What `search` asks for."""

    text: str
    """As it was written."""
    tree: Expression | None
    """None if nothing can be found."""
    fields: SearchFields
    index: str | None = None
    """The text index that it names."""
    terms: tuple[SearchTerm, ...] = ()
    """The words that count, in their order; found in the tree."""
    needed: tuple[SearchTerm, ...] | None = None
    """The words, if a document is found exactly if it has all of them; None if there is more to it."""

    def __post_init__(self) -> None:
        tree = self.tree
        if tree is None:
            return
        children: tuple[Any, ...] = ()
        if type(tree) is SearchTerm:
            children = (tree,)
        elif type(tree) is AllWords:
            children = tree.children
        terms = tuple(dict.fromkeys(children)) if {*map(type, children)} == _ONE_KIND else None
        force_setattr(self, "terms", scored_terms(tree) if terms is None else terms)
        force_setattr(self, "needed", terms)

    def __repr__(self) -> str:
        return f"Search({self.text!r}, {', '.join(field.text for field in self.fields.fields)})"


# --- the words of one document ---


@dataclass(frozen=True)
class DocumentWords:
    """The words of one document, by field."""

    texts: tuple[tuple[list[str | None], ...], ...]
    """For each field the words of each of its texts; None for a stop word."""

    @cached_property
    def counts(self) -> tuple[Counter[str], ...]:
        """For each field how often each word is there."""
        return tuple(
            Counter(term for text in texts for term in text if term is not None) if texts else _NOTHING
            for texts in self.texts
        )

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """For each field how many words there are."""
        return tuple(counter.total() for counter in self.counts)

    def times(self, term: SearchTerm) -> tuple[int, ...]:
        """For each field how often a word is there, TIMES_MAX at most; 0 where it does not count."""
        return tuple(
            0 if term.field not in {None, place} else min(_times(counter, term), TIMES_MAX)
            for place, counter in enumerate(self.counts)
        )

    def has(self, term: SearchTerm) -> bool:
        """Whether a word is there."""
        return any(self.times(term))

    def has_phrase(self, phrase: SearchPhrase) -> bool:
        """Whether words are at their distances in one text."""
        (_, first), *others = phrase.items
        for place, texts in enumerate(self.texts):
            if first.field not in {None, place}:
                continue
            for text in texts:
                for start, word in enumerate(text):
                    if _is_word(word, first) and all(
                        start + at < len(text) and _is_word(text[start + at], term) for at, term in others
                    ):
                        return True
        return False


_NOTHING: Final[Counter[str]] = Counter()


def read_words(document: Document, fields: SearchFields) -> DocumentWords:
    """The words of a document. No requests; raises MissingExtraError."""
    analyzer = fields.analyzer
    return DocumentWords(
        tuple(tuple(analyzer.terms(text) for text in texts_of(document, each.path)) for each in fields.fields)
    )


def matches(tree: Expression, words: DocumentWords) -> bool:
    """Whether a document is found. No requests."""
    match tree:
        case SearchTerm():
            return words.has(tree)
        case SearchPhrase():
            return words.has_phrase(tree)
        case AllWords(children):
            return all(matches(child, words) for child in children)
        case AnyWord(children):
            return any(matches(child, words) for child in children)
        case WithoutWord(child):
            return not matches(child, words)
        case OptionalWords():
            return True


def _times(counter: Mapping[str, int], term: SearchTerm) -> int:
    if not term.is_prefix:
        return counter.get(term.term, 0)
    return sum(times for word, times in counter.items() if word.startswith(term.term))


def _is_word(word: str | None, term: SearchTerm) -> bool:
    return word == term.term or (term.is_prefix and word is not None and word.startswith(term.term))


# --- statistics and scores ---


@dataclass(slots=True)
class TextStatistics:
    """What scores depend on beside the document: they are summed over documents, in any order."""

    documents: int
    """Documents with any word."""
    lengths: list[int]
    """For each field the words of all documents."""
    found: list[int]
    """For each word of the search the documents that have it."""

    @classmethod
    def empty(cls, search: Search) -> TextStatistics:
        """Of no documents."""
        return cls(0, [0] * len(search.fields.fields), [0] * len(search.terms))

    def add(self, words: DocumentWords, times: Sequence[tuple[int, ...]]) -> None:
        """Count one document, with how often it has each word of the search."""
        if any(words.lengths):
            self.documents += 1
            self.lengths = [a + b for a, b in zip(self.lengths, words.lengths, strict=True)]
            self.found = [count + any(each) for count, each in zip(self.found, times, strict=True)]


@dataclass(frozen=True)
class Scorer:
    """Scores documents by one search and the statistics of one state."""

    search: Search
    statistics: TextStatistics
    _weights: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_weights", tuple(each.weight for each in self.search.fields.fields))

    @cached_property
    def rarities(self) -> tuple[float, ...]:
        """For each word of the search how much it counts."""
        total = self.statistics.documents
        return tuple(rarity_of(total, count) for count in self.statistics.found)

    @cached_property
    def means(self) -> tuple[float, ...]:
        """For each field its mean length; 1 if it has no words."""
        total = max(self.statistics.documents, 1)
        return tuple(length / total if length else 1.0 for length in self.statistics.lengths)

    def score(self, times: Sequence[Sequence[int]], lengths: Sequence[int]) -> float:
        """Of a document with these times of each word, in each field, and these rounded lengths. No requests."""
        found = 0.0
        for number, each in enumerate(times):
            found += self.value(number, each, lengths)
        return found

    def value(self, number: int, times: Sequence[int], lengths: Sequence[int]) -> float:
        """What one word of the search counts, by its number; 0 if it is not there. No requests."""
        weighted = 0.0
        for weight, count, length, mean in zip(self._weights, times, lengths, self.means, strict=True):
            if count:
                weighted += weight * count / (1.0 - BM25_B + BM25_B * length / mean)
        return self.rarities[number] * (weighted * (BM25_K1 + 1.0) / (BM25_K1 + weighted)) if weighted else 0.0


def rarity_of(total: int, count: int) -> float:
    """How much a word counts that so many of all documents have. No requests."""
    return log(1.0 + (total - count + 0.5) / (count + 0.5))


def rank_documents(search: Search, documents: Iterable[Document]) -> list[tuple[float, Document]]:
    """The documents that a search finds, the best first and ties in order of id, each with its score. No requests."""
    statistics = TextStatistics.empty(search)
    candidates: list[tuple[Document, list[tuple[int, ...]], list[int]]] = []
    for document in documents:
        words = read_words(document, search.fields)
        times = [words.times(term) for term in search.terms]
        statistics.add(words, times)
        if search.tree is not None and matches(search.tree, words):
            candidates.append((document, times, [round_length(length) for length in words.lengths]))
    scorer = Scorer(search, statistics)
    found = [(scorer.score(times, lengths), document) for document, times, lengths in candidates]
    return sorted(found, key=lambda each: (-each[0], encode_key(each[1]["_id"])))


# --- lengths ---


def _levels() -> list[int]:
    """All lengths that there are: exact ones to 64, then eight steps from each to its double."""
    levels = list(range(_LENGTH_EXACT))
    base = _LENGTH_EXACT
    while len(levels) < 256:
        levels += [base + base // 8 * step for step in range(8)]
        base *= 2
    return levels[:256]


LEVELS: Final = tuple(_levels())


def round_length(length: int) -> int:
    """The length that counts: the next one below that a byte can name. No requests."""
    return length if length < _LENGTH_EXACT else LEVELS[level_of(length)]


def level_of(length: int) -> int:
    """The byte of a length: `LEVELS` of it is what counts. No requests."""
    return length if length < _LENGTH_EXACT else min(bisect_left(LEVELS, length + 1) - 1, len(LEVELS) - 1)
