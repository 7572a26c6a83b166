"""By columns: all that is asked out of them, or which documents are to be fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.bql.tree import conjunction
from wormdb.query.physical.finish import cut, ordered, tested
from wormdb.query.physical.identity import id_span
from wormdb.query.physical.question import Candidate, listed, paths_of, shown_by, sorted_by
from wormdb.query.physical.terms import bounds_of
from wormdb.query.plan import Fetch, Scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.query.physical.question import Question, Way
    from wormdb.query.plan import Node

__all__ = ["propose", "why_no_fetch", "why_no_scan"]

_NARROWS = ("narrows", "narrow")


def propose(question: Question, names: Way = ()) -> Iterator[Candidate]:
    """Columns alone, and columns that narrow what is fetched; or only the one named."""
    if names != ("fetch",) and (shown := _shown(question)) is not None and not _lacking(question):
        yield _alone(question, shown)
    if names != ("scan",) and why_no_fetch(question) is None:
        yield _fetching(question)


def why_no_scan(question: Question) -> str | None:
    """Why columns alone do not answer; None if they do."""
    lacking = _lacking(question)
    if lacking:
        return _without(question, lacking)
    return None if _shown(question) is not None else f"documents are needed for: {_wanted(question)}"


def why_no_fetch(question: Question) -> str | None:
    """Why columns do not narrow; None if they do."""
    if not question.conjunction.filters and not _unsorted(question):
        return None
    if any(paths_of(each) <= question.facts.columns for each in question.conjunction.filters):
        return None
    return _without(question, _lacking(question))


def _alone(question: Question, shown: frozenset[str]) -> Candidate:
    node = _scan(question, shown | paths_of(question.tree))
    root = cut(question, _in_order(question, tested(node, question.conjunction.without(id_span(question).covered))))
    needed = shown | paths_of(question.tree) | sorted_by(question.sort)
    fields = listed(needed)

    def reason() -> str:
        return f"{_name(question, needed)} all needed fields"

    return Candidate(("columns", "scan"), "manifest_scan", f"columns {fields or '_id'}", reason, root)


def _name(question: Question, fields: frozenset[str], has: str = "has", have: str = "have") -> str:
    """What tells some fields, with its verb: the manifest as it is configured, or columns that blocks have besides."""
    return f"manifest {has}" if question.facts.are_in_manifest(fields) else f"columns {have}"


def _fetching(question: Question) -> Candidate:
    columns, covered = question.facts.columns, id_span(question).covered
    here = [
        each
        for place, each in enumerate(question.conjunction.filters)
        if place not in covered and paths_of(each) <= columns
    ]
    there = [each for each in question.conjunction.filters if not paths_of(each) <= columns]
    fields = frozenset[str]().union(*map(paths_of, here))
    if there or _unsorted(question):
        # Rows are tested and ordered as documents.
        narrowed = tested(_narrow_scan(question, fields), conjunction(here))
        node = _in_order(question, tested(Fetch(narrowed), conjunction(there)))
        root = cut(question, node)
    else:
        root = Fetch(cut(question, _in_order(question, tested(_scan(question, fields), conjunction(here)))))

    def reason() -> str:
        what = _name(question, fields | (frozenset() if _unsorted(question) else sorted_by(question.sort)), *_NARROWS)
        return f"{what}, documents needed for: {_wanted(question, there)}"

    what = f"columns {listed(fields) or '_id'}, then documents"
    return Candidate(("columns", "fetch"), "manifest_fetch", what, reason, root)


def _scan(question: Question, fields: frozenset[str]) -> Scan:
    return _narrow_scan(question, fields | sorted_by(question.sort))


def _narrow_scan(question: Question, fields: frozenset[str]) -> Scan:
    names = ("_id", *sorted(fields - {"_id"}))
    return Scan(names, id_span(question).span, bounds_of(question.conjunction))


def _in_order(question: Question, node: Node) -> Node:
    return ordered(question, node) if question.sort.fields else node


def _shown(question: Question) -> frozenset[str] | None:
    if question.request.is_count:
        return frozenset()
    return shown_by(question.request.projection, question.facts.columns)


def _unsorted(question: Question) -> frozenset[str]:
    """The fields of the order that are no columns."""
    return sorted_by(question.sort) - question.facts.columns


def _lacking(question: Question) -> frozenset[str]:
    return (paths_of(question.tree) - question.facts.columns) | _unsorted(question)


def _without(question: Question, lacking: frozenset[str]) -> str:
    facts = question.facts
    if not facts.column_bytes:
        return "no manifest"
    if facts.manifest is not None and facts.are_in_manifest(lacking):
        return f"older blocks lack: {listed(lacking)}"
    return f"{'manifest lacks' if facts.manifest_fields else 'columns lack'}: {listed(lacking)}"


def _wanted(question: Question, there: object = ()) -> str:
    """What documents are needed for."""
    projection = question.request.projection
    lacking = shown_by(projection, question.facts.columns) is None
    fields = _lacking(question) if there or _unsorted(question) else frozenset[str]()
    if projection is None or not lacking:
        return listed(fields) or "all fields"
    from wormdb.bql.projection import fields_needed

    needed = fields_needed(projection)
    return listed(fields | (needed - question.facts.columns)) if needed else "all fields"
