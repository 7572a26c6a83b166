"""Servers are killed, and the store restarts, while clients make transfers over two buckets: sums hold."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.server.several import ServedProcess, kept_rows
from tests.server.transfers import Bank, check
from wormdb.testing.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class _Fleet:
    """Two servers, of which one at a time is killed and another takes its place."""

    def __init__(self, place: str) -> None:
        self._place = place
        self.servers = [ServedProcess(place) for _ in range(2)]

    def ports(self) -> list[int]:
        return [server.port for server in self.servers]

    def kill_one(self, turn: int) -> None:
        place = turn % len(self.servers)
        self.servers[place].kill()
        self.servers[place] = ServedProcess(self._place)

    def end(self) -> None:
        for server in self.servers:
            server.kill()


def _proven(place: str, *, turns: int, moves: int, restart: Callable[[], None] | None = None) -> None:
    """Let four clients work while one server after the other dies, and until they have gone on after the last."""
    fleet = _Fleet(place)
    bank = Bank(fleet.ports)
    try:
        bank.fill(fleet.servers[0].client)
        clients = [threading.Thread(target=bank.work, args=(seed,)) for seed in range(1, 5)]
        for client in clients:
            client.start()
        for turn in range(turns):
            bank.await_more(moves)
            fleet.kill_one(turn)
            if restart is not None:
                bank.await_more(1)
                restart()
        bank.await_more(moves)
        bank.ended.set()
        for client in clients:
            client.join()
        told = bank.outcomes
        print(  # noqa: T201 - shown by pytest -s
            f"{turns} servers killed: {len(told.acknowledged)} transfers acknowledged, {len(told.refused)} refused,"
            f" {len(told.unknown)} unknown"
        )
        assert len(bank.outcomes.acknowledged) >= (turns + 1) * moves
        for server in fleet.servers:
            check(bank.outcomes, partial(kept_rows, server.client))
    finally:
        bank.ended.set()
        fleet.end()


@pytest.mark.timeout(300)
def test_sums_hold_while_servers_of_a_folder_are_killed(tmp_path: Path) -> None:
    _proven(str(tmp_path / "bucket"), turns=2, moves=5)


@pytest.mark.s3
@pytest.mark.timeout(400)
def test_sums_hold_while_servers_are_killed_and_the_store_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Server() as store:
        for name, value in store.environment.items():
            monkeypatch.setitem(os.environ, name, value)
        _proven(store.url("bank"), turns=2, moves=3, restart=store.restart)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_sums_hold_for_long_in_a_folder(tmp_path: Path) -> None:
    _proven(str(tmp_path / "bucket"), turns=30, moves=20)


@pytest.mark.s3
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_sums_hold_for_long_while_the_store_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Server() as store:
        for name, value in store.environment.items():
            monkeypatch.setitem(os.environ, name, value)
        _proven(store.url("bank"), turns=30, moves=20, restart=store.restart)
