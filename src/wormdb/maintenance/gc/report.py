"""What garbage collection says: which objects went, why, and how many bytes they were."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wormdb.settings import GC_SHOWN_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["GcReport", "GcResult", "Tally", "Victim", "VictimKind"]

VictimKind = Literal["block", "history", "node", "list", "blob", "entry", "other"]
"""A block of documents or history (with sidecars), a node of an index, a list of such, a blob, an entry of the log."""


@dataclass(frozen=True, slots=True)
class Victim:
    """One object that is not needed any more."""

    key: str
    kind: VictimKind
    reason: str
    """Why it may go, in words."""
    bytes: int
    """How large it is; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many objects of one kind, and their bytes."""

    objects: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GcResult:
    """What was removed from one collection, or would be."""

    collection: str
    """Its folder."""
    victims: tuple[Victim, ...]
    """In the order in which they went; of a kind that has very many only the first 1,000."""
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


@dataclass(slots=True)
class GcReport:
    """A report in the making."""

    collection: str
    is_dry: bool
    waiting: int = 0
    expired: list[str] = field(default_factory=list)
    _victims: list[Victim] = field(default_factory=list)
    _objects: Counter[VictimKind] = field(default_factory=Counter)
    _bytes: Counter[VictimKind] = field(default_factory=Counter)

    def add(self, victims: Iterable[Victim]) -> None:
        """Note what went."""
        for victim in victims:
            self._objects[victim.kind] += 1
            self._bytes[victim.kind] += victim.bytes
            if self._objects[victim.kind] <= GC_SHOWN_MAX:
                self._victims.append(victim)

    def collected(self) -> GcResult:
        """The report as a value."""
        kinds = {kind: Tally(self._objects[kind], self._bytes[kind]) for kind in sorted(self._objects)}
        return GcResult(self.collection, tuple(self._victims), kinds, self.is_dry, tuple(self.expired), self.waiting)
