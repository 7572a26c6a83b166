"""Conflicts of an import, record by record: with documents that are there, and of records with each other.

Records are imported as if nothing were wrong. Only if something is, they are read again: the first pass tells hashes of
all ids and unique values, those that come more than once are looked for by a second one, and in the order of records
the first has what it has.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from wormdb.engine.bulk.report import pack_hashes, unpack_hashes
from wormdb.engine.bulk.task import violation
from wormdb.engine.index.unique import UniqueOwners
from wormdb.engine.state.view import id_key
from wormdb.engine.tree.extract import extract
from wormdb.errors import AlreadyExistsError, InvalidRequestError, WormError
from wormdb.format import json
from wormdb.format.membership import key_hashes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.engine.bulk.report import ConflictRule, JobLedger
    from wormdb.engine.state.view import View
    from wormdb.engine.tree.definition import Index
    from wormdb.jobs.import_intake import New

__all__ = ["Fate", "Losers", "Standing", "Suspect", "losers_of", "pack_keys", "repeated", "suspects_of", "taken"]

Fate = Literal["ignored"]
"""Of a record whose id exists, by the rule."""
Keys: TypeAlias = list[tuple[str, bytes]]
"""Of a record: "" and its id, names of unique indexes and its values there."""
Losers: TypeAlias = Mapping[int, tuple[str, bytes]]
"""Which records of a piece another one is preferred to, and the key that both have."""
_ID: Final = ""
_FIX: Final = "replace or ignore such records"


class Suspect(msgspec.Struct, frozen=True, array_like=True):
    """A record that has a key which may be another's too."""

    place: int
    keys: Keys


@dataclass(slots=True)
class Standing:
    """What is there already, as a task sees it. Not thread-safe."""

    ledger: JobLedger
    view: View
    rule: ConflictRule
    _owners: dict[str, UniqueOwners] = field(default_factory=dict)

    def keys(self, news: Sequence[New]) -> list[Keys | WormError | Fate]:
        """The keys of each record, or what is wrong with it. Costs as `View.get_many` and `UniqueOwners.owners`."""
        known = [None if new.insert.fresh else id_key(new.insert.id) for new in news]
        wanted = sorted({key for key in known if key is not None})
        held = self.view.get_many(wanted) if wanted and self.view.number else {}
        found: list[Keys | WormError | Fate] = []
        for new, key in zip(news, known, strict=True):
            there = None if key is None else held.get(key)
            if there is not None and there.document is not None:
                found.append("ignored" if self.rule == "ignore" else taken(new, _ID))
            else:
                found.append([] if key is None else [(_ID, key)])
        for index in self.view.definition.indexes.ready:
            self._add_index(index, news, found)
        return found

    def _add_index(self, index: Index, news: Sequence[New], found: list[Keys | WormError | Fate]) -> None:
        """Add the keys of an index to those of each record; of those that are taken say so."""
        own: dict[int, Sequence[bytes]] = {}
        for place, new in enumerate(news):
            if isinstance(found[place], list):
                try:
                    (own[place],) = extract(index, [new.insert.id], [new.insert.document]).keys
                except InvalidRequestError as error:
                    found[place] = error
        if not index.unique or not own:
            return
        if index.name not in self._owners:
            self._owners[index.name] = UniqueOwners.of(index, self.view, self.ledger.trees)
        owners = self._owners[index.name].owners(dict.fromkeys(chain.from_iterable(own.values())))
        for place, keys in own.items():
            owned = next(((key, owner) for key in keys if (owner := owners[key]) is not None), None)
            kept = found[place]
            if owned is not None:
                found[place] = violation(self.view, index, *owned)
            elif isinstance(kept, list):
                kept += [(index.name, key) for key in keys]


def taken(new: New, name: str) -> AlreadyExistsError:
    """What is said of a record whose id, or value of an index, is another's. No requests."""
    if name:
        return AlreadyExistsError("record", reason=f"an earlier record has the same value of the unique index {name}")
    identity = json.decode(new.insert.id, name="document id")
    return AlreadyExistsError("record", reason=f"the id {identity!r:.100} exists already", fix=_FIX)


# --- between pieces ---


def pack_keys(keys: Iterable[tuple[str, bytes]]) -> bytes:
    """Hashes of keys, to be sent. No requests."""
    return pack_hashes(array("Q", _hashes(keys)))


def repeated(packed: Iterable[bytes]) -> frozenset[int]:
    """The hashes that come more than once. No requests."""
    import pyarrow as pa
    import pyarrow.compute as pc

    hashes = array("Q")
    for one in packed:
        hashes.extend(unpack_hashes(one))
    numbers = pa.Array.from_buffers(pa.uint64(), len(hashes), [None, pa.py_buffer(hashes)])
    ordered = numbers.take(pc.sort_indices(numbers))
    later = ordered.slice(1)
    return (
        frozenset(later.filter(pc.equal(later, ordered.slice(0, len(later)))).to_pylist())
        if len(later)
        else frozenset()
    )


def suspects_of(news: Sequence[New], keys: Sequence[Keys | WormError | Fate], hashes: frozenset[int]) -> list[Suspect]:
    """The records among some with a key whose hash is among `hashes`. No requests."""
    found = []
    for new, own in zip(news, keys, strict=True):
        if isinstance(own, list):
            chosen = [key for key, digest in zip(own, _hashes(own), strict=True) if digest in hashes]
            if chosen:
                found.append(Suspect(new.place, chosen))
    return found


def losers_of(pieces: Iterable[Sequence[Suspect]]) -> list[Losers]:
    """Of each piece, the records that come after another one with the same key. No requests."""
    claimed: set[tuple[str, bytes]] = set()
    found: list[Losers] = []
    for suspects in pieces:
        losers: dict[int, tuple[str, bytes]] = {}
        for suspect in suspects:
            clash = next((key for key in suspect.keys if key in claimed), None)
            if clash is None:
                claimed.update(suspect.keys)
            else:
                losers[suspect.place] = clash
        found.append(losers)
    return found


def _hashes(keys: Iterable[tuple[str, bytes]]) -> Sequence[int]:
    return key_hashes([b"%b\0%b" % (name.encode(), key) for name, key in keys])
