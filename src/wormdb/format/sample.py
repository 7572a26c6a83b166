"""A fair sample of a collection's documents, small enough for the root.

Documents are chosen by a hash of their ids: those with the least hashes are in it. So it is a function of the
documents alone, needs no chance, and follows changes without a look at the others: every document whose hash is below
`limit` is in it, or was too long. A document that is deleted leaves, and its place stays empty until all documents
are read again; samples of parts that have no id in common join to one of all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.format import json
from wormdb.format.frame import corrupt, decode_message, encode_message
from wormdb.format.membership import HASH_BITS, key_hash
from wormdb.settings import SAMPLE_BYTES_MAX, SAMPLE_DOCUMENT_BYTES_MAX, SAMPLE_ROWS, SAMPLE_TEXT_CHARS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wormdb.format.block import Row

__all__ = ["Sample", "Sampler", "decode_sample", "encode_sample"]

_LIMIT_BYTES: Final = HASH_BITS // 8 + 1
_ROWS_AT_ONCE: Final = 1_000


class _SampleMessage(msgspec.Struct, frozen=True):
    limit: bytes = msgspec.field(name="l")
    rows: tuple[tuple[bytes, bytes], ...] = msgspec.field(name="r")
    """Keys of ids and documents."""


_DECODER: Final = msgspec.msgpack.Decoder(_SampleMessage)


@dataclass(frozen=True, slots=True)
class Sample:
    """Documents by the keys of their ids, long texts in them shortened. A value."""

    rows: Mapping[bytes, bytes] = field(default_factory=dict)
    limit: int = 1 << HASH_BITS
    """A document belongs to the sample if the hash of its id's key is below this."""

    def after(self, changed: Iterable[tuple[bytes, bytes | None]], *, note_gone: bool = False) -> Sample:
        """The sample when documents have changed: keys of ids, each with what is there now, None if nothing.

        With `note_gone` it also tells which have no place in it any more: an empty row stands for them.
        """
        rows, limit = dict(self.rows), self.limit
        for key, document in changed:
            if key_hash(key) >= limit:
                continue
            rows.pop(key, None)
            short = b"" if document is None else _shortened(document)
            if short or note_gone:
                rows[key] = short
            if len(rows) > 2 * SAMPLE_ROWS:
                rows, limit = _cut(rows, limit)
        return Sample(*_cut(rows, limit))

    def with_newer(self, newer: Sample) -> Sample:
        """The sample of these documents and newer ones, which replace those of the same ids or say that they left."""
        limit = min(self.limit, newer.limit)
        rows = {key: row for key, row in {**self.rows, **newer.rows}.items() if row and key_hash(key) < limit}
        return Sample(*_cut(rows, limit))

    def is_thin(self, count: int) -> bool:
        """Whether deletes have left less than half of what a new sample of `count` documents might have."""
        size = sum(len(key) + len(row) for key, row in self.rows.items())
        return 2 * len(self.rows) < min(SAMPLE_ROWS, count) and 2 * size < SAMPLE_BYTES_MAX


class Sampler:
    """Makes the sample of rows that pass by.

    A job that attaches blocks samples what it writes, for `JobAttached.sample`:

        sampler = Sampler(note_gone=True)
        blocks = writer.write(sampler.watch(rows))
        encode_sample(sampler.sample)
    """

    def __init__(self, *, note_gone: bool = False) -> None:
        """`note_gone` for rows that are newer than others: the sample tells which documents are deleted."""
        self.sample = Sample()
        self._note_gone = note_gone

    def watch(self, rows: Iterable[tuple[bytes, Row]]) -> Iterator[tuple[bytes, Row]]:
        """The same rows; when they have passed, `sample` is the sample of their documents."""
        for some in _batched(rows):
            self.sample = self.sample.after(((key, row.document) for key, row in some), note_gone=self._note_gone)
            yield from some


def encode_sample(sample: Sample) -> bytes:
    """As bytes for the root. No requests."""
    message = _SampleMessage(sample.limit.to_bytes(_LIMIT_BYTES, "big"), tuple(sorted(sample.rows.items())))
    return encode_message(message, what="a sample", bytes_max=2 * SAMPLE_BYTES_MAX, fix="shorten ids")


def decode_sample(data: bytes | None, *, name: str) -> Sample:
    """The sample in the root stored as object `name`, an empty one if it has none; raises CorruptionError."""
    if data is None:
        return Sample()
    message = decode_message(_DECODER, data, name=name)
    limit = int.from_bytes(message.limit, "big")
    if any(key_hash(key) >= limit for key, _ in message.rows):
        corrupt(name, "its sample holds documents that do not belong to it")
    return Sample(dict(message.rows), limit)


def _cut(rows: dict[bytes, bytes], limit: int) -> tuple[dict[bytes, bytes], int]:
    """Not more rows than a sample has: the one with the least hash that is left out is the new limit."""
    kept: dict[bytes, bytes] = {}
    size = 0
    for digest, key in sorted((key_hash(key), key) for key in rows):
        size += len(key) + len(rows[key])
        if len(kept) == SAMPLE_ROWS or size > SAMPLE_BYTES_MAX:
            return kept, digest
        kept[key] = rows[key]
    return kept, limit


def _shortened(document: bytes) -> bytes:
    """The document with long texts cut, nothing if it is too long even so."""
    if len(document) > SAMPLE_TEXT_CHARS:
        document = json.encode(_cut_texts(json.decode_document(document, name="a document of the sample")))
    return document if len(document) <= SAMPLE_DOCUMENT_BYTES_MAX else b""


def _cut_texts(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return value[:SAMPLE_TEXT_CHARS]
    if kind is list:
        return [_cut_texts(item) for item in value]
    if kind is dict:
        return {name: item if name == "_id" else _cut_texts(item) for name, item in value.items()}
    return value


def _batched(rows: Iterable[tuple[bytes, Row]]) -> Iterator[list[tuple[bytes, Row]]]:
    waiting = iter(rows)
    while some := list(islice(waiting, _ROWS_AT_ONCE)):
        yield some
