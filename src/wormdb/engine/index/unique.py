"""Who owns which value of a unique index, at the head of the log.

What the tail claims is kept in memory, on top of the tree in the root. A document that the tail touched has what the
tail says it has and nothing else, so what the tree says of it does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.engine.state.view import id_key, merge_newest
from wormdb.engine.tree.definition import claims_of
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.engine.index.shelf import IndexShelf, OwnerTree
    from wormdb.engine.state.view import Held, View
    from wormdb.engine.tree.definition import Index
    from wormdb.format.entry import Change, Entry

__all__ = ["UniqueOwners", "keys_of"]


def keys_of(index: Index, document: bytes | None) -> dict[bytes, Any]:
    """The keys a document (as JSON) claims in an index, each with the value to show in an error.

    A missing or null value claims nothing, unless the index is `sparse: false`. An array claims each of its elements.
    Raises InvalidRequestError if two fields of the index are arrays, LimitExceededError for a key that is too long.
    """
    return {} if document is None else claims_of(index, json.decode_document(document, name="document"))


class UniqueOwners:
    """One index: key → the id (as JSON) of the document that has it. Not thread-safe: used under the head's lock."""

    def __init__(self, index: Index, tree: OwnerTree | None = None) -> None:
        """What `tree` says; without one nobody owns anything. No requests."""
        self.index = index
        self._tree = tree
        self._claims: dict[bytes, bytes] = {}
        self._touched: set[bytes] = set()

    @classmethod
    def of(cls, index: Index, view: View, shelf: IndexShelf) -> UniqueOwners:
        """At the state of a view. No requests if the root has a tree of the index and no blocks were attached since.

        Otherwise blocks are scanned: those that were attached, or all of them if there is no tree.
        """
        place = view.place
        tree = None if place is None or view.outdates(index) else shelf.owner_tree(place.root, index)
        if tree is None:
            return cls.build(index, (held for _, held in view.scan()))
        owners = cls(index, tree)
        attached = [one.base.scan() for one in view.overlay.attached(view.number)]
        for key, held in merge_newest([iter(view.overlay.scan(view.number)), *attached]):
            owners._touched.add(key)
            owners._claim(held.id, held.document)
        return owners

    @classmethod
    def build(cls, index: Index, documents: Iterable[Held]) -> UniqueOwners:
        """From every document of a state."""
        owners = cls(index)
        for held in documents:
            owners._claim(held.id, held.document)
        return owners

    def owner(self, key: bytes) -> bytes | None:
        """The id (as JSON) of whoever has this key now; costs as `owners`."""
        return self.owners((key,))[key]

    def owners(self, keys: Iterable[bytes]) -> dict[bytes, bytes | None]:
        """The id (as JSON) of whoever has each of some keys now; None if nobody has.

        Keys of the tail and keys that the filter denies cost nothing; the others 1 GET for each node of the tree
        that is not held, one round trip a level. Raises CorruptionError, SnapshotTooOldError.
        """
        found: dict[bytes, bytes | None] = {key: self._claims.get(key) for key in keys}
        if self._tree is not None:
            stored = self._tree.owners(key for key, owner in found.items() if owner is None)
            found.update((key, owner) for key, owner in stored.items() if id_key(owner) not in self._touched)
        return found

    def apply(self, entry: Entry) -> None:
        """Take in an entry: first everything given up, then everything claimed. No requests.

        What an entry attaches as blocks is not in it: after such an entry, and on another root, make new owners.
        """
        before: dict[bytes, bytes | None] = {}
        after: dict[bytes, Change] = {}
        for batch in entry.batches:
            for change in batch.changes:
                # Only what a document began and ended with counts: in passing it may have had another's value.
                before.setdefault(id_key(change.id), change.before)
                after[id_key(change.id)] = change
        for name, document in before.items():
            for key in keys_of(self.index, document):
                owner = self._claims.get(key)
                if owner is not None and id_key(owner) == name:
                    del self._claims[key]
        self._touched.update(after)
        for change in after.values():
            self._claim(change.id, change.after)

    def _claim(self, identity: bytes, document: bytes | None) -> None:
        for key in keys_of(self.index, document):
            self._claims[key] = identity
