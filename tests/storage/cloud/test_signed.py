"""Every answer of a store becomes the right error: the whole table, on real sockets."""

from __future__ import annotations

import base64
import gc
import hashlib
import json
import sys
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.http_script import DATE_MS, Asked, Drop, Reply, ScriptedServer, Stall, scripted_server
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedStoreError,
    WormError,
)
from wormdb.settings import REQUEST_SECONDS
from wormdb.storage.cloud import wire
from wormdb.storage.cloud.credentials import UrlSigner
from wormdb.storage.cloud.signed import store_time
from wormdb.storage.cloud.store import CloudStore
from wormdb.storage.store import Always, ByteRange, IfAbsent, IfMatch, Precondition
from wormdb.storage.url import StoreUrl
from wormdb.system.clock import ManualClock, SystemClock
from wormdb.system.types import Version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from wormdb.storage.cloud.encryption import AccessKey
    from wormdb.storage.store import Store
    from wormdb.system.clock import Clock

CANARY = "canary-secret-0123456789"
ACCOUNT_KEY = base64.b64encode(CANARY.encode()).decode()


@pytest.fixture
def script() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


def s3_at(endpoint: str, clock: Clock | None = None, request_seconds: float = REQUEST_SECONDS) -> CloudStore:
    url = StoreUrl("s3", "bucket", "pre", endpoint=endpoint, region="us-east-1")
    settings = {"access_key_id": "AKCANARY", "secret_access_key": CANARY}
    return CloudStore(url, settings, clock=clock or ManualClock(), request_seconds=request_seconds)


def azure_at(endpoint: str) -> CloudStore:
    url = StoreUrl("az", "container", "pre", endpoint=endpoint, account="account")
    return CloudStore(url, {"account_key": ACCOUNT_KEY}, clock=ManualClock())


