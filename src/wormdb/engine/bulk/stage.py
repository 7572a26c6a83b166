"""A batch too large for the log: staged as blocks under an open job, and attached by one entry.

The blocks are written before anybody sees them. Then one entry names them all, if nothing that came since the batch
was checked concerns its documents or its unique values; otherwise the batch is checked again. What a job
wrote and did not attach is garbage that no root names.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.bulk.inserts import check_inserts, sampled
from wormdb.engine.commit.operations import Guards, OvertakenError, Pending
from wormdb.engine.commit.resolve import opening
from wormdb.engine.commit.validate import Group
from wormdb.engine.index.unique import UniqueOwners
from wormdb.engine.state.jobs import UNNAMED
from wormdb.engine.state.view import View, greatest_sequence, id_key
from wormdb.engine.tree.definition import Index, claims_of
from wormdb.errors import ConflictError, OutcomeUnknownError, WormError
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.event import JobAborted, JobAttached, JobOpened, StreamAdvanced
from wormdb.format.node import is_ascending
from wormdb.format.sample import Sample, encode_sample
from wormdb.system.types import WriteId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from wormdb.engine.bulk.report import JobLedger
    from wormdb.engine.commit.commit import CommitResult
    from wormdb.engine.index.shelf import IndexShelf
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.entry import Entry, LoggedChange

__all__ = ["Stager"]

log = logging.getLogger(__name__)

CHECKS_MAX = 8
"""How often a batch is checked again because others changed the same collection."""


@dataclass(frozen=True, slots=True)
class _StagedBatch:
    """A batch as it will be, checked against one view."""

    view: View
    changes: tuple[LoggedChange, ...]
    rows: dict[bytes, Row]
    """In order of key."""
    claims: Mapping[str, AbstractSet[bytes]]
    """What it takes in each unique index."""
    added: int
    sequence: int

    @property
    def sample(self) -> Sample:
        """Of its documents, and of those that it deletes."""
        return sampled(self.rows)


@dataclass(frozen=True, slots=True)
class _FixedHead:
    """A head that does not move."""

    pinned: View
    trees: IndexShelf
    greatest: int

    def view(self) -> View:
        return self.pinned

    def unique(self, index: Index) -> UniqueOwners:
        return UniqueOwners.of(index, self.pinned, self.trees)

    def sequence(self) -> int:
        return self.greatest


@dataclass(frozen=True, slots=True)
class Stager:
    """Commits large batches to one collection."""

    ledger: JobLedger
    commit: Callable[[Pending], CommitResult]
    """Commits its entries, by the deadline of the batch."""

    def run(self, pending: Pending) -> CommitResult:
        """Commit a batch. 2 PUTs for the job's two entries and 2 a block; memory for the whole batch.

        Raises what a commit raises. After an error other than OutcomeUnknownError nothing was written that counts.
        """
        job = WriteId(self.ledger.batch_id())
        view, _ = self.ledger.settled()
        opened = JobOpened(job=job, kind=UNNAMED, base=view.number)
        # What says that the batch is written must come with it; a definition must come before its documents.
        last = tuple(event for event in pending.events if isinstance(event, StreamAdvanced))
        first = tuple(event for event in pending.events if event not in last)
        with opening(f"batch of {len(pending.operations)} changes to {self.ledger.collection}"):
            self.commit(replace(pending, id=self.ledger.batch_id(), operations=(), events=(*first, opened)))
        try:
            return self._attach(replace(pending, events=last), job)
        except OutcomeUnknownError:
            raise
        except WormError as error:
            self._abort(job, error)
            raise

    def _attach(self, pending: Pending, job: WriteId) -> CommitResult:
        written: tuple[dict[bytes, Row], list[BlockEntry]] = ({}, [])
        checked: _StagedBatch | None = None
        checks = 0
        while checked is not None or checks < CHECKS_MAX:
            if checked is None:
                checked, checks = self._check(pending), checks + 1
            if written[0] != checked.rows:
                blocks = self.ledger.block_writer(checked.view.definition.columns)
                written = checked.rows, blocks.write_side_by_side(checked.rows.items())
            attached = JobAttached(
                job=job,
                blocks=tuple(written[1]),
                added=checked.added,
                sequence=checked.sequence,
                sample=encode_sample(checked.sample),
            )
            events = (attached, *pending.events)
            try:
                committed = self.commit(
                    replace(
                        pending, operations=(), events=events, guard=Guards.of(_StagedGuard(checked), pending.guard)
                    )
                )
            except OvertakenError as error:
                log.info("%s: a staged batch is checked again: %s", self.ledger.collection, error.reason)
                checked = self._caught_up(checked)
                continue
            return replace(committed, changes=checked.changes)
        raise ConflictError(
            f"batch of {len(pending.operations)} changes to {self.ledger.collection}",
            reason=f"others changed the same documents {CHECKS_MAX} times while it was staged",
            fix="retry later, or in smaller batches",
        )

    def _caught_up(self, checked: _StagedBatch) -> _StagedBatch | None:
        """What was checked, as of a newer state, if nothing that came between concerns it; None if that is not known.

        A large batch takes longer to check than others take to bring the log forward, so it must not start again
        for that alone. 1 GET for each entry between.
        """
        view, _ = self.ledger.settled()
        # Of a root that was opened anew the definition has another number, and says the same.
        same = replace(view.definition, number=checked.view.definition.number) == checked.view.definition
        entries = self.ledger.entries(checked.view.number, view.number) if same else None
        if entries is None or any(isinstance(event, JobAttached) for entry in entries for event in entry.events):
            return None
        try:
            for entry in entries:
                _check_entry(entry, checked)
        except OvertakenError:
            return None
        return replace(checked, view=view)

    def _check(self, pending: Pending) -> _StagedBatch:
        view, greatest = self.ledger.settled()
        head = _FixedHead(view, self.ledger.trees, greatest)
        group = Group(head, self.ledger.collection)
        inserted = check_inserts(pending, view, head.unique, group.takes_snapshot)
        if inserted is not None:
            changes, rows = inserted.changes, inserted.rows
            return _StagedBatch(view, changes, _sorted(rows), inserted.claims, len(rows), _sequence(changes))
        changes = group.add(pending)
        rows = {}
        added = 0
        for change in changes:
            key = id_key(change.id)
            earlier = rows.get(key)
            # One row a document: what a batch does to a document counts as one change of it.
            seq = change.seq if earlier is None else earlier.seq
            rows[key] = Row(json.decode(change.id, name="document id"), 0, seq, change.after, change.trash)
            added += (change.after is not None) - (change.before is not None)
        if len(rows) < len(changes):
            changes = tuple(msgspec.structs.replace(change, seq=rows[id_key(change.id)].seq) for change in changes)
        claims: dict[str, set[bytes]] = {}
        for (index, value), owner in group.claims.items():
            if owner is not None:
                claims.setdefault(index.name, set()).add(value)
        return _StagedBatch(view, changes, _sorted(rows), claims, added, _sequence(changes))

    def _abort(self, job: WriteId, cause: WormError) -> None:
        try:
            self.commit(
                Pending(self.ledger.batch_id(), events=(JobAborted(job=job, reason=cause.reason or str(cause)),))
            )
        except WormError as error:
            # It stays open until it expires; no root names what it wrote.
            log.warning("%s: job %s could not be aborted: %s", self.ledger.collection, job, error)


def _sorted(rows: dict[bytes, Row]) -> dict[bytes, Row]:
    """In order of key."""
    return rows if is_ascending(list(rows)) else {key: rows[key] for key in sorted(rows)}


def _sequence(changes: Sequence[LoggedChange]) -> int:
    """The greatest id made of digits."""
    return greatest_sequence(change.id for change in changes)


@dataclass(frozen=True, slots=True)
class _StagedGuard:
    """Refuses a batch that was checked before, if what came since may concern it."""

    checked: _StagedBatch

    def check(self, view: View) -> None:
        checked = self.checked
        if view.definition.number != checked.view.definition.number:
            _overtaken("the definition changed")
        if view.base_number > checked.view.number:
            _overtaken("the log was brought forward over what it was checked against")
        for entry in view.overlay.entries(view.number):
            if entry.number > checked.view.number:
                _check_entry(entry, checked)


def _check_entry(entry: Entry, checked: _StagedBatch) -> None:
    unique = checked.view.definition.unique
    for batch in entry.batches:
        for change in batch.changes:
            if id_key(change.id) in checked.rows:
                _overtaken(f"entry {entry.number} changed one of its documents")
            if change.after is None or not unique:
                continue
            document = json.decode_document(change.after, name="document")
            for index in unique:
                claimed = checked.claims.get(index.name, ())
                if any(value in claimed for value in claims_of(index, document)):
                    _overtaken(f"entry {entry.number} took one of its values")


def _overtaken(reason: str) -> None:
    raise OvertakenError("a staged batch", reason=reason)
