"""How S3 is asked to encrypt what is written: by the URL and the variables that every S3 client knows.

=================================  ================================================================
encryption= in the URL, or         AES256 (keys of S3), aws:kms or aws:kms:dsse (a key of KMS),
AWS_SERVER_SIDE_ENCRYPTION         sse-c (a key of ours, sent with every request and kept by nobody)
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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.storage.url import StoreUrl

__all__ = ["Encryption", "encryption_of"]

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
            f"{algorithm[:40]!r} is no way of encryption" if algorithm else "a key is given, but no encryption",
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
