"""Files of another program as a source of queries: columns out of the manifest, documents out of their files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from wormdb.engine.blocks.portion import DOCUMENT, VERSION, Portion
from wormdb.engine.columns.fetch import ColumnRequest
from wormdb.engine.columns.sources import portion_of_rows
from wormdb.files.foreign.files import ContradictionError, Entity, ForeignFiles
from wormdb.files.foreign.rows import DamagedRowsError, ManifestRows
from wormdb.format.columns import ColumnSpec
from wormdb.format.key import encode_key
from wormdb.query.plan import ALL_IDS
from wormdb.query.sources.source import Entries, Facts

if TYPE_CHECKING:
    from wormdb.engine.state.view import StoredVersion
    from wormdb.engine.tree.entries import Range

__all__ = ["FileSource", "Witness", "wanted_of"]

Witness: TypeAlias = Callable[[bytes, "StoredVersion | None"], str | None]
"""Holds what was fetched under a key to what led there; says what contradicts it, None if nothing does."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """The files as one query sees them, with what a plan may use of them."""

    files: ForeignFiles
    facts: Facts = field(default_factory=Facts)
    """As `QuerySource`."""
    rows: ManifestRows | None = None
    """The manifest, where the plan reads columns."""
    ids: Mapping[bytes, Any] | None = None
    """By key the ids that the plan fetches by, where they are known."""
    witness: Witness | None = None
    are_rows_documents: bool = False
    """Whether the manifest tells all that is asked of documents: its rows are taken for them."""

    def scan(
        self,
        names: Sequence[str],
        *,
        span: Range = ALL_IDS,
        bounds: Mapping[str, Range] | None = None,  # noqa: ARG002 - there are no zone maps
        in_order: bool = True,  # noqa: ARG002 - it always is
        rows: int | None = None,
    ) -> Iterator[Portion]:
        """As `QuerySource`. No requests for columns; for documents 1 LIST for each 1,000 keys, and 1 GET each."""
        if self.rows is not None and (DOCUMENT not in names or self.are_rows_documents):
            try:
                return iter([self.rows.portion(names, span)])
            except DamagedRowsError as error:
                raise ContradictionError(f"manifest is stale: {error}") from error
        return self._documents(names, span, rows)

    def _documents(self, names: Sequence[str], span: Range, rows: int | None) -> Iterator[Portion]:
        wanted = wanted_of(names)
        for helds in self._read(span, rows):
            if helds:
                yield portion_of_rows(helds, wanted)

    def documents(self, span: Range) -> Iterator[StoredVersion]:
        """The documents whose ids are in a range, in order of id. Costs as a scan of documents."""
        return chain.from_iterable(self._read(span, None))

    def _read(self, span: Range, rows: int | None) -> Iterator[Sequence[StoredVersion]]:
        listing = self.files.listing()
        for twin in listing.twins:
            self.files.entities.broken(twin, "another file has the same id")
        chosen = [
            entity for key, entity in listing.keys.items() if span.low <= key and (span.high is None or key < span.high)
        ]
        return self.files.entities.stream(chosen, rows)

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        """As `QuerySource`. 1 GET each, and 1 more for an id with two forms; raises ContradictionError."""
        found = dict(zip(keys, self.files.folder.pool.map(self._fetched, keys), strict=True))
        for key, held in found.items():
            if self.witness is not None and (reason := self.witness(key, held)) is not None:
                raise ContradictionError(reason)
        return {key: held for key, held in found.items() if held is not None}

    def _fetched(self, key: bytes) -> StoredVersion | None:
        identity = _text_of(key) if self.ids is None else self.ids.get(key)
        if identity is None or self.files.folder.model.path.holds_many:
            # An id that is not a string has several forms: only a listing tells which one is there.
            entity = self.files.listing().keys.get(key)
            return None if entity is None else self.files.entities.read(entity)
        for place in self.files.folder.keys_of(identity):
            held = self.files.entities.read(Entity(identity, place))
            if held is not None or place in self.files.entities.skipped:
                return held
        return None

    def entries(self, name: str) -> Entries:
        """As `QuerySource`; there are none: an index file is read before there is a plan."""
        raise KeyError(name)


def wanted_of(names: Sequence[str]) -> ColumnRequest:
    """The columns of these names, made of documents."""
    paths = [name for name in dict.fromkeys(names) if name not in ("_id", DOCUMENT, VERSION)]
    return ColumnRequest(
        {path: ColumnSpec(path) for path in paths},
        with_ids="_id" in names,
        with_documents=DOCUMENT in names,
        with_versions=VERSION in names,
    )


def _text_of(key: bytes) -> str | None:
    """The id that has a key, if it is text; None if it is not, or not plainly so."""
    try:
        text = key[1:-1].decode()
    except UnicodeDecodeError:
        return None
    return text if text and encode_key(text) == key else None
