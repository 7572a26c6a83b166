"""What one folder knows of its bucket: files as they were last seen, what was synced of them, the index, and marks.

One SQLite file below the folder, written last in every push and pull, in transactions: a crash leaves what was known
before, and then more is compared than had to be. Only what a push is about to do is noted before it does it. The file
can be thrown away: nothing is deleted anywhere without it.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import CorruptionError, InvalidRequestError
from wormdb.sync.index import IndexPart, Manifest, PartListing, decode_listing, decode_manifest, decode_part, encode
from wormdb.sync.paths import STATE_FOLDER
from wormdb.system.types import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = ["Intent", "KnownFile", "KnownPart", "LocalState", "LogEnd"]

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, part TEXT NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL, sha256 BLOB NOT NULL,
    synced TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS files_by_part ON files (part);
CREATE TABLE IF NOT EXISTS parts (
    part TEXT PRIMARY KEY, key TEXT NOT NULL, version TEXT NOT NULL, nonce TEXT NOT NULL, body BLOB NOT NULL,
    is_applied INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS listings (key TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS marks (path TEXT PRIMARY KEY, generation INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS intents (
    path TEXT NOT NULL, sha256 BLOB NOT NULL, size INTEGER NOT NULL, is_settled INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (path, sha256)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS collections (
    name TEXT PRIMARY KEY, number INTEGER NOT NULL, hash BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rebases (name TEXT PRIMARY KEY, begun INTEGER NOT NULL) WITHOUT ROWID;
"""
_FORMAT: Final = 1
MARKS_MAX: Final = 2_000
"""More marks than these become one for everything."""


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file with the content that both sides had when it was last synced."""

    size: int
    mtime: int
    """In nanoseconds; 0 if it was written so shortly before that another write may have the same time."""
    sha256: bytes
    synced: str
    """The identity of the entry that it was synced with."""


@dataclass(frozen=True, slots=True)
class KnownPart:
    """A part of the index as it was last read or written, and whether all of its files were taken over."""

    key: str
    version: Version
    part: IndexPart
    is_applied: bool


@dataclass(frozen=True, slots=True)
class Intent:
    """What a push is about to do with a file: send this content, or delete it if there is none."""

    size: int
    sha256: bytes | None


@dataclass(frozen=True, slots=True)
class LogEnd:
    """A place in the log of a collection: the number of an entry, and its hash; by default before the first."""

    number: int = 0
    hash: bytes = bytes(32)


class LocalState:
    """The state of one folder. For one thread at a time; `Sync` has a lock for processes."""

    def __init__(self, folder: Path) -> None:
        """Open it, or make an empty one. Raises CorruptionError."""
        self.file = folder / STATE_FOLDER / "state.db"
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self._manifest: tuple[Manifest, Version] | None = None
        self._listing: PartListing | None = None
        try:
            self._database = sqlite3.connect(self.file, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(_SCHEMA)
            found = self._fact("format")
        except sqlite3.DatabaseError as error:
            raise CorruptionError(
                f"the state of the sync, {self.file}",
                reason=str(error),
                fix="remove the file: what is known of both sides is then compared anew",
            ) from error
        if found is None:
            self._set_fact("format", _FORMAT)
        elif found != _FORMAT:
            raise InvalidRequestError(f"the state of the sync, {self.file}", reason="a newer release wrote it")

    def close(self) -> None:
        """May be called twice."""
        self._database.close()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Everything in the block is written at its end, or nothing."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    @property
    def url(self) -> str | None:
        """The bucket that the folder is synced with."""
        found = self._fact("url")
        return None if found is None else str(found)

    @url.setter
    def url(self, url: str) -> None:
        self._set_fact("url", url)

    @property
    def is_blank(self) -> bool:
        """Whether nothing is known of the bucket, and nothing was sent to it."""
        query = (
            "SELECT EXISTS (SELECT 1 FROM files) OR EXISTS (SELECT 1 FROM parts) OR EXISTS (SELECT 1 FROM intents)"
            " OR EXISTS (SELECT 1 FROM collections) OR EXISTS (SELECT 1 FROM rebases)"
        )
        (is_used,) = self._database.execute(query).fetchone()
        return not is_used and self._fact("manifest version") is None

    @property
    def asked_url(self) -> str | None:
        """How its user wrote that bucket the last time."""
        found = self._fact("asked url")
        return None if found is None else str(found)

    @asked_url.setter
    def asked_url(self, url: str) -> None:
        self._set_fact("asked url", url)

    @property
    def client(self) -> str | None:
        """What this folder calls itself in tombstones."""
        found = self._fact("client")
        return None if found is None else str(found)

    @client.setter
    def client(self, name: str) -> None:
        self._set_fact("client", name)

    @property
    def manifest(self) -> tuple[Manifest, Version] | None:
        """The manifest as it was last read or written."""
        version = self._fact("manifest version")
        if self._manifest is not None and self._manifest[1] == version:
            return self._manifest  # it is large where there are many parts
        body = self._fact("manifest")
        if not isinstance(body, bytes) or version is None:
            return None
        self._manifest = decode_manifest(body, "manifest", self._listing_of), Version(str(version))
        return self._manifest

    def listing(self, key: str) -> PartListing | None:
        """A listing of parts, if it is the one that was last read or written."""
        if self._listing is None or self._listing.key != key:
            row = self._database.execute("SELECT body FROM listings WHERE key = ?", (key,)).fetchone()
            self._listing = None if row is None else decode_listing(row[0], key)
        return self._listing

    def _listing_of(self, key: str) -> PartListing:
        found = self.listing(key)
        if found is None:
            raise CorruptionError(
                f"the state of the sync, {self.file}",
                reason="it names a listing that it does not have",
                fix="remove the file: what is known of both sides is then compared anew",
            )
        return found

    def hold_manifest(self, manifest: Manifest, version: Version) -> None:
        """Know another one; nothing is written if it is the one that is known."""
        if self._fact("manifest version") == version:
            return
        self._set_fact("manifest", encode(manifest.stored()))
        listing = manifest.partitions.listing
        known = self._database.execute("SELECT key FROM listings").fetchone()
        if listing is not None and known != (listing.key,):  # it is large, and seldom another
            self._database.execute("DELETE FROM listings")
            self._database.execute("INSERT INTO listings VALUES (?, ?)", (listing.key, encode(listing)))
        self._set_fact("manifest version", version)
        self._manifest = manifest, version

    def forget_index(self) -> None:
        """Read the manifest and its parts anew next time."""
        self._database.execute("DELETE FROM facts WHERE name IN ('manifest', 'manifest version')")
        self._database.execute("DELETE FROM parts")

    def part(self, part: str) -> KnownPart | None:
        """A part as it was last read or written."""
        query = "SELECT key, version, body, is_applied FROM parts WHERE part = ?"
        row = self._database.execute(query, (part,)).fetchone()
        if row is None:
            return None
        return KnownPart(row[0], Version(row[1]), decode_part(row[2], part), bool(row[3]))

    def applied(self) -> dict[str, str]:
        """The nonce of every part all of whose files were taken over."""
        return dict(self._database.execute("SELECT part, nonce FROM parts WHERE is_applied"))

    def part_names(self) -> list[str]:
        """All parts that are known."""
        return [part for (part,) in self._database.execute("SELECT part FROM parts ORDER BY part")]

    def hold_part(self, part: IndexPart, key: str, version: Version, *, is_applied: bool) -> None:
        """Know another state of a part."""
        row = (part.partition, key, version, part.nonce, encode(part), is_applied)
        self._database.execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, ?, ?)", row)

    def drop_part(self, part: str) -> None:
        """A part is not in the manifest any more."""
        self._database.execute("DELETE FROM parts WHERE part = ?", (part,))

    def files(self, prefixes: Iterable[str] = ()) -> dict[str, KnownFile]:
        """Files that are known, below some folders or all."""
        query = "SELECT path, size, mtime, sha256, synced FROM files"
        return {path: KnownFile(*row) for path, *row in self._rows(query, prefixes)}

    def stamps(self, prefixes: Iterable[str] = ()) -> dict[str, tuple[int, int]]:
        """Size and time of the files that are known, below some folders or all: cheaper than `files`."""
        query = "SELECT path, size, mtime FROM files"
        return {path: (size, mtime) for path, size, mtime in self._rows(query, prefixes)}

    def known_file(self, path: str) -> KnownFile | None:
        """One file, if it is known."""
        query = "SELECT size, mtime, sha256, synced FROM files WHERE path = ?"
        row = self._database.execute(query, (path,)).fetchone()
        return None if row is None else KnownFile(*row)

    def _rows(self, query: str, prefixes: Iterable[str]) -> Iterable[tuple[Any, ...]]:
        chosen = tuple(prefixes)
        if not chosen:
            return self._database.execute(query)
        return chain.from_iterable(
            self._database.execute(
                f"{query} WHERE path = ? OR (path >= ? AND path < ?)",
                (each, f"{each}/", f"{each}0"),  # "0" is the character after "/"
            )
            for each in chosen
        )

    def files_of_part(self, part: str) -> dict[str, KnownFile]:
        """Files of one part."""
        query = "SELECT path, size, mtime, sha256, synced FROM files WHERE part = ?"
        return {path: KnownFile(*row) for path, *row in self._database.execute(query, (part,))}

    def hold_files(self, files: Mapping[str, tuple[str, KnownFile]]) -> None:
        """Know some files, each with its part."""
        self._database.executemany(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)",
            (
                (path, part, known.size, known.mtime, known.sha256, known.synced)
                for path, (part, known) in files.items()
            ),
        )

    def drop_files(self, paths: Iterable[str]) -> None:
        """Some files are on neither side any more."""
        self._database.executemany("DELETE FROM files WHERE path = ?", ((path,) for path in paths))

    def intend(self, intents: Mapping[str, Intent]) -> None:
        """Note what a push is about to do, before it does any of it."""
        with self.changing():
            self._database.executemany(
                "INSERT OR REPLACE INTO intents (path, sha256, size) VALUES (?, ?, ?)",
                ((path, intent.sha256 or b"", intent.size) for path, intent in intents.items()),
            )

    def intents(self) -> dict[str, Intent]:
        """What pushes were about to do that did not come to their end."""
        query = "SELECT path, size, sha256 FROM intents WHERE NOT is_settled"
        return {path: Intent(size, sha256 or None) for path, size, sha256 in self._database.execute(query)}

    @property
    def has_intents(self) -> bool:
        """Whether a push did not come to its end."""
        return self._database.execute("SELECT 1 FROM intents WHERE NOT is_settled LIMIT 1").fetchone() is not None

    def was_sent(self, path: str, sha256: bytes) -> bool:
        """Whether a push of this folder that broke off was sending a content, which may have come there since."""
        query = "SELECT 1 FROM intents WHERE path = ? AND sha256 = ? AND is_settled"
        return self._database.execute(query, (path, sha256)).fetchone() is not None

    def settle_intents(self) -> None:
        """The index has none of them, and will not: only an object may still come there."""
        self._database.execute("DELETE FROM intents WHERE sha256 = x''")
        self._database.execute("UPDATE intents SET is_settled = 1")

    def clear_intents(self, paths: Iterable[str]) -> None:
        """What became of some of them is known."""
        self._database.executemany("DELETE FROM intents WHERE path = ?", ((path,) for path in paths))

    def collections(self) -> list[str]:
        """The collections that were synced."""
        return [name for (name,) in self._database.execute("SELECT name FROM collections ORDER BY name")]

    def collection(self, name: str) -> LogEnd | None:
        """Where the log of a collection ended when both sides were last equal."""
        query = "SELECT number, hash FROM collections WHERE name = ?"
        row = self._database.execute(query, (name,)).fetchone()
        return None if row is None else LogEnd(*row)

    def hold_collection(self, name: str, end: LogEnd) -> None:
        """Both sides of a collection are equal, and end there. A rebase of it is done."""
        self._database.execute("INSERT OR REPLACE INTO collections VALUES (?, ?, ?)", (name, end.number, end.hash))
        self._database.execute("DELETE FROM rebases WHERE name = ?", (name,))

    def drop_collection(self, name: str) -> None:
        """Nothing is known of a collection."""
        self._database.execute("DELETE FROM collections WHERE name = ?", (name,))

    def rebase_begun(self, name: str) -> int | None:
        """Where the bucket's log ended when a rebase began that is not done; None if there is none."""
        row = self._database.execute("SELECT begun FROM rebases WHERE name = ?", (name,)).fetchone()
        return None if row is None else int(row[0])

    def begin_rebase(self, name: str, number: int) -> None:
        """A rebase begins: none of its batches is in the bucket's log through a number."""
        self._database.execute("INSERT OR REPLACE INTO rebases VALUES (?, ?)", (name, number))

    def mark(self, path: str) -> None:
        """Say that a path changed, or is about to; "" is everything. Each mark has a generation of its own."""
        with self.changing():
            following = int(str(self._fact("generation") or 0)) + 1
            self._set_fact("generation", following)
            (count,) = self._database.execute("SELECT count(*) FROM marks").fetchone()
            marked = "" if count >= MARKS_MAX else path
            self._database.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (marked, following))

    def marks(self) -> dict[str, int]:
        """The marked paths and the generation of each."""
        return dict(self._database.execute("SELECT path, generation FROM marks"))

    def clear_marks(self, marks: Mapping[str, int]) -> None:
        """Take marks away that were there when a push began; one that was made again since stays."""
        self._database.executemany("DELETE FROM marks WHERE path = ? AND generation = ?", marks.items())

    def _fact(self, name: str) -> object:
        row = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def _set_fact(self, name: str, value: object) -> None:
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
