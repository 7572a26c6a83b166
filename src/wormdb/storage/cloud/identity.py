"""Keys that end, of a machine's identity: a container (ECS, EKS Pod Identity) or the token of a web identity (EKS, CI).

They are fetched when they are first needed and again RENEW_BEFORE_MS before they end. The file of a token is read each
time, because the machine replaces it. A service that does not answer costs nothing while the keys last.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlencode, urlsplit

from wormdb.errors import InvalidRequestError, UnavailableError
from wormdb.storage.cloud.encryption import AccessKey
from wormdb.storage.cloud.unanswered import AbandonedCallError, give_up_in_time

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RENEW_BEFORE_MS", "KeyService", "LentKey", "key_service"]

RENEW_BEFORE_MS: Final = 5 * 60_000
"""How long before their end keys are fetched again."""
_SECONDS_MAX: Final = 10.0
"""For one answer of a service."""
_ANSWER_MAX: Final = 64 * 1024
_CONTAINER: Final = "http://169.254.170.2"
_NEAR: Final = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1|169\.254\.170\.(2|23)|fd00:ec2::23")
"""Hosts of this machine, to which a token may go without encryption."""


@dataclass(frozen=True, slots=True)
class LentKey:
    """A key, and when it ends in milliseconds since 1970; None if it does not say so."""

    key: AccessKey
    ends_ms: int | None


class KeyService(Protocol):
    """What lends keys."""

    def fetch(self, region: str) -> LentKey:
        """A key as it is now. 1 request, to the service; raises UnavailableError, InvalidRequestError."""
        ...


def key_service(environment: Mapping[str, str], region: str | None) -> KeyService | None:
    """What the environment names, in the order in which other clients look; None if it names nothing. No requests.

    Raises InvalidRequestError for a service to which no token may be sent.
    """
    file, role = environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"), environment.get("AWS_ROLE_ARN")
    if file and role:
        endpoint = environment.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region or 'us-east-1'}.amazonaws.com"
        return _WebIdentity(Path(file), role, environment.get("AWS_ROLE_SESSION_NAME") or "wormdb", endpoint)
    if relative := environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        return _Container(_CONTAINER + relative, None, environment)
    if full := environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        parts = urlsplit(full)
        if parts.scheme != "https" and not _NEAR.fullmatch(parts.hostname or ""):
            raise InvalidRequestError(
                "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                reason="without https it must be an address of this machine",
                fix="leave it to what sets it: ECS, EKS or Greengrass",
            )
        token = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        return _Container(full, Path(token) if token else None, environment)
    return None


@dataclass(frozen=True, slots=True)
class _Container:
    """An address that answers with keys."""

    url: str
    token_file: Path | None
    environment: Mapping[str, str]

    def fetch(self, region: str) -> LentKey:
        token = self.environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
        if self.token_file is not None:
            token = _read(self.token_file)
        body = _ask("GET", self.url, {"Authorization": token} if token else {}, None)
        try:
            found = json.loads(body)
            key = AccessKey(found["AccessKeyId"], found["SecretAccessKey"], found.get("Token") or "", region)
            return LentKey(key, _milliseconds(found.get("Expiration")))
        except (ValueError, KeyError, TypeError) as error:
            raise _unavailable("the container's keys", "the answer holds no keys") from error


@dataclass(frozen=True, slots=True)
class _WebIdentity:
    """A token in a file, for which the token service gives keys of a role."""

    file: Path
    role: str
    session: str
    endpoint: str

    def fetch(self, region: str) -> LentKey:
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": self.role,
            "RoleSessionName": self.session,
            "WebIdentityToken": _read(self.file),
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        text = _ask("POST", f"{self.endpoint.rstrip('/')}/", headers, urlencode(form).encode()).decode(errors="replace")
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
        found = [re.search(rf"<{name}>([^<]+)</{name}>", text) for name in names]
        access, secret, token, ends = ("" if one is None else one[1] for one in found)
        if not access or not secret:
            raise _unavailable(f"keys of the role {self.role}", "the answer holds no keys")
        return LentKey(AccessKey(access, secret, token, region), _milliseconds(ends))


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise _unavailable(f"the token in {file}", str(reason)) from None


def _ask(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """The body of an answer; raises UnavailableError, which never tells what was sent."""
    parts = urlsplit(url)
    maker = HTTPSConnection if parts.scheme == "https" else HTTPConnection

    def exchange() -> tuple[int, bytes]:
        connection = maker(parts.hostname or "", parts.port, timeout=_SECONDS_MAX)
        try:
            connection.request(method, parts.path + (f"?{parts.query}" if parts.query else ""), body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read(_ANSWER_MAX)
        finally:
            connection.close()

    what = f"keys from {parts.hostname}"
    try:
        status, found = give_up_in_time(exchange, longest=_SECONDS_MAX, what=what)
    except AbandonedCallError:
        raise _unavailable(what, "no answer came in time") from None
    except (OSError, HTTPException) as error:
        raise _unavailable(what, getattr(error, "strerror", None) or type(error).__name__) from None
    if status != 200:
        raise _unavailable(what, f"status {status}")
    return found


def _unavailable(what: str, reason: str) -> UnavailableError:
    return UnavailableError(what, reason=reason, fix="look at the machine's identity, then retry")


def _milliseconds(text: object) -> int | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
