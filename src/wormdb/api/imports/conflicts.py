"""Conflicts of an import, record by record: with documents that are there, and of records with each other.

Records are imported as if nothing were wrong. Only if something is, they are read again: the first pass tells hashes of
all ids and unique values, a second one finds the records whose keys come more than once. Of these the earliest keeps
its id and its values; with the rule `replace` the last record of an id counts, and the values of what it replaces are
free.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import msgspec

from wormdb.engine.bulk.report import ConflictRule, JobLedger, pack_hashes, unpack_hashes
from wormdb.engine.bulk.task import violation
from wormdb.engine.commit.operations import InsertNext
from wormdb.engine.index.unique import UniqueOwners
from wormdb.engine.lists.definition import check_lists
from wormdb.engine.state.view import StoredVersion, View, id_key
from wormdb.engine.tree.extract import extract
from wormdb.errors import AlreadyExistsError, InvalidRequestError, WormError
from wormdb.format import json
from wormdb.format.membership import key_hashes

if TYPE_CHECKING:
    from wormdb.api.imports.intake import New
    from wormdb.engine.tree.definition import Index

__all__ = [
    "Claims",
    "Fate",
    "KeyClash",
    "Losers",
    "Standing",
    "Suspect",
    "losers_of",
    "pack_keys",
    "repeated",
    "suspects_of",
]

Fate = Literal["ignored"]
"""Of a record whose id exists, by the rule."""
Key: TypeAlias = tuple[str, bytes]
"""An id, named "", or a value of the unique index of that name."""
_ID: Final = ""
_FIX: Final = "replace or ignore such records"
_NUMBERED: Final = b'""'
"""For an index, instead of the id that the commit gives."""


class Claims(NamedTuple):
    """What a record takes."""

    keys: list[Key]
    contested: list[tuple[str, bytes, bytes]]
    """Values that a document has now, with its id: free if a record replaces that document."""


class Suspect(msgspec.Struct, frozen=True, array_like=True):
    """A record that has a key which may be another's too."""

    place: int
    keys: list[Key]
    contested: list[tuple[str, bytes, bytes]] = []
    shown: str = ""
    """Where it is, for people; empty if that is not known."""


class KeyClash(msgspec.Struct, frozen=True, array_like=True):
    """Why a record is left out: the key that another one has, and which."""

    name: str
    key: bytes
    other: str = ""
    """Where the other record is; empty if that is not known, or a document has it."""


Losers: TypeAlias = Mapping[int, KeyClash]
"""The records of a piece that are left out, by their places."""


@dataclass(slots=True)
class Standing:
    """What is there already, as an import sees it. Not thread-safe."""

    ledger: JobLedger
    view: View
    rule: ConflictRule
    held: dict[bytes, StoredVersion] = field(default_factory=dict)
    """What there is under the ids of the records that were looked at last."""
    _owners: dict[str, UniqueOwners] = field(default_factory=dict)

    def claims(self, news: Sequence[New], *, with_values: bool = True) -> list[Claims | WormError | Fate]:
        """What each record takes, or what is wrong with it; without values only ids are looked at.

        Costs as `View.get_many` and `UniqueOwners.owners`.
        """
        known = [_known_key(new) for new in news]
        wanted = sorted({key for key in known if key is not None})
        self.held = self.view.get_many(wanted) if wanted and self.view.number else {}
        found: list[Claims | WormError | Fate] = []
        for new, key in zip(news, known, strict=True):
            there = None if key is None else self.held.get(key)
            if there is None or there.document is None or self.rule == "replace":
                found.append(Claims([] if key is None else [(_ID, key)], []))
            else:
                found.append("ignored" if self.rule == "ignore" else _taken(new, KeyClash(_ID, there.id)))
        for index in self.view.definition.indexes.ready if with_values else ():
            self._add_index(index, news, found)
        if with_values and self.view.definition.indexes.lists:
            self._check_lists(news, found)
        return found

    def _check_lists(self, news: Sequence[New], found: list[Claims | WormError | Fate]) -> None:
        """Say of which records indexes of lists cannot take the document."""
        for place, new in enumerate(news):
            if isinstance(found[place], Claims):
                try:
                    document = json.decode_document(new.insert.document, name="document")
                    check_lists(self.view.definition.indexes.lists, [document])
                except InvalidRequestError as error:
                    found[place] = error

    def _add_index(self, index: Index, news: Sequence[New], found: list[Claims | WormError | Fate]) -> None:
        """Add the keys of an index to those of each record; of those that are taken say so."""
        own: dict[int, Sequence[bytes]] = {}
        for place, new in enumerate(news):
            if isinstance(found[place], Claims):
                try:
                    (own[place],) = extract(index, [_identity(new)], [new.insert.document]).keys
                except InvalidRequestError as error:
                    found[place] = error
        if not index.unique or not own:
            return
        if index.name not in self._owners:
            self._owners[index.name] = UniqueOwners.of(index, self.view, self.ledger.trees)
        owners = self._owners[index.name].owners(dict.fromkeys(chain.from_iterable(own.values())))
        for place, keys in own.items():
            claims = found[place]
            assert isinstance(claims, Claims), "only these have keys"
            owned = [(key, owner) for key in keys if (owner := owners[key]) is not None]
            others = [(key, owner) for key, owner in owned if owner != _identity(news[place])]
            if others and self.rule != "replace":
                found[place] = violation(self.view, index, *others[0])
                continue
            claims.keys.extend((index.name, key) for key in keys)
            claims.contested.extend((index.name, key, owner) for key, owner in others)

    def lost(self, new: New, claims: Claims, loss: KeyClash) -> AlreadyExistsError:
        """What is said of a record that is left out. Costs as `violation` if a document has its value."""
        for name, key, owner in claims.contested:
            if (name, key) == (loss.name, loss.key) and not loss.other:
                (index,) = (each for each in self.view.definition.indexes.ready if each.name == name)
                return violation(self.view, index, key, owner)
        return _taken(new, loss)


