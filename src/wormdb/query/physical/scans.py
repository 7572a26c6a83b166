"""Scans: by columns alone, by columns that say which documents to fetch, and of every document."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from wormdb.bql.tree import conjunction
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.query.physical.question import (
    Candidate,
    add_order,
    add_part,
    add_residual,
    filter_paths,
    join_names,
    order_paths,
    shown_columns,
)
from wormdb.query.physical.terms import bounds_of
from wormdb.query.plan import Fetch, Node, Scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.query.physical.question import Question, Way

__all__ = ["propose_columns", "propose_documents", "why_no_fetch", "why_no_scan"]

_NARROWS = ("narrows", "narrow")


def propose_columns(question: Question, names: Way = ()) -> Iterator[Candidate]:
    """Columns alone, and columns that narrow what is fetched; or only the one named."""
    if names != ("fetch",) and (shown := _shown(question)) is not None and not _lacking(question):
        yield _alone(question, shown)
    if names != ("scan",) and why_no_fetch(question) is None:
        yield _fetching(question)


def propose_documents(question: Question, _: Way = ()) -> Iterator[Candidate]:
    """All documents, or those in a range of ids: always possible."""
    found = question.id_span
    node = add_residual(
        Scan(("_id", DOCUMENT), found.span, bounds_of(question.conjunction)),
        question.conjunction.without(found.covered),
    )
    root = add_part(question, _in_order(question, node))
    yield Candidate(("full",), "full_scan", "documents", partial(_why_documents, question), root)


def _why_documents(question: Question) -> str:
    return why_no_fetch(question) or "whole documents are needed of most rows"


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
    if any(filter_paths(each) <= question.facts.columns for each in question.conjunction.filters):
        return None
    return _without(question, _lacking(question))


def _alone(question: Question, shown: frozenset[str]) -> Candidate:
    node = _scan(question, shown | filter_paths(question.tree))
    root = add_part(
        question, _in_order(question, add_residual(node, question.conjunction.without(question.id_span.covered)))
    )
    needed = shown | filter_paths(question.tree) | order_paths(question.sort)
    fields = join_names(needed)

    def reason() -> str:
        return f"{_name(question, needed)} all needed fields"

    return Candidate(("columns", "scan"), "manifest_scan", f"columns {fields or '_id'}", reason, root)


def _name(question: Question, fields: frozenset[str], has: str = "has", have: str = "have") -> str:
    """What tells some fields, with its verb: the manifest as it is configured, or columns that blocks have besides."""
    return f"manifest {has}" if question.facts.are_in_manifest(fields) else f"columns {have}"


def _fetching(question: Question) -> Candidate:
    columns, covered = question.facts.columns, question.id_span.covered
    here = [
        each
        for place, each in enumerate(question.conjunction.filters)
        if place not in covered and filter_paths(each) <= columns
    ]
    there = [each for each in question.conjunction.filters if not filter_paths(each) <= columns]
    fields = frozenset[str]().union(*map(filter_paths, here))
    if there or _unsorted(question):
        # Rows are tested and ordered as documents.
        narrowed = add_residual(_narrow_scan(question, fields), conjunction(here))
        node = _in_order(question, add_residual(Fetch(narrowed), conjunction(there)))
        root = add_part(question, node)
    else:
        root = Fetch(add_part(question, _in_order(question, add_residual(_scan(question, fields), conjunction(here)))))

    def reason() -> str:
        what = _name(question, fields | (frozenset() if _unsorted(question) else order_paths(question.sort)), *_NARROWS)
        return f"{what}, documents needed for: {_wanted(question, there)}"

    what = f"columns {join_names(fields) or '_id'}, then documents"
    return Candidate(("columns", "fetch"), "manifest_fetch", what, reason, root)


def _scan(question: Question, fields: frozenset[str]) -> Scan:
    return _narrow_scan(question, fields | order_paths(question.sort))


def _narrow_scan(question: Question, fields: frozenset[str]) -> Scan:
    names = ("_id", *sorted(fields - {"_id"}))
    return Scan(names, question.id_span.span, bounds_of(question.conjunction))


def _in_order(question: Question, node: Node) -> Node:
    return add_order(question, node) if question.sort.fields else node


def _shown(question: Question) -> frozenset[str] | None:
    if question.request.is_count:
        return frozenset()
    return shown_columns(question.request.projection, question.facts.columns)


def _unsorted(question: Question) -> frozenset[str]:
    """The fields of the order that have no column."""
    return order_paths(question.sort) - question.facts.columns


def _lacking(question: Question) -> frozenset[str]:
    return (filter_paths(question.tree) - question.facts.columns) | _unsorted(question)


def _without(question: Question, lacking: frozenset[str]) -> str:
    facts = question.facts
    if not facts.column_bytes:
        return "no manifest"
    if facts.manifest is not None and facts.are_in_manifest(lacking):
        return f"older blocks lack: {join_names(lacking)}"
    return f"{'manifest lacks' if facts.manifest_fields else 'columns lack'}: {join_names(lacking)}"


def _wanted(question: Question, there: object = ()) -> str:
    """What documents are needed for."""
    projection = question.request.projection
    lacking = shown_columns(projection, question.facts.columns) is None
    fields = _lacking(question) if there or _unsorted(question) else frozenset[str]()
    if projection is None or not lacking:
        return join_names(fields) or "all fields"
    from wormdb.bql.projection import fields_needed

    needed = fields_needed(projection)
    return join_names(fields | (needed - question.facts.columns)) if needed else "all fields"
