"""Where the tests of blobs have their databases."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from wormdb.storage.memory import drop_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAMES = (f"blobs-{number}" for number in count())


@pytest.fixture(params=["memory", "folder"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty place for a database."""
    if request.param == "folder":
        yield str(tmp_path / "db")
        return
    name = next(_NAMES)
    yield f"memory://{name}"
    drop_memory(name)
