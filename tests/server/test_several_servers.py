"""Real servers of one database, each a process: they find each other, meet, die, and come back."""

from __future__ import annotations

import json
import signal
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import bson
import pytest
import redis

import wormdb
from tests.cli.printed import worm
from tests.server.several import ServedProcess, kept_rows
from wormdb.engine.log.peers import Peers
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "bucket") if request.param == "folder" else str(request.getfixturevalue("s3_url"))


def started(stack: ExitStack, place: str, *options: str) -> ServedProcess:
    server = ServedProcess(place, *options)
    stack.callback(server.kill)
    return server


def insert(client: Any, bucket: str, number: int) -> bytes:
    ids: list[bytes] = client.execute_command("BUCKET.INSERT", bucket, "DOCS", bson.encode({"n": number}))
    return ids[0]


def handed(place: str, bucket: str) -> dict[int, bool]:
    """Of each number that was inserted whether it was handed from one server to another."""
    with wormdb.connect(place) as database:
        return {
            change.after["n"]: "handed" in (change.metadata or {})
            for change in database[bucket].watch()
            if change.op == "create" and change.after is not None
        }


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("place", "count"),
    [
        ("folder", 3),
        ("s3", 2),
        pytest.param("folder", 2, marks=pytest.mark.long),
        pytest.param("s3", 3, marks=pytest.mark.long),
    ],
    indirect=["place"],
)
def test_servers_find_each_other_and_writers_of_a_bucket_meet_at_one(place: str, count: int) -> None:
    with ExitStack() as stack:
        servers = [started(stack, place) for _ in range(count)]
        assert sorted(server.node for server in servers if server.node is not None) == list(range(count))
        servers[0].client.execute_command("BUCKET.CREATE", "things")
        orders = [server.wait_for(count, "things") for server in servers]
        assert len({tuple(order) for order in orders}) == 1, "all of them tell the same"
        for number in range(10 * count):
            insert(servers[number % count].client, "things", number)
        at = next(n for n, server in enumerate(servers) if orders[0][0].endswith(f":{server.port}"))
        found = handed(place, "things")
        assert sorted(found) == list(range(10 * count))
        # On a busy machine one may seem dead to another for a moment: then it commits by itself.
        assert {number % count for number, is_handed in found.items() if is_handed} == {*range(count)} - {at}
        for server in servers:
            assert sorted(row["n"] for row in kept_rows(server.client, "things")) == list(range(10 * count))
        members = servers[0].client.execute_command("KR.ADMIN", "LIST-MEMBERS")
        assert {int(each[b"external_port"]) for each in members.values()} == {server.port for server in servers}
        assert {each[b"status"] for each in members.values()} == {b"RUNNING"}
        cluster = servers[0].client.execute_command("KR.ADMIN", "DESCRIBE-CLUSTER")
        shard = servers[0].client.execute_command("BUCKET.LOCATE", "things")[0]
        assert sorted(cluster[b"bucket"]) == list(range(16))
        meeting = cluster[b"bucket"][shard]
        assert int(members[meeting[b"primary"]][b"external_port"]) == int(orders[0][0].rpartition(":")[2])
        assert len(meeting[b"standbys"]) == count - 1
        assert servers[-1].client.execute_command("KR.ADMIN", "DESCRIBE-SHARD", "bucket", shard) == meeting
        assert servers[0].client.execute_command("KR.ADMIN", "LIST-SILENT-MEMBERS") == []
        shown = json.loads(worm("node", "list", "--url", place, "--json").data)
        assert {each["address"] for each in shown["nodes"]} == {f"resp://127.0.0.1:{each.port}" for each in servers}
        assert sorted(shard for each in shown["nodes"] for shard in each["shards"]) == list(range(16))
        (things,) = shown["collections"]
        primary = next(each for each in shown["nodes"] if things["shard"] in each["shards"])
        assert things["server"] == primary["node"]
        assert primary["address"] == f"resp://{orders[0][0]}"
        assert [server.stop() for server in servers] == [0] * count


