"""Keys that are rotated are read again without a restart: environment, profile, container, web identity."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import S3Store

import wormdb
from tests.http_script import Reply, ScriptedServer, scripted_server
from wormdb.errors import InvalidRequestError, PermissionDeniedError, UnavailableError
from wormdb.storage.cloud.credentials import UrlSigner
from wormdb.storage.cloud.encryption import AccessKey
from wormdb.storage.cloud.identity import RENEW_BEFORE_MS, key_service
from wormdb.storage.cloud.store import CloudStore
from wormdb.storage.open import open_store
from wormdb.storage.url import StoreUrl
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb.testing.s3_server import S3Server

START_MS = 1_700_000_000_000
MISSING = Reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
EXPIRED = Reply(400, b"<Error><Code>ExpiredToken</Code></Error>")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment in which no key is."""
    import os

    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


@pytest.fixture
def store_server() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


@pytest.fixture
def service() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


def keys_asked(script: ScriptedServer) -> list[str]:
    """The access keys that requests to the store were signed with."""
    found = [dict(parse_qsl(urlsplit(asked.path).query)) for asked in script.asked]
    return [pairs["X-Amz-Credential"].partition("/")[0] for pairs in found]


# --- signatures ---

KEYS = st.builds(
    AccessKey,
    st.text("ABC0123", min_size=3, max_size=20),
    st.text("abcDEF/+=0123", min_size=3, max_size=40),
    st.just("") | st.text("abc/+=", min_size=1, max_size=40),
    st.sampled_from(["us-east-1", "eu-central-1"]),
)
PARTS = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cc"]), min_size=1, max_size=9
)


