"""The cache's files: checksummed, written by rename, so that processes can share a folder.

A file is `<2 hex>/<62 hex>-<span>`: the SHA-256 of store and key, and `whole` or the range.
It holds a magic, a checksum of all that follows, a JSON line with key and version, and the
bytes. What does not check out is removed and counts as a miss. Nothing is flushed: a
file that a crash cut short does not check out. Failing to keep something is no error.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import threading
from contextlib import suppress
from pathlib import Path

from wormdb.storage.folder.directories import typed_errors
from wormdb.storage.store import ByteRange, StoredObject
from wormdb.system.types import Version

__all__ = ["DiskCache"]

MAGIC = b"wormdb cache 1\n"
CHECKSUM_BYTES = 32
SCAN_FRACTION = 16
"""The folder is measured again after this part of its bound was written by this process."""
TRIMMED_PERCENT = 90
STALE_SECONDS = 3600
PENDING = ".pending-"
_FOLDERS = re.compile("[0-9a-f]{2}")
_FILES = re.compile(rf"[0-9a-f]{{62}}-(whole|[0-9]+\.[0-9]+)|{re.escape(PENDING)}[0-9]+-[0-9]+")
_pending = itertools.count()


class DiskCache:
    """Objects of one store in a folder that other stores and processes may share."""

    def __init__(self, folder: str | os.PathLike[str], store: str, bytes_max: int) -> None:
        """Make the folder, readable by this user only; raises PermissionDeniedError, UnavailableError."""
        self._folder = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would pin where a link leads today
        self._store = store
        self._bytes_max = bytes_max
        self._unmeasured = bytes_max  # measured at the first write: others may have filled it
        self._lock = threading.Lock()
        with typed_errors(f"cache folder {self._folder}"):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def find(self, key: str, span: ByteRange | None) -> StoredObject | None:
        """What is held for exactly this span, or the span out of the whole object; None if nothing is."""
        stored = self._read(key, span)
        if stored is None and span is not None:
            whole = self._read(key, None)
            if whole is not None:
                stored = StoredObject(key, whole.body[span.start : span.stop], whole.version)
        return stored

    def keep(self, span: ByteRange | None, stored: StoredObject) -> None:
        """Write the file, then trim the folder if it is due."""
        head = json.dumps({"key": stored.key, "store": self._store, "version": stored.version})
        content = head.encode() + b"\n" + stored.body
        size = len(MAGIC) + CHECKSUM_BYTES + len(content)
        if size > self._bytes_max:
            return
        path = self._path(stored.key, span)
        with suppress(OSError):  # a full or read-only disk costs hits, nothing else
            path.parent.mkdir(mode=0o700, exist_ok=True)
            pending = path.parent / f"{PENDING}{os.getpid()}-{next(_pending)}"
            try:
                with pending.open("xb") as file:
                    file.write(MAGIC + _checksum(content))
                    file.write(content)
                pending.replace(path)
            except OSError:
                _remove(pending)
                raise
            self._count(size)

    def forget(self, key: str) -> None:
        """Remove all that is held of the key."""
        stem = self._path(key, None).name.removesuffix("whole")
        with suppress(OSError), os.scandir(self._path(key, None).parent) as entries:
            for entry in entries:
                if entry.name.startswith(stem):
                    _remove(entry.path)

    def _read(self, key: str, span: ByteRange | None) -> StoredObject | None:
        path = self._path(key, span)
        try:
            with path.open("rb") as file:
                content = file.read(self._bytes_max + 1)
        except OSError:
            return None
        stored = self._decode(key, content)
        if stored is None:
            _remove(path)
            return None
        with suppress(OSError):
            os.utime(path)  # used just now: trimmed last
        return stored

    def _decode(self, key: str, content: bytes) -> StoredObject | None:
        begin = len(MAGIC) + CHECKSUM_BYTES
        if content[: len(MAGIC)] != MAGIC or content[len(MAGIC) : begin] != _checksum(content[begin:]):
            return None
        end = content.index(b"\n", begin)
        head = json.loads(content[begin:end])
        if (head["key"], head["store"]) != (key, self._store):
            return None
        return StoredObject(key, content[end + 1 :], Version(head["version"]))

    def _path(self, key: str, span: ByteRange | None) -> Path:
        name = hashlib.sha256(f"{self._store}\n{key}".encode()).hexdigest()
        suffix = "whole" if span is None else f"{span.start}.{span.length}"
        return self._folder / name[:2] / f"{name[2:]}-{suffix}"

    def _count(self, size: int) -> None:
        with self._lock:
            self._unmeasured += size
            if self._unmeasured < self._bytes_max // SCAN_FRACTION:
                return
            self._unmeasured = 0
        self._trim()

    def _trim(self) -> None:
        """Remove the longest unused files until the folder is well within its bound."""
        files = self._measure()
        total = sum(size for _, size, _ in files)
        if total <= self._bytes_max:
            return
        for _, size, path in sorted(files):
            _remove(path)
            total -= size
            if total <= self._bytes_max * TRIMMED_PERCENT // 100:
                return

    def _measure(self) -> list[tuple[int, int, str]]:
        """Time of last use, size and path of each file; half-written ones of dead processes go first.

        Files that no cache made are left alone: the folder may be one of the user's.
        """
        files: list[tuple[int, int, str]] = []
        for folder in self._folder.iterdir():
            if not _FOLDERS.fullmatch(folder.name):
                continue
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if _FILES.fullmatch(entry.name):
                        info = entry.stat(follow_symlinks=False)
                        files.append((info.st_mtime_ns, info.st_size, entry.path))
        newest = max((time for time, _, _ in files), default=0)
        for file in files:
            if Path(file[2]).name.startswith(PENDING) and newest - file[0] > STALE_SECONDS * 10**9:
                _remove(file[2])
        return files


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES).digest()


def _remove(path: str | Path) -> None:
    with suppress(OSError):  # another process removed it first
        Path(path).unlink()
