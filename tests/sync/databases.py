"""Copies of one database in folders and a bucket, and what must be true when all of them have met.

Every document that a user inserts has an id of its own, and nobody deletes any: in the end all sides have all of them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from wormdb.api.database import connect
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.storage.pool import SerialPool
from wormdb.sync import Sync
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from wormdb.api.database import Database
    from wormdb.storage.store import Store
    from wormdb.sync import SyncReport

NAME = "org/notes"
QUIET = Settings(forward="manual")
_ticks = itertools.count(1)


class Databases:
    """A bucket, and copies of its database in folders."""

    def __init__(self, root: Path, names: str = "ab") -> None:
        self.clock = ManualClock()
        self._name = f"databases-{next(_ticks)}"
        self.store = self.handle()
        self.copies = {name: Copy(self, root / name) for name in names}
        self.written: set[str] = set()
        self._serial = itertools.count()

    def handle(self) -> MemoryStore:
        """The bucket, for one process."""
        return MemoryStore(self._name, clock=self.clock)

    def bucket(self) -> Database:
        """The database in the bucket, for one process."""
        return connect(self.handle(), settings=QUIET, clock=self.clock, chance=SeededChance(next(_ticks)))

    def insert_there(self, **more: Any) -> str:
        """A user of the bucket inserts a document."""
        with self.bucket() as database:
            return self.insert(database, **more)

    def insert(self, database: Database, **more: Any) -> str:
        """A document with an id of its own."""
        number = next(self._serial)
        identity = f"d{number}"
        database[NAME].insert({"id": identity, "n": number, **more})
        self.written.add(identity)
        return identity

    def meet(self) -> None:
        """Sync all copies until nothing changes."""
        for _ in range(8):
            self.clock.advance(120)
            reports = [copy.sync(rebase=True) for copy in self.copies.values()]
            assert not [each for report in reports for each in report.collections if each.verb == "failed"], reports
            if not any(report.count for report in reports):
                return
        raise AssertionError("the copies do not come to rest")

    def check(self) -> None:
        """Let all copies meet: each has every document once, and a log that is sound and equal to the bucket's."""
        self.meet()
        with self.bucket() as database:
            assert {each["id"] for each in database[NAME].find()} == self.written
            assert [each.findings for each in database.verify()] == [()]
        for copy in self.copies.values():
            with copy.database() as database:
                assert {each["id"] for each in database[NAME].find()} == self.written
                assert [each.findings for each in database.verify()] == [()]


class Copy:
    """One folder."""

    def __init__(self, world: Databases, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.world = world
        self.folder = folder

    def database(self, settings: Settings = QUIET) -> Database:
        """The database in the folder, for one process."""
        world = self.world
        return connect(self.folder, settings=settings, clock=world.clock, chance=SeededChance(next(_ticks)))

    def insert(self, **more: Any) -> str:
        """The user of the folder inserts a document."""
        with self.database() as database:
            return self.world.insert(database, **more)

    def open(self, store: Store | None = None) -> Sync:
        """As a new process does."""
        return Sync(
            self.folder,
            store=store or self.world.handle(),
            pool=SerialPool(),
            clock=self.world.clock,
            chance=SeededChance(next(_ticks)),
        )

    def push(self, store: Store | None = None, **options: Any) -> SyncReport:
        """One push by a process of its own."""
        with self.open(store) as sync:
            return sync.push_changed(**options)

    def pull(self, store: Store | None = None, **options: Any) -> SyncReport:
        """One pull by a process of its own."""
        with self.open(store) as sync:
            return sync.pull_changed(**options)

    def sync(self, store: Store | None = None, **options: Any) -> SyncReport:
        """Both."""
        with self.open(store) as sync:
            return sync.sync(**options)
