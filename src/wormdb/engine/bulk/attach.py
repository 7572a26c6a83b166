"""Put together what the tasks of a bulk job wrote, fit for the newest state.

What others wrote since the job began is looked at entry by entry. Where it concerns a document of the job, that row is
settled again, and its block written again; all other blocks stay as tasks wrote them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain, islice
from typing import TYPE_CHECKING, NoReturn

from wormdb.engine.blocks.fetch import rows_between
from wormdb.engine.blocks.runs import Run, Runs, runs_of
from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.bulk.merge import Merger, MergeResult
from wormdb.engine.bulk.report import BulkTarget, Digests, DocumentMaker, JobLedger, TaskReport, unpack_hashes
from wormdb.engine.bulk.task import digests_key, join_samples, replacing, violation
from wormdb.engine.commit.operations import OvertakenError, trashed
from wormdb.engine.index.unique import UniqueOwners, keys_of
from wormdb.engine.state.view import StoredVersion, View, id_key
from wormdb.engine.tree.extract import extract
from wormdb.errors import ConflictError, NotFoundError, UnavailableError, UniqueViolationError
from wormdb.format import json
from wormdb.format.blob import BlobKey
from wormdb.format.block import Row
from wormdb.format.event import JobAttached
from wormdb.format.frame import corrupt
from wormdb.format.membership import MembershipFilter, key_hash, key_hashes
from wormdb.format.sample import Sample, Sampler, decode_sample, encode_sample
from wormdb.settings import BULK_LAYERS_MAX
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from wormdb.engine.state.definition import Definition
    from wormdb.engine.tree.definition import Index
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.entry import Entry

__all__ = [
    "AttachGuard",
    "Attaching",
    "HashSet",
    "JobDraft",
    "Members",
    "check_between_tasks",
    "claimants",
    "claims_of_reports",
    "hashes_of",
]


# --- Whether the parts of a bulk job fit together, and to what others wrote meanwhile.
#
# Digests are compared first: they tell in memory that two tasks took no value of a unique index both. Where hashes are
# equal the documents themselves decide.

_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class HashSet:
    """Hashes, ascending."""

    hashes: array[int] = field(default_factory=lambda: array("Q"))

    def __contains__(self, number: int) -> bool:
        place = bisect_left(self.hashes, number)
        return place < len(self.hashes) and self.hashes[place] == number

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def repeated(self) -> list[int]:
        """Those that are equal to the one before them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if len(self.hashes) < 2:
            return []
        numbers = pa.Array.from_buffers(pa.uint64(), len(self.hashes), [None, pa.py_buffer(self.hashes)])
        later = numbers.slice(1)
        found: list[int] = later.filter(pc.equal(later, numbers.slice(0, len(later)))).to_pylist()
        return found