@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_when_the_owner_dies_under_load(place: str) -> None:
    with ExitStack() as stack:
        servers = [started(stack, place) for _ in range(2)]
        servers[0].client.execute_command("BUCKET.CREATE", "things")
        primary, _ = next(server.wait_for(2, "things") for server in servers)
        owner = next(server for server in servers if primary.endswith(f":{server.port}"))
        (other,) = [server for server in servers if server is not owner]
        acknowledged: dict[int, bytes] = {}

        def write(first: int) -> None:
            made: Any = redis.Redis(port=other.port, socket_timeout=120)
            with made as client:
                for number in range(first, first + 30):
                    acknowledged[number] = insert(client, "things", number)
                    if number == first + 10:
                        started_all.wait()

        started_all = threading.Barrier(5)
        threads = [threading.Thread(target=write, args=(100 * number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        started_all.wait()
        owner.signal(signal.SIGKILL)
        for thread in threads:
            thread.join()
        assert len(acknowledged) == 120, "inserts with ids of the server are never unknown"
        rows = kept_rows(other.client, "things")
        assert {row["n"]: row["_id"].binary for row in rows} == acknowledged
        assert len(rows) == 120


@pytest.mark.timeout(300)
def test_writes_go_on_and_are_done_once_while_the_owner_sleeps(tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = [started(stack, str(tmp_path)) for _ in range(2)]
        servers[0].client.execute_command("BUCKET.CREATE", "things")
        primary, _ = next(server.wait_for(2, "things") for server in servers)
        owner = next(server for server in servers if primary.endswith(f":{server.port}"))
        (other,) = [server for server in servers if server is not owner]
        insert(other.client, "things", 0)
        owner.signal(signal.SIGSTOP)
        for number in range(1, 6):
            insert(other.client, "things", number)
            changed = other.client.execute_command("BUCKET.UPDATE", "things", "{}", '{"$inc":{"times":1}}')
            assert len(changed[b"object_ids"]) == number + 1
        owner.signal(signal.SIGCONT)
        assert owner.client.ping(), "it has read what was handed to it by now"
        insert(owner.client, "things", 6)
        rows = kept_rows(owner.client, "things")
        assert sorted((row["n"], row.get("times", 0)) for row in rows) == [
            *((number, 5 - max(number - 1, 0)) for number in range(6)),
            (6, 0),
        ]


@pytest.mark.timeout(300)
def test_a_bucket_that_one_server_removes_is_removed_for_the_others(place: str) -> None:
    with ExitStack() as stack:
        first, second = (started(stack, place) for _ in range(2))
        first.client.execute_command("BUCKET.CREATE", "things")
        insert(second.client, "things", 1)
        insert(first.client, "things", 2)
        first.client.execute_command("BUCKET.REMOVE", "things")
        for server in (first, second):
            with pytest.raises(redis.ResponseError, match="BUCKETBEINGREMOVED"):
                insert(server.client, "things", 3)
            with pytest.raises(redis.ResponseError, match="BUCKETBEINGREMOVED"):
                kept_rows(server.client, "things")
            with pytest.raises(redis.ResponseError, match="BARRIERNOTSATISFIED"):
                server.client.execute_command("BUCKET.PURGE", "things")
        with wormdb.connect(place) as database:
            with pytest.raises(wormdb.RemovedError):
                database["things"].insert({"n": 3})
            # What a purge waits for, beside a minute: every server shows that it has seen it.
            shown: set[int] = set()
            while shown != {first.node, second.node}:
                peers = Peers(database.store, SystemClock())
                peers.look()
                shown = {
                    node
                    for node in peers.live()
                    if (peer := peers.get(node)) is not None
                    and peer.heartbeat is not None
                    and any(each.collection == "things/" and each.removed for each in peer.heartbeat.written)
                }


@pytest.mark.timeout(300)
def test_a_server_that_lost_its_id_serves_on_and_takes_another(tmp_path: Path) -> None:
    place = str(tmp_path)
    with ExitStack() as stack:
        server = started(stack, place)
        server.client.execute_command("BUCKET.CREATE", "things")
        before = server.client.execute_command("KR.ADMIN", "DESCRIBE-MEMBER")
        while worm("node", "remove", "0", "--yes", "--url", place).code:
            pass  # it beat at the same moment
        after: Any = before
        while after[b"process_id"] == before[b"process_id"] or after[b"status"] != b"RUNNING":
            insert(server.client, "things", 1)
            try:
                after = server.client.execute_command("KR.ADMIN", "DESCRIBE-MEMBER")
            except redis.ResponseError as error:
                assert "no member" in str(error)  # noqa: PT017 - it may be raised, for a while
        assert after[b"external_port"] == server.port
