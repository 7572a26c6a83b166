"""Bring all documents to a new version of their model by a function: written first, visible at once by one entry.

A job writes what the function makes of each document, beside readers and writers that go on. The entry that attaches
it brings the new model too. What others wrote meanwhile goes through the function before that, and again if more came.
There is no mapping then, so programs with the older model are refused from that entry on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.bulk.merge import Merger
from wormdb.engine.commit.define import duplicates
from wormdb.engine.commit.operations import OvertakenError, Pending
from wormdb.engine.commit.resolve import commit_for_sure
from wormdb.engine.lists.definition import check_lists
from wormdb.engine.load import JobSpec, abort, job_id, open_job
from wormdb.engine.state.definition import Definition, settled
from wormdb.engine.state.expiry import expiry_events
from wormdb.engine.state.view import StoredVersion, View, id_key, merge_newest
from wormdb.engine.tree.definition import claims_of
from wormdb.errors import ConflictError, InvalidRequestError, OutcomeUnknownError, WormError
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.event import Event, FilesSwitched, JobAttached, SchemaChanged
from wormdb.format.sample import Sample, Sampler, encode_sample
from wormdb.format.values import normalize_document
from wormdb.schema.difference import check_version
from wormdb.schema.validate import validate
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from wormdb.engine.bulk.report import JobLedger
    from wormdb.engine.commit.commit import CommitResult
    from wormdb.engine.ledger import Ledger
    from wormdb.format.blocklist import BlockEntry
    from wormdb.schema.model import Model

__all__ = ["Migrate", "ModelMigration"]

log = logging.getLogger(__name__)

TRIES_MAX: Final = 100
"""How often what others wrote meanwhile is migrated before the job gives up."""

Migrate = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Makes of a document of before what it is after: both have their `id`, which stays."""


@dataclass(frozen=True, slots=True)
class _Draft:
    view: View
    """The state that it was made of."""
    blocks: Sequence[BlockEntry]
    sample: Sample


