"""One index: the documents of the entries in its ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.bql.tree import Everything
from wormdb.query.physical.fields import listed, paths_of
from wormdb.query.physical.finish import finish
from wormdb.query.physical.question import Candidate
from wormdb.query.plan import Empty, IndexScan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.query.physical.compound import Access
    from wormdb.query.physical.question import Question, Way

__all__ = ["covering", "propose"]


def propose(question: Question, names: Way = ()) -> Iterator[Candidate]:
    """A candidate for each access of each index, or only for the one named."""
    for access in question.accesses:
        way = (access.name, str(access.option))
        if names and names != way:
            continue
        scan = IndexScan(access.name, access.spans)
        root = finish(question, scan, access.covered) if access.spans else Empty()
        reason = covering(question, f"index {access.name}", access.covered)
        yield Candidate(("single", *way), "index_lookup", f"index {_label(access)}", reason, root)


def covering(question: Question, what: str, covered: frozenset[int]) -> str:
    """Why an access is good: for people."""
    left = question.conjunction.without(covered)
    if isinstance(left, Everything):
        return f"{what} covers filter"
    return f"{what} narrows, documents are tested for: {listed(paths_of(left))}"


def _label(access: Access) -> str:
    return f"{access.name} ({access.facts.index.label})"
