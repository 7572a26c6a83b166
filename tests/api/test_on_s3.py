"""The public API on a real S3 server: what depends on the store, once from end to end."""

from __future__ import annotations

import threading

import pytest

import wormdb
from tests.api.market import MARKET, filled
from tests.api.shop import SHOP
from wormdb.errors import AlreadyExistsError, ConflictError, UniqueViolationError
from wormdb.settings import Settings

pytestmark = pytest.mark.s3


def test_documents_live_in_a_bucket(s3_url: str) -> None:
    with wormdb.connect(s3_url, schema=SHOP, actor="ada") as database:
        customers = database.model("Customer")
        ada = customers.insert({"name": "Ada", "email": "ada@x"})
        with customers.batch() as batch:
            batch.insert({"name": "Eve", "email": "eve@x"})
            batch.save(ada | {"status": "active"})
        customers.forward()
        with pytest.raises(UniqueViolationError):
            customers.insert({"name": "Bob", "email": "eve@x"})
    with wormdb.connect(s3_url) as database:
        customers = database.model("Customer")
        assert sorted((found["name"], found["status"]) for found in customers) == [("Ada", "active"), ("Eve", "new")]
        assert customers.exists(ada.id)
        before = database.cost()
        assert customers.exists(ada.id)
        assert database.cost().requests - before.requests == 1
        assert [change.op for change in customers.watch()] == ["create", "create", "update"]
        assert database.cost().dollars > 0


def test_two_handles_race_and_nothing_is_lost(s3_url: str) -> None:
    with wormdb.connect(s3_url) as one, wormdb.connect(s3_url) as two:
        one["things"].insert({"id": "n", "n": 0})

        def work(database: wormdb.Database, name: str) -> None:
            for number in range(5):
                database["things"].insert({"id": f"{name}{number}"})
                database["things"].modify("n", lambda document: document | {"n": document["n"] + 1})

        threads = [threading.Thread(target=work, args=(one, "a")), threading.Thread(target=work, args=(two, "b"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert one["things"].count() == two["things"].count() == 11
        found = one["things"].find_by_id("n")
        assert found is not None
        assert (found["n"], found.seq) == (10, 11)
        stale = two["things"].find_by_id("n")
        assert stale is not None
        one["things"].delete("n")
        with pytest.raises(ConflictError):
            two["things"].save(stale | {"n": 0})
        with pytest.raises(AlreadyExistsError):
            two["things"].insert({"id": "a0"})


def test_the_log_is_brought_forward_and_opened_from_there(s3_url: str) -> None:
    with wormdb.connect(s3_url, settings=Settings(forward_entries=4)) as database:
        for number in range(10):
            database["things"].save({"id": number % 3, "n": number})
    with wormdb.connect(s3_url) as database:
        assert [(found.id, found["n"], found.seq) for found in database["things"]] == [(0, 9, 4), (1, 7, 3), (2, 8, 3)]


def test_two_handles_change_what_filters_find(s3_url: str) -> None:
    with wormdb.connect(s3_url) as one, wormdb.connect(s3_url) as two:

        def work(database: wormdb.Database) -> None:
            for _ in range(5):
                database["things"].update_one({"id": "n"}, {"$inc": {"n": 1}}, upsert=True)
                database["things"].update_many({"n": {"$gt": 0}}, {"$inc": {"m": 1}})

        threads = [threading.Thread(target=work, args=(database,)) for database in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        things = one["things"]
        assert things.find_by_id("n") == {"id": "n", "n": 10, "m": 10}
        things.forward()
    # One that has not seen others write is alone, as far as it knows, and looks at nothing before it writes.
    settings = wormdb.Settings(forward="manual")
    with wormdb.connect(s3_url, settings=settings) as alone:
        things = alone["things"]
        assert things.update_one({"id": "n"}, {"$set": {"n": 1}}).modified == 1
        assert things.find_by_id("n") == {"id": "n", "n": 1, "m": 10}
        looked = alone.cost()
        assert things.update_one({"id": "n"}, {"$set": {"n": 0}}).modified == 1
        spent = alone.cost() - looked
        assert (spent.puts, spent.requests) == (1, 1), "what is known need not be read again"
        assert things.delete_many({"n": 0}).deleted == 1


def test_queries_read_a_bucket(s3_url: str) -> None:
    with wormdb.connect(s3_url, schema=MARKET) as database:
        orders = filled(database, forwarded=True).model("Order")
        orders.save({"id": "o03", "customerId": "ada", "total": 999})
        assert [row.id for row in orders.find("total>=100", sort="-total")] == ["o03", "o11", "o10"]
        assert orders.aggregate(group_by="customerId", max="total")["groups"]["ada"] == {"max": 999}
        row = orders.find_one("id=o03", populate=["customer"])
        assert row is not None
        assert row["customer"]["name"] == "Ada"
        page = orders.find(sort="total", limit=5)
        cursor = orders.cursor(sort="total", batch_size=5)
        assert [row.id for row in page] == [row.id for row in cursor.next_batch()]
        orders.delete("o11")
        database.forward()
    with wormdb.connect(s3_url, schema=MARKET) as database:
        orders = database.model("Order")
        rest = ["o06", "o07", "o08", "o09", "o10"]
        assert [row.id for row in orders.find(sort="total", limit=5, page=page.next_page)] == rest
        assert [row.id for row in orders.resume(cursor.token)] == [*rest, "o11", "o03"]
        assert orders.explain("total>500", analyze=True).rows == 1