def hashes_of(ledger: JobLedger, digests: Iterable[Digests]) -> HashSet:
    """All hashes of some digests. 1 GET for each that is an object; raises UnavailableError, CorruptionError."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [unpack_hashes(_packed(ledger, one)) for one in digests]
    if len(parts) < 2:
        return HashSet(*parts)
    arrays = [pa.Array.from_buffers(pa.uint64(), len(part), [None, pa.py_buffer(part)]) for part in parts]
    joined = pa.concat_arrays(arrays)
    ordered = joined.take(pc.sort_indices(joined))
    hashes = array("Q")
    hashes.frombytes(ordered.buffers()[1].to_pybytes()[: 8 * len(ordered)])
    return HashSet(hashes)


def _packed(ledger: JobLedger, digests: Digests) -> bytes:
    if digests.stored is None:
        return digests.packed
    key = digests_key(ledger, digests.stored.name)
    try:
        body = ledger.writer.store.get(key).body
    except NotFoundError as error:
        raise UnavailableError(
            f"object {key}", reason="what a task of the job reported is gone", fix="run the job again", key=key
        ) from error
    if sha256(body).digest() != digests.stored.sha256:
        corrupt(key, "it does not hold what the task reported")
    return body


@dataclass(frozen=True, slots=True)
class Members:
    """Which ids the blocks of a job may have, told in memory."""

    runs: Sequence[Run]
    filters: dict[str, MembershipFilter]

    @classmethod
    def of(cls, ledger: JobLedger, blocks: Sequence[BlockEntry]) -> Members:
        """1 GET for each filter that is not kept, side by side."""
        return cls(runs_of(blocks), ledger.shelf.learn((), blocks)[1])

    @property
    def blocks(self) -> list[BlockEntry]:
        """All of them, run by run in order of key."""
        return [block for run in self.runs for block in run.entries]

    def may_have(self, key: bytes) -> bool:
        """False only if there is certainly no row with a key. No requests."""
        near = (run.part_for(key) for run in self.runs)
        return any(block is not None and self.filters[block.name].might_contain(key) for block in near)

    def rows(self, ledger: JobLedger, keys: Iterable[bytes]) -> dict[bytes, Row]:
        """The rows with these keys. Costs as `Runs.get_many`."""
        sought = [key for key in keys if self.may_have(key)]
        return Runs(ledger.shelf, self.blocks).get_many(sought) if sought else {}


def claims_of_reports(ledger: JobLedger, reports: Sequence[TaskReport]) -> dict[str, HashSet]:
    """What all tasks took in each unique index. Costs as `hashes_of`."""
    names = sorted({digests.name for report in reports for digests in report.claims})
    return {
        name: hashes_of(ledger, [one for report in reports for one in report.claims if one.name == name])
        for name in names
    }


def check_between_tasks(
    ledger: JobLedger, blocks: Sequence[BlockEntry], indexes: Iterable[Index], claims: dict[str, HashSet]
) -> None:
    """Raise UniqueViolationError if two documents of a job have one value of a unique index.

    No requests if no two hashes are equal; else 1 GET for each block.
    """
    for index in indexes:
        suspects = set(claims[index.name].repeated) if index.name in claims else set()
        seen: dict[bytes, bytes] = {}
        for value, identity in claimants(ledger, blocks, index, suspects) if suspects else ():
            owner = seen.setdefault(value, identity)
            if owner != identity:
                raise clash(ledger, blocks, index, value, owner)


def claimants(
    ledger: JobLedger, blocks: Sequence[BlockEntry], index: Index, suspects: set[int]
) -> Iterator[tuple[bytes, bytes]]:
    """The keys in an index whose hashes are among some, each with the id of a document of the run that has it.

    1 GET for each block.
    """
    rows = (row for block in blocks for _, row in rows_between(ledger.shelf, block) if row.document is not None)
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        identities = [json.encode(row.id) for row in some]
        found = extract(index, identities, [row.document for row in some]).keys
        for identity, keys in zip(identities, found, strict=True):
            for value, digest in zip(keys, key_hashes(keys), strict=True):
                if digest in suspects:
                    yield value, identity


def clash(
    ledger: JobLedger, blocks: Sequence[BlockEntry], index: Index, value: bytes, owner: bytes
) -> UniqueViolationError:
    """What is said of a value that two documents of a job have. Costs as a look-up of one of them."""
    row = Members.of(ledger, blocks).rows(ledger, [id_key(owner)]).get(id_key(owner))
    shown = {} if row is None else keys_of(index, row.document)
    return UniqueViolationError(
        index=index.name, field=index.label, value=shown.get(value), owner=json.decode(owner, name="document id")
    )


@dataclass(frozen=True, slots=True)
class JobDraft:
    """What is to be attached, right for the state of `view`."""

    view: View
    members: Members
    """Its blocks: one run, or a few that have no id in common."""
    replaced: int
    """Documents that its documents replace."""
    sample: Sample
    sequence: int
    passed: frozenset[bytes] = frozenset()
    """Keys of documents that were looked at again, and stay as they are."""

    @property
    def blocks(self) -> Sequence[BlockEntry]:
        """In order of key."""
        return self.members.blocks

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many documents are inserted, replaced and deleted."""
        deleted = sum(block.deleted for block in self.blocks)
        written = sum(block.rows for block in self.blocks) - deleted
        return written - self.replaced, self.replaced, deleted

    def event(self, job: str) -> JobAttached:
        """What the entry says."""
        inserted, _, deleted = self.counts
        return JobAttached(
            job=WriteId(job),
            blocks=tuple(self.blocks),
            added=inserted - deleted,
            sequence=self.sequence,
            sample=encode_sample(self.sample),
        )


