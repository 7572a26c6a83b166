"""The words of a text as they are compared: cut out, folded, and reduced to their stems.

    Die Läufer liefen.     german        die lauf lief
    L'été à Montréal       french        l ete a montreal
    ISPARTA                turkish       with a dotless i, which is another letter there; elsewhere isparta
    東京都                  any           東京 京都 都

A word is a run of letters and digits with their marks (Unicode's categories L, N and M, by `unicodedata`, which is in
every Python: libraries that cut by dictionaries have tables of tens of megabytes, and their words change with them). In
English an apostrophe between letters belongs to the word, elsewhere it ends one. Scripts without blanks between words
(Chinese, Japanese, Thai, Lao, Khmer, Burmese) are cut into overlapping pairs of characters, the last one alone: so each
part of a text is found, also in the middle of a word, and a single character is the beginning of a pair.

Compared is the text in form NFKC, without capitals; then its stem; then that without accents. Stemmers need accents, so
these go last. Letters that Unicode does not decompose are spelled out: ø o, æ ae, ł l, ß ss.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from wormdb.schema.words import NO_LANGUAGE
from wormdb.system.installed import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["WORD_CHARS_MAX", "Analyzer", "FoundWord", "WordNumbers", "analyzer_of", "compared_text"]

WORD_CHARS_MAX: Final = 100
"""Of longer words only the beginning is compared."""

_KEPT_WORDS: Final = 200_000
"""Words whose form is remembered: a text has few that others have not."""

_LETTERS: Final = {
    "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ħ": "h", "ŧ": "t", "ŋ": "n", "æ": "ae", "œ": "oe", "ĸ": "k",
    "\u02bc": "'", "\u2019": "'",
}  # fmt: skip
_SPELLED: Final = str.maketrans(_LETTERS)
_DOTLESS: Final = str.maketrans({"\u0131": "i"})
_TURKISH: Final = str.maketrans({"I": "\u0131", "\u0130": "i"})
_JOINERS: Final = "\u200c\u200d"

_PAIRED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # signs of Han, Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Scripts without blanks between words."""


class FoundWord(NamedTuple):
    """One word of a text."""

    term: str | None
    """As it is compared; None for a stop word, which only has a place."""
    start: int
    """Where it begins in the text in form NFKC …"""
    stop: int
    """… and the place behind it."""
    is_part: bool = False
    """Whether it is the single character at the end of a run of pairs."""


class Analyzer:
    """Cuts texts into words. The same words in every process, for all letters of Unicode 14."""

    def __init__(self, language: str = NO_LANGUAGE, stop_words: Iterable[str] = ()) -> None:
        """Raises MissingExtraError for a language if PyStemmer is not installed. No requests."""
        self._stem: Callable[[str], str] | None = None
        if language != NO_LANGUAGE:
            # It has a cache of its own, which is not for threads; without, a call is one step for them.
            self._stem = load("Stemmer").Stemmer(language, 0).stemWord
        self._is_turkish = language == "turkish"
        self._is_english = language == "english"
        self.pattern = _ENGLISH if self._is_english else _ASCII
        """Finds the words of a text of ASCII."""
        self._known: dict[str, str] = {}
        self._stops = frozenset(self._folded(word) for text in stop_words for word in _cut_all(text))

    def words(self, text: str) -> list[FoundWord]:
        """The words of a text with their places. No requests."""
        found: list[FoundWord] = []
        stops, text = self._stops, compared_text(text)
        for start, stop, is_paired in _cut(text, is_english=self._is_english):
            if is_paired:
                found += self._pairs(text[start:stop], start)
            else:
                term = self.term(text[start:stop])
                found.append(FoundWord(None if term in stops else term, start, stop))
        return found

    def terms(self, text: str) -> list[str | None]:
        """The words of a text as they are compared, None for each stop word. No requests."""
        if text.isascii():
            # Most texts are: this is most of what an index costs.
            known, stops = self._known, self._stops
            found = [known.get(word) or self.term(word) for word in self.pattern.findall(text)]
            return [None if term in stops else term for term in found] if stops else list(found)
        return [word.term for word in self.words(text)]

    @property
    def has_stops(self) -> bool:
        """Whether there are stop words."""
        return bool(self._stops)

    def counted(self, word: str) -> str | None:
        """One word as it is compared; None for a stop word. No requests."""
        term = self.term(word)
        return None if term in self._stops else term

    def term(self, word: str) -> str:
        """One word as it is compared. No requests."""
        term = self._known.get(word)
        if term is None:
            term = self._folded(word)
            if len(self._known) >= _KEPT_WORDS:
                self._known.clear()
            self._known[word] = term
        return term

    def fold(self, word: str) -> str:
        """A word without capitals and accents, but with its ending: the beginning of other words. No requests."""
        return self._plain(self._lowered(word))

    def _folded(self, word: str) -> str:
        lowered = self._lowered(word)
        return self._plain(lowered if self._stem is None else self._stem(lowered) or lowered)

    def _lowered(self, word: str) -> str:
        if not self._is_turkish and word.isascii():
            return word.lower()[:WORD_CHARS_MAX]
        if self._is_turkish:
            word = word.translate(_TURKISH)
        folded = unicodedata.normalize("NFKC", word.casefold()).replace("i\u0307", "i")
        return folded.translate(_SPELLED)[:WORD_CHARS_MAX]

    def _plain(self, word: str) -> str:
        if word.isascii():
            return word
        marks = unicodedata.normalize("NFD", word)
        plain = "".join(letter for letter in marks if not _is_accent(unicodedata.combining(letter)))
        plain = unicodedata.normalize("NFC", plain)
        return plain if self._is_turkish else plain.translate(_DOTLESS)

    def _pairs(self, run: str, start: int) -> Iterator[FoundWord]:
        """The overlapping pairs of a run of characters, each with its marks; at the end the last one alone."""
        places = [match.start() for match in _clusters().finditer(run)]
        ends = [*places[1:], len(run)]
        for number, place in enumerate(places):
            end = ends[min(number + 1, len(ends) - 1)]
            yield FoundWord(
                self._plain(self._lowered(run[place:end])), start + place, start + end, number + 1 == len(places)
            )


