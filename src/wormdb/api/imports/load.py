"""The records of one piece as blocks of a bulk job, or what stands against them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wormdb.api.imports.conflicts import Claims, Fate, Losers, Standing, Suspect, pack_keys, suspects_of
from wormdb.api.imports.intake import Intake, New, Rejection, with_id_column
from wormdb.engine.bulk.columns import ColumnMaker, TaskChance, job_clock
from wormdb.engine.bulk.rows import ID_COLUMNS
from wormdb.engine.bulk.task import BulkTask
from wormdb.errors import AlreadyExistsError, ConflictError, InvalidRequestError, WormError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wormdb.api.access import Access
    from wormdb.api.imports.rows import Rows
    from wormdb.api.write import Writer
    from wormdb.engine.bulk.report import BulkTarget

__all__ = ["ConflictFoundError", "ImportLoader", "LoadRules", "documents_of"]


class ConflictFoundError(Exception):
    """Some record cannot be written: records have to be looked at one by one."""


@dataclass(frozen=True, slots=True)
class LoadRules:
    """How the records of one job are loaded; a value that can be sent."""

    target: BulkTarget
    id_field: str | None = None
    texts: tuple[tuple[str, str], ...] = ()
    """What columns of text stand for, in a table."""
    needs_ids: bool = False
    """Whether a record is rejected if a second run would give it another id."""
    is_careful: bool = False
    """Whether records that stand against others are rejected, which takes longer."""


@dataclass(frozen=True, slots=True)
class ImportLoader:
    """Loads the records of one piece."""

    access: Access[Any]
    rules: LoadRules
    task: int = 0
    number: int | None = None
    """The greatest id of a collection that numbers its documents, if this is the only piece."""

    def load(self, rows: Iterable[Rows], losers: Losers, reject: Callable[[Rejection], None]) -> tuple[bytes, int]:
        """Write the records without those that others are preferred to; the report, and how many were read.

        `reject` is told of each record that is not written. Costs and raises as `BulkTask`, and ConflictFoundError if
        one stands against others and the rules are not careful.
        """
        waiting: list[Rejection] = []
        intake = self._intake(waiting.append)
        target = self.rules.target
        task = BulkTask(self.access.ledger, target, intake.documents, self.task)
        standing = Standing(task.ledger, task.view, target.on_conflict) if self.rules.is_careful else None
        filling = _Filling(task, intake, standing, losers, self._maker())
        for some in rows:
            filling.add(some)
            for rejected in sorted(waiting, key=lambda each: each.record.line):
                reject(rejected)
            waiting.clear()
        return filling.report(), intake.read

    def keys(self, rows: Iterable[Rows]) -> bytes:
        """Hashes of all ids and unique values that the records of a piece bring. Costs as `Standing.claims`."""
        return pack_keys(claims for _, found in self._looked(rows) for claims in found if isinstance(claims, Claims))

    def suspects(self, rows: Iterable[Rows], hashes: frozenset[int]) -> list[Suspect]:
        """The records of a piece with keys whose hashes are among some. Costs as `Standing.claims`."""
        return [suspect for news, found in self._looked(rows) for suspect in suspects_of(news, found, hashes)]

    def _looked(self, rows: Iterable[Rows]) -> Iterator[tuple[Sequence[New], Sequence[Claims | WormError | Fate]]]:
        ledger = self.access.ledger
        intake = self._intake(lambda _: None)
        standing = Standing(ledger, ledger.unpin(self.rules.target.pinned), self.rules.target.on_conflict)
        for some in rows:
            news = intake.take(some)
            yield news, standing.claims(news)

    def _intake(self, reject: Callable[[Rejection], None]) -> Intake:
        return Intake(
            documents_of(self.access, self.rules.target, self.task),
            reject,
            self.rules.id_field,
            dict(self.rules.texts),
            self.rules.needs_ids,
            self.number,
        )

    def _maker(self) -> ColumnMaker:
        model = self.access.writer.model
        chance = TaskChance(self.access.ledger.writer.chance, "ulid" if model is None else model.id, self.task)
        return ColumnMaker(model, job_clock(self.rules.target.started_ms), chance)


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
            if self.standing is None:
                raise ConflictFoundError(str(error)) from error
            raise _sendable(error) from error

    def _sifted(self, news: Sequence[New], standing: Standing) -> list[New]:
        """The records that nothing stands against. Those that are ignored, or come before a later one, go silently."""
        kept = []
        for new, found in zip(news, standing.claims(news), strict=True):
            loss = self.losers.get(new.place)
            if isinstance(found, WormError):
                self.intake.reject(Rejection.of(new.file, new.record, found))
            elif loss is None or found == "ignored":
                kept.append(new)
            elif (loss.name, loss.key) not in found.keys:
                raise ConflictError(
                    f"{new.file}, line {new.record.line:,}",
                    reason="it is another record than a moment ago",
                    fix="run the import again when the data stay as they are",
                )
            elif loss.name or standing.rule == "error":
                self.intake.reject(Rejection.of(new.file, new.record, standing.lost(new, found, loss)))
        return kept


def _sendable(error: WormError) -> WormError:
    """An error whose kind can be made of what it says."""
    kind = AlreadyExistsError if isinstance(error, AlreadyExistsError) else type(error)
    return kind(error.what, reason=error.reason, fix=error.fix)
