"""What is searched for, as people write it.

    red shoes                   both words, in any field
    red OR blue                 one of them; AND binds tighter, and stands between words that have nothing between them
    -leather, NOT leather       not this word
    "running shoe"              these words side by side, in this order
    adi*                        words that begin like this, compared with stems as they are indexed
    title:red, title:"a b"      in one of the fields
    (red OR blue) shoes         brackets group

A word that is cut into several, such as wi-fi or 3.14, stands for these words side by side. Signs that are not part of
a word are passed over. `parse_text_search` reads the same signs as MongoDB's $text does: any of the words, all of the
phrases, none of the words to leave out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import msgspec

from wormdb.bql.search.words import compared_text
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.schema.problems import did_you_mean
from wormdb.settings import FILTER_DEPTH_MAX, SEARCH_CHARS_MAX, SEARCH_WORDS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.bql.search.fields import SearchFields

__all__ = [
    "AllWords",
    "AnyWord",
    "Expression",
    "OptionalWords",
    "SearchPhrase",
    "SearchTerm",
    "WithoutWord",
    "has_phrases",
    "parse_search",
    "parse_text_search",
    "phrases_of",
    "scored_terms",
    "terms_of",
]

_FIX: Final = 'write such as red shoes -leather "running shoe" adi* title:red (a OR b)'
_WORDS: Final = frozenset({"AND", "OR", "NOT"})
_PIECE: Final = re.compile(
    r'\s*(?:(?P<quote>")|(?P<open>\()|(?P<close>\))|(?P<minus>-)(?=[^\s)])|(?P<piece>[^\s"()]+))'
)
_PLAIN: Final = re.compile(r" *[0-9A-Za-z]+(?: +[0-9A-Za-z]+)* *")
"""Words of which each is one, whatever the language."""
_FIELD: Final = re.compile(r"([^\W\d][\w.-]*):(?=[^\s/:])")


class SearchTerm(msgspec.Struct, frozen=True):
    """One word, as it is compared."""

    term: str
    field: int | None = None
    """The number of the field in which it must be; None for any."""
    is_prefix: bool = False
    """Whether it is the beginning of words."""


@dataclass(frozen=True, slots=True)
class SearchPhrase:
    """Words at fixed distances in one text."""

    items: tuple[tuple[int, SearchTerm], ...]
    """Each with its place; two or more, all of one field or all of any."""


@dataclass(frozen=True, slots=True)
class AllWords:
    """All of them are there."""

    children: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class AnyWord:
    """One of them is there."""

    children: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class WithoutWord:
    """It is not there."""

    child: Expression


@dataclass(frozen=True, slots=True)
class OptionalWords:
    """They count for the score, there or not."""

    children: tuple[SearchTerm, ...]


Expression: TypeAlias = SearchTerm | SearchPhrase | AllWords | AnyWord | WithoutWord | OptionalWords


# --- what a tree holds ---


def terms_of(tree: Expression) -> tuple[SearchTerm, ...]:
    """All words of a tree, each once, in the order in which they are written. No requests."""
    return tuple(dict.fromkeys(_terms(tree, with_excluded=True)))


def scored_terms(tree: Expression) -> tuple[SearchTerm, ...]:
    """The words that count for scores: all but those to leave out; each once, in order. No requests."""
    return tuple(dict.fromkeys(_terms(tree, with_excluded=False)))


def phrases_of(tree: Expression) -> tuple[SearchPhrase, ...]:
    """All phrases of a tree. No requests."""
    if isinstance(tree, SearchPhrase):
        return (tree,)
    if isinstance(tree, AllWords | AnyWord):
        return tuple(phrase for child in tree.children for phrase in phrases_of(child))
    return phrases_of(tree.child) if isinstance(tree, WithoutWord) else ()


def has_phrases(tree: Expression) -> bool:
    """Whether only whole texts tell if a document matches. No requests."""
    return bool(phrases_of(tree))


def _terms(tree: Expression, *, with_excluded: bool) -> Iterator[SearchTerm]:
    match tree:
        case SearchTerm():
            yield tree
        case SearchPhrase(items):
            yield from (term for _, term in items)
        case WithoutWord(child):
            if with_excluded:
                yield from _terms(child, with_excluded=True)
        case AllWords(children) | AnyWord(children) | OptionalWords(children):
            for each in children:
                yield from _terms(each, with_excluded=with_excluded)


def _is_positive(tree: Expression) -> bool:
    """Whether every document that matches has one of the words that count."""
    match tree:
        case SearchTerm() | SearchPhrase():
            return True
        case AllWords(children):
            return any(map(_is_positive, children))
        case AnyWord(children):
            return all(map(_is_positive, children))
        case _:
            return False


# --- reading ---


def parse_search(text: object, fields: SearchFields) -> Expression:
    """What is searched for in these fields.

    Raises InvalidRequestError with the place of the mistake; also for a search that only leaves words out, and for one
    without any word. LimitExceededError over SEARCH_CHARS_MAX and SEARCH_WORDS_MAX. MissingExtraError. No requests.
    """
    written = _checked(text)
    if _PLAIN.fullmatch(written) and not _WORDS.intersection(words := written.split()):
        plain = _plain_words(written, fields) if len(words) <= SEARCH_WORDS_MAX else None
        if plain is not None:
            return plain
    reader = _SearchReader(written, fields)
    tree = reader.read()
    if tree is None:
        reader.refuse(0, "it has no word that can be found", "write a word of the texts; stop words are not indexed")
    if not _is_positive(tree):
        reader.refuse(0, "it, or a side of OR in it, only says which words to leave out", "add a word to find")
    return tree


def _plain_words(text: str, fields: SearchFields) -> Expression | None:
    """What letters and digits with blanks between them ask for, as most searches are: all of the words.

    None if none of them counts.
    """
    found: dict[Any, None] = dict.fromkeys(fields.analyzer.terms(text))
    found.pop(None, None)
    return _joined(AllWords, tuple(map(SearchTerm, found))) if found else None


def parse_text_search(text: object, fields: SearchFields) -> Expression | None:
    """What MongoDB's $search means in these fields; None if it finds nothing. No requests.

    Any of the words, all of the phrases, none of the words behind a minus; other signs have no meaning. Raises
    LimitExceededError, and InvalidRequestError for what is not text.
    """
    written = _checked(text)
    reader = _SearchReader(written, fields)
    words: list[SearchTerm] = []
    needed: list[Expression] = []
    excluded: list[Expression] = []
    for place, part in enumerate(written.split('"')):
        if place % 2:
            tree = reader.words(part)
            if tree is not None:
                needed.append(tree)
                words += scored_terms(tree)
            continue
        for piece in part.split():
            tree = reader.words(piece)
            if tree is None:
                continue
            if piece.startswith("-"):
                excluded.append(WithoutWord(tree))
            else:
                words += scored_terms(tree)
    if not words:
        return None
    distinct = tuple(dict.fromkeys(words))
    found: Expression = OptionalWords(distinct) if needed else _joined(AnyWord, distinct)
    return _joined(AllWords, (*needed, found, *excluded))


def _checked(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidRequestError("the search", reason=f"it must be text, not {type(text).__name__}", fix=_FIX)
    if len(text) > SEARCH_CHARS_MAX:
        reason = f"SEARCH_CHARS_MAX is {SEARCH_CHARS_MAX:,}, and it has {len(text):,} characters"
        raise LimitExceededError("the search is too long", reason=reason, fix="shorten it")
    return text


def _joined(kind: type[AllWords | AnyWord], children: tuple[Expression, ...]) -> Expression:
    return children[0] if len(children) == 1 else kind(children)


class _SearchReader:
    """Reads a search from left to right."""

    def __init__(self, text: str, fields: SearchFields) -> None:
        self._text = text
        self._fields = fields
        self._analyzer = fields.analyzer
        self._count = 0
        self._place = 0
        """Where the next piece begins …"""
        self._start = 0
        """… and where the one that was taken last does."""

    def read(self) -> Expression | None:
        tree = self._any(None, 0)
        if self._peek() == "close":
            self._take()
            self.refuse(self._start, "a bracket is closed that was not opened", 'remove it, or quote it: ")"')
        return tree

    def words(self, text: str, field: int | None = None, *, is_prefix: bool = False) -> Expression | None:
        """The words of a text side by side; None if there are none that count."""
        items: list[tuple[int, SearchTerm]] = []
        text = compared_text(text)
        found = self._analyzer.words(text)
        for number, word in enumerate(found):
            is_beginning = is_prefix and number + 1 == len(found)
            if is_beginning and not word.is_part:
                folded = self._analyzer.fold(text[word.start : word.stop])
                items.append((number, SearchTerm(folded, field, is_prefix=True)))
            elif word.is_part and number and found[number - 1].stop == word.stop:
                continue  # the pair before it has this character too
            elif word.term is not None:
                items.append((number, SearchTerm(word.term, field, is_prefix=word.is_part)))
        self._count += len(items)
        if self._count > SEARCH_WORDS_MAX:
            reason = f"SEARCH_WORDS_MAX is {SEARCH_WORDS_MAX}"
            raise LimitExceededError("the search has too many words", reason=reason, fix="leave some out")
        if not items:
            return None
        first = items[0][0]
        return items[0][1] if len(items) == 1 else SearchPhrase(tuple((at - first, term) for at, term in items))

    def refuse(self, place: int, reason: str, fix: str = _FIX) -> NoReturn:
        shown = self._text if len(self._text) <= 60 else f"{self._text[:60]}…"
        where = f", column {place + 1}" if place else ""
        raise InvalidRequestError(f"the search {shown!r}{where}", reason=reason, fix=fix)

    # --- the grammar ---

    def _any(self, field: int | None, depth: int) -> Expression | None:
        found = [self._all(field, depth)]
        while self._word() == "OR":
            self._take()
            place = self._start
            if self._peek() in {"", "close"} or self._word() == "OR":
                self.refuse(place, "nothing follows OR", "write a word behind it, or or in small letters")
            found.append(self._all(field, depth))
        trees = tuple(dict.fromkeys(tree for tree in found if tree is not None))
        return _joined(AnyWord, trees) if trees else None

    def _all(self, field: int | None, depth: int) -> Expression | None:
        found: list[Expression] = []
        is_first = True
        while (kind := self._peek()) not in {"", "close"}:
            word = self._word()
            if word == "OR":
                if is_first:
                    self._take()
                    self.refuse(self._start, "nothing stands before OR", "write a word before it")
                break
            if word == "AND":
                self._take()
                if is_first or self._peek() in {"", "close"} or self._word() in {"AND", "OR"}:
                    self.refuse(self._start, "AND stands between two words", "write a word on both sides of it")
                continue
            tree = self._one(field, depth, kind)
            is_first = False
            if tree is not None:
                found.append(tree)
        trees = tuple(dict.fromkeys(found))
        return _joined(AllWords, trees) if trees else None

    def _one(self, field: int | None, depth: int, kind: str) -> Expression | None:
        if depth > FILTER_DEPTH_MAX:
            self.refuse(self._place, f"brackets and fields lie more than {FILTER_DEPTH_MAX} deep")
        is_excluded = False
        while kind == "minus" or self._word() == "NOT":
            self._take()
            place, kind = self._start, self._peek()
            if kind in {"", "close"} or self._word() in {"AND", "OR"}:
                self.refuse(place, "nothing follows NOT", "write the word to leave out behind it")
            is_excluded = not is_excluded
        tree = self._included(field, depth, kind)
        if tree is None or not is_excluded:
            return tree
        return tree.child if isinstance(tree, WithoutWord) else WithoutWord(tree)

    def _included(self, field: int | None, depth: int, kind: str) -> Expression | None:
        if kind == "open":
            return self._group(field, depth)
        if kind == "quote":
            return self._quoted(field)
        return self._bare(field, depth)

    def _group(self, field: int | None, depth: int) -> Expression | None:
        self._take()
        place = self._start
        tree = self._any(field, depth + 1)
        if self._peek() != "close":
            self.refuse(place, "a bracket is not closed", "close it with )")
        self._take()
        return tree

    def _quoted(self, field: int | None) -> Expression | None:
        self._take()
        place = self._start
        end = self._text.find('"', self._place)
        if end < 0:
            self.refuse(place, "a quote is not closed", 'close it with "')
        phrase = self._text[self._place : end]
        self._place = end + 1
        return self.words(phrase, field)

    def _bare(self, field: int | None, depth: int) -> Expression | None:
        piece = self._take()
        named = _FIELD.match(piece)
        is_bare_name = piece.endswith(":") and _FIELD.match(f"{piece}x") and self._text[self._place :][:1] in {'"', "("}
        if named is not None or is_bare_name:
            name, place = piece.partition(":")[0], self._start
            number = self._number(name, place)
            if is_bare_name and named is None:
                return self._one(number, depth + 1, self._peek())
            self._place = place + len(name) + 1
            return self._one(number, depth + 1, self._peek())
        if piece.endswith(":") and piece[:-1] in self._fields.names:
            self.refuse(
                self._start, f"nothing follows {piece}", f'write {piece}red, without a blank; or quote it: "{piece}"'
            )
        is_prefix = piece.endswith("*") and not piece.endswith("**")
        tree = self.words(piece, field, is_prefix=is_prefix)
        if tree is None and is_prefix:
            self.refuse(self._start, "a word is missing before *", "write the beginning of a word: adi*")
        return tree

    def _number(self, name: str, place: int) -> int:
        names = self._fields.names
        if name not in names:
            fix = f'{did_you_mean(name, names)}; or quote it: "{name}: …"'
            self.refuse(place, f"{name!r} is not one of the fields that are searched", fix)
        return names.index(name)

    # --- pieces ---

    def _peek(self) -> str:
        found = _PIECE.match(self._text, self._place)
        return "" if found is None else found.lastgroup or ""

    def _word(self) -> str:
        found = _PIECE.match(self._text, self._place)
        return "" if found is None or found["piece"] not in _WORDS else found["piece"]

    def _take(self) -> str:
        found = _PIECE.match(self._text, self._place)
        assert found is not None, "there is a piece"
        self._start = found.start(found.lastgroup or 0)
        self._place = found.end()
        return found[found.lastgroup or 0]
