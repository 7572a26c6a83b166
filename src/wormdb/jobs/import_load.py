"""The work of an import in its workers: records become blocks, or tell what stands against them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from wormdb.engine.bulk.columns import ColumnMaker, TaskChance, job_clock
from wormdb.engine.bulk.rows import ID_COLUMNS
from wormdb.engine.bulk.task import BulkTask
from wormdb.errors import AlreadyExistsError, ConflictError, InvalidRequestError, WormError
from wormdb.jobs.import_conflicts import Losers, Standing, Suspect, pack_keys, suspects_of, taken
from wormdb.jobs.import_intake import Intake, RejectedRecord, with_id_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wormdb.api.access import Access
    from wormdb.api.write import Writer
    from wormdb.engine.bulk.report import BulkTarget
    from wormdb.jobs.import_conflicts import Fate, Keys
    from wormdb.jobs.import_intake import New
    from wormdb.jobs.import_read import Rows
    from wormdb.jobs.place import Where

__all__ = ["Loaded", "Loading", "documents_of"]


class Loaded(msgspec.Struct, frozen=True):
    """What became of the records of one piece."""

    report: bytes
    read: int
    lines: int
    """In a piece that is a part of a file of lines; 0 if lines are known."""
    rejected: list[RejectedRecord]
    conflict: str = ""
    """Why nothing of it was written: records have to be looked at one by one."""


class _ConflictError(Exception):
    """Some record cannot be written."""


@dataclass(frozen=True, slots=True)
class Loading:
    """How records of one job are loaded; a value that can be sent."""

    where: Where
    target: BulkTarget
    id_field: str | None = None
    texts: tuple[tuple[str, str], ...] = ()
    """What columns of text stand for, in a table."""
    is_careful: bool = False
    """Whether records that stand against others are set aside, which takes longer."""

    def load(self, number: int, rows: Iterable[Rows], losers: Losers) -> Loaded:
        """Write the records of one piece, without those that others are preferred to. Costs and raises as `BulkTask`.

        If one cannot be written, and nobody was careful, nothing is, and the result says so.
        """
        access = self.where.access()
        intake = Intake(documents_of(access, self.target, number), self.id_field, dict(self.texts))
        task = BulkTask(access.ledger, self.target, intake.documents, number)
        standing = Standing(task.ledger, task.view, self.target.on_conflict) if self.is_careful else None
        filling = _Filling(task, intake, standing, losers, self._maker(access, number))
        lines = 0
        try:
            for some in rows:
                lines += some.lines
                filling.add(some)
            report = filling.report()
        except _ConflictError as conflict:
            return Loaded(b"", intake.read, lines, [], str(conflict))
        return Loaded(report, intake.read, lines, intake.rejected)

    def keys(self, number: int, rows: Iterable[Rows]) -> bytes:
        """Hashes of all ids and unique values that the records of a piece bring. Costs as `Standing.keys`."""
        return pack_keys(
            key for _, found in self._looked(number, rows) for own in found if isinstance(own, list) for key in own
        )

    def suspects(self, number: int, rows: Iterable[Rows], hashes: frozenset[int]) -> list[Suspect]:
        """The records of a piece with keys whose hashes are among some. Costs as `Standing.keys`."""
        return [suspect for news, found in self._looked(number, rows) for suspect in suspects_of(news, found, hashes)]

    def _looked(
        self, number: int, rows: Iterable[Rows]
    ) -> Iterator[tuple[Sequence[New], Sequence[Keys | WormError | Fate]]]:
        access = self.where.access()
        ledger = access.ledger
        intake = Intake(documents_of(access, self.target, number), self.id_field, dict(self.texts))
        standing = Standing(ledger, ledger.unpin(self.target.pinned), self.target.on_conflict)
        for some in rows:
            news = intake.take(some)
            yield news, standing.keys(news)

    def _maker(self, access: Access[Any], number: int) -> ColumnMaker:
        model = access.writer.model
        chance = TaskChance(access.ledger.writer.chance, "ulid" if model is None else model.id, number)
        return ColumnMaker(model, job_clock(self.target.started_ms), chance)


def documents_of(access: Access[Any], target: BulkTarget, task: int) -> Writer[Any]:
    """Makes documents of the job's moment, with ids of the task's own. No requests."""
    model = access.writer.model
    chance = TaskChance(access.ledger.writer.chance, "ulid" if model is None else model.id, task)
    return access.writer.at(job_clock(target.started_ms), chance)


@dataclass(slots=True)
class _Filling:
    """One task on its way."""

    task: BulkTask
    intake: Intake
    standing: Standing | None
    losers: Losers
    maker: ColumnMaker

    def add(self, rows: Rows) -> None:
        if rows.batch is not None and self.standing is None and self._add_columns(rows):
            return
        news = self.intake.take(rows)
        self.task.read += len(news)
        if self.standing is not None:
            news = self._sifted(news, self.standing)
        self._try(lambda: self.task.add([new.insert for new in news]))

    def report(self) -> bytes:
        found: list[bytes] = []
        self._try(lambda: found.append(self.task.report()))
        return found[0]

    def _add_columns(self, rows: Rows) -> bool:
        """Take rows in column by column, if that can be."""
        assert rows.batch is not None, "records have no columns"
        names, own = rows.batch.schema.names, self.intake.id_field
        if self.intake.texts:
            return False
        if own in names and own not in ID_COLUMNS and any(name in ID_COLUMNS for name in names):
            return False  # two ids: each row says which of them it has
        columns = self.maker.columns(with_id_column(rows.batch, own, self.intake.model))
        if columns is None:
            return False
        self.intake.read += rows.batch.num_rows
        self.task.read += rows.batch.num_rows
        self._try(lambda: self.task.add_columns(columns))
        return True

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except (AlreadyExistsError, InvalidRequestError) as error:
            if self.task.target.on_conflict == "replace":
                raise _sendable(error) from error
            if self.standing is None:
                raise _ConflictError(str(error)) from error
            raise _sendable(error) from error

    def _sifted(self, news: Sequence[New], standing: Standing) -> list[New]:
        """The records that nothing stands against; of those to be ignored the task takes care."""
        kept = []
        for new, found in zip(news, standing.keys(news), strict=True):
            lost = self.losers.get(new.place)
            if isinstance(found, WormError):
                self.intake.reject(new.file, new.record, found)
            elif lost is None:
                kept.append(new)
            elif lost not in found:
                raise ConflictError(
                    f"{new.file}, line {new.record.line:,}",
                    reason="it is another record than a moment ago",
                    fix="run the import again when the data stay as they are",
                )
            elif lost[0] or standing.rule != "ignore":
                self.intake.reject(new.file, new.record, taken(new, lost[0]))
        return kept


def _sendable(error: WormError) -> WormError:
    """An error whose kind can be made of what it says."""
    kind = AlreadyExistsError if isinstance(error, AlreadyExistsError) else type(error)
    return kind(error.what, reason=error.reason, fix=error.fix)
