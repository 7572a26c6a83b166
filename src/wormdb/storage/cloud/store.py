"""S3, GCS and Azure, through obstore and through requests that obstore signs.

Listing, deleting and several ranges at once go through obstore, with its own retries off. Single objects are
written and read by signed plain HTTP requests where a signature is made locally: on S3, and on Azure with an
account key. Elsewhere (GCS, whose conditions a signed URL would have to sign, Azure without an
account key, buckets read without credentials, and S3 that is to encrypt where the keys are not in the
environment or a profile) they go through obstore too: then answers carry no time, and whatever is not a
clean success or a clean refusal is an unknown outcome.

Nothing is missing or empty because something before the store says so. A 404 counts with the store's own error code.
A HEAD has no body for one: there S3's request id counts, and without it a GET of one byte is asked what it means. And
obstore reads any page as a listing of nothing, so an empty listing counts when a GET then finds a store that says of
an object that it is not there.

Keys are exact: what other tools see in the bucket is the prefix and our key, character by
character. A listing cannot pass objects of other tools whose keys have empty, `.` or `..` segments
or control characters: it raises InvalidRequestError naming the key. A placeholder `folder/` is
listed as an empty object `folder`. SeaweedFS shows an emptied folder among the folders of its
level for some minutes.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar, assert_never

import obstore
from obstore.store import GCSStore

from wormdb.errors import (
    LimitExceededError,
    OutcomeUnknownError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedStoreError,
)
from wormdb.settings import (
    DELETE_MANY_KEYS,
    KEY_BYTES_MAX,
    LIST_PAGE_KEYS,
    MIB,
    REQUEST_SECONDS,
    REQUEST_SECONDS_FACTOR,
    UPLOAD_PART_BYTES,
    UPLOAD_PARTS_AT_ONCE,
)
from wormdb.storage.cloud.azure import BlobSigner, account_key
from wormdb.storage.cloud.clients import Client, can_sign, caught, make_client
from wormdb.storage.cloud.credentials import KeySource, UrlSigner
from wormdb.storage.cloud.encryption import TRUE, encryption_of
from wormdb.storage.cloud.listing import exact_offset, in_byte_order, paged, paged_level, safe_offset, verified_order
from wormdb.storage.cloud.signed import SignedRequests
from wormdb.storage.cloud.unanswered import AbandonedCallError, give_up_in_time
from wormdb.storage.cloud.verdict import (
    OUT_OF_TIME,
    ObstoreFault,
    Verdict,
    fault_on_read,
    fault_on_write,
    read_error,
    verdict_of,
)
from wormdb.storage.store import (
    OCTETS,
    Always,
    Bound,
    ByteRange,
    CloudLifetime,
    IfAbsent,
    IfMatch,
    ListPage,
    ObjectInfo,
    Precondition,
    Probe,
    PutResult,
    Store,
    StoredObject,
    any_object,
    check_key,
    check_prefix,
    check_write,
    coalesce,
    oversized,
)
from wormdb.system.deadline import current
from wormdb.system.types import StoreTime, Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from obstore import ObjectMeta, PutMode
    from obstore.store import AzureStore, S3Store

    from wormdb.errors import WormError
    from wormdb.storage.cloud.encryption import AccessKey
    from wormdb.storage.store import UploadSource
    from wormdb.storage.url import StoreUrl
    from wormdb.system.clock import Clock

__all__ = ["CloudStore"]

T = TypeVar("T")

# Known to list in the order of key bytes; at any other endpoint the order is made here.
_ORDERED_HOSTS = (".amazonaws.com", ".amazonaws.com.cn", ".r2.cloudflarestorage.com", "storage.googleapis.com")


_NEVER_THERE = ".worm.nothing"
PUT_BYTES_ALONE = 256 * MIB
"""Up to which an object is uploaded by one request where the client library cannot be used."""


class CloudStore(Store):
    """One bucket or container, below the URL's prefix. Makes no request when it is opened."""

    def __init__(
        self,
        url: StoreUrl,
        settings: Mapping[str, str],
        *,
        clock: Clock,
        request_seconds: float = REQUEST_SECONDS,
        bound: Bound = any_object,
    ) -> None:
        """`settings` are obstore's, beyond what the URL says and what it reads from the environment.

        `bound` says how many bytes an object has at most.
        Raises InvalidRequestError when obstore cannot use them.
        """
        self._url = url
        self._name = str(url)
        self._bound = bound
        self._prefix_bytes = len(url.prefix.encode()) + 1 if url.prefix else 0
        self._lifetime = CloudLifetime(self._name)
        encryption = encryption_of(url, os.environ)
        is_signed = url.scheme == "s3" and os.environ.get("AWS_SKIP_SIGNATURE", "").lower() not in TRUE
        source = KeySource(settings, os.environ, url.region, clock) if is_signed else None
        self._keys = source if source is not None and source.has_keys else None
        self._request_seconds = request_seconds
        azure_key = account_key(settings, os.environ) if url.scheme == "az" else ""
        # Said, so that obstore does not take another where the environment has several.
        known = {"account_key": azure_key} if azure_key else {}
        self._settings = {**settings, **known, **({} if encryption is None else encryption.settings)}
        self._made = make_client(url, self._settings, request_seconds)
        self._made_with: AccessKey | None = None
        self._signed: SignedRequests | None = None
        if can_sign(self._made, os.environ) and (encryption is None or self._keys is not None):
            self._signed = SignedRequests(
                self._signing_client,
                url,
                clock=clock,
                keys=self._keys,
                signer=self._signer(),
                blobs=BlobSigner(url, azure_key) if azure_key and BlobSigner.can_sign(url, os.environ) else None,
                encryption=encryption,
                request_seconds=request_seconds,
            )
        self._shows_settings = self._signed is not None and self._keys is not None
        self._ordered = url.endpoint is None or url.endpoint.partition(":")[2].endswith(_ORDERED_HOSTS)

    def __repr__(self) -> str:
        return f"CloudStore({self._name!r})"

    @property
    def name(self) -> str:
        """The store's URL, with the endpoint and region in use."""
        return self._name

    def get(self, key: str) -> StoredObject:
        """The whole object. 1 GET; raises CorruptionError if it is longer than its bound."""
        found = self.probe(key).found
        if found is None:
            raise read_error(self._url, key, Verdict.MISSING, "")
        return found

    def get_range(self, key: str, span: ByteRange) -> bytes:
        """The bytes of `span` that exist. 1 GET, or 1 HEAD if it is of no length."""
        self._begin(key)
        if span.length == 0:
            self.head(key)
            return b""
        signed = self._signed
        if signed is not None:
            return signed.get_range(key, span)
        client = self._client
        result = self._attempt(lambda: _ranged(client, key, span))
        if isinstance(result, bytes):
            return result
        if isinstance(result, ObstoreFault) and verdict_of(self._url, "GET", result) is Verdict.BEYOND:
            return b""
        if isinstance(result, ObstoreFault):
            raise fault_on_read(self._url, key, result)
        raise self._unfit(key)

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """Several ranges, in the order asked. 1 GET for each span of `coalesce(spans)`, side by side.

        One that came short is read again by itself: only then it is seen whether the object ends there. If one of them
        begins beyond the end, all are.
        """
        self._begin(key)
        joined = coalesce(spans)
        parts = self._fetch(key, joined)
        pieces = []
        for span in spans:
            if span.length == 0:
                pieces.append(b"")
                continue
            at = max(index for index, part in enumerate(joined) if part.start <= span.start)
            begin = span.start - joined[at].start
            pieces.append(parts[at][begin : begin + span.length])
        return tuple(pieces)

    def probe(self, key: str) -> Probe:
        """The object or None, with the store's time where answers show it. 1 GET."""
        self._begin(key)
        signed = self._signed
        if signed is not None:
            return signed.probe(key, self._bound(key))
        client = self._client
        result = self._attempt(lambda: obstore.get(client, key))
        if isinstance(result, ObstoreFault):
            if verdict_of(self._url, "GET", result) is Verdict.MISSING:
                return Probe(None, None)
            raise fault_on_read(self._url, key, result)
        size = result.meta["size"]
        if size > self._bound(key):
            raise oversized(key, size, self._bound(key))
        body = self._read(key, lambda: bytes(result.bytes()))
        if len(body) != size:
            raise self._unfit(key)
        return Probe(StoredObject(key, body, self._version(key, result.meta)), None)

    def head(self, key: str) -> ObjectInfo:
        """Size, time and version of an object. 1 HEAD, and 1 GET if a 404 does not show that the store says it."""
        self._begin(key)
        signed = self._signed
        if signed is not None:
            found = signed.head(key)
            if found is not None:
                return found
        else:
            client = self._client
            meta = self._attempt(lambda: obstore.head(client, key))
            if not isinstance(meta, ObstoreFault):
                self._version(key, meta)
                return self._info(meta)
            if verdict_of(self._url, "HEAD", meta) is not Verdict.STRANGER:
                raise fault_on_read(self._url, key, meta)
        self.get_range(key, ByteRange(0, 1))
        raise UnavailableError(f"object {key}", reason=f"{self._url} has it for a GET, and not for a HEAD", key=key)

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        """Objects under a folder, in order of key bytes. 1 LIST for each 1,000 names, and 1 GET if there are none.

        One level (`delimiter`) is read whole before its first page. On Azure, and for one level,
        `after` skips what was read; at an endpoint of unknown order, see `listing`.
        """
        check_prefix(prefix)
        self._lifetime.check()
        floor = after or ""
        if floor > prefix and not floor.startswith(prefix):
            yield ListPage(())  # beyond every key of this folder
            return
        if delimiter is not None:
            client = self._client
            result = self._read(None, lambda: obstore.list_with_delimiter(client, prefix or None))
            if not result["objects"] and not result["common_prefixes"]:
                self._confirm_empty(prefix)
            objects = [self._info(meta) for meta in result["objects"] if meta["path"].startswith(prefix)]
            yield from paged_level(objects, [f"{folder}/" for folder in result["common_prefixes"]], floor)
            return
        if self._ordered:
            found = self._walk(prefix, exact_offset(prefix, floor))
        else:
            found = in_byte_order(prefix, self._walk(prefix, safe_offset(prefix, floor)))
        yield from paged(info for info in verified_order(self._name, found) if info.key > floor)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        """Write a whole object under the precondition. 1 PUT, never repeated.

        Raises AlreadyExistsError, ConflictError, UnavailableError (nothing was done),
        OutcomeUnknownError, PermissionDeniedError, NotFoundError (the bucket), LimitExceededError.
        """
        self._begin(key)
        check_write(key, len(body), self._bound(key))
        condition = precondition or Always()
        signed = self._signed
        if signed is not None:
            return signed.put(key, body, condition, content_type)
        client = self._client
        result = self._attempt(
            lambda: obstore.put(
                client,
                key,
                body,
                attributes={"Content-Type": content_type},
                mode=self._mode(condition),
                use_multipart=False,
            )
        )
        if isinstance(result, ObstoreFault):
            raise fault_on_write(self._url, key, condition, result)
        version = result["version"] if self._url.scheme == "gs" else result["e_tag"]
        if not version:
            raise OutcomeUnknownError(f"object {key}", reason=f"the answer of {self._url} has no version", key=key)
        return PutResult(Version(version), None)

    def upload(self, key: str, source: UploadSource, *, content_type: str = OCTETS) -> None:
        """Write a part at a time, a few side by side. 1 PUT for each part and 2 more; 1 for a single part.

        Raises as `put` with `Always` does.
        """
        self._begin(key)
        if self._signed is not None and not self._lifetime.has_library and source.size <= PUT_BYTES_ALONE:
            self._signed.put(key, b"".join(source.parts()), Always(), content_type)
            return
        client = self._client
        result = self._attempt(
            lambda: obstore.put(
                client,
                key,
                _in_motion(source),
                attributes={"Content-Type": content_type},
                use_multipart=source.size > UPLOAD_PART_BYTES,
                chunk_size=UPLOAD_PART_BYTES,
                max_concurrency=UPLOAD_PARTS_AT_ONCE,
            )
        )
        if isinstance(result, ObstoreFault):
            raise fault_on_write(self._url, key, Always(), result)

    def delete(self, key: str) -> None:
        """Remove the object; not an error if it is not there. 1 DELETE."""
        self._begin(key)
        if self._signed is not None and not self._lifetime.has_library:
            self._signed.delete(key)
            return
        client = self._client
        result = self._attempt(lambda: obstore.delete(client, key))
        if isinstance(result, ObstoreFault) and verdict_of(self._url, "DELETE", result) is not Verdict.MISSING:
            raise fault_on_read(self._url, key, result)

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove many objects. S3: 1 request for each 1,000; Azure: for each 256; GCS: one each.

        On GCS and Azure a key that is missing makes the rest of its 1,000 go one by one.
        """
        self._lifetime.check()
        for key in keys:
            self._check(key)
        if self._signed is not None and not self._lifetime.has_library:  # in a child of a process that used it
            for key in keys:
                self._signed.delete(key)
            return
        for start in range(0, len(keys), DELETE_MANY_KEYS):
            part = [*dict.fromkeys(keys[start : start + DELETE_MANY_KEYS])]
            result = self._attempt(partial(obstore.delete, self._client, part))
            if not isinstance(result, ObstoreFault):
                continue
            if verdict_of(self._url, "DELETE", result) is not Verdict.MISSING:
                raise fault_on_read(self._url, part[0], result)
            for key in part:
                self.delete(key)

    def bucket_setting(self, name: Literal["lifecycle", "versioning"]) -> bytes | None:
        """The XML of a setting of the whole bucket; None if it has none or does not show it to us. At most 1 GET.

        Only S3 with keys in the environment or a profile is asked. Raises UnavailableError.
        """
        self._lifetime.check()
        if not self._shows_settings or self._signed is None:
            return None
        return self._signed.ask_bucket(name)

    def close(self) -> None:
        """Close the connections of signed requests; obstore closes its own when it is collected."""
        if self._lifetime.close() and self._signed is not None:
            self._signed.close()

    @property
    def _client(self) -> Client:
        """The client of obstore, with the key as it is now. Raises ClosedError if it cannot be used in this process."""
        self._lifetime.check_library()
        key = None if self._keys is None else self._keys.current()
        if key is not None and key is not self._made_with:
            given = {"access_key_id": key.access, "secret_access_key": key.secret, "session_token": key.token}
            settings = {name: value for name, value in self._settings.items() if name not in given}
            made = make_client(
                self._url, settings | {name: value for name, value in given.items() if value}, self._request_seconds
            )
            self._made, self._made_with = made, key
        return self._made

    def _signer(self) -> UrlSigner | None:
        is_known = self._keys is not None and UrlSigner.can_sign(self._url, os.environ)
        return UrlSigner(self._url, self._keys.region) if is_known and self._keys is not None else None

    def _signing_client(self) -> S3Store | AzureStore:
        client = self._client
        assert not isinstance(client, GCSStore)
        return client

    def _begin(self, key: str) -> None:
        self._lifetime.check()
        self._check(key)

    def _check(self, key: str) -> None:
        check_key(key)
        size = self._prefix_bytes + len(key.encode())
        if size > KEY_BYTES_MAX:
            raise LimitExceededError(
                f"object key {key[:60]!r}…",
                reason=f"with the prefix of {self._name} it has {size} bytes, over the limit of {KEY_BYTES_MAX}",
                fix="use a shorter key, or a shorter prefix in the store URL",
            )

    def _attempt(self, call: Callable[[], T]) -> T | ObstoreFault:
        """What `call` of obstore returns, or its error as a value.

        Nothing can interrupt such a call, so it is left alone when the time of the caller is over.
        """
        longest = REQUEST_SECONDS_FACTOR * self._request_seconds
        try:
            return caught(lambda: give_up_in_time(call, longest=longest, what=f"request to {self._url}"))
        except AbandonedCallError:
            return OUT_OF_TIME

    def _read(self, key: str | None, call: Callable[[], T]) -> T:
        result = self._attempt(call)
        if isinstance(result, ObstoreFault):
            raise fault_on_read(self._url, key, result)
        return result

    def _fetch(self, key: str, joined: Sequence[ByteRange]) -> tuple[bytes, ...]:
        if len(joined) > 1 and (self._signed is None or self._lifetime.has_library):
            starts, ends = [span.start for span in joined], [span.stop for span in joined]
            # Exactly one request a range: what is near enough was joined before.
            client = self._client
            result = self._attempt(lambda: obstore.get_ranges(client, key, starts=starts, ends=ends, coalesce=0))
            if not isinstance(result, ObstoreFault):
                parts = zip(joined, map(bytes, result), strict=True)
                return tuple(part if len(part) == span.length else self.get_range(key, span) for span, part in parts)
            if verdict_of(self._url, "GET", result) is not Verdict.BEYOND:
                raise fault_on_read(self._url, key, result)
        return tuple(self.get_range(key, span) for span in joined)

    def _walk(self, prefix: str, offset: str | None) -> Iterator[ObjectInfo]:
        stream = obstore.list(self._client, prefix or None, offset=offset, chunk_size=LIST_PAGE_KEYS)
        is_empty = True
        while True:
            self._lifetime.check()
            chunk = self._read(None, lambda: next(stream, None))
            if chunk is None:
                break
            is_empty = is_empty and not chunk
            # The placeholder of the folder itself comes as an object beside it.
            yield from (self._info(meta) for meta in chunk if meta["path"].startswith(prefix))
        if is_empty:
            self._confirm_empty(prefix)

    def _confirm_empty(self, prefix: str) -> None:
        """Ask for an object that is not there, of which only a store knows how to say so; raises UnavailableError."""
        key = f"{prefix}{_NEVER_THERE}"
        try:
            found = self.probe(key).found
        except (PermissionDeniedError, LimitExceededError):
            return  # it may list, and not read here; or the folder's name is too long for any object in it
        if found is not None:
            raise UnavailableError(
                f"listing of {prefix or 'the root'}",
                reason=f"{self._url} answers every key with an object: it cannot be a store",
                fix="look at what is between here and the store (ingress, load balancer, proxy, endpoint), then retry",
                key=key,
            )

    def _unfit(self, key: str) -> WormError:
        return read_error(self._url, key, Verdict.UNKNOWN, "a body that is not what its headers say")

    def _info(self, meta: ObjectMeta) -> ObjectInfo:
        version = meta["version"] if self._url.scheme == "gs" else meta["e_tag"]
        if version and self._url.scheme == "az" and not version.startswith('"'):
            version = f'"{version}"'  # in a listing Azure leaves out the quotes that all its other answers have
        return ObjectInfo(
            meta["path"], meta["size"], _milliseconds(meta["last_modified"]), Version(version) if version else None
        )

    def _version(self, key: str, meta: ObjectMeta) -> Version:
        # GCS compares generations, the others entity tags.
        version = meta["version"] if self._url.scheme == "gs" else meta["e_tag"]
        if not version:
            raise UnsupportedStoreError(f"object {key}", reason=f"the answer of {self._url} has no version", key=key)
        return Version(version)

    def _mode(self, precondition: Precondition) -> PutMode:
        match precondition:
            case Always():
                return "overwrite"
            case IfAbsent():
                return "create"
            case IfMatch(version):
                return {"version": version} if self._url.scheme == "gs" else {"e_tag": version}
            case _:
                assert_never(precondition)


def _in_motion(source: UploadSource) -> Iterator[bytes]:
    """The parts of an object; that another is wanted shows that the store takes them."""
    deadline = current()
    for part in source.parts():
        if deadline is not None:
            deadline.answered()
        yield part


def _ranged(client: Client, key: str, span: ByteRange) -> bytes | None:
    """The bytes of `span` that exist, as one answer says that it has them; None if the answer has others. 1 GET."""
    result = obstore.get(client, key, options={"range": (span.start, span.stop)})
    begin, end = result.range
    if begin != span.start or end != min(span.stop, result.meta["size"]):
        return None
    body = bytes(result.bytes())
    return body if len(body) == end - begin else None


def _milliseconds(moment: datetime) -> StoreTime:
    return StoreTime(int(moment.timestamp() * 1000))
