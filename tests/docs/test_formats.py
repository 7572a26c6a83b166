"""The page of stored objects names every field that the code writes, and no other."""

from __future__ import annotations

import re
from typing import Any, get_args

import msgspec
import pytest

from tests.docs.pages import ROOT
from wormdb.format.adopt_record import AdoptRecord, StagedPart
from wormdb.format.blocklist import BlockEntry, BlockPageRef, ColumnStats, SidecarRef
from wormdb.format.entry import Entry, LoggedBatch, LoggedChange
from wormdb.format.event import RESERVED, Event
from wormdb.format.field_statistics import FieldStatistics
from wormdb.format.files_record import FilesFill, FilesPart, FilesPlaces, FilesRecord, FilesTable
from wormdb.format.root import (
    CondemnedBlob,
    FunctionEntry,
    IndexRoot,
    JobOutcome,
    RetiredList,
    RetiredObject,
    Root,
    SchemaVersion,
)

PAGE = (ROOT / "docs" / "format" / "objects.md").read_text()
CODE = re.compile(r"`([a-z]{1,2})`")

TABLES = {
    "The log entry": Entry,
    "The root": Root,
    "The record of an adoption": AdoptRecord,
    "The record of readable files": FilesRecord,
}
# A part of an object, and the words before the names of its fields, up to the next bracket, bar or end of a paragraph.
PARTS = [
    (LoggedBatch, "A batch has"),
    (LoggedChange, "A change has"),
    (BlockEntry, "An entry for a block:"),
    (SidecarRef, "`s` sidecar ("),
    (ColumnStats, "`c` columns ("),
    (BlockPageRef, "pages of the block list, each of one run:"),
    (IndexRoot, "indexes in order of their names:"),
    (JobOutcome, "jobs:"),
    (RetiredObject, "retired objects:"),
    (RetiredList, "an object that lists more of them:"),
    (CondemnedBlob, "whose entries are not trimmed:"),
    (SchemaVersion, "versions of the model after the first:"),
    (FunctionEntry, "functions in order of their names:"),
    (FieldStatistics, "a message of `f`, for each field"),
    (StagedPart, "parts:"),
    (FilesPlaces, "digest of what the model says of these files; where system folders lie:"),
    (FilesFill, "while all files are written:"),
    (FilesTable, "tables:"),
    (FilesPart, "A file of a table:"),
]


def fields_of(kind: Any) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def section(title: str) -> str:
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
    return str(text)


@pytest.mark.parametrize("title", TABLES)
def test_a_table_has_the_fields_of_its_object(title: str) -> None:
    columns = re.findall(r"^\| ([^|]*) \|", section(title), flags=re.MULTILINE)
    named = [name for column in columns for name in CODE.findall(column)]
    events = section(title).partition("An event is a map")[2]
    named = named if not events else [name for name in named if name in fields_of(Entry)]
    assert set(named) == fields_of(TABLES[title])


@pytest.mark.parametrize(("kind", "words"), PARTS, ids=lambda each: getattr(each, "__name__", None))
def test_a_part_has_its_fields(kind: Any, words: str) -> None:
    (text,) = re.findall(rf"{re.escape(words)}(.*?)(?:\n\n|\|)", PAGE, flags=re.DOTALL)
    assert fields_of(kind) <= set(CODE.findall(text))


@pytest.mark.parametrize("kind", [kind for kind in get_args(Event) if kind not in RESERVED])
def test_an_event_has_its_fields(kind: Any) -> None:
    tag = re.escape(kind.__struct_config__.tag)
    (row,) = re.findall(rf"^\| [^|]*`{tag}`[^|]* \| (.*) \|$", section("The log entry"), flags=re.MULTILINE)
    assert set(CODE.findall(row)) == fields_of(kind)
