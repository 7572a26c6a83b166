"""Writing into a local folder: temporary file, flush, link or rename, flush of the directory."""

from __future__ import annotations

import errno
import os
import stat
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, assert_never

from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    OutcomeUnknownError,
    UnavailableError,
    UnsupportedStoreError,
)
from wormdb.storage.folder.directories import RESERVED_FOLDER, FolderTree, flush, let_go, lookup, version_of
from wormdb.storage.folder.listing import walk
from wormdb.storage.store import Always, IfAbsent, IfMatch, ObjectInfo, Precondition, PutResult

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from wormdb.storage.folder.time import FolderTime
    from wormdb.system.clock import Chance, Clock, Uptime
    from wormdb.system.types import Version

__all__ = ["PUBLISH_ATTEMPTS_MAX", "Publisher"]

PUBLISH_ATTEMPTS_MAX = 100
"""Tries to get hold of a folder that others remove as fast as we make it."""
STALE_NS = 24 * 3600 * 1_000_000_000
"""A temporary file older than a day belongs to a writer that died."""
STEP_NS = 100
"""The finest time that every supported file system keeps."""
MS_NS = 1_000_000
CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
# What a file system says before it does anything. After any other error the object may be in its place.
_REFUSALS = {
    *_NO_LINKS,
    *(errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EXDEV, errno.EMLINK, errno.ENAMETOOLONG),
    *(errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP),
}


class _Place(NamedTuple):
    folder: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class _Temporary:
    """A flushed file in the reserved folder, open, with its time set."""

    folder: int
    name: str
    descriptor: int

    def info(self) -> os.stat_result:
        return os.fstat(self.descriptor)

    def stamp(self, time_ns: int) -> None:
        """Set the time that makes the version; raises UnsupportedStoreError if it is not kept."""
        os.utime(self.descriptor, ns=(time_ns, time_ns))
        if self.info().st_mtime_ns != time_ns:
            raise UnsupportedStoreError(
                "folder on a file system with coarse times",
                reason="versions need file times of 100 ns or finer",
                fix="use a folder on ext4, XFS, Btrfs, ZFS, APFS or tmpfs",
            )


