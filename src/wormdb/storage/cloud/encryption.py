"""How S3 is asked to encrypt what is written: by the URL and the variables that every S3 client knows.

=================================  ================================================================
encryption= in the URL, or         AES256 (keys of S3), aws:kms or aws:kms:dsse (a key of KMS),
AWS_SERVER_SIDE_ENCRYPTION         sse-c (a key of ours, sent with every request and never stored)
kms_key= in the URL, or            the id or ARN of the key of KMS; without it the bucket's own
AWS_SSE_KMS_KEY_ID
AWS_SSE_BUCKET_KEY_ENABLED         true: fewer, cheaper calls of KMS
AWS_SSE_CUSTOMER_KEY_BASE64        the key of sse-c, 32 bytes; a secret, so never in a URL
=================================  ================================================================
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.storage.url import StoreUrl

__all__ = [
    "ALGORITHM",
    "DEFAULT_REGION",
    "TRUE",
    "AccessKey",
    "Encryption",
    "encryption_of",
    "keys_of",
    "sign_headers",
    "signature",
]

KMS = ("aws:kms", "aws:kms:dsse")
OWN_KEY = "sse-c"
KEY_BYTES = 32
TRUE = ("1", "true", "on", "yes", "y")


@dataclass(frozen=True, slots=True)
class Encryption:
    """What is sent with requests; its `repr` holds no key of ours."""

    algorithm: str
    kms_key: str | None = None
    bucket_key: bool = False
    own_key: str = field(default="", repr=False)
    """In base64."""

    @property
    def headers(self) -> dict[str, str]:
        """For a PUT."""
        if self.algorithm == OWN_KEY:
            return self.read_headers
        headers = {"x-amz-server-side-encryption": self.algorithm}
        if self.kms_key:
            headers["x-amz-server-side-encryption-aws-kms-key-id"] = self.kms_key
        if self.bucket_key:
            headers["x-amz-server-side-encryption-bucket-key-enabled"] = "true"
        return headers

    @property
    def read_headers(self) -> dict[str, str]:
        """For a GET: a key of ours has to be shown again, the store knows its own."""
        if self.algorithm != OWN_KEY:
            return {}
        digest = hashlib.md5(base64.b64decode(self.own_key), usedforsecurity=False).digest()
        return {
            "x-amz-server-side-encryption-customer-algorithm": "AES256",
            "x-amz-server-side-encryption-customer-key": self.own_key,
            "x-amz-server-side-encryption-customer-key-md5": base64.b64encode(digest).decode(),
        }

    @property
    def settings(self) -> dict[str, str]:
        """For obstore."""
        settings = {"server_side_encryption": self.algorithm}
        if self.kms_key:
            settings["sse_kms_key_id"] = self.kms_key
        if self.bucket_key:
            settings["sse_bucket_key_enabled"] = "true"
        if self.own_key:
            settings["sse_customer_key_base64"] = self.own_key
        return settings


def encryption_of(url: StoreUrl, environment: Mapping[str, str]) -> Encryption | None:
    """What URL and environment ask for, or None: then the bucket's own default holds. No requests.

    Raises InvalidRequestError for parts that do not go together; it never repeats a key of ours.
    """
    if url.scheme != "s3":
        return None
    algorithm = url.encryption or environment.get("AWS_SERVER_SIDE_ENCRYPTION") or ""
    kms_key = url.kms_key or environment.get("AWS_SSE_KMS_KEY_ID") or None
    own_key = environment.get("AWS_SSE_CUSTOMER_KEY_BASE64", "")
    if not algorithm and not kms_key and not own_key:
        return None
    if algorithm not in ("AES256", *KMS, OWN_KEY):
        raise _refuse(
            f"{algorithm[:40]!r} is not a way of encryption" if algorithm else "a key is given, but no encryption",
            f"set encryption= in the URL or AWS_SERVER_SIDE_ENCRYPTION to AES256, {', '.join(KMS)} or {OWN_KEY}",
        )
    if kms_key and algorithm not in KMS:
        raise _refuse(f"a key of KMS does not go with {algorithm}", "set the encryption to aws:kms, or leave it out")
    if bool(own_key) != (algorithm == OWN_KEY):
        raise _refuse(
            f"AWS_SSE_CUSTOMER_KEY_BASE64 and {OWN_KEY} go together, and one is missing",
            f"set AWS_SERVER_SIDE_ENCRYPTION={OWN_KEY} and AWS_SSE_CUSTOMER_KEY_BASE64, or neither",
        )
    if own_key and not _is_key(own_key):
        raise _refuse(
            f"AWS_SSE_CUSTOMER_KEY_BASE64 is not {KEY_BYTES} bytes in base64", "make one: openssl rand -base64 32"
        )
    bucket_key = environment.get("AWS_SSE_BUCKET_KEY_ENABLED", "").lower() in TRUE
    return Encryption(algorithm, kms_key, bucket_key and algorithm in KMS, own_key)


def _refuse(reason: str, fix: str) -> InvalidRequestError:
    return InvalidRequestError("server-side encryption", reason=reason, fix=fix)


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == KEY_BYTES
    except binascii.Error:
        return False


# --- Requests to S3 signed in their headers (AWS signature version 4).
#
# A URL that obstore signs covers the host alone, and S3 refuses headers of encryption that no
# signature covers. So where encryption is asked for, or the bucket itself is asked about, the request is signed here,
# with keys that the environment or a profile holds. Keys that a machine's identity gives are known to
# obstore only; then such writes go through obstore.

ALGORITHM = "AWS4-HMAC-SHA256"
DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class AccessKey:
    """An access key; its `repr` holds no secret."""

    access: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)
    region: str = DEFAULT_REGION


def keys_of(settings: Mapping[str, str], environment: Mapping[str, str], region: str | None) -> AccessKey | None:
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
    return AccessKey(
        access, secret, token or source.get("AWS_TOKEN", ""), region or settings.get("region", DEFAULT_REGION)
    )


def sign_headers(  # noqa: PLR0913 - a request has these parts
    keys: AccessKey, method: str, host: str, target: str, headers: Mapping[str, str], body: bytes, *, now_ms: int
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
    sent["Authorization"] = (
        f"{ALGORITHM} Credential={keys.access}/{scope}, SignedHeaders={names}, Signature={signature(keys, day, text)}"
    )
    return sent


def signature(keys: AccessKey, day: str, text: str) -> str:
    """What signs a text for S3 on a day, written as 20260224. No requests."""
    return _hmac(_day_key(keys.secret, keys.region, day), text).hex()


@lru_cache(maxsize=8)
def _day_key(secret: str, region: str, day: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
