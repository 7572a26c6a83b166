"""Records on their way into an import: some at a time, and again if they have to be read twice."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from wormdb.api.records import Record
from wormdb.errors import WormError
from wormdb.format import json
from wormdb.format.values import normalize
from wormdb.settings import IMPORT_RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

__all__ = ["ROWS_AT_ONCE", "Replay", "RowSpool", "Rows", "pack_record", "some_rows", "unpack_record"]

ROWS_AT_ONCE: Final = 1_000
_LENGTH: Final = struct.Struct("<Q")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rows:
    """Some records of one file, in order: one by one, or as columns."""

    file: str
    records: list[Record] = field(default_factory=list)
    batch: pa.RecordBatch | None = None
    first: int = 0
    """Records of the file before these."""
    lines: int = 0
    """Lines of the part that ends here; 0 if they are known."""
    is_placed: bool = True
    """Whether lines are those of the whole file."""
    source: bytes | None = None
    """A digest of the file: ids that are made depend on it and on the place of the record alone."""

    @property
    def count(self) -> int:
        """How many records they are."""
        return len(self.records) if self.batch is None else self.batch.num_rows

    @property
    def size(self) -> int:
        """About how many bytes they have."""
        return sum(record.size for record in self.records) if self.batch is None else self.batch.nbytes


class RowSpool(Generic[T]):
    """A list that keeps its first items in memory and all others in a temporary file. Not thread-safe."""

    def __init__(self, pack: Callable[[T], bytes], unpack: Callable[[bytes], T], most: int = IMPORT_RECORDS) -> None:
        """`most` items stay as they are; `pack` and `unpack` are for the others."""
        self._pack, self._unpack, self._most = pack, unpack, most
        self._held: list[T] = []
        self._file: IO[bytes] | None = None
        self._count = 0

    def __len__(self) -> int:
        return len(self._held) + self._count

    def append(self, item: T) -> None:
        """Add one behind all others."""
        if len(self._held) < self._most:
            self._held.append(item)
            return
        if self._file is None:
            self._file = TemporaryFile(prefix="worm-import-")  # noqa: SIM115 - `clear` closes it
        body = self._pack(item)
        self._file.seek(0, 2)
        self._file.write(_LENGTH.pack(len(body)) + body)
        self._count += 1

    def __iter__(self) -> Iterator[T]:
        yield from self._held
        at = 0
        for _ in range(self._count):
            assert self._file is not None, "what is not in memory is in the file"
            self._file.seek(at)
            (length,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
            yield self._unpack(self._file.read(length))
            at += _LENGTH.size + length

    def clear(self) -> None:
        """Forget all of them."""
        if self._file is not None:
            self._file.close()
        self._held, self._file, self._count = [], None, 0


class Replay(Generic[T]):
    """What can be read only once, as often as it takes: what was read is kept in a spool."""

    def __init__(self, items: Iterable[T], spool: RowSpool[T]) -> None:
        """Nothing is read yet."""
        self._rest = iter(items)
        self._spool = spool

    def __iter__(self) -> Iterator[T]:
        yield from self._spool
        for item in self._rest:
            self._spool.append(item)
            yield item

    def close(self) -> None:
        """Remove what was kept."""
        self._spool.clear()


def some_rows(file: str, records: Iterable[Record], source: bytes | None = None, from_line: int = 0) -> Iterator[Rows]:
    """Records of one file, at most `ROWS_AT_ONCE` together; those that begin before a line are passed over.

    No requests.
    """
    waiting: list[Record] = []
    first = 0
    for place, record in enumerate(records):
        if record.line < from_line:
            continue
        first = first if waiting else place
        waiting.append(record)
        if len(waiting) == ROWS_AT_ONCE:
            yield Rows(file, waiting, first=first, source=source)
            waiting = []
    if waiting:
        yield Rows(file, waiting, first=first, source=source)


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    line: int
    values: bytes | None
    size: int
    is_text: bool
    problem: str
    text: str


def pack_record(record: Record) -> bytes:
    """A record as bytes. One whose values cannot be stored is one that cannot be read. No requests."""
    values: Any = None
    problem, text = record.problem, record.text
    if record.values is not None:
        try:
            values = json.encode(normalize(record.values))
        except WormError as error:
            problem, text = error.reason or error.what, repr(record.values)
    return msgspec.msgpack.encode(_Packed(record.line, values, record.size, record.is_text, problem, text))


def unpack_record(body: bytes) -> Record:
    """A record out of bytes. No requests."""
    one = msgspec.msgpack.decode(body, type=_Packed)
    values = None if one.values is None else json.decode(one.values, name="a record")
    return Record(one.line, values, one.size, one.is_text, one.problem, one.text)
