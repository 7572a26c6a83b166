"""Fixtures for tests of commands."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from wormdb.cli.commands import index
from wormdb.cli.commands.table import rebuild as table_rebuild
from wormdb.settings import Settings
from wormdb.storage.memory import drop_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["memory", "without_waiting"]

_PLACES = count()


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that forward several times leave no second between the roots they write."""
    for module in (index, table_rebuild):
        monkeypatch.setattr(module, "MANUAL", Settings(forward="manual", forward_interval_ms=0))


@pytest.fixture
def memory() -> Iterator[str]:
    """The URL of a database in memory that the commands of one test share: there is no disk to wait for."""
    name = f"cli-{next(_PLACES)}"
    yield f"memory://{name}"
    drop_memory(name)
