"""populate: what rows refer to, in its place, by one batched read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.api.market import CUSTOMERS, MARKET, filled, spent
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.wrappers import moment
from wormdb.query.execute.populate import references_of
from wormdb.query.sources.engine import EngineSource
from wormdb.schema.load import load_schema
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.api.database import Database


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def market(url: str, clock: ManualClock) -> Iterator[Database]:
    with wormdb.connect(url, schema=MARKET, clock=clock) as db:
        yield filled(db, forwarded=not url.startswith("memory"))


def bare(document: Any) -> Any:
    """Without the times of a model, at every level."""
    if isinstance(document, list):
        return [bare(each) for each in document]
    if not isinstance(document, dict):
        return document
    return {name: bare(value) for name, value in document.items() if name not in ("createdAt", "updatedAt")}


ADA, BOB, CYD = CUSTOMERS


def test_refs_of_each_kind(market: Database) -> None:
    (order,) = market.model("Order").find_all("id=o01", populate=["customer", "product"])
    assert bare(order)["customer"] == BOB
    assert bare(order)["product"] == {"id": "p1", "title": "Pen"}
    assert order["customerId"] == "bob"
    customers = market.model("Customer").find_all(populate=["boss", "friends", "orders"], sort="id")
    found = [bare(customer) for customer in customers]
    assert [customer["boss"] for customer in found] == [None, ADA, None]
    assert [customer["friends"] for customer in found] == [[BOB, None], None, None]
    assert [[order["id"] for order in customer["orders"]] for customer in found] == [
        ["o00", "o03", "o06", "o09"],
        ["o01", "o04", "o07", "o10"],
        [],
    ]


def test_refs_of_what_refs_lead_to(market: Database) -> None:
    order = market.model("Order").find_one("id=o01", populate=["customer.boss", "customer.orders.product"])
    assert bare(order)["customer"]["boss"] == ADA
    orders = bare(order)["customer"]["orders"]
    assert [(each["id"], each["product"]["title"]) for each in orders] == [
        (identity, "Pen") for identity in ("o01", "o04", "o07", "o10")
    ]


def test_every_place_has_a_document_of_its_own(market: Database) -> None:
    one, other = market.model("Order").find_all({"customerId": "ada"}, limit=2, populate="customer")
    one["customer"]["name"] = "changed"
    assert other["customer"]["name"] == "Ada"


def test_rows_are_plain_so_that_nobody_saves_what_is_only_shown(market: Database) -> None:
    (order,) = market.model("Order").find_all("id=o01", populate=["customer"])
    assert type(order) is dict
    assert type(order["customer"]) is dict


def test_selected_rows_have_refs_too(market: Database) -> None:
    rows = market.model("Order").find_all("id=o01", select=["customerId"], populate=["customer"])
    assert bare(rows) == [{"id": "o01", "customerId": "bob", "customer": BOB}]
    with pytest.raises(InvalidRequestError, match="select leaves out 'customerId'"):
        market.model("Order").find(select=["total"], populate=["customer"])
    with pytest.raises(InvalidRequestError, match="select leaves out 'id'"):
        market.model("Customer").find(select={"_id": 0, "name": 1}, populate=["orders"])


def test_refs_of_the_past(market: Database, clock: ManualClock) -> None:
    then = moment(clock.now_ms())
    clock.sleep(60)
    market.model("Customer").save({"id": "bob", "name": "Robert"})
    market.model("Customer").forward()
    order = market.model("Order").find_one("id=o01", populate=["customer"])
    assert order is not None
    assert order["customer"]["name"] == "Robert"
    order = market.model("Order").find_one("id=o01", populate=["customer"], as_of=then)
    assert order is not None
    assert order["customer"]["name"] == "Bob"
    with pytest.raises(InvalidRequestError, match="a log number is of one collection"):
        market.model("Order").find(populate=["customer"], as_of=1)


@pytest.mark.parametrize("rows_at_once", [5, 1000])
def test_one_fetch_serves_many_rows(url: str, monkeypatch: pytest.MonkeyPatch, rows_at_once: int) -> None:
    asked: list[int] = []
    fetch = EngineSource.fetch

    def counted(source: EngineSource, keys: Sequence[bytes]) -> Any:
        if source.ledger.collection == "customers/":
            asked.append(len(keys))
        return fetch(source, keys)

    monkeypatch.setattr(EngineSource, "fetch", counted)
    monkeypatch.setattr("wormdb.api.results.POPULATE_ROWS", rows_at_once)
    with wormdb.connect(url, schema=MARKET) as db:
        orders = filled(db, forwarded=True).model("Order")
        assert len(orders.find_all(populate=["customer"])) == 12
    assert asked == ([3, 3, 2] if rows_at_once == 5 else [3])


def test_requests_do_not_grow_with_the_rows(url: str) -> None:
    with wormdb.connect(url, schema=MARKET) as db:
        orders = filled(db, forwarded=True).model("Order")
        orders.find_all(populate=["customer"])
        few = spent(db, lambda: orders.find_all(limit=2, populate=["customer"])).requests
        many = spent(db, lambda: orders.find_all(populate=["customer"])).requests
        assert many <= few + 1


# --- mistakes ---


def test_unknown_refs_are_told_with_those_there_are(market: Database) -> None:
    before = market.cost().requests
    cases: list[tuple[str, Any, str]] = [
        ("Order", ["custmer"], "only customer, product (did you mean 'customer'?)"),
        ("Order", ["customer.bos"], "only boss, friends, orders (did you mean 'boss'?)"),
        ("Customer", ["products"], "manyToMany"),
        ("Product", ["maker"], "Product has no refs"),
        ("Order", [], "must be a list of names"),
        ("Order", [7], "must be a list of names"),
        ("Order", {"customer": 1}, "must be a list of names"),
    ]
    for model, names, reason in cases:
        with pytest.raises(InvalidRequestError) as caught:
            market.model(model).find(populate=names)
        assert reason in str(caught.value)
    with pytest.raises(InvalidRequestError, match="a collection without a model has no refs"):
        market["things"].find(populate=["customer"])
    assert market.cost().requests == before


def test_refs_are_followed_only_so_far(market: Database) -> None:
    customers = market.model("Customer")
    assert bare(customers.find_one("id=bob", populate="boss.boss.boss.boss"))["boss"] == ADA | {"boss": None}
    with pytest.raises(LimitExceededError, match="POPULATE_DEPTH_MAX is 4"):
        customers.find(populate="boss.boss.boss.boss.boss")


def test_two_refs_may_read_one_field() -> None:
    """A ref with the name of its own field does not hide the ids from another ref."""
    schema = {
        "schemaVersion": "1.0",
        "sourceOfTruth": "local",
        "models": {
            "Node": {
                "path": "@nodes/(id:string)",
                "fields": {"next": {"type": "string", "ref": "Node"}},
                "refs": {"after": {"model": "Node", "field": "next"}},
            }
        },
    }
    assert list(references_of(load_schema(schema).models["Node"])) == ["next", "after"]
    with wormdb.connect("memory://", schema=schema) as db:
        nodes = db.model("Node")
        nodes.insert_many([{"id": "a", "next": "b"}, {"id": "b"}])
        row = nodes.find_one("id=a", populate=["next", "after"])
        assert bare(row) == {"id": "a", "next": {"id": "b"}, "after": {"id": "b"}}


def test_outer_parts_of_a_path_are_shared() -> None:
    schema = {
        "schemaVersion": "1.0",
        "sourceOfTruth": "local",
        "models": {
            "User": {"path": "#org/(tenant:slug)/@users/(id:string)"},
            "Task": {
                "path": "#org/(tenant:slug)/@tasks/(id:string)",
                "fields": {"owner": {"type": "string", "ref": "User"}},
            },
            "Note": {"path": "@notes/(id:string)", "fields": {"owner": {"type": "string", "ref": "User"}}},
        },
    }
    with wormdb.connect("memory://", schema=schema) as db:
        for tenant in ("acme", "other"):
            db.model("User", tenant=tenant).insert({"id": "u", "of": tenant})
        db.model("Task", tenant="acme").insert({"id": "t", "owner": "u"})
        row = db.model("Task", tenant="acme").find_one(populate=["owner"])
        assert bare(row)["owner"] == {"id": "u", "of": "acme"}
        db.model("Note").insert({"id": "n", "owner": "u"})
        with pytest.raises(InvalidRequestError, match="tenant"):
            db.model("Note").find_one(populate=["owner"])
