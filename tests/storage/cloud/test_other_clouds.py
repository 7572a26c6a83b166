"""GCS and Azure against a scripted server: requests, headers, answers. No real service was tried."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.every_verb import every_verb, shown
from tests.http_script import Drop, Reply, ScriptedServer, scripted_server
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    UnavailableError,
    WormError,
)
from wormdb.storage.cloud.verdict import FaultKind, Verdict, parse_fault, verdict_of
from wormdb.storage.open import open_store
from wormdb.storage.store import IfAbsent, IfMatch
from wormdb.storage.url import parse_url
from wormdb.system.types import Version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.storage.store import Store

CANARY = "canary-secret-0123456789"


@pytest.fixture
def script() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


def gcs_at(script: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> Store:
    key = {
        "gcs_base_url": script.endpoint,
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(key))
    return open_store(f"gs://bucket/pre?endpoint={script.endpoint}")


def test_gcs_writes_under_generations(script: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    script.answer(Reply(200, headers={"ETag": '"e"', "x-goog-generation": "41"}))
    with gcs_at(script, monkeypatch) as store:
        created = store.put("a b", b"one", IfAbsent(), content_type="application/zstd")
        store.put("a b", b"two", IfMatch(created.version))
    assert (created.version, created.time) == ("41", None)
    first, second = script.asked
    assert (first.method, first.path) == ("PUT", "/bucket/pre%2Fa%20b")
    assert first.headers["x-goog-if-generation-match"] == "0"
    assert first.headers["content-type"] == "application/zstd"
    assert second.headers["x-goog-if-generation-match"] == "41"


@pytest.mark.parametrize(
    ("action", "absent", "match"),
    [
        (Reply(412), AlreadyExistsError, ConflictError),
        (Reply(429), UnavailableError, UnavailableError),
        (Reply(403), PermissionDeniedError, PermissionDeniedError),
        (Reply(500), OutcomeUnknownError, OutcomeUnknownError),
        (Reply(503), OutcomeUnknownError, OutcomeUnknownError),
        (Drop(), OutcomeUnknownError, OutcomeUnknownError),
    ],
    ids=str,
)
def test_gcs_refusals(
    script: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
    action: Reply | Drop,
    absent: type[WormError],
    match: type[WormError],
) -> None:
    script.answer(action)
    with gcs_at(script, monkeypatch) as store:
        for precondition, expected in ((IfAbsent(), absent), (IfMatch(Version("7")), match)):
            with pytest.raises(WormError) as caught:
                store.put("key", b"body", precondition)
            assert type(caught.value) is expected
    assert len(script.asked) == 2


def test_gcs_reads_generations_and_deletes_what_is_gone(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"ETag": '"e"', "x-goog-generation": "41", "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"}
    with gcs_at(script, monkeypatch) as store:
        script.answer(Reply(200, b"body", headers))
        assert store.get("key").version == "41"
        probe = store.probe("key")
        assert probe.found is not None
        assert (probe.found.version, probe.time) == ("41", None)
        script.answer(Reply(404, b"<Error><Code>NoSuchKey</Code></Error>"))
        store.delete("key")
        store.delete_many(["key", "other"])
        assert store.probe("key").found is None
        script.answer(Reply(404, b"404 page not found"))
        for error in every_verb(store):
            assert isinstance(error, UnavailableError | OutcomeUnknownError)
        script.answer(Reply(404, b"<Error><Code>NoSuchBucket</Code></Error>"))
        with pytest.raises(NotFoundError, match="bucket bucket"):
            store.probe("key")


def test_gcs_without_a_connection_did_nothing(script: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    script.endpoint = "http://127.0.0.1:1"
    with gcs_at(script, monkeypatch) as store, pytest.raises(UnavailableError):
        store.put("key", b"body", IfAbsent())


def test_azure_with_a_shared_access_signature_goes_through_the_library(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", f"sv=2020-01-01&sig={CANARY}")
    with open_store(f"az://container/pre?endpoint={script.endpoint}") as store:
        script.answer(Reply(201, headers={"ETag": '"0x1"'}))
        created = store.put("key", b"body", IfAbsent())
        assert (created.version, created.time) == ('"0x1"', None)
        assert script.asked[0].headers["if-none-match"] == "*"
        script.answer(Reply(409, b"<Error><Code>BlobAlreadyExists</Code></Error>"))
        with pytest.raises(AlreadyExistsError):
            store.put("key", b"body", IfAbsent())
        script.answer(Reply(500))
        errors = every_verb(store)
    assert {type(error) for error in errors} == {UnavailableError, OutcomeUnknownError}
    assert CANARY not in shown(errors) + repr(store) + store.name
    assert parse_url(store.name).account == "account"


def test_azure_with_an_account_key_in_the_environment_is_signed(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(CANARY.encode()).decode())
    script.answer(Reply(404, headers={"x-ms-error-code": "BlobNotFound"}))
    with open_store(f"az://container/pre?endpoint={script.endpoint}") as store:
        assert store.probe("key").time is not None
    assert "sig" in parse_qs(urlsplit(script.asked[0].path).query)


def test_azure_is_asked_for_properties_with_the_right_to_read(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(CANARY.encode()).decode())
    seen = {"ETag": '"0x1"', "Last-Modified": "Wed, 18 Nov 2026 04:00:00 GMT", "Content-Length": "0"}
    script.answer(Reply(200, headers=seen))
    with open_store(f"az://container/pre?endpoint={script.endpoint}") as store:
        assert store.head("key").version == '"0x1"'
    assert script.asked[0].method == "HEAD"
    assert parse_qs(urlsplit(script.asked[0].path).query)["sp"] == ["r"]


@pytest.mark.parametrize(("path", "quoted"), [("pre/a", "pre/a"), ('pre/"a', r"pre/\"a"), ('a",', r"a\",")])
def test_a_blob_that_many_deletions_miss_is_missing(path: str, quoted: str) -> None:
    said = (
        f"Object at location {path} not found: Bulk delete request failed for key {path}: The specified blob does not "
        f'exist. (code: 404)\n\nDebug source:\nNotFound {{\n    path: "{quoted}",\n    source: DeleteFailed {{\n'
        f'        path: "{quoted}",\n        code: "404",\n        reason: "The specified blob does not exist.",\n'
        "    },\n}"
    )
    fault = parse_fault(FaultKind.MISSING, said)
    assert verdict_of(parse_url("az://container/pre?account=account"), "DELETE", fault) is Verdict.MISSING


def test_an_emulator_of_azure_has_the_account_in_its_path() -> None:
    text = "az://container/pre?account=one&endpoint=http://127.0.0.1:10000/one"
    assert parse_url(text).endpoint == "http://127.0.0.1:10000/one"
    assert parse_url(str(parse_url(text))) == parse_url(text)
    for wrong in ("http://127.0.0.1:10000/two", "http://127.0.0.1:10000/two/one"):
        with pytest.raises(InvalidRequestError, match="more than a host and a port"):
            parse_url(f"az://container/pre?account=one&endpoint={wrong}")


def test_azure_without_an_account_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(InvalidRequestError, match="AZURE_STORAGE_ACCOUNT_NAME"):
        open_store("az://container")
