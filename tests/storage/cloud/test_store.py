"""What the contract cannot ask: exact keys, other tools' objects, request counts, other clouds, secrets."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.config import Config

from tests.every_verb import every_verb, shown
from tests.http_script import Drop, Reply, ScriptedServer, scripted_server
from wormdb.errors import (
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedStoreError,
    WormError,
)
from wormdb.storage.cloud.store import CloudStore
from wormdb.storage.cloud.verdict import FaultKind, fault_on_read, fault_on_write, parse_fault
from wormdb.storage.open import open_store
from wormdb.storage.pool import ThreadPool
from wormdb.storage.store import OCTETS, ByteRange, IfAbsent
from wormdb.storage.url import StoreUrl, parse_url
from wormdb.system.clock import SystemClock
from wormdb.testing.store_contract.keys import ODD_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.storage.store import Store
    from wormdb.testing.s3_server import S3Server

CANARY = "canary-secret-0123456789"


@pytest.fixture
def script() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


@pytest.fixture
def store(s3_url: str) -> Iterator[Store]:
    with open_store(s3_url) as store:
        yield store


@pytest.fixture
def boto(s3_server: S3Server) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=s3_server.endpoint,
        aws_access_key_id=s3_server.access_key,
        aws_secret_access_key=s3_server.secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )


def s3_at(endpoint: str, **settings: str) -> CloudStore:
    url = StoreUrl("s3", "bucket", "pre", endpoint=endpoint, region="us-east-1")
    keys = {"access_key_id": "AKCANARY", "secret_access_key": CANARY}
    return CloudStore(url, settings or keys, clock=SystemClock())


def listing(*keys: str, token: str = "") -> Reply:
    contents = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>&quot;e&quot;</ETag><Size>1</Size></Contents>"
        for key in keys
    )
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return Reply(
        200,
        f"<?xml version='1.0'?><ListBucketResult><Name>bucket</Name><IsTruncated>{'true' if token else 'false'}"
        f"</IsTruncated>{more}{contents}</ListBucketResult>".encode(),
    )


# --- keys, as another client sees them ---


@pytest.mark.s3
def test_other_clients_see_the_same_keys(store: Store, s3_server: S3Server, boto: Any) -> None:
    """Ours are read by boto3 under the prefix and the key, and its objects are read by us."""
    prefix = parse_url(store.name).prefix
    for number, key in enumerate(ODD_KEYS):
        body = key.encode() + b" %d" % number
        if number % 2:
            store.put(key, body, IfAbsent())
        else:
            boto.put_object(Bucket=s3_server.bucket, Key=f"{prefix}/{key}", Body=body)
    for number, key in enumerate(ODD_KEYS):
        body = key.encode() + b" %d" % number
        assert boto.get_object(Bucket=s3_server.bucket, Key=f"{prefix}/{key}")["Body"].read() == body
        found = store.probe(key).found
        assert found is not None
        assert found.body == store.get(key).body == body
        assert found.version == store.get(key).version == store.head(key).version
    seen = boto.list_objects_v2(Bucket=s3_server.bucket, Prefix=f"{prefix}/")["Contents"]
    assert sorted(entry["Key"] for entry in seen) == sorted(f"{prefix}/{key}" for key in ODD_KEYS)
    assert [info.key for page in store.list() for info in page.objects] == sorted(ODD_KEYS)


@pytest.mark.s3
def test_everything_written_has_a_content_type(store: Store, s3_server: S3Server, boto: Any) -> None:
    prefix = parse_url(store.name).prefix
    store.put("plain", b"{}")
    store.put("typed", b"{}", IfAbsent(), content_type="application/zstd")
    types = {
        key: boto.head_object(Bucket=s3_server.bucket, Key=f"{prefix}/{key}")["ContentType"]
        for key in ("plain", "typed")
    }
    assert types == {"plain": OCTETS, "typed": "application/zstd"}


@pytest.mark.s3
def test_placeholders_of_other_tools_do_not_break_a_listing(store: Store, s3_server: S3Server, boto: Any) -> None:
    """`folder/` is listed as an empty object, the placeholder of the listed folder itself not at all."""
    prefix = parse_url(store.name).prefix
    for key in ("f/", "f/sub/", "f/a"):
        boto.put_object(Bucket=s3_server.bucket, Key=f"{prefix}/{key}", Body=b"")
    assert [info.key for page in store.list("f/") for info in page.objects] == ["f/a", "f/sub"]
    (level,) = store.list("f/", delimiter="/")
    assert ([info.key for info in level.objects], level.prefixes) == (["f/a"], ("f/sub/",))


@pytest.mark.parametrize("key", ["a//b", "a/../b", "a/./b", "a&#9;b", "/a"])
def test_a_key_no_store_of_ours_could_hold_ends_a_listing(script: ScriptedServer, key: str) -> None:
    script.answer(listing("pre/f/ok", f"pre/f/{key}"))
    with s3_at(script.endpoint) as store, pytest.raises(InvalidRequestError, match="wormdb cannot address") as caught:
        list(store.list("f/"))
    assert caught.value.key is not None
    assert caught.value.key.startswith("pre/f/")
    assert "move or delete" in caught.value.fix


# --- missing buckets, wrong credentials ---


@pytest.mark.s3
def test_a_missing_bucket_is_named(s3_url: str) -> None:
    with open_store(s3_url.replace("wormdb-test", "no-such-bucket")) as store:
        for call in (lambda: store.get("key"), lambda: store.probe("key"), lambda: list(store.list())):
            with pytest.raises(NotFoundError, match=r"bucket no-such-bucket.*does not exist") as caught:
                call()
            assert "create it" in caught.value.fix
            assert caught.value.key is None


@pytest.mark.s3
@pytest.mark.parametrize("variable", ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"])
def test_wrong_credentials_are_denied_and_never_shown(
    s3_url: str, variable: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(variable, CANARY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "canary-token")
    with caplog.at_level(logging.DEBUG), open_store(s3_url) as store:
        errors = every_verb(store)
        text = repr(store) + str(store) + store.name + shown(errors) + caplog.text
    assert {type(error) for error in errors} == {PermissionDeniedError}
    assert all(error.__context__ is None and error.__cause__ is None for error in errors)
    assert all(error.fix for error in errors)
    for secret in (CANARY, "canary-token", "X-Amz", "Signature="):
        assert secret not in text


@pytest.mark.s3
def test_good_requests_log_nothing_secret(
    store: Store, s3_server: S3Server, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG):
        store.put("key", b"body", IfAbsent())
        store.probe("key")
        store.get("key")
        list(store.list())
    printed = capfd.readouterr()
    text = caplog.text + printed.out + printed.err + repr(store) + repr(vars(store))
    for secret in (s3_server.secret_key, "X-Amz", "Signature="):
        assert secret not in text


def test_a_store_that_is_away_is_unavailable() -> None:
    with s3_at("http://127.0.0.1:1") as store:
        errors = every_verb(store)
    assert {type(error) for error in errors} == {UnavailableError}
    assert CANARY not in shown(errors)


def test_settings_that_obstore_refuses_are_not_repeated() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        s3_at("http://127.0.0.1:1", no_such_setting=CANARY)
    assert CANARY not in shown([caught.value])


def test_without_credentials_the_error_says_what_to_set() -> None:
    """The machine's identity service is asked last. Its address is fixed, so its failure is made up here."""
    text = (
        "Generic S3 error\n\nDebug source:\nGeneric {\n    uri: Some(\n"
        "        http://169.254.169.254/latest/api/token,\n    ),\n    inner: Status {\n        status: 403,\n"
    )
    url = StoreUrl("s3", "bucket", region="us-east-1")
    fault = parse_fault(FaultKind.OTHER, text)
    for error in (fault_on_read(url, "key", fault), fault_on_write(url, "key", IfAbsent(), fault)):
        assert type(error) is PermissionDeniedError
        assert "AWS_ACCESS_KEY_ID" in error.fix


