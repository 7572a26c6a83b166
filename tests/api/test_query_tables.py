"""What was found as tables, and for people to see."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.api.market import MARKET, filled
from wormdb.api.read import LogState
from wormdb.api.results import html_table, text_table
from wormdb.errors import InvalidRequestError, UnavailableError
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document


@pytest.fixture(scope="module", params=[False, True], ids=["tail", "forwarded"])
def orders(request: pytest.FixtureRequest) -> Iterator[Collection[Document]]:
    with wormdb.connect("memory://", schema=MARKET) as db:
        yield filled(db, "Order", forwarded=request.param).model("Order")


ANYTHING = wormdb.connect("memory://", clock=ManualClock())
NUMBERS = count()


# --- Arrow ---


def test_a_table_has_the_columns_and_types_of_the_collection(orders: Collection[Document]) -> None:
    table = orders.find("total>=100", sort="-total").to_arrow()
    assert table.schema == orders.to_arrow().schema
    assert table.column("id").to_pylist() == ["o11", "o10"]
    assert table.column("total").to_pylist() == [110.0, 100.0]
    assert orders.find().to_arrow().equals(orders.to_arrow())
    empty = orders.find("total>9999").to_arrow()
    assert (empty.num_rows, empty.column_names) == (0, orders.to_arrow().column_names)


def test_selected_columns(orders: Collection[Document]) -> None:
    table = orders.find("total<=10", select=["tags", "total"]).to_arrow()
    assert table.to_pydict() == {"id": ["o00", "o01"], "tags": [["even"], ["odd", "x"]], "total": [0.0, 10.0]}
    assert table.schema.field("total").type == pa.float64()
    bare = orders.find("total<=10", select={"_id": 0, "tags": {"$slice": 1}, "total": 1}).to_arrow()
    assert bare.to_pydict() == {"tags": [["even"], ["odd"]], "total": [0.0, 10.0]}
    assert orders.find("total>9999", select=["total"]).to_arrow().schema.field("total").type == pa.float64()


def test_what_is_left_out_is_empty(orders: Collection[Document]) -> None:
    table = orders.find("id=o01", select={"total": 0}).to_arrow()
    assert table.schema == orders.to_arrow().schema
    assert table.column("total").to_pylist() == [None]
    assert table.column("customerId").to_pylist() == ["bob"]


def test_without_a_model_there_are_id_what_the_rows_have_and_the_document() -> None:
    with wormdb.connect("memory://") as db:
        db["things"].insert_many([{"id": 1, "n": 1}, {"id": 2, "n": 2, "secret": True}])
        assert db["things"].find("n=2").to_arrow().to_pydict() == {
            "id": [2],
            "n": [2],
            "secret": [True],
            "doc": ['{"_id":2,"n":2,"secret":true}'],
        }
        hidden = db["things"].find("n=2", select={"secret": 0}).to_arrow()
        assert hidden.to_pydict() == {"id": [2], "n": [2], "doc": ['{"_id":2,"n":2}']}
        nested = db["things"].find(select=["n"], sort="-n").to_arrow()
        assert nested.to_pydict() == {"id": [2, 1], "n": [2, 1]}


def test_frames(orders: Collection[Document]) -> None:
    found = orders.find("total>=100", select=["total"])
    assert found.to_pandas()["total"].tolist() == [100.0, 110.0]
    assert found.to_polars()["id"].to_list() == ["o10", "o11"]


def test_a_table_has_no_refs(orders: Collection[Document]) -> None:
    with pytest.raises(InvalidRequestError, match="leave it out"):
        orders.find(populate=["customer"]).to_arrow()


VALUES = st.one_of(st.integers(-2, 2), st.sampled_from(["a", ""]), st.none(), st.booleans(), st.just(0.5))
FIELD = st.one_of(VALUES, st.lists(VALUES, max_size=2), st.fixed_dictionaries({}, optional={"x": VALUES}))
FIELD = st.one_of(FIELD, st.lists(FIELD, max_size=2))


@given(
    st.lists(st.fixed_dictionaries({}, optional={"a": FIELD, "b": FIELD}), min_size=1, max_size=6),
    st.sampled_from([["a"], ["a.x", "b"], {"a": 0}, {"_id": 0, "b": 1}, {"a": {"$slice": 1}, "b": 1}]),
    st.sampled_from([None, "-b", "a.x"]),
    st.one_of(st.none(), st.integers(1, 4)),
)
@settings(max_examples=20, deadline=None)
def test_a_table_does_not_depend_on_what_is_read(
    documents: list[dict[str, Any]], select: Any, sort: Any, limit: int | None
) -> None:
    """Columns or documents, in the log or in blocks: the same values in the same types."""
    things = ANYTHING[f"things{next(NUMBERS)}"]
    things.insert_many([{"_id": number, **document} for number, document in enumerate(documents)])
    tables = [things.find({"a": {"$ne": 1}}, select=select, sort=sort, limit=limit).to_arrow()]
    things.create_index("a")
    things.create_index("b")
    tables.append(things.find({"a": {"$ne": 1}}, select=select, sort=sort, limit=limit).to_arrow())
    full = things.find({"a": {"$ne": 1}}, select=select, sort=sort, limit=limit, strategy="full_scan")
    tables.append(full.to_arrow())
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])
    if isinstance(select, list):
        names = [name for name in tables[0].column_names if name != "id"]
        rows = full.to_list()
        assert tables[0].column("id").to_pylist() == [row["id"] for row in rows]
        plain = [name for name in names if "." not in name]
        for name in plain:
            assert [cell is None for cell in tables[0].column(name).to_pylist()] == [
                row.get(name) is None for row in rows
            ]


# --- for people ---


def test_the_first_rows_are_shown(orders: Collection[Document]) -> None:
    lines = repr(orders.find(select=["total", "customerId"], sort="-total")).splitlines()
    assert lines[:3] == ["id   total  customerId", "───  ─────  ──────────", "o11    110  nobody"]
    assert (len(lines), lines[-1]) == (13, "…")
    assert len(repr(orders.find(limit=10)).splitlines()) == 12
    assert repr(orders.find("total>9999")) == "(no rows)"
    assert orders.find("total>9999")._repr_html_() == "<p>(no rows)</p>"
    assert orders.find(limit=1)._repr_html_().count("<tr>") == 2


def test_no_more_rows_are_read_than_are_shown(orders: Collection[Document], monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int | None] = []
    read = LogState.hits

    def hits(state: LogState[Any], request: Any) -> Any:
        limits.append(request.limit)
        return read(state, request)

    monkeypatch.setattr(LogState, "hits", hits)
    repr(orders.find())
    repr(orders.find(limit=3))
    orders.find().first()
    orders.find_one()
    assert limits == [11, 3, 1, 1]


def test_what_cannot_be_read_is_told_and_not_raised(
    orders: Collection[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise UnavailableError("the store", reason="<it> is away")

    monkeypatch.setattr(LogState, "hits", fail)
    assert repr(orders.find()) == "Results(Order, UnavailableError: the store: <it> is away (retry later))"
    assert "&lt;it&gt; is away" in orders.find()._repr_html_()


ROW = {
    "n": 1.5,
    "text": "<b>&\"'",
    "id": "x",
    "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "list": [1, {"a": None}],
    "long": "y" * 100,
    "evil": "a\x1b[31m\nb",
}


def test_cells_are_short_and_harmless() -> None:
    text = text_table([ROW, {"id": "z", "n": 12}], more=False)
    head, rule, first, second = text.splitlines()
    assert head.split() == ["id", "n", "text", "at", "list", "long", "evil"]
    assert set(rule) == {"─", " "}
    assert first.startswith('x   1.5  <b>&"\'  2026-01-02 03:04:05+00:00  [1,{"a":null}]  yyyy')
    assert second.startswith("z    12")
    assert f"{'y' * 29}…" in first
    assert "a·[31m·b" in first


def test_html_is_escaped() -> None:
    html = html_table([ROW, {"<i>": 1}], more=True)
    assert "<b>" not in html
    assert "<i>" not in html
    assert "&lt;b&gt;&amp;&quot;&#x27;" in html
    assert html.endswith("</table><p>…</p>")


def test_many_fields_are_cut() -> None:
    text = text_table([{f"f{number}": number for number in range(20)}], more=True)
    assert text.splitlines()[0].split() == [f"f{number}" for number in range(8)]
    assert text.endswith("… (more fields)")
