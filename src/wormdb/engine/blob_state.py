"""Which blobs are condemned at a log number: their keys are never written, nor referred to, again.

An entry condemns a key that no document refers to; only then is the object deleted, perhaps much later by somebody who
slept. So a key that was condemned stays so for ever, and the same content is written under another one: with the number
of the entry that condemned it. The root names condemned keys until their entries are trimmed; from then on
`floor`, the newest of these numbers, stands for all of them: a key with a suffix below it that nobody owns is not
to be used again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wormdb.format.blob import BlobKey
from wormdb.format.event import BlobCondemned
from wormdb.format.root import Condemned
from wormdb.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wormdb.format.event import Event
    from wormdb.format.root import Root

__all__ = ["NO_BLOBS", "BlobStates"]


@dataclass(frozen=True, slots=True)
class BlobStates:
    """The condemned keys, each with the entry that condemned it. A value: events make new ones."""

    condemned: Mapping[BlobKey, LogNumber] = field(default_factory=dict)
    floor: int = 0

    @classmethod
    def of_root(cls, root: Root) -> BlobStates:
        """As a root has them."""
        if not root.condemned and not root.blob_floor:
            return NO_BLOBS
        known = {BlobKey(one.sha256.hex(), one.suffix): LogNumber(one.number) for one in root.condemned}
        return cls(known, root.blob_floor)

    def after(self, events: Iterable[Event], number: LogNumber) -> BlobStates:
        """What the events of entry `number` make of them: the same object if nothing."""
        told = [BlobKey(each.sha256.hex(), each.suffix) for each in events if isinstance(each, BlobCondemned)]
        added = {key: number for key in told if key not in self.condemned}
        return BlobStates({**self.condemned, **added}, self.floor) if added else self

    def kept(self, trimmed: int) -> dict[str, object]:
        """The fields of a root whose log is trimmed through `trimmed`: what was condemned by then is forgotten."""
        kept = sorted((key, number) for key, number in self.condemned.items() if number > trimmed)
        forgotten = [number for number in self.condemned.values() if number <= trimmed]
        return {
            "condemned": tuple(
                Condemned(sha256=bytes.fromhex(key.sha256), suffix=key.suffix, number=number) for key, number in kept
            ),
            "blob_floor": max(self.floor, *forgotten) if forgotten else self.floor,
        }

    def fresh(self, sha256: str) -> BlobKey:
        """The key under which content is written that nobody owns: never one that was condemned, known or forgotten."""
        numbers = (number for key, number in self.condemned.items() if key.sha256 == sha256)
        return BlobKey(sha256, max(self.floor, *numbers, 0))

    def is_usable(self, key: BlobKey) -> bool | None:
        """Whether a document may begin to refer to a key; None if only an owner can tell: what is owned is not gone."""
        if key in self.condemned:
            return False
        return True if key.suffix >= self.floor else None


NO_BLOBS = BlobStates()
