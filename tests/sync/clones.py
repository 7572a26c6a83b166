"""Clones of one bucket, users that edit them, and what must be true when all of them have met.

Every write of a user has a content of its own. A content is *retired* when a user overwrites or deletes the file that
has it, in front of their eyes. When all clones were synced until nothing changes, they are equal, and hold exactly
the contents that were not retired: nothing was lost, nothing came back.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

from wormdb.storage.memory import MemoryStore
from wormdb.storage.pool import SerialPool
from wormdb.sync import Sync
from wormdb.sync.index import decode_listing, decode_manifest, decode_part
from wormdb.sync.paths import MANIFEST
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from wormdb.storage.store import Store
    from wormdb.sync import ConflictPolicy, SyncReport

ROUNDS_MAX = 12
_ticks = itertools.count(1_000_000_000_000_000_000, 1_000_000_000)


class World:
    """A bucket, its clones, and what their users wrote."""

    def __init__(self, root: Path, names: str = "abc") -> None:
        self.clock = ManualClock()
        self._name = f"clones-{next(_ticks)}"
        self.store = self.handle()
        self.clones = {name: Clone(self, root / name) for name in names}
        self.written: set[str] = set()
        self.retired: set[str] = set()
        self._serial = 0

    def handle(self) -> MemoryStore:
        """The bucket, for one process."""
        return MemoryStore(self._name, clock=self.clock)

    def content(self) -> str:
        """Another one each time."""
        self._serial += 1
        found = f"content {self._serial}"
        self.written.add(found)
        return found

    def meet(self) -> None:
        """Sync all clones until nothing changes, and nothing was put off."""
        for _ in range(ROUNDS_MAX):
            self.clock.advance(120)
            reports = [clone.sync() for clone in self.clones.values()]
            if not any(report.count or report.conflicts for report in reports):
                return
        raise AssertionError(f"the clones do not come to rest in {ROUNDS_MAX} rounds")

    def check(self) -> None:
        """Let all clones meet, and compare them with each other, with the bucket, and with what was written."""
        self.meet()
        first, *others = self.clones.values()
        for other in others:
            assert other.files() == first.files()
        assert self.listed() == first.files()
        found = list(first.files().values())
        assert set(found) == self.written - self.retired
        assert len(found) == len(set(found)), "a content is there twice"

    def listed(self) -> dict[str, str]:
        """The files that the index names, with what their objects hold."""
        found = self.store.probe(MANIFEST).found
        if found is None:
            return {}
        files = {}
        manifest = decode_manifest(found.body, MANIFEST, lambda key: decode_listing(self.store.get(key).body, key))
        for note in manifest.partitions.values():
            part = decode_part(self.store.get(note.key).body, note.key)
            for path, entry in part.entries.items():
                if entry.is_there:
                    files[path] = self.store.get(entry.key).body.decode()
        return files


class Clone:
    """One folder and its user."""

    def __init__(self, world: World, folder: Path) -> None:
        folder.mkdir()
        self.world = world
        self.folder = folder

    def open(self, store: Store | None = None, conflicts: ConflictPolicy | None = "keep-both") -> Sync:
        """As a new process does."""
        return Sync(
            self.folder,
            store=store or self.world.handle(),
            conflicts=conflicts,
            pool=SerialPool(),
            clock=self.world.clock,
            chance=SeededChance(next(_ticks) // 1_000_000_000),
        )

    def write(self, path: str) -> str:
        """The user writes a new content to a file, over what is there."""
        self.retire(path)
        content = self.world.content()
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        moment = next(_ticks)
        os.utime(file, ns=(moment, moment))
        return content

    def delete(self, path: str) -> None:
        """The user deletes a file, if there is one."""
        self.retire(path)
        (self.folder / path).unlink(missing_ok=True)

    def retire(self, path: str) -> None:
        """The user sees what is there, and does not want it any more."""
        file = self.folder / path
        if file.is_file():
            self.world.retired.add(file.read_text())

    def files(self) -> dict[str, str]:
        """All that the user has."""
        return {
            str(file.relative_to(self.folder)): file.read_text()
            for file in sorted(self.folder.rglob("*"))
            if file.is_file() and not str(file.relative_to(self.folder)).startswith(".worm.sync")
        }

    def push(self, scope: Any = None, **options: Any) -> SyncReport:
        """One push by a process of its own."""
        with self.open() as sync:
            return sync.push_changed(scope, **options)

    def pull(self, scope: Any = None, **options: Any) -> SyncReport:
        """One pull by a process of its own."""
        with self.open() as sync:
            return sync.pull_changed(scope, **options)

    def sync(self, scope: Any = None) -> SyncReport:
        """Both."""
        with self.open() as sync:
            return sync.sync(scope)
