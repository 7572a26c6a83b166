"""Only a number: how many entries an index has in ranges, without reading what lies inside."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from wormdb.engine.tree.entries import Range
from wormdb.query.physical.question import Candidate
from wormdb.query.plan import Empty, IndexCount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.query.physical.question import Question, Way

__all__ = ["propose"]


def propose(question: Question, names: Way = ()) -> Iterator[Candidate]:
    """Indexes in whose ranges each matching document has one entry and no other document has any."""
    if not question.is_plain_count:
        return
    for name, option, spans in _countable(question):
        if not names or names == (name, option):
            root = IndexCount(name, spans) if spans else Empty()
            yield Candidate(
                ("counting", name, option), "index_lookup", f"count of index {name}", partial(_reason, name), root
            )


def _countable(question: Question) -> Iterator[tuple[str, str, tuple[Range, ...]]]:
    if not question.conjunction.filters:
        for facts in question.facts.indexes:
            if not facts.index.sparse and not any(facts.may_have_arrays):
                yield facts.index.name, "all", (Range(),)
    for access in question.accesses:
        if access.is_one_entry and len(access.covered) == len(question.conjunction.filters):
            yield access.name, str(access.option), access.spans


def _reason(name: str) -> str:
    return f"index {name} counts the rows"
