"""Every document: always possible."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.query.physical.columns import why_no_fetch
from wormdb.query.physical.finish import cut, ordered, tested
from wormdb.query.physical.identity import id_span
from wormdb.query.physical.question import Candidate
from wormdb.query.physical.terms import bounds_of
from wormdb.query.plan import Scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.query.physical.question import Question, Way

__all__ = ["propose"]


def propose(question: Question, _: Way = ()) -> Iterator[Candidate]:
    """All documents, or those in a range of ids."""
    found = id_span(question)
    node = tested(
        Scan(("_id", DOCUMENT), found.span, bounds_of(question.conjunction)),
        question.conjunction.without(found.covered),
    )
    root = cut(question, ordered(question, node) if question.sort.fields else node)
    yield Candidate(("full",), "full_scan", "documents", partial(_reason, question), root)


def _reason(question: Question) -> str:
    return why_no_fetch(question) or "whole documents are needed of most rows"
