"""Make a collection of files that others wrote a managed one: read, write as blocks, compare, and commit one entry.

Nothing is visible before that entry. There is none to open the job either: a collection without a log is read from its
files, and it must stay so until everything is there. What was written meanwhile is named by a record, so that a run
that was cut off goes on where it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b, sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn

from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.commit.operations import Pending
from wormdb.engine.ledger import CommitResult, Ledger, Runtime
from wormdb.engine.log.objects import ObjectWriter
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.state.definition import settled as settled_events
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptionError,
    InvalidRequestError,
    NotFoundError,
    SnapshotTooOldError,
)
from wormdb.files.adopt.lines import read_sources
from wormdb.files.adopt.listing import Inventory, files_digest, list_sources, sources_digest, take_inventory
from wormdb.files.adopt.read import DocumentReader
from wormdb.files.adopt.sources import record_sources
from wormdb.files.adopt.stage import BlockStage, RecordKeeper, Rehearsal, digest_of
from wormdb.files.adopt.survey import AdoptionChoices, AdoptionCounts, AdoptionSurvey, survey
from wormdb.files.contents.fitting import describe_nothing
from wormdb.format.adopt_record import AdoptRecord
from wormdb.format.event import Event, JobAttached, JobOpened
from wormdb.format.sample import encode_sample
from wormdb.system.types import LogNumber, Misc, WriteId

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.state.view import View
    from wormdb.errors import Problem
    from wormdb.files.contents.names import FileNames
    from wormdb.storage.store import Store

__all__ = ["Adopter", "Adoption", "job_id"]

_HEX: Final = frozenset("0123456789abcdef")
_ID_CHARS: Final = 32


@dataclass(frozen=True, slots=True)
class Adoption:
    """What was adopted, or would be."""

    collection: str
    model: str
    mode: str
    """The mode of the model from then on."""
    job: str
    """Give it again, and nothing is adopted twice."""
    number: int | None
    """The log entry that made it visible; None after a dry run."""
    counts: AdoptionCounts
    problems: tuple[Problem, ...] = ()
    """Everything that is not as it should be, whether it was let through or not."""
    left_out: int = 0
    """Problems that are not listed."""
    refused: int = 0
    """How many of the problems keep the adoption from being done; always 0 after it was."""
    resumed: bool = False
    """Whether it went on with what an earlier run had written."""
    verified: bool = False
    """Whether every document was compared with its files, as the engine gives it."""
    stale: bool = False
    """Whether files say that they are of a later entry than the log has: those of another log, which sync replaces."""
    already: bool = False
    """Whether the job had been done before: then nothing was done now, and nothing is counted."""
    commit_id: str | None = None
    """The commit of the log entry, as `resolve` takes it; None unless it was written now."""


def job_id(job: str) -> WriteId:
    """The id of a job of any name, as the log has it; an id stands for itself. No requests."""
    is_id = len(job) == _ID_CHARS and _HEX.issuperset(job)
    return WriteId(job if is_id else blake2b(job.encode(), digest_size=_ID_CHARS // 2).hexdigest())


@dataclass(frozen=True, slots=True)
class Adopter:
    """Adopts one collection."""

    ledger: Ledger
    runtime: Runtime
    names: FileNames
    events: Callable[[View], tuple[Event, ...]]
    """The definition that the collection gets, as events, for a state; no requests."""
    claim: Callable[[], None]
    """Called before anything is written: makes sure that no other collection has the folders of the files."""
    finish: Callable[[Adoption, Callable[[], None]], Adoption]
    """Does what follows the entry, and then has the record of the job removed: a run that is cut off before goes on."""
    actor: str | None = None
    meta: bytes | None = None
    told: Callable[[str, int, int], None] = lambda _what, _done, _total: None

    @property
    def collection(self) -> str:
        """Its folder."""
        return self.names.collection

    @property
    def _paths(self) -> EnginePaths:
        return EnginePaths.of_collection(self.collection)

    def run(self, job: str | None, choices: AdoptionChoices) -> Adoption:
        """Adopt the collection.

        1 LIST for each 1,000 files, twice; 2 GETs for each file; 2 PUTs for each block and 1 GET to compare it; 1 PUT
        for each part, and 1 for the entry. Raises NotFoundError if there is nothing, AlreadyExistsError if the log of
        the collection has documents, InvalidRequestError listing every problem (nothing was written then),
        ConflictError if another process adopts it too or a file was changed meanwhile, and what a commit raises.
        """
        view = self.ledger.view().bare
        keeper = RecordKeeper(self.runtime.store, self._paths.adoption, self.collection, self.runtime.chance)
        left = keeper.read()
        chosen = self.runtime.batch_id() if left is None else left.job
        job = job_id(job) if job is not None else WriteId(chosen)
        done = view.jobs.known.get(job)
        if done is not None and done.state == "attached":
            model = self.names.model
            found = Adoption(self.collection, model.name, model.mode, job, done.number, AdoptionCounts(), already=True)
            return found if choices.dry_run else self._finished(found, keeper, view)
        check_unmanaged(view, self.collection)
        return _AdoptionRun(self, keeper, job, choices, view).run()

    def _finished(self, found: Adoption, keeper: RecordKeeper, view: View) -> Adoption:
        """Do what a run that was cut off behind its entry left to be done: its record is there. Reads all files."""
        # Files of other programs that are not written back say nothing of a log.
        is_settled = keeper.record is None or keeper.record.job != found.job or self.names.model.path.is_of_others
        if is_settled or keeper.record is None:
            return self.finish(found, keeper.remove)
        store = self.runtime.store
        inventory = take_inventory(store, self.names, lambda done: self.told("listing", done, 0))
        reader = DocumentReader(store, self.runtime.pool, self.names, keeper.record.limit)
        all_of_it = AdoptionChoices(on_broken="skip", on_mismatch="entity")
        seen = survey(
            reader, inventory, all_of_it, (), lambda done: self.told("reading", done, len(inventory.documents))
        )
        counts = AdoptionCounts(skipped=seen.counts.skipped, mismatched=seen.counts.mismatched)
        return self.finish(replace(found, counts=counts, resumed=True, stale=seen.log > view.number), keeper.remove)


def check_unmanaged(view: View, collection: str) -> None:
    """Raise AlreadyExistsError if a collection has, or ever had, documents in a log."""
    if view.count or any(True for _ in view.scan()):
        model = view.definition.model
        is_written = model is None or not model.path.is_of_others
        raise AlreadyExistsError(
            f"the log of {collection}",
            reason="it has documents: the collection is managed already"
            + (", and its files are written from the log" if is_written else ""),
            fix="use it as it is; worm files sync makes its files right"
            if is_written
            else "worm verify names files that changed since; worm import takes in what they have now",
        )


def _nothing(store: Store, names: FileNames) -> NotFoundError:
    """Why there is nothing to adopt: some keys that are there, and the path that would fit. 1 or 2 LISTs."""
    keys: list[str] = []
    for prefix in dict.fromkeys((names.collection, "")):
        listed = [info.key for page in islice(store.list(prefix), 1) for info in page.objects]
        keys = keys or [key for key in listed if not any(part.startswith(".") for part in key.split("/"))]
    return describe_nothing(names, keys, "nothing to adopt")


class _AdoptionRun:
    """One run of one job."""

    def __init__(
        self, adopter: Adopter, keeper: RecordKeeper, job: WriteId, choices: AdoptionChoices, view: View
    ) -> None:
        runtime, paths = adopter.runtime, EnginePaths.of_collection(adopter.collection)
        self._of = adopter
        self._keeper = keeper
        self._job = job
        self._choices = choices
        self._view = view
        self._data = Shelf(runtime.store, runtime.pool, paths.data)
        self._past = Shelf(runtime.store, runtime.pool, paths.history)
        self._events = settled_events(adopter.events(view), is_empty=True)
        self._definition = view.definition.after(self._events, LogNumber(view.number + 1))

    def run(self) -> Adoption:
        adopter, choices = self._of, self._choices
        store = adopter.runtime.store
        inventory = self._inventory()
        if not inventory.files:
            raise _nothing(store, adopter.names)
        plan = self._plan(inventory)
        left = self._keeper.record
        record = left if left is not None and (left.job, left.plan) == (self._job, plan) else None
        limit = adopter.runtime.misc.next() if record is None else record.limit
        reader = DocumentReader(store, adopter.runtime.pool, adopter.names, limit)
        total = len(inventory.documents)
        indexes = (*self._definition.indexes.ready, *self._definition.indexes.lists)
        found = survey(reader, inventory, choices, indexes, lambda done: adopter.told("reading", done, total))
        if choices.dry_run:
            return self._result(found, None, is_resumed=record is not None)
        is_empty = found.counts.skipped == total + inventory.unnamed
        if fatal := found.fatal or (found.broken if is_empty else []):
            fix = "correct the files: nothing is left without them" if is_empty else _fix_of(found)
            raise InvalidRequestError(f"adoption of {adopter.collection}", problems=fatal, fix=fix)
        adopter.runtime.before_first_write()
        adopter.claim()
        if record is None:
            fresh = AdoptRecord(
                path=adopter.collection, job=self._job, write_id=self._job, limit=limit, plan=plan, parts=()
            )
            self._keeper.swap(fresh)
        self._stage(reader, inventory)
        attached = self._attached(found)
        if choices.verify or (record is not None and record.parts):
            # What another run wrote is compared in any case: it may have been removed since.
            self._compare(attached, inventory)
        if self._is_changed(inventory):
            raise ConflictError(
                f"the files of {adopter.collection}",
                reason="they were changed while they were adopted",
                fix="stop the program that writes them, and run this again",
            )
        committed = self._commit(attached)
        result = self._result(found, committed.number, is_resumed=record is not None)
        return adopter.finish(replace(result, commit_id=committed.id or None), self._keeper.remove)

    def _inventory(self) -> Inventory:
        store, names, told = self._of.runtime.store, self._of.names, self._of.told
        if names.model.path.is_of_others:
            return read_sources(store, self._of.runtime.pool, names)
        return take_inventory(store, names, lambda done: told("listing", done, 0))

    def _is_changed(self, inventory: Inventory) -> bool:
        """Whether a file is another than when it was read; those that stay another program's are remembered."""
        store, names, record = self._of.runtime.store, self._of.names, self._keeper.record
        if not names.model.path.is_of_others:
            return files_digest(store, names) != inventory.digest
        assert record is not None, "the job has begun"
        record_sources(store, self._of.runtime.pool, names, record)
        return sources_digest(list_sources(store, names)) != inventory.digest

    def _plan(self, inventory: Inventory) -> bytes:
        """What must be the same for a run to go on with what another one wrote."""
        choices, names = self._choices, self._of.names
        parts: tuple[Any, ...] = (choices.on_broken, choices.on_mismatch, repr(names.placement), self._view.number)
        return sha256(b"\0".join([inventory.digest, self._definition.body, repr(parts).encode()])).digest()

    # --- blocks ---

    def _stage(self, reader: DocumentReader, inventory: Inventory) -> None:
        """Write the documents behind those that are written already."""
        runtime, record = self._of.runtime, self._keeper.record
        assert record is not None
        through = record.parts[-1].through if record.parts else b""
        wanted = [(key, listed) for key, listed in inventory.documents if key > through and listed.digest]
        writer = ObjectWriter(runtime.store, runtime.pool, runtime.misc, runtime.chance)
        target = runtime.sizes.block_target
        stage = BlockStage.of(self._keeper, (self._data, self._past), writer, self._definition.columns, target)
        for place, reading in enumerate(reader.read(wanted)):
            settled, listed = reading.settled, reading.listed
            if settled is None or digest_of(settled.held, settled.versions, settled.marks) != listed.digest:
                _changed(listed.place(self._of.names))
            stage.add(reading.key, settled)
            if place % 100 == 0:
                self._of.told("writing", len(inventory.documents) - len(wanted) + place, len(inventory.documents))
        stage.flush()

    def _attached(self, found: AdoptionSurvey) -> JobAttached:
        record = self._keeper.record
        assert record is not None
        return JobAttached(
            job=self._job,
            blocks=tuple(block for part in record.parts for block in part.blocks),
            history=tuple(block for part in record.parts for block in part.history),
            added=found.counts.documents,
            sequence=found.sequence,
            sample=encode_sample(found.sample),
        )

    def _compare(self, attached: JobAttached, inventory: Inventory) -> None:
        adopter = self._of
        rehearsal = Rehearsal(adopter.runtime, adopter.names, self._view, self._definition, attached)
        try:
            rehearsal.compare(inventory, adopter.told)
        except (CorruptionError, SnapshotTooOldError) as error:
            self._keeper.begin_anew()
            raise CorruptionError(
                error.what, reason=error.reason, fix="nothing was adopted: run it again", key=error.key
            ) from error

    # --- the entry ---

    def _commit(self, attached: JobAttached) -> CommitResult:
        adopter, seen = self._of, self._view
        opened = JobOpened(job=self._job, kind="adopt", base=seen.number)
        pending = Pending(
            adopter.runtime.batch_id(),
            events=(*self._events, opened, attached),
            actor=adopter.actor,
            meta=adopter.meta,
            guard=_AdoptionGuard(adopter.collection, seen),
        )
        try:
            committed = adopter.ledger.commit(pending)
        except AlreadyExistsError:
            # A process that went on with the same job may have been faster: then it is done, and done once.
            done = adopter.ledger.view().jobs.known.get(self._job)
            if done is None or done.state != "attached":
                raise
            committed = CommitResult(LogNumber(done.number), Misc(done.misc), ())
        return committed

    def _result(self, found: AdoptionSurvey, number: int | None, *, is_resumed: bool) -> Adoption:
        return Adoption(
            collection=self._of.collection,
            model=self._of.names.model.name,
            mode=self._of.names.model.mode,
            job=self._job,
            number=number,
            counts=found.counts,
            problems=found.problems,
            left_out=found.left_out,
            refused=len(found.fatal),
            resumed=is_resumed,
            verified=number is not None and self._choices.verify,
            stale=number is not None and found.log > number,
        )


def _fix_of(found: AdoptionSurvey) -> str:
    fixes = ["correct the files"]
    if found.broken:
        fixes.append('on_broken="skip" (--on-broken skip) to leave their documents out')
    if found.mismatches:
        fixes.append('on_mismatch="entity" (--on-mismatch entity) to take documents as their own files have them')
    return ", or ".join(fixes)


def _changed(key: str) -> NoReturn:
    raise ConflictError(
        f"the file {key}",
        reason="it, or another file of the document, was changed while it was adopted",
        fix="stop the program that writes it, and run this again",
        key=key,
    )


@dataclass(frozen=True, slots=True)
class _AdoptionGuard:
    """Refuses an adoption after another one, and after a change of the model or of its files."""

    collection: str
    seen: View

    def check(self, view: View) -> None:
        check_unmanaged(view, self.collection)
        now, before = view.definition, self.seen.definition
        if (now.body, now.files) != (before.body, before.files):
            raise ConflictError(
                f"the definition of {self.collection}",
                reason="another process changed it meanwhile",
                fix="run it again",
            )
