"""What is not the store says nothing about what is in it: no 404 and no page of a front door empties a database."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.http_script import Part, Raw, Reply, ScriptedServer, scripted_server
from tests.storage.cloud.test_signed import azure_at, s3_at, xml
from wormdb.errors import (
    AlreadyExistsError,
    CorruptionError,
    NotFoundError,
    OutcomeUnknownError,
    UnavailableError,
    UnsupportedStoreError,
    WormError,
)
from wormdb.settings import MIB
from wormdb.storage.cloud.wire import NotSent, Patience, _converse
from wormdb.storage.open import open_store
from wormdb.storage.store import ByteRange, IfAbsent
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.testing.fault_proxy import FaultProxy, WireFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.testing.s3_server import S3Server

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
PAGE = b"<html><body>Welcome!</body></html>"
ID = {"x-amz-request-id": "4442587FB7D0A2F9"}
OBJECT = {"ETag": '"v"', "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"}


@pytest.fixture
def script() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


QUESTIONS: dict[str, Callable[[wormdb.Database], object]] = {
    "find_by_id": lambda db: db["customers"].find_by_id("ada"),
    "find": lambda db: list(db["customers"].find({})),
    "count": lambda db: db["customers"].count(),
    "aggregate": lambda db: db["customers"].aggregate(count=True),
    "watch": lambda db: list(db["customers"].watch()),
    "history": lambda db: db["customers"].get_history("ada"),
    "collections": lambda db: list(db.collections()),
    "verify": lambda db: db.verify(["customers"]),
    "gc": lambda db: db.gc(["customers"]),
    "insert": lambda db: db["customers"].insert({"id": "x"}),
    "published schema": lambda db: db.model("Customer"),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "answer",
    [Reply(404, b"404 page not found"), Reply(404), Reply(404, PAGE), Reply(200, PAGE), Reply(200, PAGE, OBJECT)],
    ids=["404 text", "404", "404 page", "200 page", "200 page with ETag"],
)
def test_a_front_door_is_no_empty_database(
    question: str, answer: Reply, script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    script.answer(answer)
    url, settings = f"s3://bucket/db?endpoint={script.endpoint}", wormdb.Settings(commit_seconds=0.2)
    # By a clock of its own, so that no retry waits.
    with wormdb.connect(url, settings=settings, clock=ManualClock()) as db:
        try:
            found = QUESTIONS[question](db)
        except WormError as error:
            told = error
        else:  # a page in place of the root is damage, which is what verify looks for
            assert (question, answer.headers) == ("verify", OBJECT), found
            return
    if answer.status == 404:
        assert type(told) is UnavailableError, told
        assert "something else answered" in told.reason


def test_the_error_says_what_answered(script: ScriptedServer) -> None:
    script.answer(Reply(404, b"Cannot GET /bucket/key?X-Amz-Signature=secret", {"Server": "nginx/1.25\x1b[31m"}))
    with s3_at(script.endpoint) as store, pytest.raises(UnavailableError) as caught:
        store.probe("key")
    assert "404 of nginx/1.25[31m" in caught.value.reason
    assert "secret" not in str(caught.value)


@pytest.mark.s3
def test_a_warm_process_does_not_take_a_front_door_for_the_end_of_the_log(s3_server: S3Server, s3_url: str) -> None:
    prefix = s3_url.partition("?")[0].rpartition("/")[2]
    with (
        FaultProxy(s3_server.endpoint, chance=SeededChance(3), rates={}) as proxy,
        wormdb.connect(s3_server.url(prefix, endpoint=proxy.endpoint), clock=ManualClock()) as warm,
        wormdb.connect(s3_url) as other,
    ):
        warm["t"].insert({"id": "a"})
        assert [found.id for found in warm["t"].find({})] == ["a"]
        asked = proxy.requests
        assert [found.id for found in warm["t"].find({})] == ["a"]
        assert proxy.requests == asked + 1  # the tail, and nothing to make sure of it
        other["t"].insert({"id": "b"})
        for fault in (WireFault.FRONT_DOOR, WireFault.ANSWER_REPLACED):
            proxy.change({fault: 1.0})
            for read in (lambda: list(warm["t"].find({})), lambda: warm["t"].find_by_id("b"), warm["t"].count):
                with pytest.raises(UnavailableError, match="something else answered"):
                    read()
        proxy.heal()
        assert [found.id for found in warm["t"].find({})] == ["a", "b"]


@pytest.mark.s3
def test_a_missing_bucket_is_no_empty_database(s3_server: S3Server, s3_url: str) -> None:
    url = s3_url.replace("wormdb-test", "wormdb-none", 1)
    assert url != s3_url
    with wormdb.connect(url) as db:
        for question in ("find", "find_by_id", "count", "watch", "collections", "insert"):
            with pytest.raises(NotFoundError, match="bucket wormdb-none"):
                QUESTIONS[question](db)


# --- HEAD ---


def test_a_head_is_believed_with_the_number_of_s3(script: ScriptedServer) -> None:
    script.answer(Reply(404, headers=ID))
    with s3_at(script.endpoint) as store, pytest.raises(NotFoundError) as caught:
        store.head("key")
    assert caught.value.key == "key"
    assert [asked.method for asked in script.asked] == ["HEAD"]


@pytest.mark.parametrize("at", [s3_at, azure_at])
@pytest.mark.parametrize(
    ("then", "expected"),
    [
        (Reply(404, xml("NoSuchKey")), NotFoundError),
        (Reply(404, xml("NoSuchBucket")), NotFoundError),
        (Reply(404, b"404 page not found"), UnavailableError),
        (Reply(206, b"x", {**OBJECT, "Content-Range": "bytes 0-0/9"}), UnavailableError),
        (Reply(416, xml("InvalidRange")), UnavailableError),
        (Reply(500), UnavailableError),
    ],
    ids=["no key", "no bucket", "front door", "there", "there and empty", "broken"],
)
def test_a_bare_head_is_asked_again_as_a_get(
    at: Any, then: Reply, expected: type[WormError], script: ScriptedServer
) -> None:
    codes = {b"NoSuchKey": b"BlobNotFound", b"NoSuchBucket": b"ContainerNotFound"} if at is azure_at else {}
    body = then.body
    for ours, theirs in codes.items():
        body = body.replace(ours, theirs)
    script.answer(Reply(404), Reply(then.status, body, then.headers))
    with at(script.endpoint) as store, pytest.raises(expected) as caught:
        store.head("key")
    assert type(caught.value) is expected
    assert [asked.method for asked in script.asked] == ["HEAD", "GET"]
    assert script.asked[1].headers["range"] == "bytes=0-0"
    if expected is NotFoundError:
        assert (caught.value.key == "key") is (b"Key" in then.body)


def test_azure_says_in_a_header_what_is_missing(script: ScriptedServer) -> None:
    script.answer(Reply(404, headers={"x-ms-error-code": "BlobNotFound"}))
    with azure_at(script.endpoint) as store, pytest.raises(NotFoundError):
        store.head("key")
    assert len(script.asked) == 1


# --- listings ---

EMPTY = b"<ListBucketResult><Name>bucket</Name></ListBucketResult>"
ONE = (
    b"<ListBucketResult><Contents><Key>pre/f/a</Key><Size>1</Size><ETag>v</ETag>"
    b"<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>"
)


@pytest.mark.parametrize("delimiter", [None, "/"])
def test_an_empty_listing_is_believed_of_a_store(script: ScriptedServer, delimiter: Any) -> None:
    with s3_at(script.endpoint) as store:
        script.answer(Reply(200, EMPTY), Reply(404, xml("NoSuchKey")))
        assert [page.objects for page in store.list("f/", delimiter=delimiter)] == [()]
        assert len(script.asked) == 2
        script.answer(Reply(200, EMPTY), Reply(403, xml("AccessDenied")))
        assert [page.objects for page in store.list("f/", delimiter=delimiter)] == [()]
        script.answer(Reply(200, ONE))
        assert [info.key for page in store.list("f/", delimiter=delimiter) for info in page.objects] == ["f/a"]
        assert len(script.asked) == 1  # what is there needs no proof


@pytest.mark.parametrize("delimiter", [None, "/"])
@pytest.mark.parametrize("page", [PAGE, b"<a/>", EMPTY])
@pytest.mark.parametrize("then", [Reply(200, PAGE, OBJECT), Reply(200, PAGE), Reply(404, PAGE), Reply(502)])
def test_a_page_is_no_empty_listing(script: ScriptedServer, page: bytes, then: Reply, delimiter: Any) -> None:
    script.answer(Reply(200, page), then)
    with s3_at(script.endpoint) as store, pytest.raises((UnavailableError, UnsupportedStoreError)):
        list(store.list("f/", delimiter=delimiter))


# --- ranges ---

BODY = bytes(range(256)) * 1_000
SPANS = [ByteRange(0, 8), ByteRange(100_000, 30), ByteRange(len(BODY) - 4, 100)]


@pytest.mark.parametrize(
    ("told", "body"),
    [
        ("bytes 0-7/16", 4),
        ("bytes 0-7/16", 12),
        ("bytes 0-3/16", 4),
        ("bytes 8-15/16", 8),
        ("bytes 0-7/*", 8),
        ("bytes 0-7/7", 8),
        ("bytes 0-99999999999999999999/16", 8),
        ("", 8),
    ],
)
def test_another_part_than_was_asked_for_is_refused(script: ScriptedServer, told: str, body: int) -> None:
    script.answer(Reply(206, BODY[:body], {"Content-Range": told, **OBJECT}))
    with s3_at(script.endpoint) as store, pytest.raises(UnavailableError):
        store.get_range("key", ByteRange(0, 8))


def test_a_part_is_what_exists_of_it(script: ScriptedServer) -> None:
    script.answer(Part(BODY))
    with s3_at(script.endpoint) as store:
        assert store.get_ranges("key", SPANS) == tuple(BODY[span.start : span.stop] for span in SPANS)
        assert len(script.asked) == 4  # the last one came short, and was looked at by itself
        assert [store.get_range("key", span) for span in SPANS] == [BODY[span.start : span.stop] for span in SPANS]


@pytest.mark.parametrize("lost", [1, 4])
def test_no_range_is_shorter_than_its_answer_says(script: ScriptedServer, lost: int) -> None:
    script.answer(Part(BODY, lost))
    with s3_at(script.endpoint) as store:
        for span in SPANS:
            with pytest.raises(UnavailableError):
                store.get_range("key", span)
        with pytest.raises(UnavailableError):
            store.get_ranges("key", SPANS)
        with pytest.raises(UnavailableError):
            store.get_ranges("key", SPANS[:2])


# --- bytes without end ---


@pytest.mark.parametrize("status", [200, 206, 404, 500])
@pytest.mark.parametrize("verb", ["get", "probe", "get_range", "put"])
def test_no_answer_is_taken_without_end(script: ScriptedServer, verb: str, status: int) -> None:
    """What the server could send is bounded by what was read and what connections hold back."""
    head = f'HTTP/1.1 {status} X\r\nETag: "v"\r\nContent-Range: bytes 0-7/9\r\nTransfer-Encoding: chunked\r\n\r\n'
    script.answer(Raw(head.encode(), b"10000\r\n" + bytes(0x10000) + b"\r\n"))
    url = f"s3://bucket/db?endpoint={script.endpoint}&region=us-east-1"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        store = open_store(url, bound=lambda key: 2 * MIB)
    calls: dict[str, Callable[[], object]] = {
        "get": lambda: store.get("key"),
        "probe": lambda: store.probe("key"),
        "get_range": lambda: store.get_range("key", ByteRange(0, 8)),
        "put": lambda: store.put("key", b"x", IfAbsent()),
    }
    with store, pytest.raises((UnavailableError, CorruptionError, OutcomeUnknownError)) as caught:
        calls[verb]()
    expected: type[WormError] = UnavailableError
    if verb == "put":
        expected = OutcomeUnknownError
    elif (verb, status) in (("get", 200), ("get", 206), ("probe", 200), ("probe", 206)):
        expected = CorruptionError
    assert type(caught.value) is expected
    assert caught.value.key == "key"
    assert script.sent_bytes < 32 * MIB


# --- a request that was not sent whole ---


@pytest.mark.parametrize("status", [200, 204, 412, 503])
def test_a_success_of_a_request_that_was_not_sent_whole_is_not_believed(status: int) -> None:
    """The server cannot have what it did not get. That it refused early, it may say."""
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(b'HTTP/1.1 %d X\r\nETag: "v"\r\nContent-Length: 0\r\n\r\n' % status)
        theirs.close()
        request = (b"PUT /key HTTP/1.1\r\n\r\n", bytes(3 * MIB))
        ended = _converse(ours, "PUT", request, Patience(ManualClock(), 5), MIB)
    if status < 300:
        assert isinstance(ended, NotSent)
    else:
        assert (ended.status, ended.may_continue) == (status, False)  # type: ignore[union-attr] # told by isinstance


def test_an_early_refusal_is_told(script: ScriptedServer) -> None:
    script.answer(Reply(412, xml("PreconditionFailed")))
    with s3_at(script.endpoint) as store, pytest.raises(AlreadyExistsError):
        store.put("key", b"x", IfAbsent())
