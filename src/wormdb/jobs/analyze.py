"""Analyze: what the values of each field are, in one scan of columns; for people, and for plans of queries.

Ends, counts and kinds are exact, and so are frequent and different values up to a bound; quantiles are those of a
sample of rows, chosen by digests of their ids. So a report is the same however the work was cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from wormdb.api.arrow import TableReader, default_columns
from wormdb.api.options import read_filter
from wormdb.bql.tree import MatchAll
from wormdb.engine.forward.analysis import changes_through, publish_statistics
from wormdb.format import json
from wormdb.format.field_statistics import digest_of
from wormdb.format.key import encode_key, encode_keys
from wormdb.format.kinds import MISSING
from wormdb.jobs.compact import site_of
from wormdb.jobs.export_rows import cells_along
from wormdb.jobs.field_facts import Seen, statistics_of
from wormdb.jobs.field_names import field_names
from wormdb.jobs.field_tally import FieldTally, text_of
from wormdb.jobs.scan import Scan
from wormdb.jobs.work import Output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.api.options import WrittenFilter
    from wormdb.jobs.place import Where
    from wormdb.jobs.work import Runner, Told

__all__ = ["Analysis", "AnalyzeOptions", "Bucket", "FieldReport", "Frequent", "analyze"]

SAMPLE_ROWS: Final = 1_024
BUCKETS: Final = 10


@dataclass(frozen=True, slots=True)
class AnalyzeOptions:
    """What is looked at."""

    fields: tuple[str, ...] = ()
    """Without any those of the model, or every field that a document has."""
    filter: WrittenFilter = None
    as_of: str | None = None
    top: int = 10
    """How many frequent values are told."""
    tasks: int | None = None
    """How many pieces of work are wanted."""
    save: bool = True
    """Whether the root keeps it for plans of queries; never with a filter, and of no past state."""


@dataclass(frozen=True, slots=True)
class Frequent:
    """A value, as JSON, and how often it is there."""

    value: str
    count: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """About `rows` values are above the bucket before and up to `high`, which is JSON."""

    high: str
    rows: int


@dataclass(frozen=True, slots=True)
class FieldReport:
    """The values of one field. Elements of arrays count each, but not for `kinds`."""

    name: str
    missing: int
    """Documents that do not have it."""
    kinds: dict[str, int]
    """By kind how many documents have a value of it."""
    distinct: int
    is_exact: bool
    """Whether `distinct` is; then `top` is told too."""
    low: str | None
    """The least value, as JSON; None of none."""
    high: str | None
    top: tuple[Frequent, ...]
    histogram: tuple[Bucket, ...]
    """Ranges that have about as many values each."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What is known of a collection."""

    collection: str
    number: int
    """The log number of the state."""
    documents: int
    fields: tuple[FieldReport, ...]
    is_saved: bool = False
    """Whether the root keeps it now, or what is of a newer state."""


def analyze(where: Where, options: AnalyzeOptions, runner: Runner, told: Told | None = None) -> Analysis:
    """Look at the values of all fields, or of some. Costs a scan of their columns; without a model of all documents.

    What the root is to keep costs as `publish_statistics`; not of a collection that was never brought forward, which
    has no root. Raises InvalidRequestError for a field that the model does not have, and what the first piece that
    failed raised; to save also ConflictError if the collection was made anew, UnavailableError, OutcomeUnknownError.
    """
    saves = options.save and options.as_of is None and isinstance(read_filter(options.filter), MatchAll)
    if saves:
        site_of(where).runtime.before_first_write()
        where.access().ledger.forget()  # what is pinned begins with the newest root
    tables = TableReader(where.access())
    named = tables.checked(list(options.fields)) if options.fields else None
    scan = Scan.of(where, options.filter, options.as_of)
    if named is None:
        model = scan.state.model()
        names = field_names(scan, runner, told, tasks=options.tasks) if model is None else []
        named = default_columns(model) if model is not None else {"id": "_id", **{name: name for name in names}}
    work = _Analyze(scan, tuple(named.values()))
    gathered = _Gathered({path: FieldTally() for path in named.values()})
    for state in runner.run("analyze", work, scan.items(options.tasks), told):
        gathered.take(state)
    reports = [gathered.report(name, path, options.top) for name, path in named.items()]
    is_saved = saves and _save(scan, gathered, is_whole=not options.fields)
    return Analysis(where.name, scan.number, gathered.rows, tuple(reports), is_saved)


