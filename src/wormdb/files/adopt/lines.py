"""Documents in files that only other programs write, packed or many in each: read once, before anything is judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import CorruptionError, InvalidRequestError, Problem
from wormdb.files.adopt.listing import DocumentLine, DocumentListing, Inventory, list_sources, sources_digest
from wormdb.files.contents.document import read_entity, read_line
from wormdb.files.contents.records import lines_of
from wormdb.files.contents.values import fault_text
from wormdb.format import json
from wormdb.format.key import encode_key
from wormdb.format.packed import unpack
from wormdb.format.segment import check_id
from wormdb.settings import FILE_BYTES_MAX, RECORDS_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.files.contents.names import FileNames
    from wormdb.format.kinds import Document
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import ObjectInfo, Store, StoredObject

__all__ = ["read_sources", "stored_in_order"]

_AT_ONCE: Final = 256


def read_sources(store: Store, pool: Pool, names: FileNames) -> Inventory:
    """What there is to adopt: a listing for each document, with what it holds.

    1 LIST for each 1,000 objects, and 1 GET for each file; all documents are in memory. A file that cannot be read, a
    line without a document and an id that another one has are problems. Raises LimitExceededError if all
    files together are too many to hold.
    """
    sources = list_sources(store, names)
    reading = _SourcesReading(names)
    bodies = stored_in_order(store, pool, [info for _, info in sources])
    for (identity, info), stored in zip(sources, bodies, strict=True):
        if stored is None:
            reading.problems.append(Problem(info.key, "it was there a moment ago, and is gone"))
        else:
            reading.read(info.key, identity, stored.body)
    return Inventory(
        sorted(reading.found.items(), key=lambda item: item[0]),
        sources_digest(sources),
        reading.problems,
        len(reading.problems),
        len(sources),
    )


def stored_in_order(store: Store, pool: Pool, objects: Sequence[ObjectInfo]) -> Iterator[StoredObject | None]:
    """The files in order; None for one that is gone. 1 GET each, few at once and not much more than a large one has."""
    waiting: list[str] = []
    size = 0
    for info in objects:
        if waiting and (len(waiting) == _AT_ONCE or size + info.size > FILE_BYTES_MAX):
            yield from store.get_many(waiting, pool)
            waiting, size = [], 0
        waiting.append(info.key)
        size += info.size
    if waiting:
        yield from store.get_many(waiting, pool)


@dataclass(slots=True)
class _SourcesReading:
    """What was found in the files so far."""

    names: FileNames
    found: dict[bytes, DocumentListing] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    room: int = RECORDS_BYTES_MAX

    def read(self, key: str, file: Any, body: bytes) -> None:
        """Take the documents of one file."""
        model = self.names.model
        try:
            content = unpack(body, key=key, limit=self.room)
        except CorruptionError as error:
            self.problems.append(Problem(key, fault_text(error), error.fix))
            return
        self.room -= len(content)
        if not model.path.holds_many:
            self._take(key, partial(read_entity, content, key=key, model=model, identity=file))
            return
        for line in lines_of(content):
            place = f"{key}:{line.number}"
            if line.problem:
                self.problems.append(Problem(place, line.problem))
                continue
            self._take(place, partial(read_line, line.text, line.number, key=key, model=model, file=file))

    def _take(self, place: str, read: Callable[[], tuple[Document, int | None]]) -> None:
        try:
            document, _ = read()
            check_id(document["_id"])
            encoded = json.encode_document(document)
        except (CorruptionError, InvalidRequestError) as error:
            self.problems.append(Problem(place, fault_text(error), error.fix))
            return
        identity = document["_id"]
        listed = DocumentListing(identity, line=DocumentLine(place, encoded), size=len(encoded))
        before = self.found.setdefault(encode_key(identity), listed)
        if before is not listed and before.line is not None:
            self.problems.append(Problem(place, f"its id {identity!r} is that of {before.line.place} too"))
