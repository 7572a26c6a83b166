"""What is searched: fields with weights, the language of their words, and words that are left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.mistakes import Mistakes
from wormdb.bql.search.words import Analyzer, analyzer_of
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import Path, parse_path, resolve
from wormdb.schema.problems import did_you_mean
from wormdb.schema.words import LANGUAGES, NO_LANGUAGE, WEIGHT_MAX, read_weight, weighted_name
from wormdb.settings import STOP_WORDS_MAX, TEXT_FIELDS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SearchFields", "WeightedField", "parse_fields", "texts_of"]

_STOP_WORDS: Final[Mapping[str, str]] = {
    "english": "a an and are as at be but by for from has have he her his i if in into is it its no not of on or our "
    "she so such that the their then there these they this to was we were will with you your",
    "german": "aber als am an auch auf aus bei bin bis das dass dem den der des die doch ein eine einem einen einer "
    "eines er es für hat ich ihr im in ist ja mit nach nicht noch nur ob oder sein sich sie sind so über um und uns "
    "von vor war was wenn wie wir wird zu zum zur",
    "french": "à au aux avec ce ces cette d dans de des du elle en est et eux il ils j je l la le les leur lui ma mais "
    "me mes mon n ne nos notre nous on ou où par pas pour qu que qui s sa se ses son sont sur t ta te tu un une vos "
    "votre vous y",
    "spanish": "a al como con de del el ella en entre era es esta este la las le lo los más me mi muy no nos o para "
    "pero por que se ser si sin sobre son su sus también un una uno y ya",
}
"""The words that `stop_words=True` leaves out: those that say least."""


@dataclass(frozen=True, slots=True)
class WeightedField:
    """One field, and how much a word in it counts."""

    path: Path
    weight: float = 1.0

    @property
    def name(self) -> str:
        """The path as text."""
        return ".".join(self.path)

    @property
    def text(self) -> str:
        """As it is written: title^3."""
        return weighted_name(self.name, self.weight)


@dataclass(frozen=True, slots=True)
class SearchFields:
    """What is searched. Equal ones give equal words."""

    fields: tuple[WeightedField, ...]
    language: str = NO_LANGUAGE
    stop_words: tuple[str, ...] = ()
    """In the order of their letters."""

    @property
    def names(self) -> tuple[str, ...]:
        """The paths as text."""
        return tuple(field.name for field in self.fields)

    @property
    def analyzer(self) -> Analyzer:
        """What cuts their texts. Raises MissingExtraError for a language if PyStemmer is not installed."""
        return analyzer_of(self.language, self.stop_words)

    @property
    def options(self) -> dict[str, Any]:
        """As a JSON object, of which `parse_fields` makes it again."""
        found: dict[str, Any] = {"fields": [field.text for field in self.fields], "language": self.language}
        return {**found, "stop_words": list(self.stop_words)} if self.stop_words else found


def parse_fields(written: object, language: object = None, stop_words: object = None) -> SearchFields:
    """What is searched, of ["title^3", "body"], a language, and stop words: a list, or True for those of the language.

    Raises InvalidRequestError with all mistakes. No requests.
    """
    mistakes = Mistakes()
    names = [written] if isinstance(written, str) else written
    found: list[WeightedField] = []
    if not isinstance(names, Sequence) or not names or len(names) > TEXT_FIELDS_MAX:
        mistakes.add("fields", f"it must be a list of 1 to {TEXT_FIELDS_MAX} fields", 'write ["title^3", "body"]')
    else:
        found = [field for field in (_read_field(name, mistakes) for name in names) if field is not None]
        names = [field.name for field in found]
        for name in sorted({name for name in names if names.count(name) > 1}):
            mistakes.add(f"fields.{name}", "it is named twice", "name it once, with one weight")
    chosen = NO_LANGUAGE if language is None else language
    if chosen not in LANGUAGES:
        mistakes.add("language", f"there is no language {chosen!r:.40}", did_you_mean(str(chosen), LANGUAGES))
    stops = _read_stop_words(stop_words, str(chosen), mistakes)
    mistakes.settle("the fields of a text search")
    return SearchFields(tuple(found), str(chosen), stops)


def texts_of(document: Document, path: Path) -> Iterator[str]:
    """The texts at a path, also in arrays there and on the way, in their order. No requests."""
    value: Any = document
    for segment in path:
        value = value.get(segment, MISSING) if type(value) is dict else None
        if type(value) is list:
            break
    else:
        if type(value) is str:
            yield value
        return
    yield from (value for value in resolve(document, path) if type(value) is str)


def _read_field(written: object, mistakes: Mistakes) -> WeightedField | None:
    if not isinstance(written, str):
        mistakes.add("fields", f"a field must be a string, not {type(written).__name__}", 'write such as "title^3"')
        return None
    name, number = read_weight(written)
    path = mistakes.collect(f"fields.{written:.60}", lambda: parse_path(name))
    if number is None:
        given = written.partition("^")[2]
        reason = f"a weight must be a number above 0 and at most {WEIGHT_MAX:,.0f}, not {given!r:.20}"
        mistakes.add(f"fields.{written:.60}", reason, 'write such as "title^3"')
    if path is MISSING or number is None:
        return None
    return WeightedField(("_id", *path[1:]) if path[0] == "id" else path, number)


def _read_stop_words(written: object, language: str, mistakes: Mistakes) -> tuple[str, ...]:
    if written is None or written is False:
        return ()
    if written is True:
        if language not in _STOP_WORDS:
            known = ", ".join(_STOP_WORDS)
            mistakes.add("stop_words", f"there are none for language {language}, only for {known}", "give a list")
            return ()
        return tuple(sorted(_STOP_WORDS[language].split()))
    words = list(written) if isinstance(written, Iterable) and not isinstance(written, str | Mapping) else None
    if words is None or len(words) > STOP_WORDS_MAX or not all(isinstance(word, str) and word for word in words):
        reason = f"it must be a list of at most {STOP_WORDS_MAX:,} words, or True for those of the language"
        mistakes.add("stop_words", reason, 'write ["the", "of"]')
        return ()
    return tuple(sorted(set(words)))
