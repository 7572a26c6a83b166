"""Jobs that read documents: one state and a filter, cut into ranges of ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.api.options import WrittenFilter, expand_functions, read_filter
from wormdb.bql.aggregation import value_of
from wormdb.bql.tree import Filter, MatchAll, has_calls
from wormdb.engine.blocks.portion import DOCUMENT, Portion
from wormdb.errors import LimitExceededError
from wormdb.format import json
from wormdb.format.path import TRAVERSED, parse_path
from wormdb.jobs.row_filter import RowBounds, RowFilter
from wormdb.jobs.shares import Share, shares
from wormdb.jobs.state import PinnedState
from wormdb.jobs.work import Item, Output, ProgressListener, Runner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.jobs.place import Where

__all__ = ["JobScan", "cells_along", "field_names", "share_portions", "written_filter"]


@dataclass(frozen=True, slots=True)
class JobScan:
    """What a job reads: a value that can be sent."""

    state: PinnedState
    filter: RowFilter | None = None

    @classmethod
    def of(cls, where: Where, filter: WrittenFilter = None, as_of: str | None = None) -> JobScan:  # noqa: A002 - its name
        """Pin a state. Costs and raises as `PinnedState.of`; InvalidRequestError for an invalid filter."""
        tree = written_filter(where, filter)
        chosen = None if isinstance(tree, MatchAll) else RowFilter.of(tree.text)
        return cls(PinnedState.of(where, as_of), chosen)

    @property
    def number(self) -> int:
        """The log number of the state; 0 if only its time is known. No requests."""
        moment = self.state.as_of
        return self.state.pinned.number if moment is None else 0 if moment.is_time else moment.bound

    def items(self, tasks: int | None = None) -> list[Item]:
        """Pieces of about one size, and `tasks` if that is given. Costs as `shares`."""
        narrowing = RowBounds() if self.filter is None else self.filter.narrowing()
        found = shares(self.state, narrowing, tasks=tasks)
        name = self.state.where.name
        return [
            Item(f"part {number} of {len(found)} of {name}", msgspec.msgpack.encode(share), share.size, share.rows)
            for number, share in enumerate(found, 1)
        ]

    def portions(self, body: bytes, names: Sequence[str]) -> Iterator[Portion]:
        """Columns of the documents of one item that match. Costs as `share_portions`."""
        return share_portions(self.state, msgspec.msgpack.decode(body, type=Share), names, self.filter)


def written_filter(where: Where, filter: WrittenFilter) -> Filter:  # noqa: A002 - its name
    """A filter with what functions of the collection stand for now. 1 GET if it names some, else none.

    Raises InvalidRequestError for an invalid filter, NotFoundError for a function that is not registered.
    """
    tree = read_filter(filter)
    return expand_functions(where.handle()._access, tree) if has_calls(tree) else tree  # noqa: SLF001 - this package is a part of the database


def share_portions(
    state: PinnedState, share: Share, names: Sequence[str], chosen: RowFilter | None
) -> Iterator[Portion]:
    """Columns of the rows of one share. Costs as `scan_columns` of its range, or as `get_many` of its keys."""
    wanted = list(names) if chosen is None else list(dict.fromkeys([*names, *sorted(chosen.paths)]))
    if share.keys is not None:
        portions = state.rows(wanted, share.keys) if share.keys else iter(())
    else:
        portions = state.portions(wanted, share.span.low, share.span.high, dict(share.bounds))
    return portions if chosen is None else chosen.apply(portions)


def cells_along(portion: Portion, path: str) -> list[Any]:
    """The value of a path in each row, an array of values where it crosses an array. No requests."""
    values = portion.values(path)
    crossing = [row for row, value in enumerate(values) if value is TRAVERSED]
    if crossing:
        segments = parse_path(path)
        for row, body in zip(crossing, portion.documents(crossing), strict=True):
            values[row] = value_of(json.decode_document(body, name="document"), segments)
    return values


# --- the fields that documents without a model have ---

NAMES_MAX: Final = 10_000


def field_names(
    scan: JobScan, runner: Runner, told: ProgressListener | None = None, *, tasks: int | None = None
) -> list[str]:
    """The fields that some documents of a scan have, sorted, without the id. Reads every document.

    Raises LimitExceededError for too many, and what the first piece that failed raised.
    """
    bodies = runner.run("fields", _Fields(scan), scan.items(tasks), told)
    found = {name for body in bodies for name in msgspec.msgpack.decode(body, type=list[str])}
    if len(found) > NAMES_MAX:
        raise LimitExceededError(
            f"a table with more than {NAMES_MAX:,} columns",
            reason="the documents have too many different fields",
            fix="name some of them",
        )
    return sorted(found - {"_id"})


@dataclass(frozen=True, slots=True)
class _Fields:
    scan: JobScan

    def __call__(self, body: bytes, /) -> Output:
        """The fields of the documents of one piece."""
        names: set[str] = set()
        rows = 0
        for portion in self.scan.portions(body, ["_id", DOCUMENT]):
            for text in portion.documents():
                names.update(json.decode_document(text, name="document"))
            rows += portion.rows
        return Output(msgspec.msgpack.encode(sorted(names)), rows)
