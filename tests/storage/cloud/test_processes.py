"""Several processes on one bucket."""

from __future__ import annotations

import multiprocessing

import pytest

from wormdb.errors import ConflictError, OutcomeUnknownError, UnavailableError
from wormdb.storage.open import open_store
from wormdb.storage.store import IfMatch
from wormdb.system.clock import SystemChance, SystemClock

INCREMENTS = 200
PROCESSES = 4


def increment(url: str, writer: int) -> None:
    """Add one to the counter INCREMENTS times; a write of unknown outcome is looked up by its id."""
    clock, chance = SystemClock(), SystemChance()
    with open_store(url) as store:
        for number in range(INCREMENTS):
            landed = False
            while not landed:
                found = store.get("counter")
                count, _, seen = found.body.decode().partition(" ")
                write_id = f"{writer}-{number}"
                if write_id in seen.split(","):
                    break  # an earlier try landed after all
                # Ids of the last writes travel along, so that one of ours is found beneath another's.
                recent = ",".join([write_id, *seen.split(",")][:50])
                try:
                    store.put("counter", f"{int(count) + 1} {recent}".encode(), IfMatch(found.version))
                    landed = True
                except (ConflictError, UnavailableError, OutcomeUnknownError):
                    clock.sleep(chance.fraction() * 0.02)


@pytest.mark.s3
def test_four_processes_count_exactly(s3_url: str) -> None:
    """4 processes x 200 increments by IfMatch end at 800: none lost, none twice."""
    with open_store(s3_url) as store:
        store.put("counter", b"0 ")
        context = multiprocessing.get_context("spawn")
        workers = [context.Process(target=increment, args=(s3_url, writer)) for writer in range(PROCESSES)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(120)
        assert [worker.exitcode for worker in workers] == [0] * PROCESSES
        assert store.get("counter").body.split()[0] == b"%d" % (PROCESSES * INCREMENTS)
