"""Regular expressions on RE2, which takes time in proportion to the text whatever the pattern is.

The syntax is RE2's: no look-around, no back references. Where RE2 means something else than PCRE, which MongoDB runs,
or lacks it, and the same can be said with other signs, the pattern is rewritten: option x, `$` before a last newline,
classes of blanks, and (*UCP), with which classes are those of Unicode. Classes are ASCII's otherwise, as in MongoDB.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from wormdb.errors import InvalidRequestError
from wormdb.settings import REGEX_BYTES_MAX
from wormdb.system.installed import load

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OPTIONS", "compile_regex", "rewrite_regex"]

OPTIONS: Final = "imsux"
"""The letters of $options: ignore case, ^ and $ at every line, dot matches newlines, and x for patterns with blanks
and comments; u is always on."""

_SPECIAL: Final = frozenset(r".^$*+?{}[]\|()")
# The parts of a pattern that mean something else here: classes, escapes with what belongs to them, the end; and with
# option x what that takes out.
_PARTS: Final = (
    r"(?P<class>\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\])"
    r"|(?P<escape>\\(?:Q.*?(?:\\E|\Z)|[pPx]\{[^}]*\}|.))"
    r"|(?P<end>\$)"
)
_PART: Final = re.compile(_PARTS, re.DOTALL)
_PART_OR_BLANKS: Final = re.compile(_PARTS + r"|[ \t\n\r\v\f]+|\#[^\n]*", re.DOTALL)
_INNER: Final = re.compile(r"\[:[a-z]+:\]|\\.", re.DOTALL)
_VERB: Final = re.compile(r"\(\*(UTF8?|UCP)\)")
_FLAG_M: Final = re.compile(r"\(\?[a-zA-Z]*m")

_BLANKS: Final = r"\t\x20\xa0\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}"
_BREAKS: Final = r"\n\x0b\f\r\x{85}\x{2028}\x{2029}"
_MEMBERS: Final = {r"\s": r"\s\x0b", r"\h": _BLANKS, r"\v": _BREAKS}
"""Of PCRE's classes what RE2 has in each, as members of a class."""
_UNICODE_MEMBERS: Final = {
    r"\w": r"\p{L}\p{N}_",
    r"\d": r"\p{Nd}",
    r"\s": _BREAKS + _BLANKS,
    "[:alpha:]": r"\p{L}",
    "[:lower:]": r"\p{Ll}",
    "[:upper:]": r"\p{Lu}",
    "[:digit:]": r"\p{Nd}",
    "[:alnum:]": r"\p{L}\p{N}",
    "[:space:]": _BREAKS + _BLANKS,
    "[:word:]": r"\p{L}\p{N}_",
}
"""The same with (*UCP)."""
_OTHERS: Final = {
    r"\N": r"[^\n]",
    r"\R": rf"(?:\r\n|[{_BREAKS}])",
    r"\Z": r"(?:\n?\z)",
}
"""What stands outside of classes only."""


@lru_cache(maxsize=256)
def compile_regex(pattern: str, options: str = "") -> Callable[[str], bool]:
    """A function that tells whether a text holds a match. No requests.

    Raises MissingExtraError without google-re2, InvalidRequestError for a pattern that RE2 cannot run.
    """
    re2 = load("re2")
    if len(pattern.encode()) > REGEX_BYTES_MAX:
        raise InvalidRequestError(
            "the pattern is too long", reason=f"REGEX_BYTES_MAX is {REGEX_BYTES_MAX}", fix="use $in, or several filters"
        )
    settings = re2.Options()
    settings.log_errors = False
    settings.never_capture = True
    settings.case_sensitive = "i" not in options
    try:
        compiled = re2.compile(rewrite_regex(pattern, options), settings)
    except re2.error as error:
        raise InvalidRequestError(
            "the pattern cannot be run",
            reason=f"RE2 says: {_message(error)}",
            fix="write it without look-around and back references: the syntax is RE2's",
        ) from error
    search = compiled.search
    return _plain(pattern, options) or (lambda text: search(text) is not None)


def rewrite_regex(pattern: str, options: str) -> str:
    r"""The pattern as RE2 takes it, with the options m, s and x in it. No requests.

    Raises InvalidRequestError for a word boundary with (*UCP): RE2 knows those of ASCII only.
    """
    body, is_unicode = pattern, False
    while verb := _VERB.match(body):
        body, is_unicode = body[verb.end() :], is_unicode or verb[1] == "UCP"
    members = _MEMBERS | _UNICODE_MEMBERS if is_unicode else _MEMBERS
    ends_lines = "m" in options or _FLAG_M.search(body)

    def replace(part: re.Match[str]) -> str:
        if part["class"]:
            return _INNER.sub(lambda inner: members.get(inner[0], inner[0]), part[0])
        if part["escape"]:
            return _escape(part[0], members, is_unicode=is_unicode)
        if part["end"]:
            return "$" if ends_lines else r"(?:\n?\z)"
        return ""

    flags = "".join(letter for letter in "ms" if letter in options)
    source = (_PART_OR_BLANKS if "x" in options else _PART).sub(replace, body)
    return f"(?{flags}){source}" if flags else source


def _escape(escape: str, members: dict[str, str], *, is_unicode: bool) -> str:
    """An escape outside of classes; an upper letter is the complement of the lower one."""
    if is_unicode and escape in {r"\b", r"\B"}:
        raise InvalidRequestError(
            "the pattern cannot be run",
            reason=f"RE2 has no {escape} for words of Unicode",
            fix=r"leave (*UCP) out, or write what stands around the word, such as (^|\P{L})",
        )
    if escape in members:
        return f"[{members[escape]}]"
    if escape.lower() in members:
        return f"[^{members[escape.lower()]}]"
    # Ignoring case, RE2 would find signs in \w that differ from a letter of ASCII in case only, such as the long s.
    return f"(?-i:{escape})" if escape in {r"\w", r"\W"} else _OTHERS.get(escape, escape)


def _plain(pattern: str, options: str) -> Callable[[str], bool] | None:
    """The function of a pattern that is only text, perhaps at the start: Python finds it ten times faster than RE2."""
    start, body = pattern.startswith("^"), pattern.removeprefix("^")
    if set(options) & {"i", "m", "x"} or _SPECIAL.intersection(body):
        return None
    return (lambda text: text.startswith(body)) if start else (lambda text: body in text)


def _message(error: Exception) -> str:
    said = error.args[0] if error.args else "no reason"
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
