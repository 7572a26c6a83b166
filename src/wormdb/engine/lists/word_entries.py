"""Entries of documents in the lists of words, gathered as arrays of numbers: a run of a text index in the making.

An occurrence of a word is one number, of the word and of the document's place. Sorted, these are the lists, and equal
ones say how often a word is there: so nothing is done for an entry by itself.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.search.rank import TIMES_MAX, level_of
from wormdb.engine.lists.merge import PlacedList
from wormdb.system.installed import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["ENTRY_BYTES", "WordEntries"]

_PLACE_BITS: Final = 32
_PLACES: Final = (1 << _PLACE_BITS) - 1
ENTRY_BYTES: Final = 16
"""Of an entry beside its payload, about."""


class WordEntries:
    """The entries of documents in order of place, and those that they have no longer. Used by one thread."""

    def __init__(self, keys: Sequence[bytes], width: int) -> None:
        """`keys` has the key of the list of each word by its number, and may grow; there are `width` fields."""
        self._numpy = load("numpy", "text")
        self._keys = keys
        self._found: list[list[Any]] = [[] for _ in range(width)]
        self._gone: list[Any] = []
        self._levels = [bytearray() for _ in range(width)]

    def add(self, place: int, words: Sequence[Sequence[int]], lengths: Sequence[Sequence[int]]) -> None:
        """Documents from a place on: for each field all their words in order, and how many each document has."""
        numpy = self._numpy
        for number, (own, counts) in enumerate(zip(words, lengths, strict=True)):
            places = numpy.repeat(numpy.arange(place, place + len(counts), dtype=numpy.int64), counts)
            self._found[number].append(numpy.array(own, numpy.int64) << _PLACE_BITS | places)
            self._levels[number] += bytes(map(level_of, counts))

    def take_back(self, place: int, words: Sequence[int]) -> None:
        """A document whose version before had these words, each of which is named once."""
        self._gone.append(self._numpy.array(words, self._numpy.int64) << _PLACE_BITS | place)

    def lists(self, places: Sequence[int] | None) -> Iterator[tuple[bytes, PlacedList]]:
        """All lists in order of key; with `places` these stand for those of the documents, and -1 for none."""
        numpy = self._numpy
        moved = None if places is None else numpy.array(places, numpy.int64)
        entries, times = self._counted()
        own = entries & _PLACES
        columns = [numpy.minimum(counts, TIMES_MAX).astype(numpy.uint8) for counts in times]
        columns += [numpy.frombuffer(levels, numpy.uint8)[own] for levels in self._levels]
        stored = [column.tobytes() for column in columns]
        widths = (1,) * len(stored)
        steps, spans = self._stepped(entries, moved)
        assert len(steps) == 4 * len(entries), "a document with entries stays"
        gone, gone_spans = self._stepped(self._sorted(self._gone)[0], moved)
        keys, nowhere = self._keys, (0, 0)
        for number in sorted(spans.keys() | gone_spans.keys(), key=keys.__getitem__):
            start, stop = spans.get(number, nowhere)
            first, last = gone_spans.get(number, nowhere)
            yield (
                keys[number],
                PlacedList(
                    steps[4 * start : 4 * stop],
                    tuple([column[start:stop] for column in stored]),
                    gone[4 * first : 4 * last],
                    widths,
                ),
            )

    def _counted(self) -> tuple[Any, list[Any]]:
        """All entries in order, and for each field how often its word is there."""
        numpy = self._numpy
        fields = [self._sorted(found) for found in self._found]
        if len(fields) == 1:
            return fields[0][0], [fields[0][1]]
        entries = numpy.unique(numpy.concatenate([own for own, _ in fields]))
        times = []
        for own, counts in fields:
            made = numpy.zeros(len(entries), numpy.int64)
            made[entries.searchsorted(own)] = counts
            times.append(made)
        return entries, times

    def _sorted(self, parts: Sequence[Any]) -> tuple[Any, Any]:
        """Numbers in order, each once, and how often each was there."""
        numpy = self._numpy
        if not parts:
            return numpy.empty(0, numpy.int64), numpy.empty(0, numpy.int64)
        found = numpy.concatenate(parts)
        found.sort()
        is_first = numpy.ones(len(found), bool)
        numpy.not_equal(found[1:], found[:-1], out=is_first[1:])
        firsts = numpy.flatnonzero(is_first)
        return found[firsts], numpy.diff(firsts, append=len(found))

    def _stepped(self, entries: Any, moved: Any) -> tuple[bytes, dict[int, tuple[int, int]]]:
        """The differences between places of each list as bytes, and for each word which of them are its own."""
        numpy = self._numpy
        places = entries & _PLACES
        if moved is not None:
            places = moved[places]
            is_there = places >= 0
            entries, places = entries[is_there], places[is_there]
        words = entries >> _PLACE_BITS
        starts = numpy.flatnonzero(numpy.diff(words, prepend=-1))
        steps = numpy.diff(places, prepend=0)
        steps[starts] = places[starts]
        bounds = pairwise([*starts.tolist(), len(words)])
        return steps.astype("<u4").tobytes(), dict(zip(words[starts].tolist(), bounds, strict=True))
