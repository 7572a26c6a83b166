"""Indexes as users make, see and drop them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb import Settings
from wormdb.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    UniqueViolationError,
)
from wormdb.storage.memory import drop_memory
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb import Collection, Database, Document

SCHEMA = {
    "models": {
        "Customer": {
            "path": "@customers/(id:string)",
            "fields": {"email": {"type": "string"}, "city": {"type": "string"}},
            "indexes": {"byEmail": {"field": "email", "unique": True}},
        }
    }
}


@pytest.fixture
def database() -> Iterator[Database]:
    with wormdb.connect("memory://", settings=Settings(forward_interval_ms=0)) as opened:
        yield opened


@pytest.fixture
def things(database: Database) -> Collection[Document]:
    collection = database["things"]
    collection.insert_many(
        [{"id": f"{number:03}", "n": number % 10, "tags": ["a", f"t{number}"]} for number in range(50)]
    )
    return collection


def states(collection: Collection[Any]) -> dict[str, str]:
    return {index.name: index.state for index in collection.indexes()}


def test_an_index_is_built_and_shown(things: Collection[Document]) -> None:
    made = things.create_index("n")
    assert (made.name, made.fields, made.unique, made.state) == ("n", ("n",), False, "ready")
    things.create_index(["n", "tags"], name="both", wait=False)
    assert states(things) == {"_id": "ready", "both": "ready", "n": "ready"}, (
        "a folder or memory is built by the caller"
    )


def test_who_does_not_wait_leaves_it_to_whoever_forwards() -> None:
    with wormdb.connect("memory://", settings=Settings(forward="manual")) as database:
        things = database["things"]
        things.insert({"n": 1})
        assert things.create_index("n", wait=False).state == "waiting"
        things.forward()
        assert states(things)["n"] == "ready"


def test_a_unique_index_refuses_from_then_on(things: Collection[Document]) -> None:
    things.create_index("tags", name="first")
    with pytest.raises(InvalidRequestError, match=r"n=0 is on 5 documents: '000', '010'") as refusal:
        things.create_index("n", unique=True)
    assert len(refusal.value.problems) == 10
    assert "n" not in states(things)
    for number, thing in enumerate(list(things)):
        things.save({**thing, "n": number})
    things.create_index("n", unique=True)
    with pytest.raises(UniqueViolationError):
        things.insert({"n": 7})
    things.forward()
    with pytest.raises(UniqueViolationError):
        things.insert({"n": 7})
    things.drop_index("n")
    things.insert({"n": 7})
    assert "n" not in states(things)


def test_the_indexes_of_a_model() -> None:
    settings = Settings(forward_interval_ms=0)
    with wormdb.connect("memory://", schema=SCHEMA, settings=settings) as database:
        customers = database.model("Customer")
        customers.insert({"id": "a", "email": "a@x", "city": "Rome"})
        assert states(customers) == {"_id": "ready", "byEmail": "ready"}
        customers.create_index("city")
        with pytest.raises(InvalidRequestError, match="did you mean 'city'"):
            customers.create_index("citty")
        with pytest.raises(InvalidRequestError, match="remove it from the model"):
            customers.drop_index("byEmail")
        assert states(customers) == {"_id": "ready", "byEmail": "ready", "city": "ready"}


def test_a_document_that_an_index_cannot_take(things: Collection[Document]) -> None:
    things.create_index(["tags", "others"], name="both")
    with pytest.raises(InvalidRequestError, match="two fields of one index are arrays"):
        things.insert({"tags": ["a"], "others": ["b"]})
    things.insert({"left": ["a"], "right": ["b"]})
    with pytest.raises(InvalidRequestError, match="two fields of one index are arrays"):
        things.create_index(["left", "right"])
    assert states(things)["left_right"] == "failed"


@pytest.mark.parametrize(
    ("fields", "name", "error"),
    [
        ((), None, InvalidRequestError),
        ([1], None, InvalidRequestError),
        (["n", "n"], None, InvalidRequestError),
        ("n", "_id", InvalidRequestError),
        ("n", "a/b", InvalidRequestError),
        ("n", ".x", InvalidRequestError),
        ("a..b", "ab", InvalidRequestError),
        ("other", "there", AlreadyExistsError),
    ],
)
def test_bad_input_writes_nothing(
    database: Database, things: Collection[Document], fields: Any, name: str | None, error: type[Exception]
) -> None:
    things.create_index("n", name="there")
    before = database.cost().puts
    with pytest.raises(error):
        things.create_index(fields, name=name)
    assert database.cost().puts == before


def test_what_cannot_be_dropped(database: Database, things: Collection[Document]) -> None:
    before = database.cost().puts
    with pytest.raises(InvalidRequestError, match="the documents themselves"):
        things.drop_index("_id")
    with pytest.raises(NotFoundError):
        things.drop_index("nothing")
    assert database.cost().puts == before


def test_a_dropped_index_is_described_until_garbage_is_collected() -> None:
    """Whoever asks, and whether the drop is in the log, in the root, or its nodes are gone already."""
    clock = ManualClock()
    name = "dropped-until-gc"
    settings = wormdb.Settings(forward="manual", forward_interval_ms=0)

    def opened() -> wormdb.Database:
        return wormdb.connect(f"memory://{name}", settings=settings, clock=clock)

    def states() -> tuple[str | None, list[str]]:
        with opened() as other:
            things = other["things"]
            try:
                described = things.describe_index("byA")
            except NotFoundError:
                return None, [each.name for each in things.indexes()]
            assert (described.fields, described.file) == (("a",), None)
            return described.state, [each.name for each in things.indexes()]

    with opened() as database:
        things = database["things"]
        things.insert_many([{"id": number, "a": number} for number in range(50)])
        things.create_index("a", name="byA")
        things.drop_index("byA")
        assert states() == ("dropped", ["_id"])
        things.forward()
        things.insert({"id": "more"})
        things.forward()
        assert states() == ("dropped", ["_id"])
        assert [each.findings for each in database.verify(["things"])] == [()]
        database.gc(["things"])
        assert states() == ("dropped", ["_id"]), "its nodes are not an hour old"
        with pytest.raises(NotFoundError):
            things.drop_index("byA")
        clock.advance(2 * 3_600)
        database.gc(["things"])
        assert states() == (None, ["_id"])
        assert things.create_index("a", name="byA").state == "ready"
        assert states() == ("ready", ["_id", "byA"])
        assert things.count({"a": 7}) == 1
    drop_memory(name)


def test_dropped_indexes_do_not_fill_the_root() -> None:
    with wormdb.connect("memory://", settings=wormdb.Settings(forward="manual", forward_interval_ms=0)) as database:
        things = database["things"]
        things.insert({"id": 1, "a": 1})
        for number in range(40):
            things.create_index("a", name=f"i{number}")
            things.drop_index(f"i{number}")
        things.forward()
        root = things._ledger.view().place
        assert root is not None
        assert len(root.root.indexes) == 32


def test_a_compound_index_has_32_fields_at_most(things: Collection[Document]) -> None:
    names = [f"f{number}" for number in range(33)]
    with pytest.raises(LimitExceededError, match="INDEX_FIELDS_MAX is 32"):
        things.create_index(names, name="wide")
    assert [each.name for each in things.indexes()] == ["_id"]
    assert things.create_index(names[:32], name="wide").state == "ready"


def test_an_index_that_another_process_builds_is_used_by_those_that_know_an_older_root(tmp_path: Path) -> None:
    with wormdb.connect(str(tmp_path)) as here, wormdb.connect(str(tmp_path)) as there:
        here["things"].insert_many({"id": f"{n:05}", "code": f"c{n}"} for n in range(3_000))
        here["things"].forward()
        assert there["things"].find_all({"code": "c7"})[0]["id"] == "00007"
        here["things"].create_index("code")
        here["things"].build_indexes()
        assert there["things"].count() == 3_000
        shown = there["things"].explain({"code": "c8"})
        assert "index_lookup" in {each.strategy for each in shown.rejected if each.cost is not None}
        before = there.cost().gets
        for number in range(300):  # the column is kept, and the index is not: until it would have paid
            assert len(there["things"].find_all({"code": f"c{number}"})) == 1
        assert there["things"].explain({"code": "c8"}).strategy == "index_lookup"
        assert there.cost().gets - before < 330