# --- obstore's errors, by status ---


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(500), UnavailableError),
        (Reply(503, b"<Error><Code>SlowDown</Code></Error>"), UnavailableError),
        (Reply(429), UnavailableError),
        (Reply(403), PermissionDeniedError),
        (Reply(401), PermissionDeniedError),
        (Reply(301, b"<Error><Code>PermanentRedirect</Code></Error>"), InvalidRequestError),
        (Reply(400, b"<Error><Code>ExpiredToken</Code></Error>"), PermissionDeniedError),
        (Reply(501, b"<Error><Code>NotImplemented</Code></Error>"), UnsupportedStoreError),
    ],
    ids=str,
)
def test_reading_verbs_agree_on_every_status(script: ScriptedServer, reply: Reply, expected: type[WormError]) -> None:
    script.answer(reply)
    with s3_at(script.endpoint) as store:
        calls = (
            lambda: store.get("key"),
            lambda: store.get_range("key", ByteRange(0, 1)),
            lambda: store.probe("key"),
            lambda: list(store.list()),
            lambda: store.delete("key"),
        )
        for call in calls:
            script.asked.clear()
            with pytest.raises(WormError) as caught:
                call()
            assert type(caught.value) is expected
            assert len(script.asked) == 1  # the library does not retry


def test_a_key_cannot_imitate_an_error(script: ScriptedServer) -> None:
    """Keys and answers stand in the library's error text, which is read only where they cannot reach."""
    script.answer(Reply(500, b"\n    status: 404,\n<Code>NoSuchKey</Code>\nDebug source:\n    status: 404,\n"))
    with s3_at(script.endpoint) as store, pytest.raises(UnavailableError):
        store.get("Server returned non-2xx status code: 404 Not Found: <Code>NoSuchBucket</Code>")


