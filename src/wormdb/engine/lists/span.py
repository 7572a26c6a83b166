"""Ranges of lists: what one piece of work joins of many runs, and how these are chosen.

Many runs of one index are joined in pieces that know nothing of each other: each reads the lists of its range in every
run, and writes the objects of that range. Together these are one run.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.format.list_part import Directory
    from wormdb.format.list_run import ListPart

__all__ = ["ALL_LISTS", "ListSpan", "cut_lists"]


class ListSpan(msgspec.Struct, frozen=True):
    """A range of lists: keys from `low` up to but not including `high`. A value that can be sent."""

    low: bytes = b""
    high: bytes | None = None

    def has(self, key: bytes) -> bool:
        """Whether a list is in it. No requests."""
        return self.low <= key and (self.high is None or key < self.high)

    def parts_of(self, parts: Sequence[ListPart]) -> Sequence[ListPart]:
        """Those objects of a run that may have lists of it. No requests."""
        begin = max(bisect_right(parts, self.low, key=_first_of) - 1, 0)
        end = len(parts) if self.high is None else bisect_left(parts, self.high, key=_first_of)
        return parts[begin:end]


def _first_of(part: ListPart) -> bytes:
    return part.first


ALL_LISTS: Final = ListSpan()


def cut_lists(directories: Iterable[Directory], size: int) -> list[ListSpan]:
    """Spans of all lists of some objects, each of about `size` stored bytes or of one list. No requests.

    They are the same for the same objects, in whatever order these come.
    """
    pages = sorted(
        (first, directory.starts[number + 1] - directory.starts[number])
        for directory in directories
        for number, first in enumerate(directory.firsts)
    )
    whole = sum(length for _, length in pages)
    share = whole / max(-(-whole // size), 1)
    cuts: list[bytes] = []
    waiting = 0
    for first, length in pages:
        if waiting + length > share and first > (cuts[-1] if cuts else pages[0][0]):
            cuts.append(first)
            waiting = 0
        waiting += length
    return [ListSpan(low, high) for low, high in zip([b"", *cuts], [*cuts, None], strict=True)]
