"""Erase one document: an entry that says so, a root without it, and a first look at what is to be deleted."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from wormdb.engine.commit.operations import Remove
from wormdb.engine.state.view import id_key
from wormdb.errors import ConflictError, InvalidRequestError, NotFoundError, UnavailableError
from wormdb.format.blob import blob_keys_in
from wormdb.format.event import DocumentErased
from wormdb.format.wrappers import moment
from wormdb.settings import RETIRED_MS

if TYPE_CHECKING:
    from datetime import datetime

    from wormdb.api.access import Access
    from wormdb.api.calls import Author
    from wormdb.engine.state.view import StoredVersion, View
    from wormdb.format.blob import BlobKey

__all__ = ["EraseResult", "erase_document"]

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EraseResult:
    """What erasing a document came to so far."""

    number: int
    """The entry of the log that erased it; 0 if there was nothing to erase."""
    is_forwarded: bool
    """Whether the newest root names nothing that holds it; otherwise the next forwarding does it."""
    wait_ms: int
    """How long readers of older states may need what is to be deleted: garbage collection deletes it after that."""
    gone_after: datetime | None = None
    """The moment, by the store's time, from which on garbage collection deletes it; None if nothing was erased."""


@dataclass(frozen=True, slots=True)
class _ErasureGuard:
    """Refuses to erase a document that is no longer at the version whose blobs are known."""

    key: bytes
    seen: StoredVersion

    def check(self, view: View) -> None:
        """See `Guard`; raises ConflictError. Costs a look-up."""
        held = view.get(self.key)
        if held is None or held.version != self.seen.version:
            raise ConflictError(f"document {self.seen.id.decode()}", reason="it changed before it was erased")


def erase_document(access: Access[T], identity: Any, by: Author, *, missing_ok: bool = False) -> EraseResult:
    """Erase the document of an id. See `Collection.erase`."""
    what = f"erase of {identity!r} in {access.name}"
    if access.session is not None:
        raise InvalidRequestError(what, reason="a transaction cannot erase", fix="erase before it, or after it")
    access.check_mode()
    encoded = access.writer.encoded_id(identity)
    key = id_key(encoded)
    for _ in range(access.settings.modify_attempts):
        view = access.present()
        held = view.get(key)
        if held is None or not held.seq:
            if missing_ok:
                return EraseResult(0, is_forwarded=view.number == view.base_number, wait_ms=0)
            raise NotFoundError(what, reason="there is no such document, and never was", fix="check the id")
        blobs = _blobs_of(access, view, key, held)
        # A delete that finds nothing to delete is no change: only then the event comes alone.
        also = () if held.document is None else (Remove(encoded),)
        guard = _ErasureGuard(key, held)
        try:
            number = access.commit_event(DocumentErased(id=encoded), by, guard, *also).number
        except ConflictError:
            # Another writer changed it meanwhile: that version is to be erased too. Or its time is over and it is still
            # stored: then it ends first.
            if view.definition.expiry is not None:
                access.ledger.expiry.remove()
            continue
        is_forwarded = _finish(access, blobs)
        gone_after = moment(access.ledger.store_ms() + RETIRED_MS)
        return EraseResult(number, is_forwarded, wait_ms=RETIRED_MS, gone_after=gone_after)
    raise ConflictError(what, reason=f"another writer changed it {access.settings.modify_attempts} times in a row")


def _blobs_of(access: Access[T], view: View, key: bytes, held: StoredVersion) -> set[BlobKey]:
    """The blobs to which any version of a document refers."""
    found = set(blob_keys_in(held.trash))
    for version in access.ledger.history(view).versions(key):
        found |= set(blob_keys_in(version.document))
    return found


def _finish(access: Access[T], blobs: set[BlobKey]) -> bool:
    """Bring it into a root, and collect garbage once: so that what goes has its time. Whether both were done.

    The entry is there whatever happens here: another process, or the next call of each, does the rest.
    """
    try:
        access.ledger.forward()
        access.home.collect(access.ledger.collection, dry_run=False, unowned=blobs)
    except (ConflictError, UnavailableError) as error:
        log.info("%s: what was erased is left to the next forwarding: %s", access.name, error)
        return False
    return True
