"""The store contract on the store that docs/how-to/own-store.md writes, and a database in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

import wormdb
from tests.test_docs import ROOT, blocks
from wormdb.engine.log.paths import bytes_max
from wormdb.errors import ClosedError, CorruptionError, UnsupportedStoreError
from wormdb.storage.memory import MemoryStore, drop_memory
from wormdb.storage.store import Always
from wormdb.system.clock import ManualClock
from wormdb.testing.fault_store import FaultStore
from wormdb.testing.store_contract import StoreContract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from wormdb.storage.store import Store


def written_class() -> Callable[[Path], Store]:
    """The class of the page, as a reader who saves it has it."""
    page = next(block for block in blocks(ROOT / "docs/how-to/own-store.md") if block.title == "sqlite_store.py")
    space: dict[str, Any] = {}
    exec(
        page.code.replace("synchronous=FULL", "synchronous=OFF"), space
    )  # a test needs no disk that survives a power cut
    return space["SqliteStore"]  # type: ignore[no-any-return] # what exec made has no type


SqliteStore = written_class()


class TestSqliteStore(StoreContract):
    has_time: ClassVar[bool] = False

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with SqliteStore(tmp_path / "objects.db") as store:
            yield store

    @pytest.fixture
    def other_handle(self, store: Store, tmp_path: Path) -> Iterator[Store]:
        with SqliteStore(tmp_path / "objects.db") as other:
            yield other


def test_a_database_lives_in_it(tmp_path: Path) -> None:
    """Documents, an index, garbage collection and an audit; then again by another handle."""
    with wormdb.connect(SqliteStore(tmp_path / "objects.db"), clock=ManualClock()) as database:
        things = database["things"]
        things.create_index("n", unique=True)
        things.insert_many({"id": number, "n": -number} for number in range(50))
        things.forward()
        things.delete_many({"n": {"$lt": -40}})
        with pytest.raises(wormdb.UniqueViolationError):
            things.insert({"id": 99, "n": -3})
        assert database.gc()[0].collection == "things/"
        assert database.verify()[0].findings == ()
    with wormdb.connect(SqliteStore(tmp_path / "objects.db")) as database:
        assert [found.id for found in database["things"].find({"n": {"$lt": -37}}, sort="n")] == [40, 39, 38]


def test_the_store_is_closed_with_the_database() -> None:
    store = MemoryStore("given")
    with wormdb.connect(store) as database:
        database["things"].insert({"id": 1})
        assert database.url == "memory://given"
    with pytest.raises(ClosedError):
        store.get("anything")
    with wormdb.connect("memory://given") as database:
        assert database["things"].exists(1)
    drop_memory("given")


def test_a_store_that_ignores_preconditions_is_refused() -> None:
    lying = FaultStore(MemoryStore("lying"), ignores_preconditions=True)
    with wormdb.connect(lying) as database, pytest.raises(UnsupportedStoreError):
        database["things"].insert({"id": 1})
    drop_memory("lying")


def test_an_object_over_the_bound_of_its_kind_is_damage() -> None:
    """A store of others knows no rule of sizes; the database has one."""
    root = "things/.worm.db/block0"
    with MemoryStore("long") as bare:
        bare.put(root, bytes(bytes_max(root) + 1), Always())
    with wormdb.connect(MemoryStore("long")) as database, pytest.raises(CorruptionError, match="at most"):
        database["things"].count()
    drop_memory("long")
