"""Sentences are held to the code: what a page calls absent is absent, and the English is plain.

A sentence that says "not yet" was true when it was written, and no test noticed when it became false. So words of this
kind are allowed only in the sentences of `ABSENT`, each with a test that fails as soon as the feature is there.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import click
import pytest

from tests.docs.pages import PAGES, ROOT, named, prose
from wormdb.cli.main import worm
from wormdb.schema.keys import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOURCE = ROOT / "src" / "wormdb"

UNFINISHED = re.compile(
    r"\byet\b|\b(?:is|are|was|were|as) planned\b|\bplanned (?:for|to)\b|\bwithout effect\b|\bnot in force\b"
    r"|\bused by nothing\b|\bonly `\w+` is done\b|\bnot (?:implemented|supported)\b"
    r"|\bnone of (?:these|them) exists?\b|\b(?:do|does) not exist here\b"
    r"|\bfor now\b|\bsome day\b|\bin (?:a later|a future|the next) (?:version|release)\b|\b(?:is|are) reserved\b",
    flags=re.IGNORECASE,
)
DIALECT = re.compile(
    r"\b(?:nobody|whoever|everybody|anybody|somebody|whomever)\b|\bso (?:many|much)\b|\bforet(?:ell|old)\b"
    r"|\b(?:him|her)self\b|\bit is no \w|\b(?:by|of|for|to|from|but|only|leave it to) who\b"
    r"|(?:^|[.:;|] )Who (?![^.|]*\?)",
    flags=re.IGNORECASE,
)


class Absent(NamedTuple):
    """A sentence that may say so, and whether what it speaks of is still absent."""

    page: str
    sentence: str
    is_absent: Callable[[], bool]


def no_command(*names: str) -> Callable[[], bool]:
    return lambda: not set(names) & set(worm.list_commands(click.Context(worm)))


@cache
def _read() -> frozenset[str]:
    """Every attribute that a module outside of `schema` reads."""
    modules = [path for path in SOURCE.rglob("*.py") if SOURCE / "schema" not in path.parents]
    lines = (line for path in modules for line in path.read_text().splitlines() if "import " not in line)
    return frozenset(name for line in lines for name in re.findall(r"(?<=\.)[a-z]\w*", line))


@cache
def _made() -> frozenset[str]:
    """Every class that the package makes something of."""
    texts = (path.read_text() for path in SOURCE.rglob("*.py"))
    return frozenset(name for text in texts for name in re.findall(r"(?<!class )\b([A-Z]\w+)\(", text))


def unread(key: str) -> Callable[[], bool]:
    """No module but those of `schema` names the attribute that holds this key of a schema."""
    return lambda: key not in _read()


def unwritten(*events: str) -> Callable[[], bool]:
    """Nothing in the package makes one of these events."""
    return lambda: not _made() & set(events)


def kept(key: str) -> Callable[[], bool]:
    """The key of a schema is stored as it is, and nothing of it is read."""
    return lambda: [each.shape for each in TABLES["schema"] if each.name == key] == ["kept"]


SCHEMA = "docs/reference/schema.md"
RESERVED = "docs/design/0025-reserved.md"
OBJECTS = "docs/format/objects.md"
ABSENT = [
    Absent(SCHEMA, "Further paths; kept, and used by nothing here.", kept("paths")),
    Absent(SCHEMA, "Saved queries; kept, and used by nothing here.", kept("views")),
    Absent(SCHEMA, "Rules for paths; kept, and used by nothing here.", kept("rules")),
    Absent(SCHEMA, "Settings of the import; kept, and used by nothing here.", kept("import")),
    Absent(SCHEMA, "Folder of generated code; kept, and used by nothing here.", kept("generatedDir")),
    Absent(SCHEMA, "Access rules; kept, and used by nothing here.", kept("acl")),
    Absent(
        SCHEMA,
        "What becomes of the others on delete; only `none` is done: others are kept as they are.",
        unread("on_delete"),
    ),
    Absent(
        "docs/how-to/models.md",
        "A few keys of S3WORM's are stored and used by nothing, such as `views` and `acl`;",
        kept("acl"),
    ),
    Absent(RESERVED, "The folders `shard-<nnn>/` and the event `shards` are reserved:", unwritten("ShardsChanged")),
    Absent(
        OBJECTS,
        "The kinds `mode` (`m` mode) and `shards` (`c` count) are reserved: no version writes them.",
        unwritten("ModeChanged", "ShardsChanged"),
    ),
    Absent(RESERVED, "The event `mode` is reserved; a mode changes with its model.", unwritten("ModeChanged")),
]


def _excused(page: Path, text: str) -> list[tuple[int, int]]:
    sentences = [each.sentence for each in ABSENT if each.page == named(page)]
    return [found.span() for each in sentences for found in re.finditer(re.escape(each), text)]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_page_calls_something_unfinished_that_is_not_listed(page: Path) -> None:
    text = prose(page)
    excused = _excused(page, text)
    found = [
        text[max(0, match.start() - 60) : match.end() + 30]
        for match in UNFINISHED.finditer(text)
        if not any(start <= match.start() and match.end() <= end for start, end in excused)
    ]
    assert found == [], "say what is, or list the sentence in ABSENT with a test that the feature is absent"


@pytest.mark.parametrize("absent", ABSENT, ids=lambda absent: absent.sentence[:40])
def test_what_is_called_absent_is_absent(absent: Absent) -> None:
    assert absent.sentence in prose(ROOT / absent.page), "the page no longer says so: take it out of ABSENT"
    assert absent.is_absent(), "it is there by now: change the page"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_pages_are_in_plain_english(page: Path) -> None:
    """Subject, verb, object: "any process", "at most N", "must be"; a relative clause has a noun before it."""
    text = prose(page)
    assert [text[max(0, match.start() - 60) : match.end() + 30] for match in DIALECT.finditer(text)] == []


def test_a_feature_that_exists_is_not_absent() -> None:
    assert not no_command("push", "gc")()
    assert not unread("soft_delete")()
    assert not kept("models")()
    assert not unwritten("FilesSwitched")()


@pytest.mark.parametrize(
    "sentence",
    [
        "It is not yet there.",
        "Indexes are without effect.",
        "The key is not in force.",
        "It is planned.",
        "Text search and joins: none of these exist here.",
    ],
)
def test_words_for_the_unfinished_are_noticed(sentence: str) -> None:
    assert UNFINISHED.search(sentence)


@pytest.mark.parametrize(
    "sentence", ["Who waits is committed.", "Skip so many rows.", "It is no text.", "The clock of who made it."]
)
def test_the_dialect_is_noticed(sentence: str) -> None:
    assert DIALECT.search(sentence)
