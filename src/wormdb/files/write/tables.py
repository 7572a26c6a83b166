"""The manifest and the index files of a collection: what waits to be written, and writing it.

A table is made from the state, never from its file. A file is written again when enough of it has changed or when the
first change has waited for long enough; small ones at once. Whether a table lies in one file or in parts is decided by
the record first, then the files follow it, and only when they are complete those of before are deleted: so there is
always a complete table to read, and after a crash the record says what is missing.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec.structs import replace

from wormdb.files.contents.index import IndexTexts, plain_dates_of
from wormdb.files.write.publish import name_document
from wormdb.format.files_record import FilesPart, FilesTable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from wormdb.engine.state.definition import Definition
    from wormdb.engine.tree.definition import Index
    from wormdb.files.contents.names import FileNames
    from wormdb.files.write.changes import SeenChange
    from wormdb.schema.model import Field, Model

__all__ = [
    "BEGINNING",
    "MANIFEST",
    "PendingChanges",
    "Place",
    "TableKey",
    "TablePatience",
    "TableSpec",
    "align_tables",
    "date_paths",
    "file_indexes",
    "has_parts",
    "is_uneven",
    "keys_of",
    "lows_of",
    "mark_erased",
    "mark_unwritten",
    "part_of",
    "parts_of",
    "specs_of",
]


# --- In how many files a table lies, and where each begins. Pure.
#
# Tables stay in one file up to a threshold of entries, and come back to one only well below it, so that a collection
# near the threshold does not go to and fro. Entries are ordered by two texts: of a manifest the id's and nothing, of
# an index the value's and the id's.

Place = tuple[str, str]
"""Where an entry stands in a table."""

BEGINNING: Final[Place] = ("", "")
"""Before every entry."""

_SHRINK: Final = 0.8
"""Below this part of the threshold a table comes back to one file."""
_UNEVEN: Final = 3
"""How many times larger than it should be a part may grow before all are cut anew."""


def parts_of(count: int, threshold: int, maximum: int) -> int:
    """The number of parts for `count` entries: at most the threshold in each, unless the maximum forbids it."""
    return max(1, min(maximum, -(-count // max(threshold, 1))))


def has_parts(count: int, threshold: int, *, is_parted: bool) -> bool:
    """Whether a table of `count` entries lies in parts, given whether it does so now."""
    return count >= threshold * _SHRINK if is_parted and count <= threshold else count > threshold


def is_uneven(counts: Sequence[int], threshold: int, maximum: int) -> bool:
    """Whether a part is so much larger than the others that all should be cut anew."""
    total = sum(counts)
    wanted = parts_of(total, threshold, maximum)
    return len(counts) > maximum or (wanted > 1 and max(counts) > _UNEVEN * max(threshold, -(-total // wanted)))


def lows_of(places: Sequence[Place], parts: int) -> list[Place]:
    """Where each of up to `parts` equal parts of some places, which ascend, begins; the first one at the beginning."""
    cuts = [places[len(places) * number // parts] for number in range(1, parts)] if places else []
    return [BEGINNING, *sorted({cut for cut in cuts if cut > BEGINNING})]


def part_of(lows: Sequence[Place], place: Place) -> int:
    """In which of the parts that begin at `lows` a place is."""
    return bisect_right(lows, place) - 1


TableKey = tuple[Literal["manifest", "index"], tuple[str, ...]]

MANIFEST: Final[TableKey] = ("manifest", ())

SMALL_BYTES: Final = 256 * 1024
"""A table in one file up to this size is written again at once."""
RATIO: Final = 10
"""Any other file is written when one in this many of its entries has changed."""
RATIO_NEAR: Final = 12
"""As RATIO, where all documents are read anyway for another file of an index."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table that a definition asks for: an index, or without one the manifest."""

    index: Index | None
    shape: bytes
    """Changes when all of its files have to be written again."""
    is_automatic: bool = True
    """Whether it is written without being asked for."""

    @property
    def key(self) -> TableKey:
        """Which table of the record it is."""
        return MANIFEST if self.index is None else ("index", self.index.fields)


