"""Server-side encryption: settings reach every request, signed, and no key of ours is ever shown."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.http_script import Reply, ScriptedServer, scripted_server
from wormdb.errors import InvalidRequestError, WormError
from wormdb.settings import Settings
from wormdb.storage.cloud.encryption import AccessKey, encryption_of, keys_of, sign_headers
from wormdb.storage.open import open_store
from wormdb.storage.store import Always, ByteRange, IfAbsent, IfMatch
from wormdb.storage.url import parse_url
from wormdb.system.clock import ManualClock
from wormdb.system.types import Version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SSE = "x-amz-server-side-encryption"
OWN_KEY = base64.b64encode(b"canary-of-thirty-two-bytes-long!").decode()
OTHER_KEY = base64.b64encode(b"another-of-thirty-two-bytes-long").decode()
ARN = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab"

# The examples that Amazon publishes for this signature: (method, target, headers, body, signature).
EXAMPLE_KEYS = AccessKey("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
EXAMPLE_HOST = "examplebucket.s3.amazonaws.com"
EXAMPLE_MS = 1_369_353_600_000
EXAMPLES = [
    (
        "GET",
        "/test.txt",
        {"Range": "bytes=0-9"},
        b"",
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
    (
        "PUT",
        "/test%24file.text",
        {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
        b"Welcome to Amazon S3.",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    ),
    ("GET", "/?lifecycle=", {}, b"", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_SERVER_SIDE_ENCRYPTION", "AWS_SSE_KMS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with scripted_server() as script:
        script.answer(Reply(200, b"", {"ETag": '"v"', "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"}))
        yield script


def url_at(script: ScriptedServer, more: str = "") -> str:
    return f"s3://bucket/a%20b?endpoint={script.endpoint}&region=us-east-1{more}"


def sse(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith(SSE)}


@pytest.mark.parametrize(("method", "target", "headers", "body", "signature"), EXAMPLES)
def test_the_signature_is_that_of_the_published_examples(
    method: str, target: str, headers: dict[str, str], body: bytes, signature: str
) -> None:
    signed = sign_headers(EXAMPLE_KEYS, method, EXAMPLE_HOST, target, headers, body, now_ms=EXAMPLE_MS)
    assert signed["Authorization"].endswith(f"Signature={signature}")


@pytest.mark.parametrize("precondition", [Always(), IfAbsent(), IfMatch(Version('"old"'))])
@pytest.mark.parametrize(
    ("in_url", "variables", "wanted"),
    [
        ("&encryption=AES256", {}, {SSE: "AES256"}),
        ("", {"AWS_SERVER_SIDE_ENCRYPTION": "AES256"}, {SSE: "AES256"}),
        (
            f"&encryption=aws:kms&kms_key={ARN}",
            {"AWS_SSE_BUCKET_KEY_ENABLED": "true"},
            {SSE: "aws:kms", f"{SSE}-aws-kms-key-id": ARN, f"{SSE}-bucket-key-enabled": "true"},
        ),
        (
            "",
            {"AWS_SERVER_SIDE_ENCRYPTION": "aws:kms:dsse", "AWS_SSE_KMS_KEY_ID": "k1"},
            {SSE: "aws:kms:dsse", f"{SSE}-aws-kms-key-id": "k1"},
        ),
    ],
)
def test_every_write_asks_for_it_and_signs_that(
    script: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
    precondition: Always | IfAbsent | IfMatch,
    in_url: str,
    variables: dict[str, str],
    wanted: dict[str, str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with open_store(url_at(script, in_url), clock=ManualClock()) as store:
        store.put("key", b"value", precondition)
        assert store.probe("key").found is not None
    put, get = script.asked
    assert sse(put.headers) == wanted
    signed = put.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert {*wanted, "host", "content-md5", "x-amz-content-sha256"} <= {*signed}
    assert put.headers["x-amz-content-sha256"] == hashlib.sha256(b"value").hexdigest()
    assert put.path == "/bucket/a%20b/key"
    assert sse(get.headers) == {}


def test_a_key_of_ours_goes_with_reads_too_and_is_shown_nowhere(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "sse-c")
    monkeypatch.setenv("AWS_SSE_CUSTOMER_KEY_BASE64", OWN_KEY)
    with open_store(url_at(script), clock=ManualClock()) as store:
        store.put("key", b"value", IfAbsent())
        store.probe("key")
        store.get("key")
        store.head("key")
        script.actions = [Reply(403, b"<Error><Code>AccessDenied</Code></Error>")]
        told = [repr(store), store.name]
        for call in (lambda: store.get("key"), lambda: store.put("key", b"", IfAbsent()), lambda: store.probe("key")):
            with pytest.raises(WormError) as caught:
                call()
            told += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]
    assert len(script.asked) == 7
    for asked in script.asked:
        assert asked.headers[f"{SSE}-customer-key"] == OWN_KEY
        assert asked.headers[f"{SSE}-customer-algorithm"] == "AES256"
    assert OWN_KEY not in "\n".join(
        [
            *told,
            caplog.text,
            repr(
                encryption_of(
                    parse_url(url_at(script)),
                    {"AWS_SERVER_SIDE_ENCRYPTION": "sse-c", "AWS_SSE_CUSTOMER_KEY_BASE64": OWN_KEY},
                )
            ),
        ]
    )


def test_without_keys_at_hand_writes_go_through_obstore_with_the_same_headers(script: ScriptedServer) -> None:
    url = parse_url(url_at(script, "&encryption=AES256"))
    assert keys_of({}, {}, url.region) is None
    assert "secret" not in repr(keys_of({}, {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "secret"}, None))
    with open_store(url) as store:
        store._signed = None  # type: ignore[attr-defined]  # as where a machine has an identity
        store.put("key", b"value", IfAbsent())
    assert sse(script.asked[0].headers) == {SSE: "AES256"}


@pytest.mark.parametrize(
    ("in_url", "variables", "said"),
    [
        ("", {"AWS_SERVER_SIDE_ENCRYPTION": "rot13"}, "not a way of encryption"),
        ("", {"AWS_SSE_KMS_KEY_ID": "k"}, "no encryption"),
        ("?encryption=AES256&kms_key=k", {}, "does not go with AES256"),
        ("?encryption=sse-c", {}, "one is missing"),
        ("?encryption=AES256", {"AWS_SSE_CUSTOMER_KEY_BASE64": OWN_KEY}, "one is missing"),
        ("?encryption=sse-c", {"AWS_SSE_CUSTOMER_KEY_BASE64": "canary"}, "32 bytes"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(in_url: str, variables: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said) as caught:
        encryption_of(parse_url(f"s3://bucket{in_url}"), variables)
    assert OWN_KEY not in str(caught.value)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("text", ["?encryption=rot13", "?kms_key=a%0Ab", "?encryption="])
def test_a_url_with_other_words_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"encryption|kms_key"):
        parse_url(f"s3://bucket{text}")


def test_a_key_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_url(f"s3://bucket?sse_customer_key_base64={OWN_KEY}")
    assert OWN_KEY not in str(caught.value)


def test_the_url_keeps_what_it_says() -> None:
    text = f"s3://bucket/a?region=eu-west-1&encryption=aws:kms&kms_key={ARN}"
    assert str(parse_url(text)) == text


def test_a_real_server_takes_the_signature_and_keeps_to_the_key(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "sse-c")
    monkeypatch.setenv("AWS_SSE_CUSTOMER_KEY_BASE64", OWN_KEY)
    with open_store(s3_url) as store:
        store.put("a/ü b", b"0123456789", IfAbsent())
        assert store.get("a/ü b").body == b"0123456789"
        assert store.get_range("a/ü b", ByteRange(3, 4)) == b"3456"
        found = store.probe("a/ü b").found
        assert found is not None
        assert found.body == b"0123456789"
    monkeypatch.setenv("AWS_SSE_CUSTOMER_KEY_BASE64", OTHER_KEY)
    with open_store(s3_url) as store, pytest.raises(WormError):
        store.get("a/ü b")


def test_a_whole_database_can_be_kept_under_a_key_of_ours(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "sse-c")
    monkeypatch.setenv("AWS_SSE_CUSTOMER_KEY_BASE64", OWN_KEY)
    settings = Settings(forward="manual", forward_interval_ms=0, cache_bytes=0)
    with wormdb.connect(s3_url, settings=settings) as database:
        things = database["things"]
        things.insert_many([{"id": f"{number:04}", "n": number, "text": "x" * 300} for number in range(50)])
        things.create_index("n")
        database.forward(["things"])
        things.save({"id": "0001", "n": -1})
    with wormdb.connect(s3_url, settings=settings) as database:
        things = database["things"]
        assert things.count() == 50
        assert [found.id for found in things.find_all({"n": {"$lt": 3}}, sort={"n": 1})] == ["0001", "0000", "0002"]
    monkeypatch.delenv("AWS_SERVER_SIDE_ENCRYPTION")
    monkeypatch.delenv("AWS_SSE_CUSTOMER_KEY_BASE64")
    with wormdb.connect(s3_url, settings=settings) as database, pytest.raises(WormError):
        database["things"].count()
