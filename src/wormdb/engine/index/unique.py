"""The owners of values in a unique index, at the head of the log.

What the tail claims is kept in memory, on top of the tree in the root. A document that the tail touched has what the
tail says it has and nothing else, so what the tree says of it does not count.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.state.view import View, id_key, merge_newest
from wormdb.engine.tree.definition import claims_of
from wormdb.engine.tree.entries import value_key_of
from wormdb.engine.tree.extract import extract
from wormdb.errors import ConflictError, InvalidRequestError, Problem
from wormdb.format import json
from wormdb.format.membership import key_hashes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wormdb.engine.index.shelf import IndexShelf, OwnerTree
    from wormdb.engine.state.view import StoredVersion
    from wormdb.engine.tree.definition import Index
    from wormdb.engine.tree.tree import TreeReader
    from wormdb.format.entry import Entry, LoggedChange
    from wormdb.format.node import Leaf
    from wormdb.format.root import Root
    from wormdb.system.types import LogNumber

__all__ = [
    "DUPLICATES_SHOWN",
    "DuplicateSearch",
    "SearchResult",
    "UniqueOwners",
    "check_tail",
    "duplicate_problem",
    "keys_of",
    "owners_in",
]


def keys_of(index: Index, document: bytes | None) -> dict[bytes, Any]:
    """The keys a document (as JSON) claims in an index, each with the value to show in an error.

    A missing or null value claims nothing, unless the index is `sparse: false`. An array claims each of its elements.
    Raises InvalidRequestError if two fields of the index are arrays, LimitExceededError for a key that is too long.
    """
    return {} if document is None else claims_of(index, json.decode_document(document, name="document"))


class UniqueOwners:
    """One index: key → the id (as JSON) of the document that has it. Not thread-safe: used under the head's lock."""

    def __init__(self, index: Index, tree: OwnerTree | None = None) -> None:
        """What `tree` says; without one there are no owners. No requests."""
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
    def build(cls, index: Index, documents: Iterable[StoredVersion]) -> UniqueOwners:
        """From every document of a state."""
        owners = cls(index)
        for held in documents:
            owners._claim(held.id, held.document)
        return owners

    def owner(self, key: bytes) -> bytes | None:
        """The id (as JSON) of the document that has this key now; costs as `owners`."""
        return self.owners((key,))[key]

    def owners(self, keys: Iterable[bytes]) -> dict[bytes, bytes | None]:
        """The ids (as JSON) of the documents that have some keys now; None where no document has.

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
        self.take([change for batch in entry.batches for change in batch.changes])

    def take(self, changes: Iterable[LoggedChange]) -> None:
        """Take in the changes of one batch or entry, as `apply`."""
        before: dict[bytes, bytes | None] = {}
        after: dict[bytes, LoggedChange] = {}
        for change in changes:
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


# --- Whether a built tree may become ready: no value on two documents, in the tree and in the log after it.

DUPLICATES_SHOWN: Final = 100
_IDS_SHOWN: Final = 10
_VALUE_CHARS_SHOWN: Final = 200
_LEAVES_AT_ONCE: Final = 16
_SLICE_DOCUMENTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search through a whole tree found."""

    duplicates: tuple[bytes, ...]
    """Keys of values that have several entries; the first hundred."""
    hashes: array[int]
    """`key_hash` of every value's key."""


@dataclass(frozen=True, slots=True)
class _LeafValues:
    """One leaf that was searched: its first and last value, and those it has twice."""

    first: bytes
    last: bytes
    twice: tuple[bytes, ...]
    hashes: array[int]


@dataclass(frozen=True, slots=True)
class DuplicateSearch:
    """Searches one tree after another, and reads only what it has not seen before."""

    _seen: dict[bytes, _LeafValues] = field(default_factory=dict)

    def run(self, reader: TreeReader) -> SearchResult:
        """Search a tree. 1 GET for each node above the leaves, and for each leaf that is new to this search.

        Raises CorruptionError, SnapshotTooOldError.
        """
        refs = reader.leaf_refs()
        twice: dict[bytes, None] = {}
        hashes = array("Q")
        last: bytes | None = None
        known: dict[bytes, _LeafValues] = {}
        while some := list(islice(refs, _LEAVES_AT_ONCE)):
            new = [ref for ref in some if ref.sha256 not in self._seen]
            for ref, leaf in zip(new, reader.nodes.leaves(new), strict=True):
                self._seen[ref.sha256] = _look(leaf)
            for ref in some:
                seen = known[ref.sha256] = self._seen[ref.sha256]
                twice |= dict.fromkeys((*([last] if last == seen.first else ()), *seen.twice))
                last = seen.last
                hashes.extend(seen.hashes)
        self._seen.clear()
        self._seen.update(known)
        return SearchResult(tuple(islice(twice, DUPLICATES_SHOWN)), hashes)


