"""History: every change of every document as one table, for audits: who changed what, and when."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from wormdb.format import json
from wormdb.format.past import Version, difference, misc_ms
from wormdb.jobs.place import Where, absolute
from wormdb.jobs.scan import JobScan
from wormdb.jobs.shares import Share, all_ranges
from wormdb.jobs.target import OutputFile, OutputFiles, finish, make_room, store_at
from wormdb.jobs.work import Item, Output, ProgressListener, Runner

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


__all__ = ["HistoryExport", "HistoryForm", "HistoryTable", "export_history"]

HistoryForm = Literal["parquet", "ndjson"]
BATCH_ROWS: Final = 4_096


@dataclass(frozen=True, slots=True)
class HistoryExport:
    """What an export of history wrote."""

    collection: str
    number: int
    """The log number of the state: the last change that is told."""
    rows: int
    size: int
    files: tuple[OutputFile, ...]


def export_history(  # noqa: PLR0913 - options of one call, each with a default
    where: Where,
    target: str,
    runner: Runner,
    told: ProgressListener | None = None,
    *,
    form: HistoryForm = "parquet",
    overwrite: bool = False,
    tasks: int | None = None,
) -> HistoryExport:
    """Write every change of a collection as a row to files in `target`, in order of id and change.

    1 LIST, a scan of history in all ranges, and 1 PUT for each file. Raises InvalidRequestError for a place that is not
    empty, and what the first piece that failed raised.
    """
    target = absolute(target)
    table = HistoryTable.of(where)
    store = store_at(target)
    make_room(store, target, overwrite=overwrite)
    bodies = runner.run("history", _HistoryPart(table, target, form), table.items(tasks), told)
    files = tuple(made for body in bodies for made in msgspec.msgpack.decode(body, type=list[OutputFile]))
    size = sum(each.size for each in files)
    result = HistoryExport(where.name, table.scan.number, sum(each.rows for each in files), size, files)
    finish(store, result)
    return result


@dataclass(frozen=True, slots=True)
class HistoryTable:
    """The changes of one state, cut into ranges of ids; a value that can be sent."""

    scan: JobScan

    @classmethod
    def of(cls, where: Where) -> HistoryTable:
        """Pin the state now. Costs and raises as `JobScan.of`."""
        return cls(JobScan.of(where))

    @staticmethod
    def schema() -> pa.Schema:
        """The columns: `id`, `metadata` and the documents are JSON; `changed` names the fields an update changed."""
        import pyarrow as pa

        return pa.schema(
            [
                ("id", pa.string()),
                ("seq", pa.int64()),
                ("log", pa.int64()),
                ("op", pa.string()),
                ("time", pa.timestamp("us", tz="UTC")),
                ("actor", pa.string()),
                ("metadata", pa.string()),
                ("changed", pa.list_(pa.string())),
                ("before", pa.string()),
                ("after", pa.string()),
            ]
        )

    def items(self, tasks: int | None = None) -> list[Item]:
        """Pieces of about one size. Costs as `all_ranges`."""
        found = all_ranges(self.scan.state, tasks=tasks)
        name = f"the history of {self.scan.state.where.name}"
        return [
            Item(f"part {number} of {len(found)} of {name}", msgspec.msgpack.encode((number - 1, share)), share.size)
            for number, share in enumerate(found, 1)
        ]

    def rows(self, body: bytes) -> Iterator[dict[str, Any]]:
        """The changes of one piece, in order of id. Costs as `History.documents` of its range."""
        _, share = msgspec.msgpack.decode(body, type=tuple[int, Share])
        state = self.scan.state
        stamped = state.model() is not None
        for recorded in state.ledger.shown_history(state.newest()).documents(share.span.low, share.span.high):
            before: Version | None = None
            for version in recorded.versions:
                yield _row(version, None if before is None else before.document, stamped=stamped)
                before = version

    def batches(self, body: bytes) -> Iterator[pa.RecordBatch]:
        """The same as Arrow batches."""
        import pyarrow as pa

        waiting: list[dict[str, Any]] = []
        for row in self.rows(body):
            waiting.append(row)
            if len(waiting) == BATCH_ROWS:
                yield pa.RecordBatch.from_pylist(waiting, schema=self.schema())
                waiting = []
        if waiting:
            yield pa.RecordBatch.from_pylist(waiting, schema=self.schema())


def _row(version: Version, before: bytes | None, *, stamped: bool) -> dict[str, Any]:
    is_compared = version.op == "update" and before is not None and version.document is not None
    changed = sorted(difference(before, version.document, stamped=stamped)) if is_compared else None
    return {
        "id": version.id.decode(),
        "seq": version.seq,
        "log": version.rev,
        "op": version.op,
        "time": misc_ms(version.misc) * 1000,
        "actor": version.actor,
        "metadata": None if version.meta is None else version.meta.decode(),
        "changed": changed,
        "before": None if before is None else before.decode(),
        "after": None if version.document is None else version.document.decode(),
    }


@dataclass(frozen=True, slots=True)
class _HistoryPart:
    """Writes one piece of history; a value that can be sent."""

    table: HistoryTable
    target: str
    form: HistoryForm

    def __call__(self, body: bytes, /) -> Output:
        """1 PUT for each file, beside the scan."""
        number, _ = msgspec.msgpack.decode(body, type=tuple[int, Share])
        self.table.scan.state.newest()  # opened first: that brings what the store of the target needs too
        parts = OutputFiles(store_at(self.target), number, self.form)
        for batch in self.table.batches(body):
            parts.gatherer("", lambda: _HistoryFile(self.form)).add(batch)
            parts.flush()
        parts.flush(is_last=True)
        return Output(msgspec.msgpack.encode(parts.made), sum(made.rows for made in parts.made))


@dataclass(slots=True)
class _HistoryFile:
    form: HistoryForm
    rows: int = 0
    size: int = 0
    _batches: list[pa.RecordBatch] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self.rows += batch.num_rows
        self.size += batch.nbytes

    def finish(self) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_batches(self._batches)
        if self.form == "ndjson":
            return b"".join(json.encode(row) + b"\n" for row in table.to_pylist())
        out = io.BytesIO()
        pq.write_table(table, out, compression="zstd")
        return out.getvalue()
