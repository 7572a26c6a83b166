"""Import a table or any other frame of Spark: checked row by row, with the bad ones set aside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from wormdb import errors
from wormdb.api.imports.conflicts import Losers, Suspect
from wormdb.api.imports.load import ImportLoader, LoadRules
from wormdb.api.imports.rows import Rows
from wormdb.errors import NotFoundError, WormError
from wormdb.jobs.import_ import ImportReport, ImportRules, LoadedPiece, import_pieces, join_loads, load_piece
from wormdb.jobs.infer import InferredModel, infer_rows
from wormdb.jobs.place import Where
from wormdb.jobs.work import Output, Result, attempt
from wormdb.spark.register import store_variables
from wormdb.spark.sink import task_number
from wormdb.spark.types import KIND_METADATA
from wormdb.spark.write import error_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

    from wormdb.api.imports.run import Loads

__all__ = ["import_frame", "import_table", "infer_table"]

_INFERRED_ROWS: Final = 10_000


def import_frame(
    df: DataFrame,
    url: str,
    model: str | None = None,
    *,
    collection: str | None = None,
    outer: Mapping[str, Any] | None = None,
    rules: ImportRules | None = None,
) -> ImportReport:
    """Import the rows of a frame by one entry of the log; those that do not fit are told in the result.

    Each partition of the frame is one piece of the job. If rows stand against each other or against documents, the
    frame is evaluated again, up to three times more: it has to give the same rows then. Nothing is shuffled. Costs and
    raises as `wormdb.jobs.import_.import_files`.
    """
    return _imported(df, Where.named(url, model, collection, outer, store_variables(df.sparkSession)), rules)


def import_table(where: Where, table: str, rules: ImportRules) -> ImportReport:
    """Import a table of the session that runs. Costs and raises as `import_frame`, and NotFoundError for no table."""
    return _imported(_table(table), where, rules)


def infer_table(table: str, folder: str, id_field: str | None) -> InferredModel:
    """The model of a table of the session that runs, at a path such as `@customers`: of its first rows.

    No requests of ours; raises NotFoundError for no table.
    """
    batches = _table(table).limit(_INFERRED_ROWS).toArrow().to_batches()
    return infer_rows((Rows(table, batch=batch) for batch in batches), folder, id_field)


def _table(name: str) -> DataFrame:
    spark = SparkSession.active()
    try:
        return spark.table(name)
    except AnalysisException as error:
        reason = str(error).partition("\n")[0]
        raise NotFoundError(
            f"table {name}", reason=reason, fix="check the name, and the catalog of --master"
        ) from error


def _imported(df: DataFrame, where: Where, rules: ImportRules | None) -> ImportReport:
    texts = [(field.name, str(field.metadata[KIND_METADATA])) for field in df.schema if KIND_METADATA in field.metadata]
    chosen = rules or ImportRules()
    chosen = replace(chosen, texts=(*chosen.texts, *texts))
    return import_pieces(where, chosen, lambda: _Frame(df, where))


@dataclass(slots=True)
class _Frame:
    """The partitions of a frame as pieces. Those that Spark leaves out, because they are empty, are none."""

    df: DataFrame
    where: Where

    def small(self) -> None:
        """Workers are for much."""

    def load(self, rules: LoadRules, losers: Sequence[Losers]) -> Loads:
        known, where = dict(enumerate(losers)), self.where

        def load(number: int, rows: Iterator[Rows]) -> Output:
            found = load_piece(where.access(), rules, number, rows, known.get(number, {}))
            return Output(msgspec.msgpack.encode(found), found.read)

        return join_loads([msgspec.msgpack.decode(body, type=LoadedPiece) for body in self._run(load) if body])

    def keys(self, rules: LoadRules) -> list[bytes]:
        where = self.where
        return self._run(lambda number, rows: Output(ImportLoader(where.access(), rules, number).keys(rows)))

    def suspects(self, rules: LoadRules, hashes: frozenset[int]) -> list[list[Suspect]]:
        where = self.where

        def find(number: int, rows: Iterator[Rows]) -> Output:
            return Output(msgspec.msgpack.encode(ImportLoader(where.access(), rules, number).suspects(rows, hashes)))

        return [msgspec.msgpack.decode(body, type=list[Suspect]) if body else [] for body in self._run(find)]

    def _run(self, work: Callable[[int, Iterator[Rows]], Output]) -> list[bytes]:
        """What each partition came to, in order of their numbers; nothing where there is none."""

        def do(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
            import pyarrow as pa

            number = task_number()
            result = attempt(lambda _: work(number, _rows(number, batches)), number, b"")
            yield pa.record_batch({"result": pa.array([result.encode()], pa.binary())})

        try:
            answers = self.df.mapInArrow(do, "result binary").collect()
        except Exception as error:
            found = error_in(str(error)) or WormError("import failed on Spark", reason=str(error).partition("\n")[0])
            raise found from error
        results = sorted((Result.decode(bytes(row.result)) for row in answers), key=lambda result: result.number)
        bodies = [b""] * (1 + max((result.number for result in results), default=-1))
        for result in results:
            if result.failure is not None:
                kind: type[WormError] = getattr(errors, result.failure.kind, WormError)
                what = f"import stopped at part {result.number + 1} of the frame: {result.failure.what}"
                raise kind(what, reason=result.failure.reason, fix=result.failure.fix)
            bodies[result.number] = result.body
        return bodies


def _rows(number: int, batches: Iterable[RecordBatch]) -> Iterator[Rows]:
    first = 0
    for batch in batches:
        yield Rows(f"part {number + 1} of the frame", batch=batch, first=first)
        first += batch.num_rows
