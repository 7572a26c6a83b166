"""Who asks the S3 server: keys that have the rights that the shipped policies give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.system.clock import SystemChance

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.testing.s3_server import S3Server


@pytest.fixture
def become(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts the key of a role into the environment; `owner` may do everything."""

    def become(role: str) -> None:
        environment = s3_server.environment if role == "owner" else s3_server.environment_of(role)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    return become


@pytest.fixture
def app_url(s3_server: S3Server) -> str:
    """A place that no other test uses, where the roles have their rights."""
    return s3_server.url(f"app/{SystemChance().token(6).hex()}")
