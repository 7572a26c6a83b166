"""Every key of the readable files of one collection, and what a key means.

A key is parsed strictly: only what these functions write has a meaning, so a file of another program in the
same folder is never taken for one of wormdb, and neither is the engine's folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from wormdb.engine.log.paths import INDEX_FILES, MANIFEST_FILES
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.files.contents.values import normalize_number
from wormdb.format.segment import decode_folders, decode_segment, encode_folders, encode_segment
from wormdb.schema.path import DEEP, FLAT, SINGLETON_ID, flat_name, is_hidden
from wormdb.settings import SEGMENT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.format.event import FilesSwitched
    from wormdb.schema.model import Layout, Model, StorageDefinition

__all__ = [
    "BUCKET_SENTINEL",
    "META",
    "FileKey",
    "FileKind",
    "FileNames",
    "Placement",
    "id_of",
    "id_text",
    "identity_in",
    "index_key",
    "index_name",
    "manifest_key",
    "read_id_text",
    "short_snapshot_name",
    "snapshot_name",
]


# --- What a key of a readable file means; and the names of the files of tables.

META: Final = "_meta.json"
"""What names the files of a table that is in several."""

FileKind = Literal[
    "entity",
    "oplog",
    "snapshot",
    "trashed",
    "tombstone",
    "manifest",
    "manifest_meta",
    "manifest_partition",
    "index",
    "index_meta",
    "index_partition",
    "sentinel",
]

_JSON: Final = ".json"
_ESCAPED_JSON: Final = "%2Ejson"
_PARTITION: Final = re.compile(r"partition-(0|[1-9][0-9]*)\.json", re.ASCII)


@dataclass(frozen=True, slots=True)
class FileKey:
    """What a key is: its kind, and the parts of its name that the kind has."""

    kind: FileKind
    id: Any = None
    seq: int | None = None
    ts: datetime | None = None
    fields: tuple[str, ...] = ()
    partition: int | None = None
    is_elsewhere: bool = False
    """Whether it would be one of ours in another layout."""


def index_name(fields: Sequence[str]) -> str:
    """The fields of an index as one name. Raises LimitExceededError if that is too long. No requests."""
    names = [encode_segment(name) for name in fields]
    # A folder of one index must not have the name of another's file.
    joined = "+".join([*names[:-1], _guarded(names[-1])])
    if len(joined) > SEGMENT_BYTES_MAX:
        raise LimitExceededError(
            f"the index over {', '.join(fields)} takes {len(joined)} bytes as a name",
            reason=f"SEGMENT_BYTES_MAX is {SEGMENT_BYTES_MAX}",
            fix="index fewer fields, or turn readable files off for this model",
        )
    return joined


def _guarded(name: str) -> str:
    return name.removesuffix(_JSON) + _ESCAPED_JSON if name.endswith(_JSON) else name


def _fields(name: str) -> tuple[str, ...] | None:
    unguarded = name.removesuffix(_ESCAPED_JSON) + _JSON if name.endswith(_ESCAPED_JSON) else name
    try:
        fields = tuple(decode_segment(part) for part in unguarded.split("+"))
        return fields if all(type(field) is str for field in fields) and index_name(fields) == name else None
    except InvalidRequestError:
        return None


def manifest_key(rest: str) -> FileKey | None:
    """What a key is of which `rest` follows `.worm.manifest`; None if it is not one of ours. No requests."""
    if rest == _JSON:
        return FileKey("manifest")
    if rest == f"/{META}":
        return FileKey("manifest_meta")
    found = _PARTITION.fullmatch(rest[1:]) if rest.startswith("/") else None
    return None if found is None else FileKey("manifest_partition", partition=int(found[1]))


def index_key(rest: str) -> FileKey | None:
    """What a key is of which `rest` follows `.worm.index/`; None if it is not one of ours. No requests."""
    name, slash, file = rest.partition("/")
    fields = _fields(name if slash else name.removesuffix(_JSON))
    if fields is None or not (slash or name.endswith(_JSON)):
        return None
    if not slash:
        return FileKey("index", fields=fields)
    if file == META:
        return FileKey("index_meta", fields=fields)
    found = _PARTITION.fullmatch(file)
    return None if found is None else FileKey("index_partition", fields=fields, partition=int(found[1]))


# --- Where the oplog, snapshots and trash of one collection lie: fixed by an entry of its log.


@dataclass(frozen=True, slots=True)
class Placement:
    """The layout of each system folder, and the collection's folder inside those at the root of the bucket."""

    oplog: Layout = "root"
    snapshots: Layout = "root"
    trash: Layout = "root"
    name: str = ""
    """Ends with /: `customers/`, or the whole prefix `archive/customers/`. Only root layouts use it."""

    @classmethod
    def of(cls, storage: StorageDefinition, name: str) -> Placement:
        """As a schema says, with `name` as the folder in root layouts. No requests."""
        return cls(storage.layout_of("oplog"), storage.layout_of("snapshots"), storage.layout_of("trash"), name)

    @classmethod
    def switched(cls, event: FilesSwitched) -> Placement:
        """As the log says. No requests."""
        return cls(event.oplog, event.snapshots, event.trash, event.name)


