"""A store in a folder: one file an object, readable with any tool, safe under many processes.

A write goes to a temporary file, which is flushed and then linked (IfAbsent) or renamed
into place, and the directory is flushed before the write is acknowledged: a crash leaves
the old object or the new one, whole. Overwrites and deletes hold the lock of the object's
directory (flock), so IfMatch compares and swaps in one step.

A version is the file's modification time in nanoseconds, its inode and its size. The
writer sets that time: the folder's milliseconds, and below them digits that make
it later than the version before. A delete waits until the millisecond of the object has
passed. So a version never comes back, also not after delete and re-create.

Times are the folder's own, of answers and of files (`folder_time`): a wall clock that is set makes nothing older or
younger. An answer that took long shows none.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from wormdb.errors import InvalidRequestError, NotFoundError, UnavailableError
from wormdb.settings import LIST_PAGE_KEYS
from wormdb.storage.folder.directories import (
    RESERVED_FOLDER,
    TICK_MS,
    FolderTree,
    StaleFolderError,
    flush,
    is_missing,
    let_go,
    lookup,
    typed_errors,
    version_of,
)
from wormdb.storage.folder.listing import walk
from wormdb.storage.folder.time import FolderTime
from wormdb.storage.folder.write import PUBLISH_ATTEMPTS_MAX, Publisher
from wormdb.storage.store import (
    OCTETS,
    Always,
    Bound,
    ByteRange,
    Lifetime,
    ListPage,
    ObjectInfo,
    Precondition,
    Probe,
    PutResult,
    Store,
    StoredObject,
    any_object,
    check_key,
    check_prefix,
    check_write,
    oversized,
)
from wormdb.system.clock import Chance, Clock, SystemChance, SystemClock
from wormdb.system.types import StoreTime

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.storage.store import UploadSource

__all__ = ["LocalStore"]

# O_NONBLOCK: a pipe in place of an object must not make us wait for its other end.
READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


KEYS_KEPT_MAX = 256


class LocalStore(Store):
    """Objects as files below a folder. Needs POSIX and a local file system, not NFS."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        chance: Chance | None = None,
        bound: Bound = any_object,
    ) -> None:
        """Open the folder `root`, which the first write makes if it is not there.

        `bound` says how many bytes an object has at most.
        Raises InvalidRequestError if `root` cannot be a folder, PermissionDeniedError if it cannot be looked at,
        UnsupportedStoreError without flock.
        """
        path = Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would pin where a link leads today
        _check_root(path)
        self._name = f"file://{quote(os.fsencode(path))}"
        self._bound = bound
        self._clock = clock or SystemClock()
        self._lifetime = Lifetime(self._name)
        self._tree = FolderTree(path, self._clock, chance or SystemChance())
        self._time = FolderTime(self._tree, self._clock)
        self._publisher = Publisher(self._tree, self._time, self._clock, chance or SystemChance())

    def __repr__(self) -> str:
        return f"LocalStore({str(self._tree.root)!r})"

    @property
    def name(self) -> str:
        """`file://` and the absolute path."""
        return self._name

    @property
    def is_served(self) -> bool:
        """No: a folder's time goes on with the uptime of this machine, and is no better than its wall clock."""
        return False

    def get(self, key: str) -> StoredObject:
        """The whole object; raises NotFoundError, also for a folder or a link.

        Raises CorruptionError if it is longer than its bound, which a sparse file can be on any disk.
        """
        began = self._clock.uptime()
        with self._opened(key) as (descriptor, info):
            if info.st_size > self._bound(key):
                raise oversized(key, info.st_size, self._bound(key))
            body = _read(descriptor, 0, info.st_size)
        return StoredObject(key, body, version_of(info), self._time.after(began))

    def get_range(self, key: str, span: ByteRange) -> bytes:
        """The bytes of `span` that exist; raises NotFoundError."""
        with self._opened(key) as (descriptor, info):
            return _read(descriptor, span.start, min(span.length, max(0, info.st_size - span.start)))

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """Several ranges of one state of the object; raises NotFoundError."""
        with self._opened(key) as (descriptor, info):
            return tuple(
                _read(descriptor, span.start, min(span.length, max(0, info.st_size - span.start))) for span in spans
            )

    def probe(self, key: str) -> Probe:
        """The object or None, with the folder's time."""
        self._check(key)
        began = self._clock.uptime()
        if self._tree.is_absent(key):
            return Probe(None, self._time.after(began))
        try:
            found = self.get(key)
        except NotFoundError:
            return Probe(None, self._time.after(began))
        return Probe(found, found.time)

    def head(self, key: str) -> ObjectInfo:
        """Size, time and version; raises NotFoundError."""
        folder, name = self._split(key)
        with typed_errors(f"object {key}", key):
            info = self._tree.find(folder, name)
        if info is None or not stat.S_ISREG(info.st_mode):
            raise self._missing(key)
        return ObjectInfo(key, info.st_size, StoreTime(info.st_mtime_ns // 1_000_000), version_of(info))

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        """Objects under a folder, in order of key bytes, 1,000 a page; one directory in memory at a time."""
        self._lifetime.check()
        check_prefix(prefix)
        _refuse_reserved(prefix)
        objects: list[ObjectInfo] = []
        prefixes: list[str] = []
        with typed_errors(f"listing of {prefix or 'the root'}"):
            for found in walk(self._tree, prefix, after or "", delimiter):
                if isinstance(found, str):
                    prefixes.append(found)
                else:
                    objects.append(found)
                if len(objects) + len(prefixes) == LIST_PAGE_KEYS:
                    yield ListPage(tuple(objects), tuple(prefixes))
                    self._lifetime.check()
                    objects, prefixes = [], []
        yield ListPage(tuple(objects), tuple(prefixes))

    def put(
        self,
        key: str,
        body: bytes,
        precondition: Precondition | None = None,
        *,
        content_type: str = OCTETS,  # noqa: ARG002 - files have no type
    ) -> PutResult:
        """Write if the precondition holds; on disk when it returns.

        Raises AlreadyExistsError, ConflictError, LimitExceededError, InvalidRequestError where a folder or a link is
        in the object's place, UnavailableError on a full disk, and OutcomeUnknownError if the
        object is in place but the disk did not confirm it.
        """
        self._check(key)
        check_write(key, len(body), self._bound(key))
        with typed_errors(f"object {key}", key):
            return self._publisher.publish(key, (body,), precondition or Always())

    def upload(
        self,
        key: str,
        source: UploadSource,
        *,
        content_type: str = OCTETS,  # noqa: ARG002 - files have no type
    ) -> None:
        """Write a part at a time; on disk when it returns. Raises as `put`."""
        self._check(key)
        with typed_errors(f"object {key}", key):
            self._publisher.publish(key, source.parts(), Always())

    def delete(self, key: str) -> None:
        """Remove the object if it is there, and the folders that this leaves empty."""
        self.delete_many((key,))

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove the objects that are there; one flush for each folder."""
        names: dict[tuple[str, ...], set[str]] = {}
        for key in keys:
            folder, name = self._split(key)
            names.setdefault(folder, set()).add(name)
        self._lifetime.check()
        for folder, victims in names.items():
            with typed_errors(f"delete in {'/'.join(folder) or 'the root'}", "/".join((*folder, min(victims)))):
                self._delete_in(folder, victims)

    def close(self) -> None:
        """End this handle; nothing is kept open between two verbs."""
        self._lifetime.close()

    def _delete_in(self, folder: tuple[str, ...], victims: set[str]) -> None:
        for _ in range(PUBLISH_ATTEMPTS_MAX):
            try:
                with self._tree.open(folder) as descriptor:
                    with self._tree.lock(descriptor, folder):
                        removed = self._unlink(descriptor, victims)
                    if removed:
                        flush(descriptor)
            except StaleFolderError:
                continue
            except OSError as error:
                if is_missing(error):
                    return
                raise
            if removed:
                self._tree.prune(folder)
            return
        raise UnavailableError(f"delete in {'/'.join(folder)}", reason="the folder kept changing")

    def _unlink(self, descriptor: int, victims: set[str]) -> bool:
        found = {name: info for name in sorted(victims) if (info := lookup(descriptor, name)) is not None}
        files = {name: info for name, info in found.items() if stat.S_ISREG(info.st_mode)}
        if not files:
            return False
        youngest_ms = max(info.st_mtime_ns for info in files.values()) // 1_000_000
        if self._time.for_write() - youngest_ms <= TICK_MS:
            # The inode may be used again at once: another millisecond makes another version.
            self._clock.sleep((TICK_MS + 1) / 1000)
        for name in files:
            os.unlink(name, dir_fd=descriptor)
        return True

    @contextmanager
    def _opened(self, key: str) -> Iterator[tuple[int, os.stat_result]]:
        """The object's file, open for reading, and what it is; raises NotFoundError."""
        folder, name = self._split(key)
        with typed_errors(f"object {key}", key):
            try:
                with self._tree.open(folder) as above:
                    descriptor = os.open(name, READ, dir_fd=above)
            except OSError as error:
                if is_missing(error):
                    raise self._missing(key) from error
                raise
            try:
                info = os.fstat(descriptor)
                if not stat.S_ISREG(info.st_mode):
                    raise self._missing(key)
                yield descriptor, info
            finally:
                let_go(descriptor)

    def _split(self, key: str) -> tuple[tuple[str, ...], str]:
        """Folder and file name of a key, or InvalidRequestError; ClosedError first."""
        self._check(key)
        *folder, name = key.split("/")
        return tuple(folder), name

    def _check(self, key: str) -> None:
        self._lifetime.check()
        _check_own(key)

    def _missing(self, key: str) -> NotFoundError:
        return NotFoundError(f"object {key}", reason=f"it is not in {self._name}", key=key)


@lru_cache(KEYS_KEPT_MAX)
def _check_own(key: str) -> None:
    """Raise InvalidRequestError for a key that no object here can have; of those that can, a few are remembered."""
    check_key(key)
    _refuse_reserved(key)


def _refuse_reserved(key: str) -> None:
    # Compared without case, because some file systems do.
    if key.split("/", 1)[0].casefold() == RESERVED_FOLDER:
        raise InvalidRequestError(
            f"object key {key!r}", reason=f"{RESERVED_FOLDER}/ holds unfinished writes", fix="choose another key"
        )


def _read(descriptor: int, start: int, length: int) -> bytes:
    """The bytes that exist; one system call unless the file is huge."""
    parts: list[bytes] = []
    while length > 0:
        part = os.pread(descriptor, length, start)
        if not part:
            break
        parts.append(part)
        start += len(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _check_root(path: Path) -> None:
    """Raise if `path` cannot be a folder; one that is not there is made by the first write."""
    with typed_errors(f"folder {path}"):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            return
        except UnicodeEncodeError:
            reason = "its name must be valid Unicode"
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
                raise
            reason = os.strerror(error.errno)
        else:
            if stat.S_ISDIR(mode):
                return
            reason = "it is a file"
    raise InvalidRequestError(f"folder {ascii(str(path))[1:-1]}", reason=reason, fix="give the path of a folder")
