"""Ids: which a path allows, and how new ones are made.

Ids of models are text, whatever strategy makes them, because they are part of keys:

========  ====================================================================  ===================
uuid      random, RFC 4122 version 4                                            made here
ulid      48 bits of time and 80 random ones, 26 characters of Crockford's 32   made here
objectid  4 bytes of time and 8 random ones as 24 hex digits                    made here
seq       counter of the collection, `format_sequence`: at least 10 digits      made by the commit
given     none is made                                                          given by the caller
========  ====================================================================  ===================

The strategy follows from the type of the id in the path (`(id:ulid)`; other types mean given), or is named
by the model's key `id`. `(id:any)` alone takes other values than text, as `wormdb.format.segment` allows.
`(id:path).json` takes paths: `2024/05/17/abc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError, LimitExceededError, Problem, WormError
from wormdb.format.segment import check_id, encode_segment
from wormdb.schema.path import is_hidden
from wormdb.schema.pattern import compile_pattern
from wormdb.settings import SEGMENT_BYTES_MAX, SEQUENCE_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.schema.model import IdStrategy, Model
    from wormdb.schema.path import Segment
    from wormdb.system.clock import Chance, Clock

__all__ = [
    "BUILT_IN_TYPES",
    "SAMPLES",
    "are_ids",
    "check_outer",
    "format_sequence",
    "id_problem",
    "makes_good_ids",
    "new_id",
    "new_ids",
]

_CROCKFORD: Final = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LETTERS: Final = _CROCKFORD * 8
"""Of each byte the letter of its last five bits."""
_CHANCE_BYTES: Final = {"uuid": 16, "ulid": 16, "objectid": 8}
_VARIANTS: Final = {digit: "89ab"[place % 4] for place, digit in enumerate("0123456789abcdef")}
_SEQUENCE_DIGITS: Final = 10

BUILT_IN_TYPES: Final[Mapping[str, str]] = {
    "any": "",
    "evm": "0x[0-9a-fA-F]{40}",
    "objectid": "[0-9a-fA-F]{24}",
    "path": "",
    "seq": "[0-9]{1,20}",
    "slug": "[a-z0-9][a-z0-9_-]*",
    "string": "",
    "ulid": "[0-7][0-9A-HJKMNP-TV-Z]{25}",
    "uuid": "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
}
"""Types that need no entry in dynamicTypes; an empty pattern takes everything."""

SAMPLES: Final[Mapping[IdStrategy, str]] = {
    "uuid": "6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28",
    "ulid": "01HV5Q8ZJ4N7XKTR2MDWE9GYBC",
    "objectid": "65f0a1b2c3d4e5f60718293a",
    "seq": "0000000042",
}
"""An id of each strategy, to test a pattern with."""


def new_id(strategy: IdStrategy, *, clock: Clock, chance: Chance) -> str | None:
    """A new id; None where the commit (seq) or the caller (given) has to supply it."""
    return next(iter(new_ids(strategy, 1, clock=clock, chance=chance)), None)


def new_ids(strategy: IdStrategy, count: int, *, clock: Clock, chance: Chance) -> list[str]:
    """Several new ids of one moment; ascending where ids begin with the time. None for the strategies seq and given."""
    size = _CHANCE_BYTES.get(strategy, 0)
    if not size:
        return []
    data = chance.token(size * count)
    milliseconds = clock.now_ms() % 2**48
    if strategy == "ulid":
        time = bytes(_CROCKFORD[milliseconds >> 5 * place & 31] for place in reversed(range(10))).decode()
        return [time + text for text in sorted(_cut(data.translate(_LETTERS).decode(), size))]
    digits = _cut(data.hex(), 2 * size)
    if strategy == "objectid":
        time = (milliseconds // 1000 % 2**32).to_bytes(4, "big").hex()
        return [time + text for text in sorted(digits)]
    return [f"{d[:8]}-{d[8:12]}-4{d[13:16]}-{_VARIANTS[d[16]]}{d[17:20]}-{d[20:]}" for d in digits]


def makes_good_ids(model: Model) -> bool:
    """Whether every id that the model's strategy makes has the type that its path asks for, seen by names alone."""
    if model.path.id is None or model.id in ("seq", "given"):
        return False
    kind = model.path.id.type
    return kind not in model.dynamic_types and kind in {model.id, "any", "string"}


