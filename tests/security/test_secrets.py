"""A secret is shown nowhere: not in errors, reprs, logs, explained plans, metrics or what a command prints."""

from __future__ import annotations

import base64
import logging
import os
import traceback
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.http_script import Drop, Reply, ScriptedServer, scripted_server
from wormdb.cli.main import run
from wormdb.errors import InvalidRequestError, WormError
from wormdb.settings import Settings
from wormdb.storage.open import open_store
from wormdb.storage.store import IfAbsent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.storage.meter import MeteredRequest

CANARY = "canary0secret0of0the0owner"
TOKEN = "canary0session0token"
ACCOUNT_KEY = base64.b64encode(CANARY.encode()).decode()
SETTINGS = Settings(forward="manual", forward_interval_ms=0)
SECRETS = (CANARY, TOKEN, ACCOUNT_KEY, "X-Amz-Signature", "Signature=", "&sig=", "Authorization")


def nothing_secret(*texts: str) -> None:
    for text in texts:
        assert [secret for secret in SECRETS if secret.lower() in text.lower()] == []


def everything_told(error: BaseException) -> str:
    """All that a log with tracebacks would show of an error, and of those behind it."""
    lines = traceback.TracebackException.from_exception(error, capture_locals=False).format(chain=True)
    return "".join(lines) + repr(error) + str(getattr(error, "__dict__", ""))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKPUBLIC")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY)
    with scripted_server() as script:
        yield script


# A store that repeats what it was asked, as some do in their error pages.
ECHO = f"<Error><Code>AccessDenied</Code><Message>{CANARY} X-Amz-Signature=1</Message></Error>".encode()
ANSWERS = [Reply(403, ECHO), Reply(500, ECHO), Reply(404, ECHO), Reply(301, ECHO), Reply(200, ECHO), Drop()]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: str(getattr(answer, "status", "drop")))
@pytest.mark.parametrize("scheme", ["s3", "az"])
def test_errors_of_a_store_and_logs(
    scheme: str, answer: Any, script: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    script.answer(answer)
    account = "&account=account" if scheme == "az" else "&region=us-east-1"
    with open_store(f"{scheme}://bucket/a?endpoint={script.endpoint}{account}") as store:
        calls: list[Callable[[], object]] = [
            lambda: store.get("key"),
            lambda: store.head("key"),
            lambda: store.probe("key"),
            lambda: store.put("key", b"", IfAbsent()),
            lambda: store.delete("key"),
            lambda: list(store.list()),
        ]
        told = [repr(store), store.name]
        for call in calls:
            try:
                call()
            except WormError as error:
                told.append(everything_told(error))
    assert len(script.asked) >= 4
    nothing_secret(*told, caplog.text)


@pytest.mark.parametrize(
    "url",
    [
        f"s3://AKID:{CANARY}@bucket/a",
        f"s3://bucket/a?secret_access_key={CANARY}",
        f"s3://bucket/a?token={CANARY}",
        f"s3://bucket/a?endpoint=http://user:{CANARY}@host",
        f"az://box/a?account_key={CANARY}",
        f"az://box/a?sig={CANARY}",
        f"user:{CANARY}://bucket",
        f"http://user:{CANARY}@host/bucket",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        wormdb.connect(url)
    nothing_secret(everything_told(caught.value))
    for command in (["doctor", url], ["status", url], ["verify", url]):
        assert run(command) == 2
    printed = capsys.readouterr()
    nothing_secret(printed.out, printed.err)


def test_a_whole_session_tells_nothing(
    s3_url: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a real server, with everything that a user may look at."""
    secret = os.environ["AWS_SECRET_ACCESS_KEY"]
    caplog.set_level(logging.DEBUG)
    requests: list[MeteredRequest] = []
    with wormdb.connect(s3_url, hook=requests.append, settings=SETTINGS) as database:
        things = database["things"]
        things.insert_many([{"id": str(number), "n": number} for number in range(20)])
        things.create_index("n")
        query = things.query().gt("n", 3).sort("n")
        told = [repr(database), database.url, repr(things), repr(query), repr(database.store), repr(database.cost())]
        told += [str(query.explain(analyze=True)), repr(query.find()), repr(database.status(["things"]))]
        with pytest.raises(WormError) as caught:
            things.insert({"id": "1"})
        told.append(everything_told(caught.value))
    for command in (["status", s3_url], ["verify", s3_url], ["doctor", s3_url, "--read-only"]):
        assert run(command) == 0
    printed = capsys.readouterr()
    for text in (*told, repr(requests), caplog.text, printed.out, printed.err):
        assert secret not in text
        nothing_secret(text)


def test_an_error_can_be_sent_home_without_secrets(script: ScriptedServer) -> None:
    """What an error is made of is all that travels from a worker."""
    script.answer(Reply(403, ECHO))
    with (
        open_store(f"s3://bucket?endpoint={script.endpoint}&region=us-east-1") as store,
        pytest.raises(WormError) as caught,
    ):
        store.get("key")
    nothing_secret(repr(caught.value.__reduce__()))
