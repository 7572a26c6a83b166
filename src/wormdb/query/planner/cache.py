"""Which way was best for requests of one shape, so that the next one need not be planned from the start.

Kept are names and never values: the plan itself is built anew with the values and the facts of each request, so a
choice that is out of date costs time and never changes an answer.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

    from wormdb.engine.tree.definition import Index
    from wormdb.query.physical.question import Way
    from wormdb.query.plan import Cost, Rank, RejectedPlan
    from wormdb.query.planner.template import PlanTemplate
    from wormdb.query.sources.source import Facts

__all__ = ["PLANS_MAX", "PlanCache", "PlanChoice"]

PLANS_MAX: Final = 200
"""Shapes that are kept for a collection."""


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """The way that was chosen for a shape, and what was known then."""

    way: Way
    version: int
    indexes: tuple[Index, ...]
    is_simple: bool
    """Whether the filter could not be simplified."""
    is_plain: bool
    """Whether the plan could not be made cheaper."""
    entries: float
    """Entries of indexes that were expected to be read: with many more the choice is made again."""
    reason: str
    cost: Cost
    rejected: tuple[RejectedPlan, ...] = ()
    level: int = 0
    """How much was kept then (`Residency.level`)."""
    template: PlanTemplate | None = None
    """The plan without its values, if that is all it takes."""
    lists: Rank | None = None
    """The nearest of all documents by lists of an index: what is the same for every vector."""
    patience: int = 0
    """How often it is used before another way is tried that is cheaper once its index is kept; 0 for always."""

    def fits(self, facts: Facts) -> bool:
        """Whether it was made for this root and these indexes, and when about as much was kept as now."""
        return (
            self.version == facts.version and self.level == facts.kept.level and self.indexes == facts.index_definitions
        )


class PlanCache:
    """Choices by shape, those longest unused dropped first. Threads may share it."""

    def __init__(self, size: int = PLANS_MAX) -> None:
        """For at most `size` shapes; 0 keeps none."""
        self._size = size
        self._choices: OrderedDict[Hashable, PlanChoice] = OrderedDict()
        self._uses: dict[Hashable, int] = {}
        """How often choices with patience were used, by shape; one that does not fit any more leaves its count."""
        self._due: set[Hashable] = set()
        self._fresh: tuple[Facts | None, dict[Hashable, PlanChoice]] = (None, {})
        """The facts that were seen last, and choices that fitted them."""
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._choices)

    def find(self, key: Hashable, facts: Facts) -> PlanChoice | None:
        """The choice for a shape, if it fits; one that does not is dropped. No requests."""
        with self._lock:
            found = self._choices.get(key)
            if found is None:
                return None
            if not found.fits(facts):
                del self._choices[key]
                return None
            if found.patience:
                uses = self._uses[key] = self._uses.get(key, 0) + 1
                if uses > found.patience:
                    del self._choices[key], self._uses[key]
                    self._due.add(key)
                    return None
            self._choices.move_to_end(key)
            return found

    def find_fresh(self, key: Hashable, facts: Facts) -> PlanChoice | None:
        """As `find`, of a shape without patience; what is kept is not looked at again while facts are the same ones."""
        known, choices = self._fresh
        found = choices.get(key) if known is facts else None
        if found is None:
            found = self.find(key, facts)
            if found is not None:
                self._fresh = (
                    facts,
                    {**choices, key: found} if known is facts and len(choices) < self._size else {key: found},
                )
        return found

    def is_due(self, key: Hashable) -> bool:
        """Whether the last choice for a shape was used up, asked once. No requests."""
        with self._lock:
            is_due = key in self._due
            self._due.discard(key)
            return is_due

    def keep(self, key: Hashable, choice: PlanChoice) -> None:
        """Remember a choice. No requests."""
        with self._lock:
            self._choices[key] = choice
            self._choices.move_to_end(key)
            while len(self._choices) > self._size:
                gone, _ = self._choices.popitem(last=False)
                self._uses.pop(gone, None)
                self._due.discard(gone)

    def clear(self) -> None:
        """Forget everything. No requests."""
        with self._lock:
            self._choices.clear()
            self._fresh = None, {}
            self._uses.clear()
            self._due.clear()