@given(KEYS, st.lists(PARTS.filter(lambda part: part not in (".", "..")), min_size=1, max_size=3), st.booleans())
def test_a_url_is_signed_as_obstore_signs_it(keys: AccessKey, parts: list[str], is_local: bool) -> None:
    endpoint = "http://127.0.0.1:9000" if is_local else None
    url = StoreUrl("s3", "bucket", "a b", endpoint=endpoint, region=keys.region)
    config: Any = {"access_key_id": keys.access, "secret_access_key": keys.secret, "region": keys.region}
    config |= {"endpoint": endpoint} if endpoint else {}
    config |= {"session_token": keys.token} if keys.token else {}
    client = S3Store("bucket", prefix="a b", config=config, client_options={"allow_http": True})
    key = "/".join(parts)
    theirs = obstore.sign(client, "PUT", key, timedelta(minutes=16))
    pairs = dict(parse_qsl(urlsplit(theirs).query))
    moment = datetime.strptime(pairs["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    signer = UrlSigner(url, keys.region)
    ours = signer.origin + signer.target(keys, "PUT", key, now_ms=int(moment.timestamp() * 1000), seconds=960)
    assert ours.partition("?")[0] == theirs.partition("?")[0]
    assert dict(parse_qsl(urlsplit(ours).query)) == pairs


def test_reads_and_writes_with_known_keys_do_without_obstore(
    bare: pytest.MonkeyPatch, store_server: ScriptedServer
) -> None:
    def refuse(*_: object) -> str:
        raise AssertionError("obstore was asked to sign")

    bare.setenv("AWS_ACCESS_KEY_ID", "AK1")
    bare.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    bare.setattr(obstore, "sign", refuse)
    store_server.answer(MISSING)
    with open_store(f"s3://bucket/pre?endpoint={store_server.endpoint}&region=us-east-1") as store:
        assert store.probe("a").found is None


# --- the environment and profiles ---


def test_keys_of_the_environment_are_those_of_now(bare: pytest.MonkeyPatch, store_server: ScriptedServer) -> None:
    bare.setenv("AWS_ACCESS_KEY_ID", "AK1")
    bare.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    bare.setenv("AWS_SESSION_TOKEN", "token-1")
    store_server.answer(MISSING)
    clock = ManualClock()
    with open_store(f"s3://bucket/pre?endpoint={store_server.endpoint}&region=us-east-1", clock=clock) as store:
        store.probe("a")
        bare.setenv("AWS_ACCESS_KEY_ID", "AK2")
        bare.setenv("AWS_SESSION_TOKEN", "token-2")
        clock.advance(1)
        store.probe("a")
        store.probe("b")
        bare.delenv("AWS_ACCESS_KEY_ID")  # half of what is being set: the key that was there goes on
        clock.advance(1)
        store.probe("a")
    assert keys_asked(store_server) == ["AK1", "AK2", "AK2", "AK2"]
    tokens = [dict(parse_qsl(urlsplit(asked.path).query))["X-Amz-Security-Token"] for asked in store_server.asked]
    assert tokens == ["token-1", "token-2", "token-2", "token-2"]


def profile(access: str, secret: str, token: str = "") -> str:
    more = f"aws_session_token = {token}\n" if token else ""
    return f"[default]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n{more}"


def test_a_file_that_is_being_written_leaves_the_key_as_it_was(
    bare: pytest.MonkeyPatch, store_server: ScriptedServer, tmp_path: Path
) -> None:
    file = tmp_path / "credentials"
    bare.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    file.write_text(profile("AK1", "secret", "t1"))
    store_server.answer(MISSING)
    with open_store(f"s3://bucket/pre?endpoint={store_server.endpoint}&region=us-east-1") as store:
        for number, text in enumerate(["", "[default]\naws_acc", profile("AK2", "other", "t2")]):
            file.write_text(text)
            store.probe(f"{number}")
        file.unlink()
        store.probe("gone")
    assert keys_asked(store_server) == ["AK1", "AK1", "AK2", "AK2"]


@pytest.mark.s3
def test_a_profile_that_is_rotated_is_read_again_by_every_verb(
    s3_server: S3Server, bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a real server, which knows the one key and not the other: what is refused, and what is not, tells the key."""
    file = tmp_path / "credentials"
    bare.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    right, wrong = profile(s3_server.access_key, s3_server.secret_key), profile("someone-else", "not-known")
    file.write_text(wrong)
    with open_store(s3_server.url("rotated")) as store:
        for _ in range(2):
            with pytest.raises(PermissionDeniedError):
                store.put("a", b"1")
            with pytest.raises(PermissionDeniedError):
                list(store.list())
            file.write_text(right)
            store.put("a", b"1")
            assert store.get("a").body == b"1"
            assert [info.key for page in store.list() for info in page.objects] == ["a"]
            store.delete("a")
            file.write_text(wrong)


@pytest.mark.s3
def test_a_database_goes_on_when_its_profile_is_rotated(
    s3_server: S3Server, bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "credentials"
    bare.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    file.write_text(profile(s3_server.access_key, s3_server.secret_key))
    with wormdb.connect(s3_server.url("rotated-database")) as db:
        db["notes"].insert({"id": "a"})
        file.write_text(profile("someone-else", "not-known"))
        with pytest.raises(PermissionDeniedError):
            db["notes"].insert({"id": "b"})
        file.write_text(profile(s3_server.access_key, s3_server.secret_key))
        db["notes"].insert({"id": "c"})
        assert {note.id for note in db["notes"]} == {"a", "c"}


# --- keys that a service lends ---


def lent(number: int, ends_ms: int) -> Reply:
    ends = datetime.fromtimestamp(ends_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = {"AccessKeyId": f"AK{number}", "SecretAccessKey": "s", "Token": f"t{number}", "Expiration": ends}
    return Reply(200, json.dumps(found).encode())


def assumed(number: int, ends_ms: int) -> Reply:
    ends = datetime.fromtimestamp(ends_ms / 1000, UTC).isoformat()
    parts = {"AccessKeyId": f"AK{number}", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": ends}
    inner = "".join(f"<{name}>{text}</{name}>" for name, text in parts.items())
    return Reply(200, f"<R><Credentials>{inner}</Credentials></R>".encode())


def open_at(script: ScriptedServer, clock: ManualClock) -> CloudStore:
    url = StoreUrl("s3", "bucket", "pre", endpoint=script.endpoint, region="us-east-1")
    return CloudStore(url, {}, clock=clock)


HOUR_MS = 3_600_000


@pytest.mark.parametrize("kind", ["container", "web identity"])
def test_lent_keys_are_fetched_again_before_they_end_with_the_token_of_now(
    kind: str, bare: pytest.MonkeyPatch, store_server: ScriptedServer, service: ScriptedServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("token-1\n")
    reply = lent if kind == "container" else assumed
    if kind == "container":
        bare.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.endpoint}/keys?a=b")
        bare.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(token))
    else:
        bare.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
        bare.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/app")
        bare.setenv("AWS_ENDPOINT_URL_STS", service.endpoint)
    clock = ManualClock(START_MS)
    service.answer(reply(1, START_MS + HOUR_MS), reply(2, START_MS + 2 * HOUR_MS))
    store_server.answer(MISSING)
    with open_at(store_server, clock) as store:
        store.probe("a")
        store.probe("b")
        token.write_text("token-2\n")
        clock.advance((HOUR_MS - RENEW_BEFORE_MS) / 1000 - 1)
        store.probe("c")
        clock.advance(1)
        store.probe("d")
        store.probe("e")
    assert keys_asked(store_server) == ["AK1", "AK1", "AK1", "AK2", "AK2"]
    shown = [
        asked.headers["authorization"] if kind == "container" else parse_qs(asked.body.decode())["WebIdentityToken"][0]
        for asked in service.asked
    ]
    assert shown == ["token-1", "token-2"]


def test_a_key_that_ended_early_is_fetched_again_and_the_write_goes_on(
    bare: pytest.MonkeyPatch, store_server: ScriptedServer, service: ScriptedServer
) -> None:
    bare.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.endpoint}/keys")
    clock = ManualClock(START_MS)
    service.answer(lent(1, START_MS + HOUR_MS), lent(2, START_MS + HOUR_MS))
    store_server.answer(EXPIRED, Reply(200, headers={"ETag": '"v"'}))
    with open_at(store_server, clock) as store:
        assert store.put("a", b"body").version == '"v"'
    assert keys_asked(store_server) == ["AK1", "AK2"]


def test_a_service_that_is_silent_costs_nothing_while_the_keys_last(
    bare: pytest.MonkeyPatch, store_server: ScriptedServer, service: ScriptedServer
) -> None:
    bare.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.endpoint}/keys")
    clock = ManualClock(START_MS)
    service.answer(lent(1, START_MS + HOUR_MS), Reply(500))
    store_server.answer(MISSING)
    with open_at(store_server, clock) as store:
        store.probe("a")
        clock.advance((HOUR_MS - RENEW_BEFORE_MS) / 1000)
        for number in range(5):
            store.probe(f"{number}")
        assert len(service.asked) == 2
        clock.advance(10)
        store.probe("later")
        assert len(service.asked) == 3
    assert set(keys_asked(store_server)) == {"AK1"}


def test_a_service_that_never_answered_is_told_without_secrets(
    bare: pytest.MonkeyPatch, store_server: ScriptedServer, service: ScriptedServer, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("canary-token")
    bare.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.endpoint}/keys")
    bare.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    service.answer(Reply(500, b"canary-token"))
    with open_at(store_server, ManualClock(START_MS)) as store, pytest.raises(UnavailableError) as caught:
        store.probe("a")
    assert "status 500" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert store_server.asked == []


def test_a_token_goes_to_no_stranger_without_encryption() -> None:
    with pytest.raises(InvalidRequestError, match="address of this machine"):
        key_service({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://example.com/keys"}, None)
    assert key_service({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "https://example.com/keys"}, None) is not None
    assert key_service({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/keys"}, None) is not None
    assert key_service({}, None) is None
