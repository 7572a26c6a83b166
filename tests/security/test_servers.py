"""A server whose key may only read serves what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis

import wormdb
from tests.server.several import ServedProcess, kept_rows

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.timeout(300)
def test_a_server_that_may_only_read_serves_alone(app_url: str, become: Callable[[str], None]) -> None:
    become("owner")
    with wormdb.connect(app_url) as database:
        database["things"].insert({"id": "a", "n": 1})
    become("reader")
    server = ServedProcess(app_url)
    try:
        assert server.node is None
        assert [row["n"] for row in kept_rows(server.client, "things")] == [1]
        with pytest.raises(redis.ResponseError):
            server.client.execute_command("BUCKET.UPDATE", "things", "{}", '{"$set":{"n":2}}')
        assert [row["n"] for row in kept_rows(server.client, "things")] == [1]
    finally:
        server.kill()
