"""One S3 server whose keys have the rights that the shipped policies give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.storage.roles import Role, s3_policy
from wormdb.storage.url import StoreUrl
from wormdb.system.clock import SystemChance
from wormdb.testing.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUCKET = "wormdb-test"


@pytest.fixture(scope="session")
def guarded_server() -> Iterator[S3Server]:
    """A server with a key for each role, good below the prefix `app`; `naive` may not list."""
    place = StoreUrl("s3", BUCKET, "app")
    policies = {role.value: s3_policy(role, place) for role in Role}
    policies["naive"] = {**policies["reader"], "Statement": policies["reader"]["Statement"][1:]}
    with S3Server(bucket=BUCKET, policies=policies) as server:
        yield server


@pytest.fixture
def become(guarded_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts the key of a role into the environment; `owner` may do everything."""

    def become(role: str) -> None:
        environment = guarded_server.environment if role == "owner" else guarded_server.environment_of(role)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    return become


@pytest.fixture
def app_url(guarded_server: S3Server) -> str:
    """A place that no other test uses, where the roles have their rights."""
    return guarded_server.url(f"app/{SystemChance().token(6).hex()}")
