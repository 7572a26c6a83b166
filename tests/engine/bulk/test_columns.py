"""Documents made column by column are to the byte those that are made row by row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.bulk.stage_rig import MANUAL, SMALL
from tests.engine.rig import Rig
from wormdb.api.document import PlainCodec
from wormdb.api.write import Writer
from wormdb.engine.bulk.columns import ColumnMaker, TaskChance, job_clock
from wormdb.engine.bulk.report import BulkTarget, TaskReport, decode_report
from wormdb.engine.bulk.rows import BatchWriter
from wormdb.engine.bulk.task import BulkTask
from wormdb.engine.forward.forward import Sizes
from wormdb.engine.load import JobSpec, open_job
from wormdb.errors import InvalidRequestError
from wormdb.format.event import SchemaChanged
from wormdb.schema.load import load_model
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from wormdb.schema.model import Model

DAY = datetime(2024, 5, 17, 12, 30, 0, tzinfo=UTC)
TEXT = st.text(max_size=8) | st.sampled_from(["", 'a"b', "\\", "\n\t\x00", "é\u2028", "plain"])
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "s": (pa.string(), TEXT),
    "i": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)),
    "h": (pa.int16(), st.integers(-5, 5)),
    "d": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1.0, -0.0, 1e22, 1e-7])),
    "f": (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "n": (pa.int64(), st.integers(-3, 3)),
    "b": (pa.bool_(), st.booleans()),
    "t": (pa.timestamp("us", tz="UTC"), st.integers(0, 10**9).map(lambda n: DAY + timedelta(microseconds=n))),
    "u": (pa.timestamp("ms"), st.integers(0, 3).map(lambda n: (DAY + timedelta(seconds=n)).replace(tzinfo=None))),
    "any": (pa.string(), TEXT),
}
MODEL = {
    "path": "@things/(id:string)",
    "files": False,
    "id": "ulid",
    "fields": {
        "s": {"type": "string"},
        "i": {"type": "integer"},
        "n": {"type": "number"},
        "d": {"type": "number"},
        "b": {"type": "boolean"},
        "t": {"type": "datetime"},
        "any": {"type": "any"},
        "absent": {"type": "string"},
    },
    "indexes": {"byN": {"field": "n"}, "byS": {"field": "s", "unique": True}, "byBoth": {"fields": ["b", "i"]}},
}


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), unique=True, max_size=6))
    rows = draw(st.sampled_from([1, 2, 7, 300]))
    columns: dict[str, pa.Array] = {}
    for name in names:
        kind, values = COLUMNS[name]
        some = draw(st.lists(st.none() | values, min_size=min(rows, 7), max_size=min(rows, 7)))
        columns[name] = pa.array([some[place % len(some)] for place in range(rows)], kind)
    if draw(st.booleans()):
        order = draw(st.permutations(range(min(rows, 7))))
        columns["id"] = pa.array([f"k{order[place % len(order)]}-{place // 7:03}" for place in range(rows)])
    if not columns:
        columns["b"] = pa.array([True] * rows)
    return pa.RecordBatch.from_pydict(columns)


def loaded(batch: pa.RecordBatch, model: Model | None, *, by_column: bool) -> tuple[TaskReport, bool]:
    """What a task reports of a batch, and whether it went by columns."""
    rig = Rig()
    ledger = rig.ledger(None, MANUAL, SMALL if batch.num_rows < 20 else Sizes(block_target=20_000))
    events = () if model is None else (SchemaChanged(definition=model.canonical()),)
    target = open_job(ledger, JobSpec("job", "test", "replace", overwrite=True, events=events))
    assert isinstance(target, BulkTarget)
    clock, chance = job_clock(target.started_ms), TaskChance(SeededChance(3), "ulid", 5)
    documents: Writer[Any] = Writer("things", model, PlainCodec(), origin="", clock=clock, chance=chance)
    maker = ColumnMaker(model, clock, chance)
    writer = BatchWriter(BulkTask(ledger, target, documents, 5), model=model, maker=maker)
    is_made = maker.columns(batch.slice(0, 1)) is not None
    if not by_column:
        writer._maker = None
    chance._count = 0
    writer.add(batch)
    return decode_report(writer.task.report()), is_made


def told(report: TaskReport) -> tuple[Any, ...]:
    blocks = [(b.sha256, b.sidecar.sha256, b.key_first, b.key_last, b.rows, b.columns) for b in report.blocks]
    return blocks, report.sample, report.sequence, report.read, [(one.name, one.packed) for one in report.claims]


@settings(max_examples=20)
@given(batches(), st.booleans())
def test_columns_make_the_same_blocks_as_rows(batch: pa.RecordBatch, has_model: bool) -> None:
    model = load_model("Thing", MODEL) if has_model else None
    one, _ = loaded(batch, model, by_column=True)
    other, _ = loaded(batch, model, by_column=False)
    assert told(one) == told(other)


@pytest.mark.parametrize("has_model", [True, False])
def test_plain_rows_go_by_columns(has_model: bool) -> None:
    """Otherwise the property above compares rows with rows."""
    model = load_model("Thing", MODEL) if has_model else None
    columns = {name: pa.array([None], kind) for name, (kind, _) in COLUMNS.items()}
    assert loaded(pa.RecordBatch.from_pydict(columns), model, by_column=True)[1]
    assert loaded(pa.RecordBatch.from_pydict({"id": pa.array(["k1"]), **columns}), model, by_column=True)[1]


@pytest.mark.parametrize(("identity", "by_columns"), [("9" * 18, True), ("9" * 19, False), ("a" * 30, True)])
def test_a_number_beyond_the_counter_does_not_go_by_columns(identity: str, by_columns: bool) -> None:
    model = load_model("Thing", {"path": "@things/(id:string)", "id": "seq"})
    maker = ColumnMaker(model, job_clock(0), TaskChance(SeededChance(3), "ulid", 5))
    batch = pa.RecordBatch.from_pydict({"id": pa.array(["7", identity])})
    assert (maker.columns(batch) is not None) is by_columns


ODD: dict[str, dict[str, pa.Array]] = {
    "not a number": {"d": pa.array([float("nan")])},
    "before 1970": {"t": pa.array([DAY.replace(year=1960)], pa.timestamp("us", tz="UTC"))},
    "an array": {"x": pa.array([[1]])},
    "a path": {"a.b": pa.array([1])},
    "a whole document": {"_doc": pa.array(['{"_id":"a"}'])},
    "an odd id": {"id": pa.array(["é"])},
    "its own time": {"createdAt": pa.array([DAY], pa.timestamp("us", tz="UTC"))},
    "another type": {"t": pa.array(["2024-05-17T12:30:00Z"])},
}


@pytest.mark.parametrize("name", ["id", "_id"])
@pytest.mark.parametrize("by_column", [True, False])
@pytest.mark.parametrize("others", [[], ["k1"], ["k1", "k2"]])
def test_a_null_id_is_refused_and_not_made(name: str, by_column: bool, others: list[str]) -> None:
    batch = pa.RecordBatch.from_pydict({name: pa.array([*others, None], pa.string())})
    for model in (load_model("Thing", MODEL), None):
        with pytest.raises(InvalidRequestError, match="its id is null"):
            loaded(batch, model, by_column=by_column)


@pytest.mark.parametrize("name", ODD)
def test_what_columns_cannot_tell_goes_by_rows(name: str) -> None:
    model = load_model("Thing", MODEL)
    batch = pa.RecordBatch.from_pydict(ODD[name])
    report, is_made = loaded(batch, model, by_column=True)
    assert not is_made
    assert told(report) == told(loaded(batch, model, by_column=False)[0])


@pytest.mark.parametrize(("value", "fits"), [(7, True), (2**40, False)])
def test_a_type_that_an_index_of_the_model_names_is_checked(value: int, *, fits: bool) -> None:
    model = load_model("Thing", {**MODEL, "indexes": {"byI": {"field": "i", "bsonType": "int"}}})
    batch = pa.RecordBatch.from_pydict({"i": pa.array([1, None, value])})
    if fits:
        report, is_made = loaded(batch, model, by_column=True)
        assert (report.read, is_made) == (3, False)
    else:
        with pytest.raises(InvalidRequestError, match=f"{value} is not of the type int32"):
            loaded(batch, model, by_column=True)
