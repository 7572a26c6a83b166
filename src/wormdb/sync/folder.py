"""The local side: files below a folder, looked at, hashed, and written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, TypeAlias

from wormdb.errors import InvalidRequestError, UnavailableError
from wormdb.sync.paths import ENGINE_FOLDER, READABLE_FOLDERS, STATE_FOLDER, check_path, is_internal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from wormdb.sync.paths import SyncScope
    from wormdb.sync.state import KnownFile
    from wormdb.system.clock import Clock

__all__ = ["LocalFile", "Stamps", "WorkFolder"]

RACY_NS: Final = 2_000_000_000
"""A file that was written this shortly before it was hashed may be written again with the same time and size."""
_READ_BYTES: Final = 1024 * 1024
Stamps: TypeAlias = "dict[str, tuple[int, int]]"
"""Size and time of files as they were when they were hashed."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file as it is now."""

    size: int
    mtime: int

    def is_as(self, known: KnownFile | None) -> bool:
        """Whether it certainly is as it was when it was hashed."""
        return known is not None and known.size == self.size and known.mtime == self.mtime


class WorkFolder:
    """Files below one folder. Links are neither followed nor synced."""

    def __init__(self, root: Path, clock: Clock) -> None:
        """The folder must exist; raises InvalidRequestError."""
        if not root.is_dir():
            raise InvalidRequestError(f"folder {root}", reason="it does not exist, or is not a folder")
        self.root = root.resolve()
        self._base = f"{self.root}/"
        self._clock = clock
        self.collections: set[str] = set()
        """The collections that walks met."""
        self._readable: set[str] = set()
        """Those that keep readable files."""

    def walk(
        self, scope: SyncScope, skipped: Callable[[str, str], None], stamps: Stamps | None = None
    ) -> Iterator[tuple[str, LocalFile]]:
        """The files of a scope; `skipped` is told each thing that cannot be synced, and why.

        Files that are as `stamps` says are left out. What is there, as it was or not, is taken out of `stamps`.

        What belongs to a collection is not a file: neither the engine's objects nor, if it keeps them, readable files.
        """
        known: Stamps = {} if stamps is None else stamps
        for start in scope.prefixes or ("",):
            found = self.look(start) if start else None
            if found is None:
                yield from self._below(start, skipped, known)
            elif known.pop(start, None) != (found.size, found.mtime):
                yield start, found

    def _below(
        self, folder: str, skipped: Callable[[str, str], None], stamps: Stamps
    ) -> Iterator[tuple[str, LocalFile]]:
        waiting = [(folder, False)]
        later: list[tuple[str, bool]] = []
        while waiting or later:
            here, is_readable = waiting.pop() if waiting else later.pop()
            if here in READABLE_FOLDERS and self._readable:
                continue
            entries = self._entries(here)
            names = [entry.name for entry in entries]
            is_readable |= bool(here) and ENGINE_FOLDER in names and self._meet(here)
            prefix = f"{here}/" if here else ""
            for entry, name in zip(entries, names, strict=True):
                path = prefix + name
                # Of most files nothing else is asked, and there may be very many.
                if path in stamps and not is_readable and (found := _looked_at(entry)) is not None:
                    if stamps.pop(path) != (found.st_size, found.st_mtime_ns):
                        yield path, LocalFile(found.st_size, found.st_mtime_ns)
                    continue
                if is_internal(path):
                    continue
                if not entry.is_dir(follow_symlinks=False):
                    yield from () if is_readable else self._file(path, entry, skipped)
                elif not is_internal(f"{path}/"):
                    # Whether these belong to a collection is known when all others were seen.
                    (later if path in READABLE_FOLDERS else waiting).append((path, is_readable))

    def _entries(self, here: str) -> list[os.DirEntry[str]]:
        try:
            return list(os.scandir(self._base + here))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            # Left out, its files would count as deleted.
            raise UnavailableError(f"folder {here or '.'}", reason=error.strerror or str(error)) from error

    def _file(
        self, path: str, entry: os.DirEntry[str], skipped: Callable[[str, str], None]
    ) -> Iterator[tuple[str, LocalFile]]:
        if (reason := _refusal(path, entry)) is not None:
            skipped(path, reason)
        elif (found := self.look(path)) is not None:
            yield path, found

    def _meet(self, folder: str) -> bool:
        """A folder is a collection; whether it keeps readable files, which come from its log."""
        self.collections.add(folder)
        if (self.root / folder / ENGINE_FOLDER / "files").exists():
            self._readable.add(folder)
        return folder in self._readable

    def belongs(self, path: str) -> bool:
        """Whether a path is a readable file of a collection that walks met: its log makes it, and takes it away."""
        if not self._readable:
            return False
        return path.startswith(tuple(f"{each}/" for each in (*self._readable, *READABLE_FOLDERS)))

    def look(self, path: str) -> LocalFile | None:
        """A file, or None if there is none; also if a folder or a link is there."""
        try:
            state = os.lstat(self._base + path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return LocalFile(state.st_size, state.st_mtime_ns) if stat.S_ISREG(state.st_mode) else None

    def is_taken(self, path: str) -> bool:
        """Whether something is there that is not a file: a folder, a link, a device."""
        return self.look(path) is None and os.path.lexists(self._base + path)

    def hash(self, path: str, seen: LocalFile) -> tuple[LocalFile, bytes]:
        """A file with its digest, and its time as it may be trusted later. Raises FileNotFoundError."""
        while True:
            digest = sha256()
            with (self.root / path).open("rb") as file:
                while some := file.read(_READ_BYTES):
                    digest.update(some)
            now = self.look(path)
            if now is None:
                raise FileNotFoundError(errno.ENOENT, "it is gone", path)
            if now == seen:
                return self.settled(now), digest.digest()
            seen = now

    def settled(self, seen: LocalFile) -> LocalFile:
        """The same, with the time 0 if the file is so young that a change might not show."""
        is_young = abs(self._clock.now_ms() * 1_000_000 - seen.mtime) < RACY_NS
        return LocalFile(seen.size, 0) if is_young else seen

    def read(self, path: str) -> bytes:
        """The whole file."""
        return (self.root / path).read_bytes()

    def write(self, path: str, parts: Iterable[bytes], name: str, expected: LocalFile | None) -> LocalFile | None:
        """Put a file in its place, whole; None if what is there is not what was `expected` any more.

        `name` sets temporary files apart. Raises InvalidRequestError if a link or a file is on the way.
        """
        target = self.root / check_path(path)
        self._make_parents(path)
        temporary = target.with_name(f".{name}.tmp")
        try:
            with temporary.open("wb") as file:
                for some in parts:
                    file.write(some)
                file.flush()
                os.fsync(file.fileno())
            if self.look(path) != expected or self.is_taken(path):
                return None
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        return self.look(path)

    def remove(self, path: str, expected: LocalFile | None) -> bool:
        """Delete a file, and folders that are empty then; False if it is not as it was expected any more."""
        found = self.look(path)
        if found is None:
            return not self.is_taken(path)
        if found != expected:
            return False
        (self.root / path).unlink(missing_ok=True)
        for parent in (self.root / path).parents:
            if parent == self.root:
                break
            try:
                parent.rmdir()
            except OSError:
                break
        return True

    def set_aside(self, path: str, mark: str) -> str:
        """Give a file another name beside it; returns that."""
        head, dot, tail = path.rpartition(".")
        is_ending = dot and "/" not in tail and head and not head.endswith("/")
        stem, ending = (head, f".{tail}") if is_ending else (path, "")
        count = 0
        while True:
            other = f"{stem}.conflict-{mark}{f'-{count}' if count else ''}{ending}"
            if not os.path.lexists(self.root / other):
                (self.root / path).rename(self.root / other)
                return other
            count += 1

    def make_folder(self, path: str) -> None:
        """Make the folder of a file whose body stays in the bucket."""
        self._make_parents(path)

    def _make_parents(self, path: str) -> None:
        here = self.root
        for part in path.split("/")[:-1]:
            here = here / part
            try:
                here.mkdir()
            except FileExistsError:
                if here.is_symlink() or not here.is_dir():
                    raise InvalidRequestError(
                        f"path {path!r}", reason=f"{here.relative_to(self.root)} is a file or a link, not a folder"
                    ) from None

    def folds_case(self) -> bool:
        """Whether names that differ in case only are one here."""
        probe = self.root / STATE_FOLDER / "CaseProbe"
        probe.touch()
        try:
            return probe.with_name("caseprobe").exists()
        finally:
            probe.unlink(missing_ok=True)


def _looked_at(entry: os.DirEntry[str]) -> os.stat_result | None:
    """A file of a listing; None if it is something else, or gone."""
    try:
        state = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return state if stat.S_ISREG(state.st_mode) else None


def _refusal(path: str, entry: os.DirEntry[str]) -> str | None:
    """Why something cannot be synced; None if it can."""
    if entry.is_symlink():
        return "it is a symbolic link"
    if not entry.is_file(follow_symlinks=False):
        return "it is neither a file nor a folder"
    try:
        check_path(path)
    except InvalidRequestError as error:
        return error.reason
    return None
