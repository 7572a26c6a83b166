"""Several indexes at once: the ids that all of them have."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Final

from wormdb.query.physical.finish import finish
from wormdb.query.physical.question import Candidate
from wormdb.query.physical.single import covering
from wormdb.query.physical.union import loose
from wormdb.query.plan import Empty, IndexScan, Intersection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.query.physical.compound import Access
    from wormdb.query.physical.question import Question, Way

__all__ = ["propose"]

_INDEXES_MAX: Final = 4
"""Of the best so many all pairs are tried, and all of them together."""


def propose(question: Question, names: Way = ()) -> Iterator[Candidate]:
    """Pairs of the best indexes that each answer something else, and all of these; or only those named."""
    for chosen in _named(question, names) if names else _chosen(question):
        way = ("intersection", *(part for access in chosen for part in (access.name, str(access.option))))
        covered = frozenset[int]().union(*(access.covered for access in chosen))
        scans = tuple(IndexScan(access.name, access.spans) for access in chosen)
        root = finish(question, Intersection(scans), covered) if all(scan.spans for scan in scans) else Empty()
        label = " and ".join(f"index {access.name}" for access in chosen)
        yield Candidate(way, "index_lookup", label, partial(covering, question, label, covered), root)


def _named(question: Question, names: Way) -> Iterator[Sequence[Access]]:
    found = [question.named(*each) for each in zip(names[::2], names[1::2], strict=True)]
    known = [access for access in found if access is not None]
    if len(known) == len(found):
        yield known


def _chosen(question: Question) -> Iterator[Sequence[Access]]:
    best = sorted(question.accesses, key=loose)[:_INDEXES_MAX]
    yield from (pair for pair in combinations(best, 2) if _are_different(pair))
    apart: list[Access] = []
    for access in best:
        if all(_are_different((access, other)) for other in apart):
            apart.append(access)
    if len(apart) > 2:
        yield apart


def _are_different(pair: Sequence[Access]) -> bool:
    """Whether each of the two answers something that the other one does not."""
    one, other = pair
    if one.name == other.name:
        return one.option != other.option
    return not one.used & other.used
