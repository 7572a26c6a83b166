"""The public API is tested on memory and on a folder; a smaller part of it on S3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.api.notebook import NOTES, Notebook
from wormdb.storage.memory import drop_memory
from wormdb.system.clock import ManualClock, SystemChance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb.api.database import Database


@pytest.fixture(params=["memory", "folder"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A place that nobody else uses, and that may be opened several times."""
    if request.param == "folder":
        yield str(tmp_path / "bucket")
        return
    name = SystemChance().token(8).hex()
    yield f"memory://{name}"
    drop_memory(name)


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    """An empty database."""
    with wormdb.connect(url) as database:
        yield database


@pytest.fixture(params=[False, True], ids=["tail", "forwarded"])
def book(request: pytest.FixtureRequest, url: str) -> Iterator[Notebook]:
    """Notes with history, snapshots and a trash: all in the log, or brought forward at every step."""
    clock = ManualClock()
    with wormdb.connect(url, schema=NOTES, clock=clock) as database:
        yield Notebook(database, clock, url, forwarded=request.param)
