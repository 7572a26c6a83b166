"""Every version that a root has of each document: rows of history, and the blocks that jobs attached."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from wormdb.engine.history.changes import member_of
from wormdb.format import json
from wormdb.format.past import Taken, Version, decode_past, past_from
from wormdb.maintenance.audit.listed import CheckedList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.format.block import Row
    from wormdb.format.past import Operation
    from wormdb.format.root import JobOutcome, Root
    from wormdb.maintenance.audit.listed import Hole, Where
    from wormdb.maintenance.audit.report import Report
    from wormdb.maintenance.site import Site

__all__ = ["Past", "PastLists", "loaded", "past_rows", "with_operations"]


@dataclass(frozen=True, slots=True)
class Past:
    """One version of a document, or the mark of a snapshot."""

    key: bytes
    """Of the document's id."""
    row: Version | Taken
    is_loaded: bool = False
    """Whether a job attached it."""


@dataclass(frozen=True, slots=True)
class PastLists:
    """The lists of a root that hold versions."""

    history: CheckedList
    attached: CheckedList
    brought: CheckedList

    @classmethod
    def of(cls, site: Site, root: Root, report: Callable[[], Report], **options: Any) -> PastLists:
        """Of a root; `options` are those of `CheckedList`. No requests."""
        wheres: tuple[Where, ...] = ("history", "attached", "brought")
        return cls(*(CheckedList(site, where, root, report(), **options) for where in wheres))

    @property
    def holes(self) -> list[Hole]:
        """What is gone of them."""
        return [*self.history.holes, *self.attached.holes, *self.brought.holes]

    @property
    def wrong(self) -> bool:
        """Whether one of them must be written again."""
        return self.history.wrong or self.attached.wrong or self.brought.wrong

    @property
    def told(self) -> set[int]:
        """The entries whose jobs brought the history of what they attached."""
        return {run.through for run in self.brought.runs}


def past_rows(lists: PastLists, jobs: dict[int, JobOutcome]) -> Iterator[Past]:
    """All of them in order of the ids' keys. Costs as the lists say."""
    told = lists.told
    layers: list[Iterator[Past]] = []
    for listed in (lists.history, lists.brought):
        stored = heapq.merge(*listed.streams(), key=lambda item: item[0])
        layers.append(_stored(stored, listed.folder))
    for run in lists.attached.runs:
        rows = loaded(lists.attached.stream(run), jobs.get(run.through))
        layers.append(_unheard(rows) if run.through in told else rows)
    return heapq.merge(*layers, key=lambda past: past.key)


def _unheard(rows: Iterator[Past]) -> Iterator[Past]:
    """Nothing, after all rows were looked at: where a job brought history, its documents are no versions."""
    for _ in rows:
        pass
    return iter(())


def _stored(rows: Iterator[tuple[bytes, Row]], name: str) -> Iterator[Past]:
    key, first = b"", b"\xff"
    for place, row in rows:
        if not place.startswith(first):
            # No key is the beginning of another one, so what begins alike is of the same document.
            key = member_of(row)
            first = past_from(key)
        yield Past(key, decode_past(row.cell, name=name, rev=row.rev))


def loaded(rows: Iterator[tuple[bytes, Row]], job: JobOutcome | None) -> Iterator[Past]:
    """What a job attached, as versions; what each did is for the version before it to tell."""
    misc, actor, meta = (0, None, None) if job is None else (job.misc, job.actor, job.meta)
    for key, row in rows:
        op: Operation = "create" if row.document is not None else "delete"
        version = Version(json.encode(row.id), row.seq, row.rev, op, misc, actor, meta, document=row.document)
        yield Past(key, version, is_loaded=True)


def with_operations(versions: Sequence[Version], told: set[int]) -> list[Version]:
    """Versions in order, those of the entries in `told` with what they did to the version before them."""
    settled = list(versions[:1])
    for before, version in pairwise(versions):
        op: Operation = version.op
        if version.rev in told:
            there, stays = before.document is not None, version.document is not None
            op = ("update" if there else "create") if stays else ("delete" if there else "purge")
        settled.append(replace(version, op=op))
    return settled