def xml(code: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>m</Message></Error>'.encode()


OLD = IfMatch(Version('"old"'))
ABSENT = IfAbsent()
ALWAYS = Always()

S3_PUTS: list[tuple[Precondition, Reply, type[WormError]]] = [
    (ABSENT, Reply(412, xml("PreconditionFailed")), AlreadyExistsError),
    (OLD, Reply(412, xml("PreconditionFailed")), ConflictError),
    (ABSENT, Reply(412), AlreadyExistsError),
    (ABSENT, Reply(304), AlreadyExistsError),
    (OLD, Reply(304), ConflictError),
    (OLD, Reply(404, xml("NoSuchKey")), ConflictError),
    (OLD, Reply(404), OutcomeUnknownError),
    (OLD, Reply(404, b"404 page not found"), OutcomeUnknownError),
    (ABSENT, Reply(404, xml("NoSuchBucket")), NotFoundError),
    (OLD, Reply(404, xml("NoSuchBucket")), NotFoundError),
    (ALWAYS, Reply(404), OutcomeUnknownError),
    (ABSENT, Reply(404, xml("NoSuchUpload")), OutcomeUnknownError),
    (ABSENT, Reply(408), OutcomeUnknownError),
    (ABSENT, Reply(409, xml("ConditionalRequestConflict")), UnavailableError),
    (OLD, Reply(409, xml("ConditionalRequestConflict")), UnavailableError),
    (ABSENT, Reply(409, xml("OperationAborted")), UnavailableError),
    (ABSENT, Reply(409, xml("SomethingNew")), OutcomeUnknownError),
    (ABSENT, Reply(409), OutcomeUnknownError),
    (ABSENT, Reply(400, xml("RequestTimeout")), UnavailableError),
    (ABSENT, Reply(429), UnavailableError),
    (ABSENT, Reply(503, xml("SlowDown")), UnavailableError),
    (OLD, Reply(503, xml("ServiceUnavailable")), UnavailableError),
    (ABSENT, Reply(503, b"<html>a balancer's page</html>"), OutcomeUnknownError),
    (ABSENT, Reply(500, xml("InternalError")), OutcomeUnknownError),
    (ALWAYS, Reply(500), OutcomeUnknownError),
    (ABSENT, Reply(500, xml("PreconditionFailed")), OutcomeUnknownError),
    (ABSENT, Reply(503, xml("NoSuchKey")), OutcomeUnknownError),
    (ABSENT, Reply(502), OutcomeUnknownError),
    (ABSENT, Reply(504), OutcomeUnknownError),
    (ABSENT, Reply(201), OutcomeUnknownError),
    (ABSENT, Reply(204), OutcomeUnknownError),
    (ABSENT, Reply(200), OutcomeUnknownError),  # a success without an ETag names no version
    (ABSENT, Reply(200, b"<html/>", {"ETag": '"page"'}), OutcomeUnknownError),  # a page, not a store
    (ABSENT, Reply(302, headers={"Location": "http://127.0.0.1:1/"}), OutcomeUnknownError),
    (ABSENT, Reply(307, xml("TemporaryRedirect")), OutcomeUnknownError),
    (ABSENT, Reply(301, xml("PermanentRedirect")), InvalidRequestError),
    (ABSENT, Reply(400, xml("AuthorizationHeaderMalformed")), InvalidRequestError),
    (ABSENT, Reply(403, xml("AccessDenied")), PermissionDeniedError),
    (ABSENT, Reply(403, xml("SignatureDoesNotMatch")), PermissionDeniedError),
    (ABSENT, Reply(400, xml("ExpiredToken")), PermissionDeniedError),
    (ABSENT, Reply(403), PermissionDeniedError),
    (ABSENT, Reply(401), PermissionDeniedError),
    (ABSENT, Reply(501, xml("NotImplemented")), UnsupportedStoreError),
    (ABSENT, Reply(400, xml("InvalidDigest")), InvalidRequestError),
    (ABSENT, Reply(405), InvalidRequestError),
    (ABSENT, Reply(200, xml("PreconditionFailed")), OutcomeUnknownError),
]

AZURE_PUTS: list[tuple[Precondition, Reply, type[WormError]]] = [
    (ABSENT, Reply(409, xml("BlobAlreadyExists")), AlreadyExistsError),
    (ABSENT, Reply(409, headers={"x-ms-error-code": "BlobAlreadyExists"}), AlreadyExistsError),
    (OLD, Reply(412, xml("ConditionNotMet")), ConflictError),
    (OLD, Reply(404, xml("BlobNotFound")), ConflictError),
    (ABSENT, Reply(404, xml("ContainerNotFound")), NotFoundError),
    (ABSENT, Reply(409, xml("ContainerBeingDeleted")), NotFoundError),
    (ABSENT, Reply(412, xml("LeaseIdMissing")), PermissionDeniedError),
    (ABSENT, Reply(409, xml("BlobImmutableDueToPolicy")), PermissionDeniedError),
    (ABSENT, Reply(503, xml("ServerBusy")), UnavailableError),
    (ABSENT, Reply(500, xml("OperationTimedOut")), OutcomeUnknownError),
    (ABSENT, Reply(409, xml("SomethingNew")), OutcomeUnknownError),
    (ABSENT, Reply(403, xml("AuthenticationFailed")), PermissionDeniedError),
    (ABSENT, Reply(200, headers={"ETag": '"x"'}), OutcomeUnknownError),  # Azure says 201
]

READS: list[tuple[Reply, type[WormError]]] = [
    (Reply(404, xml("NoSuchBucket")), NotFoundError),
    (Reply(404), UnavailableError),
    (Reply(404, b"404 page not found"), UnavailableError),
    (Reply(404, xml("NoSuchUpload")), UnavailableError),
    (Reply(403, xml("NoSuchKey")), PermissionDeniedError),
    (Reply(408), UnavailableError),
    (Reply(403, xml("AccessDenied")), PermissionDeniedError),
    (Reply(500), UnavailableError),
    (Reply(503, xml("SlowDown")), UnavailableError),
    (Reply(429), UnavailableError),
    (Reply(412), UnavailableError),
    (Reply(206, b"half"), UnavailableError),
    (Reply(302, headers={"Location": "http://127.0.0.1:1/"}), UnavailableError),
    (Reply(200, b"no version"), UnsupportedStoreError),
]


def named(value: object) -> str:
    if isinstance(value, Reply):
        code = value.body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()
        return f"{value.status}{code and ' '}{code}"
    return value.__name__ if isinstance(value, type) else type(value).__name__


def put_error(store: Store, precondition: Precondition) -> WormError:
    with pytest.raises(WormError) as caught:
        store.put("key", b"body", precondition)
    return caught.value


@pytest.mark.parametrize(("precondition", "reply", "expected"), S3_PUTS, ids=named)
def test_s3_put(script: ScriptedServer, precondition: Precondition, reply: Reply, expected: type[WormError]) -> None:
    script.answer(reply)
    with s3_at(script.endpoint) as store:
        error = put_error(store, precondition)
    assert type(error) is expected
    assert len(script.asked) == 1  # never repeated, never redirected


@pytest.mark.parametrize(("precondition", "reply", "expected"), AZURE_PUTS, ids=named)
def test_azure_put(script: ScriptedServer, precondition: Precondition, reply: Reply, expected: type[WormError]) -> None:
    script.answer(reply)
    with azure_at(script.endpoint) as store:
        error = put_error(store, precondition)
    assert type(error) is expected
    assert len(script.asked) == 1


@pytest.mark.parametrize(("reply", "expected"), READS, ids=named)
def test_probe(script: ScriptedServer, reply: Reply, expected: type[WormError]) -> None:
    script.answer(reply)
    with s3_at(script.endpoint) as store, pytest.raises(WormError) as caught:
        store.probe("key")
    assert type(caught.value) is expected
    assert len(script.asked) == 1


def test_a_clean_put_tells_version_and_time(script: ScriptedServer) -> None:
    script.answer(Reply(200, headers={"ETag": '"new"'}))
    with s3_at(script.endpoint) as store:
        result = store.put("a b/c", b"body", ABSENT, content_type="application/zstd")
    assert (result.version, result.time) == ('"new"', DATE_MS)
    (asked,) = script.asked
    assert asked.method == "PUT"
    assert asked.path.partition("?")[0] == "/bucket/pre/a%20b/c"
    assert asked.body == b"body"
    assert asked.headers["if-none-match"] == "*"
    assert "if-match" not in asked.headers
    assert asked.headers["content-type"] == "application/zstd"
    assert asked.headers["content-md5"] == base64.b64encode(hashlib.md5(b"body").digest()).decode()


def test_if_match_sends_the_version_as_it_was_read(script: ScriptedServer) -> None:
    script.answer(Reply(200, headers={"ETag": '"new"'}))
    with s3_at(script.endpoint) as store:
        store.put("key", b"", OLD)
    assert script.asked[0].headers["if-match"] == '"old"'
    assert "if-none-match" not in script.asked[0].headers
    assert script.asked[0].headers["content-length"] == "0"


def test_azure_put_names_the_kind_of_blob(script: ScriptedServer) -> None:
    script.answer(Reply(201, headers={"ETag": '"0x1"'}))
    with azure_at(script.endpoint) as store:
        result = store.put("a b+c", b"body", ABSENT)
    assert (result.version, result.time) == ('"0x1"', DATE_MS)
    (asked,) = script.asked
    assert asked.path.partition("?")[0] == "/container/pre/a%20b%2Bc"
    assert asked.headers["x-ms-blob-type"] == "BlockBlob"
    assert asked.headers["if-none-match"] == "*"


def test_probe_tells_the_time_of_both_answers(script: ScriptedServer) -> None:
    script.answer(Reply(200, b"entry", {"ETag": '"v"'}), Reply(404, xml("NoSuchKey")))
    with s3_at(script.endpoint) as store:
        found, missing = store.probe("key"), store.probe("key")
    assert found.found is not None
    assert (found.found.body, found.found.version, found.time) == (b"entry", '"v"', DATE_MS)
    assert (missing.found, missing.time) == (None, DATE_MS)


def test_a_dropped_answer_is_unknown_for_a_write_and_unavailable_for_a_read(script: ScriptedServer) -> None:
    script.answer(Drop())
    with s3_at(script.endpoint) as store:
        assert type(put_error(store, ABSENT)) is OutcomeUnknownError
        with pytest.raises(UnavailableError):
            store.probe("key")
    assert [asked.method for asked in script.asked] == ["PUT", "GET"]


def test_an_answer_cut_short_is_unknown(script: ScriptedServer) -> None:
    script.answer(Reply(200, b"short", {"ETag": '"v"', "Content-Length": "100", "Connection": "close"}), Drop())
    with s3_at(script.endpoint) as store:
        assert type(put_error(store, ABSENT)) is OutcomeUnknownError


def test_silence_is_unknown(script: ScriptedServer) -> None:
    script.answer(Stall())
    with s3_at(script.endpoint, SystemClock(), request_seconds=0.2) as store:
        error = put_error(store, ABSENT)
    assert type(error) is OutcomeUnknownError
    assert "timed out" in error.reason


def test_a_refused_connection_did_nothing() -> None:
    with s3_at("http://127.0.0.1:1") as store:
        error = put_error(store, ABSENT)
    assert type(error) is UnavailableError
    assert "refused" in error.reason


def test_a_body_that_was_not_taken_whole_did_nothing(script: ScriptedServer) -> None:
    script.answer(Drop(early=True))
    with s3_at(script.endpoint) as store, pytest.raises(UnavailableError):
        store.put("key", bytes(32 << 20), ABSENT)
    assert script.asked == []


def test_connections_are_used_again_and_checked_before(script: ScriptedServer) -> None:
    clock = ManualClock()
    reply = Reply(200, headers={"ETag": '"v"'})
    with s3_at(script.endpoint, clock) as store:
        script.answer(reply)
        for _ in range(5):
            store.put("key", b"body", ABSENT)
        assert script.connections == 1
        clock.advance(wire.IDLE_SECONDS_MAX + 1)
        store.put("key", b"body", ABSENT)
        assert script.connections == 2
        script.answer(Reply(200, headers={"ETag": '"v"', "Connection": "close"}), reply)
        store.put("key", b"body", ABSENT)
        store.put("key", b"body", ABSENT)  # would be an unknown outcome on the closed connection
        assert script.connections == 3


@pytest.mark.parametrize("in_a_circle", [False, True])
def test_a_store_that_nobody_closed_leaves_no_open_connection(script: ScriptedServer, in_a_circle: bool) -> None:
    script.answer(Reply(200, headers={"ETag": '"v"'}))
    store = s3_at(script.endpoint)
    store.put("key", b"body", ABSENT)
    assert store._signed is not None
    assert store._signed._wire is not None
    ((connection, _, _),) = store._signed._wire._idle
    if in_a_circle:
        store.itself = store  # type: ignore[attr-defined] # as the collector meets what a cursor holds
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        del store
        gc.collect()
    assert connection.fileno() == -1
    assert said == []


def test_a_connection_the_server_closed_is_not_used(script: ScriptedServer) -> None:
    """The server says nothing of closing, and closes: an idle connection with news is dropped."""
    script.answer(Reply(200, headers={"ETag": '"v"'}))
    with s3_at(script.endpoint) as store:
        store.put("key", b"body", ABSENT)
        assert store._signed is not None
        assert store._signed._wire is not None
        ((connection, _, since),) = store._signed._wire._idle
        connection.shutdown(2)
        store.put("key", b"body", ABSENT)
    assert since == 0
    assert script.connections == 2


def test_plain_http_goes_through_the_proxy_of_the_environment(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", script.endpoint.replace("//", "//user:canary-pass@"))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    script.answer(Reply(200, headers={"ETag": '"v"'}))
    with s3_at("http://s3.example.invalid") as store:
        store.put("key", b"body", ABSENT)
    assert script.asked[0].path.startswith("http://s3.example.invalid/bucket/pre/key?")
    assert script.asked[0].headers["host"] == "s3.example.invalid"
    assert base64.b64decode(script.asked[0].headers["proxy-authorization"].split()[1]) == b"user:canary-pass"


def test_https_goes_through_a_tunnel(script: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", script.endpoint)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    script.answer(Reply(403))
    with s3_at("https://s3.example.invalid") as store:
        error = put_error(store, ABSENT)
    assert type(error) is UnavailableError
    assert [(asked.method, asked.path) for asked in script.asked] == [("CONNECT", "s3.example.invalid:443")]


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1080", "https://127.0.0.1:1"])
def test_a_proxy_of_another_kind_is_refused(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with s3_at("http://s3.example.invalid") as store:
        error = put_error(store, ABSENT)
    assert type(error) is InvalidRequestError


@pytest.mark.parametrize("text", ["text/plain\r\nX-Injected: 1", "text/ü", "\0"])
def test_a_header_cannot_be_injected(script: ScriptedServer, text: str) -> None:
    with s3_at(script.endpoint) as store:
        with pytest.raises(InvalidRequestError):
            store.put("key", b"body", content_type=text)
        with pytest.raises(InvalidRequestError):
            store.put("key", b"body", IfMatch(Version(text)))
    assert script.asked == []


@pytest.mark.parametrize("date", ["", "yesterday", "Sun, 06 Nov 1994 08:49:37 -0000x", "99"])
def test_a_bad_date_is_no_time(date: str) -> None:
    assert store_time(date) is None


def test_an_answer_without_a_date_has_no_time(script: ScriptedServer) -> None:
    script.answer(Reply(200, headers={"ETag": '"v"', "Date": ""}))
    with s3_at(script.endpoint) as store:
        assert store.put("key", b"body", ABSENT).time is None


# --- signatures that are used again ---


def query_of(asked: Asked) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(asked.path).query))


def test_a_get_that_is_asked_again_is_signed_once_a_minute(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    signatures: list[tuple[str, str]] = []
    sign = UrlSigner.target

    def counted(self: UrlSigner, keys: AccessKey, method: str, key: str, **more: Any) -> str:
        signatures.append((method, key))
        return sign(self, keys, method, key, **more)

    monkeypatch.setattr(UrlSigner, "target", counted)
    script.answer(Reply(404, xml("NoSuchKey")))
    clock = ManualClock()
    with s3_at(script.endpoint, clock) as store, s3_at(script.endpoint, clock) as other:
        for _ in range(5):
            store.probe("key")
        assert signatures == [("GET", "key")]
        store.probe("another")
        clock.advance(59)
        store.probe("key")
        assert len(signatures) == 2
        clock.advance(1)
        store.probe("key")
        assert signatures[2:] == [("GET", "key")]
        clock.jump(-10)  # what was signed later than now is not believed to be of the last minute
        store.probe("key")
        assert len(signatures) == 4
        other.probe("key")  # two stores share nothing
        assert len(signatures) == 5
        for _ in range(2):
            put_error(store, OLD)
        assert signatures[5:] == [("PUT", "key")] * 2


def test_a_probe_makes_few_calls(script: ScriptedServer) -> None:
    """Of Python functions, which are what its processor time goes to: signing and reading line by line took 82."""
    script.answer(Reply(404, xml("NoSuchKey")))
    calls: list[str] = []

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_qualname)

    with s3_at(script.endpoint, SystemClock()) as store:
        store.probe("key")
        sys.setprofile(count)
        try:
            store.probe("key")
        finally:
            sys.setprofile(None)
    assert len(calls) <= 43, calls


def test_ranges_share_the_signature_of_their_key(script: ScriptedServer) -> None:
    part = Reply(206, b"ab", {"ETag": '"v"', "Content-Range": "bytes 0-1/9"})
    script.answer(
        part, replace(part, headers={"ETag": '"v"', "Content-Range": "bytes 4-5/9"}), Reply(404, xml("NoSuchKey"))
    )
    with s3_at(script.endpoint) as store:
        assert store.get_range("key", ByteRange(0, 2)) == store.get_range("key", ByteRange(4, 2)) == b"ab"
        assert store.probe("key").found is None
    assert [asked.headers.get("range") for asked in script.asked] == ["bytes=0-1", "bytes=4-5", None]
    assert len({asked.path for asked in script.asked}) == 1


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_signature_that_is_refused_later_is_made_anew(script: ScriptedServer, status: int) -> None:
    found, refused = Reply(200, b"entry", {"ETag": '"v"'}), Reply(status, xml("ExpiredToken"))
    with s3_at(script.endpoint) as store:
        script.answer(found, refused, found, refused, refused)
        assert store.get("key") == store.get("key")
        assert len(script.asked) == 3
        with pytest.raises(PermissionDeniedError):
            store.get("key")
        assert len(script.asked) == 5
        with pytest.raises(PermissionDeniedError):
            store.get("key")
        assert len(script.asked) == 6  # just signed: the refusal is about something else


def test_credentials_that_are_renewed_are_used_after_a_minute(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{script.endpoint}/identity")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/dev/null")
    missing = Reply(404, xml("NoSuchKey"))
    ended = "2020-01-01T00:00:00Z"  # so that the library asks for others each time that it signs
    identities = [
        Reply(
            200,
            json.dumps(
                {"AccessKeyId": name, "SecretAccessKey": "s", "Token": f"t-{name}", "Expiration": ended}
            ).encode(),
        )
        for name in ("AK1", "AK2")
    ]
    script.answer(identities[0], missing, missing, identities[1], missing)
    clock = ManualClock()
    url = StoreUrl("s3", "bucket", "pre", endpoint=script.endpoint, region="us-east-1")
    with CloudStore(url, {}, clock=clock) as store:
        store.probe("key")
        store.probe("key")
        clock.advance(60)
        store.probe("key")
    used = [query_of(asked) for asked in script.asked if not asked.path.startswith("/identity")]
    assert [query["X-Amz-Credential"].partition("/")[0] for query in used] == ["AK1", "AK1", "AK2"]
    assert [query["X-Amz-Security-Token"] for query in used] == ["t-AK1", "t-AK1", "t-AK2"]


def test_a_signature_is_the_one_that_botocore_makes_at_that_moment(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from botocore import auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    script.answer(Reply(404, xml("NoSuchKey")))
    with s3_at(script.endpoint) as store:
        store.probe("a key+of/some words")
        store.probe("a key+of/some words")
    first, again = script.asked
    assert first.path == again.path
    query = query_of(first)
    moment = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    monkeypatch.setattr(auth, "get_current_datetime", lambda: moment)
    request = AWSRequest("GET", f"{script.endpoint}{urlsplit(first.path).path}")
    signer = auth.S3SigV4QueryAuth(
        Credentials("AKCANARY", CANARY), "s3", "us-east-1", expires=int(query["X-Amz-Expires"])
    )
    signer.add_auth(request)
    assert dict(parse_qsl(urlsplit(request.url).query)) == query
    # As long as a clock may be wrong, beyond the minute.
    assert int(query["X-Amz-Expires"]) == 16 * 60