def format_sequence(number: int) -> str:
    """The id of the strategy seq: zero-padded, so that the first ten thousand million sort as text.

    Raises LimitExceededError behind the end of the counter: a number that it does not count would be given twice.
    """
    if number > SEQUENCE_MAX:
        raise LimitExceededError(
            f"id {number}",
            reason=f"there is no number after {SEQUENCE_MAX}, which a document has or had as its id",
            fix="give ids to new documents, or move them to a collection whose ids are made otherwise",
        )
    return f"{number:0{_SEQUENCE_DIGITS}d}"


def id_problem(model: Model, value: Any) -> Problem | None:
    """Why `value` cannot be the id of a document of `model`; None if it can. A singleton takes any."""
    if model.path.holds_many:
        return _line_problem(value)
    return None if model.path.id is None else _segment_problem(model, model.path.id, value, "_id")


def _line_problem(value: Any) -> Problem | None:
    """Why `value` cannot be an id of a document that lay in a line: it says its own, whatever its file is called."""
    try:
        check_id(value)
    except WormError as error:
        return Problem("_id", error.reason or error.what, error.fix)
    return None


def are_ids(model: Model, values: Sequence[str]) -> bool:
    """Whether texts can all be ids of documents of a model. They are of ASCII, and none is empty or too long."""
    segment = model.path.id
    if segment is not None and not model.files and not model.path.is_deep and _pattern_of(model, segment) == "":
        return True
    return all(id_problem(model, value) is None for value in values)


def check_outer(model: Model, outer: Mapping[str, Any]) -> dict[str, Any]:
    """The outer values of a collection, checked against their types.

    Raises InvalidRequestError listing every value that does not fit, and for missing or unknown ones.
    """
    model.path.collection_prefix(outer)
    found = [_segment_problem(model, segment, outer[segment.name], segment.name) for segment in model.path.outer]
    problems = [problem for problem in found if problem is not None]
    if problems:
        raise InvalidRequestError(f"model {model.name}", problems=problems)
    return dict(outer)


def _segment_problem(model: Model, segment: Segment, value: Any, path: str) -> Problem | None:
    try:
        check_id(value)
        if model.files or path != "_id":
            encode_segment(value)
    except WormError as error:
        return Problem(path, error.reason or error.what, error.fix)
    if segment.type == "any" and "any" not in model.dynamic_types:
        return None
    if not isinstance(value, str):
        return Problem(path, f"it is {type(value).__name__}, and the path asks for text", f"use {str(value)!r}")
    pattern = _pattern_of(model, segment)
    if pattern and (len(value) > SEGMENT_BYTES_MAX or compile_pattern(pattern).fullmatch(value) is None):
        return Problem(path, f"{value[:60]!r} is not a {segment.type}", f"it has to match {pattern}")
    return _folders_problem(model, value, path) if path == "_id" and model.path.is_deep else None


def _folders_problem(model: Model, value: str, path: str) -> Problem | None:
    """Why a path cannot be an id: its file would be hidden, or lie in a folder that has the name of another's file."""
    parts, extension = value.split("/"), model.path.extension
    fix = "write it as 2024/05/17/abc"
    if "" in parts:
        return Problem(path, f"{value[:60]!r} has an empty part", fix)
    if is_hidden(parts):
        return Problem(path, f"a part of {value[:60]!r} begins with a dot or a line, as hidden files do", fix)
    if any(part.endswith(extension) for part in parts[:-1]):
        return Problem(path, f"a folder of {value[:60]!r} ends with {extension}, as files do", fix)
    return None


def _pattern_of(model: Model, segment: Segment) -> str:
    """What a value of a segment must match; empty if any text does."""
    return model.dynamic_types.get(segment.type, BUILT_IN_TYPES.get(segment.type, ""))


def _cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
