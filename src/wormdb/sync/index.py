"""What lies in the bucket beside the files: the manifest, its parts, and the forms that older clients have.

All of it is JSON that people can read. Every object that is swapped has a nonce that never repeats, so that no
two of its states are equal, and a write can be known again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from wormdb.errors import CorruptionError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from wormdb.system.types import Version

__all__ = [
    "FileEntry",
    "HeldManifest",
    "IndexPart",
    "Manifest",
    "Monolith",
    "OldPart",
    "OldParts",
    "PartListing",
    "PartNote",
    "PartNotes",
    "Shim",
    "StoredManifest",
    "decode_listing",
    "decode_manifest",
    "decode_monolith",
    "decode_part",
    "digest_of",
    "encode",
    "iso_time",
    "milliseconds_of",
]

VERSION: Final = 2
LISTED_VERSION: Final = 3
"""Of a manifest that has a listing: a client that knows none would take most of the parts for removed."""


class FileEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """One file as the bucket has it. `version` is that of its object; without `sha256` its content is not known."""

    key: str
    size: int
    last_modified: str
    sha256: str | None = None
    version: str | None = None
    local_mtime: str | None = None
    """Of older clients; kept as it is."""
    deleted: int | None = None
    """When the file was deleted, in milliseconds of the store's time: the entry is a tombstone."""
    by: str | None = None
    """The client that deleted it."""

    @property
    def is_there(self) -> bool:
        """Whether there is a file."""
        return self.deleted is None

    @property
    def identity(self) -> str:
        """What two entries of equal content share; of unknown content nothing else does."""
        return self.sha256 or f"{self.size}@{self.last_modified}"


class IndexPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One part of the index: all files below some folders."""

    version: Annotated[int, Meta(le=VERSION)] = VERSION
    partition: str
    seq: int
    """Grows with every write; a part that begins does so at the time of the store."""
    nonce: str
    updated_at: str
    entries: dict[str, FileEntry]
    closed: int = 0
    """When it was removed, in milliseconds: its object goes, and what comes later has another, named by this."""


class PartNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """What the manifest says of a part; the part itself is right where they differ."""

    key: str
    seq: int
    nonce: str
    count: int


class Shim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The old form, kept for older clients: a digest of what was last written there."""

    digest: str
    written_at: str


class PartListing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Notes of parts as they were at one moment, in an object that is never changed: a manifest names it."""

    version: Annotated[int, Meta(le=LISTED_VERSION)] = LISTED_VERSION
    kind: str = "datastore-listing"
    key: str
    """Its own object."""
    partitions: dict[str, PartNote]


class PartNotes(Mapping[str, PartNote]):
    """The notes of all parts: those of a listing, and what changed since. A change costs the same however many."""

    __slots__ = ("_added", "listing", "own", "removed")

    def __init__(
        self,
        own: dict[str, PartNote] | None = None,
        listing: PartListing | None = None,
        removed: Collection[str] = (),
    ) -> None:
        """`own` are those that the listing does not have, or has otherwise; all of them without one."""
        self.own = own or {}
        self.listing = listing
        listed = {} if listing is None else listing.partitions
        self.removed = frozenset(name for name in removed if name in listed)
        self._added = sum(name not in listed for name in self.own)

    def __getitem__(self, name: str) -> PartNote:
        """Raises KeyError."""
        found = self.own.get(name)
        if found is not None:
            return found
        if self.listing is None or name in self.removed:
            raise KeyError(name)
        return self.listing.partitions[name]

    def __iter__(self) -> Iterator[str]:
        """Each part once."""
        listed = () if self.listing is None else self.listing.partitions
        yield from (name for name in listed if name not in self.removed)
        yield from (name for name in self.own if name not in listed)

    def __len__(self) -> int:
        """How many parts there are."""
        listed = 0 if self.listing is None else len(self.listing.partitions)
        return listed - len(self.removed) + self._added

    @property
    def weight(self) -> int:
        """How many of them the listing does not tell."""
        return len(self.own) + len(self.removed)

    def changed(self, notes: Mapping[str, PartNote | None]) -> PartNotes:
        """With other notes of some parts; None: there is no such part."""
        gone = {name for name, note in notes.items() if note is None}
        own = self.own | {name: note for name, note in notes.items() if note is not None}
        return PartNotes(
            {name: note for name, note in own.items() if name not in gone},
            self.listing,
            (self.removed - notes.keys()) | gone,
        )


class StoredManifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A manifest as it is stored: without what its listing says too."""

    version: Annotated[int, Meta(le=LISTED_VERSION)]
    kind: str
    seq: int
    nonce: str
    updated_at: str
    depths: dict[str, int]
    partitions: dict[str, PartNote]
    """Those that the listing does not have, or has otherwise; all of them without one."""
    listing: str | None = None
    removed: list[str] = []
    """Parts of the listing that are not there any more."""
    lives: dict[str, int] = {}
    shim: Shim | None = None
    collections: list[str] = []


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Names the parts. `seq` counts its states."""

    kind: str = "datastore-manifest"
    seq: int
    nonce: str
    updated_at: str
    depths: dict[str, int]
    partitions: PartNotes = PartNotes()
    lives: dict[str, int] = {}
    """Parts that were removed, and when, in milliseconds: what comes under such a name has an object named by it."""
    shim: Shim | None = None
    collections: list[str] = []
    """Folders of the bucket that are collections of a database: not files, and in no part."""

    def stored(self) -> StoredManifest:
        """As it is written."""
        notes = self.partitions
        return StoredManifest(
            version=VERSION if notes.listing is None else LISTED_VERSION,
            kind=self.kind,
            seq=self.seq,
            nonce=self.nonce,
            updated_at=self.updated_at,
            depths=self.depths,
            partitions=notes.own,
            listing=None if notes.listing is None else notes.listing.key,
            removed=sorted(notes.removed),
            lives=self.lives,
            shim=self.shim,
            collections=self.collections,
        )


@dataclass(frozen=True, slots=True)
class HeldManifest:
    """A manifest, and the version of its object; None before it is written first."""

    manifest: Manifest
    version: Version | None


class Monolith(msgspec.Struct, kw_only=True, rename="camel"):
    """The index in one object, as clients have it that know no parts."""

    version: int = 1
    last_pulled: str = ""
    entries: dict[str, FileEntry] = {}


class OldParts(msgspec.Struct, kw_only=True, rename="camel"):
    """The list of parts of swamp's own clients; version 1 beside a monolith that is right, 2 without."""

    version: int = 1
    partitions: list[str] = []


