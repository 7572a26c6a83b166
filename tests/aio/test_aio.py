"""The API under an event loop: the same answers, rows by `async for`, bounded threads, and calls that are cancelled."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wormdb
from wormdb import aio
from wormdb.errors import InvalidRequestError
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import OCTETS, WrappedStore
from wormdb.system.deadline import current

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from wormdb.storage.store import Precondition, Probe, PutResult


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end; nothing may be left in the loop."""

    async def all_of_it() -> Any:
        result = await asyncio.wait_for(work, 60)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left
        return result

    return asyncio.run(all_of_it(), debug=True)


@dataclass
class Note:
    title: str
    stars: int = 0
    id: str = ""


def test_a_database_is_used_as_the_plain_one() -> None:
    async def work() -> None:
        async with aio.connect("memory://") as db:
            notes = await db.model(Note)
            made = await notes.insert(Note("first"))
            assert await notes.find_by_id(made.id) == made
            await notes.insert_many([Note(f"n{n}", n) for n in range(9)])
            assert await notes.count({"stars": {"$gt": 5}}) == 3
            assert [note.title async for note in notes.find({"stars": {"$gt": 6}}, sort="stars")] == ["n7", "n8"]
            assert [note.stars async for note in notes.query().gt("stars", 6).sort("-stars")] == [8, 7]
            assert await notes.query().or_(notes.query().eq("stars", 1), {"stars": 2}).count() == 2
            assert len([note async for note in notes]) == 10
            assert len([note async for note in notes.scan()]) == 10
            assert (await notes.modify(made.id, lambda it: Note("changed", 1, it.id))).title == "changed"
            async with notes.batch() as batch:
                batch.insert(Note("in a batch")).delete(made.id)
            assert [change.op async for change in notes.watch()][-2:] == ["create", "delete"]
            async with await notes.cursor(sort="stars", batch_size=4) as cursor:
                assert len(await cursor.next_batch()) == 4
                assert len([row async for row in cursor]) == 6
                token = cursor.token
            assert await notes.resume(token).next_batch() == []
            found = notes.find(limit=3, sort="title")
            rows = await found.to_list()
            page = await found.next_page
            assert [row.title for row in rows] == ["in a batch", "n0", "n1"]
            assert [row.title async for row in notes.find(limit=2, sort="title", page=page)] == ["n2", "n3"]
            assert (await notes.with_options(stale_ms=1000).count()) == 10
            with pytest.raises(wormdb.AlreadyExistsError):
                await notes.insert(rows[0])
            assert await db.schema is None
            assert await db.collections() == ["note/"]
            assert await db["note"].count() == 10
            assert db.cost().puts > 0
            by = db.as_actor("ada")
            await (await by.model(Note)).insert(Note("by ada"))
            await by.close()
            assert [change.actor async for change in notes.watch()][-1] == "ada"
        with pytest.raises(wormdb.ClosedError):
            await notes.count()
        await db.close()

    run(work())


def test_blobs_functions_and_files() -> None:
    async def work() -> None:
        db = await aio.connect("memory://")
        notes = db["notes"]
        async with notes.create_blob_target("text/plain") as target:
            await target.write(b"hello ")
            await target.write(b"world")
        await notes.insert({"id": "a", "body": target.reference})
        async with await notes.open_blob(target.reference) as reader:
            assert await reader.read(5) == b"hello"
            assert await reader.seek(6) == 6
            assert (await reader.read(), reader.size, reader.content_type) == (b"world", 11, "text/plain")
        assert [blob.size async for blob in notes.list_blobs()] == [11]
        await notes.functions.register("none", {"x": 1})
        assert [each.name for each in await notes.functions.list()] == ["none"]
        assert await notes.count({"$fn": "none"}) == 0
        assert [each.enabled for each in await db.files.status()] == [False]
        await db.close()

    run(work())


def test_a_schema_is_applied_when_the_database_is_entered() -> None:
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"A": {"path": "@a/(id:string)"}}}

    async def work() -> None:
        async with aio.connect("memory://", schema=schema, apply=True) as db:
            assert await db.schema_changes() == {}

    run(work())


