"""Open the store that a URL names."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from wormdb.settings import REQUEST_SECONDS
from wormdb.storage.store import Bound, Store, any_object
from wormdb.storage.url import StoreUrl, check_endpoint, parse_url
from wormdb.system.clock import Chance, Clock, SystemChance, SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = ["open_store"]

# In the order of precedence; what obstore would read by itself, read here so that the store's name tells it.
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


def open_store(
    url: str | StoreUrl,
    *,
    clock: Clock | None = None,
    chance: Chance | None = None,
    request_seconds: float = REQUEST_SECONDS,
    bound: Bound = any_object,
) -> Store:
    """The bare store that `url` names (see `wormdb.storage.url` for the forms). No requests.

    Credentials come from the environment. The caller wraps the store and closes it. `request_seconds` is for clouds.
    `bound` says by the key how many bytes an object has at most; what is longer is not read.
    Raises InvalidRequestError.
    """
    place = parse_url(url) if isinstance(url, str) else url
    clock, chance = clock or SystemClock(), chance or SystemChance()
    match place.scheme:
        case "memory":
            from wormdb.storage.memory import MemoryStore

            return MemoryStore(place.bucket or None, clock=clock, bound=bound)
        case "file":
            from wormdb.storage.folder.store import LocalStore

            return LocalStore(place.path, clock=clock, chance=chance, bound=bound)
        case "s3" | "gs" | "az":
            from wormdb.storage.cloud.clients import profile_settings
            from wormdb.storage.cloud.store import CloudStore

            settings = profile_settings(os.environ) if place.scheme == "s3" else {}
            place = _complete(place, os.environ, settings.pop("region", None))
            return CloudStore(place, settings, clock=clock, request_seconds=request_seconds, bound=bound)
        case _:
            assert_never(place.scheme)


def _complete(url: StoreUrl, environment: Mapping[str, str], region: str | None) -> StoreUrl:
    """The URL with what the environment adds, so that the store's name says where it really is."""
    named = next((name for name in _ENDPOINTS[url.scheme] if environment.get(name)), None)
    if url.endpoint is None and named is not None:
        url = replace(url, endpoint=check_endpoint(environment[named], source=f"the variable {named}"))
    if url.scheme == "s3" and url.region is None:
        url = replace(url, region=next((environment[name] for name in _REGIONS if environment.get(name)), region))
    if url.scheme == "az" and url.account is None:
        url = replace(url, account=environment.get("AZURE_STORAGE_ACCOUNT_NAME"))
    return url
