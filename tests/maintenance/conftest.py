"""Small objects for every test here, so that few documents make all kinds of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.maintenance.wreck import make_small


@pytest.fixture(autouse=True)
def _small_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)
    # Blocks of a few rows: threads would only wait for each other.
    pa.set_cpu_count(1)
