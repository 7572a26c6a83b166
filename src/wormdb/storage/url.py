"""The one form in which a store is named: a path, or a URL without secrets.

=============================================  ==============================================
memory://name                                  this process's memory
./data   ~/data   /srv/data   file:///srv/x    a folder
s3://bucket/prefix?endpoint=…&region=…         Amazon S3, or what speaks its protocol at `endpoint`;
                                               also encryption=… and kms_key=… (see `encryption`)
gs://bucket/prefix?endpoint=…                  Google Cloud Storage
az://container/prefix?account=…&endpoint=…     Azure Blob Storage
=============================================  ==============================================

Credentials never stand in a URL; a URL that holds some is refused without repeating it.
In cloud URLs `%20` means a space, as in every URL; a plain path is taken as it is.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import quote, unquote

from wormdb.errors import InvalidRequestError
from wormdb.storage.store import check_key

__all__ = ["Scheme", "StoreUrl", "check_endpoint", "parse_url"]

Scheme = Literal["memory", "file", "s3", "gs", "az"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)

PARAMETERS: dict[Scheme, tuple[str, ...]] = {
    "memory": (),
    "file": (),
    "s3": ("endpoint", "region", "encryption", "kms_key"),
    "gs": ("endpoint",),
    "az": ("account", "endpoint"),
}
ALIASES: dict[str, Scheme] = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "azure": "az", "abfs": "az", "abfss": "az"}
CREDENTIALS_FIX = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or AWS_PROFILE",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS in the environment",
    "az": "set AZURE_STORAGE_ACCOUNT_KEY in the environment",
}

_SECRET_NAME = re.compile(
    r"secret|token|passw|credential|signature|sas|^sig$|access_?key|account_?key|key_?id", flags=re.IGNORECASE
)
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_ENCRYPTIONS = ("AES256", "aws:kms", "aws:kms:dsse", "sse-c")
_KMS_KEY = re.compile(r"[A-Za-z0-9:/_-]{1,256}")
_MEMORY = re.compile(r"[A-Za-z0-9._-]{0,100}")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_BUCKETS = {
    "s3": (re.compile(r"[a-z0-9](?!.*\.\.)[a-z0-9.-]{1,61}[a-z0-9]"), "3 to 63 of a-z, 0-9, - and ."),
    "gs": (re.compile(r"[a-z0-9](?!.*\.\.)[a-z0-9._-]{1,220}[a-z0-9]"), "3 to 222 of a-z, 0-9, -, _ and ."),
    "az": (re.compile(r"(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]|\$(root|web)"), "3 to 63 of a-z, 0-9 and single -"),
}


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """A store's place, checked. `str` gives the canonical URL, which never holds a secret.

    `bucket` is the bucket, the container, the name of a memory, or empty; `prefix` has no
    slash at either end; `path` is the absolute folder of a file URL.
    """

    scheme: Scheme
    bucket: str = ""
    prefix: str = ""
    path: str = ""
    endpoint: str | None = None
    region: str | None = None
    account: str | None = None
    encryption: str | None = None
    kms_key: str | None = None

    def __str__(self) -> str:
        if self.scheme == "file":
            return "file://" + quote(self.path, safe="/")
        text = f"{self.scheme}://{self.bucket}" + (f"/{quote(self.prefix, safe='/')}" if self.prefix else "")
        names = ("account", "endpoint", "region", "encryption", "kms_key")
        pairs = [(name, getattr(self, name)) for name in names]
        query = "&".join(f"{name}={quote(value, safe=':/[]')}" for name, value in pairs if value)
        return f"{text}?{query}" if query else text

    @property
    def place(self) -> str:
        """The URL without its prefix: what two databases in one bucket share."""
        return str(StoreUrl(self.scheme, self.bucket, "", self.path, self.endpoint, self.region, self.account))


def parse_url(text: str) -> StoreUrl:
    """The store that `text` names; a relative path is resolved here and now. No requests.

    Raises InvalidRequestError: unknown scheme or parameter, bad bucket, prefix or endpoint,
    credentials in the URL (which the message does not repeat).
    """
    if not text.strip() or "\0" in text:
        raise InvalidRequestError(
            "store URL", reason="it is empty" if not text.strip() else "it holds a NUL", fix=_examples()
        )
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _parse_path(text)
    if scheme not in SCHEMES:
        raise _unknown_scheme(scheme)
    rest, _, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        raise _credentials_in_url(scheme)
    if "#" in rest or "#" in query:
        raise InvalidRequestError(f"store URL {scheme}://…", reason="it holds a #", fix="write %23 for a # in a prefix")
    options = _parse_query(scheme, query)
    match scheme:
        case "memory":
            return _parse_memory(authority, path)
        case "file":
            return _parse_file(authority, slash + path)
        case _:
            return _parse_bucket(scheme, authority, path, options)


def check_endpoint(text: str, *, source: str = "the endpoint of a store URL") -> str:
    """Return an http(s) origin without a trailing slash, else raise InvalidRequestError. No requests.

    The message names `source` and does not repeat the text, which may hold a password.
    """
    scheme, separator, rest = text.partition("://")
    rest = rest.rstrip("/")
    fix = "write it like https://host or http://127.0.0.1:9000"
    if "@" in rest:
        raise InvalidRequestError(source, reason="it holds a user name or password", fix=fix)
    if not separator or scheme not in ("http", "https"):
        raise InvalidRequestError(source, reason="it does not begin with http:// or https://", fix=fix)
    if not _HOST.fullmatch(rest):
        raise InvalidRequestError(source, reason="it is more than a host and a port", fix=fix)
    return f"{scheme}://{rest}"


def _near(name: str, known: tuple[str, ...]) -> list[str]:
    """The one that was meant, perhaps."""
    from difflib import get_close_matches  # only mistakes need it

    return get_close_matches(name, known, n=1, cutoff=0.5)


def _examples() -> str:
    return "name a folder, or memory://name, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix"


def _unknown_scheme(scheme: str) -> InvalidRequestError:
    # Only a plausible scheme is repeated: before :// there may also be half a password.
    shown = f"{scheme}://…" if re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]{0,15}", scheme) else "…://…"
    lowered = scheme.lower()
    near = _near(lowered, SCHEMES)
    suggestion = ALIASES.get(lowered) or (near[0] if near else None)
    fix = f"did you mean {suggestion}://? " if suggestion else ""
    valid = ", ".join(f"{known}://" for known in SCHEMES)
    return InvalidRequestError(
        f"store URL {shown}", reason="its scheme is unknown", fix=f"{fix}valid are a folder's path, {valid}"
    )


def _credentials_in_url(scheme: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"store URL {scheme}://…",
        reason="credentials do not belong in a URL: it ends up in logs",
        fix=CREDENTIALS_FIX.get(scheme, "leave them out"),
    )


def _parse_query(scheme: Scheme, query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    known = PARAMETERS[scheme]
    for part in query.split("&") if query else ():
        name, _, value = part.partition("=")
        if _SECRET_NAME.search(name):
            raise _credentials_in_url(scheme)
        if name not in known:
            near = _near(name.lower(), known)
            valid = f"{scheme}:// takes " + (" and ".join(known) if known else "no parameters")
            raise InvalidRequestError(
                f"store URL {scheme}://…",
                reason=f"the parameter {name[:40]!r} is unknown",
                fix=f"did you mean {near[0]}? {valid}" if near else valid,
            )
        if name in options or not value:
            reason = f"the parameter {name} is given twice" if name in options else f"the parameter {name} is empty"
            raise InvalidRequestError(f"store URL {scheme}://…", reason=reason, fix=f"give {name} once, or not at all")
        options[name] = unquote(value)
    return options


def _parse_path(text: str) -> StoreUrl:
    if re.match(r"[A-Za-z]:[\\/]|\\\\", text):
        raise InvalidRequestError(
            "store URL", reason="it is a Windows path", fix="run wormdb on Linux, macOS or WSL, and name a folder there"
        )
    slip = re.match(r"([A-Za-z0-9]+):/?", text)
    if slip and (slip[1].lower() in SCHEMES or slip[1].lower() in ALIASES):
        scheme = ALIASES.get(slip[1].lower(), slip[1].lower())
        raise InvalidRequestError(
            f"store URL {slip[1]}:…", reason=f"after {scheme}: two slashes are missing", fix=f"write {scheme}://…"
        )
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        raise InvalidRequestError(
            f"folder {text!r}", reason="no such user's home folder is known", fix="write the whole path"
        ) from error
    return StoreUrl("file", path=os.path.abspath(path))  # noqa: PTH100 - resolve() would follow symbolic links


def _parse_file(host: str, path: str) -> StoreUrl:
    if host not in ("", "localhost") or path in ("", "/"):
        raise InvalidRequestError(
            "store URL file://…",
            reason="a file URL needs an absolute path",
            fix="write file:///absolute/folder, or a relative path without file://",
        )
    decoded = unquote(path)
    if "\0" in decoded:
        raise InvalidRequestError("store URL file://…", reason="it holds a NUL", fix="leave out %00")
    if re.match(r"/[A-Za-z]:[\\/]", decoded):
        return _parse_path(decoded[1:])
    return StoreUrl("file", path=os.path.abspath(decoded))  # noqa: PTH100 - resolve() would follow symbolic links


def _parse_memory(name: str, path: str) -> StoreUrl:
    if path or not _MEMORY.fullmatch(name):
        raise InvalidRequestError(
            "store URL memory://…",
            reason="a memory has one name of letters, digits, ., _ and -, and no path",
            fix="write memory://name",
        )
    return StoreUrl("memory", name)


def _parse_bucket(scheme: Scheme, bucket: str, path: str, options: dict[str, str]) -> StoreUrl:
    if not bucket:
        raise InvalidRequestError(
            f"store URL {scheme}:///…", reason="the bucket is missing", fix=f"write {scheme}://bucket/prefix"
        )
    pattern, rule = _BUCKETS[scheme]
    if ":" in bucket:
        raise InvalidRequestError(
            f"store URL {scheme}://…",
            reason="a bucket name holds no colon",
            fix=f"a host and port go into {scheme}://bucket/prefix?endpoint=http://host:port",
        )
    if not pattern.fullmatch(bucket):
        raise InvalidRequestError(
            f"bucket {bucket[:80]!r}",
            reason=f"{scheme} bucket names are {rule}, with a letter or digit at each end",
            fix="check the name in the store URL",
        )
    prefix = unquote(path, errors="surrogateescape").rstrip("/")
    if prefix:
        _check_prefix(scheme, prefix)
    endpoint, account = options.get("endpoint"), _check_word(_ACCOUNT, "account", options.get("account"))
    # Emulators of Azure have the account in the path, and not in the name of the host.
    below = f"/{account}" if scheme == "az" and account and endpoint and endpoint.endswith(f"/{account}") else ""
    return StoreUrl(
        scheme,
        bucket,
        prefix,
        endpoint=check_endpoint(endpoint.removesuffix(below)) + below if endpoint else None,
        region=_check_word(_REGION, "region", options.get("region")),
        account=account,
        encryption=_check_encryption(options.get("encryption")),
        kms_key=_check_word(_KMS_KEY, "kms_key", options.get("kms_key")),
    )


def _check_prefix(scheme: str, prefix: str) -> None:
    try:
        check_key(prefix)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"prefix in store URL {scheme}://…",
            reason=error.reason,
            fix="use plain segments joined by single slashes",
        ) from error


def _check_word(pattern: re.Pattern[str], name: str, value: str | None) -> str | None:
    if value is not None and not pattern.fullmatch(value):
        raise InvalidRequestError(
            f"{name} of a store URL", reason=f"it has characters no {name} has", fix=f"check {name}= in the URL"
        )
    return value


def _check_encryption(value: str | None) -> str | None:
    if value is not None and value not in _ENCRYPTIONS:
        raise InvalidRequestError(
            "encryption of a store URL", reason="there is no such way", fix=f"one of {', '.join(_ENCRYPTIONS)}"
        )
    return value
