"""A text index over one view, for searches: the entries of words as arrays, and what scores need of the state.

Arrays are numpy's, which the extra for text brings. What a word has in the runs of a root never changes, so it is kept
within the setting `cache_bytes`, by the names of the runs; the documents of the tail are cut once for a state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from wormdb.bql.search.rank import (
    BM25_B,
    BM25_K1,
    LEVELS,
    TIMES_MAX,
    DocumentWords,
    TextStatistics,
    rarity_of,
    read_words,
)
from wormdb.engine.blocks.shelf import Label
from wormdb.engine.lists.read import read_lists
from wormdb.engine.lists.text_kind import TextKind
from wormdb.engine.state.view import id_key
from wormdb.format import json
from wormdb.format.list_part import IDS_PER_PAGE
from wormdb.settings import KIB
from wormdb.system.installed import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wormdb.bql.search.expression import SearchTerm
    from wormdb.bql.search.fields import SearchFields
    from wormdb.engine.blocks.shelf import ColumnCache
    from wormdb.engine.lists.read import ListReader, RunList
    from wormdb.engine.lists.shelf import ListShelf
    from wormdb.engine.state.view import View
    from wormdb.format.list_part import TextArray

    Places = NDArray[np.int64]
    Bytes = NDArray[np.uint8]
    Floats = NDArray[np.float64]

__all__ = ["RunWord", "TextReader", "Word", "find_best", "open_texts"]

T = TypeVar("T")

_WORD_KIND: Final = "word"
_ENTRY_MEMORY: Final = 16
"""Bytes of an entry beside its times and levels: its place, and what it counts."""
BEST_KEPT: Final = 64
"""Of the entries of a word, the best are kept in their order: these many, and they take as much again."""
_IDS_MEMORY: Final = 256 * KIB
"""Of a page of ids that is at hand, at most …"""
_ID_SHORT: Final = 128
"""… where ids have about this many bytes."""
_PUT_IN_ORDER: Final = 512
"""Values up to which all are put in order, also if few of them are taken."""


@dataclass(eq=False, slots=True)
class RunWord:
    """What one run says of a word: of each document that has it, in order of place."""

    places: Places
    times: tuple[Bytes, ...]
    """For each field how often the word is there; zeros where it does not count."""
    levels: tuple[Bytes, ...]
    """For each field the level of its length."""
    counted: tuple[tuple[float, ...], float, Floats] | None = None
    """What each entry counts, for the mean lengths and the rarity that were asked for last."""
    _best: tuple[Floats, Places, Floats] | None = None
    """The best entries, for what entries counted last."""

    def values(self, reader: TextReader, rarity: float) -> Floats:
        """What each entry counts for a word of this rarity: as `Scorer.value` does, operation by operation."""
        means, held = reader.means, self.counted
        if held is not None and held[1] == rarity and held[0] == means:
            return held[2]
        weighted: Floats | None = None
        for weight, norms, times, levels in zip(reader.weights, reader.norms, self.times, self.levels, strict=True):
            part: Floats = weight * times / norms[levels]
            weighted = part if weighted is None else weighted + part
        assert weighted is not None, "there is a field"
        found: Floats = rarity * (weighted * (BM25_K1 + 1.0) / (BM25_K1 + weighted))
        self.counted = means, rarity, found
        return found

    def best(self, values: Floats, count: int) -> tuple[Places, Floats]:
        """The places of the best entries and what they count, the best first and ties in order of place.

        `values` are those of `values`. There are `count`, or all.
        """
        if count > BEST_KEPT:
            return find_best(self.places, values, count)
        held = self._best
        if held is None or held[0] is not values:
            held = self._best = values, *find_best(self.places, values, BEST_KEPT)
        return held[1][:count], held[2][:count]


def find_best(places: Places, values: Floats, count: int) -> tuple[Places, Floats]:
    """The places with the highest values, and these: the best first, ties in their order; all if there are fewer.

    No requests.
    """
    if len(values) == 1 and count:
        return places, values
    if len(values) > max(_PUT_IN_ORDER, 2 * count):
        least = load("numpy", "text").partition(values, len(values) - count)[len(values) - count]
        is_first = values >= least
        places, values = places[is_first], values[is_first]
    order = (-values).argsort(kind="stable")[:count]
    return places[order], values[order]


@dataclass(eq=False, slots=True)
class Word:
    """What all runs say of a word, or of all words with one beginning."""

    runs: dict[int, RunWord]
    """By the number of the run, those that have entries."""
    count: int
    """Of entries."""
    weighed: tuple[object, dict[int, Floats]] | None = None
    """What entries count by run, as `TextReader.weigh` found for the state of the mark."""


_NO_WORD: Final = Word({}, 0)


class _Kept(Generic[T]):
    """What a method makes, kept by its object: no lock is held meanwhile, so two threads may make it twice.

    `functools.cached_property` of Python 3.11 has one lock for all objects of the class: while one search reads from a
    store, searches of other threads and collections would wait for it, past their deadlines.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, owner: Any, kind: type) -> T:
        made = owner.__dict__[self._name] = self._make(owner)
        return made


