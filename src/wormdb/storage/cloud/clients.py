"""obstore's clients for the three clouds: no retries of their own, our timeouts, no secrets in errors."""

from __future__ import annotations

import configparser
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar, cast

from obstore import exceptions
from obstore.store import AzureStore, GCSStore, S3Store

from wormdb.errors import InvalidRequestError
from wormdb.settings import CONNECT_TIMEOUT_SECONDS, REQUEST_SECONDS, REQUEST_SECONDS_FACTOR
from wormdb.storage.cloud.azure import account_key
from wormdb.storage.cloud.verdict import FaultKind, ObstoreFault, parse_fault
from wormdb.storage.store import OCTETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from obstore.store import ClientConfig

    from wormdb.storage.url import StoreUrl

__all__ = ["Client", "can_sign", "caught", "make_client", "profile_files", "profile_settings"]

T = TypeVar("T")

Client = S3Store | GCSStore | AzureStore

_FIXES = {
    "s3": "check the AWS_* variables of the environment",
    "gs": "check GOOGLE_APPLICATION_CREDENTIALS and the GOOGLE_* variables of the environment",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME (or ?account=…), and check the AZURE_* variables of the environment",
}

_TRUE = {"1", "true", "on", "yes", "y"}
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
    """Whether requests of this client are signed here or by obstore, with no request: S3, and Azure with a key.

    obstore does not tell what it read from `environment`, so that is looked at here too. GCS is
    out because a signed URL would have to sign the condition's header.
    """
    if isinstance(client, GCSStore):
        return False
    settings = cast("Mapping[str, str]", client.config)
    if isinstance(client, S3Store):
        anonymous = settings.get("skip_signature") or environment.get("AWS_SKIP_SIGNATURE", "")
        return anonymous.lower() not in _TRUE
    others = any(environment.get(name) for name in _AZURE_BEFORE_KEYS)
    return bool(account_key(settings, environment)) and not others


def caught(call: Callable[[], T]) -> T | ObstoreFault:
    """What `call` of obstore returns, or its error as a value: so that its text is in no chain of errors."""
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
    except (exceptions.BaseError, ValueError):
        return None


def _given(settings: Mapping[str, str], **more: str | None) -> Any:
    """`settings` and those of `more` that are set; obstore types them as one dictionary type a cloud."""
    return {**settings, **{name: value for name, value in more.items() if value is not None}}


# --- Static keys and the region from the AWS profile files, which obstore does not read.
#
# Only what stands in the files is used: a profile that names a role, single sign-on or a
# process is refused with the way to get keys out of it, since guessing would use other rights
# than the profile means.

# Where obstore finds credentials by itself; any of these goes before a profile that is not named.
_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
_FIELDS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
}


def profile_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings for obstore from the profile that `environment` names, or from the default one.

    Empty when the environment has credentials itself or there is no profile. Reads up to two
    files; no requests. Raises InvalidRequestError if a named profile has no static keys.
    """
    named = environment.get("AWS_PROFILE")
    if any(environment.get(name) for name in _ENVIRONMENT):
        return {}
    profile = named or "default"
    keys, config = profile_files(environment)
    section = _section(config, profile if profile == "default" else f"profile {profile}") | _section(keys, profile)
    settings = {ours: section[theirs] for theirs, ours in _FIELDS.items() if section.get(theirs)}
    if {"access_key_id", "secret_access_key"} <= settings.keys():
        return settings
    if named:
        raise InvalidRequestError(
            f"AWS profile {named}",
            reason="it holds no access key of its own" if section else f"it is neither in {keys} nor in {config}",
            fix=f'eval "$(aws configure export-credentials --profile {named} --format env)"',
        )
    return {"region": settings["region"]} if "region" in settings else {}


def profile_files(environment: Mapping[str, str]) -> tuple[Path, Path]:
    """Where the keys and the settings of profiles stand. No requests."""
    home = Path(environment.get("HOME") or "~").expanduser()
    keys = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials")
    return keys, Path(environment.get("AWS_CONFIG_FILE") or home / ".aws" / "config")


def _section(path: Path, name: str) -> dict[str, str]:
    parser = configparser.RawConfigParser(default_section="", strict=False)
    try:
        parser.read_string(path.expanduser().read_text())
    except OSError:
        return {}
    except (configparser.Error, UnicodeDecodeError) as error:
        # The parser's message quotes lines of the file, which may be secrets.
        raise InvalidRequestError(
            f"AWS file {path}", reason=f"it cannot be read: {type(error).__name__}", fix="correct the file"
        ) from None
    return dict(parser[name]) if parser.has_section(name) else {}
