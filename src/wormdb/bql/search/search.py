"""What `search` and MongoDB's $text ask for, as callers write it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from wormdb.bql.mistakes import Mistakes
from wormdb.bql.places import check_overlaps, fields_of
from wormdb.bql.search.expression import parse_search, parse_text_search
from wormdb.bql.search.fields import SearchFields, parse_fields
from wormdb.bql.search.rank import Search
from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import MISSING
from wormdb.format.path import Path, parse_path
from wormdb.schema.problems import did_you_mean

__all__ = [
    "TEXT_SCORE",
    "SearchQuery",
    "WrittenSearch",
    "is_text_score",
    "parse_written_search",
    "take_scores",
    "take_text",
]

WrittenSearch: TypeAlias = "str | Mapping[str, Any] | SearchQuery"
"""'red shoes -leather "running shoe" adi*', or {"query": …} with index, or with fields, language and stop_words."""

TEXT_SCORE: Final = "textScore"
_FLOAT_MAX: Final = sys.float_info.max
_KNOWN: Final = ("query", "index", "fields", "language", "stop_words", "weight")
_TEXT_KNOWN: Final = ("$search", "$language", "$caseSensitive", "$diacriticSensitive")


class SearchQuery(msgspec.Struct, frozen=True):
    """A text to search for; what it means depends on the fields that are searched."""

    text: str
    fields: SearchFields | None = None
    """None for those of a text index."""
    index: str | None = None
    """The name of the text index; None for the only one."""
    is_mongodb: bool = False
    """Whether the text is read as MongoDB reads that of $search."""
    language: str | None = None
    """The language that the index must have; None for any."""
    weight: float = 1.0
    """How much it counts beside the nearest vectors, which count 1."""

    def over(self, fields: SearchFields, index: str | None = None) -> Search:
        """What it means in some fields. Raises as `parse_search`. No requests."""
        if self.is_mongodb:
            return Search(self.text, parse_text_search(self.text, fields), fields, index)
        return Search(self.text, parse_search(self.text, fields), fields, index)


def parse_written_search(written: WrittenSearch) -> SearchQuery:
    """What `search` asks for. Raises InvalidRequestError with all mistakes, and as `parse_search`. No requests."""
    if isinstance(written, SearchQuery):
        return written
    if isinstance(written, str):
        return SearchQuery(written)
    if not isinstance(written, Mapping):
        raise InvalidRequestError(
            "the search",
            reason=f"it must be text, or a mapping with query, not {type(written).__name__}",
            fix='write "red shoes", or {"query": "red shoes", "fields": ["title^3", "body"]}',
        )
    return _read_options(written)


def _read_options(written: Mapping[str, Any]) -> SearchQuery:
    mistakes = Mistakes()
    for name in written:
        if name not in _KNOWN:
            mistakes.add(f"search.{name}", "there is no such option", did_you_mean(str(name), _KNOWN))
    text, index, fields = written.get("query"), written.get("index"), written.get("fields")
    if not isinstance(text, str):
        mistakes.add("search.query", f"it must be text, not {type(text).__name__}", 'write "red shoes"')
    if index is not None and (not isinstance(index, str) or fields is not None):
        mistakes.add(
            "search.index", "it must be the name of a text index, and then there are no fields", "leave it out"
        )
    if fields is None and (written.get("language") is not None or written.get("stop_words") is not None):
        mistakes.add("search.fields", "language and stop_words belong to fields", "name fields, or leave them out")
    weight = written.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0.0 < weight <= _FLOAT_MAX:
        mistakes.add("search.weight", f"it must be a number above 0, not {weight!r:.40}", "leave it out for 1")
    mistakes.settle("the search")
    if fields is None:
        return SearchQuery(str(text), None, index, weight=float(weight))
    searched = parse_fields(fields, written.get("language"), written.get("stop_words"))
    asked = SearchQuery(str(text), searched, weight=float(weight))
    asked.over(searched)  # mistakes are told by the call that makes them
    return asked


# --- MongoDB's $text ---


def take_text(written: Mapping[str, Any]) -> tuple[Mapping[str, Any], SearchQuery | None]:
    """A filter without its $text, and what that asks for; None if it has none. No requests.

    $text stands at the top, or in $and there. Raises InvalidRequestError for what cannot be searched.
    """
    if "$text" in written:
        rest = {name: operand for name, operand in written.items() if name != "$text"}
        return rest, _read_text(written["$text"])
    parts = written.get("$and")
    if not isinstance(parts, Sequence) or not any(isinstance(part, Mapping) and "$text" in part for part in parts):
        return written, None
    taken = [take_text(part) if isinstance(part, Mapping) else (part, None) for part in parts]
    found = [query for _, query in taken if query is not None]
    if len(found) > 1:
        raise InvalidRequestError("$text", reason="a filter has one text search", fix="put all words into one $search")
    left = [part for part, query in taken if part or query is None]
    rest = {name: operand for name, operand in written.items() if name != "$and"}
    return ({**rest, "$and": left} if left else rest), found[0]


def is_text_score(written: object) -> bool:
    """Whether this is {"$meta": "textScore"}. No requests."""
    return isinstance(written, Mapping) and dict(written) == {"$meta": TEXT_SCORE}


def take_scores(select: Any, what: str) -> tuple[Any, tuple[Path, ...]]:
    """A selection without scores, and the paths of these; None if nothing else is selected.

    Raises InvalidRequestError, about `what`, for paths that cannot be or that overlap. No requests.
    """
    if not isinstance(select, Mapping):
        return select, ()
    mistakes = Mistakes()
    fields = fields_of(select, mistakes, "select")
    names = [name for name, part in fields.items() if is_text_score(part)]
    if not names:
        return select, ()
    left = {name: part for name, part in fields.items() if name not in names}
    parsed: list[Any] = [mistakes.collect(f"select.{name}", lambda: parse_path(name)) for name in names]  # noqa: B023 - called at once
    paths = [("_id", *path[1:]) if path[0] == "id" else tuple(path) for path in parsed if path is not MISSING]
    check_overlaps(left, paths, mistakes, "select")
    mistakes.settle(what)
    return left or None, tuple(paths)


def _read_text(operand: object) -> SearchQuery:
    if not isinstance(operand, Mapping) or not isinstance(operand.get("$search"), str):
        raise InvalidRequestError(
            "$text", reason="it must have $search with text", fix='write {"$search": "red shoes"}'
        )
    mistakes = Mistakes()
    for name, value in operand.items():
        if name not in _TEXT_KNOWN:
            mistakes.add(f"$text.{name}", "there is no such option", did_you_mean(str(name), _TEXT_KNOWN))
        elif name in {"$caseSensitive", "$diacriticSensitive"} and value is not False:
            mistakes.add(f"$text.{name}", "capitals and accents do not count here", "leave it out, or filter by $regex")
    language = operand.get("$language")
    if language is not None and not isinstance(language, str):
        mistakes.add("$text.$language", "it must be the name of a language", "leave it out")
    mistakes.settle("$text")
    return SearchQuery(operand["$search"], is_mongodb=True, language=language)
