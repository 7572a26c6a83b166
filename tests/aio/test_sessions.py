"""Transactions and snapshots that stay open in an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.aio.test_aio import Note, run, until
from wormdb import aio
from wormdb.errors import ClosedError, InvalidRequestError, TransactionConflictError
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import OCTETS, WrappedStore
from wormdb.system.deadline import current

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from wormdb.storage.store import Precondition, Probe, PutResult


class Stalled(WrappedStore):
    """A store in which one request is held up until the time of its call is over: before it, or its answer."""

    def __init__(self, *, is_sent: bool = False) -> None:
        super().__init__(MemoryStore())
        self.is_sent = is_sent
        self.reached = False
        self.count = 0
        self._held: int | None = None
        self._lock = threading.Lock()

    def hold(self, number: int | None) -> None:
        """From now on the request of this number, from 0; None lets all of them pass."""
        self.count, self._held = 0, number

    def _is_held(self) -> bool:
        with self._lock:
            self.count += 1
            return self.count - 1 == self._held

    def _stall(self, key: str) -> None:
        self.reached = True
        while True:
            deadline = current()
            assert deadline is not None
            deadline.check(f"object {key}")
            threading.Event().wait(0.002)

    def probe(self, key: str) -> Probe:
        if self._is_held():
            self._stall(key)
        return super().probe(key)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        is_held = self._is_held()
        if is_held and not self.is_sent:
            self._stall(key)
        done = super().put(key, body, precondition, content_type=content_type)
        if is_held:
            self._stall(key)
        return done


async def filled(db: aio.AsyncDatabase, names: Iterable[str] = ("a", "b")) -> None:
    for name in names:
        await db[name].insert({"id": "x", "n": 10})


def test_a_transaction_over_two_collections_is_seen_whole_and_only_after_its_block() -> None:
    async def work() -> None:
        async with aio.connect("memory://") as db:
            await filled(db)
            async with db.transaction() as tx:
                paid = await tx["a"].update_one({"id": "x"}, {"$inc": {"n": -3}})
                assert paid.modified == 1
                await tx[db["b"]].update_one({"id": "x"}, {"$inc": {"n": 3}})
                await (await tx.model(Note)).insert(Note("of a class"))
                assert [row["n"] async for row in tx["a"].find()] == [7]
                assert [row["n"] async for row in tx["b"].scan()] == [13]
                assert (tx.state, tx.isolation, set(tx.numbers)) == ("open", "serializable", {"a/", "b/", "note/"})
                found = await db["a"].find_by_id("x")
                assert found is not None
                assert found["n"] == 10
            assert tx.state == "committed"
            assert tx.result is not None
            assert set(tx.result.collections) == {"a/", "b/", "note/"}
            assert [await db[name].count({"n": n}) for name, n in (("a", 7), ("b", 13))] == [1, 1]
            assert await db["note"].count() == 1

    run(work())


def test_a_block_that_raises_writes_nothing() -> None:
    async def work() -> None:
        async with aio.connect("memory://") as db:
            await filled(db)
            before = db.cost().puts
            tx = db.transaction()

            async def change() -> None:
                async with tx:
                    await tx["a"].delete("x")
                    await tx["b"].insert({"id": "y"})
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await change()
            assert (tx.state, tx.result, db.cost().puts) == ("aborted", None, before)
            with pytest.raises(ClosedError):
                await tx["a"].count()

    run(work())


def test_a_conflict_is_told_at_the_end_of_the_block() -> None:
    async def work() -> None:
        async with aio.connect("memory://") as db:
            await filled(db)

            async def change() -> None:
                async with db.transaction() as tx:
                    await tx["a"].update_one({"id": "x"}, {"$inc": {"n": 1}})
                    await db["a"].update_one({"id": "x"}, {"$inc": {"n": 5}})

            with pytest.raises(TransactionConflictError):
                await change()
            assert await db["a"].count({"n": 15}) == 1

    run(work())


def test_tasks_that_share_a_transaction_take_turns() -> None:
    async def work() -> None:
        async with aio.connect("memory://") as db:
            async with db.transaction() as tx:
                await asyncio.gather(*(tx["a"].insert({"id": str(n), "n": n}) for n in range(40)))
                assert await tx["a"].count() == 40
            assert await db["a"].aggregate(sum="n") == {"sum": 780}

    run(work())


def test_a_task_has_one_transaction_at_a_time() -> None:
    async def work() -> None:
        async with aio.connect("memory://") as db:
            async with db.transaction():
                with pytest.raises(InvalidRequestError, match="inside of a transaction"):
                    db.transaction()
                async with db.transaction(is_bound=False) as other:
                    await other["a"].insert({"id": "x"})
                with pytest.raises(InvalidRequestError, match="inside of a transaction"):
                    await db.run(lambda _: None)

            async def one(n: int) -> None:
                async with db.transaction() as tx:
                    await tx[f"c{n}"].insert({"id": "x"})
                    await asyncio.sleep(0)

            await asyncio.gather(*map(one, range(5)))
            assert len(await db.collections()) == 6

    run(work())


def test_what_a_transaction_cannot_do_is_refused_as_by_the_api() -> None:
    async def work() -> None:
        async with aio.connect("memory://") as db, db.transaction() as tx:
            with pytest.raises(InvalidRequestError, match="create_index in a transaction"):
                tx["a"].create_index  # noqa: B018 - the name itself is refused
            with pytest.raises(InvalidRequestError, match="cursor in a transaction"):
                await tx["a"].cursor()
            with pytest.raises(AttributeError):
                tx["a"].nonsense  # noqa: B018 - as above

    run(work())


@pytest.mark.parametrize("is_sent", [False, True], ids=["not sent", "answer lost"])
@pytest.mark.parametrize("collections", [("a",), ("a", "b")], ids=["one collection", "two"])
def test_a_commit_that_is_cancelled_at_any_request_is_whole_or_absent(
    collections: tuple[str, ...], is_sent: bool
) -> None:
    async def attempt(number: int | None) -> int:
        store = Stalled(is_sent=is_sent)
        async with aio.connect(store) as db:
            await filled(db, collections)

            async def change() -> None:
                async with db.transaction() as tx:
                    for name in collections:
                        await tx[name].update_one({"id": "x"}, {"$set": {"n": 11}})
                    store.hold(number)

            task = asyncio.create_task(change())
            if number is None:
                await task
                return store.count
            await until(lambda: store.reached)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            store.hold(None)
            changed = {await db[name].count({"n": 11}) for name in collections}
            assert len(changed) == 1, "all of it, or nothing"
        return 0

    requests = run(attempt(None))
    assert requests >= len(collections)
    for number in range(requests):
        run(attempt(number))


def test_a_call_that_is_cancelled_inside_of_a_transaction_leaves_nothing() -> None:
    async def work() -> None:
        store = Stalled()
        async with aio.connect(store) as db:
            await filled(db)

            async def change() -> None:
                async with db.transaction() as tx:
                    await tx["a"].delete("x")
                    store.hold(0)
                    await tx["b"].count()  # the first look at another collection asks the store

            task = asyncio.create_task(change())
            await until(lambda: store.reached)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            store.hold(None)
            assert [await db[name].count() for name in "ab"] == [1, 1]

    run(work())


def test_a_snapshot_is_one_moment() -> None:
    async def work() -> None:
        async with aio.connect("memory://") as db:
            await filled(db)
            async with db.snapshot(["a", "b"]) as seen:
                await db["a"].insert({"id": "y", "n": 1})
                assert [await seen[name].count() for name in "ab"] == [1, 1]
                assert [row.id async for row in seen["a"]] == ["x"]
                assert await seen["a"].query().gt("n", 5).count() == 1
                assert [row.id async for row in seen["a"].find(sort="id")] == ["x"]
                numbers = seen.numbers
            with pytest.raises(ClosedError):
                seen["a"]
            earlier = await db.snapshot(as_of=numbers)
            assert await earlier["a"].count() == 1
            earlier.close()
            with pytest.raises(InvalidRequestError, match="not taken yet"):
                db.snapshot(["a"])["a"]
            with pytest.raises(InvalidRequestError, match="insert of a snapshot"):
                (await db.snapshot(["a"]))["a"].insert  # noqa: B018 - the name is refused

    run(work())


def test_a_snapshot_and_the_plain_one_see_the_same(tmp_path: Path) -> None:
    place = str(tmp_path)

    async def work() -> None:
        async with aio.connect(place) as db:
            await filled(db)
            with wormdb.connect(place) as plain, plain.snapshot(["a", "b"]) as there:
                async with db.snapshot(["a", "b"]) as here:
                    assert here.numbers == there.numbers

    run(work())
