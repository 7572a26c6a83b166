"""What the root knows of each block, and pages of such entries when the root would grow too large."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from wormdb.format.frame import (
    Count,
    Digest,
    FrameKind,
    Name,
    corrupt,
    decode_frame,
    decode_message,
    encode_frame,
    encode_message,
)
from wormdb.settings import ROOT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BlockEntry",
    "BlockPage",
    "BlockPageRef",
    "ColumnStats",
    "SidecarRef",
    "decode_block_page",
    "encode_block_page",
]

_VERSION: Final = 1


class ColumnStats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One column of one block, for leaving the block out of a query.

    `low` and `high` bound the encoded keys (`wormdb.format.key`) of the `values` that the column
    itself holds; long ones are shortened outwards, so they are bounds and not always values. Rows
    counted by `others` are described by no bound: with any of them the block cannot be left out.
    """

    path: Name = msgspec.field(name="p")
    type: Name = msgspec.field(name="t")
    values: Count = msgspec.field(name="v", default=0)
    nulls: Count = msgspec.field(name="n", default=0)
    missing: Count = msgspec.field(name="m", default=0)
    others: Count = msgspec.field(name="o", default=0)
    low: bytes | None = msgspec.field(name="l", default=None)
    high: bytes | None = msgspec.field(name="h", default=None)


class SidecarRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A block's sidecar: its first `map_bytes` are the page map, the rest is the filter."""

    name: Name = msgspec.field(name="n")
    sha256: Digest = msgspec.field(name="h")
    length: Count = msgspec.field(name="b")
    map_bytes: Count = msgspec.field(name="m")
    shape: Count = msgspec.field(name="u", default=0)
    """`BlockEntry.shape`, here because MessagePack writes maps of more than 15 fields in another way."""
    choice: Count = msgspec.field(name="c", default=0)
    """`BlockEntry.choice`, here for the same reason."""


class BlockEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One immutable block: a base block holds the only version of its ids, a delta hides older blocks'."""

    name: Name = msgspec.field(name="n")
    kind: Literal["base", "delta"] = msgspec.field(name="k")
    level: Count = msgspec.field(name="l", default=0)
    run: Count = msgspec.field(name="g", default=0)
    """The run it belongs to: through which log number that was written. A newer run hides older ones.

    A row of revision 0 was written by a job before its number was known: its revision is this.
    """
    key_first: bytes = msgspec.field(name="f")
    key_last: bytes = msgspec.field(name="t")
    rows: Count = msgspec.field(name="r")
    deleted: Count = msgspec.field(name="d", default=0)
    trashed: Count = msgspec.field(name="x", default=0)
    """How many of the deleted can be restored from the trash."""
    rev_first: Count = msgspec.field(name="u")
    rev_last: Count = msgspec.field(name="v")
    length: Count = msgspec.field(name="b")
    sha256: Digest = msgspec.field(name="h")
    sidecar: SidecarRef = msgspec.field(name="s")
    columns: tuple[ColumnStats, ...] = msgspec.field(name="c", default=())

    @property
    def shape(self) -> int:
        """Through which log number mappings are done in all rows; later rows have what came before them anyway."""
        return self.sidecar.shape

    @property
    def choice(self) -> int:
        """By which rule frequent paths became columns, `wormdb.format.frequent.CHOICE`; 0 if none were looked for."""
        return self.sidecar.choice

    def shaped(self, number: int) -> BlockEntry:
        """The same block, where mappings are done through a log number."""
        return msgspec.structs.replace(self, sidecar=msgspec.structs.replace(self.sidecar, shape=number))


class BlockPageRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of block entries of one run, named by the root: enough to know whether it must be read."""

    name: Name = msgspec.field(name="n")
    sha256: Digest = msgspec.field(name="h")
    length: Count = msgspec.field(name="b")
    run: Count = msgspec.field(name="g")
    level: Count = msgspec.field(name="l")
    blocks: Count = msgspec.field(name="c")
    rows: Count = msgspec.field(name="r")
    size: Count = msgspec.field(name="z")
    """Bytes of its blocks, as stored."""
    rev_first: Count = msgspec.field(name="u")
    rev_last: Count = msgspec.field(name="v")
    trashed: Count = msgspec.field(name="x")
    key_first: bytes = msgspec.field(name="f")
    key_last: bytes = msgspec.field(name="t")
    shape: Count = msgspec.field(name="m", default=0)
    """The least of its blocks."""

    @classmethod
    def over(cls, blocks: Sequence[BlockEntry], *, name: str, sha256: bytes, length: int) -> BlockPageRef:
        """What a root says of a page of these blocks, which are of one run and in order of key."""
        return cls(
            name=name,
            sha256=sha256,
            length=length,
            run=blocks[0].run,
            level=max(block.level for block in blocks),
            blocks=len(blocks),
            rows=sum(block.rows for block in blocks),
            size=sum(block.length for block in blocks),
            rev_first=min(block.rev_first for block in blocks),
            rev_last=max(block.rev_last for block in blocks),
            trashed=sum(block.trashed for block in blocks),
            key_first=blocks[0].key_first,
            key_last=blocks[-1].key_last,
            shape=min(block.shape for block in blocks),
        )


class BlockPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the blocks of one run, in the order of their first keys."""

    blocks: tuple[BlockEntry, ...] = msgspec.field(name="b")


_DECODER: Final = msgspec.msgpack.Decoder(BlockPage)


def encode_block_page(page: BlockPage, *, identity: str) -> bytes:
    """The bytes of a page of the block list. No requests; raises LimitExceededError."""
    payload = encode_message(page, what="a page of the block list", bytes_max=ROOT_BYTES_MAX, fix="use smaller pages")
    return encode_frame(FrameKind.BLOCK_LIST, version=_VERSION, identity=identity, payload=payload)


def decode_block_page(data: bytes, *, name: str, identity: str) -> BlockPage:
    """The page stored as object `name`. No requests; raises CorruptionError, UnsupportedFormatError."""
    frame = decode_frame(
        data, FrameKind.BLOCK_LIST, name=name, identity=identity, version_max=_VERSION, bytes_max=ROOT_BYTES_MAX
    )
    page = decode_message(_DECODER, frame.payload, name=name)
    if any(block.key_first > block.key_last for block in page.blocks):
        corrupt(name, "a block ends before it begins")
    return page
