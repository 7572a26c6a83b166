"""Rows on their way through a plan, some at a time: known by their ids alone, by columns, or by whole documents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from wormdb.engine.blocks.portion import VERSION_TYPES, Portion
from wormdb.engine.state.view import StoredVersion
from wormdb.format import json
from wormdb.format.arrays import array_of
from wormdb.format.key import encode_keys

if TYPE_CHECKING:
    from wormdb.format.kinds import Document

__all__ = ["ColumnBatch", "DocumentBatch", "IdBatch", "KeyBatch", "ReadBatch", "RowBatch", "join_documents"]

T = TypeVar("T")


class KeyBatch(msgspec.Struct, frozen=True):
    """Rows of which only the keys of their ids are known."""

    keys: Sequence[bytes]
    is_sure: bool = True
    """Whether there is a document for each."""

    def __len__(self) -> int:
        return len(self.keys)

    def pick(self, rows: Sequence[int]) -> KeyBatch:
        """Rows by their numbers, in that order."""
        return KeyBatch(_at(self.keys, rows), self.is_sure)

    def cut(self, start: int, stop: int) -> KeyBatch:
        """Rows from `start` up to but not including `stop`."""
        if start == 0 and stop >= len(self.keys):
            return self
        return KeyBatch(self.keys[start:stop], self.is_sure)


_stored = attrgetter("document")


class DocumentBatch:
    """Rows with their whole documents, which are decoded when they are first looked at."""

    __slots__ = ("_documents", "helds", "keys")

    def __init__(
        self, keys: Sequence[bytes], documents: Sequence[Document] | None, helds: Sequence[StoredVersion] | None
    ) -> None:
        """`helds` is what is stored, None if versions were not asked for; `documents` may be None if there are some."""
        self.keys = keys
        self.helds = helds
        self._documents = documents

    @property
    def documents(self) -> Sequence[Document]:
        """The documents; raises CorruptionError."""
        documents = self._documents
        if documents is None:
            assert self.helds is not None, "there are documents, or what is stored"
            documents = json.decode_documents(map(_stored, self.helds), name="document")
            self._documents = documents
        return documents

    @property
    def is_decoded(self) -> bool:
        """Whether the documents were looked at."""
        return self._documents is not None

    def fields(self, names: Collection[str]) -> Sequence[Document]:
        """The documents, or what they have under some names; the rest is not decoded. Raises CorruptionError."""
        if self._documents is not None:
            return self._documents
        assert self.helds is not None, "there are documents, or what is stored"
        return [json.decode_fields(held.document or b"", names, name="document") for held in self.helds]

    def __len__(self) -> int:
        return len(self.keys)

    def pick(self, rows: Sequence[int]) -> DocumentBatch:
        """Rows by their numbers, in that order."""
        helds = None if self.helds is None else _at(self.helds, rows)
        documents = None if self._documents is None else _at(self._documents, rows)
        return DocumentBatch(_at(self.keys, rows), documents, helds)

    def cut(self, start: int, stop: int) -> DocumentBatch:
        """Rows from `start` up to but not including `stop`."""
        if start == 0 and stop >= len(self.keys):
            return self
        helds = None if self.helds is None else self.helds[start:stop]
        documents = None if self._documents is None else self._documents[start:stop]
        return DocumentBatch(self.keys[start:stop], documents, helds)


class IdBatch(DocumentBatch):
    """Ranked rows of which nothing but the id is shown: it is all that their documents have here."""

    __slots__ = ("ids", "scores")

    def __init__(self, ids: list[Any], scores: list[float]) -> None:
        """The ids as values, and how the rows were scored."""
        self.ids = ids
        self.scores = scores
        self.helds = None
        self._documents = None

    @property
    def keys(self) -> list[bytes]:  # type: ignore[override] # made when they are asked for, which few callers do
        """The keys of the ids."""
        return encode_keys(self.ids)

    @property
    def documents(self) -> list[Document]:
        """Documents that have their ids only."""
        return [{"_id": identity} for identity in self.ids]

    @property
    def is_decoded(self) -> bool:
        """As `DocumentBatch`."""
        return True

    def fields(self, names: Collection[str]) -> Sequence[Document]:  # noqa: ARG002 - there is one
        """As `DocumentBatch`."""
        return self.documents

    def __len__(self) -> int:
        return len(self.ids)

    def pick(self, rows: Sequence[int]) -> IdBatch:
        """As `DocumentBatch`."""
        return IdBatch(_at(self.ids, rows), _at(self.scores, rows))

    def cut(self, start: int, stop: int) -> IdBatch:
        """As `DocumentBatch`."""
        return self if start == 0 and stop >= len(self.ids) else IdBatch(self.ids[start:stop], self.scores[start:stop])


@dataclass(frozen=True, slots=True)
class ColumnBatch:
    """Rows of a portion, which has `_id`; perhaps with whole documents that are not decoded yet."""

    portion: Portion
    is_whole: bool
    """Whether every row has its document."""

    def __len__(self) -> int:
        return self.portion.rows

    @property
    def keys(self) -> list[bytes]:
        """The keys of the ids."""
        return encode_keys(self.portion.values("_id"))

    def pick(self, rows: Sequence[int]) -> ColumnBatch:
        """Rows by their numbers, in that order."""
        import pyarrow as pa

        return ColumnBatch(self.portion.take(array_of(rows, pa.int64())), self.is_whole)

    def cut(self, start: int, stop: int) -> ColumnBatch:
        """Rows from `start` up to but not including `stop`."""
        if start == 0 and stop >= self.portion.rows:
            return self
        return ColumnBatch(self.portion.slice(start, stop), self.is_whole)

    def covers(self, names: Iterable[str]) -> bool:
        """Whether there is a column for each of some paths."""
        return all(name in self.portion.types for name in names)

    def decoded(self) -> DocumentBatch:
        """The same rows with their documents; every row must have one."""
        texts = self.portion.documents()
        documents = json.decode_documents(texts, name="document")
        ids = [document["_id"] for document in documents]
        helds: list[StoredVersion] | None = None
        if self.portion.types.keys() >= VERSION_TYPES.keys():
            versions = self.portion.versions()
            helds = [
                StoredVersion(identity, rev, seq, text)
                for identity, (rev, seq), text in zip(json.encode_all(ids), versions, texts, strict=True)
            ]
        return DocumentBatch(encode_keys(ids), documents, helds)


ReadBatch: TypeAlias = DocumentBatch | ColumnBatch
"""Rows of which more is known than their ids."""

RowBatch: TypeAlias = KeyBatch | ReadBatch


def _at(items: Sequence[T], rows: Sequence[int]) -> list[T]:
    return [items[row] for row in rows]


def join_documents(batches: Sequence[DocumentBatch]) -> DocumentBatch:
    """The rows of several batches, one after the other."""
    if len(batches) == 1:
        return batches[0]
    keys = [key for batch in batches for key in batch.keys]
    helds = [held for batch in batches for held in batch.helds or ()]
    if len(helds) < len(keys):
        return DocumentBatch(keys, [document for batch in batches for document in batch.documents], None)
    if any(not batch.is_decoded for batch in batches):
        return DocumentBatch(keys, None, helds)
    return DocumentBatch(keys, [document for batch in batches for document in batch.documents], helds)
