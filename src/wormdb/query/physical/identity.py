"""By id: a few keys of ids, or the range of ids in which a scan finds all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wormdb.engine.tree.entries import Range
from wormdb.query.physical.finish import finish
from wormdb.query.physical.keys import common_keys, intersected
from wormdb.query.physical.question import Candidate
from wormdb.query.plan import ALL_IDS, IdLookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.query.physical.keys import Keys
    from wormdb.query.physical.question import Question, Way
    from wormdb.query.physical.terms import Conjunction, Term

__all__ = ["IdSpan", "id_lookup", "id_span", "propose"]

COMPLEMENT: Final = bytes(range(255, -1, -1))


@dataclass(frozen=True, slots=True)
class IdSpan:
    """A range of keys of ids that has all rows, and the filters that hold for all of it."""

    span: Range
    covered: frozenset[int]


def propose(question: Question, _: Way = ()) -> Iterator[Candidate]:
    """The documents of the ids that the filter names."""
    found = id_lookup(question.conjunction)
    if found is not None:
        lookup, covered = found
        root = finish(question, lookup, covered)
        yield Candidate(("identity",), "index_lookup", "ids", lambda: "the filter names ids", root)


def id_lookup(conjunction: Conjunction) -> tuple[IdLookup, frozenset[int]] | None:
    """The ids that a conjunction names, and the filters that hold for them; None if it names none. No requests."""
    keys = _keys(conjunction)
    if keys is None or not keys.are_points:
        return None
    return IdLookup(tuple([span.low for span in keys.ranges])), _covered(conjunction)


def id_span(question: Question) -> IdSpan:
    """Where a scan has to look. No requests."""
    keys = _keys(question.conjunction)
    span, covered = ALL_IDS, frozenset[int]()
    if keys is not None and keys.ranges:
        span = Range(keys.ranges[0].low, keys.ranges[-1].high)
        covered = _covered(question.conjunction) if len(keys.ranges) == 1 else covered
    after = question.request.after
    if after is not None and question.is_whole_id:
        rest = Range(high=after.translate(COMPLEMENT)) if question.is_reverse else Range(after)
        span = next(iter(intersected((span,), (rest,))), Range(b"", b""))
    return IdSpan(span, covered)


def _keys(conjunction: Conjunction) -> Keys | None:
    """An id is one value, so all conditions on it narrow together."""
    keys = [term.keys for term in _terms(conjunction)]
    return common_keys(keys) if keys else None


def _covered(conjunction: Conjunction) -> frozenset[int]:
    return conjunction.covered(term for term in _terms(conjunction) if term.is_exact(has_arrays=False))


def _terms(conjunction: Conjunction) -> list[Term]:
    """What is asked of the id as a whole."""
    return [term for term in conjunction.by_field.get("_id", ()) if not term.keys.is_for_elements]
