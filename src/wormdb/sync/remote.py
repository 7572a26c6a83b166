"""The bucket's side: the manifest and its parts, read, swapped and found again.

Every write is a compare-and-set of one object that carries only the caller's own changes; a loser reads what won and
applies its changes to that. So no lock is needed, and nothing that another client listed is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.errors import ConflictError, CorruptionError, NotFoundError, OutcomeUnknownError, UnavailableError
from wormdb.storage.readback import put_swapped
from wormdb.storage.store import ByteRange
from wormdb.sync.index import (
    FileEntry,
    HeldManifest,
    IndexPart,
    Manifest,
    Monolith,
    OldPart,
    OldParts,
    PartListing,
    PartNote,
    PartNotes,
    decode_listing,
    decode_manifest,
    decode_monolith,
    decode_part,
    encode,
    iso_time,
)
from wormdb.sync.paths import (
    DEPTHS,
    ENGINE_FOLDER,
    LISTINGS,
    MANIFEST,
    MONOLITH,
    OLD_PARTS,
    READABLE_FOLDERS,
    collection_of,
    is_internal,
    part_key,
    part_of,
)
from wormdb.system.clock import new_write_id

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store, StoredObject
    from wormdb.system.clock import Chance, Clock
    from wormdb.system.types import StoreTime, Version

__all__ = [
    "PIECE_BYTES",
    "FoundObjects",
    "HeldPart",
    "OldIndex",
    "RemoteIndex",
    "with_collections",
    "with_notes",
]

TRIES_MAX: Final = 8
PIECE_BYTES: Final = 8 * 1024 * 1024
"""How much of a large file is in memory at once."""
_PAUSE_SECONDS: Final = (0.05, 0.4)
NOTES_MAX: Final = 256
"""Of more parts than these a manifest does not tell by itself: each push would write all of them."""
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class HeldPart:
    """A part with its object; `version` is None before it is written first."""

    part: IndexPart
    key: str
    version: Version | None

    @property
    def files(self) -> dict[str, FileEntry]:
        """The files that there are, without tombstones."""
        return {path: entry for path, entry in self.part.entries.items() if entry.is_there and not is_internal(path)}

    def note(self) -> PartNote:
        """What the manifest says of it."""
        return PartNote(key=self.key, seq=self.part.seq, nonce=self.part.nonce, count=len(self.files))


@dataclass(frozen=True, slots=True)
class OldIndex:
    """An index of clients that know no manifest; `stored` is its object, if it is one."""

    entries: Mapping[str, FileEntry]
    stored: StoredObject | None


@dataclass(frozen=True, slots=True)
class FoundObjects:
    """What a listing of the bucket found: files, and the collections of a database."""

    files: dict[str, FileEntry]
    collections: set[str]


class RemoteIndex:
    """The index in one bucket. Thread-safe."""

    def __init__(
        self,
        store: Store,
        pool: Pool,
        clock: Clock,
        chance: Chance,
        known_listing: Callable[[str], PartListing | None] = lambda _key: None,
    ) -> None:
        """Nothing is read yet. `known_listing` gives a listing of parts that need not be read again."""
        self.store = store
        self._known_listing = known_listing
        self._listing: PartListing | None = None
        self.pool = pool
        self._clock = clock
        self._chance = chance
        self._heard: tuple[StoreTime, float] | None = None

    def now_ms(self) -> int:
        """The store's time: by its last answer that showed it, else by this machine's clock."""
        if self._heard is None:
            return self._clock.now_ms()
        return self._heard[0] + int(1000 * (self._clock.monotonic() - self._heard[1]))

    def nonce(self) -> str:
        """A word that never repeats."""
        return str(new_write_id(self._chance))

    def read_manifest(self, *, is_broken: bool = False) -> HeldManifest | None:
        """The newest manifest; None if there is none. 1 GET, and 1 for its listing if that is not known.

        Raises CorruptionError if its listing is not there; if the index `is_broken`, its parts are missing then.
        """
        before: Version | None = None
        while (found := self._probe(MANIFEST)) is not None:
            try:
                return HeldManifest(decode_manifest(found.body, MANIFEST, self._read_listing), found.version)
            except _NoListingError as error:
                if found.version != before:  # else a newer manifest has another one, and this went
                    before = found.version
                    continue
                if is_broken:
                    manifest = decode_manifest(found.body, MANIFEST, _empty_listing)
                    alone = PartNotes(manifest.partitions.own)
                    return HeldManifest(msgspec.structs.replace(manifest, partitions=alone), found.version)
                raise CorruptionError(
                    f"the listing {error.key}",
                    reason="the manifest names it, and it is not there",
                    fix="run worm sync doctor --repair",
                    key=error.key,
                ) from error
        return None

    def _read_listing(self, key: str) -> PartListing:
        listing = self._listing
        if listing is None or listing.key != key:
            listing = self._known_listing(key)
        if listing is None:
            found = self._probe(key)
            if found is None:
                raise _NoListingError(key)
            listing = decode_listing(found.body, key)
        self._listing = listing
        return listing

    def read_part(self, name: str, key: str) -> HeldPart | None:
        """A part; None if there is no such object. 1 GET."""
        found = self._probe(key)
        if found is None:
            return None
        part = decode_part(found.body, key)
        return HeldPart(part, key, found.version) if part.partition == name else None

    def read_parts(self, wanted: Mapping[str, PartNote]) -> dict[str, HeldPart]:
        """Parts that a manifest names, side by side; one that is missing is empty. 1 GET each."""
        found = self.pool.map(lambda item: self.read_part(item[0], item[1].key), wanted.items())
        return {
            name: part or self.empty_part(name, note.key)
            for (name, note), part in zip(wanted.items(), found, strict=True)
        }

    def empty_part(self, name: str, key: str) -> HeldPart:
        """A part that was not written yet. No requests."""
        return HeldPart(self._part(name, {}, 0), key, None)

    def part_for(self, name: str, manifest: Manifest) -> HeldPart:
        """An empty part for a name that a manifest does not have, with the object that it will get. No requests."""
        return self.empty_part(name, part_key(name, manifest.lives.get(name, 0)))

    def update_part(
        self, held: HeldPart, change: Callable[[Mapping[str, FileEntry]], Mapping[str, FileEntry] | None]
    ) -> HeldPart:
        """Apply changes to a part, as often as others are faster; `change` gives None if there is nothing to do.

        1 PUT if `held` is the newest, and for each loss 1 GET and 1 PUT more. Raises UnavailableError after 8 losses.
        """
        for losses in range(TRIES_MAX):
            name = held.part.partition
            if held.part.closed:
                held = self.empty_part(name, part_key(name, held.part.closed))
            entries = change(held.part.entries)
            if entries is None:
                return held
            part = self._part(name, entries, held.part.seq)
            try:
                landed = put_swapped(
                    self.store, held.key, encode(part), held.version, what="part of the index", content_type=_JSON
                )
            except (ConflictError, OutcomeUnknownError):
                self._pause(losses)
                held = self.read_part(name, held.key) or self._renewed(held)
                continue
            self._hear(landed.time)
            return HeldPart(part, held.key, landed.version)
        raise self._busy(held.key)

    def _renewed(self, held: HeldPart) -> HeldPart:
        """A part whose object is not there: it was not written yet, or was removed; then it has another one. 1 GET."""
        if held.version is None:
            return held
        name, found = held.part.partition, self.read_manifest()
        manifest = (found or self.new_manifest()).manifest
        note = manifest.partitions.get(name)
        return (self.read_part(name, note.key) if note is not None else None) or self.part_for(name, manifest)

    def update_manifest(self, held: HeldManifest, change: Callable[[Manifest], Manifest | None]) -> HeldManifest:
        """Apply changes to the manifest, as often as others are faster. Costs and raises as `update_part`.

        1 PUT more for a listing, if the manifest would tell of more than 256 parts by itself.
        """
        for losses in range(TRIES_MAX):
            changed = change(held.manifest)
            if changed is None:
                return held
            following = msgspec.structs.replace(
                changed, seq=held.manifest.seq + 1, nonce=self.nonce(), updated_at=iso_time(self.now_ms())
            )
            try:
                following, body = self._to_store(following)
                landed = put_swapped(self.store, MANIFEST, body, held.version, what="manifest", content_type=_JSON)
            except (ConflictError, OutcomeUnknownError):
                self._pause(losses)
                held = self.read_manifest() or self.new_manifest(held.manifest.depths)
                continue
            self._hear(landed.time)
            return HeldManifest(following, landed.version)
        raise self._busy(MANIFEST)

    def _to_store(self, manifest: Manifest) -> tuple[Manifest, bytes]:
        """A manifest and its bytes; where it would be large, its notes are written to a listing first.

        The listing has a name that never repeats and is not changed: it says nothing until a manifest names it.
        """
        notes = manifest.partitions
        if notes.weight > NOTES_MAX:
            folded = PartNotes(dict(notes))
            if len(notes) > NOTES_MAX:
                listing = PartListing(key=f"{LISTINGS}{self.nonce()}.json", partitions=dict(sorted(notes.items())))
                put_swapped(self.store, listing.key, encode(listing), None, what="listing", content_type=_JSON)
                folded = PartNotes(listing=listing)
                self._listing = listing
            manifest = msgspec.structs.replace(manifest, partitions=folded)
        return manifest, encode(manifest.stored())

    def drop(self, held: HeldManifest, part: HeldPart, paths: Collection[str]) -> tuple[HeldManifest, HeldPart]:
        """Take entries out of a part, but for those that changed since it was read. Costs as both updates."""

        def change(found: Mapping[str, FileEntry]) -> Mapping[str, FileEntry] | None:
            kept = {
                path: each for path, each in found.items() if path not in paths or each != part.part.entries.get(path)
            }
            return kept if kept != found else None

        cleaned = self.update_part(part, change)
        notes = {cleaned.part.partition: cleaned.note()}
        return self.update_manifest(held, lambda found: with_notes(found, notes)), cleaned

    def new_manifest(self, depths: Mapping[str, int] | None = None) -> HeldManifest:
        """A manifest without parts, not written yet. No requests."""
        return HeldManifest(Manifest(seq=0, nonce="", updated_at="", depths=dict(depths or DEPTHS)), None)

    def publish(self, entries: Mapping[str, FileEntry], held: HeldManifest, *, merge: bool = True) -> HeldManifest:
        """List files, part by part, and the parts in the manifest last. 1 PUT a part, and 1; and what others cost.

        What a part says already of a path stays, unless `merge` is false. Again after a crash it does the rest.
        """
        manifest = held.manifest
        by_part: dict[str, dict[str, FileEntry]] = {}
        for path, entry in entries.items():
            by_part.setdefault(part_of(path, manifest.depths), {})[path] = entry

        def list_part(name: str) -> HeldPart:
            note = manifest.partitions.get(name)
            known = self.read_part(name, note.key) if note is not None else None
            own = by_part[name]

            def change(found: Mapping[str, FileEntry]) -> Mapping[str, FileEntry] | None:
                added = {path: entry for path, entry in own.items() if not merge or path not in found}
                return {**found, **added} if any(found.get(path) != entry for path, entry in added.items()) else None

            return self.update_part(known or self.part_for(name, manifest), change)

        notes = {part.part.partition: part.note() for part in self.pool.map(list_part, sorted(by_part))}
        return self.update_manifest(held, lambda found: with_notes(found, notes))

    def read_old(self) -> OldIndex | None:
        """The index of clients that know no manifest: in one object, or in swamp's parts. 1 GET, or 2 and 1 a part."""
        found = self._probe(MONOLITH)
        if found is not None:
            body = decode_monolith(found.body, MONOLITH, Monolith)
            return OldIndex(_cleaned(body.entries), found)
        listed = self._probe(f"{OLD_PARTS}_meta.json")
        if listed is None:
            return None
        names = decode_monolith(listed.body, listed.key, OldParts).partitions
        entries: dict[str, FileEntry] = {}
        for part in self.store.get_many([f"{OLD_PARTS}{name}.json" for name in names], self.pool):
            if part is not None:
                entries |= decode_monolith(part.body, part.key, OldPart).entries
        return OldIndex(_cleaned(entries), None)

    def discover(self, prefix: str = "") -> FoundObjects:
        """What the bucket itself has, by any program; contents are not known. 1 LIST for each 1,000 objects."""
        found: dict[str, FileEntry] = {}
        collections: set[str] = set()
        readable: set[str] = set()
        for page in self.store.list(prefix):
            for info in page.objects:
                if (collection := collection_of(info.key)) is not None:
                    collections.add(collection)
                    if info.key.endswith(f"/{ENGINE_FOLDER}/files"):
                        readable.add(collection)
                elif not is_internal(info.key):
                    found[info.key] = FileEntry(
                        key=info.key, size=info.size, last_modified=iso_time(info.modified), version=info.version
                    )
        own = tuple(f"{each}/" for each in (*readable, *(READABLE_FOLDERS if readable else ())))
        return FoundObjects(
            {path: entry for path, entry in found.items() if not path.startswith(own)} if own else found, collections
        )

    def digest(self, entry: FileEntry) -> bytes | None:
        """The SHA-256 of a file whose content the index does not know; None if it is gone. 1 GET for each 8 MiB."""
        digest = sha256()
        try:
            for some in self.pieces(entry):
                digest.update(some)
        except NotFoundError as error:
            if error.key != entry.key:
                raise
            return None
        return digest.digest()

    def pieces(self, entry: FileEntry) -> Iterator[bytes]:
        """The bytes of a file: all at once if they are few, else 1 GET for each 8 MiB. Raises NotFoundError."""
        if entry.size <= PIECE_BYTES:
            yield self.store.get(entry.key).body
            return
        place = 0
        while some := self.store.get_range(entry.key, ByteRange(place, PIECE_BYTES)):
            yield some
            place += len(some)
            if len(some) < PIECE_BYTES:
                return

    def _part(self, name: str, entries: Mapping[str, FileEntry], before: int) -> IndexPart:
        now = self.now_ms()
        return IndexPart(
            partition=name,
            seq=max(before + 1, 0 if before else now),
            nonce=self.nonce(),
            updated_at=iso_time(now),
            entries=dict(sorted(entries.items())),
        )

    def _probe(self, key: str) -> StoredObject | None:
        probe = self.store.probe(key)
        self._hear(probe.time)
        return probe.found

    def _hear(self, time: StoreTime | None) -> None:
        if time is not None:
            self._heard = time, self._clock.monotonic()

    def _pause(self, losses: int) -> None:
        low, high = _PAUSE_SECONDS
        self._clock.sleep(low + (min(high, low * 2**losses) - low) * self._chance.fraction())

    @staticmethod
    def _busy(key: str) -> UnavailableError:
        return UnavailableError(
            f"update of {key}",
            reason=f"other clients were faster {TRIES_MAX} times; files are uploaded, and not listed yet",
            fix="push again",
            key=key,
        )


