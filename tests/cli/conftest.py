"""Fixtures for tests of commands."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.cli.printed import fill, worm
from wormdb.cli.commands import index
from wormdb.cli.commands.table import rebuild as table_rebuild
from wormdb.jobs import place
from wormdb.settings import Settings
from wormdb.storage.memory import drop_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["jobs_shop", "layered_shop", "memory", "shop", "without_waiting"]

_PLACES = count()
_HURRIED = Settings(forward="manual", forward_interval_ms=0)


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that forward several times leave no second between the roots they write."""
    for module in (index, table_rebuild):
        monkeypatch.setattr(module, "MANUAL", _HURRIED)
    monkeypatch.setattr(place, "WORKER_SETTINGS", replace(place.WORKER_SETTINGS, forward_interval_ms=0))


@pytest.fixture
def memory() -> Iterator[str]:
    """The URL of a database in memory that the commands of one test share: there is no disk to wait for."""
    name = f"cli-{next(_PLACES)}"
    yield f"memory://{name}"
    drop_memory(name)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A shop that tests only read; its customers are brought forward, and have files."""
    url = str(tmp_path_factory.mktemp("cli") / "shop")
    fill(url, files=True)
    assert worm("forward", url, "Customer").code == 0
    return url


@pytest.fixture(scope="session")
def jobs_shop() -> str:
    """A shop in memory that tests only read; nothing of it is brought forward."""
    fill("memory://jobs", 200)
    return "memory://jobs"


@pytest.fixture
def layered_shop(memory: str) -> str:
    """Three runs, of which two hide rows of the first."""
    fill(memory, 60)
    with wormdb.connect(memory, settings=_HURRIED) as db:
        customers = db.model("Customer")
        customers.forward()
        for turn in range(2):
            customers.modify(f"c{turn:04}", lambda found: found.update(name="changed"))
            customers.forward()
    return memory
