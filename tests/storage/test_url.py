"""Store URLs: every form, every mistake with its remedy, and no secret in any message."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.http_script import Reply, scripted_server
from wormdb.errors import InvalidRequestError
from wormdb.storage.cloud.store import CloudStore
from wormdb.storage.folder.store import LocalStore
from wormdb.storage.memory import MemoryStore
from wormdb.storage.open import open_store
from wormdb.storage.url import Scheme, StoreUrl, check_endpoint, parse_url

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "canary-secret"


@pytest.mark.parametrize(
    ("text", "expected", "canonical"),
    [
        ("memory://name", StoreUrl("memory", "name"), "memory://name"),
        ("memory://", StoreUrl("memory"), "memory://"),
        ("/srv/data/", StoreUrl("file", path="/srv/data"), "file:///srv/data"),
        ("/srv/../data", StoreUrl("file", path="/data"), "file:///data"),
        ("file:///srv/a%20b", StoreUrl("file", path="/srv/a b"), "file:///srv/a%20b"),
        ("file://localhost/srv", StoreUrl("file", path="/srv"), "file:///srv"),
        ("/srv/50%25?#", StoreUrl("file", path="/srv/50%25?#"), "file:///srv/50%2525%3F%23"),
        ("s3://bucket", StoreUrl("s3", "bucket"), "s3://bucket"),
        ("s3://bucket/", StoreUrl("s3", "bucket"), "s3://bucket"),
        ("s3://bucket/a/b/", StoreUrl("s3", "bucket", "a/b"), "s3://bucket/a/b"),
        ("s3://bucket/a%20b/%C3%BC", StoreUrl("s3", "bucket", "a b/ü"), "s3://bucket/a%20b/%C3%BC"),
        (
            "s3://bucket/a?region=eu-west-1&endpoint=http://127.0.0.1:9000/",
            StoreUrl("s3", "bucket", "a", endpoint="http://127.0.0.1:9000", region="eu-west-1"),
            "s3://bucket/a?endpoint=http://127.0.0.1:9000&region=eu-west-1",
        ),
        (
            "s3://bucket?endpoint=https%3A%2F%2Fabc.r2.cloudflarestorage.com&region=auto",
            StoreUrl("s3", "bucket", endpoint="https://abc.r2.cloudflarestorage.com", region="auto"),
            "s3://bucket?endpoint=https://abc.r2.cloudflarestorage.com&region=auto",
        ),
        (
            "s3://bucket?endpoint=http://[::1]:9000",
            StoreUrl("s3", "bucket", endpoint="http://[::1]:9000"),
            "s3://bucket?endpoint=http://[::1]:9000",
        ),
        ("gs://my_bucket/a", StoreUrl("gs", "my_bucket", "a"), "gs://my_bucket/a"),
        ("az://box/a?account=acct", StoreUrl("az", "box", "a", account="acct"), "az://box/a?account=acct"),
    ],
)
def test_forms(text: str, expected: StoreUrl, canonical: str) -> None:
    assert parse_url(text) == expected
    assert str(expected) == canonical
    assert parse_url(canonical) == expected


def test_paths_are_resolved_here_and_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert parse_url("data").path == str(tmp_path / "data")
    assert parse_url("./a/../data").path == str(tmp_path / "data")
    assert parse_url("~/data").path == str(tmp_path / "home" / "data")
    assert parse_url(".").path == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("", "empty", "s3://bucket"),
        ("   ", "empty", "s3://bucket"),
        ("a\0b", "NUL", ""),
        ("file:///a%00b", "NUL", ""),
        ("http://host/bucket", "scheme is unknown", "memory://, file://, s3://, gs://, az://"),
        ("S3://bucket", "scheme is unknown", "did you mean s3://"),
        ("s3a://bucket", "scheme is unknown", "did you mean s3://"),
        ("gcs://bucket", "scheme is unknown", "did you mean gs://"),
        ("azure://bucket", "scheme is unknown", "did you mean az://"),
        ("flie:///x", "scheme is unknown", "did you mean file://"),
        ("s3:/bucket/x", "two slashes", "s3://"),
        ("s3:bucket", "two slashes", "s3://"),
        ("gcs:bucket", "two slashes", "gs://"),
        ("s3://", "bucket is missing", "s3://bucket/prefix"),
        ("s3:///prefix", "bucket is missing", "s3://bucket/prefix"),
        ("s3://ab", "3 to 63", "check the name"),
        ("s3://UPPER-case", "a-z", "check the name"),
        ("s3://under_score", "a-z", "check the name"),
        ("s3://a..b", "a-z", "check the name"),
        ("s3://-ab", "letter or digit at each end", "check the name"),
        ("s3://" + "a" * 64, "3 to 63", "check the name"),
        ("az://a--b", "single -", "check the name"),
        ("s3://127.0.0.1:9000/bucket", "colon", "?endpoint=http://host:port"),
        ("s3://bucket/a/../b", "'..'", "plain segments"),
        ("s3://bucket/a%2F..%2Fb", "'..'", "plain segments"),
        ("s3://bucket//a", "''", "plain segments"),
        ("s3://bucket/%FF", "Unicode", "plain segments"),
        ("s3://bucket/a\\b", "backslash", "plain segments"),
        ("s3://bucket/a#b", "#", "%23"),
        ("s3://bucket?endpont=http://h", "'endpont' is unknown", "did you mean endpoint"),
        ("s3://bucket?zone=x", "'zone' is unknown", "endpoint and region"),
        ("gs://bucket?region=x", "'region' is unknown", "endpoint"),
        ("memory://name?x=1", "'x' is unknown", "no parameters"),
        ("s3://bucket?region=", "empty", "once"),
        ("s3://bucket?region=a&region=b", "twice", "once"),
        ("s3://bucket?region=eu west", "characters", "region="),
        ("az://box?account=No_Account", "characters", "account="),
        ("s3://bucket?endpoint=host:9000", "begin with http", "https://host"),
        ("s3://bucket?endpoint=ftp://host", "begin with http", "https://host"),
        ("s3://bucket?endpoint=https://host/path", "host and a port", "https://host"),
        ("memory://a/b", "no path", "memory://name"),
        ("memory://a b", "one name", "memory://name"),
        ("file://data/x", "absolute path", "relative path without"),
        ("file://", "absolute path", "file:///"),
        ("C:\\data", "Windows", "WSL"),
        ("c:/data", "Windows", "WSL"),
        ("\\\\server\\share", "Windows", "WSL"),
        ("file:///C:/data", "Windows", "WSL"),
        ("~nobody-has-this-name/x", "home folder", "whole path"),
    ],
)
def test_mistakes_say_why_and_what_to_do(text: str, what: str, fix: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_url(text)
    assert what in caught.value.reason
    assert fix in caught.value.fix
    assert caught.value.fix


@pytest.mark.parametrize(
    "text",
    [
        f"s3://key:{CANARY}@bucket/x",
        f"s3://{CANARY}@bucket",
        f"gs://user:{CANARY}@bucket?region=x",
        f"s3://bucket?secret_access_key={CANARY}",
        f"s3://bucket?aws_secret={CANARY}",
        f"s3://bucket?X-Amz-Signature={CANARY}",
        f"s3://bucket?token={CANARY}",
        f"az://box?sig={CANARY}",
        f"az://box?sas_token={CANARY}",
        f"az://box?account_key={CANARY}",
        f"s3://bucket?endpoint=http://user:{CANARY}@host",
        f"s3://bucket?endpoint=http%3A%2F%2Fuser%3A{CANARY}%40host",
        f"s3://key:{CANARY}/bucket",
        f"s3://bucket?unknown={CANARY}",
        f"s3://bucket?region={CANARY}!",
        f"http://user:{CANARY}@host/bucket",
        f"user:{CANARY}@s3://bucket",
    ],
)
def test_secrets_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_url(text)
    assert CANARY not in str(caught.value) + repr(caught.value) + repr(vars(caught.value))
    assert caught.value.__cause__ is None or CANARY not in repr(vars(caught.value.__cause__))


segments = st.text(min_size=1, max_size=12).filter(
    lambda text: text not in (".", "..") and text.isprintable() and not set(text) & set("/\\")
)


@given(st.lists(segments, max_size=4).map("/".join), st.sampled_from(["s3", "gs", "az"]))
def test_canonical_urls_round_trip(prefix: str, scheme: Scheme) -> None:
    url = StoreUrl(scheme, "bucket", prefix, endpoint="http://127.0.0.1:9000")
    assert parse_url(str(url)) == url
    assert str(url).isascii()


@given(st.text(max_size=40))
def test_any_text_is_a_store_or_a_typed_error(text: str) -> None:
    try:
        url = parse_url(text)
    except InvalidRequestError:
        return
    assert parse_url(str(url)) == url


@given(st.text(max_size=30))
def test_any_endpoint_is_an_origin_or_a_typed_error(text: str) -> None:
    try:
        origin = check_endpoint(f"http://{text}")
    except InvalidRequestError:
        return
    assert origin == f"http://{text.rstrip('/')}"


def test_place_leaves_out_the_prefix() -> None:
    one, two = (parse_url(f"s3://bucket/{prefix}?endpoint=http://h:1") for prefix in ("a", "b/c"))
    assert one.place == two.place == "s3://bucket?endpoint=http://h:1"
    assert parse_url("/srv/a").place == "file:///srv/a"


# --- opening ---


def test_open_by_scheme(tmp_path: Path) -> None:
    with open_store("memory://test-url") as memory, open_store(str(tmp_path / "x y")) as local:
        assert isinstance(memory, MemoryStore)
        assert isinstance(local, LocalStore)
        assert parse_url(local.name).path == str(tmp_path / "x y")
        assert memory.name == "memory://test-url"


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment without any cloud's settings, and an empty home."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


def test_the_name_tells_what_the_environment_adds(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    clean.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    clean.setenv("AWS_ACCESS_KEY_ID", "key")
    clean.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    with open_store("s3://bucket/pre") as store:
        assert store.name == "s3://bucket/pre?endpoint=http://127.0.0.1:9000&region=eu-west-1"
        assert CANARY not in repr(store)
    with open_store("s3://bucket?endpoint=https://host&region=us-east-2") as store:
        assert store.name == "s3://bucket?endpoint=https://host&region=us-east-2"
    clean.setenv("AWS_ENDPOINT_URL_S3", f"http://user:{CANARY}@host")
    with pytest.raises(InvalidRequestError, match="AWS_ENDPOINT_URL_S3") as caught:
        open_store("s3://bucket")
    assert CANARY not in str(caught.value)


def write_profiles(home: Path) -> None:
    (home / ".aws").mkdir()
    (home / ".aws" / "credentials").write_text(
        f"[default]\naws_access_key_id = K1\naws_secret_access_key = {CANARY}1\n"
        f"[work]\naws_access_key_id = K2\naws_secret_access_key = {CANARY}2\naws_session_token = T2\n"
    )
    (home / ".aws" / "config").write_text(
        "[default]\nregion = eu-north-1\n[profile work]\nregion = eu-south-1\n"
        "[profile login]\nsso_session = x\nregion = eu-west-3\n"
    )


def settings_of(url: str) -> dict[str, object]:
    with open_store(url) as store:
        assert isinstance(store, CloudStore)
        return dict(store._client.config)


def test_profiles_are_read_from_the_files(clean: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_profiles(tmp_path)
    default = settings_of("s3://bucket")
    assert (default["access_key_id"], default["secret_access_key"]) == ("K1", f"{CANARY}1")
    assert default["region"] == "eu-north-1"
    clean.setenv("AWS_PROFILE", "work")
    work = settings_of("s3://bucket?region=us-east-1")
    assert (work["access_key_id"], work["session_token"], work["region"]) == ("K2", "T2", "us-east-1")
    clean.setenv("AWS_ACCESS_KEY_ID", "K3")
    clean.setenv("AWS_SECRET_ACCESS_KEY", "S3")
    with scripted_server() as script, open_store(f"s3://bucket?endpoint={script.endpoint}") as store:
        script.answer(Reply(404, b"<Error><Code>NoSuchKey</Code></Error>"))
        store.probe("key")
        assert parse_qs(script.asked[0].path)["X-Amz-Credential"][0].startswith("K3/")


@pytest.mark.parametrize(("profile", "reason"), [("login", "no access key of its own"), ("absent", "neither in")])
def test_a_profile_without_keys_says_how_to_get_some(
    clean: pytest.MonkeyPatch, tmp_path: Path, profile: str, reason: str
) -> None:
    write_profiles(tmp_path)
    clean.setenv("AWS_PROFILE", profile)
    with pytest.raises(InvalidRequestError) as caught:
        open_store("s3://bucket")
    assert reason in caught.value.reason
    assert "export-credentials" in caught.value.fix


def test_a_broken_profile_file_is_not_quoted(clean: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken").write_text(f"aws_secret_access_key {CANARY}\n")
    clean.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "broken"))
    with pytest.raises(InvalidRequestError, match="cannot be read") as caught:
        open_store("s3://bucket")
    assert CANARY not in str(caught.value)
    assert caught.value.__suppress_context__