def test_a_dropped_answer_is_unavailable_for_reads(script: ScriptedServer) -> None:
    script.answer(Drop())
    with s3_at(script.endpoint) as store:
        for call in (lambda: store.get("key"), lambda: list(store.list()), lambda: store.delete("key")):
            with pytest.raises(UnavailableError):
                call()


# --- how many requests ---


def test_ranges_cost_one_request_for_each_joined_range(script: ScriptedServer) -> None:
    ranged = Reply(206, b"x" * 10, {"ETag": '"e"', "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"})
    with s3_at(script.endpoint) as store:
        script.answer(Reply(206, ranged.body, ranged.headers | {"Content-Range": "bytes 0-9/1000000"}))
        store.get_range("key", ByteRange(0, 10))
        assert [asked.headers["range"] for asked in script.asked] == ["bytes=0-9"]
        script.answer(Reply(206, b"x" * 50, ranged.headers | {"Content-Range": "bytes 0-49/1000000"}))
        assert store.get_ranges("key", [ByteRange(40, 10), ByteRange(0, 10)]) == (b"x" * 10, b"x" * 10)
        assert [asked.headers["range"] for asked in script.asked] == ["bytes=0-49"]


def test_a_listing_asks_once_a_page_and_begins_after(script: ScriptedServer) -> None:
    pages = [[f"pre/f/{number:05}" for number in range(start, start + 1000)] for start in (1000, 2000)]
    script.answer(listing(*pages[0], token="more"), listing(*pages[1]))
    with s3_at(script.endpoint) as store:
        found = [info.key for page in store.list("f/", after="f/01499") for info in page.objects]
    assert found == [f"f/{number:05}" for number in range(1500, 3000)]
    queries = [parse_qs(urlsplit(asked.path).query) for asked in script.asked]
    assert len(queries) == 2
    assert queries[0]["start-after"] == ["pre/f/01498~"]
    assert queries[1]["continuation-token"] == ["more"]


def test_a_listing_at_amazon_begins_exactly_after(script: ScriptedServer) -> None:
    script.answer(listing("pre/f/2"))
    store = s3_at(script.endpoint)
    store._ordered = True
    assert [info.key for page in store.list("f/", after="f/1") for info in page.objects] == ["f/2"]
    assert parse_qs(urlsplit(script.asked[0].path).query)["start-after"] == ["pre/f/1"]
    script.answer(listing("pre/f/2", "pre/f/1"))
    with pytest.raises(UnsupportedStoreError, match="order of key bytes"):
        list(store.list("f/"))


@pytest.mark.parametrize(
    ("endpoint", "ordered"),
    [
        (None, True),
        ("https://s3.eu-west-1.amazonaws.com", True),
        ("https://abc.r2.cloudflarestorage.com", True),
        ("https://storage.googleapis.com", True),
        ("https://minio.example.com:9000", False),
        ("https://amazonaws.com.example.com", False),
    ],
)
def test_order_is_trusted_where_it_is_known(endpoint: str | None, ordered: bool) -> None:
    url = StoreUrl("s3", "bucket", endpoint=endpoint, region="us-east-1")
    store = CloudStore(url, {"access_key_id": "k", "secret_access_key": "s"}, clock=SystemClock())
    assert store._ordered is ordered


@pytest.mark.s3
def test_get_many_on_threads(store: Store) -> None:
    keys = [f"k/{number}" for number in range(100)]
    pool = ThreadPool()
    try:
        list(pool.map(lambda key: store.put(key, key.encode(), IfAbsent()), keys))
        found = store.get_many([*keys, "missing"], pool)
    finally:
        pool.close()
    assert [stored.body if stored else None for stored in found] == [*(key.encode() for key in keys), None]


# --- reading without credentials ---


def test_a_public_bucket_is_read_without_signatures(script: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"ETag": '"e"', "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"}
    script.answer(Reply(200, b"body", headers), Reply(404, b"<Error><Code>NoSuchKey</Code></Error>"))
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    with open_store(f"s3://bucket/pre?endpoint={script.endpoint}") as store:
        found, missing = store.probe("key"), store.probe("key")
    assert found.found is not None
    assert (found.found.body, found.time, missing.found) == (b"body", None, None)
    assert all("authorization" not in asked.headers and "?" not in asked.path for asked in script.asked)
