"""What chance decides in a simulated run, by its seed alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wormdb.system.clock import Chance

__all__ = ["Draws"]


class Draws:
    """A world that draws: its `chance` comes from the seed."""

    chance: Chance

    def between(self, low: float, high: float) -> float:
        """A number between two."""
        return low + (high - low) * self.chance.fraction()

    def likely(self, probability: float) -> bool:
        """True with this probability."""
        return self.chance.fraction() < probability

    def pick(self, *choices: str) -> str:
        """One of several."""
        return choices[int(self.chance.fraction() * len(choices))]
