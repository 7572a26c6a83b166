"""Who owns which value of a unique index, at the head of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.engine.state import id_key
from wormdb.format import json
from wormdb.index.definition import claims_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.engine.state import Held
    from wormdb.format.entry import Change, Entry
    from wormdb.index.definition import Index

__all__ = ["UniqueKeys", "keys_of"]


def keys_of(index: Index, document: bytes | None) -> dict[bytes, Any]:
    """The keys a document (as JSON) claims in an index, each with the value to show in an error.

    A missing or null value claims nothing, unless the index is `sparse: false`. An array claims each of its elements.
    Raises InvalidRequestError if two fields of the index are arrays, LimitExceededError for a key that is too long.
    """
    return {} if document is None else claims_of(index, json.decode_document(document, name="document"))


class UniqueKeys:
    """One index: key → the id (as JSON) of the document that has it."""

    def __init__(self, index: Index) -> None:
        """Nobody owns anything."""
        self.index = index
        self._owners: dict[bytes, bytes] = {}

    @classmethod
    def build(cls, index: Index, documents: Iterable[Held]) -> UniqueKeys:
        """From every document of a state."""
        keys = cls(index)
        for held in documents:
            for key in keys_of(index, held.document):
                keys._owners[key] = held.id
        return keys

    def owner(self, key: bytes) -> bytes | None:
        """The id (as JSON) of whoever has this key now."""
        return self._owners.get(key)

    def apply(self, entry: Entry) -> None:
        """Take in an entry: first everything given up, then everything claimed."""
        before: dict[bytes, bytes | None] = {}
        after: dict[bytes, Change] = {}
        for batch in entry.batches:
            for change in batch.changes:
                # Only what a document began and ended with counts: in passing it may have had another's value.
                before.setdefault(id_key(change.id), change.before)
                after[id_key(change.id)] = change
        for name, document in before.items():
            for key in keys_of(self.index, document):
                owner = self._owners.get(key)
                if owner is not None and id_key(owner) == name:
                    del self._owners[key]
        for change in after.values():
            for key in keys_of(self.index, change.after):
                self._owners[key] = change.id
