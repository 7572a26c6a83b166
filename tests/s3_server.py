"""Fixtures for tests on a real S3 server; the server itself is wormdb.testing.s3_server.

Each worker of a parallel run starts a server of its own: some memory, and nothing to count or hand over between
processes. It takes six seconds, nearly all of them waiting, so it begins as soon as the tests are collected.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from wormdb.storage.roles import Role, s3_policy
from wormdb.storage.url import StoreUrl
from wormdb.system.clock import SystemChance
from wormdb.testing.s3_server import S3Server

__all__ = ["end_s3_server", "s3_server", "s3_url", "start_s3_server"]

BUCKET = "wormdb-test"
_STARTED = pytest.StashKey[Future[S3Server]]()


def start_s3_server(session: pytest.Session) -> None:
    """Begin to start the server of this worker, if a test of the run asks for it."""
    if not session.config.option.collectonly and any("s3_server" in _fixtures(item) for item in session.items):
        _begin(session.config)


def _begin(config: pytest.Config) -> Future[S3Server]:
    """Start a server in a thread, with a key for each role of the database, good below the prefix `app`."""
    place = StoreUrl("s3", BUCKET, "app")
    policies = {role.value: s3_policy(role, place) for role in Role}
    # Who may not list.
    policies["naive"] = {**policies["reader"], "Statement": policies["reader"]["Statement"][1:]}
    with_one_thread = ThreadPoolExecutor(1, thread_name_prefix="s3-server-start")
    started = config.stash[_STARTED] = with_one_thread.submit(S3Server(bucket=BUCKET, policies=policies).__enter__)
    with_one_thread.shutdown(wait=False)
    return started


def end_s3_server(config: pytest.Config) -> None:
    """End it, also if no test asked for it."""
    started = config.stash.get(_STARTED, None)
    if started is not None and started.exception() is None:
        started.result().__exit__(None, None, None)


def _fixtures(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


@pytest.fixture(scope="session")
def s3_server(request: pytest.FixtureRequest) -> S3Server:
    """One server for this worker's whole run."""
    started = request.config.stash.get(_STARTED, None)
    return (started or _begin(request.config)).result()  # a test may ask for it while it runs


@pytest.fixture
def s3_url(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a prefix that no other test uses, with the credentials in the environment."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server.url(f"test-{SystemChance().token(6).hex()}")