def specs_of(definition: Definition) -> dict[TableKey, TableSpec]:
    """The tables of a definition with a model. A singleton has none."""
    model = definition.model
    assert model is not None, "only models have readable files"
    if model.is_singleton:
        return {}
    specs = []
    if model.manifest.enabled:
        has_ids = ["id"] if model.manifest.fields is None else []  # rows of earlier releases lack it: written again
        shape = _digest(model.name, model.manifest_fields, date_paths(model), *has_ids)
        specs.append(TableSpec(None, shape, model.manifest.auto_update))
    for index in file_indexes(definition):
        said = (index.fields, index.unique, index.sparse, index.multi_valued, plain_dates_of(index.fields, model))
        specs.append(TableSpec(index, _digest(model.name, *said)))
    return {spec.key: spec for spec in specs}


def file_indexes(definition: Definition) -> tuple[Index, ...]:
    """The indexes that have files: those that are ready, one for the same fields."""
    found: dict[tuple[str, ...], Index] = {}
    for index in definition.indexes.ready:
        found.setdefault(index.fields, index)
    return tuple(found.values())


def date_paths(model: Model) -> list[str]:
    """The names of all fields that hold dates: files write these in another form."""
    return sorted(_dates(model.fields, ""))


def _dates(fields: Mapping[str, Field], prefix: str) -> Iterator[str]:
    for name, field in fields.items():
        path = f"{prefix}{name}"
        inner = field
        while inner.items is not None:
            inner, path = inner.items, f"{path}[]"
        if inner.type == "datetime":
            yield path
        yield from _dates(inner.properties, f"{path}.")


def _digest(*said: Any) -> bytes:
    return sha256(msgspec.json.encode(said)).digest()


# --- the tables of a record ---


def keys_of(table: FilesTable, names: FileNames) -> tuple[str, ...]:
    """The keys of a table's files, in the order in which they go: first what names the others."""
    if table.kind == "manifest":
        parts = [names.manifest_partition(number) for number in range(len(table.parts))]
        return (names.manifest_meta, *parts) if table.is_parted else (names.manifest,)
    parts = [names.index_partition(table.fields, number) for number in range(len(table.parts))]
    return (names.index_meta(table.fields), *parts) if table.is_parted else (names.index(table.fields),)


def align_tables(
    tables: Iterable[FilesTable], specs: Mapping[TableKey, TableSpec], names: FileNames, *, is_all: bool
) -> tuple[tuple[FilesTable, ...], tuple[str, ...]]:
    """The tables that the specs ask for, and the keys of files of all other tables.

    With `is_all` every file is to be written again.
    """
    known = {(table.kind, table.fields): table for table in tables}
    found: list[FilesTable] = []
    for key, spec in specs.items():
        table = known.pop(key, None)
        if table is None:
            table = FilesTable(kind=key[0], fields=key[1], shape=spec.shape, parts=(FilesPart(),))
        elif is_all:
            table = replace(mark_unwritten(table), shape=spec.shape)
        elif table.shape != spec.shape:
            table = replace(table, shape=spec.shape, parts=tuple(replace(part, log=0) for part in table.parts))
        found.append(table)
    gone = [key for table in known.values() for key in (*table.obsolete, *keys_of(table, names))]
    return tuple(found), tuple(gone)


def mark_unwritten(table: FilesTable) -> FilesTable:
    """A table of which every file is to be written again, whatever ids belong into it now."""
    return replace(table, parts=tuple(replace(part, log=0, first=b"", last=b"") for part in table.parts))


def mark_erased(
    tables: Iterable[FilesTable], texts: Collection[str], *, is_all: bool = False
) -> tuple[FilesTable, ...]:
    """The tables, with every file to be written now that may have something of documents that were erased.

    `texts` are those of their ids. A file has a row or an entry of one if changes wait for it, and is bounded by one if
    its `low` says so; with `is_all` it is not known what waits. No requests.
    """
    return tuple(_without_erased(table, texts, is_all=is_all) for table in tables) if texts else tuple(tables)