class WordNumbers:
    """Numbers of words as they are compared, from 0 on in the order in which they are met. Used by one thread."""

    def __init__(self, analyzer: Analyzer) -> None:
        """No word has been met."""
        self._analyzer = analyzer
        self.keys: list[bytes] = []
        """By number the words, as UTF-8."""
        self._numbers: dict[str | None, int] = {None: _STOP_NUMBER}
        self._known = _KnownNumbers(self._number)

    def of(self, text: str) -> list[int]:
        """The numbers of the words of a text, in their order, without stop words. No requests."""
        analyzer = self._analyzer
        if text.isascii():
            # Most texts are: this is most of what an index costs.
            found = list(map(self._known.__getitem__, analyzer.pattern.findall(text)))
        else:
            found = [self._number_of(word.term) for word in analyzer.words(text)]
        return [number for number in found if number != _STOP_NUMBER] if analyzer.has_stops else found

    def _number(self, word: str) -> int:
        """That of a word of a text without accents."""
        return self._number_of(self._analyzer.counted(word))

    def _number_of(self, term: str | None) -> int:
        number = self._numbers.get(term)
        if number is None:
            assert term is not None, "stop words have a number"
            number = self._numbers[term] = len(self.keys)
            self.keys.append(term.encode())
        return number


_STOP_NUMBER: Final = -1


class _KnownNumbers(dict[str, int]):
    """Words as they are written, each with the number of what it is compared as: found once, and then by one step."""

    def __init__(self, find: Callable[[str], int]) -> None:
        self._find = find

    def __missing__(self, word: str) -> int:
        if len(self) >= _KEPT_WORDS:
            self.clear()
        self[word] = number = self._find(word)
        return number


@lru_cache(maxsize=64)
def analyzer_of(language: str, stop_words: tuple[str, ...]) -> Analyzer:
    """The analyzer of a language, made once. Raises as `Analyzer`."""
    return Analyzer(language, stop_words)


def compared_text(text: str) -> str:
    """A text in the form in which words have their places. No requests."""
    return text if text.isascii() or unicodedata.is_normalized("NFKC", text) else unicodedata.normalize("NFKC", text)


def _is_accent(order: int) -> bool:
    """Whether a mark of a combining class is an accent or a vowel point, which is left out.

    Marks that make another letter stay: nukta, kana's voicing, virama, and vowels and tones of Thai and Lao.
    """
    return order >= 200 or 10 <= order <= 36 or order == 1


# --- cutting ---

_ASCII: Final = re.compile(r"[0-9A-Za-z]+")
_ENGLISH: Final = re.compile(r"[0-9A-Za-z]+(?:'[A-Za-z]+)*")


def _cut(text: str, *, is_english: bool = False) -> Iterator[tuple[int, int, bool]]:
    """Where words and runs of scripts without blanks are in a text, and which of both."""
    if text.isascii():
        for match in (_ENGLISH if is_english else _ASCII).finditer(text):
            yield match.start(), match.end(), False
        return
    for match in _word_pattern(is_english).finditer(text):
        yield match.start(), match.end(), match.lastgroup == "run"


def _cut_all(text: str) -> list[str]:
    return [text[start:stop] for start, stop, _ in _cut(text, is_english=True)]


@lru_cache(maxsize=2)
def _word_pattern(is_english: bool) -> re.Pattern[str]:
    marks = _marks()
    letter = rf"[^\W_{_PAIRED}]"
    tail = rf"(?:{letter}|[{marks}{_JOINERS}])*"
    joined = rf"(?:['\u2019]{letter}{tail})*" if is_english else ""
    return re.compile(rf"(?P<run>[{_PAIRED}](?:[{_PAIRED}]|[{marks}])*)|{letter}{tail}{joined}")


@lru_cache(maxsize=1)
def _clusters() -> re.Pattern[str]:
    """A character with the marks behind it."""
    return re.compile(rf".[{_marks()}]*", re.DOTALL)


@lru_cache(maxsize=1)
def _marks() -> str:
    """All combining marks as ranges of a class of characters; `re` counts few of them as parts of words."""
    ranges: list[list[int]] = []
    for number in (*range(0x300, 0x1F000), *range(0xE0100, 0xE01F0)):
        if unicodedata.category(chr(number))[0] == "M":
            if ranges and ranges[-1][1] == number - 1:
                ranges[-1][1] = number
            else:
                ranges.append([number, number])
    assert sys.maxunicode == 0x10FFFF, "a character is one item of a string"
    return "".join(f"{chr(low)}-{chr(high)}" if low < high else chr(low) for low, high in ranges)
