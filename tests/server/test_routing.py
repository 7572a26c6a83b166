"""Writes that one server hands to another: told once, committed once, whatever becomes of the way between them."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import bson
import pytest
import redis

import wormdb
from tests.server.conftest import running
from tests.server.several import CutProxy, bucket_of, joined, kept_rows, two_servers
from tests.server.wire import Wire
from wormdb.jobs.node.shards import SHARDS, name_shards, named_shards, order_of, shard_of
from wormdb.server.accounts import Accounts, hash_password
from wormdb.server.parts import ServerOptions
from wormdb.server.peers import PeerAccess

THERE = bucket_of(2, [1, 2])
"""Of node 2: node 1 hands writes on."""
HERE = bucket_of(1, [1, 2])


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "bucket")


def insert(client: Any, bucket: str, *documents: dict[str, Any]) -> list[bytes]:
    ids: list[bytes] = client.execute_command("BUCKET.INSERT", bucket, "DOCS", *map(bson.encode, documents))
    return ids


def marks(place: str, bucket: str) -> list[str | None]:
    """The mark of each change in the log; None of those that were not handed on."""
    with wormdb.connect(place) as database:
        return [(change.metadata or {}).get("handed") for change in database[bucket].watch()]


# --- where ---


def test_every_shard_has_an_order_of_all_servers_that_others_joining_do_not_change() -> None:
    for shard in range(SHARDS):
        few, more = order_of(shard, [3, 7, 9]), order_of(shard, [3, 5, 7, 9])
        assert sorted(few) == [3, 7, 9]
        assert tuple(node for node in more if node != 5) == few


def test_orders_and_shards_stay_what_they_were() -> None:
    """Servers of several releases must meet."""
    assert [order_of(shard, range(4)) for shard in (0, 7, 15)] == [(1, 3, 2, 0), (1, 0, 2, 3), (1, 2, 3, 0)]
    assert shard_of("org/customers/") == 3


def test_named_shards_stay_with_a_collection_and_go_with_it(place: str) -> None:
    with wormdb.connect(place) as database:
        database["things"].insert({"id": "a"})
        name_shards(database.store, "things/", [3, 1])
        database["things"].forward()
        assert [found.findings for found in database.verify(["things"])] == [()]
        assert database.gc(["things"])[0].victims == ()
        assert named_shards(database.store, "things/") == (1, 3)
        database.store.put("things/.worm.db/shards", b"[99]", content_type="application/json")
        assert named_shards(database.store, "things/") == ()
        database.drop("things")
        keys = [info.key for page in database.store.list("things/") for info in page.objects]
        assert "things/.worm.db/shards" not in keys


def test_shards_are_spread_over_servers_and_collections_over_shards() -> None:
    assert {order_of(shard, range(3))[0] for shard in range(SHARDS)} == {0, 1, 2}
    assert {shard_of(f"collection{number}/") for number in range(200)} == set(range(SHARDS))


def test_locate_names_the_primary_and_two_that_stand_by(place: str) -> None:
    addresses = {node: f"resp://127.0.0.1:{node}" for node in (2, 3, 4, 5)}
    with ExitStack() as stack:
        server = joined(stack, place, 1, addresses)
        wire = stack.enter_context(Wire(server.address[1]))
        wire.ask("BUCKET.CREATE", "b", "SHARDS", 6)
        order = [addresses[node].removeprefix("resp://") for node in order_of(6, addresses)]
        expected = f'[:6, "{order[0]}", ["{order[1]}", "{order[2]}"]]'
        assert wire.ask("BUCKET.LOCATE", "b") == expected


# --- what is handed on ---


def test_writes_are_committed_by_the_owner_and_answered_as_its_own(place: str) -> None:
    with two_servers(place) as (first, second, _, server):
        for bucket in (HERE, THERE):
            first.execute_command("BUCKET.CREATE", bucket)
            ids = insert(first, bucket, {"n": 1}, {"n": 2}, {"_id": bson.ObjectId("5" * 24), "n": 3})
            assert [len(each) for each in ids] == [12] * 3
            assert ids[2].hex() == "5" * 24
            changed = first.execute_command(
                "BUCKET.UPDATE", bucket, '{"n":{"$gte":1}}', '{"$set":{"x":1}}', "SORTBY", "n", "DESC", "LIMIT", 2
            )
            assert sorted(changed[b"object_ids"]) == sorted(ids[1:])
            rest = first.execute_command("BUCKET.ADVANCE", "UPDATE", changed[b"cursor_id"])
            assert rest[b"object_ids"] == ids[:1]
            made = first.execute_command("BUCKET.UPDATE", bucket, '{"n":9}', '{"$set":{"x":2},"upsert":true}')
            assert len(made[b"object_ids"]) == 1
            deleted = first.execute_command("BUCKET.DELETE", bucket, '{"n":1}')
            assert deleted[b"object_ids"] == ids[:1]
            with pytest.raises(redis.ResponseError, match="Duplicate key: _id '555555555555555555555555'"):
                insert(first, bucket, {"_id": bson.ObjectId("5" * 24)})
            for client in (first, second):
                assert [(row["n"], row["x"]) for row in kept_rows(client, bucket)] in (
                    [(3, 1), (2, 1), (9, 2)],
                    [(2, 1), (3, 1), (9, 2)],
                )
        router = server.parts.service.router
        assert (router.handed, router.kept, router.unknown) == (5, 0, 0)
    assert set(marks(place, HERE)) == {None}
    assert None not in marks(place, THERE)


def test_a_transaction_is_committed_where_it_began(place: str) -> None:
    with two_servers(place) as (first, second, _, server), first.client() as session:
        session.execute_command("BUCKET.CREATE", HERE)
        session.execute_command("BUCKET.CREATE", THERE)
        session.execute_command("BEGIN")
        insert(session, HERE, {"n": 1})
        insert(session, THERE, {"n": 1})
        assert session.execute_command("COMMIT") in (b"OK", True)
        assert server.parts.service.router.handed == 0
        assert len(kept_rows(second, THERE)) == 1


def test_a_write_of_many_documents_is_committed_here(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wormdb.server.routing.WORDS_MAX", 10)
    with two_servers(place) as (first, second, _, server):
        first.execute_command("BUCKET.CREATE", THERE)
        insert(first, THERE, *({"n": n} for n in range(20)))
        assert server.parts.service.router.handed == 0
        assert len(kept_rows(second, THERE)) == 20


def test_strict_routing_refuses_and_names_the_owner(place: str) -> None:
    with ExitStack() as stack:
        addresses = {2: "resp://127.0.0.1:9"}
        server = joined(stack, place, 1, addresses, mode="strict")
        wire = stack.enter_context(Wire(server.address[1]))
        for bucket in (HERE, THERE):
            assert wire.ask("BUCKET.CREATE", bucket) == "+OK"
        assert wire.ask("SESSION.ATTRIBUTE", "SET", "input_type", "json") == "+OK"
        reply = f"-REJECT {shard_of(f'{THERE}/')} 127.0.0.1:9"
        assert wire.ask("BUCKET.INSERT", THERE, "DOCS", "{}") == reply
        assert wire.ask("BUCKET.INSERT", HERE, "DOCS", "{}").startswith("[")
        assert wire.ask("BUCKET.QUERY", THERE, "{}") == "[:1, []]"
        assert wire.ask("BEGIN") == "+OK"
        assert wire.ask("BUCKET.INSERT", THERE, "DOCS", "{}").startswith("[")
        assert wire.ask("COMMIT") == "+OK"


# --- what goes wrong ---


def test_a_write_is_committed_here_while_the_owner_cannot_be_reached(place: str) -> None:
    with ExitStack() as stack:
        server = joined(stack, place, 1, {2: "resp://127.0.0.1:9"})
        made: Any = redis.Redis(port=server.address[1])
        client = stack.enter_context(made)
        client.execute_command("BUCKET.CREATE", THERE)
        for number in range(3):
            insert(client, THERE, {"n": number})
        client.execute_command("BUCKET.UPDATE", THERE, "{}", '{"$inc":{"n":10}}')
        assert sorted(row["n"] for row in kept_rows(client, THERE)) == [10, 11, 12]
        router = server.parts.service.router
        assert (router.handed, router.kept) == (0, 1), "it is not tried again at once"


KINDS: dict[str, tuple[tuple[Any, ...], list[int]]] = {
    "insert": (("BUCKET.INSERT", THERE, "DOCS", bson.encode({"n": 5})), [0, 5]),
    "insert with an id": (
        ("BUCKET.INSERT", THERE, "DOCS", bson.encode({"_id": bson.ObjectId("6" * 24), "n": 6})),
        [0, 6],
    ),
    "update": (("BUCKET.UPDATE", THERE, "{}", '{"$inc":{"n":1}}'), [1]),
    "upsert": (("BUCKET.UPDATE", THERE, '{"n":7}', '{"$set":{"n":7},"upsert":true}'), [0, 7]),
    "delete": (("BUCKET.DELETE", THERE, "{}"), []),
}
"""Writes to a bucket with one document, and what is there then."""


@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_write_whose_answer_is_lost_is_done_once(place: str, kind: str, mode: Any) -> None:
    words, left = KINDS[kind]
    with two_servers(place) as (first, second, proxy, server):
        first.execute_command("BUCKET.CREATE", THERE)
        insert(first, THERE, {"n": 0})
        proxy.mode = mode
        first.execute_command(*words)
        assert proxy.cut == 1
        assert sorted(row["n"] for row in kept_rows(second, THERE)) == left
        router = server.parts.service.router
        assert (router.kept, router.unknown) == (1 if mode == "before" else 0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_an_owner_that_hangs_is_not_waited_for_and_cannot_write_later(
    place: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wormdb.server.peers.PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr("wormdb.server.peers.LIFE_SECONDS", 0.05)
    words, left = KINDS[kind]
    with two_servers(place) as (first, second, proxy, server):
        first.execute_command("BUCKET.CREATE", THERE)
        insert(first, THERE, {"n": 0})
        proxy.mode = "hang"
        first.execute_command(*words)
        held = proxy.held()
        assert held.count(b"WORM.WRITE") == 1
        insert(first, THERE, {"n": 100})
        assert proxy.held() == held, "the next write is not handed on"
        # Where nothing is left to change, there is nothing to refuse either.
        assert (b",[]]" if kind in ("upsert", "delete") else b"-NOTBEGUN") in proxy.release()
        assert sorted(row["n"] for row in kept_rows(second, THERE)) == [*left, 100]
        router = server.parts.service.router
        assert (router.handed, router.kept, router.unknown) == (1, 1, 0)


def test_a_withdrawn_write_is_refused_also_where_the_root_has_the_withdrawal(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wormdb.server.peers.PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr("wormdb.server.peers.LIFE_SECONDS", 0.05)
    with ExitStack() as stack:
        second = stack.enter_context(running(place))
        proxy = CutProxy(second.address[1])
        stack.callback(proxy.close)
        first = joined(stack, place, 1, {2: f"resp://127.0.0.1:{proxy.port}"})
        made: Any = redis.Redis(port=first.address[1])
        client = stack.enter_context(made)
        client.execute_command("BUCKET.CREATE", THERE)
        insert(client, THERE, {"n": 0})
        proxy.mode = "hang"
        client.execute_command("BUCKET.UPDATE", THERE, "{}", '{"$inc":{"n":1}}')
        client.execute_command("BUCKET.UPDATE", THERE, "{}", '{"$set":{"x":1}}')
        owner = second.parts.service.database[THERE]
        owner.forward()
        assert owner._access.ledger.known().base_number > 3, "its tail does not have the withdrawal"
        # The filter is so wide that it would change the document again.
        assert b"-NOTBEGUN" in proxy.release()
        assert [(row["n"], row["x"]) for row in kept_rows(client, THERE)] == [(1, 1)]


def test_a_server_that_lives_again_is_handed_writes_again(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wormdb.server.routing.SUSPECT_SECONDS", 0.0)
    with two_servers(place) as (first, _, proxy, server):
        first.execute_command("BUCKET.CREATE", THERE)
        proxy.mode = "before"
        insert(first, THERE, {"n": 0})
        router = server.parts.service.router
        assert (router.handed, router.kept) == (0, 1)
        proxy.mode = "pass"
        while not router.handed:
            insert(first, THERE, {"n": 0})


def test_a_server_that_is_stopping_has_begun_nothing(place: str) -> None:
    with ExitStack() as stack:
        addresses: dict[int, str] = {}
        second = joined(stack, place, 2, addresses)
        first = joined(stack, place, 1, addresses)
        made: Any = redis.Redis(port=first.address[1])
        client = stack.enter_context(made)
        client.execute_command("BUCKET.CREATE", THERE)
        insert(client, THERE, {"n": 0})
        closed = threading.Event()
        second.parts.loop.call_soon_threadsafe(second.parts.handed.close)
        second.parts.loop.call_soon_threadsafe(closed.set)
        closed.wait()
        insert(client, THERE, {"n": 1})
        router = first.parts.service.router
        assert (router.handed, router.kept) == (1, 1)
        assert len(kept_rows(client, THERE)) == 2


def test_servers_that_disagree_hand_a_write_on_once(place: str) -> None:
    """Each believes that the other is the owner: the second one commits what it is handed."""
    with ExitStack() as stack:
        second = stack.enter_context(ExitStack())
        addresses: dict[int, str] = {}
        other = joined(second, place, 2, addresses)
        first = joined(stack, place, 1, dict(addresses))
        # To the other one the first is a node whose bucket this would be.
        name, node = next(
            (name, node)
            for node in range(3, 99)
            for name in (f"odd{number}" for number in range(100))
            if order_of(shard_of(f"{name}/"), [1, 2])[0] == 2 and order_of(shard_of(f"{name}/"), [2, node])[0] == node
        )
        addresses[node] = f"resp://127.0.0.1:{first.address[1]}"
        owner = other.parts.service.router.owner(f"{name}/")
        assert owner is not None
        assert owner[0] == node
        made: Any = redis.Redis(port=first.address[1])
        client = stack.enter_context(made)
        client.execute_command("BUCKET.CREATE", name)
        insert(client, name, {"n": 1})
        assert (first.parts.service.router.handed, other.parts.service.router.handed) == (1, 0)
        assert len(kept_rows(client, name)) == 1


# --- who may ---


def accounts(tmp_path: Path, *, is_admin: bool) -> Accounts:
    path = tmp_path / "users.json"
    right = '"*": "rw"' if is_admin else '"shop": "rw"'
    flag = "true" if is_admin else "false"
    user = f'{{"password": "{hash_password("secret")}", "namespaces": {{{right}, "global": "rw"}}, "admin": {flag}}}'
    path.write_text(f'{{"users": {{"servers": {user}}}}}')
    return Accounts.read(path)


@pytest.mark.parametrize(
    ("password", "is_admin", "handed"), [("secret", True, 1), ("wrong", True, 0), ("secret", False, 0), (None, True, 0)]
)
def test_writes_are_handed_on_by_a_user_of_servers_only(
    tmp_path: Path, place: str, password: str | None, is_admin: bool, handed: int
) -> None:
    with ExitStack() as stack:
        addresses: dict[int, str] = {}
        users = accounts(tmp_path, is_admin=is_admin)
        joined(stack, place, 2, addresses, accounts=users)
        first = joined(stack, place, 1, addresses, access=PeerAccess("servers", password))
        made: Any = redis.Redis(port=first.address[1])
        client = stack.enter_context(made)
        client.execute_command("BUCKET.CREATE", THERE)
        insert(client, THERE, {"n": 1})
        router = first.parts.service.router
        assert (router.handed, router.kept) == (handed, 1 - handed)
        assert len(kept_rows(client, THERE)) == 1


def test_a_password_of_servers_is_not_shown() -> None:
    assert "secret" not in repr(PeerAccess("servers", "secret"))


@pytest.mark.parametrize(("is_trusted", "handed"), [(True, 1), (False, 0)])
def test_servers_with_certificates_are_reached_by_tls_if_they_are_trusted(
    place: str, is_trusted: bool, handed: int
) -> None:
    folder = Path(__file__).parent / "tls"
    with ExitStack() as stack:
        options = ServerOptions(port=0, certificate=folder / "cert.pem", key=folder / "key.pem")
        second = stack.enter_context(running(place, options))
        access = PeerAccess(authority=folder / "cert.pem" if is_trusted else None)
        first = joined(stack, place, 1, {2: f"resps://127.0.0.1:{second.address[1]}"}, access=access)
        made: Any = redis.Redis(port=first.address[1])
        client = stack.enter_context(made)
        client.execute_command("BUCKET.CREATE", THERE)
        insert(client, THERE, {"n": 1})
        router = first.parts.service.router
        assert (router.handed, router.kept) == (handed, 1 - handed)
        assert len(kept_rows(client, THERE)) == 1