@given(st.lists(st.integers(0, 5), max_size=700), st.integers(1, 600))
def test_async_rows_are_the_rows(values: list[int], wanted: int) -> None:
    async def work() -> None:
        async with aio.connect("memory://") as db:
            await db["n"].insert_many([{"id": f"{place:04}", "n": n} for place, n in enumerate(values)])
            seen = []
            async for row in db["n"].find(sort="id"):
                seen.append(row["n"])
                if len(seen) == wanted:
                    break
            assert seen == values[:wanted]

    asyncio.run(work())


def test_rows_before_an_error_are_seen() -> None:
    def broken() -> Any:
        yield from range(5)
        raise wormdb.UnavailableError("row 5")

    async def work() -> None:
        async with aio.connect("memory://") as db:
            seen = []

            async def read() -> None:
                async for number in db._runner.stream(broken):
                    seen.append(number)  # noqa: PERF401 - those before the error count

            with pytest.raises(wormdb.UnavailableError, match="row 5"):
                await read()
            assert seen == list(range(5))

    run(work())


def test_the_feed_is_followed_without_holding_a_thread(tmp_path: Path) -> None:
    async def work() -> None:
        async with aio.connect(tmp_path, concurrency=1) as db:
            notes, seen = db["notes"], asyncio.Queue[Any]()

            async def follow() -> None:
                async for change in notes.watch(follow=True, poll_seconds=0.01):
                    await seen.put(change)

            followers = [asyncio.create_task(follow()) for _ in range(4)]
            for number in range(3):
                await notes.insert({"id": f"{number}"})
            found = [(await seen.get()).id for _ in range(12)]
            assert sorted(found) == sorted(["0", "1", "2"] * 4)
            for task in followers:
                task.cancel()
            assert await asyncio.gather(*followers, return_exceptions=True) != []
            assert all(task.cancelled() for task in followers)
            assert await notes.count() == 3

    run(work())


def test_a_stream_is_a_block_that_begins_now(tmp_path: Path) -> None:
    async def work() -> None:
        async with aio.connect(tmp_path) as db:
            notes = db["notes"]
            await notes.insert({"id": "a"})
            async with notes.watch("now", follow=True, poll_seconds=0.01) as stream:
                assert stream.resume == 1
                await notes.insert({"id": "b"})
                assert (await anext(stream)).id == "b"
            assert [change.id async for change in stream] == []
            assert [change.id async for change in notes.watch(stream.resume)] == []
            with pytest.raises(InvalidRequestError, match="resume"):
                notes.watch("yesterday")

    run(work())


# --- threads ---


