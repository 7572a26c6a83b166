"""obstore's clients for the three clouds: no retries of their own, our timeouts, no secrets in errors."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from wormdb.errors import InvalidRequestError
from wormdb.settings import CONNECT_TIMEOUT_SECONDS, REQUEST_SECONDS, REQUEST_SECONDS_FACTOR
from wormdb.storage.store import OCTETS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeGuard

    from obstore.store import ClientConfig

    from wormdb.storage.url import StoreUrl

__all__ = ["Client", "can_sign", "make_client"]

Client = S3Store | GCSStore | AzureStore

_FIXES = {
    "s3": "check the AWS_* variables of the environment",
    "gs": "check GOOGLE_APPLICATION_CREDENTIALS and the GOOGLE_* variables of the environment",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME (or ?account=…), and check the AZURE_* variables of the environment",
}

_TRUE = {"1", "true", "on", "yes", "y"}
_AZURE_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY")
# With any of these obstore may use something else than the key, for which signing costs a request.
_AZURE_BEFORE_KEYS = ("AZURE_STORAGE_TOKEN", "AZURE_CREDENTIAL_TYPE", "AZURE_SKIP_SIGNATURE")


def make_client(url: StoreUrl, settings: Mapping[str, str], request_seconds: float = REQUEST_SECONDS) -> Client:
    """A client for the URL's bucket and prefix; it reads the environment itself. No requests.

    `settings` are obstore's own, beyond what the URL says. A request ends when no byte came for `request_seconds`, and
    after REQUEST_SECONDS_FACTOR times as long. Raises InvalidRequestError when it refuses them.
    """
    client = _try_client(url, settings, request_seconds)
    if client is None:
        # Not chained: obstore's message may quote the settings, which hold secrets.
        raise InvalidRequestError(
            f"store {url}", reason="the client library refused its settings", fix=_FIXES[url.scheme]
        )
    return client


def can_sign(client: Client, environment: Mapping[str, str]) -> TypeGuard[S3Store | AzureStore]:
    """Whether obstore signs for this client by itself, with no request: S3, and Azure with an account key.

    obstore does not tell what it read from `environment`, so that is looked at here too. GCS is
    out because a signed URL would have to sign the condition's header.
    """
    if isinstance(client, GCSStore):
        return False
    settings = cast("Mapping[str, str]", client.config)
    if isinstance(client, S3Store):
        anonymous = settings.get("skip_signature") or environment.get("AWS_SKIP_SIGNATURE", "")
        return anonymous.lower() not in _TRUE
    named = any(environment.get(name) for name in _AZURE_KEYS)
    others = any(environment.get(name) for name in _AZURE_BEFORE_KEYS)
    return (bool(settings.get("account_key")) or named) and not others


def _try_client(url: StoreUrl, settings: Mapping[str, str], request_seconds: float) -> Client | None:
    options: ClientConfig = {
        "timeout": timedelta(seconds=REQUEST_SECONDS_FACTOR * request_seconds),
        "read_timeout": timedelta(seconds=request_seconds),
        "connect_timeout": timedelta(seconds=min(CONNECT_TIMEOUT_SECONDS, request_seconds)),
        "default_content_type": OCTETS,
        "allow_http": url.endpoint is not None and url.endpoint.startswith("http://"),
    }
    common: dict[str, Any] = {
        "prefix": url.prefix or None,
        "client_options": options,
        "retry_config": {"max_retries": 0},
    }
    try:
        match url.scheme:
            case "s3":
                config = _given(settings, endpoint=url.endpoint, region=url.region)
                return S3Store(url.bucket, config=config, **common)
            case "gs":
                return GCSStore(url.bucket, config=_given(settings, base_url=url.endpoint), **common)
            case "az":
                config = _given(settings, endpoint=url.endpoint, account_name=url.account)
                return AzureStore(url.bucket, config=config, **common)
            case _:
                raise AssertionError(url.scheme)
    except (BaseError, ValueError):
        return None


def _given(settings: Mapping[str, str], **more: str | None) -> Any:
    """`settings` and those of `more` that are set; obstore types them as one dictionary type a cloud."""
    return {**settings, **{name: value for name, value in more.items() if value is not None}}
