"""What tests of lists share: kinds that are easy to foresee, and what an index of theirs should have."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wormdb.engine.lists.definition import list_index
from wormdb.engine.lists.kind import KINDS
from wormdb.engine.state.view import id_key
from wormdb.errors import InvalidRequestError
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.engine.lists.kind import Lister
    from wormdb.engine.lists.read import ListReader
    from wormdb.format.kinds import Document

__all__ = ["BUCKETS", "LOOSE", "WORDS", "BucketKind", "WordKind", "expected_lists", "shown_lists", "with_kinds"]


@dataclass(frozen=True)
class WordKind:
    """A list for each word of a field, with how often it is there: a document is in many lists."""

    field: str = "text"
    is_shared: bool = True
    name = "words"
    columns: tuple[int, ...] | None = (1, 2)
    is_packed = True

    @property
    def options(self) -> Mapping[str, Any]:
        return {"field": self.field, "shared": self.is_shared, "columns": self.columns}

    @property
    def fields(self) -> tuple[str, ...]:
        return (self.field,)

    def check(self, document: Document) -> None:
        text = document.get(self.field)
        if text is not None and not isinstance(text, str):
            raise InvalidRequestError(f"document {document['_id']!r}", reason=f"{self.field} must be a string")

    def words(self, document: Document) -> Counter[str]:
        self.check(document)
        return Counter((document.get(self.field) or "").split())

    def lister(self, trained: bytes | None) -> Lister:
        def lists(documents: Sequence[Document]) -> list[Mapping[bytes, bytes]]:
            return [self._lists(document) for document in documents]

        return lists

    def _lists(self, document: Document) -> Mapping[bytes, bytes]:
        found = self.words(document)
        total = sum(found.values())
        if self.columns is None:
            return {word.encode(): b"x" * count for word, count in found.items()}
        return {word.encode(): bytes((count,)) + total.to_bytes(2, "little") for word, count in found.items()}

    def tally(self, document: Document) -> tuple[int, ...]:
        return (1, sum(self.words(document).values()))

    def sample_size(self, documents: int) -> int:
        return 0

    def train(self, sample: Sequence[Document], documents: int) -> bytes | None:
        raise AssertionError("words need no training")


@dataclass(frozen=True)
class BucketKind:
    """One list for a number, by the trained bounds: a document is in one list at most."""

    field: str = "n"
    name = "buckets"
    columns: tuple[int, ...] | None = (4,)
    is_shared = False
    is_packed = False

    @property
    def options(self) -> Mapping[str, Any]:
        return {"field": self.field}

    @property
    def fields(self) -> tuple[str, ...]:
        return (self.field,)

    def check(self, document: Document) -> None:
        value = document.get(self.field)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31):
            raise InvalidRequestError(f"document {document['_id']!r}", reason=f"{self.field} must be a small integer")

    def lister(self, trained: bytes | None) -> Lister:
        bounds = [int(text) for text in trained.split()] if trained else []

        def lists(documents: Sequence[Document]) -> list[Mapping[bytes, bytes]]:
            found: list[Mapping[bytes, bytes]] = []
            for document in documents:
                self.check(document)
                value = document.get(self.field)
                place = 0 if value is None else sum(bound <= value for bound in bounds)
                found.append({} if value is None else {b"%04d" % place: value.to_bytes(4, "little")})
            return found

        return lists

    def tally(self, document: Document) -> tuple[int, ...]:
        return (int(document.get(self.field) is not None),)

    def sample_size(self, documents: int) -> int:
        return documents // 2

    def train(self, sample: Sequence[Document], documents: int) -> bytes | None:
        values = sorted({value for document in sample if isinstance(value := document.get(self.field), int)})
        return b" ".join(b"%d" % value for value in values[::3]) or None


WORDS = list_index("byWord", WordKind())
LOOSE = list_index("byLoose", WordKind(is_shared=False, columns=None))
BUCKETS = list_index("byBucket", BucketKind())


def with_kinds() -> None:
    """Let the engine know these kinds, as a release does that has them."""
    KINDS["words"] = lambda options: WordKind(
        options["field"], options["shared"], None if options["columns"] is None else tuple(options["columns"])
    )
    KINDS["buckets"] = lambda options: BucketKind(options["field"])


def expected_lists(
    kind: WordKind | BucketKind, trained: bytes | None, documents: Mapping[Any, dict[str, Any]]
) -> dict[bytes, dict[bytes, bytes]]:
    """What the lists of these documents are: by list and id, each found by itself."""
    made: dict[bytes, dict[bytes, bytes]] = {}
    for identity, values in documents.items():
        (found,) = kind.lister(trained)([{"_id": identity, **values}])
        for key, payload in found.items():
            made.setdefault(key, {})[json.encode(identity)] = payload
    return made


def shown_lists(reader: ListReader, *, with_tail: bool = True) -> dict[bytes, dict[bytes, bytes]]:
    """What a reader shows, tail included; every entry once."""
    made: dict[bytes, dict[bytes, bytes]] = {}
    for key, runs in reader.read_range(b"").items():
        for found in runs:
            for place, identity in enumerate(reader.all_ids(found)):
                if place in found.hidden or (with_tail and id_key(identity) in reader.touched):
                    continue
                own = made.setdefault(key, {})
                assert identity not in own, f"{identity!r} is twice in {key!r}"
                own[identity] = found.entries.payload(place)
    documents = [json.decode_document(held.document or b"", name="tail") for held in reader.tail if with_tail]
    for document, lists in zip(documents, reader.kind.lister(reader.trained())(documents), strict=True):
        for key, payload in lists.items():
            made.setdefault(key, {})[json.encode(document["_id"])] = payload
    return made


def ids_of(found: Mapping[bytes, Mapping[bytes, bytes]]) -> Iterator[bytes]:
    for own in found.values():
        yield from own
