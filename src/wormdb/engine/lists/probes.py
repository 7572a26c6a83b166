"""Which lists of vectors are read for a share of the true answer: how many by a rule, or more if that was measured.

A measurement asks for what is stored. What will be asked for may lie elsewhere, so a rule that was measured on
questions that were not stored says how many lists are read at least.

Lists lie in an order in which near ones are side by side. Where the nearest are in many places, those between some of
them are taken instead of the farthest ones: that finds about as much, and a cold process reads it by few requests.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import ceil, sqrt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wormdb.format.list_run import Calibration

__all__ = ["RECALL", "count_probes", "count_ranges", "expect_recall", "share_needed", "share_read"]

RECALL: Final = 0.95
"""The share of the true answer that is found on average, if a query asks for no other."""
_PROBES: Final = 2.4
"""Lists that are read for RECALL, as a multiple of the root of their number: measured on embeddings of texts."""
_STEEPNESS: Final = 0.7
"""How the number of lists grows with the share that may be missed: also measured."""
_RANGES: Final = 16
"""Places in which the lists are that are read: as many ranges of an object as are asked for at once …"""
_RANGE_LISTS: Final = 4
"""… or one for this many lists, where these are more."""
_SURE: Final = 0.9995
"""From this share on all lists are read."""
_PARTS: Final = 10_000
_OVERSTATED: Final = 0.015
"""What a calibration overstates at most: it asks for vectors that are stored …"""
_OVERSTATED_SHARE: Final = 0.3
"""… and at most this part of what is missed: where little is, it overstates little."""


def count_probes(lists: int, recall: float | None, calibration: Calibration | None = None) -> int | None:
    """How many lists are read to find a share of the true answer; None for all. No requests."""
    wanted = RECALL if recall is None else recall
    if wanted >= _SURE:
        return None
    measured = 0
    if calibration is not None and calibration.points:
        lists, measured = calibration.lists, _find_probes(calibration, wanted)
    more: float = pow((1.0 - RECALL) / (1.0 - wanted), _STEEPNESS)
    probes = max(ceil(_PROBES * sqrt(lists) * more), measured)
    return None if probes >= lists else probes


def count_ranges(probes: int) -> int:
    """In how many places the lists are that are read. No requests."""
    return max(_RANGES, probes // _RANGE_LISTS)


def _find_probes(calibration: Calibration, wanted: float) -> int:
    """The least number of lists that is expected to find a share; between two that were measured as on a line."""
    aim = ceil((wanted + min(_OVERSTATED, _OVERSTATED_SHARE * (1.0 - wanted))) * _PARTS)
    points = calibration.points
    place = bisect_left(points, aim, key=lambda point: point[1])
    if place == 0:
        return points[0][0]
    if place == len(points):
        return calibration.lists
    (low, before, _), (high, after, _) = points[place - 1], points[place]
    return low + ceil((high - low) * (aim - before) / (after - before))


def expect_recall(probes: int | None, calibration: Calibration | None) -> float | None:
    """The share of the true answer that is expected of a number of lists; None if it was not measured. No requests."""
    if calibration is None or not calibration.points:
        return None
    if probes is None:
        return 1.0
    found = _between(calibration, probes, 1)
    return max(found - _OVERSTATED, (found - _OVERSTATED_SHARE) / (1.0 - _OVERSTATED_SHARE), 0.0)


def share_read(calibration: Calibration, recall: float | None = None) -> float:
    """The share of all vectors that a query reads to find a share of the true answer. No requests."""
    probes = count_probes(calibration.lists, recall, calibration)
    return 1.0 if probes is None else _between(calibration, probes, 2)


def share_needed(calibration: Calibration) -> float:
    """The share of all vectors that was measured to be enough for RECALL, if less than is read too. No requests.

    It tells how well lists fit the vectors.
    """
    return _between(calibration, _find_probes(calibration, RECALL), 2)


def _between(calibration: Calibration, probes: int, column: int) -> float:
    points = calibration.points
    place = bisect_right(points, probes, key=lambda point: point[0])
    if place in {0, len(points)}:
        return points[min(place, len(points) - 1)][column] / _PARTS
    low, high = points[place - 1], points[place]
    part = (probes - low[0]) / (high[0] - low[0])
    return (low[column] + (high[column] - low[column]) * part) / _PARTS
