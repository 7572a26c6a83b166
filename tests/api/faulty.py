"""A database on a store that fails on purpose."""

from __future__ import annotations

from typing import Any

from wormdb.api.database import Database
from wormdb.settings import Settings
from wormdb.storage.conditions import ensure_conditions
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.testing.fault_store import Fault, FaultStore

__all__ = ["faulty"]


def faulty(plan: dict[int, Fault], **settings: Any) -> tuple[Database, FaultStore]:
    """An empty database whose requests fail by their numbers; no time passes."""
    clock = ManualClock()
    inner = MemoryStore(clock=clock)
    ensure_conditions(inner, SeededChance(0))
    store = FaultStore(inner, plan)
    database = Database(
        MeteredStore(store, clock=clock),
        SerialPool(),
        settings=Settings(**settings),
        schema=None,
        actor=None,
        clock=clock,
        chance=SeededChance(1),
    )
    return database, store
