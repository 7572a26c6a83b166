"""The fault proxy does what it says to each request, and nothing else."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

from tests.http_script import Reply, ScriptedServer, scripted_server
from wormdb.errors import InvalidRequestError, OutcomeUnknownError
from wormdb.storage.open import open_store
from wormdb.storage.readback import Landed, put_classified
from wormdb.storage.store import IfAbsent
from wormdb.system.clock import SeededChance, SystemClock
from wormdb.testing.fault_proxy import ROUGH, FaultProxy, WireFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.testing.s3_server import S3Server

SECONDS_MAX = 30
BODY = b"0123456789" * 1000


@contextmanager
def proxied(*faults: WireFault) -> Iterator[tuple[ScriptedServer, FaultProxy, HTTPConnection]]:
    """A server, a proxy with one fault at every request (or none), and a client of it."""
    with scripted_server() as server:
        server.answer(Reply(200, BODY))
        rates = dict.fromkeys(faults, 1.0)
        with FaultProxy(server.endpoint, chance=SeededChance(1), rates=rates, delay_seconds_max=0.05) as proxy:
            client = HTTPConnection("127.0.0.1", int(proxy.endpoint.rpartition(":")[2]), timeout=SECONDS_MAX)
            try:
                yield server, proxy, client
            finally:
                client.close()


def wait_until_asked(server: ScriptedServer) -> None:
    clock = SystemClock()
    deadline = clock.monotonic() + SECONDS_MAX
    while not server.asked and clock.monotonic() < deadline:
        clock.sleep(0.005)


@pytest.mark.parametrize("faults", [[], [WireFault.REQUEST_DELAYED]])
def test_what_passes_is_unchanged_and_uses_one_connection(faults: list[WireFault]) -> None:
    with proxied(*faults) as (server, proxy, client):
        for number in range(3):
            client.request("PUT", f"/key?{number}", body=BODY[number:], headers={"If-None-Match": "*"})
            answer = client.getresponse()
            assert (answer.status, answer.read()) == (200, BODY)
        assert [asked.body for asked in server.asked] == [BODY, BODY[1:], BODY[2:]]
        assert server.asked[0].path == "/key?0"
        assert server.asked[0].headers["host"] == proxy.endpoint.removeprefix("http://")
        assert server.asked[0].headers["if-none-match"] == "*"
        assert server.connections == 1
        assert proxy.requests == 3
        assert proxy.faults == dict.fromkeys(faults, 3)


def test_a_lost_answer_is_that_of_a_request_that_arrived() -> None:
    with proxied(WireFault.ANSWER_LOST) as (server, proxy, client):
        client.request("PUT", "/key", body=b"x")
        with pytest.raises(ConnectionResetError):
            client.getresponse()
        assert [asked.body for asked in server.asked] == [b"x"]
        assert proxy.faults == {WireFault.ANSWER_LOST: 1}


def test_a_cut_answer_ends_too_early_without_a_reset() -> None:
    with proxied(WireFault.ANSWER_CUT) as (server, _, client):
        # The half that comes may end in the head or in the body of the answer.
        server.answer(Reply(200, b""))
        client.request("GET", "/key")
        raw = client.sock.makefile("rb").read()
        assert raw.startswith(b"HTTP/1.1 200")
        assert not raw.endswith(b"\r\n\r\n")
        assert len(server.asked) == 1


def test_a_lost_request_never_arrives() -> None:
    with proxied(WireFault.REQUEST_LOST) as (server, proxy, client):
        client.request("PUT", "/key", body=b"x")
        with pytest.raises(ConnectionResetError):
            client.getresponse()
        proxy.heal()
        client.close()
        client.request("PUT", "/key", body=b"y")
        assert client.getresponse().read() == BODY
        assert [asked.body for asked in server.asked] == [b"y"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
@pytest.mark.parametrize(("fault", "arrived"), [(WireFault.FRONT_DOOR, 0), (WireFault.ANSWER_REPLACED, 1)])
def test_a_page_of_something_else_is_the_answer(fault: WireFault, arrived: int, method: str) -> None:
    with proxied(fault) as (server, proxy, client):
        client.request(method, "/key", body=b"x" if method == "PUT" else None)
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (404, b"" if method == "HEAD" else b"404 page not found\n")
        assert len(server.asked) == arrived
        proxy.change({})
        client.close()
        client.request("GET", "/key")
        assert client.getresponse().read() == BODY


def test_a_late_request_arrives_once_after_its_client_was_cut_off() -> None:
    with proxied(WireFault.REQUEST_LATE) as (server, _, client):
        client.request("PUT", "/key", body=b"x")
        with pytest.raises(ConnectionResetError):
            client.getresponse()
        wait_until_asked(server)
        assert [asked.body for asked in server.asked] == [b"x"]


def test_the_end_of_the_proxy_delivers_what_is_late() -> None:
    with scripted_server() as server:
        with FaultProxy(server.endpoint, chance=SeededChance(1), rates={WireFault.REQUEST_LATE: 1.0}) as proxy:
            client = HTTPConnection("127.0.0.1", int(proxy.endpoint.rpartition(":")[2]), timeout=SECONDS_MAX)
            client.request("PUT", "/key", body=b"x")
            with pytest.raises(ConnectionResetError):
                client.getresponse()
            client.close()
        assert [asked.body for asked in server.asked] == [b"x"]


def test_it_ends_with_clients_connected_and_leaves_no_thread() -> None:
    with proxied() as (_, _, client):
        client.request("GET", "/key")
        assert client.getresponse().read() == BODY
    assert [thread.name for thread in threading.enumerate() if thread.name == "fault-proxy"] == []


def test_a_request_of_unknown_length_is_refused() -> None:
    with proxied() as (server, _, client):
        # The head alone: the proxy answers it at once, and may close before a body is sent.
        client.putrequest("PUT", "/key")
        client.putheader("Transfer-Encoding", "chunked")
        client.endheaders()
        assert client.getresponse().status == 411
        assert server.asked == []


def test_a_seed_fixes_the_sequence_of_faults() -> None:
    def drawn(seed: int) -> list[WireFault | None]:
        proxy = FaultProxy("http://127.0.0.1:1", chance=SeededChance(seed))
        return [proxy._draw() for _ in range(2000)]

    first = drawn(1)
    assert first == drawn(1)
    assert first != drawn(2)
    assert set(first) == {None, *ROUGH}
    assert 150 < sum(fault is not None for fault in first) < 350


@pytest.mark.parametrize("target", ["127.0.0.1:80", "https://127.0.0.1:80", "http://127.0.0.1"])
def test_a_target_that_it_cannot_reach_is_refused(target: str) -> None:
    with pytest.raises(InvalidRequestError, match="http://host:port"):
        FaultProxy(target, chance=SeededChance(1))


def test_rates_above_all_requests_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="at most 1"):
        FaultProxy("http://127.0.0.1:1", chance=SeededChance(1), rates=dict.fromkeys(WireFault, 0.3))


@pytest.mark.s3
def test_signed_requests_pass_and_a_lost_answer_is_found_by_reading_back(s3_server: S3Server, s3_url: str) -> None:
    prefix = s3_url.partition("?")[0].rpartition("/")[2]
    rates = {WireFault.ANSWER_LOST: 1.0}
    with (
        FaultProxy(s3_server.endpoint, chance=SeededChance(3), rates=rates) as proxy,
        open_store(s3_server.url(prefix, endpoint=proxy.endpoint)) as store,
    ):
        with pytest.raises(OutcomeUnknownError):
            store.put("key", b"write id 1", IfAbsent())
        proxy.heal()
        assert isinstance(put_classified(store, "key", b"write id 1", IfAbsent()), Landed)
        assert store.probe("key").time is not None
        assert store.get("key").body == b"write id 1"
        assert [info.key for page in store.list() for info in page.objects] == ["key"]
