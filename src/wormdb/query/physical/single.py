"""One index: the documents of the entries in its ranges."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from wormdb.bql.tree import MatchAll
from wormdb.query.physical.finish import finish
from wormdb.query.physical.question import Candidate, listed, paths_of
from wormdb.query.plan import Empty, IndexScan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.query.physical.compound import Access
    from wormdb.query.physical.question import Question, Way

__all__ = ["covering", "propose"]


def propose(question: Question, names: Way = ()) -> Iterator[Candidate]:
    """A candidate for each access of each index, or only for the one named."""
    named = question.named(*names) if names else None
    for access in [named] if named is not None else () if names else question.accesses:
        scan = IndexScan(access.name, access.spans)
        root = finish(question, scan, access.covered) if access.spans else Empty()
        reason = partial(covering, question, f"index {access.name}", access.covered)
        way = ("single", access.name, str(access.option))
        yield Candidate(way, "index_lookup", f"index {_label(access)}", reason, root)


def covering(question: Question, what: str, covered: frozenset[int]) -> str:
    """Why an access is good: for people."""
    left = question.conjunction.without(covered)
    if isinstance(left, MatchAll):
        return f"{what} covers filter"
    return f"{what} narrows, documents are tested for: {listed(paths_of(left))}"


def _label(access: Access) -> str:
    return f"{access.name} ({access.facts.index.label})"
