"""Fixtures for tests of commands."""

from __future__ import annotations

import pytest

from wormdb.cli.commands import index, table_rebuild
from wormdb.settings import Settings

__all__ = ["without_waiting"]


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that forward several times leave no second between the roots they write."""
    for module in (index, table_rebuild):
        monkeypatch.setattr(module, "MANUAL", Settings(forward="manual", forward_interval_ms=0))
