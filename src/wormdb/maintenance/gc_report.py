"""What garbage collection says: which objects went, why, and how many bytes they were."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

__all__ = ["Collected", "Tally", "Victim", "VictimKind", "tallied"]

VictimKind = Literal["block", "history", "node", "list", "blob", "entry", "temporary", "other"]
"""Of documents (with sidecars), of history (with sidecars), of an index, a list, a blob, of the log, of a writer."""


@dataclass(frozen=True, slots=True)
class Victim:
    """One object that nobody needs any more."""

    key: str
    kind: VictimKind
    reason: str
    """Why it may go, in words."""
    bytes: int
    """How large it is; 0 if nobody looked."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many objects of one kind, and their bytes."""

    objects: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Collected:
    """What was removed from one collection, or would be."""

    collection: str
    """Its folder."""
    victims: tuple[Victim, ...]
    """In the order in which they went; of very many only the first are listed."""
    kinds: dict[VictimKind, Tally]
    """How many there were of each kind, those that are not listed included."""
    is_dry: bool = False
    """Whether nothing was removed: these would be."""
    expired: tuple[str, ...] = ()
    """Jobs that were open for too long: an entry of the log says that they are over."""
    waiting: int = 0
    """Objects that no root names any more and that stay until their time is over."""

    @property
    def objects(self) -> int:
        """How many went."""
        return sum(tally.objects for tally in self.kinds.values())

    @property
    def bytes(self) -> int:
        """How large they were together."""
        return sum(tally.bytes for tally in self.kinds.values())


def tallied(victims: tuple[Victim, ...]) -> dict[VictimKind, Tally]:
    """How many there are of each kind, and their bytes. No requests."""
    objects: Counter[VictimKind] = Counter()
    sizes: Counter[VictimKind] = Counter()
    for victim in victims:
        objects[victim.kind] += 1
        sizes[victim.kind] += victim.bytes
    return {kind: Tally(objects[kind], sizes[kind]) for kind in sorted(objects)}