class Gated(WrappedStore):
    """A store that holds requests up until a gate opens, or the time of their call is over."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.opened = threading.Event()
        self.opened.set()
        self.waiting, self.most = 0, 0
        self._count = threading.Lock()

    def _pass(self, key: str) -> None:
        with self._count:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
        try:
            while not self.opened.wait(0.005):
                deadline = current()
                assert deadline is not None
                deadline.check(f"object {key}")
        finally:
            with self._count:
                self.waiting -= 1

    def probe(self, key: str) -> Probe:
        self._pass(key)
        return super().probe(key)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        self._pass(key)
        return super().put(key, body, precondition, content_type=content_type)


async def until(condition: Any) -> None:
    for _ in count():
        if condition():
            return
        await asyncio.sleep(0.001)


def test_no_more_calls_run_at_once_than_told() -> None:
    store = Gated(MemoryStore())

    async def work() -> None:
        async with aio.connect(store, concurrency=3) as db:
            store.opened.clear()
            tasks = [asyncio.create_task(db[f"c{n}"].count()) for n in range(10)]
            await until(lambda: store.waiting == 3)
            store.opened.set()
            assert await asyncio.gather(*tasks) == [0] * 10
            assert store.most == 3

    run(work())


def test_a_cancelled_call_frees_its_thread_before_it_ends() -> None:
    store = Gated(MemoryStore())

    async def work() -> None:
        async with aio.connect(store, concurrency=2) as db:
            store.opened.clear()
            tasks = [asyncio.create_task(db[f"c{n}"].count()) for n in range(5)]
            await until(lambda: store.waiting == 2)
            for task in tasks:
                task.cancel()
            for task in tasks:
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert store.waiting == 0
            store.opened.set()
            assert await db["c0"].count() == 0

    run(work())


def test_a_call_that_is_cancelled_before_it_began_does_nothing() -> None:
    store = Gated(MemoryStore())

    async def work() -> None:
        async with aio.connect(store, concurrency=1) as db:
            notes = db["notes"]
            await notes.insert({"id": "a"})
            store.opened.clear()
            first = asyncio.create_task(notes.count())
            await until(lambda: store.waiting == 1)
            second = asyncio.create_task(notes.insert({"id": "b"}))
            await asyncio.sleep(0)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            store.opened.set()
            assert await first == 1
            assert [note.id async for note in notes] == ["a"]

    run(work())


def test_a_timeout_around_a_call_ends_it() -> None:
    store = Gated(MemoryStore())

    async def work() -> None:
        async with aio.connect(store) as db:
            store.opened.clear()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await db["notes"].insert({"id": "a"})
            assert store.waiting == 0
            store.opened.set()
            assert await db["notes"].count() == 0

    run(work())


@given(st.lists(st.floats(0, 0.02), min_size=1, max_size=12), st.integers(1, 8))
def test_cancelled_writes_are_whole_or_absent(delays: list[float], concurrency: int) -> None:
    """Each task inserts three documents at once and is cancelled at some moment: all three are there, or none."""

    async def work() -> None:
        async with aio.connect("memory://", concurrency=concurrency) as db:
            notes = db["notes"]

            async def write(task: int) -> None:
                for number in range(20):
                    await notes.insert_many([{"id": f"{task}-{number}-{part}", "task": task} for part in range(3)])

            tasks = [asyncio.create_task(write(task)) for task in range(len(delays))]
            for task, delay in zip(tasks, delays, strict=True):
                await asyncio.sleep(delay)
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(each is None or isinstance(each, asyncio.CancelledError) for each in ended)
            found: dict[str, int] = {}
            async for note in notes:
                name = note.id.rpartition("-")[0]
                found[name] = found.get(name, 0) + 1
            assert set(found.values()) <= {3}
            for place, end in enumerate(ended):
                numbers = sorted(int(name.partition("-")[2]) for name in found if name.startswith(f"{place}-"))
                assert numbers == list(range(len(numbers)))
                assert end is not None or len(numbers) == 20
            await notes.insert({"id": "afterwards"})
            assert await db.verify() is not None

    asyncio.run(work())


def test_rows_that_are_cancelled_leave_nothing_under_way() -> None:
    store = Gated(MemoryStore())

    async def work() -> None:
        async with aio.connect(store, concurrency=1) as db:
            await db["n"].insert_many([{"n": n} for n in range(600)])

            async def read() -> None:
                async for _ in db["n"].find():
                    await asyncio.sleep(0)
                    store.opened.clear()
                    await db["n"].count()

            task = asyncio.create_task(read())
            await until(lambda: store.waiting == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert store.waiting == 0
            store.opened.set()
            assert await db["n"].count() == 600

    run(work())


def test_context_of_the_caller_is_that_of_the_call() -> None:
    from contextvars import ContextVar

    name: ContextVar[str] = ContextVar("name", default="")
    seen = []

    async def work() -> None:
        name.set("request 1")
        async with aio.connect("memory://", hook=lambda _: seen.append(name.get())) as db:
            await db["n"].count()

    run(work())
    assert set(seen) == {"request 1"}


@pytest.mark.parametrize("concurrency", [0, -1, True, 1.5])
def test_a_wrong_number_of_calls_is_refused(concurrency: Any) -> None:
    with pytest.raises(wormdb.InvalidRequestError, match="concurrency"):
        aio.connect("memory://", concurrency=concurrency)


@pytest.mark.s3
def test_on_s3(s3_url: str) -> None:
    async def work() -> None:
        async with aio.connect(s3_url) as db:
            notes = db["notes"]
            await asyncio.gather(*(notes.insert({"id": f"{n}"}) for n in range(20)))
            assert sorted([int(note.id) async for note in notes]) == list(range(20))
            task = asyncio.create_task(notes.insert({"id": "late"}))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await notes.count() in (20, 21)

    run(work())
