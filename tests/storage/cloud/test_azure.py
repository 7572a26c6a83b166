"""Requests to Azure that are signed here cover the name of a blob as it is, whatever their URL makes of it."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, unquote, urlsplit

import obstore
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.http_script import Asked, Reply, ScriptedServer, scripted_server
from wormdb.errors import InvalidRequestError, UnavailableError, WormError
from wormdb.storage.cloud.azure import BlobSigner, account_key
from wormdb.storage.open import open_store
from wormdb.storage.store import ByteRange, CloudLifetime
from wormdb.storage.url import StoreUrl
from wormdb.testing.store_contract.keys import ODD_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = b"the key of an emulator on loopback"
KEY = base64.b64encode(SECRET).decode()
OTHER = base64.b64encode(b"another key").decode()
ENDS = "2026-11-18T05:00:27Z"
ENDS_MS = 1_794_978_027_000
MISSING = Reply(404, headers={"x-ms-error-code": "BlobNotFound"})
NAMES = st.text(st.characters(exclude_characters="/\\", exclude_categories=("Cc", "Cs")), min_size=1, max_size=20)


@pytest.fixture
def script() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCESS_KEY", "MASTER_KEY", "SAS_TOKEN", "USE_EMULATOR", "ENDPOINT"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)


def expected(method: str, resource: str, query: dict[str, list[str]], secret: bytes = SECRET) -> str:
    """The signature of a blob's URL by Microsoft's documentation of version 2020-12-06 and later, field by field."""
    fields = {
        "permissions": {"GET": "r", "HEAD": "r", "PUT": "w", "DELETE": "d"}[method],
        "start": "",
        "expiry": query["se"][0],
        "canonicalized resource": resource,
        "identifier": "",
        "ip": "",
        "protocol": "",
        "version": query["sv"][0],
        "resource": "b",
        "snapshot time": "",
        "encryption scope": "",
        "cache control": "",
        "content disposition": "",
        "content encoding": "",
        "content language": "",
        "content type": "",
    }
    digest = hmac.new(secret, "\n".join(fields.values()).encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def in_a_header(asked: Asked) -> str:
    """The signature of a request without a query in its headers (Shared Key), which covers the path as it is sent."""
    before = ("content-encoding", "content-language", "content-length", "content-md5", "content-type", "date")
    names = (*before, "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range")
    values = [asked.headers.get(name, "") for name in names]
    values[2] = values[2].removeprefix("0")
    own = [f"{name}:{asked.headers[name]}" for name in sorted(asked.headers) if name.startswith("x-ms-")]
    text = "\n".join([asked.method, *values, *own, f"/account{asked.path}"])
    return base64.b64encode(hmac.new(SECRET, text.encode(), hashlib.sha256).digest()).decode()


@pytest.mark.parametrize(
    ("key", "signature"),
    [
        ("a b", "Gpv8Cwpiv/2ZqoHpv1CX/etb4cvhlJix2Sr1agjkWmg="),
        ("ü%", "mTaZ6fTuaWdVJdDtHOfdxH/IYQQdcx86+DiusMNgEck="),
    ],
)
def test_a_signature_is_the_one_that_azurite_computed(key: str, signature: str) -> None:
    url = StoreUrl("az", "bucket", "tests", endpoint="http://127.0.0.1:1/wormdbtest", account="wormdbtest")
    signed = BlobSigner(url, KEY).signed("PUT", key, now_ms=ENDS_MS - 960_000, seconds=960)
    query = parse_qs(urlsplit(signed).query, strict_parsing=True)
    assert (query["se"], query["sig"]) == ([ENDS], [signature])
    assert signed.partition("?")[0] == f"http://127.0.0.1:1/wormdbtest/bucket/tests/{quote(key)}"


@given(
    parts=st.lists(NAMES, min_size=1, max_size=3),
    prefix=st.one_of(st.just(""), NAMES),
    method=st.sampled_from(["GET", "HEAD", "PUT", "DELETE"]),
    endpoint=st.sampled_from([None, "https://blobs.example", "http://127.0.0.1:10000/account"]),
)
@example(parts=["100%25", "a+b"], prefix="%2F", method="GET", endpoint=None)
def test_a_signature_covers_the_decoded_path_and_the_account_once(
    parts: list[str], prefix: str, method: str, endpoint: str | None
) -> None:
    key = "/".join(parts)
    url = StoreUrl("az", "container", prefix, endpoint=endpoint, account="account")
    signed = urlsplit(BlobSigner(url, KEY).signed(method, key, now_ms=ENDS_MS, seconds=1))
    assert f"{signed.scheme}://{signed.netloc}{signed.path}".startswith(
        f"{endpoint or 'https://account.blob.core.windows.net'}/container/"
    )
    path = unquote(signed.path, errors="strict").removeprefix("/account")
    assert path == "/container/" + (f"{prefix}/" if prefix else "") + key
    assert signed.path.isascii()
    query = parse_qs(signed.query, strict_parsing=True)
    assert query["sig"] == [expected(method, f"/blob/account{path}", query)]


def test_every_verb_of_one_blob_does_without_the_library(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> str:
        raise AssertionError("obstore was asked to sign")

    monkeypatch.setattr(obstore, "sign", refuse)
    seen = {"ETag": '"0x1"', "Last-Modified": "Wed, 18 Nov 2026 04:00:00 GMT"}
    with open_store(f"az://container/p%20q?endpoint={script.endpoint}") as store:
        for key in ODD_KEYS:
            script.asked.clear()
            script.answer(Reply(201, headers=seen), Reply(200, b"", seen), Reply(200, b"", seen))
            store.put(key, b"")
            store.get(key)
            store.head(key)
            assert [asked.method for asked in script.asked] == ["PUT", "GET", "HEAD"]
            for asked in script.asked:
                parts = urlsplit(asked.path)
                assert unquote(parts.path) == f"/container/p q/{key}"
                query = parse_qs(parts.query)
                assert query["sig"] == [expected(asked.method, f"/blob/account/container/p q/{key}", query)]


def test_without_the_library_a_blob_is_deleted_too(script: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CloudLifetime, "has_library", False)
    script.answer(Reply(202), MISSING, Reply(200))
    with open_store(f"az://container/pre?endpoint={script.endpoint}") as store:
        store.delete_many(["a b", "missing"])
        with pytest.raises(UnavailableError):
            store.delete("a b")  # Azure says 202: something else answered
    assert [asked.method for asked in script.asked] == ["DELETE", "DELETE", "DELETE"]
    query = parse_qs(urlsplit(script.asked[0].path).query)
    assert query["sig"] == [expected("DELETE", "/blob/account/container/pre/a b", query)]


def test_where_the_environment_has_two_keys_one_signs_all(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert account_key({}, {"AZURE_STORAGE_ACCESS_KEY": OTHER, "AZURE_STORAGE_ACCOUNT_KEY": KEY}) == KEY
    assert account_key({"account_key": OTHER}, {"AZURE_STORAGE_ACCOUNT_KEY": KEY}) == OTHER
    for name in ("ACCESS_KEY", "MASTER_KEY"):
        monkeypatch.setenv(f"AZURE_STORAGE_{name}", OTHER)
    script.answer(MISSING)
    with open_store(f"az://container/pre?endpoint={script.endpoint}") as store:
        assert store.probe("a b").found is None
        with pytest.raises(WormError):
            store.get_ranges("a b", [ByteRange(0, 1), ByteRange(100_000_000, 1)])
    probed, ranged, *_ = script.asked
    query = parse_qs(urlsplit(probed.path).query)
    assert query["sig"] == [expected("GET", "/blob/account/container/pre/a b", query)]
    assert ranged.headers["authorization"] == f"SharedKey account:{in_a_header(ranged)}"


def test_a_key_that_is_not_base64_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "not base64!")
    with pytest.raises(InvalidRequestError) as caught:
        open_store("az://container/pre")
    assert "not base64!" not in str(caught.value)


@pytest.mark.parametrize("variable", ["AZURE_STORAGE_USE_EMULATOR", "AZURE_USE_FABRIC_ENDPOINT"])
def test_requests_that_the_library_sends_elsewhere_are_signed_by_it(variable: str) -> None:
    url = StoreUrl("az", "container", account="account")
    assert BlobSigner.can_sign(url, {variable: "false"})
    assert not BlobSigner.can_sign(url, {variable: "true"})
    assert not BlobSigner.can_sign(StoreUrl("az", "container"), {})