@dataclass(slots=True)
class Attaching:
    """One try to attach one job. Not thread-safe."""

    ledger: JobLedger
    target: BulkTarget
    reports: Sequence[TaskReport]
    documents: DocumentMaker
    _claims: dict[str, HashSet] = field(default_factory=dict)
    _passed: HashSet = field(default_factory=HashSet)

    def draft(self) -> JobDraft:
        """All blocks, checked between the tasks, as of the state that the job began with.

        If they overlap, and have less than a block together, or too many lie one over another, or one id comes twice,
        one run is made of them: 1 GET and 2 PUTs for each that overlaps another. 1 GET for each report's digests that
        are an object, and for each filter of a block. Where all else is deleted, a scan of all documents. Raises
        AlreadyExistsError, UniqueViolationError, NotFoundError for a blob that is not there.
        """
        base = self.ledger.unpin(self.target.pinned)
        self.ledger.blobs.require(self._blobs)
        merged = self._as_they_are() or self._merger(base.definition).merge(self._runs)
        self._claims = claims_of_reports(self.ledger, self.reports)
        self._passed = hashes_of(self.ledger, [r.passed_ids for r in self.reports if r.passed_ids is not None])
        check_between_tasks(self.ledger, merged.blocks, base.definition.unique, self._claims)
        existing = base.get_many(list(merged.times)) if merged.times else {}
        more = sum(merged.times[key] for key, held in existing.items() if held.document is not None)
        samples = [decode_sample(report.sample, name="the report of a task") for report in self.reports]
        corrections = ((key, row.document) for key, row in merged.dropped.items())
        blocks, sample = merged.blocks, join_samples(samples).after(corrections, note_gone=True)
        if self.target.overwrite:
            blocks, sample = self._with_deletions(base, blocks, sample)
        return JobDraft(
            view=base,
            members=Members.of(self.ledger, blocks),
            replaced=sum(report.replaced for report in self.reports) - more,
            sample=sample,
            sequence=max((report.sequence for report in self.reports), default=0),
        )

    def caught_up(self, draft: JobDraft) -> JobDraft:
        """The draft made right for the newest state. 1 GET for each entry between, and what the rows concerned cost.

        Raises ConflictError if the definition changed, or a document on which the job rests; AlreadyExistsError and
        UniqueViolationError if another document has now what the job brings.
        """
        view, _ = self.ledger.settled()
        if _rules(view.definition) != _rules(draft.view.definition):
            self._refuse("the definition of the collection changed while it ran")
        if view.number == draft.view.number:
            return self._uncontested(replace(draft, view=view))
        entries = self.ledger.entries(draft.view.number, view.number)
        if entries is None:
            self._refuse("the log since it began has been trimmed")
        changed = self._changed(entries, draft)
        concerned = {key for key in changed if self._concerns(key, draft)}
        for key in concerned:
            if self._is_passed(key, draft):
                self._refuse(f"a document that it left as it was has changed: {_shown(changed[key])}")
        if not self.target.overwrite:
            self._check_values(changed, draft)
        return self._uncontested(self._mended(replace(draft, view=view), draft.view, concerned))

    def check_after(self, draft: JobDraft, view: View) -> None:
        """Raise ConflictError if anything that came after the draft may concern it. No requests."""
        self.check_open(view)
        self.ledger.blobs.check(self._blobs, view)
        if _rules(view.definition) != _rules(draft.view.definition) or view.base_number > draft.view.number:
            _overtaken("the log was brought forward, or the definition changed")
        for entry in view.overlay.entries(view.number):
            if entry.number > draft.view.number:
                self._check_entry(entry, draft)

    def check_open(self, view: View) -> None:
        """Raise ConflictError unless the job is open, since the entry that opened it for this driver. No requests.

        The outcome of a job may be forgotten, and another of its name be opened since.
        """
        known = view.jobs.known.get(self.target.job)
        if known is None or known.number != self.target.opened:
            self._refuse("it is not open any more, or was opened anew")

    def is_overtaken(self, error: ConflictError) -> bool:
        """Whether an error of the commit says that the draft must catch up."""
        return isinstance(error, OvertakenError)

    # --- parts ---

    @property
    def _blobs(self) -> frozenset[BlobKey]:
        """What the documents of all tasks refer to."""
        found = (BlobKey.parse(text) for report in self.reports for text in report.blobs)
        return frozenset(key for key in found if key is not None)

    @property
    def _runs(self) -> list[Sequence[BlockEntry]]:
        """What tasks wrote, run by run."""
        return [run for report in self.reports for run in report.runs]

    def _as_they_are(self) -> MergeResult | None:
        """The blocks of all tasks without writing them again; None if that must be.

        Forwarding has to make one run of them anyway, and any process may do it.
        """
        blocks = [block for run in self._runs for block in run]
        layers = runs_of(blocks)
        is_small = sum(block.length for block in blocks) < self.ledger.block_target
        if len(layers) < 2 or len(layers) > BULK_LAYERS_MAX or is_small or self.target.overwrite:
            return None
        told = [report.ids for report in self.reports if report.blocks]
        ids = [digests for digests in told if digests is not None]
        if len(ids) < len(told) or hashes_of(self.ledger, ids).repeated:
            return None
        return MergeResult([block for run in layers for block in run.entries])

    def _merger(self, definition: Definition) -> Merger:
        writer = self.ledger.block_writer(definition.columns)
        return Merger(replace(writer, bytes_target=self.target.block_target(self.ledger)), self.target.on_conflict)

    def _with_deletions(self, base: View, blocks: list[BlockEntry], sample: Sample) -> tuple[list[BlockEntry], Sample]:
        """The blocks with a row for each document that goes."""
        kept = hashes_of(self.ledger, [r.kept_ids for r in self.reports if r.kept_ids is not None])
        met: list[int] = [0]

        def going() -> Iterator[tuple[bytes, Row]]:
            for key, held in base.scan():
                if held.document is None:
                    continue
                if key_hash(key) in kept:
                    met[0] += 1
                else:
                    yield key, self._deletion(held)

        sampler = Sampler(note_gone=True)
        writer = BlockWriter(self.ledger.shelf, self.ledger.writer, self.ledger.block_target, base.definition.columns)
        gone = writer.write(sampler.watch(going()))
        if met[0] != len(kept) - len(kept.repeated):
            self._refuse("two ids have the same digest")
        merged = self._merger(base.definition).merge([blocks, gone])
        return merged.blocks, join_samples([sample, sampler.sample])

    def _deletion(self, held: StoredVersion) -> Row:
        assert held.document is not None
        mark = self.target.tombstone
        trash = None if mark is None else trashed(held.id, mark, held.document)
        return Row(json.decode(held.id, name="document id"), 0, held.seq + 1, None, trash)

    def _uncontested(self, draft: JobDraft) -> JobDraft:
        """Raise if a value that another document had when tasks looked is still that document's."""
        contested = [one for report in self.reports for one in report.contested]
        for index in draft.view.definition.unique if contested else ():
            own = [one for one in contested if one.index == index.name]
            owners = UniqueOwners.of(index, draft.view, self.ledger.trees).owners(one.value for one in own)
            taken = {id_key(owner) for owner in owners.values() if owner is not None}
            brought = self._rows(draft, taken)
            for one in own:
                owner = owners[one.value]
                if owner is not None and owner != one.claimant and id_key(owner) not in brought:
                    raise violation(draft.view, index, one.value, owner)
        return draft

    def _rows(self, draft: JobDraft, keys: AbstractSet[bytes]) -> dict[bytes, Row]:
        """The rows of a draft with these keys. Costs as `Runs.get_many`."""
        return draft.members.rows(self.ledger, sorted(keys))

    # --- what others wrote ---

    def _changed(self, entries: Sequence[Entry], draft: JobDraft) -> dict[bytes, tuple[bytes, bytes | None]]:
        """What entries left of each document that they changed: its id, and the document, by the key of the id."""
        found: dict[bytes, tuple[bytes, bytes | None]] = {}
        for entry in entries:
            for batch in entry.batches:
                for change in batch.changes:
                    found[id_key(change.id)] = change.id, change.after
            for event in entry.events:
                if isinstance(event, JobAttached):
                    for key, held in self._attached(event, entry, draft):
                        found[key] = held.id, held.document
        return found

    def _attached(self, event: JobAttached, entry: Entry, draft: JobDraft) -> Iterator[tuple[bytes, StoredVersion]]:
        """What another job attached, as far as it may concern this one."""
        base = self.ledger.attached(event, LogNumber(entry.number))
        if self.target.overwrite or self._claims or len(self._passed):
            return base.scan()
        if not draft.blocks:
            return iter(())
        low, high = min(block.key_first for block in draft.blocks), max(block.key_last for block in draft.blocks)
        rows = base.scan(low, high + b"\0")
        return ((key, held) for key, held in rows if self._concerns(key, draft))

    def _concerns(self, key: bytes, draft: JobDraft) -> bool:
        return self.target.overwrite or draft.members.may_have(key) or self._is_passed(key, draft)

    def _is_passed(self, key: bytes, draft: JobDraft) -> bool:
        return key in draft.passed or (len(self._passed) > 0 and key_hash(key) in self._passed)

    def _check_entry(self, entry: Entry, draft: JobDraft) -> None:
        unique = draft.view.definition.unique
        if any(isinstance(event, JobAttached) for event in entry.events):
            _overtaken(f"entry {entry.number} attached another job")
        for change in chain.from_iterable(batch.changes for batch in entry.batches):
            if self._concerns(id_key(change.id), draft):
                _overtaken(f"entry {entry.number} may have changed one of its documents")
            for index in unique:
                claims = self._claims.get(index.name)
                if claims and any(key_hash(value) in claims for value in keys_of(index, change.after)):
                    _overtaken(f"entry {entry.number} may have taken one of its values")

    def _check_values(self, changed: dict[bytes, tuple[bytes, bytes | None]], draft: JobDraft) -> None:
        """Raise if a document that was changed has a unique value now that a document of the job takes."""
        for index in draft.view.definition.unique:
            claims = self._claims.get(index.name, HashSet())
            suspects: dict[bytes, tuple[bytes, object]] = {}
            for key, (identity, document) in changed.items() if len(claims) else ():
                for value, shown in keys_of(index, document).items():
                    if key_hash(value) in claims and not self._rows(draft, {key}):
                        suspects[value] = identity, shown
            hashes = {key_hash(value) for value in suspects}
            for value, claimant in claimants(self.ledger, draft.blocks, index, hashes) if hashes else ():
                if value in suspects and suspects[value][0] != claimant:
                    owner, shown = suspects[value]
                    raise UniqueViolationError(
                        index=index.name,
                        field=index.label,
                        value=shown,
                        owner=json.decode(owner, name="document id"),
                    )

    def _mended(self, draft: JobDraft, before: View, keys: AbstractSet[bytes]) -> JobDraft:
        """The draft with the rows of some keys settled anew; what is there now is in its view."""
        if not keys:
            return draft
        ordered = sorted(keys)
        was, now = before.get_many(ordered), draft.view.get_many(ordered)
        own = self._rows(draft, keys)
        changes: dict[bytes, Row | None] = {}
        replaced, passed = draft.replaced, set(draft.passed)
        for key in ordered:
            row = own.get(key)
            if row is None and not self.target.overwrite:
                continue
            again = self._again(row, now.get(key), draft.view)
            replaced += _replaces(again, now.get(key)) - _replaces(row, was.get(key))
            if again != row:
                changes[key] = again
            if again is None and row is not None and row.document is not None:
                passed.add(key)
        if not changes:
            return draft
        merged = self._merger(draft.view.definition).merge([run.entries for run in draft.members.runs], changes)
        left = {key: row for key, row in draft.sample.rows.items() if key not in changes or changes[key] is not None}
        told = ((key, row.document) for key, row in changes.items() if row is not None)
        sample = Sample(left, draft.sample.limit).after(told, note_gone=True)
        members = Members.of(self.ledger, merged.blocks)
        return replace(draft, members=members, replaced=replaced, sample=sample, passed=frozenset(passed))

    def _again(self, row: Row | None, held: StoredVersion | None, view: View) -> Row | None:
        """What a row of the job is, now that something else is there."""
        is_there = held is not None and held.document is not None
        if row is None or row.document is None:
            return self._deletion(held) if held is not None and is_there else None
        if held is None or not is_there:
            return Row(row.id, 0, 1 if held is None else held.seq + 1, row.document)
        return replacing(self.target, self.documents, row.document, held, view)

    def _refuse(self, reason: str) -> NoReturn:
        raise ConflictError(
            f"job {self.target.job} on {self.ledger.collection}",
            reason=reason,
            fix="run it again: nothing was attached",
        )


@dataclass(frozen=True, slots=True)
class AttachGuard:
    """Refuses the entry of a job after anything that may concern its draft."""

    attaching: Attaching
    draft: JobDraft

    def check(self, view: View) -> None:
        """See `Guard`."""
        self.attaching.check_after(self.draft, view)


def _rules(definition: Definition) -> tuple[object, ...]:
    """What of a definition decides which documents there may be."""
    # A model may be what it was, and a mapping may have come nevertheless.
    return definition.body, definition.versions, definition.indexes.ready, definition.indexes.lists


def _replaces(row: Row | None, held: StoredVersion | None) -> int:
    is_new = row is not None and row.document is not None
    return int(is_new and held is not None and held.document is not None)


def _shown(changed: tuple[bytes, bytes | None]) -> str:
    return repr(json.decode(changed[0], name="document id"))


def _overtaken(reason: str) -> NoReturn:
    raise OvertakenError("a bulk job", reason=reason)
