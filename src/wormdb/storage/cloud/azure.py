"""Requests for single blobs of Azure, signed in their URL with the key of the account (a service SAS).

Such a signature covers the name of the blob as it is, not as the URL encodes it: Azure decodes the path before it
compares. obstore signs the encoded path, so what it signs for a name with a space, an umlaut or a percent sign is
refused. Signatures in a header (Shared Key), which obstore makes for its own requests, do cover the encoded path.
"""

from __future__ import annotations

import base64
import hmac
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from wormdb.storage.cloud.encryption import TRUE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.storage.url import StoreUrl

__all__ = ["BlobSigner", "account_key"]

_KEYS: Final = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY")
_UNUSUAL: Final = ("AZURE_STORAGE_USE_EMULATOR", "AZURE_USE_FABRIC_ENDPOINT")
"""With any of these obstore sends requests to another place than the URL says."""
_RIGHTS: Final = {"GET": "r", "HEAD": "r", "PUT": "w", "DELETE": "d"}
_VERSION: Final = "2023-11-03"
"""Of the protocol, for signature and answer: the one that obstore speaks."""
_NO_MORE: Final = 7 * "\n"
"""Between what is signed and its end: a snapshot, a scope of encryption, and five headers of the answer, all empty."""


def account_key(settings: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """The key of the account in obstore's `settings` or in the environment, in base64; empty if there is none."""
    return settings.get("account_key") or next((environment[name] for name in _KEYS if environment.get(name)), "")


class BlobSigner:
    """Signs requests to one container of Azure in their URL."""

    def __init__(self, url: StoreUrl, key: str) -> None:
        """`key` is that of the account, in base64, which the URL has to name; raises ValueError if it is not base64."""
        assert url.account
        self._key = base64.b64decode(key, validate=True)
        below = f"/{url.bucket}/" + (f"{url.prefix}/" if url.prefix else "")
        # The account stands before the container once, also where an emulator has it in the path.
        self._resource = f"/blob/{url.account}{below}"
        self._base = (url.endpoint or f"https://{url.account}.blob.core.windows.net") + quote(below, safe="/$")

    @staticmethod
    def can_sign(url: StoreUrl, environment: Mapping[str, str]) -> bool:
        """Whether the account is known, and where its requests go."""
        is_usual = not any(environment.get(name, "").lower() in TRUE for name in _UNUSUAL)
        return url.scheme == "az" and bool(url.account) and is_usual

    def signed(self, method: str, key: str, *, now_ms: int, seconds: int) -> str:
        """The URL of a request that may be sent for `seconds`. No requests.

        It may be sent from now on, by the clock of Azure: it names no beginning, which a clock ahead would get wrong.
        """
        rights, ends = _RIGHTS[method], f"{datetime.fromtimestamp(now_ms // 1000 + seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
        # Empty are: beginning; policy, addresses and protocol.
        lines = [rights, "", ends, self._resource + key, "", "", "", _VERSION, "b"]
        digest = hmac.digest(self._key, ("\n".join(lines) + _NO_MORE).encode(), "sha256")
        pairs = {"sv": _VERSION, "sr": "b", "sp": rights, "se": ends, "sig": base64.b64encode(digest).decode()}
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs.items())
        return f"{self._base}{quote(key, safe='/')}?{query}"
