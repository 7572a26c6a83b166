"""Paths of files below a folder and a bucket: which are synced, which part of the index has one, what a scope means.

A path is relative, with `/`, and is the key of its object too. The index is cut into parts, so that clients with
different files do not meet: `data/<type>/<id>` is a part, so is every other folder at the top, and what lies at the top
itself. How deep the cut is, a manifest says for all clients (`depths`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "DEPTHS",
    "ENGINE_FOLDER",
    "INDEX_FOLDER",
    "LISTINGS",
    "LOCK",
    "MANIFEST",
    "MODEL_FOLDERS",
    "MONOLITH",
    "OLD_PARTS",
    "READABLE_FOLDERS",
    "SCHEMA_FILE",
    "STATE_FOLDER",
    "WHOLE",
    "SyncScope",
    "check_path",
    "collection_of",
    "is_internal",
    "is_lazy",
    "part_key",
    "part_of",
]

INDEX_FOLDER: Final = ".datastore-index/"
MANIFEST: Final = ".datastore-index/_manifest.json"
LISTINGS: Final = ".datastore-index/_parts/"
"""Where notes of parts are that a manifest names; no part is called so."""
MONOLITH: Final = ".datastore-index.json"
"""The index of clients before there were parts; kept for them as a shim."""
OLD_PARTS: Final = "_index/"
"""The parts of swamp's own clients."""
LOCK: Final = ".datastore.lock"
STATE_FOLDER: Final = ".worm.sync/"
DEPTHS: Final[Mapping[str, int]] = {"data": 3}
"""Folders at the top that are cut deeper than one level."""
MODEL_FOLDERS: Final = ("data", "outputs", "definitions-evaluated")
"""Where the files of a model are, below its type and its id."""

SCHEMA_FILE: Final = ".worm.schema.json"
"""The published schema of a database: a file as others are."""
ENGINE_FOLDER: Final = ".worm.db"
"""A folder that has it is a collection."""
READABLE_FOLDERS: Final = (".oplog", ".snapshots")
"""Folders at the top that belong to collections with readable files."""
_TOP: Final = "_top"
_INTERNAL_FILES: Final = frozenset({MONOLITH, ".push-queue.json", LOCK, ".datastore-sync-state.json"})
_INTERNAL_FOLDERS: Final = (INDEX_FOLDER, OLD_PARTS, "_control/")
_OWN: Final = ".worm."
"""How names begin that a database and the sync keep for themselves, at any depth; of them only the schema is a file."""
_INTERNAL_NAMES: Final = frozenset({".lock", ".namespace.json", "_catalog.db", ".worm"})
_TEMPORARY: Final = re.compile(r"\..*\.tmp")


def is_internal(path: str) -> bool:
    """Whether a path belongs to the sync itself, or to clients of swamp: it goes neither way."""
    name = path[path.rfind("/") + 1 :]
    return (
        path in _INTERNAL_FILES
        or path.startswith(_INTERNAL_FOLDERS)
        or ((path.startswith(_OWN) or f"/{_OWN}" in path) and path != SCHEMA_FILE)
        or name in _INTERNAL_NAMES
        or name.startswith("_catalog.db-")
        or (name.startswith(".") and _TEMPORARY.fullmatch(name) is not None)
    )


def collection_of(key: str) -> str | None:
    """The collection whose object a key is; None for a file."""
    folder, found, _ = key.partition(f"/{ENGINE_FOLDER}/")
    return folder if found else None


def check_path(path: str) -> str:
    """A path that an index names, if it stays below the folder; raises InvalidRequestError for one that does not."""
    if path.startswith("/") or re.match("[A-Za-z]:", path) or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidRequestError(
            f"path {path!r} of the index",
            reason="it leads out of the folder",
            fix="run worm sync doctor --repair, which drops such entries",
        )
    from wormdb.storage.store import check_key  # a push that has nothing to do needs no store

    return check_key(path)


