"""Paths that fit files which others wrote: found by their keys alone.

Folders of dates (`2024/05/17`, `2024-05-17`) and of partitions (`year=2024`) are not collections: what lies in them
belongs to the folder above the first of them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError
from wormdb.format.segment import decode_folders, decode_segment
from wormdb.schema.path import DEEP, FOLDERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["PathProposal", "has_data", "propose_paths", "show_keys"]

_PLAIN: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?", re.ASCII)
_FILE: Final = re.compile(r"([A-Za-z0-9_-]+)(\.json)", re.ASCII)
_EXTENSION: Final = ".json"
_EXTENSIONS: Final = (".json", ".ndjson", ".jsonl", ".json.gz", ".ndjson.gz", ".jsonl.gz")
_TABLES: Final = (".parquet", ".csv", ".tsv", ".avro", ".orc", ".csv.gz", ".tsv.gz")
_PARTITION: Final = re.compile(r"(19|20)[0-9]{2}(-?[0-9]{2}(-?[0-9]{2})?)?|[A-Za-z_][A-Za-z0-9_]*=.*", re.ASCII)
"""The first folder of a date, or one that is called as Hive calls a partition."""
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class PathProposal:
    """One path, and the keys that it fits."""

    folder: str
    """The path of the collection: `#org/@users`."""
    suffix: str
    """What follows the id: `.json` of a flat path, `/[profile].json` of one with a folder for each document.

    `**.json` if the id has folders.
    """
    keys: tuple[str, ...]

    @property
    def path(self) -> str:
        """The whole path, with ids of any text."""
        kind = FOLDERS if self.suffix.startswith(DEEP) else "string"
        return f"{self.folder}/(id:{kind}){self.suffix.removeprefix(DEEP)}"

    @property
    def collection_name(self) -> str:
        """The folder of the collection."""
        return self.folder.rpartition("@")[2]

    def id_of(self, key: str) -> Any:
        """The id that a key tells: of its document, or of its file if that has many."""
        if self.suffix.startswith(DEEP):
            path = "/".join(key.removesuffix(self.suffix.removeprefix(DEEP)).split("/")[self.folder.count("/") + 1 :])
            try:
                return decode_folders(path)
            except InvalidRequestError:
                return path
        *_, folder, file = key.split("/")
        name = folder if self.suffix.startswith("/") else file.removesuffix(self.suffix)
        try:
            return decode_segment(name)
        except InvalidRequestError:
            return name


def propose_paths(keys: Iterable[str]) -> list[PathProposal]:
    """The paths that fit files of JSON and of lines of JSON, packed or not, the one with most files first. No requests.

    A file that has the same name in several folders is that of a folder for each document; other files are called as
    their documents are. A folder that differs where all others are the same is an outer part of the path. Files that
    lie in no folder fit none, and names with a dot or a line first are other programs' own.
    """
    split = [key.split("/") for key in keys if key.endswith(_EXTENSIONS)]
    split = [parts for parts in split if len(parts) > 1 and not any(part.startswith((".", "_")) for part in parts)]
    found, split = _deep(split)
    above = Counter((*parts[:-2], parts[-1]) for parts in split if len(parts) > 2)
    siblings = Counter(tuple(parts[:-1]) for parts in split)
    for parts in split:
        file = _FILE.fullmatch(parts[-1])
        is_nested = len(parts) > 2 and above[(*parts[:-2], parts[-1])] > siblings[tuple(parts[:-1])]
        if is_nested and file is not None:
            found[tuple(parts[:-2]), f"/[{file[1]}]{file[2]}"].append("/".join(parts))
        else:
            found[tuple(parts[:-1]), _extension(parts[-1])].append("/".join(parts))
    return sorted(_joined(found), key=lambda each: (-len(each.keys), each.path))


def _deep(split: list[list[str]]) -> tuple[dict[tuple[tuple[str, ...], str], list[str]], list[list[str]]]:
    """Files below folders of dates or partitions, by collection and extension; and all others.

    A folder is such a collection if all folders in it are of that kind; files right in it are of the same.
    """
    children: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for parts in split:
        for place in range(1, len(parts) - 1):
            children[tuple(parts[:place])].add(parts[place])
    deep = {folder for folder, names in children.items() if all(map(_PARTITION.fullmatch, names))}
    found: dict[tuple[tuple[str, ...], str], list[str]] = defaultdict(list)
    others = []
    for parts in split:
        folder = next((each for place in range(1, len(parts)) if (each := tuple(parts[:place])) in deep), None)
        if folder is None:
            others.append(parts)
        else:
            found[folder, DEEP + _extension(parts[-1])].append("/".join(parts))
    return found, others


def _extension(file: str) -> str:
    return next(each for each in reversed(_EXTENSIONS) if file.endswith(each))


def has_data(key: str) -> bool:
    """Whether a file may hold documents or records, by its name. No requests."""
    return key.endswith((*_EXTENSIONS, *_TABLES))


def _joined(found: dict[tuple[tuple[str, ...], str], list[str]]) -> Iterable[PathProposal]:
    """Collections that differ in one outer folder become one path; those that no path can name are left out."""
    alike: dict[tuple[tuple[str, ...], str], dict[tuple[str, ...], list[str]]] = defaultdict(dict)
    for (folders, suffix), keys in found.items():
        for place in range(1, len(folders) - 1):
            alike[(*folders[:place], "", *folders[place + 1 :]), suffix][folders] = keys
    taken: set[tuple[tuple[str, ...], str]] = set()
    for (pattern, suffix), several in sorted(alike.items(), key=lambda item: -len(item[1])):
        own = {folders: keys for folders, keys in several.items() if (folders, suffix) not in taken}
        path = _folder_path(pattern)
        if len(own) > 1 and path is not None:
            taken |= {(folders, suffix) for folders in own}
            yield PathProposal(path, suffix, tuple(key for keys in own.values() for key in keys))
    for (folders, suffix), keys in found.items():
        path = _folder_path(folders)
        if (folders, suffix) not in taken and path is not None:
            yield PathProposal(path, suffix, tuple(keys))


def _folder_path(folders: Sequence[str]) -> str | None:
    """The path of a collection; an empty name is an outer part. None if no path can name it."""
    if not folders or not all(name == "" or _PLAIN.fullmatch(name) for name in folders):
        return None
    outer = [f"#{name}" if name else f"(part{place}:string)" for place, name in enumerate(folders[:-1])]
    return "/".join([*outer, f"@{folders[-1]}"])


def show_keys(keys: Sequence[str]) -> str:
    """Some keys, for people: three of them, from the beginning, the middle and the end. No requests."""
    places = sorted({0, len(keys) // 2, len(keys) - 1}) if keys else []
    return ", ".join(keys[place] for place in places[:_SHOWN])
