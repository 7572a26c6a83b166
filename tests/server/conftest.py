"""Servers for tests: each over a store of its own, in a thread, on a free port."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from wormdb.server.host import ServerThread
from wormdb.server.parts import ServerOptions
from wormdb.server.service import Service, open_served
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.system.clock import SystemChance, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.server.accounts import Accounts
    from wormdb.storage.store import Store
    from wormdb.system.clock import Clock

__all__ = ["running"]


@contextmanager
def running(
    place: str | Store | None = None,
    options: ServerOptions | None = None,
    accounts: Accounts | None = None,
    clock: Clock | None = None,
    *,
    is_json: bool = False,
) -> Iterator[ServerThread]:
    """A server over a folder, a store, or a memory of its own."""
    clock, chance = clock or SystemClock(), SystemChance()
    where = MemoryStore(None, clock=clock) if place is None else place
    with open_served(where, settings=Settings(), clock=clock, chance=chance) as database:
        service = Service(database, accounts=accounts, clock=clock, chance=chance, is_json=is_json)
        with ServerThread(service, options or ServerOptions(port=0)) as server:
            yield server


@pytest.fixture
def server() -> Iterator[ServerThread]:
    with running() as started:
        yield started
