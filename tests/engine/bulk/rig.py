"""What the tests of bulk jobs share: tasks and drivers as processes of their own, and a model of what a job does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.engine.bulk.stage_rig import MANUAL, SMALL
from tests.engine.rig import Rig, insert
from wormdb.engine.bulk.task import BulkTask
from wormdb.engine.load import BulkOutcome, JobSpec, attach, open_job

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.engine.bulk.stage_rig import State
    from wormdb.engine.bulk.report import BulkTarget, ConflictRule
    from wormdb.engine.commit.operations import Operation
    from wormdb.engine.state.view import StoredVersion
    from wormdb.storage.store import Store

__all__ = ["JOB", "Loading", "Plain", "Rows", "after_job", "run_job"]

JOB = "the job"
Rows = list[tuple[str, dict[str, Any]]]
"""Ids with values; a task has one of these."""


@dataclass
class _Inserts:
    operations: list[Operation] = field(default_factory=list)


class Plain:
    """Documents as they are."""

    def inserts(self, documents: Iterable[object]) -> _Inserts:
        made = _Inserts()
        for document in documents:
            assert isinstance(document, tuple)
            made.operations.append(insert(document[0], **document[1]))
        return made

    def replaced(self, document: bytes, held: StoredVersion) -> bytes | None:
        return None if document == held.document else document


@dataclass
class Loading:
    """A job step by step."""

    rig: Rig
    store: Store | None = None
    spec: JobSpec = field(default_factory=lambda: JobSpec(JOB, "test"))

    def open(self) -> BulkTarget | BulkOutcome:
        return open_job(self.rig.ledger(self.store, MANUAL, SMALL), self.spec)

    def task(self, target: BulkTarget, number: int, rows: Rows, *, every: int = 100) -> bytes:
        """Rows as a task; after so many of them it writes what it has."""
        task = BulkTask(self.rig.ledger(self.store, MANUAL, SMALL), target, Plain(), number)
        for start in range(0, len(rows), every):
            task.add(Plain().inserts(rows[start : start + every]).operations)
            task._flush()
        task.read = len(rows)
        return task.report()

    def attach(self, target: BulkTarget, reports: Sequence[bytes]) -> BulkOutcome:
        return attach(self.rig.ledger(self.store, MANUAL, SMALL), target, reports, Plain(), self.spec)

    def run(self, tasks: Sequence[Rows], *, every: int = 100) -> BulkOutcome:
        target = self.open()
        if isinstance(target, BulkOutcome):
            return target
        return self.attach(target, [self.task(target, n, rows, every=every) for n, rows in enumerate(tasks)])


def run_job(
    rig: Rig,
    tasks: Sequence[Rows],
    rule: ConflictRule = "error",
    *,
    overwrite: bool = False,
    every: int = 100,
    store: Store | None = None,
    job: str = JOB,
) -> BulkOutcome:
    """A whole job."""
    return Loading(rig, store, JobSpec(job, "test", rule, overwrite)).run(tasks, every=every)


def after_job(
    state: State, tasks: Sequence[Rows], number: int, rule: ConflictRule = "error", *, overwrite: bool = False
) -> State | str:
    """The state after a job, or the name of the error that refuses it: written without the code under test."""
    found = dict(state)
    alive = {identity for identity, one in state.items() if one[2] is not None}
    brought = brought_by(tasks, rule)
    if brought is None or (rule == "error" and not overwrite and alive & set(brought)):
        return "AlreadyExistsError"
    for identity, values in brought.items():
        if identity in alive and ((rule == "ignore" and not overwrite) or state[identity][2] == values):
            continue
        found[identity] = (number, state[identity][1] + 1 if identity in state else 1, dict(values))
    for identity in alive - set(brought) if overwrite else ():
        found[identity] = (number, state[identity][1] + 1, None)
    emails = [values["email"] for _, _, values in found.values() if values is not None and "email" in values]
    return "UniqueViolationError" if len(emails) > len(set(emails)) else found


def brought_by(tasks: Sequence[Rows], rule: ConflictRule) -> dict[str, dict[str, Any]] | None:
    """What a job brings of each id; None if one comes twice and must not."""
    brought: dict[str, dict[str, Any]] = {}
    for identity, values in (row for rows in tasks for row in rows):
        if identity in brought and rule == "error":
            return None
        if identity not in brought or rule == "replace":
            brought[identity] = values
    return brought
