"""What a notebook asks of collections and databases: a look, lengths, streams of Arrow, and frames that go in."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd  # type: ignore[import-untyped] # it ships no type information
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.api.notebook import NOTES, Notebook
from wormdb.errors import ClosedError, InvalidRequestError, UniqueViolationError
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document

MODEL: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Order": {
            "path": "@orders/(id:string)",
            "fields": {
                "customer": {"type": "string"},
                "total": {"type": "number"},
                "pieces": {"type": "integer"},
                "at": {"type": "datetime"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "address": {"type": "object", "properties": {"city": {"type": "string"}}},
            },
            "indexes": {"byCustomer": {"field": "customer", "unique": True}},
        }
    },
}


@pytest.fixture
def db() -> Iterator[Database]:
    with wormdb.connect("memory://", schema=MODEL, clock=ManualClock()) as database:
        yield database


@pytest.fixture
def things(db: Database) -> Collection[Document]:
    things = db["things"]
    things.insert_many([{"id": f"{n:02}", "n": n, "at": {"city": "Rome"}} for n in range(20)])
    return things


# --- a look ---


def test_a_handle_shows_what_its_process_knows_and_asks_for_nothing() -> None:
    with Notebook.in_memory() as book:
        fresh = book.db["things"]
        with book.requests(gets=0):
            assert repr(fresh) == f"Collection('{fresh._writer.origin}')"
            assert repr(book.db) == f"Database('{book.db.url}')"
        fresh.insert({"id": "a", "n": 1, "<b>": 2})
        book.notes.insert({"id": "b", "mail": "ada@example.com"})
        with book.requests(gets=0):
            assert "things/': 1 document, fields n, <b>, indexes _id, " in repr(fresh)
            assert "1 document, fields title: string, mail: string, indexes _id, byMail" in repr(book.notes)
            assert [line.split(":")[0].strip() for line in repr(book.db).splitlines()[1:]] == ["notes", "things"]


def test_a_notebook_shows_the_state_now_for_one_get_each() -> None:
    with Notebook.in_memory() as book:
        book.things.insert_many([{"id": n, "<b>": n} for n in range(1_234)])
        with book.requests(gets=1):
            shown = book.things._repr_html_()
        assert "<td>things</td><td></td><td>1,234</td><td>&lt;b&gt;</td><td>_id</td>" in shown
        assert book.db._repr_html_().count("<tr>") == 1 + len(book.db._prefixes(None))
        with book.requests(gets=len(book.db._prefixes(None))):
            whole = book.db._repr_html_()
        assert "<td>1,234</td>" in whole
        assert "<td>Note</td>" not in whole, "the model of an empty collection is not the database's yet"


def test_what_is_closed_can_be_printed(db: Database, things: Collection[Document]) -> None:
    db.close()
    assert repr(things) == f"Collection('{things._writer.origin}')"
    assert "ClosedError" in things._repr_html_()
    assert "ClosedError" in db._repr_html_()
    with pytest.raises(ClosedError):
        len(things)


# --- lengths ---


def test_a_length_is_a_count_of_at_most_a_second_ago(tmp_path: Path) -> None:
    clock = ManualClock()
    with wormdb.connect(tmp_path, clock=clock) as ours, wormdb.connect(tmp_path, clock=clock) as theirs:
        ours["a"].insert({"id": 1})
        assert len(ours["a"]) == 1
        theirs["a"].insert({"id": 2})
        clock.advance(1.1)
        assert len(ours["a"]) == 2
        ours["a"].insert({"id": 3})
        assert len(ours["a"]) == 3


@pytest.mark.parametrize(
    "gather", [list, tuple, lambda rows: [*rows], lambda rows: sorted(rows, key=lambda row: row.id)]
)
def test_the_hint_of_a_length_adds_no_request_to_going_through_all(gather: Any) -> None:
    with Notebook.in_memory() as book:
        book.things.insert_many([{"id": n} for n in range(3)])
        for _ in range(2):
            book.clock.advance(5)
            with book.requests(gets=1):
                assert [row.id for row in gather(book.things)] == [0, 1, 2]
        book.clock.advance(5)
        with book.requests(gets=1):
            assert len(book.things) == 3
        book.clock.advance(5)
        with book.requests(gets=0):
            assert book.things


def test_a_handle_of_an_empty_collection_is_true(db: Database) -> None:
    assert db["nothing"]
    assert len(db["nothing"]) == 0


def test_files_of_another_program_are_listed_once_and_not_for_a_hint(tmp_path: Path) -> None:
    schema = {**NOTES, "models": {"Feed": {"path": "@feed/(id:string)/[it].json", "mode": "readonly"}}}
    (tmp_path / "feed" / "a").mkdir(parents=True)
    (tmp_path / "feed" / "a" / "it.json").write_text('{"id": "a"}')
    with wormdb.connect(tmp_path, schema=schema) as db:
        feed = db.model("Feed")
        before = db.cost().lists
        assert [row.id for row in list(feed.scan())] == ["a"]
        alone = db.cost().lists - before
        assert [row.id for row in list(feed)] == ["a"]
        assert db.cost().lists - before == 2 * alone
        with pytest.raises(InvalidRequestError, match="count"):
            len(feed)
        assert "<td>1</td>" in feed._repr_html_()


# --- first rows, columns ---


def test_the_head_is_the_first_rows_and_reads_no_more(things: Collection[Document]) -> None:
    assert [row.id for row in things.head()] == ["00", "01", "02", "03", "04"]
    assert [row.id for row in things.head(2)] == ["00", "01"]
    assert "<td>00</td>" in things.head(1)._repr_html_()
    for wrong in (0, -1, True, "3"):
        given: Any = wrong
        with pytest.raises(InvalidRequestError, match="whole number"):
            things.head(given)


def test_columns_are_those_of_a_table(db: Database, things: Collection[Document]) -> None:
    for _ in range(2):
        assert things.columns == things.to_arrow().column_names == ["id", "n", "at.city", "doc"]
        things.forward()
    orders = db.model("Order")
    orders.insert({"id": "a", "customer": "ada"})
    assert orders.columns == orders.to_arrow().column_names
    assert db["orders"].columns == db["orders"].to_arrow().column_names


# --- streams of Arrow ---


def test_duckdb_takes_a_collection_and_what_a_query_finds(things: Collection[Document]) -> None:
    found = things.find("n>=10", select=["n"])  # noqa: F841 - the query names it
    with duckdb.connect() as duck:
        assert duck.sql("SELECT count(*), sum(n) FROM things").fetchall() == [(20, 190)]
        assert duck.sql("SELECT count(*), max(n) FROM found").fetchall() == [(10, 19)]
        joined = duck.sql("SELECT count(*) FROM things JOIN found USING (id)").fetchall()
    assert joined == [(10,)]


def test_polars_and_arrow_take_a_collection_and_what_a_query_finds(things: Collection[Document]) -> None:
    assert pl.DataFrame(things).equals(things.to_polars())
    assert pl.DataFrame(things.find("n=3")).equals(things.find("n=3").to_polars())
    assert pa.table(things).equals(things.to_arrow())
    assert pa.table(things.find("n>3")).equals(things.find("n>3").to_arrow())


def test_pandas_takes_a_collection_and_what_a_query_finds(things: Collection[Document]) -> None:
    assert pd.DataFrame(things)["n"].tolist() == list(range(20))
    assert pd.DataFrame(things.find("n>17"))["id"].tolist() == ["18", "19"]


def test_a_database_without_a_schema_shows_what_is_there_to_a_new_process(tmp_path: Path) -> None:
    with wormdb.connect(tmp_path) as first:
        assert first._repr_html_().count("<tr>") == 1
        for name in ("notes", "org/people"):
            first[name].insert({"id": "a", "n": 1})
    with wormdb.connect(tmp_path) as second:
        shown = second._repr_html_()
    assert all(f"<td>{name}</td>" in shown for name in ("notes", "org/people"))


# --- frames that go in ---

TIME = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
TABLE = pa.table(
    {
        "id": ["a", "b", "c"],
        "customer": ["ada", None, "bob"],
        "total": [1.5, 2.0, None],
        "pieces": pa.array([1, None, 2**53 + 1], pa.int64()),
        "at": pa.array([TIME, None, TIME], pa.timestamp("ms", "UTC")),
        "tags": [["x", "y"], [], None],
        "address.city": ["Rome", None, "Bonn"],
    }
)


@pytest.mark.parametrize("package", ["arrow", "polars", "duckdb", "pandas", "batch", "results"])
def test_every_kind_of_frame_has_its_types_again_in_a_table(db: Database, package: str) -> None:
    frame: Any = TABLE
    if package == "polars":
        frame = pl.from_arrow(TABLE)
    elif package == "duckdb":
        bought = TABLE  # noqa: F841 - the query names it
        frame = duckdb.sql("SELECT * FROM bought")
    elif package == "pandas":
        frame = TABLE.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    elif package == "batch":
        (frame,) = TABLE.to_batches()
    elif package == "results":
        db["source"].insert_frame(TABLE)
        frame = db["source"].find(select=TABLE.column_names)
    orders = db.model("Order")
    done = orders.insert_frame(frame)
    assert (done.read, done.inserted, done.rejected) == (3, 3, 0)
    assert orders.to_arrow(TABLE.column_names).to_pylist() == TABLE.to_pylist()
    assert not {*(orders.find_by_id("b") or {"customer": 1})} & {"customer", "pieces", "at", "address"}
    other = db["copy"]
    other.insert_frame(orders.to_arrow(TABLE.column_names))
    assert other.to_arrow(TABLE.column_names).to_pylist() == TABLE.to_pylist()


def test_a_table_of_a_model_goes_into_another_database_as_it_is(db: Database) -> None:
    db.model("Order").insert({"id": "a", "customer": "ada", "address": {"city": "Rome"}, "tags": ["x"]})
    table = db.model("Order").to_arrow()
    with wormdb.connect("memory://", schema=MODEL, clock=ManualClock()) as other:
        other.model("Order").insert_frame(table)
        assert other.model("Order").to_arrow().drop_columns(["updatedAt"]).equals(table.drop_columns(["updatedAt"]))


def test_an_index_of_pandas_with_a_name_is_a_column(db: Database) -> None:
    frame = pd.DataFrame({"id": ["a", "b"], "n": [1.0, float("nan")]})
    db["named"].insert_frame(frame.set_index("id"))
    assert db["named"].find(select=["n"]).to_list() == [{"id": "a", "n": 1}, {"id": "b"}]
    db["unnamed"].insert_frame(frame[["n"]])
    assert sorted(row.get("n", 0) for row in db["unnamed"]) == [0, 1]


def test_categories_views_days_and_decimals_are_values(db: Database) -> None:
    frame = pl.DataFrame(
        {
            "key": ["a", "b"],
            "kind": pl.Series(["x", "y"], dtype=pl.Categorical),
            "day": [TIME.date(), None],
            "price": [Decimal("1.50"), Decimal(2)],
            "place": [{"city": "Rome"}, None],
            "raw": [b"\x00", b""],
        }
    )
    db["it"].insert_frame(frame, id_field="key")
    first = db["it"].find_by_id("a")
    assert first is not None
    assert (first["kind"], first["day"], first["place"]) == ("x", datetime(2026, 3, 1, tzinfo=UTC), {"city": "Rome"})
    assert db["it"].to_arrow(["price"]).column("price").to_pylist() == [Decimal("1.5"), Decimal("2.0")]


def test_a_frame_goes_in_whole_or_not_at_all(db: Database) -> None:
    orders = db.model("Order")
    orders.insert_frame(TABLE)
    with pytest.raises(InvalidRequestError, match="line 1: "):
        orders.insert_frame(TABLE)
    with pytest.raises(InvalidRequestError, match="2 records do not fit"):
        orders.insert_frame(pa.table({"id": ["x", "y", "z"], "pieces": ["1", None, "many"]}))
    with pytest.raises((InvalidRequestError, UniqueViolationError)):
        orders.insert_frame(pa.table({"id": ["x", "y"], "customer": ["eve", "ada"]}))
    assert len(orders) == 3
    assert orders.insert_frame(TABLE, on_conflict="ignore").ignored == 3
    changed = TABLE.set_column(2, "total", pa.array([9.0, 9.0, 9.0]))
    assert orders.insert_frame(changed, on_conflict="replace").replaced == 3
    assert orders.to_arrow(["total"]).column("total").to_pylist() == [9.0] * 3


def test_what_is_not_a_frame_is_refused_before_any_request(db: Database) -> None:
    wrong: Any
    for wrong in ([{"id": 1}], None, 3, pa.array([1])):
        with pytest.raises(InvalidRequestError, match="frame"):
            db["it"].insert_frame(wrong)
    with pytest.raises(InvalidRequestError, match="no value of a document"):
        db["it"].insert_frame(pl.DataFrame({"id": [1], "t": [TIME - TIME]}))
    with pytest.raises(InvalidRequestError, match="no such column"):
        db["it"].insert_frame(TABLE, id_field="key")
    rule: Any = "merge"
    with pytest.raises(InvalidRequestError, match="no such rule"):
        db["it"].insert_frame(TABLE, on_conflict=rule)
    assert db.cost().puts == 0


def test_a_large_frame_is_one_entry(db: Database) -> None:
    rows = 12_000
    done = db["many"].insert_frame(pl.DataFrame({"id": range(rows), "n": range(rows)}))
    assert (done.inserted, bool(done.job)) == (rows, True)
    assert (len(db["many"]), db["many"].aggregate(sum="n")) == (rows, {"sum": rows * (rows - 1) // 2})


_FIRST, _LAST = (datetime(year, 1, 1, tzinfo=UTC).replace(tzinfo=None) for year in (1970, 2100))
CELLS = {
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "number": (
        pa.float64(),
        st.floats(allow_nan=False),
    ),
    "text": (pa.string(), st.text(st.characters(codec="utf-8"), max_size=5)),
    "flag": (pa.bool_(), st.booleans()),
    "time": (
        pa.timestamp("ms", "UTC"),
        st.datetimes(_FIRST, _LAST, timezones=st.just(UTC)).map(
            lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        ),
    ),
    "bytes": (pa.binary(), st.binary(max_size=4)),
    "list": (pa.list_(pa.int64()), st.lists(st.integers(-9, 9), max_size=3)),
}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_table_is_the_same_after_it_went_in(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, unique=True))
    count = data.draw(st.integers(1, 6))
    columns = {"id": pa.array([f"{n}" for n in range(count)])}
    for name in names:
        kind, values = CELLS[name]
        cells = data.draw(st.lists(st.none() | values, min_size=count, max_size=count))
        columns[name] = pa.array(cells, kind)
    table = pa.table(columns)
    shape = data.draw(st.sampled_from(["arrow", "polars"]))
    with wormdb.connect("memory://", clock=ManualClock()) as database:
        database["it"].insert_frame(table if shape == "arrow" else pl.from_arrow(table))
        assert database["it"].to_arrow(table.column_names).to_pylist() == table.to_pylist()
