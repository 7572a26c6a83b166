"""Two-phase removal: BUCKET.REMOVE and PURGE, NAMESPACE REMOVE and PURGE.

REMOVE is an entry of the log: from then on every commit is refused, in every process. PURGE deletes what it had, once
other processes have seen that; until then it is BARRIERNOTSATISFIED. A namespace is its marker, which says that it was
removed, and then all collections in it and below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError, NotFoundError, RemovedError
from wormdb.server.commands import Command
from wormdb.server.faults import being_removed, no_bucket
from wormdb.server.namespaces import (
    check_inhabited,
    check_kept,
    check_namespace,
    delete_markers,
    is_removed_namespace,
    list_below,
    mark_removed,
)
from wormdb.server.replies import OK, ErrorReply
from wormdb.server.session import GLOBAL

if TYPE_CHECKING:
    from wormdb.server.session import ClientSession

__all__ = ["REMOVAL_COMMANDS", "allowed_namespace", "purge_namespace", "refuse_move", "remove_namespace"]


def remove(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.REMOVE bucket."""
    bucket = session.bucket(words[1])
    try:
        number = session.service.database.removal(bucket.prefix.rstrip("/")).remove()
    except RemovedError as error:
        raise being_removed(bucket.name) from error
    except NotFoundError as error:
        raise no_bucket(bucket.name) from error
    finally:
        session.service.forget(bucket)
    session.service.router.tell_removed(bucket.prefix, number)
    return OK


def purge(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.PURGE bucket."""
    bucket = session.bucket(words[1])
    removal = session.service.database.removal(bucket.prefix.rstrip("/"))
    try:
        removal.check_barrier()
    except InvalidRequestError as error:
        if not removal.exists():
            raise no_bucket(bucket.name) from error
        raise ErrorReply(f"Bucket '{bucket.name}' must be logically removed before purge") from error
    try:
        removal.purge()
    finally:
        session.service.forget(bucket)
    return OK


# --- namespaces ---


def allowed_namespace(session: ClientSession, namespace: str, *, write: bool = False) -> str:
    """A namespace that the user of a session may read, or write to; an ErrorReply for any other."""
    if not session.account.may(namespace, write=write):
        raise ErrorReply(f"this user has no permissions to access the namespace '{namespace}'", "NOPERM")
    return namespace


def _doomed(session: ClientSession, word: bytes) -> str:
    namespace = allowed_namespace(session, check_namespace(word), write=True)
    if namespace == GLOBAL:
        raise ErrorReply(f"Cannot remove the default namespace: '{GLOBAL}'")
    return namespace


def remove_namespace(session: ClientSession, words: list[bytes]) -> Any:
    """NAMESPACE REMOVE path."""
    service = session.service
    store, namespace = service.database.store, _doomed(session, words[2])
    check_kept(store, namespace)
    check_inhabited(store, namespace)
    # First the marker: whatever is made in it after that is refused, or is found by the purge.
    mark_removed(store, namespace, service.chance)
    for folder in list_below(store, namespace):
        _remove_collection(session, folder)
    return OK


def _remove_collection(session: ClientSession, folder: str) -> bool:
    """Whether a collection had to be removed."""
    try:
        number = session.service.database.removal(folder.rstrip("/")).remove()
    except NotFoundError:  # it was removed before, or is not there
        return False
    session.service.router.tell_removed(folder, number)
    return True


def purge_namespace(session: ClientSession, words: list[bytes]) -> Any:
    """NAMESPACE PURGE path."""
    database = session.service.database
    store, namespace = database.store, _doomed(session, words[2])
    if not is_removed_namespace(store, namespace):
        check_inhabited(store, namespace)
        raise ErrorReply(f"Namespace '{namespace}' must be logically removed before purge")
    folders = list_below(store, namespace)
    # One may have been made while the marker was swapped.
    if [folder for folder in folders if _remove_collection(session, folder)]:
        raise ErrorReply("a bucket was removed only now: retry later", "BARRIERNOTSATISFIED")
    removals = [database.removal(folder.rstrip("/")) for folder in folders]
    closed = [removal for removal in removals if removal.is_removed()]
    for removal in closed:
        removal.check_barrier()
    for removal in closed:
        removal.purge()
    delete_markers(store, namespace)
    return OK


def refuse_move(session: ClientSession, words: list[bytes]) -> Any:
    """NAMESPACE MOVE old new."""
    namespace = _doomed(session, words[2])
    check_inhabited(session.service.database.store, namespace)
    raise ErrorReply(
        "NAMESPACE MOVE is not supported: a bucket cannot rename folders. Make a new namespace, and copy its buckets"
    )


def _one(name: str, summary: str, run: Any) -> Command:
    return Command(
        name,
        "bucket",
        summary,
        run,
        least=1,
        most=1,
        place="thread",
        is_write=True,
        bucket_at=1,
        group="bucket",
    )


REMOVAL_COMMANDS: Final = (
    _one("BUCKET.REMOVE", "Remove a bucket: it takes no more writes, and has no documents.", remove),
    _one("BUCKET.PURGE", "Delete all that a removed bucket had; its name is free then.", purge),
)
