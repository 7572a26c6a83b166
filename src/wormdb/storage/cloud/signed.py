"""Requests for single objects as plain HTTP, signed with the store's own credentials: here, or by obstore.

obstore hides the exact status, the headers and the store's time, which commits rest on, and takes what an answer says
of its length; so these requests go over `wire`, one request each, never repeated and never redirected. A signed
URL appears in no error, log or repr. That of a GET is used for a minute: the next slot of a log is asked for again and
again, and signing took a good part of it. Keys of S3 that are known here sign here (`UrlSigner`), so that they are
those of now, and obstore is not asked; so does the key of an account of Azure (`BlobSigner`), because obstore signs
names wrongly that a URL encodes. obstore signs where only it has the keys. Where S3 wants headers of encryption, which
have to be signed too, the request is signed in its headers instead (`sign_headers`).
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from datetime import timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from http.client import HTTPException
from typing import TYPE_CHECKING, Literal, assert_never

import obstore

from wormdb.errors import InvalidRequestError, OutcomeUnknownError, UnavailableError, UnsupportedStoreError
from wormdb.settings import ANSWER_BYTES_MAX, REQUEST_SECONDS, REQUEST_SECONDS_FACTOR
from wormdb.storage.cloud.answer import Answer, whole_number
from wormdb.storage.cloud.clients import caught
from wormdb.storage.cloud.encryption import AccessKey, Encryption, sign_headers
from wormdb.storage.cloud.unanswered import AbandonedCallError, give_up_in_time
from wormdb.storage.cloud.verdict import (
    ObstoreFault,
    Verdict,
    error_code,
    fault_on_read,
    judge,
    read_error,
    unreached,
    write_error,
)
from wormdb.storage.cloud.wire import Exchange, NoAnswer, NotSent, TooLong, Wire, extended
from wormdb.storage.store import (
    Always,
    IfAbsent,
    IfMatch,
    ObjectInfo,
    Precondition,
    Probe,
    PutResult,
    StoredObject,
    oversized,
)
from wormdb.system.clock import SystemClock
from wormdb.system.deadline import current
from wormdb.system.types import StoreTime, Version

if TYPE_CHECKING:
    from collections.abc import Callable

    from obstore.store import AzureStore, S3Store

    from wormdb.storage.cloud.azure import BlobSigner
    from wormdb.storage.cloud.credentials import KeySource, UrlSigner
    from wormdb.storage.store import ByteRange
    from wormdb.storage.url import StoreUrl
    from wormdb.system.clock import Clock

__all__ = ["SignedRequests", "store_time"]

_SYSTEM = SystemClock()
_Method = Literal["GET", "PUT", "HEAD", "DELETE"]

REUSE_MS = 60_000
"""How long a signed URL is used. Credentials that end are renewed minutes before, so none ends in that time."""
LOOK_MS = 1_000
"""How often it is looked whether the keys of signed URLs are still those of now."""
# As far as S3 lets a client's clock be wrong for other requests; so a machine that can read can also write.
EXPIRES_IN = timedelta(minutes=15, milliseconds=REUSE_MS)
SIGNED_MAX = 256
"""URLs that are kept. Those that are asked for again are few."""
_REFUSALS = (400, 401, 403)
"""Statuses of what stores say of a signature that they do not take."""
_KEY_CODES = ("ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "TokenRefreshRequired")
"""What S3 says of a key that it does not take, or not any more."""
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
_SERVER_CHARS_MAX = 60


class SignedRequests:
    """PUT, GET, HEAD and DELETE of single objects of one S3 bucket or Azure container."""

    def __init__(  # noqa: PLR0913 - what it signs with, by whom, and where to
        self,
        client: Callable[[], S3Store | AzureStore],
        url: StoreUrl,
        *,
        clock: Clock,
        keys: KeySource | None = None,
        signer: UrlSigner | None = None,
        blobs: BlobSigner | None = None,
        encryption: Encryption | None = None,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        """`client` gives what signs unless `signer` (S3) or `blobs` (Azure) does; it knows credentials and place.

        `keys` are those of S3 where they are known here too: needed for `signer`, `encryption` and `ask_bucket`.
        """
        assert keys is not None or (encryption is None and signer is None)
        self._client = client
        self._keys = keys
        self._signer = signer
        self._blobs = blobs
        self._known: AccessKey | None = None
        self._looked = 0
        self._encryption = encryption
        self._url = url
        self._clock = clock
        self._request_seconds = request_seconds
        self._wire: Wire | None = None
        self._gets: dict[str, tuple[int, Wire, bytes]] = {}
        """By key, when a GET was signed, where it goes and what is sent."""
        self._date: tuple[str, StoreTime | None] = ("", None)

    def put(self, key: str, body: bytes, precondition: Precondition, content_type: str) -> PutResult:
        """Write under the precondition. 1 PUT.

        Raises AlreadyExistsError, ConflictError, PermissionDeniedError, NotFoundError (the bucket),
        UnavailableError (nothing was done), OutcomeUnknownError (anything else), and what obstore
        raises when it cannot get credentials.
        """
        headers = self._headers(body, precondition, content_type)
        ended = self._exchange("PUT", key, headers, body)
        if isinstance(ended, NotSent):
            raise self._unreached(key, ended)
        if isinstance(ended, NoAnswer | TooLong):
            raise OutcomeUnknownError(
                f"object {key}", reason=f"no answer came from {self._url}: {ended.reason}", key=key
            )
        verdict, code = self._judge("PUT", ended)
        if verdict is not Verdict.OK:
            raise write_error(self._url, key, precondition, verdict, _detail(ended, verdict, code))
        version = ended.headers.get("etag")
        if not version or ended.body:
            # No store says more than that: this may be a page of something before it.
            lack = "says more than a store does" if version else "has no ETag"
            raise OutcomeUnknownError(f"object {key}", reason=f"the answer of {self._url} {lack}", key=key)
        return PutResult(Version(version), self._time(ended))

    def probe(self, key: str, bytes_max: int) -> Probe:
        """The object or None, and the store's time. 1 GET, and 1 more where a signature of the last minute is refused.

        Raises PermissionDeniedError, NotFoundError (the bucket), UnavailableError, CorruptionError if it has more than
        `bytes_max` bytes.
        """
        ended = self._get(key, {}, bytes_max)
        verdict, code = self._judge("GET", ended)
        if verdict is Verdict.MISSING:
            return Probe(None, self._time(ended))
        if verdict is not Verdict.OK:
            raise read_error(self._url, key, verdict, _detail(ended, verdict, code))
        time = self._time(ended)
        return Probe(StoredObject(key, ended.body, self._version(key, ended), time), time)

    def get_range(self, key: str, span: ByteRange) -> bytes:
        """The bytes of `span` that exist; there must be some in it. 1 GET.

        Raises NotFoundError, PermissionDeniedError, UnavailableError.
        """
        ended = self._get(key, {"Range": f"bytes={span.start}-{span.stop - 1}"}, span.length)
        if ended.status == 206 and _fits(ended, span):
            return ended.body
        if ended.status in (200, 206):
            detail = f"status {ended.status}, which is not the range that was asked for"
            raise read_error(self._url, key, Verdict.UNKNOWN, detail)
        verdict, code = self._judge("GET", ended)
        if verdict is Verdict.BEYOND:
            return b""
        raise read_error(self._url, key, verdict, _detail(ended, verdict, code))

    def head(self, key: str) -> ObjectInfo | None:
        """Size, time and version of an object; None where a 404 does not show that the store says it. 1 HEAD.

        Raises NotFoundError, PermissionDeniedError, UnavailableError, UnsupportedStoreError.
        """
        ended = self._exchange("HEAD", key, {}, None)
        if isinstance(ended, NotSent):
            raise self._unreached(key, ended)
        if isinstance(ended, NoAnswer | TooLong):
            raise self._unserved(key, ended)
        verdict, code = self._judge("HEAD", ended)
        if verdict is Verdict.STRANGER:
            # A HEAD has no body for a code. What passes for S3's own answer has S3's number on it.
            if self._url.scheme != "s3" or not ended.headers.get("x-amz-request-id"):
                return None
            verdict = Verdict.MISSING
        if verdict is not Verdict.OK:
            raise read_error(self._url, key, verdict, _detail(ended, verdict, code))
        modified = store_time(ended.headers.get("last-modified", ""))
        try:
            size = whole_number(ended.headers.get("content-length", ""))
        except HTTPException:
            size = -1
        if modified is None or size < 0:
            raise read_error(self._url, key, Verdict.UNKNOWN, "an answer without size or time")
        return ObjectInfo(key, size, modified, self._version(key, ended))

    def delete(self, key: str) -> None:
        """Remove the object; not an error if it is not there. 1 DELETE.

        Raises PermissionDeniedError, NotFoundError (the bucket), UnavailableError.
        """
        ended = self._exchange("DELETE", key, {}, None)
        if isinstance(ended, NotSent):
            raise self._unreached(key, ended)
        if isinstance(ended, NoAnswer | TooLong):
            raise self._unserved(key, ended)
        verdict, code = self._judge("DELETE", ended)
        if ended.status != 204 and verdict not in (Verdict.OK, Verdict.MISSING):
            raise read_error(self._url, key, verdict, _detail(ended, verdict, code))

    def ask_bucket(self, setting: str) -> bytes | None:
        """What the bucket answers to `?setting`, or None if it has or shows no such setting. 1 GET.

        Raises UnavailableError.
        """
        origin, path = self._place(self._sign("GET", "x"))
        below = f"{self._url.prefix}/x" if self._url.prefix else "x"
        bucket = "/".join(path.split("/")[: -1 - below.count("/")]) or "/"
        ended = self._send("GET", origin, f"{bucket}?{setting}=", {}, None)
        if isinstance(ended, NotSent | NoAnswer | TooLong):
            raise UnavailableError(f"setting {setting} of {self._url.place}", reason=ended.reason)
        return ended.body if ended.status == 200 else None

    def close(self) -> None:
        """Close the idle connections."""
        if self._wire is not None:
            self._wire.close()

    def _unreached(self, key: str, ended: NotSent) -> UnavailableError:
        return unreached(self._url, key, ended.reason)

    def _unserved(self, key: str, ended: NoAnswer | TooLong) -> UnavailableError:
        return UnavailableError(f"object {key}", reason=f"no answer from {self._url}: {ended.reason}", key=key)

    def _get(self, key: str, headers: dict[str, str], bytes_max: int) -> Answer:
        """An answer of at most `bytes_max` bytes."""
        ended = self._exchange("GET", key, headers, None, bytes_max)
        if isinstance(ended, NotSent):
            raise self._unreached(key, ended)
        if isinstance(ended, TooLong) and "Range" not in headers:
            raise oversized(key, ended.size, bytes_max)
        if isinstance(ended, NoAnswer | TooLong):
            raise self._unserved(key, ended)
        return ended

    def _version(self, key: str, answer: Answer) -> Version:
        version = answer.headers.get("etag")
        if not version:
            raise UnsupportedStoreError(f"object {key}", reason=f"the answer of {self._url} has no ETag", key=key)
        return Version(version)

    def _exchange(
        self,
        method: _Method,
        key: str,
        headers: dict[str, str],
        body: bytes | None,
        object_max: int = ANSWER_BYTES_MAX,
    ) -> Exchange:
        deadline = current()
        if deadline is not None and deadline.rest <= 0:
            raise deadline.passed(f"object {key}")
        ended = self._once(method, key, headers, body, object_max)
        # A key that the store does not know any more did nothing; with another one the request may be sent.
        is_refused = isinstance(ended, Answer) and ended.status in _REFUSALS and _names_key(ended)
        if is_refused and self._keys is not None and self._keys.renew():
            return self._once(method, key, headers, body, object_max)
        return ended

    def _once(
        self,
        method: _Method,
        key: str,
        headers: dict[str, str],
        body: bytes | None,
        object_max: int,
    ) -> Exchange:
        encryption = self._encryption
        more = {} if encryption is None else encryption.headers if method == "PUT" else encryption.read_headers
        if more:
            origin, path = self._place(self._sign(method, key))
            return self._send(method, origin, path, {**headers, **more}, body, object_max)
        if method != "GET":
            wire, target = self._address(method, key)
            return wire.exchange(method, wire.head(method, target, headers, body), body, object_max=object_max)
        return self._read(key, headers, object_max)

    def _read(self, key: str, headers: dict[str, str], object_max: int) -> Exchange:
        """What comes of a GET. If one that was signed before is refused, it is signed anew and asked again."""
        now_ms = self._clock.now_ms()
        if not 0 <= now_ms - self._looked < LOOK_MS:
            self._looked = now_ms
            if (keys := self._current()) is not self._known:
                self._known = keys
                self._gets.clear()
        held = self._gets.get(key)
        if held is not None and 0 <= now_ms - held[0] < REUSE_MS:
            head = extended(held[2], headers) if headers else held[2]
            ended = held[1].exchange("GET", head, object_max=object_max)
            if not isinstance(ended, Answer) or ended.status not in _REFUSALS:
                return ended
        self._gets.pop(key, None)
        wire, target = self._address("GET", key)
        head = wire.head("GET", target, {})
        ended = wire.exchange("GET", extended(head, headers) if headers else head, object_max=object_max)
        if isinstance(ended, Answer) and ended.status not in _REFUSALS:
            if len(self._gets) >= SIGNED_MAX:
                self._gets.clear()
            self._gets[key] = now_ms, wire, head
        return ended

    def _address(self, method: _Method, key: str) -> tuple[Wire, str]:
        """Where a request goes, and its path and query, signed."""
        signed = self._sign(method, key)
        origin, _ = self._place(signed)
        return self._reach(origin), signed[len(origin) :]

    def _sign(self, method: _Method, key: str) -> str:
        """A signed URL; raises what it means that obstore has no credentials.

        Where no keys are known here, it may ask a service of the machine for some, which may be silent.
        """
        seconds = int(EXPIRES_IN.total_seconds())
        # By the machine's clock, as obstore does it: the store compares it with its own.
        now_ms = _SYSTEM.now_ms()
        if self._blobs is not None:
            return self._blobs.signed(method, key, now_ms=now_ms, seconds=seconds)
        keys = self._current()
        if keys is not None and self._signer is not None:
            return self._signer.origin + self._signer.target(keys, method, key, now_ms=now_ms, seconds=seconds)
        client = self._client()
        # On Azure a signature has rights instead of a method, and obstore gives one for a HEAD none.
        signed_as: _Method = "GET" if method == "HEAD" and self._url.scheme == "az" else method

        def sign() -> str:
            return obstore.sign(client, signed_as, key, EXPIRES_IN)

        is_local = keys is not None or self._url.scheme != "s3"
        longest = REQUEST_SECONDS_FACTOR * self._request_seconds
        try:
            signed = caught(sign if is_local else partial(give_up_in_time, sign, longest=longest, what=f"object {key}"))
        except AbandonedCallError:
            raise UnavailableError(
                f"credentials for {self._url}", reason="no machine identity answered in time", key=key
            ) from None
        if isinstance(signed, ObstoreFault):
            raise fault_on_read(self._url, key, signed)
        return signed

    def _current(self) -> AccessKey | None:
        return None if self._keys is None else self._keys.current()

    def _send(
        self,
        method: str,
        origin: str,
        target: str,
        headers: dict[str, str],
        body: bytes | None,
        object_max: int = ANSWER_BYTES_MAX,
    ) -> Exchange:
        """Sign in the headers, and send."""
        keys = self._current()
        assert keys is not None
        host, now_ms = origin.partition("://")[2], self._clock.now_ms()
        signed = sign_headers(keys, method, host, target, headers, body or b"", now_ms=now_ms)
        wire = self._reach(origin)
        return wire.exchange(method, wire.head(method, target, signed, body), body, object_max=object_max)

    def _reach(self, origin: str) -> Wire:
        wire = self._wire
        if wire is None:
            wire = self._wire = Wire(origin, clock=self._clock, request_seconds=self._request_seconds)
        return wire

    @staticmethod
    def _place(signed: str) -> tuple[str, str]:
        """Origin and path of a signed URL."""
        start = signed.index("/", signed.index("://") + 3)
        return signed[:start], signed[start:].partition("?")[0]

    def _headers(self, body: bytes, precondition: Precondition, content_type: str) -> dict[str, str]:
        # Buckets with object lock insist on a digest, and without TLS it is the only guard of the bytes.
        digest = b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        headers = {"Content-Type": content_type, "Content-MD5": digest}
        if self._url.scheme == "az":
            headers["x-ms-blob-type"] = "BlockBlob"
        match precondition:
            case Always():
                pass
            case IfAbsent():
                headers["If-None-Match"] = "*"
            case IfMatch(version):
                headers["If-Match"] = version
            case _:
                assert_never(precondition)
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable()):
                raise InvalidRequestError(
                    f"header {name} of a write", reason="it holds a character that no header can", fix="use plain ASCII"
                )
        return headers

    def _judge(self, method: str, answer: Answer) -> tuple[Verdict, str]:
        """What the store decided, and its own code for it."""
        code = answer.headers.get("x-ms-error-code") or error_code(answer.body) if answer.status >= 300 else ""
        return judge(self._url.scheme, method, answer.status, code), code

    def _time(self, answer: Answer) -> StoreTime | None:
        text = answer.headers.get("date", "")
        last = self._date
        if last[0] != text:
            last = self._date = (text, store_time(text))
        return last[1]


def _names_key(answer: Answer) -> bool:
    return error_code(answer.body) in _KEY_CODES


def store_time(date: str) -> StoreTime | None:
    """An HTTP date in milliseconds, or None if it is none."""
    try:
        moment = parsedate_to_datetime(date)
        return None if moment.tzinfo is None else StoreTime(int(moment.timestamp() * 1000))
    except (ValueError, OverflowError):
        return None


def _detail(answer: Answer, verdict: Verdict, code: str) -> str:
    detail = f"status {answer.status}" + (f", {code}" if code else "")
    if verdict is not Verdict.STRANGER:
        return detail
    # Not what it says: a page that quotes the request would quote its signature.
    server = "".join(filter(str.isprintable, answer.headers.get("server", "")))[:_SERVER_CHARS_MAX]
    return detail + (f" of {server}" if server else " of a server without a name")


def _fits(answer: Answer, span: ByteRange) -> bool:
    """Whether a part of an object is the one asked for: all of it, or as much as there is up to the object's end."""
    found = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", ""))
    if found is None:
        return False
    first, last, size = (int(text) for text in found.groups())
    return first == span.start and last == min(span.stop, size) - 1 and len(answer.body) == last - first + 1