def _without_erased(table: FilesTable, texts: Collection[str], *, is_all: bool) -> FilesTable:
    ids = 0 if table.kind == "manifest" else 1
    hit = [
        bool(part.log or part.version) and (is_all or part.pending > 0 or part.low[ids] in texts)
        for part in table.parts
    ]
    if not any(hit):
        return table
    parts = [replace(part, log=0) if is_hit else part for part, is_hit in zip(table.parts, hit, strict=True)]
    return replace(table, parts=tuple(parts), has_erased=True)


@dataclass(frozen=True, slots=True)
class TablePatience:
    """How long changes may wait for a file."""

    now_ms: int
    seconds: float
    is_over: bool = False
    """Whether everything that waits is written now."""

    def is_due(self, table: FilesTable, part: FilesPart, *, is_near: bool = False) -> bool:
        """Whether a file of a table is to be written; `is_near` if that costs no more reading."""
        if part.log == 0:
            return True
        if part.pending == 0:
            return False
        waited = 0 if part.since is None else self.now_ms - part.since
        is_small = not table.is_parted and part.size <= SMALL_BYTES
        is_worth = is_small or part.pending * (RATIO_NEAR if is_near else RATIO) >= part.count
        return self.is_over or is_worth or not 0 <= waited < self.seconds * 1000


class PendingChanges:
    """Counts the entries of tables that changes of documents affect."""

    def __init__(self, tables: Iterable[FilesTable], specs: Mapping[TableKey, TableSpec], model: Model) -> None:
        """Nothing has changed yet."""
        self._tables = {(table.kind, table.fields): table for table in tables}
        self._lows = {key: [part.low for part in table.parts] for key, table in self._tables.items()}
        self._indexes = [(key, spec.index) for key, spec in specs.items() if spec.index is not None]
        self._texts = IndexTexts([index for _, index in self._indexes], model)
        self._counts: dict[tuple[TableKey, int], int] = {}
        self._ranges: dict[int, tuple[bytes, bytes]] = {}

    def note(self, changes: Iterable[SeenChange]) -> None:
        """Count changes. No requests."""
        for seen in changes:
            _, text = name_document(seen.version.id)
            if not text:
                continue
            if MANIFEST in self._tables:
                number = part_of(self._lows[MANIFEST], (text, ""))
                first, last = self._ranges.get(number, (seen.key, seen.key))
                self._ranges[number] = min(first, seen.key), max(last, seen.key)
                self._count(MANIFEST, number)
            both = zip(self._texts.of(seen.before), self._texts.of(seen.version.document), strict=True)
            for (key, _), (before, after) in zip(self._indexes, both, strict=True):
                if before != after:
                    for value in set(before) ^ set(after):
                        self._count(key, part_of(self._lows[key], (value, text)))

    def _count(self, key: TableKey, number: int) -> None:
        self._counts[key, number] = self._counts.get((key, number), 0) + 1

    def tables(self, now_ms: int) -> tuple[FilesTable, ...]:
        """The tables with what was counted."""
        return tuple(
            replace(
                table,
                parts=tuple(self._counted(key, number, part, now_ms) for number, part in enumerate(table.parts)),
            )
            for key, table in self._tables.items()
        )

    def _counted(self, key: TableKey, number: int, part: FilesPart, now_ms: int) -> FilesPart:
        count = self._counts.get((key, number))
        if count is None:
            return part
        part = replace(part, pending=part.pending + count, since=now_ms if part.since is None else part.since)
        if key == MANIFEST and number in self._ranges and not part.is_unknown:
            first, last = self._ranges[number]
            # Before the first id was in it there is no range to widen.
            return replace(part, first=min(first, part.first) if part.last else first, last=max(last, part.last))
        return part