def _known_key(new: New) -> bytes | None:
    """The key of an id that may exist; None for one that cannot."""
    insert = new.insert
    return None if isinstance(insert, InsertNext) or insert.fresh else id_key(insert.id)


def _identity(new: New) -> bytes:
    return _NUMBERED if isinstance(new.insert, InsertNext) else new.insert.id


def _taken(new: New, loss: KeyClash) -> AlreadyExistsError:
    """What is said of a record whose id, or value of an index, is another's."""
    where = f": {loss.other.removesuffix(f' of {new.file}')} has it" if loss.other else ""
    if loss.name:
        reason = f"an earlier record has the same value of the unique index {loss.name}{where}"
        return AlreadyExistsError("record", reason=reason)
    identity = json.decode(_identity(new), name="document id")
    return AlreadyExistsError("record", reason=f"the id {identity!r:.100} exists already{where}", fix=_FIX)


# --- between records ---


def pack_keys(found: Iterable[Claims]) -> bytes:
    """Hashes of keys, to be sent. No requests."""
    return pack_hashes(array("Q", _hashes(chain.from_iterable(map(_told, found)))))


def _told(claims: Claims) -> Iterator[Key]:
    """The keys of a record; those that are contested twice, so that who has them is found, and the owner's."""
    yield from claims.keys
    for name, key, owner in claims.contested:
        yield from ((name, key), (_ID, id_key(owner)))


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


def suspects_of(
    news: Sequence[New], found: Sequence[Claims | WormError | Fate], hashes: frozenset[int] | None = None
) -> list[Suspect]:
    """The records among some with a key whose hash is among `hashes`; without them all. No requests."""
    suspects = []
    for new, claims in zip(news, found, strict=True):
        if isinstance(claims, Claims):
            chosen = claims.keys
            if hashes is not None:
                chosen = [key for key, digest in zip(chosen, _hashes(chosen), strict=True) if digest in hashes]
            if chosen:
                suspects.append(Suspect(new.place, chosen, claims.contested, new.shown))
    return suspects


def losers_of(pieces: Iterable[Sequence[Suspect]], rule: ConflictRule) -> list[Losers]:
    """Of each piece, the records that are left out because of others. No requests."""
    return _replacing_losers(list(pieces)) if rule == "replace" else _later_losers(pieces)


def _later_losers(pieces: Iterable[Sequence[Suspect]]) -> list[Losers]:
    """Those that come after another one with the same key."""
    claimed: dict[Key, str] = {}
    found: list[Losers] = []
    for suspects in pieces:
        losers: dict[int, KeyClash] = {}
        for suspect in suspects:
            clash = next((key for key in suspect.keys if key in claimed), None)
            if clash is None:
                claimed.update(dict.fromkeys(suspect.keys, suspect.shown))
            else:
                losers[suspect.place] = KeyClash(*clash, claimed[clash])
        found.append(losers)
    return found


def _replacing_losers(pieces: Sequence[Sequence[Suspect]]) -> list[Losers]:
    """Those that take a value which a document keeps, or an earlier record has; the last record of an id counts.

    Records before that one lose their id to it.
    """
    suspects = [suspect for piece in pieces for suspect in piece]
    ids = [next((key for name, key in each.keys if name == _ID), None) for each in suspects]
    lost: dict[int, KeyClash] = {}
    while True:
        last = {key: place for place, key in enumerate(ids) if key is not None and place not in lost}
        active = [place for place, key in enumerate(ids) if place not in lost and (key is None or last[key] == place)]
        more = _kept_by_documents(suspects, active, last) or _had_before(suspects, active)
        if not more:
            break
        lost.update(more)
    for place, key in enumerate(ids):
        if key is not None and place not in lost and last[key] != place:
            lost[place] = KeyClash(_ID, key)
    places = iter(range(len(suspects)))
    return [{each.place: lost[at] for each in piece if (at := next(places)) in lost} for piece in pieces]


def _kept_by_documents(
    suspects: Sequence[Suspect], active: Sequence[int], last: Mapping[bytes, int]
) -> dict[int, KeyClash]:
    found: dict[int, KeyClash] = {}
    for place in active:
        for name, key, owner in suspects[place].contested:
            replacing = last.get(id_key(owner))
            if replacing is None or (name, key) in suspects[replacing].keys:
                found[place] = KeyClash(name, key)
                break
    return found


def _had_before(suspects: Sequence[Suspect], active: Sequence[int]) -> dict[int, KeyClash]:
    claimed: dict[Key, int] = {}
    found: dict[int, KeyClash] = {}
    for place in active:
        values = [key for key in suspects[place].keys if key[0] != _ID]
        clash = next((key for key in values if key in claimed), None)
        if clash is None:
            claimed.update(dict.fromkeys(values, place))
        else:
            found[place] = KeyClash(*clash, suspects[claimed[clash]].shown)
    return found


def _hashes(keys: Iterable[Key]) -> Sequence[int]:
    return key_hashes([b"%b\0%b" % (name.encode(), key) for name, key in keys])
