"""Analyze: what the values of each field are, in one scan of columns; for people, and for plans of queries.

Ends, counts and kinds are exact, and so are frequent and different values up to a bound; quantiles are those of a
sample of rows, chosen by digests of their ids. So a report is the same however the work was cut.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nsmallest
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from wormdb.api.arrow import TableReader, default_columns
from wormdb.api.options import WrittenFilter, read_filter
from wormdb.bql.accumulators import Extreme
from wormdb.bql.tree import MatchAll
from wormdb.engine.forward.analysis import changes_through, publish_statistics
from wormdb.format import json
from wormdb.format.field_statistics import (
    BOUND_BYTES_MAX,
    BUCKETS,
    DIGEST_BYTES,
    TEXT_CHARS_MAX,
    TOP_MAX,
    FieldStatistics,
    FrequentValue,
    digest_of,
)
from wormdb.format.key import encode_key, encode_keys
from wormdb.format.kinds import MISSING, Decimal128, ObjectId
from wormdb.jobs.compact import site_of
from wormdb.jobs.scan import JobScan, cells_along, field_names
from wormdb.jobs.work import Output, ProgressListener, Runner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.jobs.place import Where

__all__ = [
    "Analysis",
    "AnalyzeOptions",
    "AnalyzedState",
    "Bucket",
    "FieldReport",
    "FieldTally",
    "Frequent",
    "analyze",
    "statistics_of",
]

SAMPLE_ROWS: Final = 1_024
HISTOGRAM_BUCKETS: Final = 10


@dataclass(frozen=True, slots=True)
class AnalyzeOptions:
    """Which documents and fields are analyzed."""

    fields: tuple[str, ...] = ()
    """Without any those of the model, or every field that a document has."""
    filter: WrittenFilter = None
    as_of: str | None = None
    top: int = 10
    """How many frequent values the report has."""
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
    """The values of one field. Each element of an array counts, except in `kinds`."""

    name: str
    missing: int
    """Documents without the field."""
    kinds: dict[str, int]
    """By kind how many documents have a value of it."""
    distinct: int
    is_exact: bool
    """Whether `distinct` is exact; then there is `top` too."""
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


def analyze(where: Where, options: AnalyzeOptions, runner: Runner, told: ProgressListener | None = None) -> Analysis:
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
    scan = JobScan.of(where, options.filter, options.as_of)
    if named is None:
        model = scan.state.model()
        names = field_names(scan, runner, told, tasks=options.tasks) if model is None else []
        named = default_columns(model) if model is not None else {"id": "_id", **{name: name for name in names}}
    work = _Analyze(scan, tuple(named.values()))
    gathered = _FieldTallies({path: FieldTally() for path in named.values()})
    for state in runner.run("analyze", work, scan.items(options.tasks), told):
        gathered.take(state)
    reports = [gathered.report(name, path, options.top) for name, path in named.items()]
    is_saved = saves and _save(scan, gathered, is_whole=not options.fields)
    return Analysis(where.name, scan.number, gathered.rows, tuple(reports), is_saved)


def _save(scan: JobScan, gathered: _FieldTallies, *, is_whole: bool) -> bool:
    """Keep it in the root; False if there was none. Costs and raises as `publish_statistics`."""
    view = scan.state.newest()
    if view.place is None:
        return False
    site = site_of(scan.state.where)
    seen = AnalyzedState(scan.number, site.runtime.misc.next(), gathered.rows, changes_through(view), gathered.scale)
    fields = [statistics_of(path, tally, gathered.sampled(path), seen) for path, tally in gathered.fields.items()]
    publish_statistics(site.register, site.writer, view.place.root.collection, fields, is_whole=is_whole)
    scan.state.where.access().ledger.forget()
    return True


@dataclass(frozen=True, slots=True)
class _Analyze:
    """Looks at one piece; a value that can be sent."""

    scan: JobScan
    paths: tuple[str, ...]

    def __call__(self, body: bytes, /) -> Output:
        """The state after one piece. Costs the scan of it."""
        gathered = _FieldTallies({path: FieldTally() for path in self.paths})
        for portion in self.scan.portions(body, list(dict.fromkeys(["_id", *self.paths]))):
            columns = {path: cells_along(portion, path) for path in self.paths}
            for path, values in columns.items():
                gathered.fields[path].add(values)
            gathered.add_rows([digest_of(key) for key in encode_keys(portion.values("_id"))], columns)
        return Output(gathered.state(), gathered.rows)


class _FieldTallies:
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
        """The report of one field."""
        tally = self.fields[path]
        low, high = tally.low.result(), tally.high.result()
        return FieldReport(
            name=name,
            missing=tally.missing,
            kinds=dict(sorted(tally.kinds.items())),
            distinct=tally.distinct,
            is_exact=tally.values is not None,
            low=None if low is None else _text_of(low),
            high=None if high is None else _text_of(high),
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
        ends = [round(len(values) * part / HISTOGRAM_BUCKETS) for part in range(HISTOGRAM_BUCKETS + 1)]
        for start, stop in pairwise(ends):
            if stop > start:
                yield Bucket(_text_of(values[stop - 1]), round((stop - start) * self.scale))


# --- the values of one field: counts, least and greatest, how many are different, which are frequent ---
#
# Memory is bounded whatever the values are, and the result depends on the values alone, not on how the work was cut:
# up to VALUES_MAX different ones are counted exactly; of more, the number is estimated from the least of their digests.

VALUES_MAX: Final = 4_096
DIGESTS: Final = 1_024
_TEXT_MAX: Final = 200
_KINDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    Decimal128: "decimal",
    str: "string",
    datetime: "datetime",
    bytes: "binary",
    ObjectId: "objectid",
    list: "array",
    dict: "object",
}


def _text_of(value: Any) -> str:
    """A value as JSON, cut if it is long."""
    text = json.encode(value).decode()
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"


@dataclass(slots=True)
class FieldTally:
    """The state over some rows. Each element of an array counts, except in `kinds`."""

    missing: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    low: Extreme = field(default_factory=lambda: Extreme(-1))
    high: Extreme = field(default_factory=lambda: Extreme(1))
    values: dict[int, tuple[int, str]] | None = field(default_factory=dict)
    """By digest how often a value was there, and its text; None if there are too many."""
    digests: set[int] = field(default_factory=set)
    """The least of all values."""

    def add(self, values: Sequence[Any]) -> None:
        """Take in the values of some rows. No requests."""
        present = [value for value in values if value is not MISSING]
        self.missing += len(values) - len(present)
        for kind, count in Counter(map(type, present)).items():
            self.kinds[_KINDS.get(kind, kind.__name__.lower())] += count
        flat = [item for value in present for item in (value if type(value) is list else (value,)) if item is not None]
        keys = encode_keys(flat)
        counted = Counter(keys)
        shown = dict(zip(keys, flat, strict=True))
        fresh = {digest_of(key): (count, _text_of(shown[key])) for key, count in counted.items()}
        for value in shown.values():
            self.low.add(value)
            self.high.add(value)
        self._count_in(fresh, set(fresh))

    def _count_in(self, values: dict[int, tuple[int, str]] | None, digests: set[int]) -> None:
        self.digests = set(nsmallest(DIGESTS, self.digests | digests))
        if self.values is None or values is None:
            self.values = None
            return
        for digest, (count, text) in values.items():
            known, shown = self.values.get(digest, (0, text))
            # Equal numbers of different types have one digest: the same text in whatever order they come.
            self.values[digest] = (known + count, min(shown, text, key=lambda each: (len(each), each)))
        if len(self.values) > VALUES_MAX:
            self.values = None

    @property
    def distinct(self) -> int:
        """How many different values there are, about if `values` is None."""
        if self.values is not None:
            return len(self.values)
        return round((len(self.digests) - 1) * (1 << 8 * DIGEST_BYTES) / max(self.digests))

    def top(self, most: int) -> list[tuple[str, int]]:
        """The most frequent values, as JSON, and how often they are there; none if there are too many values."""
        return [(text, count) for _, text, count in self.frequent(most)]

    def frequent(self, most: int) -> list[tuple[int, str, int]]:
        """The same, each with its digest before."""
        found = sorted((self.values or {}).items(), key=lambda each: (-each[1][0], each[1][1]))
        return [(digest, text, count) for digest, (count, text) in found[:most]]

    @property
    def total(self) -> int | None:
        """How many values there are, equal ones too; None if there are too many different ones."""
        return None if self.values is None else sum(count for count, _ in self.values.values())

    def state(self) -> list[Any]:
        """All of it as plain values, for `take`."""
        values = None if self.values is None else [[str(d), count, text] for d, (count, text) in self.values.items()]
        digests = [str(digest) for digest in self.digests]
        return [self.missing, dict(self.kinds), self.low.state(), self.high.state(), values, digests]

    def take(self, state: list[Any]) -> None:
        """Take in all that another took in."""
        missing, kinds, low, high, values, digests = state
        self.missing += missing
        self.kinds.update(kinds)
        self.low.take(low)
        self.high.take(high)
        told = None if values is None else {int(digest): (count, text) for digest, count, text in values}
        self._count_in(told, set(map(int, digests)))


# --- a field as the root keeps it ---


@dataclass(frozen=True, slots=True)
class AnalyzedState:
    """The state that was looked at."""

    number: int
    misc: int
    """When."""
    rows: int
    changes: int
    scale: float
    """For how many documents one of the sample stands."""


def statistics_of(path: str, tally: FieldTally, sampled: Sequence[Any], seen: AnalyzedState) -> FieldStatistics:
    """The statistics of one field; `sampled` are values of it in their order. No requests."""
    total = round(len(sampled) * seen.scale) if tally.total is None else tally.total
    low, high = tally.low.result(), tally.high.result()
    bounds = _bounds(encode_keys(sampled), total)
    return FieldStatistics(
        path=path,
        number=seen.number,
        misc=seen.misc,
        rows=seen.rows,
        changes=seen.changes,
        missing=tally.missing,
        nulls=tally.kinds.get("null", 0),
        values=total,
        distinct=tally.distinct,
        low=b"" if low is None else encode_key(low)[:BOUND_BYTES_MAX],
        high=b"" if high is None else encode_key(high)[:BOUND_BYTES_MAX],
        top=tuple(
            FrequentValue(digest, text[:TEXT_CHARS_MAX], count) for digest, text, count in tally.frequent(TOP_MAX)
        ),
        bounds=tuple(bounds),
        ranks=tuple(bounds.values()),
    )


def _bounds(keys: Sequence[bytes], total: int) -> dict[bytes, int]:
    """The ends of buckets of equal depth, each with how many of all values are below it."""
    found: dict[bytes, int] = {}
    for bucket in range(1, BUCKETS if keys else 1):
        # A value that fills buckets begins where it begins, not where a bucket ends.
        place = bisect_left(keys, keys[len(keys) * bucket // BUCKETS])
        if place:
            found.setdefault(keys[place][:BOUND_BYTES_MAX], round(total * place / len(keys)))
    return found
