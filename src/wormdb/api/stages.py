"""Aggregations by stages, as MongoDB spells them: the query of the first ones, and what the others make of its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wormdb.api.document import SelectedRow, with_id
from wormdb.api.options import check_query
from wormdb.api.read import LogState, QueryRun, tell_aggregated
from wormdb.bql.aggregation import parse_aggregation
from wormdb.bql.stages import ScoredRow, WrittenStages, parse_stages, run_stages
from wormdb.errors import InvalidRequestError, NotFoundError
from wormdb.format import json
from wormdb.schema.problems import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wormdb.api.access import Access
    from wormdb.bql.nearest import Near
    from wormdb.bql.row_stages import GroupTally

__all__ = ["aggregate_stages"]


def aggregate_stages(
    access: Access[Any], written: WrittenStages, options: Mapping[str, Any], others: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The rows that stages make. Costs what the query of the first ones costs. Raises as `Collection.aggregate`.

    `others` are arguments that do not go with stages.
    """
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise InvalidRequestError(
            f"an aggregation of {access.name}",
            reason=f"stages and {given[0]} together",
            fix="write $match, or leave it out",
        )
    staged = parse_stages(written)
    near = {} if staged.near is None else {"near": staged.near}
    run = QueryRun(access, check_query(access, staged.filter, {**options, **staged.options, **near}))
    if staged.near is not None and staged.index is not None:
        chosen = _by_index(run, staged.index)
        run = QueryRun(access, replace(run.query, request=replace(run.query.request, near=chosen)), run.state)
    rows = _tallied(run, staged.tally) if staged.tally else (ScoredRow(hit.document, hit.score) for hit in run.hits())
    return [SelectedRow(with_id(document)) for document in run_stages(staged, rows)]


def _tallied(run: QueryRun[Any], tally: GroupTally) -> Iterator[ScoredRow]:
    """The rows of a $group, from columns where there are any."""
    aggregation, request = parse_aggregation(tally.functions), run.request()
    tell_aggregated(run.access, aggregation)
    found = run.attempt(lambda state: state.aggregate(aggregation, request))
    return (ScoredRow(row, None) for row in tally.rows(found))


def _by_index(run: QueryRun[Any], name: str) -> Near:
    """What is asked for, by the distance of the index that was named."""
    near, state = run.query.request.near, run.state
    assert near is not None
    known = state.view.definition.indexes if isinstance(state, LogState) else None
    found = None if known is None else known.get(name)
    if known is None or found is None or found.state == "dropped" or found.index.kind != "vector":
        there = [] if known is None else [each for each in known if each.state != "dropped"]
        names = [each.index.name for each in there if each.index.kind == "vector"]
        raise NotFoundError(f"vector index {name!r:.60}", reason="there is none", fix=did_you_mean(name, names))
    options = json.parse(found.index.options.decode())
    if options["field"] != near.field:
        raise InvalidRequestError(
            f"$vectorSearch of {near.field}", reason=f"index {name} is of {options['field']}", fix="leave out index"
        )
    return near.by(options["distance"])
