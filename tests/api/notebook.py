"""A database of notes for the tests of history, snapshots, the trash and time travel."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document
    from wormdb.errors import WormError

__all__ = ["NOTES", "Notebook"]

NOTES: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Note": {
            "path": "@notes/(id:string)",
            "fields": {"title": {"type": "string"}, "mail": {"type": "string"}},
            "indexes": {"byMail": {"field": "mail", "unique": True}},
            "softDelete": {"ttl": 30},
            "snapshots": {"enabled": True, "every": 3, "maxAge": "30d", "maxCount": 3},
        },
        "Keep": {"path": "@keep/(id:string)", "softDelete": True},
        "Plain": {"path": "@plain/(id:string)"},
        "Audit": {"path": "@audit/(id:string)", "mode": "append"},
        "Feed": {"path": "@feed/(id:string)", "mode": "readonly"},
    },
}


@dataclass
class Notebook:
    """One database, and a clock that moves when it is told."""

    db: Database
    clock: ManualClock
    url: str
    forwarded: bool

    @property
    def notes(self) -> Collection[Document]:
        """The notes."""
        return self.db.model("Note")

    @property
    def things(self) -> Collection[Document]:
        """A collection without a model."""
        return self.db["things"]

    def settle(self, seconds: float = 2) -> None:
        """Let time pass, and bring everything forward if that is what is tested."""
        self.clock.advance(seconds)
        if self.forwarded:
            for ledger in self.db._ledgers.opened().values():  # and not those that this test does not use
                ledger.forward()

    @contextmanager
    def refuses(self, kind: type[WormError], match: str) -> Iterator[None]:
        """An error of a kind, with a fix, and nothing is written."""
        before = self.db.cost().puts
        with pytest.raises(kind, match=match) as caught:
            yield
        assert caught.value.fix
        assert self.db.cost().puts == before

    @contextmanager
    def requests(self, *, gets: int, puts: int = 0) -> Iterator[None]:
        """Exactly so many."""
        before = self.db.cost()
        yield
        after = self.db.cost()
        assert (after.gets - before.gets, after.puts - before.puts) == (gets, puts)
        assert (after.lists, after.heads) == (before.lists, before.heads)

    @staticmethod
    @contextmanager
    def in_memory(*, forwarded: bool = False) -> Iterator[Notebook]:
        """One where requests are counted: how many a folder needs depends on the times that it shows."""
        clock = ManualClock()
        with wormdb.connect("memory://", schema=NOTES, clock=clock) as database:
            yield Notebook(database, clock, "memory://", forwarded)

    def now(self) -> datetime:
        """What the clock says."""
        return datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)

    def other(self, schema: dict[str, Any] | None = None) -> Database:
        """The same place, opened once more."""
        return wormdb.connect(self.url, schema=schema, clock=self.clock)
