"""What queries cost, why, and what columns and indexes can do for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.api.market import CUSTOMERS, MARKET, filled, spent
from wormdb.errors import InvalidRequestError, NotFoundError
from wormdb.settings import Settings
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.database import Database


MANUAL = Settings(forward="manual", cache_bytes=0)


@pytest.fixture
def market(url: str) -> Iterator[Database]:
    with wormdb.connect(url, schema=MARKET, clock=ManualClock(), settings=MANUAL) as db:
        yield filled(db, forwarded=True)


def many(db: Database, count: int = 1_000) -> None:
    """So many customers that it matters how they are found."""
    db.model("Customer").insert_many(
        [{"id": f"x{number:05}", "name": f"N{number}" * 20, "city": f"C{number % 250}"} for number in range(count)]
    )
    db.forward()


# --- requests ---


def test_how_many_requests_queries_take(market: Database) -> None:
    """The log is asked once; then only what is needed is read. Nothing is cached but what a process keeps anyway."""
    customers = market.model("Customer")
    many(market)
    customers.find_one({"id": "ada"})
    assert spent(market, lambda: customers.find_one({"id": "bob"})).requests == 2
    assert spent(market, lambda: customers.find_one({"id": "nobody"})).requests <= 2
    assert spent(market, customers.count).requests == 1
    customers.find_all({"city": "Rome"}, strategy="index_lookup")
    # The log, a leaf of the index, and the one page that has all four documents.
    assert spent(market, lambda: customers.find_all({"city": "C7"}, strategy="index_lookup")).requests == 3
    # The first rows in order of id are one page of a block, whatever the block's size.
    page = spent(market, lambda: customers.find_all(limit=3))
    assert page.requests == 2
    assert page.bytes_down < spent(market, customers.find_all).bytes_down / 4


def test_all_handles_of_a_collection_share_plans(market: Database) -> None:
    asked: dict[str, Any] = {"city": "Rome"}
    assert not market.model("Customer").explain(asked).cached
    market.model("Customer").find_all(asked)
    assert market.as_actor("ada").model("Customer").explain({"city": "Oslo"}).cached
    assert not market["customers"].explain({"name": "Ada"}).cached


# --- explain ---


def test_explain_tells_how_and_analyze_what_it_took(market: Database) -> None:
    customers = market.model("Customer")
    explained = customers.explain({"city": "Rome"}, select=["name"])
    assert explained.strategy in {"manifest_scan", "index_lookup"}
    assert set(explained.to_dict()) >= {"strategy", "reason", "estimatedRequests", "manifestFields", "plan"}
    assert explained.requests is None
    measured = customers.explain({"city": "Rome"}, select=["name"], analyze=True)
    assert measured.rows == 2
    assert measured.requests is not None
    assert str(measured).startswith(measured.strategy)
    assert customers.find({"city": "Rome"}, strategy="full_scan").explain().strategy == "full_scan"
    assert customers.query().eq("city", "Rome").explain(analyze=True).rows == 2


# --- columns ---


def test_the_state_of_the_manifest(url: str) -> None:
    clock = ManualClock()
    with wormdb.connect(url, schema=MARKET, clock=clock, settings=MANUAL) as db:
        customers = db.model("Customer")
        nothing = customers.get_manifest_status()
        assert (nothing.exists, nothing.fresh, nothing.count, nothing.last_updated) == (False, False, 0, None)
        customers.insert_many(CUSTOMERS)
        assert customers.get_manifest_status().lag_entries == 1
        built = customers.build_manifest()
        assert built.to_dict() == {
            "exists": False,
            "fresh": False,
            "count": 3,
            "lastUpdated": None,
            "sizeBytes": 0,
            "partitioned": False,
            "fields": [],
            "lagEntries": 0,
            "state": "none",
            "reason": "the model has no manifest",
            "columnsFresh": True,
            "columnsBytes": built.columns_bytes,
        }
        assert built.columns_bytes > 0
        customers.delete("cyd")
        late = customers.get_manifest_status()
        assert (late.columns_fresh, late.count, late.lag_entries) == (True, 2, 1)


def test_a_field_that_blocks_do_not_have_makes_the_manifest_stale(url: str) -> None:
    with wormdb.connect(url, schema=MARKET) as db:
        filled(db, forwarded=True)
    product = MARKET["models"]["Product"]
    fields = {**product["fields"], "price": {"type": "number"}}
    changed = {**MARKET, "models": {**MARKET["models"], "Product": {**product, "fields": fields}}}
    with wormdb.connect(url, schema=changed, apply=True) as db:
        status = db.model("Product").get_manifest_status()
        assert (status.state, status.columns_fresh) == ("none", False)
        assert db.model("Product").find_all({"price": None}, select=["title"]) == [{"id": "p1", "title": "Pen"}]


def test_forgetting_reads_the_root_again(market: Database) -> None:
    customers = market.model("Customer")
    customers.count()
    warm = spent(market, customers.count).requests
    customers.invalidate_manifest()
    assert spent(market, customers.count).requests > warm
    assert spent(market, customers.count).requests == warm


# --- indexes ---


def test_an_index_of_arrays_finds_the_text_of_one_element(url: str) -> None:
    """As long as no document has a text there by itself, of which what is asked for might be a part."""
    fields = {"tags": {"type": "array", "items": {"type": "string"}}, "name": {"type": "string"}}
    model = {
        "path": "@things/(id:any)",
        "fields": fields,
        "indexes": {"byTags": {"field": "tags", "type": "multiValue"}},
    }
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Thing": model}}
    with wormdb.connect(url, schema=schema, apply=True, settings=MANUAL) as db:
        things = db.model("Thing")
        things.insert_many([{"id": number, "tags": ["vip" if number % 9 == 0 else "viper"]} for number in range(40)])
        for _ in range(2):  # in the log, then in blocks
            rows = things.find_all("tags~vip", strategy="index_lookup")
            assert [row["id"] for row in rows] == [0, 9, 18, 27, 36]
            assert things.explain("tags~vip", strategy="index_lookup").reason == "index byTags covers filter"
            assert things.count("tags~vip") == 5
            db.forward()
    with wormdb.connect(url, settings=MANUAL) as db:
        plain = db["texts"]
        plain.create_index("tags")
        for tags in (["vip"], "a vip", ["viper"]):
            plain.insert({"tags": tags})
        assert plain.count("tags~vip") == 2
        with pytest.raises(InvalidRequestError, match="not available"):
            plain.find_all("tags~vip", strategy="index_lookup")


def test_an_index_in_detail(market: Database) -> None:
    customers = market.model("Customer")
    described = customers.describe_index("byCity")
    assert (described.fields, described.type, described.declared, described.state) == (
        ("city",),
        "standard",
        True,
        "ready",
    )
    assert customers.describe_index("_id").unique
    many(market)
    analyzed = customers.analyze_index("byCity")
    assert (analyzed.entries, analyzed.name) == (1_003, "byCity")
    assert 200 <= analyzed.distinct <= 300
    assert analyzed.to_dict()["fields"] == ["city"]
    with pytest.raises(NotFoundError, match=r"Unknown index 'byCty' on model Customer.*did you mean 'byCity'"):
        customers.describe_index("byCty")
    with pytest.raises(NotFoundError):
        customers.analyze_index("byCty")


def test_building_what_waits(market: Database) -> None:
    customers = market.model("Customer")
    customers.create_index(["name", "city"], wait=False)
    assert [(task.name, task.state) for task in customers.index_tasks()] == [("name_city", "waiting")]
    built = customers.build_index("name_city")
    assert (built.name, built.state) == ("name_city", "ready")
    assert customers.index_tasks() == []
    assert customers.describe_index("name_city").type == "compound"
    assert [each.state for each in customers.build_indexes()] == ["ready"] * 3
    assert customers.build_index("_id").state == "ready"
    with pytest.raises(NotFoundError, match="Unknown index 'x' on model Customer"):
        customers.build_index("x")


def test_an_index_that_failed_is_built_again(url: str) -> None:
    """A document that an index cannot take makes it fail; when that is gone, building succeeds."""
    with wormdb.connect(url, clock=ManualClock(), settings=MANUAL) as db:
        things = db["things"]
        things.insert({"id": 1, "a": ["x"], "b": ["y"]})
        things.create_index(["a", "b"], wait=False)
        with pytest.raises(InvalidRequestError, match="two fields of one index are arrays"):
            things.build_index("a_b")
        assert [(task.name, task.state) for task in things.index_tasks()] == [("a_b", "failed")]
        assert things.describe_index("a_b").reason
        things.delete(1)
        things.insert({"id": 2, "a": ["x"], "b": "y"})
        assert things.build_index("a_b").state == "ready"
        assert things.describe_index("a_b").entries == 1
