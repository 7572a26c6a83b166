"""One task of a bulk job: rows become sorted blocks under new names, and a report of them.

A task looks only at the state that the job began with, so it may run anywhere, again, or twice at a time. What it wrote
counts only if the report of just this attempt is attached.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NamedTuple

from wormdb.engine.blocks.memory import give_back_memory
from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.bulk.columns import DOCUMENT, DocumentTable
from wormdb.engine.bulk.inserts import sampled
from wormdb.engine.bulk.merge import Merger, twice
from wormdb.engine.bulk.portion import ColumnPortion, cuts, inserts_of
from wormdb.engine.bulk.report import ContestedValue, Digests, TaskReport, encode_report, pack_hashes
from wormdb.engine.commit.operations import Insert, Operation
from wormdb.engine.index.unique import UniqueOwners, keys_of
from wormdb.engine.lists.definition import check_lists
from wormdb.engine.log.objects import NewObject
from wormdb.engine.state.counted import check_counted
from wormdb.engine.state.view import StoredVersion, View, greatest_sequence, id_key
from wormdb.engine.tree.extract import extract
from wormdb.errors import AlreadyExistsError, InvalidRequestError, PermissionDeniedError, UniqueViolationError
from wormdb.format import json
from wormdb.format.blob import BLOB_FIELD, BlobKey, blob_keys_in
from wormdb.format.block import Row
from wormdb.format.key import encode_keys
from wormdb.format.membership import key_hashes
from wormdb.format.root import ObjectRef
from wormdb.format.sample import Sample, encode_sample
from wormdb.format.wrappers import moment
from wormdb.settings import BULK_DIGESTS_INLINE_MAX, BULK_LAYERS_MAX, BULK_PORTION_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from wormdb.engine.bulk.report import BulkTarget, DocumentMaker, JobLedger
    from wormdb.engine.tree.definition import Index
    from wormdb.format.blocklist import BlockEntry

__all__ = ["BulkTask", "digests_key", "join_samples", "replacing", "violation"]

SCAN_SHARE = 8
"""If a portion looks up more than this part of all documents, their range is scanned instead."""
PORTIONS_MAX = 16
"""As many runs a task leaves to the driver, which reads a block of each at a time."""


class _New(NamedTuple):
    """A document on its way in."""

    id: Any
    identity: bytes
    document: bytes
    fresh: bool


@dataclass(slots=True)
class BulkTask:
    """One attempt at one task. Give it inserts, then ask for the report. Not thread-safe."""

    ledger: JobLedger
    target: BulkTarget
    documents: DocumentMaker
    task: int = 0
    read: int = 0
    """Rows that were given, counted where inserts are made of them."""
    rejected: int = 0
    _view: View | None = None
    _waiting: list[Insert] = field(default_factory=list)
    _tables: list[DocumentTable] = field(default_factory=list)
    _table_size: int = 0
    _has_rows: bool = False
    """Whether something waits that did not come as columns."""
    _size: int = 0
    _portions: list[list[BlockEntry]] = field(default_factory=list)
    _claims: dict[str, array[int]] = field(default_factory=dict)
    _contested: list[ContestedValue] = field(default_factory=list)
    _count: int = 0
    """Documents that are replaced."""
    _ids: array[int] = field(default_factory=lambda: array("Q"))
    """Hashes of the keys of all ids, as far as any was given."""
    _kept: array[int] = field(default_factory=lambda: array("Q"))
    _passed: array[int] = field(default_factory=lambda: array("Q"))
    _left_out: int = 0
    _sequence: int = 0
    _samples: list[Sample] = field(default_factory=list)
    _owners: dict[str, UniqueOwners] = field(default_factory=dict)
    _blobs: set[BlobKey] = field(default_factory=set)

    @property
    def view(self) -> View:
        """The state that the job began with. Costs as `Ledger.unpin`, once."""
        if self._view is None:
            self._view = self.ledger.unpin(self.target.pinned)
        return self._view

    @property
    def _portion_max(self) -> int:
        return self.target.portion_bytes or BULK_PORTION_BYTES

    @property
    def _block_target(self) -> int:
        return self.target.block_target(self.ledger)

    def add(self, operations: Sequence[Operation]) -> None:
        """Take documents in. Now and then what has gathered is written: see `report` for what that costs.

        Raises AlreadyExistsError, UniqueViolationError, PermissionDeniedError, and InvalidRequestError for a document
        that an index cannot take, or whose id only the commit can make.
        """
        # Of rows with one id, that in the later portion is the later one.
        self._flush_columns()
        for operation in operations:
            if not isinstance(operation, Insert):
                raise InvalidRequestError(
                    f"bulk write to {self.target.collection}",
                    reason="a row has no id, and this model's ids are numbered by the commit",
                    fix="give an id to every row, or insert them with insert_many",
                )
            self._waiting.append(operation)
            self._size += len(operation.document)
        self._has_rows = True
        if self._size >= self._portion_max:
            self._flush()

    def add_columns(self, columns: DocumentTable) -> None:
        """As `add`, for documents that are columns. Costs and raises as that."""
        if self._has_rows:
            self._flush()
        if self._tables and self._tables[0].fresh != columns.fresh:
            self._flush_columns()
        self._tables.append(columns)
        self._table_size += columns.table.column(DOCUMENT).nbytes
        if self._table_size >= (self._block_target if columns.fresh else self._portion_max):
            self._flush_columns(is_end=False)

    def report(self) -> bytes:
        """Write what is left, and tell of all of it, as bytes for the driver. 2 PUTs for each block.

        Ids that were not made are looked up: as `View.get_many` costs, or a scan of their range; values of unique
        indexes as `UniqueOwners.owners`. Portions are runs, which the driver merges where they overlap; from very many
        one run is made here: costs as `Merger.merge`.
        """
        self._flush_columns()
        self._flush()
        portions, more, corrections = self._portions, 0, []
        if len(portions) > PORTIONS_MAX:
            merged = self._merger().merge(portions)
            portions = [merged.blocks]
            existing = self._existing(sorted(merged.times))
            # Each was counted once for each row.
            more = sum(merged.times[key] for key, held in existing.items() if held.document is not None)
            corrections = [(key, row.document) for key, row in merged.dropped.items()]
        return encode_report(
            TaskReport(
                job=self.target.job,
                task=self.task,
                blocks=tuple(chain.from_iterable(portions)),
                cuts=tuple(accumulate(map(len, portions[:-1]))),
                read=self.read,
                rejected=self.rejected,
                replaced=self._count - more,
                passed=self._left_out,
                sequence=self._sequence,
                sample=encode_sample(join_samples(self._samples).after(corrections, note_gone=True)),
                claims=tuple(self._digests(name, hashes) for name, hashes in sorted(self._claims.items())),
                contested=tuple(self._contested),
                kept_ids=self._digests("", self._kept) if self.target.overwrite else None,
                passed_ids=self._digests("", self._passed) if self._passed else None,
                ids=self._digests("", self._ids) if self._ids and len(portions) <= BULK_LAYERS_MAX else None,
                blobs=tuple(sorted(map(str, self._blobs))),
            )
        )

    def _merger(self) -> Merger:
        return Merger(self._writer(), self.target.on_conflict)

    # --- one portion ---

    def _flush(self) -> None:
        waiting, self._waiting, self._size, self._has_rows = self._waiting, [], 0, False
        if not waiting:
            return
        new = self._distinct(waiting)
        existing = self._existing([key for key, one in new.items() if not one.fresh])
        rows = self._settled(new, existing)
        self._check_indexes([json.encode(row.id) for row in rows.values()], [row.document for row in rows.values()])
        self._blobs.update(*(blob_keys_in(row.document) for row in rows.values()))
        self._write(rows)

    def _flush_columns(self, *, is_end: bool = True) -> None:
        """Write what has gathered as columns; before the end only whole blocks of documents in order."""
        import pyarrow as pa

        parts, self._tables, self._table_size = self._tables, [], 0
        if not parts:
            return
        # Its columns stay in pieces: a copy of all documents would cost about as much as making them.
        table = pa.concat_tables([part.table for part in parts], promote_options="default")
        if parts[0].fresh and not is_end:
            *_, (last, _) = cuts(table.column(DOCUMENT), self._block_target)
            if last:
                rest, table = table.slice(last), table.slice(0, last)
                self._tables, self._table_size = [DocumentTable(rest, fresh=True)], rest.column(DOCUMENT).nbytes
        portion = ColumnPortion.of(table, fresh=parts[0].fresh)
        if portion is None:
            self._settle(table, fresh=parts[0].fresh)
            return
        met = {} if portion.fresh else self._existing(portion.keys)
        if met:
            places = portion.places(met)
            self._settle(portion.table.take(pa.array(places, pa.int64())), fresh=False)
            portion = portion.without(places)
        if portion.keys:
            self._write_columns(portion)

    def _settle(self, table: pa.Table, *, fresh: bool) -> None:
        """Rows that meet others are settled one by one."""
        self._waiting += inserts_of(table, fresh=fresh)
        self._size += table.column(DOCUMENT).nbytes
        if self._size >= self._portion_max:
            self._flush()

    def _write_columns(self, portion: ColumnPortion) -> None:
        for index in self.view.definition.indexes.ready:
            self._note_columns(index, portion)
        if lists := self.view.definition.indexes.lists:
            texts = (text.as_py() for text in portion.table.column(DOCUMENT))
            check_lists(lists, (json.decode_document(text.encode(), name="document") for text in texts))
        if self.view.definition.indexes.owners is not None:  # only then is there anything to refer to, at any depth
            self._blobs |= _blobs_of(portion.table.column(DOCUMENT))
        self._sequence = max(self._sequence, portion.sequence())
        columns, writer = self.view.definition.columns, self._writer()
        now = None if self.view.definition.model is None else moment(self.target.started_ms)
        self._portions.append([writer.put(b) for b in portion.blocks(columns, self._block_target, now)])
        give_back_memory()
        self._samples.append(portion.sample())
        if not portion.fresh:
            self._ids.extend(portion.hashes)

    def _note_columns(self, index: Index, portion: ColumnPortion) -> None:
        """As `_check_indexes`, without a look at each document where that is possible."""
        fits = portion.fits(index)
        if fits and not index.unique:
            return
        is_asked = not self.target.overwrite and self.view.count > 0
        keys = portion.text_keys(index) if fits and not is_asked else None
        if keys is not None:
            self._claims.setdefault(index.name, array("Q")).extend(key_hashes(keys))
            return
        identities = portion.identities()
        self._note_keys(index, identities, portion.index_keys(index, identities))

    def _distinct(self, waiting: Sequence[Insert]) -> dict[bytes, _New]:
        """Documents in order of key; of those with one id the one that the rule says."""
        ids = [json.decode(insert.id, name="document id") for insert in waiting]
        keys = encode_keys(ids)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        found: dict[bytes, _New] = {}
        for place in order:
            insert, key = waiting[place], keys[place]
            if key in found:
                if self.target.on_conflict == "error":
                    raise twice(Row(ids[place], 0, 0, None))
                self._left_out += 1
                if self.target.on_conflict == "ignore":
                    continue
            found[key] = _New(ids[place], insert.id, insert.document, insert.fresh)
        self._sequence = max(self._sequence, greatest_sequence(insert.id for insert in waiting))
        return found

    def _existing(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        """What there was under some keys, in order, when the job began."""
        view = self.view
        if not keys or not view.number:
            return {}
        if len(keys) * SCAN_SHARE < view.count:
            return view.get_many(keys)
        found = view.scan(keys[0], keys[-1] + b"\0")
        return {key: held for key, held in found if keys[bisect_left(keys, key)] == key}

    def _settled(self, new: Mapping[bytes, _New], existing: Mapping[bytes, StoredVersion]) -> dict[bytes, Row]:
        """The rows that the new documents are, with regard to what there was."""
        rows: dict[bytes, Row] = {}
        replaced: list[bytes] = []
        passed: list[bytes] = []
        for key, one in new.items():
            held = existing.get(key)
            if held is None:
                check_counted(one.identity, self.view.definition.model)
            if held is None or held.document is None:
                rows[key] = Row(one.id, 0, 1 if held is None else held.seq + 1, one.document)
                continue
            row = replacing(self.target, self.documents, one.document, held, self.view)
            if row is None:
                passed.append(key)
            else:
                rows[key] = row
                replaced.append(key)
        self._count += len(replaced)
        self._left_out += len(passed)
        self._passed.extend(key_hashes(passed))
        if self.target.overwrite:
            self._kept.extend(key_hashes([*replaced, *passed]))
        return rows

    def _check_indexes(self, identities: Sequence[bytes], documents: Sequence[bytes | None]) -> None:
        """Note what documents take in unique indexes; raise for what an index cannot take, or another document has."""
        for index in self.view.definition.indexes.ready:
            self._note_keys(index, identities, extract(index, identities, documents).keys)
        if lists := self.view.definition.indexes.lists:
            there = (document for document in documents if document is not None)
            check_lists(lists, (json.decode_document(document, name="document") for document in there))

    def _note_keys(self, index: Index, identities: Sequence[bytes], keys: Sequence[Sequence[bytes]]) -> None:
        if not index.unique:
            return
        self._claims.setdefault(index.name, array("Q")).extend(key_hashes(chain.from_iterable(keys)))
        if not self.target.overwrite and self.view.count:
            self._check_owners(index, identities, keys)

    def _check_owners(self, index: Index, identities: Sequence[bytes], keys: Sequence[Sequence[bytes]]) -> None:
        if index.name not in self._owners:
            self._owners[index.name] = UniqueOwners.of(index, self.view, self.ledger.trees)
        owners = self._owners[index.name].owners(chain.from_iterable(keys))
        for identity, own in zip(identities, keys, strict=True):
            for value in own:
                owner = owners[value]
                if owner is None or owner == identity:
                    continue
                if self.target.on_conflict != "replace":
                    raise violation(self.view, index, value, owner)
                self._contested.append(ContestedValue(index.name, value, identity))

    def _write(self, rows: dict[bytes, Row]) -> None:
        if rows:
            self._portions.append(self._writer().write_side_by_side(rows.items()))
            give_back_memory()
            self._samples.append(sampled(rows))
            self._ids.extend(key_hashes(rows))

    def _writer(self) -> BlockWriter:
        columns = self.view.definition.columns
        return BlockWriter(self.ledger.shelf, self.ledger.writer, self._block_target, columns)

    def _digests(self, name: str, hashes: array[int]) -> Digests:
        packed = pack_hashes(hashes)
        if len(packed) <= BULK_DIGESTS_INLINE_MAX:
            return Digests(name=name, packed=packed)
        stored = self.ledger.writer.new_name()
        self.ledger.writer.put(NewObject(digests_key(self.ledger, stored), packed))
        return Digests(name=name, stored=ObjectRef(name=stored, sha256=sha256(packed).digest(), length=len(packed)))


def _blobs_of(documents: pa.ChunkedArray) -> set[BlobKey]:
    """The blobs that documents of a column refer to; few are looked into."""
    import pyarrow.compute as pc

    marked = documents.filter(pc.match_substring(documents, f'"{BLOB_FIELD}"')).to_pylist()
    return {key for text in marked for key in blob_keys_in(text.encode())}


def replacing(
    target: BulkTarget, documents: DocumentMaker, document: bytes, held: StoredVersion, view: View
) -> Row | None:
    """The row of a new document where another one is; None if that stays. Raises as the rule of the job says."""
    identity = json.decode(held.id, name="document id")
    if target.on_conflict == "error" and not target.overwrite:
        raise AlreadyExistsError(
            f"document {identity!r} in {target.collection}",
            reason="it exists already",
            fix='choose on_conflict "replace" or "ignore", or other ids',
            key=held.id.decode(),
        )
    if target.on_conflict == "ignore" and not target.overwrite:
        return None
    if view.definition.model is not None and view.definition.model.mode == "append":
        raise PermissionDeniedError(
            f"document {identity!r} in {target.collection}",
            reason="it exists already, and the collection is append-only",
            fix="insert new documents instead",
        )
    changed = documents.replaced(document, held)
    return None if changed is None else Row(identity, 0, held.seq + 1, changed)


def violation(view: View, index: Index, value: bytes, owner: bytes) -> UniqueViolationError:
    """What is said of a value that a document of a state has. Costs as `View.get` of that document."""
    held = view.get(id_key(owner))
    shown = {} if held is None else keys_of(index, held.document)
    return UniqueViolationError(
        index=index.name,
        field=index.label,
        value=shown.get(value, "…"),
        owner=json.decode(owner, name="document id"),
    )


def digests_key(ledger: JobLedger, name: str) -> str:
    """The object that has the digests of a task."""
    return f"{ledger.shelf.folder}{name}.hashes"


def join_samples(samples: Iterable[Sample]) -> Sample:
    """The sample of several parts that have no id in common. No requests."""
    known = list(samples)
    rows = {key: row for sample in known for key, row in sample.rows.items()}
    joined = Sample(limit=min((sample.limit for sample in known), default=Sample().limit))
    return joined.after(((key, row or None) for key, row in rows.items()), note_gone=True)
