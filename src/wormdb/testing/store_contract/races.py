"""The part of the store contract about contention and fork."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from typing import TYPE_CHECKING, ClassVar

import pytest

from wormdb.errors import AlreadyExistsError, ClosedError, ConflictError, UnavailableError
from wormdb.storage.store import IfAbsent, IfMatch, Store

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["RaceContract"]

ATTEMPTS_MAX = 10_000
CHILD_SECONDS_MAX = 10
RAISED, SILENT, OTHER = 0, 3, 4
"""How the forked child ends: ClosedError with a remedy, no error, another error."""


def _side_by_side(work: Callable[[int], None], count: int) -> None:
    """Run `work(0)` … `work(count - 1)` in threads that begin together; the first error is raised."""
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:  # noqa: BLE001 - carried over to the test's thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _child_after_fork(store: Store) -> int:
    """How a forked child ends that uses `store`; a hang ends by the alarm's signal."""
    with warnings.catch_warnings():
        # Python 3.12 warns of fork with threads, which is just what this is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(CHILD_SECONDS_MAX)
    try:
        for call in (lambda: store.get("key"), lambda: store.put("key", b"child"), lambda: list(store.list())):
            try:
                call()
            except ClosedError as error:
                if "fork" not in str(error) or not error.fix:
                    os._exit(OTHER)
            else:
                os._exit(SILENT)
        os._exit(RAISED)
    finally:
        os._exit(OTHER)


class RaceContract:
    """Preconditions hold when many ask at once."""

    threads: ClassVar[int] = 8
    increments: ClassVar[int] = 25
    """Successful swaps of each of 4 threads; lower it where a request is slow."""

    def test_if_absent_has_one_winner(self, store: Store, other_handle: Store) -> None:
        """Of threads that create one object, exactly one succeeds, and its bytes are there."""
        handles = (store, other_handle)
        for number in range(5):
            key = f"race/{number}"
            winners: list[int] = []

            def create(thread: int, key: str = key, winners: list[int] = winners) -> None:
                for _ in range(ATTEMPTS_MAX):
                    try:
                        handles[thread % 2].put(key, b"writer %d" % thread, IfAbsent())
                    except AlreadyExistsError:
                        return
                    except UnavailableError:
                        continue  # a store may ask to try again, if it wrote nothing
                    winners.append(thread)
                    return
                pytest.fail("the store never answered")

            _side_by_side(create, self.threads)
            assert len(winners) == 1
            assert store.get(key).body == b"writer %d" % winners[0]

    def test_if_match_counts_exactly(self, store: Store, other_handle: Store) -> None:
        """No increment is lost and none is counted twice."""
        handles = (store, other_handle)
        store.put("counter", b"0 start")

        def increment(thread: int) -> None:
            done = 0
            for attempt in range(ATTEMPTS_MAX):
                if done == self.increments:
                    return
                handle = handles[thread % 2]
                found = handle.get("counter")
                count = int(found.body.split()[0])
                body = b"%d writer %d attempt %d" % (count + 1, thread, attempt)
                try:
                    handle.put("counter", body, IfMatch(found.version))
                except (ConflictError, UnavailableError):
                    continue
                done += 1
            assert done == self.increments

        _side_by_side(increment, 4)
        assert store.get("counter").body.split()[0] == b"%d" % (4 * self.increments)

    def test_readers_see_whole_objects(self, store: Store, other_handle: Store) -> None:
        """While an object is overwritten, every read is one of the written bodies, whole."""
        bodies = [bytes([letter]) * size for letter, size in zip(b"abcd", (10, 70_000, 3, 200_000), strict=True)]
        store.put("shared", bodies[0])

        def work(thread: int) -> None:
            if thread == 0:
                for number in range(20):
                    store.put("shared", bodies[number % 4])
                return
            for _ in range(20):
                assert other_handle.get("shared").body in bodies

        _side_by_side(work, 3)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
    def test_use_after_fork_is_refused(self, store: Store) -> None:
        """The child gets ClosedError with the remedy at once, and the parent's handle lives on."""
        store.put("key", b"parent")
        assert store.get("key").body == b"parent"
        assert _child_after_fork(store) == RAISED
        assert store.get("key").body == b"parent"
        store.put("key", b"parent again")
        assert store.get("key").body == b"parent again"
