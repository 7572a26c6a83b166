"""Where the words of a search are in the texts of a document."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from wormdb.bql.search.fields import texts_of
from wormdb.bql.search.words import compared_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.bql.search.rank import Search
    from wormdb.bql.search.words import FoundWord
    from wormdb.format.kinds import Document

__all__ = ["HIGHLIGHT_CHARS", "Highlight", "highlight"]

HIGHLIGHT_CHARS: Final = 160
"""Of a long text about this much is shown around the words."""
_TEXTS_MAX: Final = 100
"""Texts of one field of one document that are shown."""


@dataclass(frozen=True, slots=True)
class Highlight:
    """A part of a text with words of the search."""

    field: str
    """The path of the field."""
    text: str
    """The part, in Unicode's form NFKC."""
    spans: tuple[tuple[int, int], ...]
    """Where words are in it: from, and up to but not including; ascending, apart from each other."""

    def marked(self, before: str = "<em>", after: str = "</em>") -> str:
        """The part as HTML, everything but the marks escaped."""
        parts: list[str] = []
        end = 0
        for start, stop in self.spans:
            parts += [escape(self.text[end:start]), before, escape(self.text[start:stop]), after]
            end = stop
        return "".join([*parts, escape(self.text[end:])])

    def __str__(self) -> str:
        return self.text


def highlight(search: Search, document: Document, *, chars: int = HIGHLIGHT_CHARS) -> list[Highlight]:
    """The texts of a document that have words of the search, in the order of the fields. No requests.

    Words to leave out are not marked; words of a phrase are, also where they stand alone.
    """
    analyzer, found = search.fields.analyzer, []
    for number, each in enumerate(search.fields.fields):
        terms = [term for term in search.terms if term.field in {None, number}]
        exact = {term.term for term in terms if not term.is_prefix}
        beginnings = tuple(term.term for term in terms if term.is_prefix)
        for text in list(texts_of(document, each.path))[:_TEXTS_MAX]:
            hits = [word for word in analyzer.words(text) if _is_hit(word, exact, beginnings)]
            if hits:
                found.append(_part(each.name, compared_text(text), _merged(hits), chars))
    return found


def _is_hit(word: FoundWord, exact: set[str], beginnings: tuple[str, ...]) -> bool:
    return word.term is not None and (word.term in exact or word.term.startswith(beginnings))


def _merged(words: Sequence[FoundWord]) -> list[tuple[int, int]]:
    """Where words are, those that overlap as one."""
    spans: list[tuple[int, int]] = []
    for word in words:
        if spans and word.start < spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], word.stop)
        else:
            spans.append((word.start, word.stop))
    return spans


def _part(field: str, text: str, spans: Sequence[tuple[int, int]], chars: int) -> Highlight:
    """The part of a text that has the most words, cut between words where it can be."""
    if len(text) <= chars:
        return Highlight(field, text, tuple(spans))
    first = max(
        spans, key=lambda span: (sum(span[0] <= start and stop <= span[0] + chars for start, stop in spans), -span[0])
    )
    inside = [span for span in spans if first[0] <= span[0] and span[1] <= max(first[0] + chars, first[1])]
    slack = max(chars - (inside[-1][1] - first[0]), 0) // 2
    low, high = max(0, first[0] - slack), min(len(text), inside[-1][1] + slack)
    if low:
        blank = text.find(" ", low, first[0])
        low = low if blank < 0 else blank + 1
    if high < len(text):
        blank = text.rfind(" ", inside[-1][1], high)
        high = high if blank < 0 else blank
    return Highlight(field, text[low:high], tuple((start - low, stop - low) for start, stop in inside))
