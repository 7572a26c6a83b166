"""Choices that are the same every time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.system.clock import Chance

T = TypeVar("T")


class Dice:
    """Small numbers and elements of lists, from one source of chance."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance

    def below(self, count: int) -> int:
        """A number from 0 to count - 1."""
        return int(self._chance.fraction() * count)

    def one_of(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[self.below(len(items))]
