"""`format("worm")`: what Spark asks of a source.

Spark makes a `WormSource` in a planning process, pickles it, and asks it for readers and writers in other ones. The
state is pinned when the schema is asked for; then every task, and every action on the same DataFrame, reads that state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from wormdb.errors import InvalidRequestError
from wormdb.jobs.place import Where
from wormdb.jobs.row_filter import RowBounds, RowFilter
from wormdb.jobs.scan import share_portions, written_filter
from wormdb.jobs.shares import Share, shares
from wormdb.jobs.state import PinnedState
from wormdb.spark.read.cells import NO_SCORES, batches, names_of
from wormdb.spark.read.filters import narrowing_of
from wormdb.spark.read.infer import columns_of_schema, columns_of_state
from wormdb.spark.read.ranked import RANKING_OPTIONS, RankedShare, rank_shares, read_ranking
from wormdb.spark.sink import WormWriter
from wormdb.spark.types import SparkColumn, arrow_schema, spark_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from wormdb.query.request import QueryRequest


__all__ = ["READ_OPTIONS", "PushingReader", "RankedReader", "SparkScan", "WormReader", "WormSource"]

READ_OPTIONS: Final = frozenset({"as_of", "columns", "filter", "partitions", "pushdown"}) | RANKING_OPTIONS
"""What a reader takes beside where the collection is."""


class WormSource(DataSource):
    """A collection as a table of Spark; `wormdb.spark.register` makes it known."""

    variables: ClassVar[Mapping[str, str]] = {}
    """What workers add to their environment before they open the store; set by `register`, never an option."""
    pushes: ClassVar[bool] = False
    """Whether Spark's filters may choose the blocks of a scan; set by `register`, see `keeps_filters_apart`."""

    _state: PinnedState | None = None

    @classmethod
    def name(cls) -> str:
        """What `format(…)` takes."""
        return "worm"

    def schema(self) -> StructType:
        """The columns of the model, or those that the state shows; with the option `columns` only these.

        Pins the state: costs as `PinnedState.of`. Raises InvalidRequestError, NotFoundError, SnapshotTooOldError.
        """
        self._state = self._pinned()
        is_ranked = read_ranking(self.options) is not None
        columns = columns_of_state(self._state.newest(), self._state.model(), self._names(), is_ranked=is_ranked)
        return StructType([spark_field(column) for column in columns])

    def reader(self, schema: StructType) -> WormReader:
        """Reads the columns of `schema`, of the state that was pinned. Costs as `schema` if none was."""
        state = self._state or self._pinned()
        if self._names() is not None and self._state is None:
            raise InvalidRequestError(
                "option columns", reason="a schema was given too, which names the columns", fix="give one of the two"
            )
        text, ranking = self.options.get("filter"), read_ranking(self.options)
        is_ranked = ranking is not None
        scan = SparkScan(
            state,
            tuple(columns_of_schema(state.newest(), state.model(), schema, is_ranked=is_ranked)),
            schema,
            None if text is None or is_ranked else RowFilter.of(written_filter(state.where, text).text),
            self._tasks(),
        )
        if ranking is not None:
            return RankedReader(scan, ranking, text)
        return PushingReader(scan) if self._is_pushing() else WormReader(scan)

    def writer(self, schema: StructType, overwrite: bool) -> WormWriter:
        """Writes rows of `schema` as one bulk job, which is opened here. Costs and raises as `WormWriter.of`."""
        return WormWriter.of(self.options, self.variables, schema, overwrite=overwrite)

    def _pinned(self) -> PinnedState:
        where = Where.of(self.options, self.variables, READ_OPTIONS)
        return PinnedState.of(where, self.options.get("as_of"))

    def _names(self) -> list[str] | None:
        text = self.options.get("columns")
        return None if text is None else [name.strip() for name in text.split(",") if name.strip()]

    def _tasks(self) -> int | None:
        text = self.options.get("partitions")
        if text is not None and not (text.isdecimal() and int(text)):
            raise InvalidRequestError(f"option partitions={text}", reason="it must be a number", fix="give 1 or more")
        return None if text is None else int(text)

    def _is_pushing(self) -> bool:
        text = self.options.get("pushdown", "auto").lower()
        if text not in ("auto", "on", "off"):
            raise InvalidRequestError(
                f"option pushdown={text}", reason="it must be auto, on or off", fix="leave it out"
            )
        return self.pushes if text == "auto" else text == "on"


@dataclass(frozen=True, slots=True)
class SparkScan:
    """What is read: a value that Spark pickles for each task."""

    state: PinnedState
    columns: tuple[SparkColumn, ...]
    """Those of `schema`, in its order."""
    schema: StructType
    filter: RowFilter | None = None
    tasks: int | None = None
    """How many are wanted."""

    def narrowing(self) -> RowBounds:
        """What the option `filter` says. No requests."""
        return RowBounds() if self.filter is None else self.filter.narrowing()

    def read(self, share: Share, scores: Mapping[bytes, float] = NO_SCORES) -> Iterator[pa.RecordBatch]:
        """The rows of one share. Costs as `scan_columns` of its range, or as `get_many` of its keys.

        Rows of keys come in the order of these; `scores` are theirs, if they were ranked.
        """
        portions = share_portions(self.state, share, names_of(self.columns), self.filter)
        return batches(portions, self.columns, arrow_schema(self.schema), scores)


class WormReader(DataSourceReader):
    """One scan of one state."""

    def __init__(self, scan: SparkScan) -> None:
        """No requests."""
        self.scan = scan

    def partitions(self) -> list[InputPartition]:
        """The shares of all tasks. Costs as `shares`."""
        return self._shared(self.scan.narrowing())

    def _shared(self, narrowing: RowBounds) -> list[InputPartition]:
        found = shares(self.scan.state, narrowing, tasks=self.scan.tasks)
        return [InputPartition(share) for share in found or [Share(keys=())]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one share. Costs as `SparkScan.read`."""
        share: Share = partition.value
        return self.scan.read(share)


class RankedReader(WormReader):
    """The best rows of one state, with their scores; filters of Spark are Spark's, and come after."""

    def __init__(self, scan: SparkScan, ranking: QueryRequest, filter_text: str | None) -> None:
        """No requests."""
        super().__init__(scan)
        self.ranking = ranking
        self.filter_text = filter_text

    def partitions(self) -> list[InputPartition]:
        """The shares of all tasks, the best rows first. Costs as `rank_shares`."""
        return [InputPartition(ranked) for ranked in rank_shares(self.scan.state, self.ranking, self.filter_text)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one share in the order of their scores. Costs as `get_many` of its keys."""
        ranked: RankedShare = partition.value
        scores = dict(zip(ranked.share.keys or (), ranked.scores, strict=True))
        return self.scan.read(ranked.share, scores)


class PushingReader(WormReader):
    """The same, for which Spark's filters choose the blocks too."""

    filters: Sequence[Filter] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Remember filters for leaving out blocks; Spark applies all of them to the rows. No requests."""
        self.filters = list(filters)
        return filters

    def partitions(self) -> list[InputPartition]:
        """The shares of all tasks. Costs as `shares`."""
        return self._shared(self.scan.narrowing().both(narrowing_of(self.filters, self.scan.columns)))