def _save(scan: Scan, gathered: _Gathered, *, is_whole: bool) -> bool:
    """Keep it in the root; False if there was none. Costs and raises as `publish_statistics`."""
    view = scan.state.newest()
    if view.place is None:
        return False
    site = site_of(scan.state.where)
    seen = Seen(scan.number, site.runtime.misc.next(), gathered.rows, changes_through(view), gathered.scale)
    fields = [statistics_of(path, tally, gathered.sampled(path), seen) for path, tally in gathered.fields.items()]
    publish_statistics(site.register, site.writer, view.place.root.collection, fields, is_whole=is_whole)
    scan.state.where.access().ledger.forget()
    return True


@dataclass(frozen=True, slots=True)
class _Analyze:
    """Looks at one piece; a value that can be sent."""

    scan: Scan
    paths: tuple[str, ...]

    def __call__(self, body: bytes, /) -> Output:
        """The state of what was gathered. Costs the scan of one piece."""
        gathered = _Gathered({path: FieldTally() for path in self.paths})
        for portion in self.scan.portions(body, list(dict.fromkeys(["_id", *self.paths]))):
            columns = {path: cells_along(portion, path) for path in self.paths}
            for path, values in columns.items():
                gathered.fields[path].add(values)
            gathered.add_rows([digest_of(key) for key in encode_keys(portion.values("_id"))], columns)
        return Output(gathered.state(), gathered.rows)


class _Gathered:
    """The tallies of all fields, and a sample of rows."""

    def __init__(self, fields: dict[str, FieldTally]) -> None:
        self.fields = fields
        self.rows = 0
        self._sample: dict[int, list[Any]] = {}

    def add_rows(self, digests: Sequence[int], columns: dict[str, list[Any]]) -> None:
        """Keep the rows with the least digests, their values wrapped: none for a missing one."""
        self.rows += len(digests)
        for row in nsmallest(SAMPLE_ROWS, range(len(digests)), key=digests.__getitem__):
            values = (columns[path][row] for path in self.fields)
            self._sample[digests[row]] = [[] if value is MISSING else [value] for value in values]
        self._cut()

    def _cut(self) -> None:
        if len(self._sample) > SAMPLE_ROWS:
            self._sample = {digest: self._sample[digest] for digest in nsmallest(SAMPLE_ROWS, self._sample)}

    def state(self) -> bytes:
        """For `take` in another process."""
        sample = [[str(digest), row] for digest, row in self._sample.items()]
        return json.encode([self.rows, [tally.state() for tally in self.fields.values()], sample])

    def take(self, state: bytes) -> None:
        """Take in what another gathered."""
        rows, fields, sample = json.decode(state, name="an analysis")
        self.rows += rows
        for tally, told in zip(self.fields.values(), fields, strict=True):
            tally.take(told)
        self._sample |= {int(digest): row for digest, row in sample}
        self._cut()

    def report(self, name: str, path: str, most: int) -> FieldReport:
        """What is told of one field."""
        tally = self.fields[path]
        low, high = tally.low.result(), tally.high.result()
        return FieldReport(
            name=name,
            missing=tally.missing,
            kinds=dict(sorted(tally.kinds.items())),
            distinct=tally.distinct,
            is_exact=tally.values is not None,
            low=None if low is None else text_of(low),
            high=None if high is None else text_of(high),
            top=tuple(Frequent(*each) for each in tally.top(most)),
            histogram=tuple(self._histogram(self.sampled(path))),
        )

    @property
    def scale(self) -> float:
        """For how many documents one of the sample stands."""
        return self.rows / max(len(self._sample), 1)

    def sampled(self, path: str) -> list[Any]:
        """The values of a field in the sample, in their order, with elements of arrays and without null."""
        place = list(self.fields).index(path)
        values = [
            item
            for _, row in sorted(self._sample.items())
            for value in row[place]
            for item in (value if type(value) is list else (value,))
            if item is not None
        ]
        return sorted(values, key=encode_key)

    def _histogram(self, values: Sequence[Any]) -> Iterator[Bucket]:
        ends = [round(len(values) * part / BUCKETS) for part in range(BUCKETS + 1)]
        for start, stop in pairwise(ends):
            if stop > start:
                yield Bucket(text_of(values[stop - 1]), round((stop - start) * self.scale))