BUCKET_SENTINEL: Final = ".worm"

_System = Literal["oplog", "snapshots", "trash"]
_FOLDERS: Final[Mapping[_System, str]] = {"oplog": ".oplog/", "snapshots": ".snapshots/", "trash": ".worm.trash/"}
_TOMBSTONE: Final = ".worm.tombstone"
_SENTINEL: Final = ".worm"
_SEQ: Final = re.compile(r"([0-9]{4}|[1-9][0-9]{4,})\.json", re.ASCII)
_MOMENT: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z)\.json", re.ASCII)


def id_text(identity: Any) -> str:
    """An id as it stands in keys, in manifests and in indexes: ASCII, equal exactly for equal ids. No requests.

    Raises InvalidRequestError, LimitExceededError for an id that no key can hold.
    """
    return encode_segment(normalize_number(identity))


def id_of(text: str) -> Any:
    """The id of a text; raises InvalidRequestError for one that `id_text` never gives. No requests."""
    identity = decode_segment(text)
    if id_text(identity) != text:
        raise InvalidRequestError(
            f"{text!r} is not the name of a document",
            reason="the same id has another one",
            fix="leave it out",
            key=text,
        )
    return identity


# --- What keys of other programs mean: a name that we would write in another way is an id as it is.


def identity_in(key: str, model: Model, collection: str) -> Any | None:
    """The id of the document, or of the file of many, that has this key; None for every other key. No requests.

    Names that begin with a dot are system folders.
    """
    rest = key[len(collection) :]
    if model.is_singleton:
        return SINGLETON_ID if rest == model.path.file_name else None
    if model.path.is_deep:
        path = rest.removesuffix(model.path.extension)
        return None if path == rest or is_hidden(path.split("/")) else read_path_text(path)
    if model.path.is_flat:
        name = rest.removesuffix(model.path.extension)
        is_one = rest != name != "" and "/" not in rest and not rest.startswith(".")
        return read_id_text(name) if is_one else None
    folder, slash, name = rest.partition("/")
    if not slash or name != model.path.file_name or folder.startswith("."):
        return None
    return read_id_text(folder)


def read_id_text(text: str) -> Any:
    """The id that a name in a key, a manifest or an index stands for. No requests."""
    if "%" not in text:
        return text
    try:
        return id_of(text)
    except InvalidRequestError:
        return text


def read_path_text(text: str) -> str:
    """The id that folders and a name in a key stand for. No requests."""
    try:
        return decode_folders(text)
    except InvalidRequestError:
        return text


def snapshot_name(ts: datetime) -> str:
    """The name of a snapshot taken at `ts`: `2026-02-24T12:00:00.000000Z.json`. Names sort as times do."""
    assert ts.utcoffset() is not None, "a time must have a zone"
    return f"{ts.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z{_JSON}"


def short_snapshot_name(ts: datetime) -> str:
    """The name that others and earlier releases give it: `2026-02-24T12:00:00Z.json`, a fraction if there is one."""
    text = snapshot_name(ts).removesuffix(f"Z{_JSON}")
    return f"{text.rstrip('0').rstrip('.')}Z{_JSON}"


