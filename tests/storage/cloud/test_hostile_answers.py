"""Whatever an endpoint answers to whichever verb, it ends in a typed outcome that the answer really supports.

The answers are generated: real ones, those of a front door that is not the store, cut ones, liars. What a verb made of
each is judged by the answer alone: nothing is missing, empty, done or refused unless the answer says so.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from tests.http_script import ScriptedServer, scripted_server
from tests.storage.cloud.answers import OBJECT, HostileAnswer, hostile_answers
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
from wormdb.storage.cloud.store import CloudStore
from wormdb.storage.open import open_store
from wormdb.storage.readback import Landed, Lost, NothingThere, Unknown, put_classified
from wormdb.storage.store import (
    Always,
    ByteRange,
    IfAbsent,
    IfMatch,
    ObjectInfo,
    Precondition,
    Probe,
    PutResult,
    StoredObject,
)
from wormdb.storage.url import StoreUrl
from wormdb.system.clock import ManualClock
from wormdb.system.types import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.storage.store import Store

KEY = "key"
SPAN = ByteRange(0, 8)
MISSING = {"s3": ("NoSuchKey",), "gcs": ("NoSuchKey",), "azure": ("BlobNotFound",)}
NO_BUCKET = {"s3": "NoSuchBucket", "gcs": "NoSuchBucket", "azure": "ContainerNotFound"}
REFUSALS = ("AccessDenied", "NoSuchBucket", "ContainerNotFound", "PreconditionFailed", "SlowDown")
"""Codes of a store that are believed with any status of a refusal."""
NOT_WRITTEN = (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedStoreError,
)
PRECONDITIONS: tuple[Precondition, ...] = (Always(), IfAbsent(), IfMatch(Version("7")))

READERS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get(KEY),
    "probe": lambda store: store.probe(KEY),
    "get_range": lambda store: store.get_range(KEY, SPAN),
    "get_ranges": lambda store: store.get_ranges(KEY, [SPAN, ByteRange(1 << 20, 8)]),
    "head": lambda store: store.head(KEY),
    "list": lambda store: [(*page.objects, *page.prefixes) for page in store.list("f/")],
    "level": lambda store: [(*page.objects, *page.prefixes) for page in store.list("f/", delimiter="/")],
    "delete": lambda store: store.delete(KEY),
    "delete_many": lambda store: store.delete_many([KEY, "other"]),
}


@pytest.fixture(scope="module")
def script() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


@pytest.fixture(scope="module")
def s3(script: ScriptedServer) -> Iterator[Store]:
    url = StoreUrl("s3", "bucket", "pre", endpoint=script.endpoint, region="us-east-1")
    with CloudStore(url, {"access_key_id": "a", "secret_access_key": "b"}, clock=ManualClock()) as store:
        yield store


@pytest.fixture(scope="module")
def azure(script: ScriptedServer) -> Iterator[Store]:
    url = StoreUrl("az", "container", "pre", endpoint=script.endpoint, account="account")
    with CloudStore(url, {"account_key": base64.b64encode(b"key").decode()}, clock=ManualClock()) as store:
        yield store


@pytest.fixture(scope="module")
def gcs(script: ScriptedServer) -> Iterator[Store]:
    """Through the client library for every verb."""
    names = ("client_email", "private_key", "private_key_id")
    account = {"gcs_base_url": script.endpoint, "disable_oauth": True, **dict.fromkeys(names, "")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(account))
        with open_store(f"gs://bucket/pre?endpoint={script.endpoint}") as store:
            yield store


def outcome(call: Callable[[Store], object], store: Store) -> object:
    """What came of it; anything but a value or one of our errors fails the test."""
    try:
        return call(store)
    except WormError as error:
        return error


def judge_read(kind: str, verb: str, answer: HostileAnswer, found: object) -> bool:
    """Whether the answer supports what a reading verb made of it."""
    headers = answer.headers
    version = "ETag" in headers or "x-goog-generation" in headers
    match found:
        case NotFoundError(key=None):
            is_place = verb in ("list", "level") and answer.says(404, *MISSING[kind])  # what else can be missing there
            return is_place or (answer.code == NO_BUCKET[kind] and answer.status[0] in "34")
        case NotFoundError() | Probe(found=None):
            is_signed = kind == "s3" and answer.status == "404" and "x-amz-request-id" in headers
            return answer.says(404, *MISSING[kind]) or (verb == "head" and is_signed)
        case StoredObject(body=body) | Probe(found=StoredObject(body=body)):
            # The library does not show with which success an object came.
            is_served = answer.says(200) or (kind == "gcs" and answer.status[0] == "2")
            return is_served and answer.is_whole and body == answer.body and version
        case ObjectInfo(size=size):
            return answer.status == "200" and version and size >= 0
        case b"" | (b"", b""):
            return answer.says(416, "InvalidRange")
        case bytes() as body:
            return body == answer.body == OBJECT[:8] and answer.says(206) and answer.is_whole
        case None:  # deleted
            return answer.status[0] == "2" or answer.says(404, *MISSING[kind])
        case list():
            return answer.says(200) and answer.body.startswith(b"<ListBucketResult")
        case InvalidRequestError():
            return answer.status[0] in "34"
        case _:
            return isinstance(found, WormError) and not isinstance(
                found, (OutcomeUnknownError, AlreadyExistsError, ConflictError)
            )


def judge_put(kind: str, answer: HostileAnswer, precondition: Precondition, found: object) -> bool:
    """Whether the answer supports what a PUT made of it."""
    match found:
        case PutResult() if kind == "gcs":  # the library reads headers only, and no page has a generation
            return answer.status[0] == "2" and "x-goog-generation" in answer.headers
        case PutResult():
            return answer.says(201 if kind == "azure" else 200) and answer.is_whole and not answer.body
        case OutcomeUnknownError():
            return True
        case NotFoundError():
            return answer.code == NO_BUCKET[kind] or answer.says(404, *MISSING[kind])
        case AlreadyExistsError():
            return isinstance(precondition, IfAbsent)
        case ConflictError():
            return isinstance(precondition, IfMatch) and (
                answer.status != "404" or answer.code in (*MISSING[kind], *REFUSALS)
            )
        case _:
            is_bare = answer.status[0] in "34" and answer.status not in ("404", "408")
            is_named = answer.status[0] in "345" and answer.code in REFUSALS
            return isinstance(found, NOT_WRITTEN) and (is_bare or is_named or answer.status == "501")


@pytest.mark.parametrize("verb", READERS)
@pytest.mark.parametrize("kind", MISSING)
@given(answer=hostile_answers())
def test_a_read_is_what_its_answer_says(
    kind: str, verb: str, answer: HostileAnswer, script: ScriptedServer, request: pytest.FixtureRequest
) -> None:
    store: Store = request.getfixturevalue(kind)
    script.answer(answer.raw())
    found = outcome(READERS[verb], store)
    assert judge_read(kind, verb, answer, found), (answer, found)


@pytest.mark.parametrize("precondition", PRECONDITIONS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("kind", MISSING)
@given(answer=hostile_answers())
def test_a_write_is_what_its_answer_says(
    kind: str,
    precondition: Precondition,
    answer: HostileAnswer,
    script: ScriptedServer,
    request: pytest.FixtureRequest,
) -> None:
    store: Store = request.getfixturevalue(kind)
    script.answer(answer.raw())
    found = outcome(lambda store: store.put(KEY, b"ours", precondition), store)
    assert judge_put(kind, answer, precondition, found), (answer, found)
    # Never repeated. It is not read at all if it goes over a connection that the server is about to close.
    assert len(script.asked) <= 1


OURS = b"ours, write id 1"


@pytest.mark.parametrize("precondition", PRECONDITIONS[1:], ids=lambda value: type(value).__name__)
@given(answer=hostile_answers(), then=hostile_answers(OURS))
def test_a_write_that_is_read_back_is_what_both_answers_say(
    precondition: IfAbsent | IfMatch, answer: HostileAnswer, then: HostileAnswer, script: ScriptedServer, s3: Store
) -> None:
    """Nothing is told as lost, or as not written, of which the answers do not say so."""
    script.answer(answer.raw(), then.raw())
    found = outcome(lambda store: put_classified(store, KEY, OURS, precondition), s3)
    is_read = then.says(200) and then.is_whole and "ETag" in then.headers
    match found:
        case Landed():
            assert judge_put("s3", answer, precondition, PutResult(Version("v"), None)) or (
                is_read and then.body == OURS
            ), (answer, then)
        case Lost(found=None):
            assert then.says(404, *MISSING["s3"]), then
        case Lost(found=StoredObject(body=body)):
            assert is_read, then
            assert body == then.body != OURS
        case NothingThere():
            assert then.says(404, *MISSING["s3"]) or is_read, then
        case _:
            assert isinstance(found, Unknown | WormError)
            # What is raised says that nothing was tried: so the answer to the write must say that.
            assert isinstance(found, Unknown) or judge_put("s3", answer, precondition, found), (answer, found)