@dataclass(eq=False)
class TextReader:
    """A text index at the state of a view. Thread-safe: what it keeps may be made twice.

    Every method may raise CorruptionError, SnapshotTooOldError, and MissingExtraError without numpy.
    """

    lists: ListReader
    fields: SearchFields
    _numpy: Any = field(init=False)

    def __post_init__(self) -> None:
        self._numpy = load("numpy", "text")
        self._pages: dict[tuple[int, int], TextArray | list[bytes]] = {}
        """Pages of ids that are at hand, by run and number: few beside all that may be kept."""
        runs = ",".join(run.parts[0].name if run.parts else "" for run in self.lists.head.runs)
        self._state = f"{'' if self.lists.folder is None else self.lists.folder.folder}{runs}"
        self.mark = object()
        """Stands for the state: what words keep must not keep the reader."""
        self.is_one_run = len(self.lists.head.runs) == 1 and not self.lists.touched
        """Whether one run has all that there is."""

    def is_of(self, view: View) -> bool:
        """Whether it is the state of a view. No requests."""
        own = self.lists.view
        is_same = own.number == view.number and own.overlay is view.overlay
        return is_same and own.base is view.base and own.definition is view.definition

    # --- the state ---

    @_Kept
    def tail(self) -> list[tuple[bytes, bytes, DocumentWords]]:
        """The documents of the tail: the key and the JSON of each id, and its words."""
        return [(id_key(held.id), held.id, self._cut(held.document)) for held in self.lists.tail if held.document]

    @_Kept
    def replaced(self) -> list[DocumentWords]:
        """The words of the documents of the root that the tail changed. Costs as `ListReader.replaced`."""
        return [self._cut(document) for document in self.lists.replaced() if document is not None]

    @_Kept
    def _tally(self) -> tuple[int, tuple[int, ...]]:
        total, *lengths = self.lists.head.tally or (0, *[0] * len(self.fields.fields))
        for sign, some in ((-1, self.replaced), (1, [words for _, _, words in self.tail])):
            for words in some:
                total += sign * any(words.lengths)
                lengths = [one + sign * other for one, other in zip(lengths, words.lengths, strict=True)]
        return total, tuple(lengths)

    def statistics(self, found: Sequence[int]) -> TextStatistics:
        """Those of the state, for words that this many documents have. Costs as `replaced`, once."""
        total, lengths = self._tally
        return TextStatistics(total, list(lengths), list(found))

    def rarity(self, term: SearchTerm, word: Word) -> float:
        """How much a word counts that lists have so. Costs as `replaced`, once."""
        return rarity_of(self._tally[0], self.count(term, word))

    def weigh(self, term: SearchTerm, word: Word) -> dict[int, Floats]:
        """What each entry of a word counts, by run. Costs as `rarity`."""
        rarity = self.rarity(term, word)
        found = {run: one.values(self, rarity) for run, one in word.runs.items()}
        word.weighed = self.mark, found
        return found

    def count(self, term: SearchTerm, word: Word) -> int:
        """In how many documents of the state a word is that lists have so. Costs as `replaced`, once."""
        found = word.count
        if self.lists.touched:
            for words in self.replaced:
                found -= words.has(term)
            for _, _, words in self.tail:
                found += words.has(term)
        return found

    @_Kept
    def weights(self) -> tuple[float, ...]:
        """Of the fields."""
        return tuple(each.weight for each in self.fields.fields)

    @_Kept
    def means(self) -> tuple[float, ...]:
        """The mean lengths of the fields, as `Scorer.means` has them."""
        total, lengths = self._tally
        return tuple(length / max(total, 1) if length else 1.0 for length in lengths)

    @_Kept
    def norms(self) -> list[Floats]:
        """For each field what times are divided by, for each level of its length."""
        lengths = self._numpy.array(LEVELS, self._numpy.float64)
        return [1.0 - BM25_B + BM25_B * lengths / mean for mean in self.means]

    def _cut(self, document: bytes) -> DocumentWords:
        return read_words(json.decode_document(document, name="document"), self.fields)

    # --- words ---

    def words(self, terms: Iterable[SearchTerm]) -> dict[SearchTerm, Word]:
        """What the runs have of each of some words. Costs as `ListReader.read` and `read_range` of what is not kept."""
        if self.lists.folder is None:
            return dict.fromkeys(terms, _NO_WORD)
        cache, found = self.lists.folder.shelf.pages, {}
        missing: dict[SearchTerm, Label] = {}
        for term in terms:
            label = Label(self._state, _WORD_KIND, term.term.encode())
            word: Word | None = None if term.is_prefix else cache.find(label)
            if word is None:
                missing[term] = label
            else:
                found[term] = word if term.field is None else _in_field(word, term.field)
        return found | self._read(missing, cache) if missing else found

    def _read(self, wanted: Mapping[SearchTerm, Label], cache: ColumnCache) -> dict[SearchTerm, Word]:
        """Words that are not kept. All words that are no prefixes are read together."""
        keys = {term: term.term.encode() for term in wanted}
        lists = self.lists.read({key for term, key in keys.items() if not term.is_prefix})
        found: dict[SearchTerm, Word] = {}
        for term, label in wanted.items():
            if term.is_prefix:
                word = self._word(self.lists.read_range(keys[term]).values())
            else:
                word = self._word([lists.get(keys[term], ())])
                cache.keep(label, word, self._size(word))
            found[term] = word if term.field is None else _in_field(word, term.field)
        return found

    def _size(self, word: Word) -> int:
        """The bytes of a word with what it counts, about."""
        best = sum(min(len(one.places), BEST_KEPT) for one in word.runs.values())
        return word.count * (_ENTRY_MEMORY + 2 * len(self.fields.fields)) + best * _ENTRY_MEMORY

    def _word(self, lists: Iterable[Sequence[RunList]]) -> Word:
        """The lists of one word, or of several that count as one."""
        by_run: dict[int, list[RunWord]] = {}
        for found in (found for runs in lists for found in runs):
            if found.count:
                by_run.setdefault(found.run, []).append(self._of_run(found))
        runs = {run: some[0] if len(some) == 1 else self._united(some) for run, some in by_run.items()}
        return Word(runs, sum(len(one.places) for one in runs.values()))

    def _of_run(self, found: RunList) -> RunWord:
        numpy, entries = self._numpy, found.entries
        places = numpy.frombuffer(entries.places, numpy.uint32).astype(numpy.int64)
        columns = [numpy.frombuffer(column, numpy.uint8) for column in entries.columns]
        if found.hidden:
            is_shown = numpy.ones(len(places), bool)
            is_shown[list(found.hidden)] = False
            places, columns = places[is_shown], [column[is_shown] for column in columns]
        width = len(self.fields.fields)
        return RunWord(places, tuple(columns[:width]), tuple(columns[width:]))

    def _united(self, some: Sequence[RunWord]) -> RunWord:
        """Words with the same beginning as one: of a document that has several, times are added."""
        numpy = self._numpy
        every = numpy.concatenate([one.places for one in some])
        places, first, at = numpy.unique(every, return_index=True, return_inverse=True)
        times, levels = [], []
        for number in range(len(self.fields.fields)):
            sums = numpy.zeros(len(places), numpy.int64)
            numpy.add.at(sums, at, numpy.concatenate([one.times[number] for one in some]))
            times.append(numpy.minimum(sums, TIMES_MAX).astype(numpy.uint8))
            levels.append(numpy.concatenate([one.levels[number] for one in some])[first])
        return RunWord(places, tuple(times), tuple(levels))

    # --- documents ---

    def ids(self, run: int, places: Sequence[int]) -> list[bytes]:
        """The ids, as JSON, of some documents of a run. Costs as `ListReader.ids_at`."""
        pages = self._pages
        try:
            return [pages[run, place // IDS_PER_PAGE][place % IDS_PER_PAGE] for place in places]
        except KeyError:
            wanted = {(run, place // IDS_PER_PAGE) for place in places}
        known = {key: held for key in wanted if (held := pages.get(key)) is not None}
        known |= {key: self._listed(page.ids) for key, page in self.lists.id_pages(wanted - known.keys()).items()}
        most = 0 if self.lists.folder is None else self.lists.folder.shelf.pages.bytes_max // _IDS_MEMORY
        if len(pages) + len(known) > most:
            pages.clear()
        if len(known) <= most:
            pages |= known
        return [known[run, place // IDS_PER_PAGE][place % IDS_PER_PAGE] for place in places]

    def _listed(self, ids: TextArray) -> TextArray | list[bytes]:
        """The ids of a page, at hand if they are short and the state has no tail, as one that is searched often."""
        is_short = len(ids) > 0 and len(ids[0]) + len(ids[len(ids) - 1]) <= 2 * _ID_SHORT
        return list(ids) if is_short and self.is_one_run else ids


def open_texts(view: View, name: str, shelf: ListShelf) -> TextReader | None:
    """A text index at the state of a view, kept until another state is asked for; None if it cannot answer for it.

    Costs as `read_lists`. Raises UnsupportedFormatError, MissingExtraError.
    """
    status = view.definition.indexes.get(name)
    lists = None if status is None else read_lists(view, status.index, shelf)
    if lists is None or not isinstance(lists.kind, TextKind):
        return None
    shelf.texts[name] = made = TextReader(lists, lists.kind.search_fields)
    return made


def _in_field(word: Word, number: int) -> Word:
    """A word where it counts in one field only."""
    runs: dict[int, RunWord] = {}
    for run, found in word.runs.items():
        is_there = found.times[number] > 0
        if is_there.any():
            times = tuple(
                each[is_there] if place == number else each[is_there] * 0 for place, each in enumerate(found.times)
            )
            runs[run] = RunWord(found.places[is_there], times, tuple(each[is_there] for each in found.levels))
    return Word(runs, sum(len(one.places) for one in runs.values()))
