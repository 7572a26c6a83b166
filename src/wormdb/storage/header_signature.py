"""Requests to S3 signed in their headers (AWS signature version 4).

A URL that obstore signs covers the host alone, and S3 refuses headers of encryption that no
signature covers. So where encryption is asked for, or the bucket itself is asked about, the request is signed here,
with keys that the environment or a profile holds. Keys that a machine's identity gives are known to
obstore only; then such writes go through obstore.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Keys", "keys_of", "sign_headers"]

ALGORITHM = "AWS4-HMAC-SHA256"
DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Keys:
    """An access key; its `repr` holds no secret."""

    access: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)
    region: str = DEFAULT_REGION


def keys_of(settings: Mapping[str, str], environment: Mapping[str, str], region: str | None) -> Keys | None:
    """The static key in obstore's `settings` or in the environment, or None."""
    if settings.get("access_key_id"):
        names = ("access_key_id", "secret_access_key", "session_token")
        source = settings
    else:
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        source = environment
    access, secret, token = (source.get(name, "") for name in names)
    if not access or not secret:
        return None
    return Keys(access, secret, token or source.get("AWS_TOKEN", ""), region or settings.get("region", DEFAULT_REGION))


def sign_headers(  # noqa: PLR0913 - a request has these parts
    keys: Keys, method: str, host: str, target: str, headers: Mapping[str, str], body: bytes, *, now_ms: int
) -> dict[str, str]:
    """`headers` and those that sign them, the target and the body. No requests.

    `target` is the path and the query as they are sent, the query in the order of its names.
    """
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    stamp, day = f"{moment:%Y%m%dT%H%M%SZ}", f"{moment:%Y%m%d}"
    digest = hashlib.sha256(body).hexdigest()
    sent = {**headers, "x-amz-date": stamp, "x-amz-content-sha256": digest}
    if keys.token:
        sent["x-amz-security-token"] = keys.token
    covered = dict(sorted((name.lower(), value.strip()) for name, value in {**sent, "host": host}.items()))
    names = ";".join(covered)
    path, _, query = target.partition("?")
    lines = [method, path, query, *(f"{name}:{value}" for name, value in covered.items()), "", names, digest]
    scope = f"{day}/{keys.region}/s3/aws4_request"
    text = "\n".join([ALGORITHM, stamp, scope, hashlib.sha256("\n".join(lines).encode()).hexdigest()])
    key = f"AWS4{keys.secret}".encode()
    for part in (day, keys.region, "s3", "aws4_request"):
        key = _hmac(key, part)
    signature = _hmac(key, text).hex()
    sent["Authorization"] = (
        f"{ALGORITHM} Credential={keys.access}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return sent


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
