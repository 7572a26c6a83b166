"""Ask a store, before this process first writes to it, whether it honours preconditions.

Everything wormdb promises rests on them, and some servers accept the headers and ignore them. So the
question is put by trying; the answer is remembered for the bucket. Readers never ask.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    OutcomeUnknownError,
    UnavailableError,
    UnsupportedStoreError,
    WormError,
)
from wormdb.settings import ORPHAN_MS
from wormdb.storage.store import IfAbsent, IfMatch, Precondition, Store
from wormdb.storage.url import parse_url

if TYPE_CHECKING:
    from wormdb.system.clock import Chance
    from wormdb.system.types import Version

__all__ = ["ensure_conditions", "forget_conditions", "remove_probes"]

PLAIN_TEXT = "text/plain"
_FOLDER = ".worm.probe/"

ATTEMPTS_MAX = 8
"""Tries, when a request seems to have been sent twice or an answer got lost."""

# Without a lock: to add and to look up are one step each, and a forked child could find a lock taken for ever.
_kept: set[str] = set()


class _SentTwice(Exception):  # noqa: N818 - never leaves this module
    """A write was refused, and its bytes are there."""


def ensure_conditions(store: Store, chance: Chance) -> None:
    """Return if `store` honours IfAbsent and IfMatch, else raise UnsupportedStoreError.

    Costs 4 PUT, 1 GET and 1 DELETE of one small object below `.worm.probe/`, once a process and
    bucket; nothing after that. Begins again after a lost answer. Also raises what the store raises, with
    UnavailableError if one answer after the other gets lost.
    """
    place = _place(store.name)
    if place in _kept:
        return
    _check(store, chance)
    _kept.add(place)


def _check(store: Store, chance: Chance) -> None:
    failure: _SentTwice | OutcomeUnknownError | None = None
    is_unanimous = True
    for _ in range(ATTEMPTS_MAX):
        key = f"{_FOLDER}{chance.token(16).hex()}"
        try:
            _try_conditions(store, key)
        except (_SentTwice, OutcomeUnknownError) as error:
            # Another key, so whatever becomes of this one decides nothing.
            failure = error
            is_unanimous = is_unanimous and isinstance(error, _SentTwice)
        else:
            return
        finally:
            _remove(store, key)
    if is_unanimous:
        raise _unsupported(store, str(failure)) from None
    raise UnavailableError(
        f"check of the preconditions of {store.name}",
        reason="answers got lost again and again",
        fix="retry; nothing of yours was written",
    ) from failure


def remove_probes(store: Store) -> int:
    """Remove what checks left a day ago or longer, by the store's time, because they may not delete; how many.

    1 GET, 1 LIST for each 1,000 and 1 DELETE if there are some; nothing where answers show no time.
    """
    now = store.probe(f"{_FOLDER}time").time
    if now is None:
        return 0
    removed = 0
    for page in store.list(_FOLDER):
        keys = [info.key for info in page.objects if now - info.modified >= ORPHAN_MS]
        if keys:
            store.delete_many(keys)
            removed += len(keys)
    return removed


def forget_conditions() -> None:
    """Ask every store again at the next write; for tests and after a change of server."""
    _kept.clear()


def _try_conditions(store: Store, key: str) -> None:
    first = _write(store, key, b"created", IfAbsent())
    if first is None:
        _refuse_repeats(store, key, b"created")
        raise _unsupported(store, "it refused to create an object under a new random key")
    if _write(store, key, b"created again", IfAbsent()) is not None:
        raise _unsupported(store, "it created an object that was there already (If-None-Match is ignored)")
    second = _write(store, key, b"swapped", IfMatch(first))
    if second is None:
        _refuse_repeats(store, key, b"swapped")
        raise _unsupported(store, "it refused to swap an object from its own version (If-Match fails)")
    if second == first:
        raise _unsupported(store, "two states of an object have the same version")
    if _write(store, key, b"swapped from an old version", IfMatch(first)) is not None:
        raise _unsupported(store, "it swapped an object from an old version (If-Match is ignored)")
    if store.get(key).body != b"swapped":
        raise _unsupported(store, "a write that it refused, or none, is what it holds")


def _refuse_repeats(store: Store, key: str, body: bytes) -> None:
    """Whatever lies between us and the store may send a request twice, and hand us the second answer."""
    found = store.probe(key).found
    if found is not None and found.body == body:
        raise _SentTwice("it told of a refusal again and again, and yet it holds what it refused")


def _write(store: Store, key: str, body: bytes, precondition: Precondition) -> Version | None:
    """The version written, or None if the store refused."""
    try:
        return store.put(key, body, precondition, content_type=PLAIN_TEXT).version
    except (AlreadyExistsError, ConflictError):
        return None


def _remove(store: Store, key: str) -> None:
    try:
        store.delete(key)
    except WormError:
        # A writer may lack the right to delete; gc collects what lies below `.worm.probe/`.
        return


def _unsupported(store: Store, reason: str) -> UnsupportedStoreError:
    return UnsupportedStoreError(f"store {store.name}", reason=reason)


@lru_cache
def _place(name: str) -> str:
    """Endpoint and bucket of a store's name; the whole name if it is not a URL."""
    try:
        return parse_url(name).place
    except InvalidRequestError:
        return name
