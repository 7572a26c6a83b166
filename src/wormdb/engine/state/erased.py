"""Which documents were erased: by entries of the log, and, once these are forwarded, by marks in the root.

An entry that erases a document ends everything of it that is not newer. Until a root has applied the entry, readers
leave that out; the next root names nothing that has it. The root keeps a mark: a salted hash of the id, so that a
question about this id can be answered, and the id itself is nowhere.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.state.view import id_key
from wormdb.errors import ConflictError
from wormdb.format.event import DocumentErased
from wormdb.format.past import misc_ms
from wormdb.format.root import ErasedMark
from wormdb.settings import ERASED_MARKS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.format.entry import Entry
    from wormdb.format.root import Root
    from wormdb.system.clock import Chance

__all__ = ["check_unerased", "erasures_of", "following_marks", "mark_of"]

_SALT_BYTES: Final = 16
_DIGEST_BYTES: Final = 16


def erasures_of(entries: Iterable[Entry]) -> dict[bytes, int]:
    """The documents that entries erase, by the keys of their ids, each with the last of these entries. No requests."""
    return {
        id_key(event.id): entry.number
        for entry in entries
        if entry.events
        for event in entry.events
        if isinstance(event, DocumentErased)
    }


def following_marks(root: Root, entries: Iterable[Entry], chance: Chance) -> dict[str, Any]:
    """The fields of the root after `root` that tell of what was erased, when it applies some entries. No requests.

    The newest ERASED_MARKS_MAX marks stay.
    """
    salt = root.erased_salt
    marks = {mark.digest: mark for mark in root.erased}
    through = root.erased_through
    for entry in entries:
        for key, number in erasures_of((entry,)).items():
            salt = salt or chance.token(_SALT_BYTES)
            digest = _digest(salt, key)
            marks.pop(digest, None)
            marks[digest] = ErasedMark(digest, number, misc_ms(entry.misc))
            through = number
    if through == root.erased_through:
        return {}
    kept = tuple(marks.values())[-ERASED_MARKS_MAX:]
    return {"erased": kept, "erased_salt": salt, "erased_through": through}


def mark_of(root: Root, key: bytes) -> ErasedMark | None:
    """The mark of the document with an id's key `key`; None if it was not erased, or very long ago. No requests."""
    if not root.erased:
        return None
    digest = _digest(root.erased_salt, key)
    return next((mark for mark in root.erased if mark.digest == digest), None)


def check_unerased(what: str, planned: int, root: Root) -> None:
    """Raise ConflictError if a document was erased since what is to be published was made of an older root.

    `planned` is `Root.erased_through` of that one: objects that were made of it may hold the document. No requests.
    """
    if root.erased_through > planned:
        raise ConflictError(what, reason=f"entry {root.erased_through} erased a document meanwhile", fix="run it again")


def _digest(salt: bytes, key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES, key=salt).digest()
