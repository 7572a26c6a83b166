"""The time of a folder: one clock for all processes that have it open, which neither goes back nor leaps.

Ages decide what may be deleted and what may still be believed, so they must be measured by one clock. Wall clocks are
set, by days if they were wrong. So the folder keeps a record: its time at an uptime of the machine. From there its time
goes on as the uptime does, which cannot be set. All processes compute the same from the same record: none of them,
whatever its clock says, makes anything look older or younger than it is.

The wall clock is believed only where nothing else tells how long it was: at the first record, after a start of the
machine, and for some minutes after that, when clocks are usually set. The folder's time does not go back then, either.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from wormdb.storage.folder.directories import RESERVED_FOLDER, FolderTree, let_go, try_lock
from wormdb.system.clock import Clock, Uptime
from wormdb.system.types import StoreTime

__all__ = ["PATIENCE_MS", "FolderTime", "Reckoning"]

PATIENCE_MS: Final = 10_000
"""A verb that took longer tells no time: it may have looked at any moment."""
SETTLING_MS: Final = 600_000
"""For so long after a start of the machine its clock may be set."""
RECORD_MS: Final = 1_000
"""How far the time goes on before it is recorded again."""
FOLDER: Final = (RESERVED_FOLDER, "time")
NAME: Final = "now"
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_WRITE: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_BOOT_CHARS: Final = 36
_BYTES_MAX: Final = 200
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Reckoning:
    """A time of the folder, and the uptime of the machine at which it was that."""

    time: StoreTime
    uptime: Uptime

    def at(self, wall_ms: int, uptime: Uptime) -> StoreTime:
        """The folder's time now, by what this process sees of the machine."""
        if uptime.boot != self.uptime.boot or uptime.ms < max(self.uptime.ms, SETTLING_MS):
            return StoreTime(max(self.time, wall_ms))
        return StoreTime(self.time + uptime.ms - self.uptime.ms)

    def encoded(self) -> bytes:
        """As a line of fixed length, with a checksum."""
        text = f"wormdb time 1 {self.time:020d} {self.uptime.ms:020d} {self.uptime.boot:{_BOOT_CHARS}s} "
        return f"{text}{crc32(text.encode()):08x}\n".encode()

    @classmethod
    def decoded(cls, line: bytes) -> Reckoning | None:
        """From a line; None if it is not whole."""
        try:
            text = line.decode("ascii")
            _, _, version, time, uptime, rest = text.split(" ", 5)
            boot, checksum = rest[:_BOOT_CHARS], rest[_BOOT_CHARS + 1 :].rstrip("\n")
            if version != "1" or crc32(text[: -len(checksum) - 1].encode()) != int(checksum, 16):
                return None
            return cls(StoreTime(int(time)), Uptime(boot.rstrip(), int(uptime)))
        except ValueError:
            return None


class FolderTime:
    """Tells a folder's time. Reading writes nothing: until a first write there is no time. Thread-safe."""

    def __init__(self, tree: FolderTree, clock: Clock) -> None:
        """Nothing is opened yet."""
        self._tree = tree
        self._clock = clock
        self._path = os.path.join(tree.root, *FOLDER, NAME)  # noqa: PTH118 - asked at every verb
        self._read: tuple[Reckoning, Uptime] | None = None
        """The record as it was last read, and when."""

    def after(self, began: Uptime) -> StoreTime | None:
        """The time now, of a look that began then; None if that took too long, or if there is no time yet."""
        uptime = self._clock.uptime()
        if uptime.boot != began.boot or uptime.ms - began.ms > PATIENCE_MS:
            return None
        kept = self._kept(uptime)
        if kept is not None:
            return kept
        found = self._found()
        return None if found is None else found.at(self._clock.now_ms(), uptime)

    def for_write(self) -> StoreTime:
        """The time now, recorded so that it does not depend on this process. Raises OSError."""
        found = self._found()
        now = self._reckoned(found)
        if found is None or now.time - found.time >= RECORD_MS or found.uptime.boot != now.uptime.boot:
            now = self._record()
        return now.time

    def _kept(self, uptime: Uptime) -> StoreTime | None:
        """The time now by the record that was read in the last second: what is recorded after it goes on as it does.

        None if that is not certain: before the machine's clock has settled a later record may say something else.
        """
        if self._read is None:
            return None
        found, then = self._read
        is_recent = uptime.boot == then.boot and 0 <= uptime.ms - then.ms < RECORD_MS
        is_settled = found.uptime.boot == uptime.boot and found.uptime.ms >= SETTLING_MS
        return StoreTime(found.time + uptime.ms - found.uptime.ms) if is_recent and is_settled else None

    def _reckoned(self, found: Reckoning | None) -> Reckoning:
        uptime, wall_ms = self._clock.uptime(), self._clock.now_ms()
        return Reckoning(StoreTime(wall_ms) if found is None else found.at(wall_ms, uptime), uptime)

    def _found(self) -> Reckoning | None:
        """The record; None if there is none or it is not whole, however often it is read."""
        uptime = self._clock.uptime()
        for _ in range(_TRIES):
            try:
                descriptor = os.open(self._path, _READ)
                try:
                    found = Reckoning.decoded(os.pread(descriptor, _BYTES_MAX, 0))
                finally:
                    let_go(descriptor)
            except OSError:
                return None
            if found is not None:
                self._read = found, uptime
                return found
        return None

    def _record(self) -> Reckoning:
        """Write down the time now, unless another process is about to; what it is."""
        with self._tree.make(FOLDER, "/".join(FOLDER)) as folder:
            descriptor = os.open(NAME, _WRITE, 0o666, dir_fd=folder)
        try:
            if not try_lock(descriptor):
                return self._reckoned(self._found())
            now = self._reckoned(Reckoning.decoded(os.pread(descriptor, _BYTES_MAX, 0)))
            os.pwrite(descriptor, now.encoded(), 0)
            return now
        finally:
            let_go(descriptor)