def is_lazy(path: str) -> bool:
    """Whether a lazy pull leaves a file out: the bodies of data, which can be fetched one by one."""
    parts = path.split("/")
    return parts[0] == "data" and parts[-1] == "raw" and len(parts) > len(MODEL_FOLDERS)


def part_of(path: str, depths: Mapping[str, int]) -> str:
    """The part of the index that has a path: its first folders, each encoded, or `_top` for a file at the top."""
    *folders, _ = path.split("/")
    if not folders:
        return _TOP
    return "/".join(_encoded(folder) for folder in folders[: depths.get(folders[0], 1)])


def part_key(part: str, life: int = 0) -> str:
    """The object of a part; `life` sets a part that was removed and is there again apart from what it was."""
    return f"{INDEX_FOLDER}{part}{f'~{life}' if life else ''}.json"


@lru_cache(maxsize=4_096)
def _encoded(folder: str) -> str:
    """A folder as it stands in a part's name: no name of ours is taken, and none ends as an object does."""
    name = quote(folder, safe="@ +=,()")
    if name.startswith(("_", ".")):
        name = f"%{ord(name[0]):02X}{name[1:]}"
    return f"{name[:-5]}%2E{name[-4:]}" if name.lower().endswith(".json") else name.replace("~", "%7E")


@dataclass(frozen=True, slots=True)
class SyncScope:
    """Which paths are meant: those below some folders, or single files; all of them if there are none."""

    prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, scope: Any = None) -> SyncScope:
        """From a path, from {"type": …, "id": …} of a model, from several of these, or None for everything.

        A path means the file of that name and everything below it. Raises InvalidRequestError.
        """
        if scope is None or isinstance(scope, SyncScope):
            return scope or WHOLE
        found: list[str] = []
        for each in (scope,) if isinstance(scope, str | dict) else tuple(scope):
            found += _model_prefixes(each) if isinstance(each, dict) else [_prefix(each)]
        return WHOLE if "" in found else cls(tuple(sorted(set(found))))

    @property
    def is_whole(self) -> bool:
        """Whether it means everything."""
        return not self.prefixes

    def holds(self, path: str) -> bool:
        """Whether a path is meant."""
        return not self.prefixes or any(path == each or path.startswith(f"{each}/") for each in self.prefixes)

    def covers(self, part: str, depths: Mapping[str, int]) -> bool:
        """Whether all paths of a part are meant."""
        return not self.prefixes or any(
            part == mine or part.startswith(f"{mine}/") for mine in self._encoded_within(depths)
        )

    def touches(self, part: str, depths: Mapping[str, int]) -> bool:
        """Whether a part may have paths that are meant."""
        if self.covers(part, depths):
            return True
        return any(part in (part_of(each, depths), part_of(f"{each}/x", depths)) for each in self.prefixes)

    def _encoded_within(self, depths: Mapping[str, int]) -> Iterable[str]:
        """The prefixes that are not deeper than the parts below them."""
        for each in self.prefixes:
            folders = each.split("/")
            if len(folders) <= depths.get(folders[0], 1):
                yield "/".join(map(_encoded, folders))


WHOLE: Final = SyncScope()


def _prefix(text: str) -> str:
    path = text.removeprefix("./").strip("/")
    if path in ("", "."):
        return ""
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidRequestError(f"scope {text!r}", reason="it must be a path below the folder, without ..")
    return path


def _model_prefixes(model: Mapping[str, str]) -> list[str]:
    kind, identity = model.get("type", model.get("modelType")), model.get("id", model.get("modelId"))
    if not kind or not identity:
        raise InvalidRequestError(
            f"scope {dict(model)!r}",
            reason="a model has a type and an id",
            fix='write {"type": "aws-ec2", "id": "i-1"}',
        )
    return [_prefix(f"{folder}/{kind}/{identity}") for folder in MODEL_FOLDERS]
