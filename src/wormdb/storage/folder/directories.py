"""Directories below one root, walked by descriptor, so that no link and no `..` leads out.

Every step opens one name with O_NOFOLLOW, relative to the directory above it. The root
itself may be reached through links: the caller that opens a store says where it is.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from wormdb.errors import InvalidRequestError, PermissionDeniedError, UnavailableError, UnsupportedStoreError, WormError
from wormdb.system.types import Version

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]  # not a POSIX system: LocalStore refuses to open

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wormdb.system.clock import Chance, Clock

__all__ = [
    "RESERVED_FOLDER",
    "TICK_MS",
    "FolderTree",
    "StaleFolderError",
    "flush",
    "is_missing",
    "let_go",
    "lookup",
    "try_lock",
    "typed_errors",
    "version_of",
]

RESERVED_FOLDER = ".worm.tmp"
"""Unfinished writes live here; no key names it and no listing shows it."""

DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
LOCK_SECONDS_MAX = 30.0
LOCK_DELAY_SECONDS_MIN = 0.0002
LOCK_DELAY_SECONDS_MAX = 0.005
FLUSHED_FOLDERS_MAX = 10_000
TICK_MS = 10
"""How coarse times of files and uptimes are: one tick of the slowest common kernel."""
EMPTY_FOLDERS_MAX = 1_000

# What opening a file or a link as a directory gives; BSDs say EMLINK for a link.
_NOT_A_FOLDER = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK)
_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL = (errno.ENOSPC, errno.EDQUOT)


class StaleFolderError(FileNotFoundError):
    """The directory that was opened is no longer the one its path names: open it again."""


@contextmanager
def typed_errors(what: str, key: str | None = None) -> Iterator[None]:
    """Turn what the operating system raises inside into the tree's errors; nothing was published."""
    try:
        yield
    except OSError as error:
        raise _typed(error, what, key) from error


def _typed(error: OSError, what: str, key: str | None) -> WormError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _NO_RIGHT:
        fix = "give this user the right to the folder, or open it where it may be written"
        return PermissionDeniedError(what, reason=reason, fix=fix, key=key)
    if error.errno in _FULL:
        return UnavailableError(what, reason=reason, fix="free space on the disk, then retry", key=key)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return UnavailableError(what, reason=reason, fix="raise the limit of open files (ulimit -n)", key=key)
    if error.errno == errno.ENAMETOOLONG:
        return InvalidRequestError(what, reason=reason, fix="use a file system with names of 255 bytes", key=key)
    if error.errno == errno.EXDEV:
        fix = "keep the whole store on one file system: no mount below its folder"
        return InvalidRequestError(what, reason=reason, fix=fix, key=key)
    return UnavailableError(what, reason=reason, fix="check the disk and the folder, then retry", key=key)


def is_missing(error: OSError) -> bool:
    """Whether the error means that nothing of ours is there: no name, or a link, or a file as folder."""
    return isinstance(error, FileNotFoundError) or error.errno in _NOT_A_FOLDER


def lookup(descriptor: int, name: str) -> os.stat_result | None:
    """What is at `name` in an open directory, without following a link; None if nothing is."""
    try:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return None


def version_of(info: os.stat_result) -> Version:
    """The version of a file; inode and size tell also what other tools put in its place."""
    return Version(f"{info.st_mtime_ns:x}-{info.st_ino:x}-{info.st_size:x}")


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open file until it is closed; False if another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def let_go(descriptor: int) -> None:
    """Close a file or a directory, whatever comes of it.

    Network file systems tell then of writes that failed. Here what was written is flushed before, and what was read is
    read: an error would be taken for one of the work that is done.
    """
    try:  # noqa: SIM105 - a dozen times in a write, and `suppress` takes longer than the call
        os.close(descriptor)
    except OSError:
        pass


