"""Whether a built tree may become ready: no value on two documents, in the tree and in the log after it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.index.unique import keys_of
from wormdb.engine.state.view import View, id_key, merge_newest
from wormdb.engine.tree.entries import id_of, value_key_of
from wormdb.engine.tree.extract import extract
from wormdb.errors import ConflictError, InvalidRequestError, Problem
from wormdb.format import json
from wormdb.format.filter_run import key_hashes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.engine.index.shelf import IndexShelf
    from wormdb.engine.state.view import Held
    from wormdb.engine.tree.definition import Index
    from wormdb.engine.tree.tree import TreeReader
    from wormdb.format.node import Leaf
    from wormdb.format.root import Root
    from wormdb.system.types import LogNumber

__all__ = ["DUPLICATES_SHOWN", "DuplicateSearch", "Searched", "check_tail", "duplicate_problem", "owners_in"]

DUPLICATES_SHOWN: Final = 100
_IDS_SHOWN: Final = 10
_VALUE_CHARS_SHOWN: Final = 200
_LEAVES_AT_ONCE: Final = 16
_SLICE_DOCUMENTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search through a whole tree found."""

    duplicates: tuple[bytes, ...]
    """Keys of values that have several entries; the first hundred."""
    hashes: array[int]
    """`key_hash` of every value's key."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """One leaf that was searched: its first and last value, and those it has twice."""

    first: bytes
    last: bytes
    twice: tuple[bytes, ...]
    hashes: array[int]


@dataclass(frozen=True, slots=True)
class DuplicateSearch:
    """Searches one tree after another, and reads only what it has not seen before."""

    _seen: dict[bytes, _Seen] = field(default_factory=dict)

    def run(self, reader: TreeReader) -> Searched:
        """Search a tree. 1 GET for each node above the leaves, and for each leaf that is new to this search.

        Raises CorruptionError, SnapshotTooOldError.
        """
        refs = reader.leaf_refs()
        twice: dict[bytes, None] = {}
        hashes = array("Q")
        last: bytes | None = None
        known: dict[bytes, _Seen] = {}
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
        return Searched(tuple(islice(twice, DUPLICATES_SHOWN)), hashes)


def _look(leaf: Leaf) -> _Seen:
    values = list(map(value_key_of, zip(leaf.keys, leaf.values, strict=True)))
    twice = tuple(one for one, other in pairwise(values) if one == other)
    return _Seen(values[0], values[-1], twice, key_hashes(values))


def owners_in(reader: TreeReader, values: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    """The ids (as JSON) of all documents that have each of some values. Costs as `prefix_many`."""
    found = reader.prefix_many(values)
    return {value: [id_of(packed) for _, packed in entries] for value, entries in zip(values, found, strict=True)}


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
    touched: dict[bytes, Held] = {}
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


def _problems(index: Index, claims: Mapping[bytes, list[bytes]], touched: Mapping[bytes, Held]) -> list[Problem]:
    several = islice((key for key, owners in claims.items() if len(owners) > 1), DUPLICATES_SHOWN)
    # The last owner is one of the tail's, so its document is at hand.
    return [
        duplicate_problem(index, keys_of(index, touched[id_key(claims[key][-1])].document)[key], claims[key])
        for key in several
    ]


def _layers(view: View) -> tuple[list[Iterator[tuple[bytes, Held]]], LogNumber]:
    """What a view has after its root, and through which number the root goes.

    The view of a batch whose entry others share stands on another view.
    """
    attached = (one.base.scan() for one in view.overlay.attached(view.number))
    own = [iter(view.tail()), *(((key, view.shown(held)) for key, held in rows) for rows in attached)]
    if not isinstance(view.base, View):
        return own, view.base_number
    layers, begins = _layers(view.base)
    return [*own, *layers], begins
