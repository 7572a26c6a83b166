"""One block and its sidecar against what the list says of them. No requests.

The block is written again from its rows, and what comes out is compared: counts, ranges, statistics and columns. So a
statistic that would leave a block out of a query by mistake is found, and a column that contradicts its document.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.history.changes import member_of
from wormdb.errors import CorruptionError, UnsupportedFormatError, WormError
from wormdb.format import json
from wormdb.format.block import EncodedBlock, Row, write_block
from wormdb.format.blockread import Block, open_block, read_columns, read_documents, read_page_rows
from wormdb.format.columns import ColumnSpec
from wormdb.format.frame import corrupt, frame_length
from wormdb.format.key import encode_key, encode_keys
from wormdb.format.membership import MembershipFilter
from wormdb.format.page import map_file
from wormdb.format.past import decode_past, past_id
from wormdb.format.sidecar import PageMap, PageRef, Sidecar, Versions, decode_sidecar, encode_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.format.blocklist import BlockEntry

__all__ = [
    "Content",
    "block_faults",
    "check_length",
    "content_of",
    "read_sidecar",
    "rebuild_sidecar",
    "salvage_rows",
    "sidecar_faults",
]

_TOLD: Final = ("rows", "deleted", "trashed", "key_first", "key_last", "rev_first", "rev_last", "columns")


@dataclass(frozen=True, slots=True)
class Content:
    """A block whose bytes are those that the list says."""

    name: str
    """Its object key."""
    body: bytes
    block: Block
    rows: list[Row]
    keys: list[bytes]
    is_history: bool

    @property
    def members(self) -> list[bytes]:
        """What its filter must know."""
        return [member_of(row) for row in self.rows] if self.is_history else self.keys

    @property
    def versions(self) -> Versions:
        """Revision, change number and fate of each row."""
        fates = [0 if row.document is not None else 1 if row.trash is None else 2 for row in self.rows]
        return Versions.of([row.rev for row in self.rows], [row.seq for row in self.rows], fates)

    @property
    def page_map(self) -> PageMap:
        """Where everything is in it."""
        digest = sha256(self.body).digest()
        return map_file(self.body, digest, self.keys, self.versions, first_cell=self.rows[0].cell)


def check_length(body: bytes, recorded: int, name: str) -> None:
    """Raise CorruptionError if `body`, which ends a byte after the end, is not as long as recorded. No requests."""
    if len(body) > recorded:
        corrupt(name, f"it has more than the {recorded} bytes that are recorded for it")
    if len(body) < recorded:
        corrupt(name, f"it has {len(body)} bytes, and {recorded} are recorded for it")


def content_of(body: bytes, entry: BlockEntry, *, name: str, is_history: bool) -> Content:
    """The rows of a block. Raises CorruptionError, UnsupportedFormatError if they are damaged or cannot be read."""
    check_length(body, entry.length, name)
    block = open_block(body, name=name, sha256=entry.sha256)
    rows = list(read_documents(block))
    if not rows:
        corrupt(name, "it has no rows")
    return Content(name, body, block, rows, encode_keys([row.id for row in rows]), is_history)


def block_faults(content: Content, entry: BlockEntry) -> list[str]:
    """What a block is or has that it should not, or that the list says wrongly."""
    if any(one >= other for one, other in pairwise(content.keys)):
        return ["its rows are out of order"]
    faults = list(_row_faults(content, entry))
    if faults:
        return faults
    again = _again(content)
    expected = again.entry(entry.name, entry.sidecar.name, kind=entry.kind, level=entry.level, run=entry.run)
    faults = [f"the list is wrong about its {field}" for field in _TOLD if _differs(expected, entry, field)]
    if again.parquet != content.body:
        faults += _column_faults(content, again)
    return faults


def _differs(expected: BlockEntry, entry: BlockEntry, field: str) -> bool:
    return bool(getattr(expected, field) != getattr(entry, field))


def _again(content: Content) -> EncodedBlock:
    specs = [ColumnSpec(path, kind) for path, kind in content.block.types.items() if path != "_id"]
    return write_block(content.rows, specs, keys=content.keys, members=content.members)


def _row_faults(content: Content, entry: BlockEntry) -> Iterator[str]:
    for key, row in zip(content.keys, content.rows, strict=True):
        if row.rev > entry.run or row.seq < 1:
            yield f"a row has revision {row.rev} and change {row.seq}, in a run through {entry.run}"
        try:
            fault = _history_fault(row) if content.is_history else _document_fault(row, key)
        except WormError as error:
            fault = f"a row cannot be read: {error.reason}"
        if fault is not None:
            yield f"{json.encode(row.id).decode()}: {fault}"


def _document_fault(row: Row, key: bytes) -> str | None:
    """A deletion without trash has nothing but the id: a cell with more is the trash."""
    document = json.decode_document(row.cell, name="document")
    return None if encode_key(document.get("_id")) == key else "the document of a row has another id"


def _history_fault(row: Row) -> str | None:
    if row.document is None:
        return "a row of history is deleted"
    past = decode_past(row.document, name="row of history")
    if json.encode(row.id) != past_id(past) or (past.rev, past.seq) != (row.rev, row.seq):
        return "a row of history is another version than it says"
    document = getattr(past, "document", None)
    if document is None:
        return None
    found = json.decode_document(document, name="document")
    same = encode_key(found.get("_id")) == encode_key(json.decode(past.id, name="document id"))
    return None if same else "a version holds a document of another id"


def _column_faults(content: Content, again: EncodedBlock) -> list[str]:
    """Columns that say something else than the documents; other bytes alone are not a fault."""
    names = [*content.block.types, "_rev", "_seq", "_deleted"]
    other = open_block(again.parquet, name=content.name, sha256=again.sha256)
    stored, expected = read_columns(content.block, names), read_columns(other, names)
    return [f"its column {name} contradicts the documents" for name in names if not _same(stored[name], expected[name])]


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    # NaN equals nothing, itself included.
    return one == other or list(map(repr, one)) == list(map(repr, other))


# --- sidecars ---


def read_sidecar(data: bytes, entry: BlockEntry, *, name: str, block: str) -> Sidecar:
    """A sidecar whose bytes are those that the list says; raises CorruptionError, UnsupportedFormatError."""
    ref = entry.sidecar
    check_length(data, ref.length, name)
    if sha256(data).digest() != ref.sha256:
        corrupt(name, "its SHA-256 is not the one recorded for it")
    if frame_length(data, name=name) != ref.map_bytes:
        corrupt(name, "its page map does not end where the list says")
    return decode_sidecar(data, name=name, identity=entry.sha256.hex(), block=block)


def sidecar_faults(sidecar: Sidecar, content: Content) -> list[str]:
    """Where a sidecar contradicts its block."""
    found, true = sidecar.map, content.page_map
    pairs = [
        ("length", found.length == true.length and found.sha256 == true.sha256),
        ("rows", found.rows == true.rows),
        ("footer", found.footer == true.footer),
        ("row groups", [group.chunks for group in found.groups] == [group.chunks for group in true.groups]),
        ("pages", found.pages is None or (found.pages, found.offsets) == (true.pages, true.offsets)),
    ]
    faults = [f"it contradicts its block in {what}" for what, agrees in pairs if not agrees]
    if faults:
        return faults
    if any(found.versions.at(row) != true.versions.at(row) for row in range(true.rows)):
        faults.append("it contradicts its block in a revision")
    if not _bounds_rows(found, content.keys):
        faults.append("it contradicts its block in the first key of a page")
    if not all(map(sidecar.membership.might_contain, content.members)):
        faults.append("its filter denies a row that is there")
    return faults


def _bounds_rows(page_map: PageMap, keys: Sequence[bytes]) -> bool:
    runs = zip(page_map.first_rows, page_map.keys, strict=True)
    return all(bound <= keys[row] and (not row or keys[row - 1] < bound) for row, bound in runs)


def rebuild_sidecar(content: Content) -> tuple[bytes, int]:
    """A new sidecar of a block, and how many of its bytes are the page map."""
    digest = sha256(content.body).hexdigest()
    return encode_sidecar(content.page_map, MembershipFilter.build(content.members), identity=digest)


# --- what is left of a damaged block ---


def salvage_rows(body: bytes | None, sidecar: bytes | None, entry: BlockEntry, *, name: str) -> list[Row]:
    """The rows of a damaged block in those of its pages that are as they were written; none without its sidecar."""
    if body is None or sidecar is None:
        return []
    try:
        page_map = read_sidecar(sidecar, entry, name=name, block=name).map
    except (CorruptionError, UnsupportedFormatError):
        return []
    rows: list[Row] = []
    for page, span in enumerate(page_map.pages or ()):
        ref = PageRef(page_map, page, page_map.offsets[page], span.length)
        try:
            rows += read_page_rows(body[ref.offset : ref.offset + ref.length], ref)
        except CorruptionError:
            continue
    return rows