def flush(descriptor: int) -> None:
    """Wait until a file or a directory is on the disk itself."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full)  # on macOS fsync leaves the data in the drive's cache


class FolderTree:
    """The directories of a local store. Methods raise OSError; `typed_errors` is around the verbs."""

    def __init__(self, root: Path, clock: Clock, chance: Chance) -> None:
        """Nothing is opened or made yet. Raises UnsupportedStoreError without flock."""
        if fcntl is None:
            raise UnsupportedStoreError(
                f"folder {root}",
                reason="a store in a folder needs POSIX file locks (flock), which this system does not have",
                fix="use Linux, macOS or WSL, or a bucket",
            )
        self.root = root
        self._below = f"{root}/"
        self._clock = clock
        self._chance = chance
        self._flushed: dict[tuple[str, ...], tuple[int, int]] = {}
        """By its path, number and time of change of a directory when this process flushed it."""

    @contextmanager
    def open(self, segments: Sequence[str]) -> Iterator[int]:
        """A descriptor of the directory, closed at the end of the block."""
        descriptor = os.open(self.root, DIRECTORY)
        try:
            for segment in segments:
                below = os.open(segment, DIRECTORY | NOFOLLOW, dir_fd=descriptor)
                let_go(descriptor)
                descriptor = below
            yield descriptor
        finally:
            let_go(descriptor)

    def find(self, segments: Sequence[str], name: str) -> os.stat_result | None:
        """What is at `name` in the directory, None if nothing is or the directory is not there."""
        try:
            with self.open(segments) as descriptor:
                return lookup(descriptor, name)
        except OSError as error:
            if is_missing(error):
                return None
            raise

    def is_absent(self, key: str) -> bool:
        """Whether nothing is at a key, by one look at the whole path; False if that does not tell.

        A name that is missing on such a way is missing on ours too, which follows no links. What is found may lie
        behind one, so it has to be looked for step by step.
        """
        try:
            os.stat(self._below + key, follow_symlinks=False)  # noqa: PTH116 - asked before every read
        except FileNotFoundError:
            return True
        except OSError:
            return False  # what it is, the steps tell
        return False

    @contextmanager
    def make(self, segments: Sequence[str], key: str) -> Iterator[int]:
        """Like `open`, but missing directories are made, and all of them are on disk.

        Raises InvalidRequestError where an object or a link is in a folder's place, and
        FileNotFoundError if another process removes a directory meanwhile.
        """
        descriptor = self._make_root()
        try:
            for depth, segment in enumerate(segments, 1):
                below = self._make_below(descriptor, segment, "/".join(segments[:depth]), key)
                try:
                    self._settle(descriptor, tuple(segments[: depth - 1]))
                finally:
                    let_go(descriptor)
                    descriptor = below
            yield descriptor
        finally:
            let_go(descriptor)

    @contextmanager
    def lock(self, descriptor: int, segments: Sequence[str]) -> Iterator[None]:
        """Hold the directory's lock, which every overwrite and delete in it takes.

        Raises StaleFolderError if the path names another directory by now, and
        UnavailableError if the lock was not free for 30 seconds.
        """
        self._wait_for_lock(descriptor, segments)
        try:
            with self.open(segments) as current:
                if not os.path.sameopenfile(descriptor, current):
                    raise StaleFolderError(errno.ENOENT, "the folder was replaced")
            yield
        finally:
            # Closing would not do: a child forked meanwhile shares the lock until it closes too.
            with suppress(OSError):  # the end of the descriptor ends it too, and what was done under it is done
                fcntl.flock(descriptor, fcntl.LOCK_UN)

    def prune(self, segments: Sequence[str]) -> None:
        """Remove the directory, and those above it, as far as they are empty; never the root."""
        # Not empty, gone, or not ours to remove: an empty folder does no harm, it is never listed.
        with suppress(OSError):
            for depth in range(len(segments), 0, -1):
                with self.open(segments[: depth - 1]) as above:
                    os.rmdir(segments[depth - 1], dir_fd=above)
                    flush(above)

    def remove_empty(self, segments: Sequence[str]) -> None:
        """Remove a directory that holds nothing but empty directories; raises OSError if it holds more."""
        found = [tuple(segments)]
        for folder in found:  # grows on the way
            if len(found) > EMPTY_FOLDERS_MAX:
                raise OSError(errno.ENOTEMPTY, "too many folders to remove")
            with self.open(folder) as descriptor, os.scandir(descriptor) as entries:
                found.extend((*folder, entry.name) for entry in entries if entry.is_dir(follow_symlinks=False))
        for folder in reversed(found):
            with self.open(folder[:-1]) as above:
                os.rmdir(folder[-1], dir_fd=above)

    def _wait_for_lock(self, descriptor: int, segments: Sequence[str]) -> None:
        delay = LOCK_DELAY_SECONDS_MIN
        deadline = self._clock.monotonic() + LOCK_SECONDS_MAX
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._clock.monotonic() > deadline:
                    raise UnavailableError(
                        f"lock of folder {'/'.join(segments) or '.'}/ in {self.root}",
                        reason=f"another process has held it for {LOCK_SECONDS_MAX:.0f} s",
                        fix="look for a stopped process that has the folder open, then retry",
                    ) from None
            else:
                return
            self._clock.sleep(delay * (0.5 + self._chance.fraction()))
            delay = min(delay * 2, LOCK_DELAY_SECONDS_MAX)

    def _make_root(self) -> int:
        with suppress(FileNotFoundError):
            return os.open(self.root, DIRECTORY)
        missing = [path for path in (self.root, *self.root.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
            descriptor = os.open(path.parent, DIRECTORY)
            try:
                flush(descriptor)
            finally:
                let_go(descriptor)
        return os.open(self.root, DIRECTORY)

    @staticmethod
    def _make_below(descriptor: int, segment: str, path: str, key: str) -> int:
        try:
            try:
                return os.open(segment, DIRECTORY | NOFOLLOW, dir_fd=descriptor)
            except FileNotFoundError:
                with suppress(FileExistsError):
                    os.mkdir(segment, dir_fd=descriptor)
                return os.open(segment, DIRECTORY | NOFOLLOW, dir_fd=descriptor)
        except OSError as error:
            if error.errno not in _NOT_A_FOLDER:
                raise
            raise InvalidRequestError(
                f"object {key}",
                reason=f"{path} is an object or a link there, so it cannot be the folder of {key}",
                fix="choose a key that is not below another object",
                key=key,
            ) from error

    def _settle(self, above: int, segments: tuple[str, ...]) -> None:
        # The process that made the directory below may not have reached its fsync yet, and what we are going to
        # acknowledge hangs from it: so we wait for it ourselves, whenever the names in this directory have changed
        # since. The number of the one below would not tell: one that was removed and made again may get the same.
        info = os.fstat(above)
        state = info.st_ino, info.st_ctime_ns
        if self._flushed.get(segments) == state:
            return
        flush(above)
        if self._clock.now_ms() - info.st_ctime_ns // 1_000_000 <= TICK_MS:
            return  # it may change once more at this time
        if len(self._flushed) >= FLUSHED_FOLDERS_MAX:
            self._flushed.clear()
        self._flushed[segments] = state