def _empty_listing(key: str) -> PartListing:
    return PartListing(key=key, partitions={})


class _NoListingError(Exception):
    """A listing is not there."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def with_notes(manifest: Manifest, notes: Mapping[str, PartNote]) -> Manifest | None:
    """A manifest that says of some parts what is so now: those without files are not in it. None if it says so.

    A note of a part as it was later stays: the client that wrote that was faster here too.
    """
    parts = manifest.partitions
    changed: dict[str, PartNote | None] = {}
    for name, note in notes.items():
        if name in parts and parts[name].seq > note.seq:
            continue
        following = note if note.count else None
        if parts.get(name) != following:
            changed[name] = following
    is_first = manifest.seq == 0
    return msgspec.structs.replace(manifest, partitions=parts.changed(changed)) if is_first or changed else None


def with_collections(manifest: Manifest, names: Iterable[str]) -> Manifest | None:
    """A manifest that names some collections too; None if it does."""
    following = sorted({*manifest.collections, *names})
    return msgspec.structs.replace(manifest, collections=following) if following != manifest.collections else None


def _cleaned(entries: Mapping[str, FileEntry]) -> dict[str, FileEntry]:
    """Without what discovery of old clients took for data."""
    return {path: entry for path, entry in entries.items() if not is_internal(path)}
