"""S3, GCS and Azure, through obstore and through requests that obstore signs.

Reading, listing and deleting go through obstore, with its own retries off. Writes and probes go
as signed plain HTTP requests where a signature is made locally: on S3, and on Azure with an
account key. Elsewhere (GCS, whose conditions a signed URL would have to sign, Azure without an
account key, buckets read without credentials, and S3 that is to encrypt where the keys are not in the
environment or a profile) they go through obstore too: then answers carry no time, and whatever is not a
clean success or a clean refusal is an unknown outcome.

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
from obstore import exceptions

from wormdb.deadline import current
from wormdb.errors import LimitExceededError
from wormdb.limits import (
    DELETE_MANY_KEYS,
    KEY_BYTES_MAX,
    LIST_PAGE_KEYS,
    REQUEST_SECONDS,
    REQUEST_SECONDS_FACTOR,
    UPLOAD_PART_BYTES,
    UPLOAD_PARTS_AT_ONCE,
)
from wormdb.storage.clients import can_sign, make_client
from wormdb.storage.encryption import encryption_of
from wormdb.storage.fault import OUT_OF_TIME, Fault, FaultKind, fault_on_read, fault_on_write, parse_fault
from wormdb.storage.header_signature import keys_of
from wormdb.storage.lifetime import CloudLifetime
from wormdb.storage.listing import exact_offset, in_byte_order, paged, paged_level, safe_offset, verified_order
from wormdb.storage.signed import SignedRequests
from wormdb.storage.store import (
    OCTETS,
    Always,
    ByteRange,
    IfAbsent,
    IfMatch,
    ListPage,
    ObjectInfo,
    Precondition,
    Probe,
    PutResult,
    Store,
    StoredObject,
    check_key,
    check_prefix,
    coalesce,
)
from wormdb.storage.unanswered import GivenUp, give_up_in_time
from wormdb.types import StoreTime, Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from obstore import ObjectMeta, PutMode

    from wormdb.clock import Clock
    from wormdb.storage.store import Source
    from wormdb.storage.url import StoreUrl

__all__ = ["CloudStore"]

T = TypeVar("T")

# Known to list in the order of key bytes; at any other endpoint the order is made here.
_ORDERED_HOSTS = (".amazonaws.com", ".amazonaws.com.cn", ".r2.cloudflarestorage.com", "storage.googleapis.com")


class CloudStore(Store):
    """One bucket or container, below the URL's prefix. Makes no request when it is opened."""

    def __init__(
        self, url: StoreUrl, settings: Mapping[str, str], *, clock: Clock, request_seconds: float = REQUEST_SECONDS
    ) -> None:
        """`settings` are obstore's, beyond what the URL says and what it reads from the environment.

        Raises InvalidRequestError when obstore cannot use them.
        """
        self._url = url
        self._name = str(url)
        self._prefix_bytes = len(url.prefix.encode()) + 1 if url.prefix else 0
        self._lifetime = CloudLifetime(self._name)
        encryption = encryption_of(url, os.environ)
        keys = keys_of(settings, os.environ, url.region) if url.scheme == "s3" else None
        self._request_seconds = request_seconds
        more = {} if encryption is None else encryption.settings
        self._client = make_client(url, {**settings, **more}, request_seconds)
        self._signed: SignedRequests | None = None
        if can_sign(self._client, os.environ) and (encryption is None or keys is not None):
            self._signed = SignedRequests(
                self._client, url, clock=clock, keys=keys, encryption=encryption, request_seconds=request_seconds
            )
        self._shows_settings = self._signed is not None and keys is not None
        self._ordered = url.endpoint is None or url.endpoint.partition(":")[2].endswith(_ORDERED_HOSTS)

    def __repr__(self) -> str:
        return f"CloudStore({self._name!r})"

    @property
    def name(self) -> str:
        """The store's URL, with the endpoint and region in use."""
        return self._name

    def get(self, key: str) -> StoredObject:
        """The whole object, without the store's time. 1 GET."""
        self._begin(key)

        def get() -> StoredObject:
            result = obstore.get(self._client, key)
            return StoredObject(key, bytes(result.bytes()), self._version(result.meta))

        return self._read(key, get)

    def get_range(self, key: str, span: ByteRange) -> bytes:
        """The bytes of `span` that exist. 1 GET, or 1 HEAD if it is of no length."""
        self._begin(key)
        if span.length == 0:
            self.head(key)
            return b""
        result = self._attempt(lambda: bytes(obstore.get_range(self._client, key, start=span.start, end=span.stop)))
        if not isinstance(result, Fault):
            return result
        if result.beyond_end:
            return b""
        raise fault_on_read(self._url, key, result)

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """Several ranges, in the order asked. 1 GET for each span of `coalesce(spans)`, side by side.

        If one of them begins beyond the object's end they are read again, one after the other.
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
            return self._direct(key, lambda: signed.probe(key))
        result = self._attempt(lambda: obstore.get(self._client, key))
        if isinstance(result, Fault):
            if result.object_missing:
                return Probe(None, None)
            raise fault_on_read(self._url, key, result)
        found = self._read(key, lambda: StoredObject(key, bytes(result.bytes()), self._version(result.meta)))
        return Probe(found, None)

    def head(self, key: str) -> ObjectInfo:
        """Size, time and version of an object. 1 HEAD."""
        self._begin(key)
        meta = self._read(key, lambda: obstore.head(self._client, key))
        return ObjectInfo(key, meta["size"], _milliseconds(meta["last_modified"]), self._version(meta))

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        """Objects under a folder, in order of key bytes. 1 LIST for each 1,000 names.

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
            result = self._read(None, lambda: obstore.list_with_delimiter(self._client, prefix or None))
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
        OutcomeUnknownError, PermissionDeniedError, NotFoundError (the bucket).
        """
        self._begin(key)
        condition = precondition or Always()
        signed = self._signed
        if signed is not None:
            # Faults of obstore here are about credentials: nothing was sent.
            return self._direct(key, lambda: signed.put(key, body, condition, content_type))
        result = self._attempt(
            lambda: obstore.put(
                self._client,
                key,
                body,
                attributes={"Content-Type": content_type},
                mode=self._mode(condition),
                use_multipart=False,
            )
        )
        if isinstance(result, Fault):
            raise fault_on_write(self._url, key, condition, result)
        return PutResult(Version(str(result["version"] if self._url.scheme == "gs" else result["e_tag"])), None)

    def upload(self, key: str, source: Source, *, content_type: str = OCTETS) -> None:
        """Write a part at a time, a few side by side. 1 PUT for each part and 2 more; 1 for a single part.

        Raises as `put` with `Always` does.
        """
        self._begin(key)
        result = self._attempt(
            lambda: obstore.put(
                self._client,
                key,
                _in_motion(source),
                attributes={"Content-Type": content_type},
                use_multipart=source.size > UPLOAD_PART_BYTES,
                chunk_size=UPLOAD_PART_BYTES,
                max_concurrency=UPLOAD_PARTS_AT_ONCE,
            )
        )
        if isinstance(result, Fault):
            raise fault_on_write(self._url, key, Always(), result)

    def delete(self, key: str) -> None:
        """Remove the object; it is no error if it is not there. 1 DELETE."""
        self._begin(key)
        result = self._attempt(lambda: obstore.delete(self._client, key))
        if isinstance(result, Fault) and not result.object_missing:
            raise fault_on_read(self._url, key, result)

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove many objects. S3: 1 request for each 1,000; Azure: for each 256; GCS: one each.

        On GCS and Azure a key that is missing makes the rest of its 1,000 go one by one.
        """
        self._lifetime.check()
        for key in keys:
            self._check(key)
        for start in range(0, len(keys), DELETE_MANY_KEYS):
            part = [*dict.fromkeys(keys[start : start + DELETE_MANY_KEYS])]
            result = self._attempt(partial(obstore.delete, self._client, part))
            if not isinstance(result, Fault):
                continue
            if not result.object_missing:
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

    def _attempt(self, call: Callable[[], T]) -> T | Fault:
        """What `call` of obstore returns, or its error as a value: so that its text is in no chain of errors.

        Nothing can interrupt such a call, so it is left alone when the time of the caller is over.
        """
        longest = REQUEST_SECONDS_FACTOR * self._request_seconds
        try:
            return self._caught(lambda: give_up_in_time(call, longest=longest, what=f"request to {self._url}"))
        except GivenUp:
            return OUT_OF_TIME

    @staticmethod
    def _caught(call: Callable[[], T]) -> T | Fault:
        try:
            return call()
        except FileNotFoundError as error:
            kind, text = FaultKind.MISSING, str(error)
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            kind, text = FaultKind.DENIED, str(error)
        except exceptions.AlreadyExistsError as error:
            kind, text = FaultKind.EXISTS, str(error)
        except exceptions.PreconditionError as error:
            kind, text = FaultKind.PRECONDITION, str(error)
        except exceptions.InvalidPathError as error:
            kind, text = FaultKind.BAD_PATH, str(error)
        except exceptions.BaseError as error:
            kind, text = FaultKind.OTHER, str(error)
        return parse_fault(kind, text)

    def _direct(self, key: str, call: Callable[[], T]) -> T:
        """What a signed request returns, which ends in time by itself; of obstore it needs only the signature."""
        result = self._caught(call)
        if isinstance(result, Fault):
            raise fault_on_read(self._url, key, result)
        return result

    def _read(self, key: str | None, call: Callable[[], T]) -> T:
        result = self._attempt(call)
        if isinstance(result, Fault):
            raise fault_on_read(self._url, key, result)
        return result

    def _fetch(self, key: str, joined: Sequence[ByteRange]) -> tuple[bytes, ...]:
        if len(joined) > 1:
            starts, ends = [span.start for span in joined], [span.stop for span in joined]
            # Exactly one request a range: what is near enough was joined before.
            result = self._attempt(lambda: obstore.get_ranges(self._client, key, starts=starts, ends=ends, coalesce=0))
            if not isinstance(result, Fault):
                return tuple(bytes(part) for part in result)
            if not result.beyond_end:
                raise fault_on_read(self._url, key, result)
        return tuple(self.get_range(key, span) for span in joined)

    def _walk(self, prefix: str, offset: str | None) -> Iterator[ObjectInfo]:
        stream = obstore.list(self._client, prefix or None, offset=offset, chunk_size=LIST_PAGE_KEYS)
        while True:
            self._lifetime.check()
            chunk = self._read(None, lambda: next(stream, None))
            if chunk is None:
                return
            # The placeholder of the folder itself comes as an object beside it.
            yield from (self._info(meta) for meta in chunk if meta["path"].startswith(prefix))

    def _info(self, meta: ObjectMeta) -> ObjectInfo:
        version = meta["version"] if self._url.scheme == "gs" else meta["e_tag"]
        return ObjectInfo(
            meta["path"], meta["size"], _milliseconds(meta["last_modified"]), Version(version) if version else None
        )

    def _version(self, meta: ObjectMeta) -> Version:
        # GCS compares generations, the others entity tags.
        return Version(str(meta["version"] if self._url.scheme == "gs" else meta["e_tag"]))

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


def _in_motion(source: Source) -> Iterator[bytes]:
    """The parts of an object; that another is wanted shows that the store takes them."""
    deadline = current()
    for part in source.parts():
        if deadline is not None:
            deadline.answered()
        yield part


def _milliseconds(moment: datetime) -> StoreTime:
    return StoreTime(int(moment.timestamp() * 1000))
