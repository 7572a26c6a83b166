"""What a collection holds at a log number: a base that does not move, and what came after it.

`Overlay` keeps every version since the base, by log number, and only ever grows; so a `View` is two
references and a number, costs nothing to make, and never changes under its reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from wormdb.format import json
from wormdb.format.key import encode_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wormdb.engine.definition import Definition
    from wormdb.engine.place import Place
    from wormdb.format.entry import Entry
    from wormdb.types import LogNumber

__all__ = ["Base", "EmptyBase", "Held", "Overlay", "View", "id_key"]


def id_key(identity: bytes) -> bytes:
    """The order-preserving key of an id given as extended JSON: equal ids have equal keys."""
    return encode_key(json.decode(identity, name="document id"))


@dataclass(frozen=True, slots=True)
class Held:
    """What is under one id: the document's JSON, or None after a delete; `seq` lives on.

    `trash` is the tombstone with the document, as JSON, while it can be restored.
    """

    id: bytes
    rev: int
    seq: int
    document: bytes | None
    trash: bytes | None = None


class Base(Protocol):
    """The state through one log number, from the root's objects."""

    def get(self, key: bytes) -> Held | None:
        """What is under an id's key; None if nothing ever was."""
        ...

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, Held]]:
        """Everything with a key from `low` up to but not including `high`, deleted ids too, in order of key."""
        ...

    @property
    def place(self) -> Place | None:
        """The root and where its objects are; None if there is no root."""
        ...


class EmptyBase:
    """The base of a collection without a root."""

    def get(self, key: bytes) -> Held | None:  # noqa: ARG002 - nothing is there
        """Nothing."""
        return None

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, Held]]:  # noqa: ARG002 - nothing is there
        """Nothing."""
        return iter(())

    @property
    def place(self) -> None:
        """There is no root."""
        return


class Overlay:
    """Every version since the base. Entries are applied whole, in order, by one thread at a time."""

    def __init__(self) -> None:
        """Empty: nothing came after the base."""
        self._versions: dict[bytes, list[Held]] = {}

    def hold(self, changed: Mapping[bytes, Held]) -> None:
        """Have one version of each of these keys, whatever was there."""
        self._versions.update((key, [held]) for key, held in changed.items())

    def apply(self, entry: Entry) -> list[tuple[bytes, Held]]:
        """Add one entry; returns what it left under each key, in order."""
        left = []
        for batch in entry.batches:
            for change in batch.changes:
                key = id_key(change.id)
                held = Held(change.id, entry.number, change.seq, change.after, change.trash)
                self._versions.setdefault(key, []).append(held)
                left.append((key, held))
        return left

    def since(self, number: LogNumber) -> Overlay:
        """A new overlay with only what came after `number`."""
        newer = Overlay()
        for key, versions in self._versions.items():
            kept = [held for held in versions if held.rev > number]
            if kept:
                newer._versions[key] = kept
        return newer

    def get(self, key: bytes, number: LogNumber) -> Held | None:
        """The newest version at or before `number`; None if the overlay has none."""
        for held in reversed(self._versions.get(key, ())):
            if held.rev <= number:
                return held
        return None

    def scan(self, number: LogNumber) -> list[tuple[bytes, Held]]:
        """The newest version of every key touched up to `number`, in order of key."""
        found = ((key, self.get(key, number)) for key in list(self._versions))
        return sorted((key, held) for key, held in found if held is not None)


@dataclass(frozen=True, slots=True)
class View:
    """One state of a collection that does not move."""

    number: LogNumber
    definition: Definition
    base: Base
    base_number: LogNumber
    """Through which log number the base goes; the overlay has everything after it."""
    overlay: Overlay
    count: int
    """How many documents there are."""

    def get(self, key: bytes) -> Held | None:
        """What is under an id's key, deleted or not; None if nothing ever was."""
        return self.overlay.get(key, self.number) or self.base.get(key)

    def scan(self) -> Iterator[tuple[bytes, Held]]:
        """Every id ever used, in order of key: base and overlay merged."""
        above = iter(self.overlay.scan(self.number))
        newer = next(above, None)
        for key, held in self.base.scan():
            while newer is not None and newer[0] < key:
                yield newer
                newer = next(above, None)
            if newer is not None and newer[0] == key:
                yield newer
                newer = next(above, None)
            else:
                yield key, held
        if newer is not None:
            yield newer
            yield from above
