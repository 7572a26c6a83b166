"""Fixtures for tests on a real S3 server; the server itself is wormdb.testing.s3_server.

Each worker of a parallel run starts a server of its own, on first use: five seconds and some
memory, and nothing to count or hand over between processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.system.clock import SystemChance
from wormdb.testing.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["s3_server", "s3_url"]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One server for this worker's whole run."""
    with S3Server() as server:
        yield server


@pytest.fixture
def s3_url(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a prefix that no other test uses, with the credentials in the environment."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server.url(f"test-{SystemChance().token(6).hex()}")
