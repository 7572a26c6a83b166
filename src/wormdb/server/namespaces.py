"""Namespaces: folders of the database. `global` is its root, `a.b` the folder a/b, which holds buckets and namespaces.

A namespace is there if its marker is, or a collection below it. The marker is an object that says nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from wormdb.engine.log.paths import ENGINE_FOLDER
from wormdb.errors import ConflictError, NotFoundError
from wormdb.server.replies import ErrorReply
from wormdb.storage.readback import put_swapped

if TYPE_CHECKING:
    from wormdb.storage.store import Store
    from wormdb.system.clock import Chance

__all__ = [
    "DEPTH_MAX",
    "NAMESPACE_MARKER",
    "check_namespace",
    "create_namespace",
    "folder_of_namespace",
    "has_namespace",
    "list_buckets",
    "list_namespaces",
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


def _holds_log(store: Store, folder: str) -> bool:
    return any(folder + ENGINE_FOLDER in page.prefixes for page in store.list(folder, delimiter="/"))


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