class FileNames:
    """The keys of one collection; all of them are known without a request."""

    def __init__(self, model: Model, collection: str, placement: Placement, file_name: str = "") -> None:
        """`collection` is its prefix and ends with /; `file_name` is given for one that the model had before."""
        self.model = model
        self.collection = collection
        self.placement = placement
        self.file_name = file_name or model.path.file_name
        self.manifest = f"{collection}{MANIFEST_FILES}{_JSON}"
        self.manifest_meta = f"{collection}{MANIFEST_FILES}/{META}"
        self.sentinel = f"{collection}{_SENTINEL}"
        self.roots = self._roots()
        self._others: tuple[FileNames, ...] | None = None

    def _roots(self) -> tuple[str, ...]:
        """The prefixes that hold all of its files, none inside another."""
        systems: tuple[_System, ...] = ("oplog", "snapshots", "trash")
        at_root = [_FOLDERS[kind] + self.placement.name for kind in systems if self._layout(kind) == "root"]
        return (self.collection, *at_root)

    # --- one document ---

    def entity(self, identity: Any) -> str:
        """The file of a document. Raises as `id_text`."""
        if self._is_deep and isinstance(identity, str):
            self._file_of(identity)  # it must have a place in system folders too
            return self.collection + encode_folders(identity) + self._extension
        if self.file_name.startswith(FLAT) and not self.model.is_singleton:
            return self.collection + self._file_of(identity)
        return self._folder(identity) + self.file_name

    def oplog_folder(self, identity: Any) -> str:
        """The folder of a document's oplog, ending with /. Raises as `id_text`."""
        return self._system("oplog", identity)

    def oplog(self, identity: Any, seq: int) -> str:
        """The file of change `seq` of a document: 0001.json, and more digits from 10000 on. Raises as `id_text`."""
        assert seq >= 1, "changes are counted from 1"
        return f"{self.oplog_folder(identity)}{seq:04d}{_JSON}"

    def snapshot_folder(self, identity: Any) -> str:
        """The folder of a document's snapshots, ending with /. Raises as `id_text`."""
        return self._system("snapshots", identity)

    def snapshot(self, identity: Any, ts: datetime) -> str:
        """The file of a snapshot taken at `ts`. Raises as `id_text`."""
        return self.snapshot_folder(identity) + snapshot_name(ts)

    def trash_folder(self, identity: Any) -> str:
        """The folder of a deleted document, ending with /. Raises as `id_text`."""
        return self._system("trash", identity)

    def trashed(self, identity: Any) -> str:
        """The file of a deleted document. Raises as `id_text`."""
        return self.trash_folder(identity) + self._file_of(identity)

    def tombstone(self, identity: Any) -> str:
        """The file that says when and by whom a document was deleted. Raises as `id_text`."""
        return self.trash_folder(identity) + _TOMBSTONE

    # --- tables ---

    def manifest_partition(self, number: int) -> str:
        """One of the files of a manifest that is in several."""
        return f"{self.collection}{MANIFEST_FILES}/partition-{number}{_JSON}"

    def index(self, fields: Sequence[str]) -> str:
        """The file of an index: named by its field, or by its fields joined by +.

        Raises LimitExceededError if that is too long for a name.
        """
        return f"{self.collection}{INDEX_FILES}{index_name(fields)}{_JSON}"

    def index_meta(self, fields: Sequence[str]) -> str:
        """What names the files of an index that is in several. Raises as `index`."""
        return f"{self.collection}{INDEX_FILES}{index_name(fields)}/{META}"

    def index_partition(self, fields: Sequence[str], number: int) -> str:
        """One of the files of an index that is in several. Raises as `index`."""
        return f"{self.collection}{INDEX_FILES}{index_name(fields)}/partition-{number}{_JSON}"

    # --- what a key means ---

    def parse(self, key: str) -> FileKey | None:
        """What a key is; None if it is not one of ours. No requests."""
        systems: tuple[_System, ...] = ("oplog", "snapshots", "trash")
        for kind in systems:
            if self._layout(kind) == "root" and (rest := _after(key, _FOLDERS[kind] + self.placement.name)) is not None:
                return self._by_entity(kind, rest)
        rest = _after(key, self.collection)
        if rest is None:
            return None
        if rest == _SENTINEL:
            return FileKey("sentinel")
        if rest.startswith(MANIFEST_FILES):
            return manifest_key(rest[len(MANIFEST_FILES) :])
        if rest.startswith(INDEX_FILES):
            return index_key(rest[len(INDEX_FILES) :])
        return self._in_collection(rest)

    @property
    def every_root(self) -> tuple[str, ...]:
        """The prefixes that hold its files in this layout or in any other."""
        at_root = [folder + self.placement.name for folder in _FOLDERS.values()] if self.placement.name else []
        return (self.collection, *at_root)

    def parse_anywhere(self, key: str) -> FileKey | None:
        """As `parse`, and also what a key would be in another layout: a file that was left behind. No requests."""
        found = self.parse(key)
        if found is not None:
            return found
        if self._others is None:
            layouts: tuple[Layout, ...] = ("inline", "collection", "root") if self.placement.name else ()
            places = [Placement(layout, layout, layout, self.placement.name) for layout in layouts]
            self._others = tuple(FileNames(self.model, self.collection, place) for place in places)
        there = next((found for other in self._others if (found := other.parse(key)) is not None), None)
        return None if there is None else replace(there, is_elsewhere=True)

    def _in_collection(self, rest: str) -> FileKey | None:
        systems: tuple[_System, ...] = ("oplog", "snapshots", "trash")
        for kind in systems:
            if self._layout(kind) == "collection" and (below := _after(rest, _FOLDERS[kind])) is not None:
                return self._by_entity(kind, below)
        if self.model.is_singleton:
            return self._in_entity(SINGLETON_ID, rest)
        if self._is_deep and (found := self._deep_entity(rest)) is not None:
            return found
        if self.file_name.startswith(FLAT) and "/" not in rest:
            return None if self._is_deep else self._flat_entity(rest)
        identity, below = _split_id(rest)
        return None if identity is None else self._in_entity(identity, below)

    def _deep_entity(self, rest: str) -> FileKey | None:
        path = rest.removesuffix(self._extension)
        if path == rest or is_hidden(path.split("/")):
            return None
        try:
            return FileKey("entity", decode_folders(path))
        except InvalidRequestError:
            return None

    @property
    def _is_deep(self) -> bool:
        return self.file_name.startswith(DEEP)

    @property
    def _extension(self) -> str:
        return self.file_name.lstrip(FLAT)

    def _flat_entity(self, name: str) -> FileKey | None:
        extension = self._extension
        identity, _ = _split_id(f"{name.removesuffix(extension)}/") if name.endswith(extension) else (None, "")
        return None if identity is None else FileKey("entity", identity)

    def _in_entity(self, identity: Any, rest: str) -> FileKey | None:
        if rest == self.file_name:
            return FileKey("entity", identity)
        systems: tuple[_System, ...] = ("oplog", "snapshots", "trash")
        for kind in systems:
            if self._layout(kind) == "inline" and (name := _after(rest, _FOLDERS[kind])) is not None:
                return self._system_file(kind, identity, name)
        return None

    def _by_entity(self, kind: _System, rest: str) -> FileKey | None:
        identity, name = _split_id(rest)
        if identity is None or (self.model.is_singleton and identity != SINGLETON_ID):
            return None
        return self._system_file(kind, identity, name)

    def _system_file(self, kind: _System, identity: Any, name: str) -> FileKey | None:
        match kind:
            case "oplog":
                found = _SEQ.fullmatch(name)
                return FileKey("oplog", identity, seq=int(found[1])) if found and int(found[1]) else None
            case "snapshots":
                ts = _moment(name)
                return None if ts is None else FileKey("snapshot", identity, ts=ts)
            case "trash":
                if name == _TOMBSTONE:
                    return FileKey("tombstone", identity)
                return FileKey("trashed", identity) if name == self._file_of(identity) else None

    # --- folders ---

    def _layout(self, kind: _System) -> Layout:
        layout: Layout = getattr(self.placement, kind)
        return layout

    def _file_of(self, identity: Any) -> str:
        """The name of a document's file; in a flat path its id is in it. Raises LimitExceededError."""
        if not self.file_name.startswith(FLAT):
            return self.file_name
        return flat_name(id_text(identity), self.file_name)

    def _folder(self, identity: Any) -> str:
        return self.collection if self.model.is_singleton else f"{self.collection}{id_text(identity)}/"

    def _system(self, kind: _System, identity: Any) -> str:
        folder = _FOLDERS[kind]
        if self._layout(kind) == "inline":
            return self._folder(identity) + folder
        above = self.collection + folder if self._layout(kind) == "collection" else folder + self.placement.name
        return f"{above}{id_text(SINGLETON_ID if self.model.is_singleton else identity)}/"


def _after(key: str, prefix: str) -> str | None:
    return key[len(prefix) :] if key.startswith(prefix) else None


def _split_id(rest: str) -> tuple[Any, str]:
    """The id in the first folder of a key and what is behind it; None where no id is."""
    folder, slash, name = rest.partition("/")
    try:
        return (id_of(folder), name) if slash else (None, "")
    except InvalidRequestError:
        return None, ""


def _moment(name: str) -> datetime | None:
    found = _MOMENT.fullmatch(name)
    try:
        ts = None if found is None else datetime.fromisoformat(found[1])
    except ValueError:
        return None
    return ts if ts is not None and name in {snapshot_name(ts), short_snapshot_name(ts)} else None