class OldPart(msgspec.Struct, kw_only=True, rename="camel"):
    """One of their parts."""

    version: int = 1
    entries: dict[str, FileEntry] = {}


class _Versioned(msgspec.Struct):
    version: int = 0


T = TypeVar("T", bound=msgspec.Struct)
_MANIFEST: Final = msgspec.json.Decoder(StoredManifest)
_LISTING: Final = msgspec.json.Decoder(PartListing)
_PART: Final = msgspec.json.Decoder(IndexPart)


def encode(value: msgspec.Struct) -> bytes:
    """The bytes of one of these."""
    return msgspec.json.encode(value)


def decode_manifest(body: bytes, name: str, listing_of: Callable[[str], PartListing]) -> Manifest:
    """With the notes of its listing, which is asked for by its key if it has one.

    Raises CorruptionError, and UnsupportedFormatError for a newer version.
    """
    found = _decoded(_MANIFEST, body, name)
    listing = None if found.listing is None else listing_of(found.listing)
    return Manifest(
        kind=found.kind,
        seq=found.seq,
        nonce=found.nonce,
        updated_at=found.updated_at,
        depths=found.depths,
        partitions=PartNotes(found.partitions, listing, found.removed),
        lives=found.lives,
        shim=found.shim,
        collections=found.collections,
    )


def decode_listing(body: bytes, name: str) -> PartListing:
    """Raises CorruptionError, and UnsupportedFormatError for a newer version."""
    return _decoded(_LISTING, body, name)


def decode_part(body: bytes, name: str) -> IndexPart:
    """Raises CorruptionError, and UnsupportedFormatError for a newer version."""
    return _decoded(_PART, body, name)


def decode_monolith(body: bytes, name: str, kind: type[T]) -> T:
    """One of the older forms. Raises CorruptionError."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise CorruptionError(
            name, reason=f"it is not an index: {error}", fix="put a whole one back", key=name
        ) from error


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes, name: str) -> T:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        _refuse_newer(body, name)
        reason = f"it is not a part of an index: {error}"
        raise CorruptionError(name, reason=reason, fix="run worm sync doctor --repair", key=name) from error


def _refuse_newer(body: bytes, name: str) -> None:
    try:
        version = msgspec.json.decode(body, type=_Versioned).version
    except msgspec.DecodeError:
        return
    if version > LISTED_VERSION:
        raise UnsupportedFormatError(
            name, reason=f"its version is {version}, this one reads {LISTED_VERSION}", fix="upgrade wormdb"
        )


def digest_of(entries: Mapping[str, FileEntry]) -> str:
    """A digest of what entries say of contents; in whatever order, and whichever client wrote them."""
    lines = sorted(f"{path}\n{each.size}\n{each.identity}" for path, each in entries.items())
    return sha256("\n".join(lines).encode()).hexdigest()


def iso_time(milliseconds: int) -> str:
    """As the indexes have times."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds_of(text: str) -> int:
    """The other way round; 0 for what is no time."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return 0