class Publisher:
    """Writes objects into a tree. Methods raise OSError; `typed_errors` is around the verbs."""

    def __init__(self, tree: FolderTree, time: FolderTime, clock: Clock, chance: Chance) -> None:
        """`time` dates objects, `chance` names temporary files."""
        self._tree = tree
        self._time = time
        self._clock = clock
        self._chance = chance
        self._swept: int | None = None
        """When temporary files of dead writers were looked for, by the file system's clock."""
        self._sweep_lock = threading.Lock()

    def publish(self, key: str, parts: Iterable[bytes], precondition: Precondition) -> PutResult:
        """Write the object, given in parts, if the precondition holds; on disk when it returns."""
        *folder, name = key.split("/")
        place = _Place(tuple(folder), name)
        self._refuse_early(key, place, precondition)
        with self._temporary(parts) as temporary:
            began = self._clock.uptime()
            for _ in range(PUBLISH_ATTEMPTS_MAX):
                try:
                    with self._tree.make(folder, key) as descriptor:
                        self._put_in_place(key, place, descriptor, temporary, precondition)
                        return self._confirmed(key, descriptor, temporary, began)
                except FileNotFoundError:
                    continue  # a deleter removed the empty folder: make it again
        raise UnavailableError(f"object {key}", reason="its folder or its temporary file kept vanishing", key=key)

    def _confirmed(self, key: str, descriptor: int, temporary: _Temporary, began: Uptime) -> PutResult:
        """Flush the directory that has the object now; raises OutcomeUnknownError if that is not certain."""
        with _in_doubt(key, ()):
            flush(descriptor)
            return PutResult(version_of(temporary.info()), self._time.after(began))

    def _refuse_early(self, key: str, place: _Place, precondition: Precondition) -> None:
        """A precondition that fails already needs no temporary file and no flush."""
        if isinstance(precondition, Always) or (isinstance(precondition, IfAbsent) and self._tree.is_absent(key)):
            return
        found = self._tree.find(place.folder, place.name)
        is_object = found is not None and stat.S_ISREG(found.st_mode)
        match precondition:
            case IfAbsent():
                if is_object:
                    raise _exists(key)
            case IfMatch(version):
                if found is None or not is_object or version_of(found) != version:
                    raise _conflict(key)
            case _:
                assert_never(precondition)

    def _put_in_place(
        self, key: str, place: _Place, descriptor: int, temporary: _Temporary, precondition: Precondition
    ) -> None:
        """Make the temporary file the object, in one step of the file system."""
        if isinstance(precondition, IfMatch):
            with self._tree.lock(descriptor, place.folder):
                if not _swap(key, temporary, descriptor, place.name, precondition.version):
                    raise _conflict(key)
            return
        for _ in range(PUBLISH_ATTEMPTS_MAX):
            with _in_doubt(key, _REFUSALS):
                if _link(temporary, descriptor, place.name):
                    return
            found = lookup(descriptor, place.name)
            if found is None:
                continue  # deleted since the link failed
            if os.path.samestat(found, temporary.info()):
                return  # the link was made, and asked for again on the way to a file server
            if not stat.S_ISREG(found.st_mode):
                self._clear(key, place, found)
                continue
            if isinstance(precondition, IfAbsent):
                raise _exists(key)
            with self._tree.lock(descriptor, place.folder):
                if _swap(key, temporary, descriptor, place.name, None):
                    return
        raise UnavailableError(f"object {key}", reason="it kept coming and going", key=key)

    def _clear(self, key: str, place: _Place, found: os.stat_result) -> None:
        """Remove an empty folder in the object's place; raises InvalidRequestError for all else."""
        fix = "choose a key that is not the folder of other keys"
        reason = "a link or a special file is in its place, and only files are objects"
        if stat.S_ISDIR(found.st_mode):
            below = next(walk(self._tree, key + "/", "", None), None)
            reason = f"it is the folder of {below.key}" if isinstance(below, ObjectInfo) else "a folder is in its place"
            if below is None:
                with suppress(OSError):
                    self._tree.remove_empty((*place.folder, place.name))
                    return
        raise InvalidRequestError(f"object {key}", reason=reason, fix=fix, key=key)

    @contextmanager
    def _temporary(self, parts: Iterable[bytes]) -> Iterator[_Temporary]:
        """A flushed file with these bytes; gone at the end of the block unless it was renamed."""
        with self._tree.make((RESERVED_FOLDER,), RESERVED_FOLDER) as folder:
            temporary = self._create(folder)
            try:
                for part in parts:
                    _write(temporary.descriptor, part)
                self._sweep(folder, temporary.info().st_ctime_ns)
                below_ms = int.from_bytes(self._chance.token(4), "big") * STEP_NS % MS_NS
                temporary.stamp(self._time.for_write() * MS_NS + below_ms)
                flush(temporary.descriptor)
                yield temporary
            finally:
                let_go(temporary.descriptor)
                with suppress(OSError):  # what cannot be removed now is swept after a day
                    os.unlink(temporary.name, dir_fd=folder)

    def _create(self, folder: int) -> _Temporary:
        for _ in range(PUBLISH_ATTEMPTS_MAX):
            name = self._chance.token(16).hex()
            with suppress(FileExistsError):
                return _Temporary(folder, name, os.open(name, CREATE, 0o666, dir_fd=folder))
        raise UnavailableError("temporary file", reason="every name was taken", fix="give processes different chances")

    def _sweep(self, folder: int, now_ns: int) -> None:
        """With a handle's first write, and once a day from then on, remove what dead writers left."""
        with self._sweep_lock:
            if self._swept is not None and now_ns - self._swept < STALE_NS:
                return
            self._swept = now_ns
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        for name in names:
            info = lookup(folder, name)
            # The file system sets the time of change; that of modification is the folder's, which may lie apart.
            if info is not None and now_ns - info.st_ctime_ns > STALE_NS:
                with suppress(OSError):  # another process sweeps too
                    os.unlink(name, dir_fd=folder)


def _write(descriptor: int, body: bytes) -> None:
    rest = memoryview(body)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _link(temporary: _Temporary, descriptor: int, name: str) -> bool:
    """Create the object; False if something is there."""
    try:
        os.link(temporary.name, name, src_dir_fd=temporary.folder, dst_dir_fd=descriptor, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise UnsupportedStoreError(
                "folder on a file system without hard links",
                reason="creating an object only if it is absent needs them",
                fix="use a folder on ext4, XFS, Btrfs, ZFS, APFS or tmpfs",
            ) from error
        raise
    return True


def _swap(key: str, temporary: _Temporary, descriptor: int, name: str, expected: Version | None) -> bool:
    """Replace the object by a later version, under the lock; False if it is not there or another."""
    found = lookup(descriptor, name)
    if found is None or not stat.S_ISREG(found.st_mode):
        return False
    if expected is not None and version_of(found) != expected:
        return False
    if temporary.info().st_mtime_ns <= found.st_mtime_ns:
        temporary.stamp(found.st_mtime_ns // STEP_NS * STEP_NS + STEP_NS)
    with _in_doubt(key, _REFUSALS):
        os.rename(temporary.name, name, src_dir_fd=temporary.folder, dst_dir_fd=descriptor)
    return True


@contextmanager
def _in_doubt(key: str, refusals: Container[int]) -> Iterator[None]:
    """Around the step that makes the object and all after it: an error other than a refusal is OutcomeUnknownError."""
    try:
        yield
    except OSError as error:
        if error.errno in refusals:
            raise
        raise OutcomeUnknownError(
            f"object {key}", reason=f"it may be in place, but the disk did not confirm it: {error.strerror}", key=key
        ) from error


def _exists(key: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"object {key}", reason="it is there already", key=key)


def _conflict(key: str) -> ConflictError:
    return ConflictError(f"object {key}", reason="another version, or none, is there", key=key)