@dataclass(frozen=True, slots=True)
class ModelMigration:
    """One model on its way."""

    ledger: Ledger
    model: Model
    migrate: Migrate
    actor: str | None = None
    files: FilesSwitched | None = None

    def run(self, job: str) -> CommitResult:
        """Migrate everything; the entry that did it. 2 PUTs for the job, 1 GET a block of before and 2 PUTs a new one.

        With unique indexes all is read once more. Raises InvalidRequestError naming the document that the function
        cannot take, that does not fit the model, or that is a duplicate; ConflictError if the definition changes
        meanwhile. Then nothing has changed.
        """
        ledger = self.ledger
        view, _ = ledger.settled()
        before = view.definition
        if before.model is not None:
            check_version(before.version, before.model, self.model, is_mapped=True)
        open_job(self.ledger, JobSpec(job=job, kind="migrate", on_conflict="replace", actor=self.actor))
        try:
            return self._attach(ledger, job_id(job), self._drafted(ledger, view))
        except OutcomeUnknownError:
            raise
        except BaseException:
            abort(self.ledger, job, "the migration failed")
            raise

    # --- documents ---

    def _drafted(self, ledger: JobLedger, view: View) -> _Draft:
        after = self._after(view)
        sampler = Sampler(note_gone=True)
        writer = BlockWriter(ledger.shelf, ledger.writer, ledger.block_target, after.columns)
        rows = ((key, row) for key, held in view.scan() if (row := self._row(held, after)) is not None)
        blocks = writer.write(sampler.watch(rows))
        return self._checked(ledger, _Draft(view, blocks, sampler.sample))

    def _after(self, view: View) -> Definition:
        (event,) = settled((self._event,), is_empty=view.count == 0)
        return view.definition.after((event,), LogNumber(view.number + 1))

    @property
    def _event(self) -> SchemaChanged:
        return SchemaChanged(definition=self.model.canonical())

    def _row(self, held: StoredVersion, after: Definition) -> Row | None:
        """A document as the function makes it; None if it is deleted, or stays as it is."""
        if held.document is None:
            return None
        identity = json.decode(held.id, name="document id")
        values = json.decode_document(held.document, name="document")
        try:
            made = self._made(identity, values)
            for index in after.indexes.ready:
                claims_of(index, made)
            check_lists(after.indexes.lists, [made])
            body = json.encode_document(made)
        except Exception as error:
            is_ours = isinstance(error, WormError)
            raise InvalidRequestError(
                f"document {identity!r} cannot be migrated to the new version of {self.model.name}",
                reason=str(error) if is_ours else f"the function raised {type(error).__name__}: {error}",
                problems=error.problems if isinstance(error, InvalidRequestError) else (),
                fix="change the function or the model; nothing was written",
            ) from error
        return None if body == held.document else Row(identity, 0, held.seq + 1, body)

    def _made(self, identity: Any, values: dict[str, Any]) -> dict[str, Any]:
        given = {"id": identity, **{name: value for name, value in values.items() if name != "_id"}}
        made = self.migrate(given)
        if not isinstance(made, Mapping):
            raise InvalidRequestError("the function", reason=f"it gave {type(made).__name__}", fix="return a document")
        rest = {name: value for name, value in made.items() if name not in ("id", "_id")}
        if any(made.get(name, identity) != identity for name in ("id", "_id")):
            raise InvalidRequestError("the function", reason="it changed the id", fix="leave the id as it is")
        return validate(self.model, normalize_document({"_id": identity, **rest}))

    # --- the entry ---

    def _attach(self, ledger: JobLedger, job: str, draft: _Draft) -> CommitResult:
        for _ in range(TRIES_MAX):
            event = JobAttached(job=job_id(job), blocks=tuple(draft.blocks), sample=encode_sample(draft.sample))
            expiry = expiry_events(draft.view.definition.model, self.model, ledger.clock.now_ms())
            events: tuple[Event, ...] = (event, self._event, *expiry, *(() if self.files is None else (self.files,)))
            pending = Pending(ledger.batch_id(), events=events, actor=self.actor, guard=_MigrationGuard(self, draft))
            try:
                committed = commit_for_sure(ledger.commit, ledger.settle, pending)
                if committed is not None:
                    return committed
            except OvertakenError as error:
                log.info("%s: %s", ledger.collection, error)
                draft = self._caught_up(ledger, draft)
        raise ConflictError(
            f"the migration of {self.model.name}",
            reason=f"others wrote {TRIES_MAX} times while it was attached",
            fix="run it again when fewer write",
        )

    def check_definition(self, view: View, before: View) -> None:
        """Raise ConflictError if the definition is another one than it was."""
        if (view.definition.body, view.definition.versions) != (before.definition.body, before.definition.versions):
            raise ConflictError(f"the definition of {self.model.name}", reason="another process changed it meanwhile")

    def _caught_up(self, ledger: JobLedger, draft: _Draft) -> _Draft:
        """The draft with what others wrote since; raises ConflictError if that is not known any more."""
        view, _ = ledger.settled()
        self.check_definition(view, draft.view)
        entries = ledger.entries(draft.view.number, view.number)
        if entries is None:
            raise ConflictError(f"the migration of {self.model.name}", reason="the log since it began was trimmed")
        keys: set[bytes] = set()
        for entry in entries:
            keys |= {id_key(change.id) for batch in entry.batches for change in batch.changes}
            for event in entry.events:
                if isinstance(event, JobAttached):
                    keys |= {key for key, _ in ledger.attached(event, LogNumber(entry.number)).scan()}
        after, now = self._after(view), view.get_many(sorted(keys))
        changes = {key: None if key not in now else self._row(now[key], after) for key in sorted(keys)}
        merged = Merger(ledger.block_writer(after.columns), "replace").merge([draft.blocks], changes)
        left = {key: row for key, row in draft.sample.rows.items() if key not in changes}
        told = ((key, row.document) for key, row in changes.items() if row is not None)
        sample = Sample(left, draft.sample.limit).after(told, note_gone=True)
        return self._checked(ledger, replace(draft, view=view, blocks=merged.blocks, sample=sample))

    def _checked(self, ledger: JobLedger, draft: _Draft) -> _Draft:
        """The draft; raises InvalidRequestError if documents have the same value in a unique index."""
        unique = [index for index in self._after(draft.view).indexes.ready if index.unique]
        if unique:
            event = JobAttached(job=job_id("checked"), blocks=tuple(draft.blocks))
            attached = ledger.attached(event, LogNumber(draft.view.number + 1))
            problems = [problem for index in unique for problem in duplicates(index, _Both(attached, draft.view))]
            if problems:
                raise InvalidRequestError(
                    f"the migration of {self.model.name}", problems=problems, fix="make the values different first"
                )
        return draft


@dataclass(frozen=True, slots=True)
class _MigrationGuard:
    """Refuses the entry of a migration after any change of documents or of the definition."""

    migration: ModelMigration
    draft: _Draft

    def check(self, view: View) -> None:
        self.migration.check_definition(view, self.draft.view)
        if view.base_number > self.draft.view.number:
            raise OvertakenError("a migration", reason="the log was brought forward")
        for entry in view.overlay.entries(view.number):
            attaches = any(isinstance(event, JobAttached) for event in entry.events)
            if entry.number > self.draft.view.number and (attaches or any(batch.changes for batch in entry.batches)):
                raise OvertakenError("a migration", reason=f"entry {entry.number} changed documents")


@dataclass(frozen=True, slots=True)
class _Both:
    """What was written, over what is there."""

    attached: Any
    view: View

    def scan(self) -> Iterator[tuple[bytes, StoredVersion]]:
        """As views do."""
        layers: list[Iterable[tuple[bytes, StoredVersion]]] = [self.attached.scan(), self.view.scan()]
        return merge_newest([iter(layer) for layer in layers])
