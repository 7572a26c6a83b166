"""Work on the index as a whole: made of an old one, kept for old clients, compared with the bucket, cleaned.

Nothing here needs a lock to be right: parts are created if absent and merged by compare-and-set, the manifest comes
last. The lock only keeps several clients, and old ones, from splitting one large index at the same time.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.errors import AlreadyExistsError, ConflictError, InvalidRequestError, NotFoundError, UnavailableError
from wormdb.storage.readback import put_swapped
from wormdb.storage.store import IfAbsent, IfMatch
from wormdb.sync.index import (
    FileEntry,
    IndexPart,
    Monolith,
    Shim,
    decode_part,
    digest_of,
    encode,
    iso_time,
    milliseconds_of,
)
from wormdb.sync.paths import INDEX_FOLDER, LISTINGS, LOCK, MANIFEST, MONOLITH, check_path, part_of
from wormdb.sync.remote import HeldPart, with_collections, with_notes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wormdb.sync.index import HeldManifest, Manifest
    from wormdb.sync.paths import SyncScope
    from wormdb.sync.remote import OldIndex, RemoteIndex
    from wormdb.system.clock import Clock
    from wormdb.system.types import Version

__all__ = ["SyncCheck", "Upkeep"]

SPLIT_ENTRIES_MAX: Final = 5_000
"""A larger old index is split by a command only: several new clients would each begin."""
LOCK_MS: Final = 30_000
LOCK_SECONDS_MAX: Final = 60
SHIM_MS: Final = 60_000
"""How often the old form is written at most."""
REMAINS_MS: Final = 3_600_000
"""How long an object of the index stays that nothing names."""


class _Lock(msgspec.Struct, kw_only=True, rename="camel"):
    holder: str
    hostname: str
    pid: int
    acquired_at: str
    ttl_ms: int
    nonce: str


@dataclass(slots=True)
class SyncCheck:
    """What an examination of the index found."""

    parts: int = 0
    files: int = 0
    unlisted: list[str] = field(default_factory=list)
    """Parts that the manifest does not name."""
    bad_paths: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    """Objects of the index that were removed."""
    leftovers: list[str] = field(default_factory=list)
    """Objects of files that were deleted: a client did not come to that."""


class Upkeep:
    """Upkeep of one index."""

    def __init__(self, index: RemoteIndex, clock: Clock, *, holder: str, hostname: str, pid: int) -> None:
        """`holder`, `hostname` and `pid` are shown to others while the lock is held."""
        self._index = index
        self._clock = clock
        self._holder, self._hostname, self._pid = holder, hostname, pid

    def split(self, old: OldIndex, depths: Mapping[str, int], *, is_asked: bool, keeps_shim: bool) -> HeldManifest:
        """Make parts of an index without; a crash at any request leaves it as it was, or done.

        1 PUT a part, 1 for the manifest, and the lock. Raises InvalidRequestError above 5,000 files unless `is_asked`.
        """
        if len(old.entries) > SPLIT_ENTRIES_MAX and not is_asked:
            raise InvalidRequestError(
                f"the index {MONOLITH}",
                reason=f"it has {len(old.entries):,} files: one client alone should make parts of it",
                fix="run worm sync migrate once",
            )
        with self._locked():
            found = self._index.read_manifest()
            if found is not None:
                return found
            held = self._index.publish(old.entries, self._index.new_manifest(depths))
            if old.stored is None or not keeps_shim:
                return held
            shim = Shim(digest=digest_of(old.entries), written_at=iso_time(self._index.now_ms()))
            return self._index.update_manifest(held, lambda one: msgspec.structs.replace(one, shim=shim))

    def take_in_old(self, held: HeldManifest) -> HeldManifest:
        """List what clients pushed that know only the old form: new files, and newer ones. 1 GET if there is nothing.

        What they do not list is not deleted: they never delete.
        """
        shim = held.manifest.shim
        old = self._index.read_old() if shim is not None else None
        if shim is None or old is None or digest_of(old.entries) == shim.digest:
            return held
        depths = held.manifest.depths
        parts = self._index.read_parts(
            {
                name: note
                for name in {part_of(path, depths) for path in old.entries}
                if (note := held.manifest.partitions.get(name)) is not None
            }
        )
        newer = {}
        for path, entry in old.entries.items():
            part = parts.get(part_of(path, depths))
            there = None if part is None else part.part.entries.get(path)
            if there is None or _is_newer(entry, there):
                newer[path] = msgspec.structs.replace(entry, version=None)
        held = self._index.publish(newer, held, merge=False)
        seen = msgspec.structs.replace(shim, digest=digest_of(old.entries))
        return self._index.update_manifest(held, lambda one: msgspec.structs.replace(one, shim=seen))

    def write_shim(self, held: HeldManifest) -> HeldManifest:
        """Write the old form anew for old clients, if it is kept and was not written within a minute.

        1 GET, 1 GET a part, 2 PUTs; a client that is faster is left alone.
        """
        shim = held.manifest.shim
        now = self._index.now_ms()
        if shim is None or now - milliseconds_of(shim.written_at) < SHIM_MS:
            return held
        probe = self._index.store.probe(MONOLITH)
        parts = self._index.read_parts(held.manifest.partitions)
        files = {path: entry for part in parts.values() for path, entry in part.files.items()}
        body = encode(Monolith(last_pulled=iso_time(now), entries=files))
        version = None if probe.found is None else probe.found.version
        try:
            put_swapped(self._index.store, MONOLITH, body, version, what="old index", content_type="application/json")
        except ConflictError:
            return held
        written = Shim(digest=digest_of(files), written_at=iso_time(now))
        return self._index.update_manifest(held, lambda one: msgspec.structs.replace(one, shim=written))

    def drop_shim(self, held: HeldManifest) -> HeldManifest:
        """Keep the old form no longer: old clients see an empty bucket then. 1 PUT, 1 DELETE."""
        if held.manifest.shim is not None:
            held = self._index.update_manifest(held, lambda one: msgspec.structs.replace(one, shim=None))
        self._index.store.delete(MONOLITH)
        return held

    def scan(self, held: HeldManifest, scope: SyncScope) -> HeldManifest:
        """Compare the index with the bucket itself, and list what others wrote or deleted without it.

        1 LIST for each 1,000 files, 1 GET a part, also for those that the manifest does not have, and what `publish`
        costs where they differ.
        """
        depths = held.manifest.depths
        prefixes = [f"{each}/" for each in scope.prefixes] or [""]
        listings = [self._index.discover(prefix) for prefix in prefixes]
        objects = {path: entry for each in listings for path, entry in each.files.items()}
        collections = {name for each in listings for name in each.collections}
        wanted = {name: note for name, note in held.manifest.partitions.items() if scope.touches(name, depths)}
        parts = self._index.read_parts(wanted)
        parts |= self._emptied({part_of(path, depths) for path in objects} - wanted.keys(), held)
        listed = {path: entry for part in parts.values() for path, entry in part.part.entries.items()}
        changed = {
            path: entry
            for path, entry in objects.items()
            if path not in listed or (listed[path].is_there and _differs(entry, listed[path]))
        }
        # A file of a part that was read before the listing may be younger than the listing.
        gone = [path for path, entry in listed.items() if entry.is_there and scope.holds(path) and path not in objects]
        held = self._index.publish(changed, held, merge=False) if changed else held
        for part in parts.values():
            own = [path for path in gone if path in part.part.entries]
            if own:
                held, _ = self._index.drop(held, part, own)
        return self._index.update_manifest(held, lambda one: with_collections(one, collections))

    def _emptied(self, names: set[str], held: HeldManifest) -> dict[str, HeldPart]:
        """Parts that are not in the manifest: they may have tombstones, whose objects are not files. 1 GET each."""
        empty = [self._index.part_for(name, held.manifest) for name in sorted(names)]
        found = self._index.pool.map(lambda one: self._index.read_part(one.part.partition, one.key), empty)
        return {part.part.partition: part for part in found if part is not None}

    def check(self, held: HeldManifest, *, repair: bool) -> SyncCheck:
        """Look at every object of the index. 1 LIST for each 1,000, 1 GET a part; with `repair` PUTs where needed."""
        result = SyncCheck()
        named = {note.key for note in held.manifest.partitions.values()}
        notes = {}
        for key in self._part_keys():
            found = self._index.store.probe(key).found
            part = None if found is None else decode_part(found.body, key)
            if found is None or part is None or part.closed:
                continue
            one = HeldPart(part, key, found.version)
            bad = [path for path in one.files if not _is_sound(path)]
            result.parts, result.files = result.parts + 1, result.files + len(one.files)
            result.bad_paths += bad
            if bad and repair:
                held, _ = self._index.drop(held, one, bad)
            if key not in named and one.files:
                result.unlisted.append(part.partition)
                notes[part.partition] = one.note()
        if notes and repair:
            self._index.update_manifest(held, lambda one: with_notes(one, notes))
        return result

    def compact(self, held: HeldManifest) -> SyncCheck:
        """Remove parts without files that nothing names for an hour, and what deletions left. Costs as `check`.

        Also listings that no manifest names any more.

        A part is closed first, by compare-and-set: a client that writes to it then begins another object. An hour
        later its object goes.
        """
        result = SyncCheck()
        now = self._index.now_ms()
        named = {note.key for note in held.manifest.partitions.values()}
        closing: dict[str, int] = {}
        for key in self._part_keys():
            info = self._index.store.head(key)
            found = self._index.store.probe(key).found
            if found is None:
                continue
            part = decode_part(found.body, key)
            held_part = HeldPart(part, key, found.version)
            self._remove_leftovers(held, held_part, result, now)
            if key in named or held_part.files or now - info.modified < REMAINS_MS:
                continue
            if part.closed:
                if part.partition in held.manifest.lives:
                    self._index.store.delete(key)
                    result.removed.append(key)
                else:
                    closing[part.partition] = part.closed
                continue
            closed = msgspec.structs.replace(part, entries={}, closed=now, nonce=self._index.nonce(), seq=part.seq + 1)
            if self._swap(key, closed, held_part):
                closing[part.partition] = now
        if closing:
            held = self._index.update_manifest(held, lambda one: _with_lives(one, closing))
        self._remove_listings(held, result, now)
        return result

    def _swap(self, key: str, part: IndexPart, before: HeldPart) -> bool:
        try:
            put_swapped(
                self._index.store,
                key,
                encode(part),
                before.version,
                what="part of the index",
                content_type="application/json",
            )
        except ConflictError:
            return False
        return True

    def _remove_leftovers(self, held: HeldManifest, part: HeldPart, result: SyncCheck, now: int) -> None:
        """Delete objects of files whose tombstone is old, and then the tombstones."""
        old = {
            path: each
            for path, each in part.part.entries.items()
            if each.deleted is not None and now - each.deleted > REMAINS_MS
        }
        if not old:
            return
        there = dict(zip(old, self._index.pool.map(self._version_of, old), strict=True))
        left = [path for path, version in there.items() if version is not None and version == old[path].version]
        self._index.store.delete_many(left)
        result.leftovers += left
        self._index.drop(held, part, {path for path, version in there.items() if version is None or path in left})

    def _version_of(self, path: str) -> Version | None:
        """Of the object of a file; None if there is none. 1 HEAD: the file may be large."""
        try:
            return self._index.store.head(path).version
        except NotFoundError as error:
            if error.key != path:
                raise
            return None

    def _part_keys(self) -> list[str]:
        return [
            info.key
            for page in self._index.store.list(INDEX_FOLDER)
            for info in page.objects
            if info.key != MANIFEST and info.key.endswith(".json") and not info.key.startswith(LISTINGS)
        ]

    def _remove_listings(self, held: HeldManifest, result: SyncCheck, now: int) -> HeldManifest:
        """Remove listings that the manifest does not name. 1 LIST, and 1 PUT if there is one, 1 DELETE.

        The manifest is written once more before: a client that fell asleep between a listing and the manifest that
        names it loses then, and its listing is named by nothing for good.
        """
        found = [info for page in self._index.store.list(LISTINGS) for info in page.objects]
        old = {info.key for info in found if now - info.modified > REMAINS_MS}
        if held.version is None or not old - {_listing_key(held)}:
            return held
        held = self._index.update_manifest(held, lambda one: one)
        unnamed = sorted(old - {_listing_key(held)})
        self._index.store.delete_many(unnamed)
        result.removed += unnamed
        return held

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """The lock that old clients know. One that was left is taken over after its time, by the store's clock."""
        store, nonce = self._index.store, self._index.nonce()
        start = self._clock.monotonic()
        while True:
            lock = _Lock(
                holder=self._holder,
                hostname=self._hostname,
                pid=self._pid,
                acquired_at=iso_time(self._index.now_ms()),
                ttl_ms=LOCK_MS,
                nonce=nonce,
            )
            try:
                store.put(LOCK, encode(lock), self._condition(), content_type="application/json")
                break
            except (AlreadyExistsError, ConflictError):
                if self._clock.monotonic() - start > LOCK_SECONDS_MAX:
                    raise UnavailableError(
                        f"the lock {LOCK}",
                        reason=f"another client holds it for over {LOCK_SECONDS_MAX} s",
                        fix="retry later",
                    ) from None
                self._clock.sleep(1.0)
        try:
            yield
        finally:
            found = store.probe(LOCK).found
            if found is not None and nonce.encode() in found.body:
                store.delete(LOCK)

    def _condition(self) -> IfAbsent | IfMatch:
        """Create the lock, or take one over whose time is over."""
        probe = self._index.store.probe(LOCK)
        if probe.found is None:
            return IfAbsent()
        info = self._index.store.head(LOCK)
        is_stale = probe.time is not None and probe.time - info.modified > LOCK_MS
        return IfMatch(probe.found.version) if is_stale else IfAbsent()


def _listing_key(held: HeldManifest) -> str | None:
    listing = held.manifest.partitions.listing
    return None if listing is None else listing.key


def _with_lives(manifest: Manifest, closing: Mapping[str, int]) -> Manifest | None:
    lives = manifest.lives | {name: time for name, time in closing.items() if name not in manifest.partitions}
    return msgspec.structs.replace(manifest, lives=lives) if lives != manifest.lives else None


def _differs(found: FileEntry, listed: FileEntry) -> bool:
    """Whether an object is another than the one that was listed."""
    if found.size != listed.size:
        return True
    return found.version is not None and listed.version is not None and found.version != listed.version


def _is_newer(entry: FileEntry, there: FileEntry) -> bool:
    if entry.sha256 is not None and entry.sha256 == there.sha256:
        return False
    return milliseconds_of(entry.last_modified) > milliseconds_of(there.last_modified)


def _is_sound(path: str) -> bool:
    try:
        check_path(path)
    except InvalidRequestError:
        return False
    return True