def _look(leaf: Leaf) -> _LeafValues:
    values = list(map(value_key_of, zip(leaf.keys, leaf.values, strict=True)))
    twice = tuple(one for one, other in pairwise(values) if one == other)
    return _LeafValues(values[0], values[-1], twice, key_hashes(values))


def owners_in(reader: TreeReader, values: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    """The ids (as JSON) of all documents that have each of some values. Costs as `prefix_many`."""
    found = reader.prefix_many(values)
    return {value: [identity for _, identity in entries] for value, entries in zip(values, found, strict=True)}


def duplicate_problem(index: Index, value: Any, owners: Sequence[bytes]) -> Problem:
    """One value that several documents have; `owners` are their ids as JSON."""
    shown = repr(value)
    shown = shown if len(shown) <= _VALUE_CHARS_SHOWN else shown[:_VALUE_CHARS_SHOWN] + "…"
    names = ", ".join(repr(json.decode(identity, name="document id")) for identity in owners[:_IDS_SHOWN])
    return Problem(f"indexes.{index.name}", f"{index.label}={shown} is on {len(owners)} documents: {names}")


def check_tail(index: Index, view: View, root: Root, shelf: IndexShelf) -> None:
    """Check what a view has after a root whose tree is whole and was searched.

    Raises InvalidRequestError for documents that the index cannot take, listing the first hundred duplicates, and
    ConflictError if the root below the view is not that old: the tree of a newer one must be searched first. For
    a unique index 1 GET for each node that the keys of the tail reach.
    """
    layers, begins = _layers(view)
    if not begins <= root.applied <= view.number:
        raise ConflictError(f"index {index.name}", reason="the root was brought forward while its tree was searched")
    touched: dict[bytes, StoredVersion] = {}
    claims: dict[bytes, list[bytes]] = {}
    tail = merge_newest(layers)
    while some := list(islice(tail, _SLICE_DOCUMENTS)):
        touched.update(some)
        held = [one for _, one in some]
        keys = extract(index, [one.id for one in held], [one.document for one in held]).keys
        for one, own in zip(held, keys, strict=True):
            for key in own:
                claims.setdefault(key, []).append(one.id)
    if not index.unique:
        return
    tree = shelf.owner_tree(root, index)
    assert tree is not None, "the tree was searched"
    for key, owner in tree.owners(claims).items():
        if id_key(owner) not in touched:
            claims[key].insert(0, owner)
    problems = _problems(index, claims, touched)
    if problems:
        raise InvalidRequestError(f"index {index.name}", problems=problems, fix="make the values different first")


def _problems(
    index: Index, claims: Mapping[bytes, list[bytes]], touched: Mapping[bytes, StoredVersion]
) -> list[Problem]:
    several = islice((key for key, owners in claims.items() if len(owners) > 1), DUPLICATES_SHOWN)
    # The last owner is one of the tail's, so its document is at hand.
    return [
        duplicate_problem(index, keys_of(index, touched[id_key(claims[key][-1])].document)[key], claims[key])
        for key in several
    ]


def _layers(view: View) -> tuple[list[Iterator[tuple[bytes, StoredVersion]]], LogNumber]:
    """What a view has after its root, and through which number the root goes.

    The view of a batch whose entry others share stands on another view.
    """
    attached = (one.base.scan() for one in view.overlay.attached(view.number))
    own = [iter(view.tail()), *(((key, view.shown(held)) for key, held in rows) for rows in attached)]
    if not isinstance(view.base, View):
        return own, view.base_number
    layers, begins = _layers(view.base)
    return [*own, *layers], begins
