"""The access key of S3 as it is now, and requests signed with it in their URL.

Keys that stand in the environment or in the files of a profile are looked at before they sign, and once a second, so
that a process goes on when they are rotated. Keys that a container or a web identity lends are fetched again before
they end (`identity`). Those of an instance are obstore's, which does the same.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from wormdb.errors import InvalidRequestError, UnavailableError
from wormdb.storage.cloud.clients import profile_files, profile_settings
from wormdb.storage.cloud.encryption import ALGORITHM, DEFAULT_REGION, AccessKey, keys_of, signature
from wormdb.storage.cloud.identity import RENEW_BEFORE_MS, key_service
from wormdb.system.deadline import TimedLock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.storage.cloud.identity import KeyService
    from wormdb.storage.url import StoreUrl
    from wormdb.system.clock import Clock

__all__ = ["KeySource", "UrlSigner"]

_FileMark = tuple[int, int, int] | None
"""When a file was changed, how long it is and which one it is; None if it is not there."""
_RENEW_PAUSE_MS: Final = 10_000
"""How often a service is asked at most, whatever it says and the store refuses."""
_UNUSUAL: Final = ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "AWS_S3_EXPRESS")
"""With any of these obstore sends requests to another place than a path of the endpoint."""
_EXPRESS: Final = "--x-s3"


class KeySource:
    """The key of S3, as the environment, a profile or a service of the machine has it now. Thread-safe."""

    def __init__(
        self, settings: Mapping[str, str], environment: Mapping[str, str], region: str | None, clock: Clock
    ) -> None:
        """`settings` are those of the profile, if it has the key; `environment` is looked at again and again.

        No requests. Raises InvalidRequestError for a service of the machine to which no token may be sent.
        """
        self._environment = environment
        self._clock = clock
        self._is_profile = bool(settings.get("access_key_id"))
        self._files = [str(path) for path in profile_files(environment)]
        self._marks = self._look()
        self._written: tuple[str | None, ...] = self._variables()
        self._key = keys_of(settings, environment, region)
        self._service = None if self._key is not None else key_service(environment, region)
        self.region = self._key.region if self._key is not None else region or DEFAULT_REGION
        """In which the key signs."""
        self._ends_ms: int | None = None
        self._renewed_ms = 0
        self._lock = TimedLock("the keys of a store")

    @property
    def has_keys(self) -> bool:
        """Whether keys are known here; if not, obstore has to find some."""
        return self._key is not None or self._service is not None

    def current(self) -> AccessKey | None:
        """The key as it is now, the same object while it does not change; None if obstore has to find one.

        What cannot be read, perhaps because it is being written, leaves the key as it was. No requests but to a service
        of the machine: 1 at first, and when a key is about to end. Raises UnavailableError if that has none.
        """
        if self._service is not None:
            return self._lent(self._service)
        if self._is_profile:
            marks = self._look()
            if marks != self._marks:
                self._marks = marks
                self._take(self._profile())
        elif self._key is not None:
            written = self._variables()
            if written != self._written:
                self._written = written
                self._take(keys_of({}, self._environment, self.region))
        return self._key

    def renew(self) -> bool:
        """Look for another key, because the store refused this one; whether there is one. Costs as `current`."""
        before, now_ms = self._key, self._clock.now_ms()
        if self._service is not None and now_ms - self._renewed_ms >= _RENEW_PAUSE_MS:
            self._renewed_ms, self._ends_ms = now_ms, 0
        try:
            return self.current() is not before
        except UnavailableError:
            return False

    def _lent(self, service: KeyService) -> AccessKey:
        if self._key is not None and not self._is_ending():
            return self._key
        with self._lock:
            if self._key is not None and not self._is_ending():
                return self._key  # another thread fetched it meanwhile
            try:
                found = service.fetch(self.region)
            except UnavailableError:
                # The key that is there may last for minutes: the store tells if it does not.
                if self._key is None:
                    raise
                self._ends_ms = self._clock.now_ms() + RENEW_BEFORE_MS + _RENEW_PAUSE_MS
                return self._key
            if found.key != self._key:
                self._key = found.key
            # One that ends sooner than it is renewed is good for a moment, not fetched for every request.
            soonest = self._clock.now_ms() + RENEW_BEFORE_MS + _RENEW_PAUSE_MS
            self._ends_ms = None if found.ends_ms is None else max(found.ends_ms, soonest)
            return self._key

    def _is_ending(self) -> bool:
        return self._ends_ms is not None and self._clock.now_ms() >= self._ends_ms - RENEW_BEFORE_MS

    def _take(self, found: AccessKey | None) -> None:
        if found is not None:
            self._key = replace(found, region=self.region)

    def _profile(self) -> AccessKey | None:
        try:
            return keys_of(profile_settings(self._environment), {}, self.region)
        except (InvalidRequestError, OSError):
            return None

    def _variables(self) -> tuple[str | None, ...]:
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN")
        return tuple(self._environment.get(name) for name in names)

    def _look(self) -> tuple[_FileMark, ...]:
        return tuple(map(_mark, self._files)) if self._is_profile else ()


def _mark(path: str) -> _FileMark:
    try:
        found = os.stat(path)  # noqa: PTH116 - for every write: a Path takes several times as long
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class UrlSigner:
    """Signs requests to one bucket in their URL (AWS signature version 4), as obstore would."""

    def __init__(self, url: StoreUrl, region: str) -> None:
        """`region` is that of the key, in which S3 listens if the URL names no endpoint."""
        endpoint = url.endpoint or f"https://s3.{url.region or region or DEFAULT_REGION}.amazonaws.com"
        self.origin = endpoint
        self._host = endpoint.partition("://")[2]
        self._base = f"/{url.bucket}/" + (f"{_quoted(url.prefix)}/" if url.prefix else "")

    @staticmethod
    def can_sign(url: StoreUrl, environment: Mapping[str, str]) -> bool:
        """Whether requests go to the bucket as a path of its endpoint: the one form that is made here."""
        is_usual = not any(environment.get(name) for name in _UNUSUAL)
        return url.scheme == "s3" and is_usual and not url.bucket.endswith(_EXPRESS)

    def target(self, keys: AccessKey, method: str, key: str, *, now_ms: int, seconds: int) -> str:
        """Path and query of a request that may be sent for `seconds`. No requests."""
        moment = datetime.fromtimestamp(now_ms / 1000, UTC)
        stamp, day = f"{moment:%Y%m%dT%H%M%SZ}", f"{moment:%Y%m%d}"
        scope = f"{day}/{keys.region}/s3/aws4_request"
        pairs = {
            "X-Amz-Algorithm": ALGORITHM,
            "X-Amz-Credential": f"{keys.access}/{scope}",
            "X-Amz-Date": stamp,
            "X-Amz-Expires": str(seconds),
            "X-Amz-SignedHeaders": "host",
        }
        if keys.token:
            pairs["X-Amz-Security-Token"] = keys.token
        query = "&".join(f"{name}={quote(pairs[name], safe='')}" for name in sorted(pairs))
        path = self._base + _quoted(key)
        lines = "\n".join([method, path, query, f"host:{self._host}", "", "host", "UNSIGNED-PAYLOAD"])
        text = "\n".join([ALGORITHM, stamp, scope, hashlib.sha256(lines.encode()).hexdigest()])
        return f"{path}?{query}&X-Amz-Signature={signature(keys, day, text)}"


def _quoted(key: str) -> str:
    return quote(key, safe="/")
