"""Words as a kind of list index: a document is in the list of each of its words.

A list has for each field how often the word is there and how long the field is, a byte each
(`wormdb.bql.search.rank`). Positions are not stored: phrases are checked on the documents of candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.search.fields import SearchFields, parse_fields, texts_of
from wormdb.bql.search.rank import TIMES_MAX, level_of, read_words
from wormdb.bql.search.words import WordNumbers
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.engine.lists.kind import Lister
    from wormdb.format.kinds import Document

__all__ = ["TextKind", "WordCounter", "list_key", "make_text_kind"]

_KNOWN: Final = ("fields", "language", "stop_words")


@dataclass(frozen=True)
class TextKind:
    """An index of the words of some fields."""

    search_fields: SearchFields

    name = "text"
    is_shared = True
    is_packed = True

    @property
    def options(self) -> Mapping[str, Any]:
        """As `ListKind`."""
        return self.search_fields.options

    @property
    def fields(self) -> tuple[str, ...]:
        """As `ListKind`."""
        return self.search_fields.names

    @property
    def columns(self) -> tuple[int, ...]:
        """As `ListKind`: for each field the times, then for each the level of its length."""
        return (1,) * (2 * len(self.search_fields.fields))

    def check(self, document: Document) -> None:
        """As `ListKind`: what is not text has no words, so every document can be indexed."""

    def lister(self, trained: bytes | None) -> Lister:  # noqa: ARG002 - nothing is learned
        """As `ListKind`. Raises MissingExtraError for a language if PyStemmer is not installed."""
        fields = self.search_fields
        _ = fields.analyzer

        def put(documents: Sequence[Document]) -> Sequence[Mapping[bytes, bytes]]:
            return [_lists(document, fields) for document in documents]

        return put

    def tally(self, document: Document) -> tuple[int, ...]:
        """As `ListKind`: whether it has words, and how many each field has."""
        lengths = read_words(document, self.search_fields).lengths
        return int(any(lengths)), *lengths

    def counter(self) -> WordCounter:
        """As `CountingKind`. Raises MissingExtraError for a language if PyStemmer is not installed."""
        return WordCounter(self.search_fields)

    def sample_size(self, documents: int) -> int:  # noqa: ARG002 - nothing is learned
        """As `ListKind`."""
        return 0

    def train(self, sample: Sequence[Document], documents: int) -> bytes | None:  # noqa: ARG002 - nothing is learned
        """As `ListKind`."""
        return None


class WordCounter:
    """Cuts documents into the numbers of their words. Used by one thread."""

    def __init__(self, fields: SearchFields) -> None:
        """No word has been met. Raises MissingExtraError."""
        self._numbers = WordNumbers(fields.analyzer)
        self._paths = [field.path for field in fields.fields]
        self.width = len(self._paths)
        """How many fields there are."""

    @property
    def keys(self) -> list[bytes]:
        """By number the keys of lists; it grows."""
        return self._numbers.keys

    def cut(self, document: Document) -> list[list[int]]:
        """For each field the numbers of its words. No requests."""
        number = self._numbers.of
        found: list[list[int]] = []
        for path in self._paths:
            value = document.get(path[0]) if len(path) == 1 else None
            if type(value) is str:
                found.append(number(value))
            else:
                found.append([each for text in texts_of(document, path) for each in number(text)])
        return found


def list_key(term: str) -> bytes:
    """The key of the list of a word, or of those that begin with it. No requests."""
    return term.encode()


def make_text_kind(options: Mapping[str, Any]) -> TextKind:
    """The kind of some options. Raises InvalidRequestError."""
    unknown = [name for name in options if name not in _KNOWN]
    if unknown:
        raise InvalidRequestError("a text index", reason=f"there is no option {unknown[0]!r:.40}", fix="leave it out")
    return TextKind(parse_fields(options.get("fields"), options.get("language"), options.get("stop_words")))


def _lists(document: Document, fields: SearchFields) -> dict[bytes, bytes]:
    words = read_words(document, fields)
    levels = bytes(map(level_of, words.lengths))
    if len(words.counts) == 1:
        (counts,) = words.counts
        return {term.encode(): bytes((min(times, TIMES_MAX),)) + levels for term, times in counts.items()}
    terms = dict.fromkeys(term for counts in words.counts for term in counts)
    return {term.encode(): bytes([min(counts[term], TIMES_MAX) for counts in words.counts]) + levels for term in terms}
