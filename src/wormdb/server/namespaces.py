"""Namespaces: folders of the database. `global` is its root, `a.b` the folder a/b, which holds buckets and namespaces.

A namespace is there if its marker is, or a collection below it. The marker is an object that says nothing, but for one
that was removed: until it is purged, nothing is made in it or below it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.log.paths import ENGINE_FOLDER, REMOVED_MARK
from wormdb.errors import ConflictError, NotFoundError
from wormdb.maintenance.removal import is_gone
from wormdb.server.replies import ErrorReply
from wormdb.storage.readback import put_swapped

if TYPE_CHECKING:
    from wormdb.storage.store import Store
    from wormdb.system.clock import Chance
    from wormdb.system.types import Version

__all__ = [
    "DEPTH_MAX",
    "NAMESPACE_MARKER",
    "check_inhabited",
    "check_kept",
    "check_namespace",
    "create_namespace",
    "delete_markers",
    "folder_of_namespace",
    "has_namespace",
    "is_removed_namespace",
    "list_below",
    "list_buckets",
    "list_namespaces",
    "mark_removed",
]

DEPTH_MAX: Final = 10
NAMESPACE_MARKER: Final = ".worm.namespace"
_GLOBAL: Final = "global"
_RESERVED: Final = "__internal__"
_PART: Final = re.compile(r"[^./\\\x00-\x1f\x7f]{1,100}")


def folder_of_namespace(namespace: str) -> str:
    """Its folder, empty or ending with /."""
    return "" if namespace == _GLOBAL else namespace.replace(".", "/") + "/"


def check_namespace(path: bytes) -> str:
    """A path that a namespace may have; an ErrorReply for any other."""
    text = path.decode("utf-8", "replace")
    parts = text.split(".")
    if len(parts) > DEPTH_MAX:
        raise ErrorReply(f"Namespace depth exceeds maximum allowed depth of {DEPTH_MAX}")
    if _RESERVED in parts:
        raise ErrorReply(f"Namespace '{_RESERVED}' is reserved for internal use")
    if not all(_PART.fullmatch(part) for part in parts):
        raise ErrorReply(f"Invalid namespace: '{text}'")
    return text


def create_namespace(store: Store, namespace: str, chance: Chance) -> None:
    """Make a namespace, and those above it. 1 PUT for each of them, and 1 LIST. An ErrorReply if it is there."""
    if has_namespace(store, namespace):
        raise ErrorReply(f"Namespace already exists: {namespace}", "NAMESPACEALREADYEXISTS")
    parts = namespace.split(".")
    for depth in range(1, len(parts) + 1):
        key = folder_of_namespace(".".join(parts[:depth])) + NAMESPACE_MARKER
        body = b'{"write":"%b"}' % chance.token(16).hex().encode()
        try:
            put_swapped(store, key, body, None, what="namespace", content_type="application/json")
        except ConflictError:
            if depth == len(parts):
                raise ErrorReply(f"Namespace already exists: {namespace}", "NAMESPACEALREADYEXISTS") from None


def has_namespace(store: Store, namespace: str) -> bool:
    """Whether a namespace is there. 1 HEAD, and 1 LIST for each folder below it until a collection is found."""
    if namespace == _GLOBAL:
        return True
    folder = folder_of_namespace(namespace)
    try:
        store.head(folder + NAMESPACE_MARKER)
    except NotFoundError:
        return _is_inhabited(store, folder)
    return True


def check_inhabited(store: Store, namespace: str) -> None:
    """An ErrorReply if a namespace is not there. Costs as `has_namespace`."""
    if not has_namespace(store, namespace):
        raise ErrorReply(f"No such namespace: '{namespace}'", "NOSUCHNAMESPACE")


# --- the end of a namespace ---


class _Marker(msgspec.Struct):
    """What is in a marker."""

    write: str
    """Of one write; never used again, so that no two markers have equal bytes."""
    removed: bool = False


def _read_marker(store: Store, namespace: str) -> tuple[_Marker | None, Version | None]:
    found = store.probe(folder_of_namespace(namespace) + NAMESPACE_MARKER).found
    if found is None:
        return None, None
    try:
        return msgspec.json.decode(found.body, type=_Marker), found.version
    except msgspec.DecodeError:  # of another program: it says that the namespace is there
        return None, found.version


def is_removed_namespace(store: Store, namespace: str) -> bool:
    """Whether this very namespace was removed, and not purged yet. 1 GET."""
    marker, _ = _read_marker(store, namespace)
    return marker is not None and marker.removed


def check_kept(store: Store, namespace: str) -> None:
    """An ErrorReply if a namespace, or one above it, is being removed. 1 GET for each of them."""
    if namespace == _GLOBAL:
        return
    parts = namespace.split(".")
    for depth in range(1, len(parts) + 1):
        if is_removed_namespace(store, ".".join(parts[:depth])):
            raise ErrorReply(f"Namespace '{namespace}' is being removed", "NAMESPACEBEINGREMOVED")


def mark_removed(store: Store, namespace: str, chance: Chance) -> None:
    """Swap the marker of a namespace for one that says that it was removed. 1 GET and 1 PUT.

    Raises ConflictError if another process swapped it meanwhile, UnavailableError, OutcomeUnknownError.
    """
    _, version = _read_marker(store, namespace)
    body = msgspec.json.encode(_Marker(chance.token(16).hex(), removed=True))
    key = folder_of_namespace(namespace) + NAMESPACE_MARKER
    put_swapped(store, key, body, version, what="namespace", content_type="application/json")


def list_below(store: Store, namespace: str) -> list[str]:
    """The folders of all collections in a namespace and below it, those being removed too. 1 LIST for each folder."""
    return [folder for folder in _folders(store, namespace) if _holds_log(store, folder, is_finished=True)]


def delete_markers(store: Store, namespace: str) -> None:
    """Delete the markers of all namespaces below one, then its own. 1 LIST for each folder, 1 DELETE for each."""
    own = folder_of_namespace(namespace)
    inner = [folder for folder in _folders(store, namespace) if folder != own]
    for folder in [*reversed(inner), own]:
        store.delete(folder + NAMESPACE_MARKER)


def _folders(store: Store, namespace: str) -> list[str]:
    """The folder of a namespace, and those below it down to collections, those nearer to it first."""
    depth, found = [folder_of_namespace(namespace)], list[str]()
    while depth:
        found += depth
        depth = [f"{folder}{name}/" for folder in depth for name in _children(store, folder)]
        if len(found) > 1 and max(folder.count("/") for folder in found) > DEPTH_MAX + 2:
            break
    return found


def list_buckets(store: Store, namespace: str) -> list[str]:
    """The buckets of a namespace, in order. 1 LIST, and 1 for each folder in it."""
    folder = folder_of_namespace(namespace)
    return [name for name in _children(store, folder) if _holds_log(store, f"{folder}{name}/")]


def list_namespaces(store: Store, namespace: str | None) -> list[str]:
    """The names right below a namespace, or below none, in order. Costs as `has_namespace` for each folder there."""
    folder = "" if namespace is None else folder_of_namespace(namespace)
    found = [name for name in _children(store, folder) if _is_namespace(store, f"{folder}{name}/")]
    return sorted({*found, _GLOBAL}) if namespace is None else ([] if namespace == _GLOBAL else found)


def _children(store: Store, folder: str) -> list[str]:
    names = [
        prefix.removeprefix(folder).rstrip("/")
        for page in store.list(folder, delimiter="/")
        for prefix in page.prefixes
    ]
    return [name for name in names if not name.startswith(".")]


def _holds_log(store: Store, folder: str, *, is_finished: bool = False) -> bool:
    """Whether there is a collection, not purged. 1 LIST, and 1 or 2 GETs where one was removed once.

    With `is_finished` a purge that broke off does not count either.
    """
    pages = list(store.list(folder, delimiter="/"))
    if not any(folder + ENGINE_FOLDER in page.prefixes for page in pages):
        return False
    is_marked = any(info.key == folder + REMOVED_MARK for page in pages for info in page.objects)
    return not (is_marked and is_gone(store, folder, is_finished=is_finished))


def _is_namespace(store: Store, folder: str) -> bool:
    try:
        store.head(folder + NAMESPACE_MARKER)
    except NotFoundError:
        return not _holds_log(store, folder) and _is_inhabited(store, folder)
    return True


def _is_inhabited(store: Store, folder: str) -> bool:
    """Whether a collection lies below a folder that is none."""
    depth = [folder]
    for _ in range(DEPTH_MAX + 1):
        inner: list[str] = []
        for below in depth:
            for name in _children(store, below):
                if _holds_log(store, f"{below}{name}/"):
                    return True
                inner.append(f"{below}{name}/")
        if not inner:
            return False
        depth = inner
    return False
