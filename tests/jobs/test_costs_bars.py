"""The three bars of cost on a small scale, with exact counts: what a change makes dearer is seen here."""

from __future__ import annotations

import pytest

from benchmarks.cost import (
    HOURS_A_MONTH,
    IDLE_DOLLARS_MAX,
    INSERT_DOLLARS_MAX,
    MILLION,
    ROOM_MAX,
    idle,
    insert_all,
    update_all,
)


def test_inserts_with_forwarding_and_gc() -> None:
    count = 3_000
    found = insert_all(count)
    assert found.counted["put", "committed"] == count // 1_000 + 1  # the index is one more
    assert found.stored["committed"] == 0
    # Few entries are brought forward by themselves; of a million there are 20 times as many in a forwarding.
    assert found.used.dollars * MILLION / count <= 3 * INSERT_DOLLARS_MAX


@pytest.mark.parametrize(("collections", "puts", "gets", "lists"), [(1, 120, 126, 72), (100, 120, 3_661, 161)])
def test_an_idle_node(collections: int, puts: int, gets: int, lists: int) -> None:
    found = idle(collections)
    assert (found.puts, found.gets, found.lists, found.requests) == (puts, gets, lists, puts + gets + lists)
    assert found.dollars * HOURS_A_MONTH <= IDLE_DOLLARS_MAX


def test_room_after_updates() -> None:
    found = update_all(500, 4_000)
    assert found.room <= ROOM_MAX
    assert found.stored["committed"] == 0
    assert found.stored["history"] > found.fresh["history"]
