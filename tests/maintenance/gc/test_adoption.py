"""Garbage is collected while files of others are adopted: whoever comes first at whatever request, nothing is lost.

An adoption opens its job with the entry that attaches it, so the log says nothing of its blocks before that. They may
be days old by then.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.engine.rig import HookStore
from tests.files.adopt.bucket import LAYOUTS, schema, small
from tests.files.adopt.rig import check, database_on, new_clock, world
from tests.maintenance.gc.rig import DAY
from tests.maintenance.rival_store import Before
from tests.simulation.mutants import rewritten
from wormdb.errors import CorruptionError, WormError
from wormdb.maintenance.gc.collect import _CollectionRound
from wormdb.maintenance.gc.jobs import OpenJobs
from wormdb.testing.fault_store import SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.files.adopt.adopt import Adoption
    from wormdb.storage.memory import MemoryStore
    from wormdb.storage.store import Store
    from wormdb.system.clock import ManualClock

    Told = Callable[[str, int, int], None]

NAME = "org/customers"
BLOCKS = (f"{NAME}/.worm.db/data/", f"{NAME}/.worm.db/history/")
LOG = f"{NAME}/.worm.db/committed/"
ROOT = LAYOUTS["root"]
LEFT = f"{BLOCKS[0]}0000000000000001-00000000.parquet"


class World:
    """A bucket whose collection was defined and brought forward, and has no document yet; time is the store's."""

    def __init__(self) -> None:
        self.bucket = small(ROOT)
        self.clock: ManualClock = new_clock()
        self.store: MemoryStore = world(self.bucket, self.clock)
        self._began = self.clock.monotonic()
        database = database_on(self.store, schema(ROOT, mode="readwrite", indexes={}), 1, forward="manual")
        database.apply_schema()
        database.forward()
        # Somebody crashed long ago, so that there is always something to be found.
        self.store.put(LEFT, b"of a writer that crashed")

    @property
    def later(self) -> float:
        return self.clock.monotonic() - self._began

    def adopt(self, store: Store | None = None, seed: int = 2, told: Told = lambda *_: None) -> Adoption:
        database = database_on(
            store or self.store, schema(ROOT, indexes={}), seed, later=self.later, forward="manual", block_bytes=500
        )
        return database.adopt("Customer", job="j", told=told)

    def cut_off(self) -> None:
        """An adoption that has written all its blocks, days ago."""

        def crash(what: str, _done: int, _total: int) -> None:
            if what == "comparing":
                raise SimulatedCrash

        with pytest.raises(SimulatedCrash):
            self.adopt(told=crash)
        self.clock.advance(3 * DAY)

    def gc(self, store: Store | None = None, seed: int = 5) -> None:
        database_on(store or self.store, None, seed, later=self.later, forward="manual").gc([NAME])

    def gc_later(self) -> None:
        self.clock.advance(3 * DAY)
        self.gc()

    def keys(self) -> list[str]:
        return [found.key for folder in BLOCKS for page in self.store.list(folder) for found in page.objects]

    def check(self) -> None:
        """All is adopted, and stays so whatever is collected later; what nobody needs goes."""
        database = database_on(self.store, None, 6, later=self.later)
        check(database.model("Customer"), self.bucket)
        for _ in range(2):
            self.gc()
            self.clock.advance(2 * DAY)
        database = database_on(self.store, None, 7, later=self.later, cache_bytes=0)
        check(database.model("Customer"), self.bucket)
        assert database.verify([NAME])[0].is_sound
        assert LEFT not in self.keys()


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
def test_garbage_is_collected_before_every_request_of_an_adoption(step: int) -> None:
    number, is_reached = 0, True
    while is_reached:
        number += step
        tried = World()
        store = Before(tried.store, number, tried.gc_later)
        tried.adopt(store)
        is_reached = store.has_acted
        tried.check()
    assert number > 20


def adopt_before_every_request_of_gc() -> int:
    """An adoption that was cut off days ago is finished meanwhile; of how many requests it was before."""
    number, is_reached = 0, True
    while is_reached:
        number += 1
        tried = World()
        tried.cut_off()
        store = Before(tried.store, number, partial(tried.adopt, seed=3))
        tried.gc(store)
        is_reached = store.has_acted
        if not is_reached:
            tried.adopt(seed=4)
        tried.check()
    return number


def test_an_adoption_goes_on_before_every_request_of_gc() -> None:
    assert adopt_before_every_request_of_gc() > 5


@pytest.mark.parametrize(
    ("place", "rule", "mistake"),
    [
        (OpenJobs, "if self._is_adopted_now():", "if False:"),
        (_CollectionRound, "self._check_unattached(known.tail)", "pass"),
    ],
    ids=["its record is not asked", "the log is not asked after the record"],
)
def test_without_a_rule_its_blocks_are_lost(place: type, rule: str, mistake: str) -> None:
    with rewritten(place, (rule, mistake)), pytest.raises((AssertionError, WormError)):
        adopt_before_every_request_of_gc()


def test_blocks_of_an_adoption_that_was_cut_off_are_kept_until_it_goes_on() -> None:
    tried = World()
    tried.cut_off()
    written = set(tried.keys())
    for _ in range(4):
        tried.clock.advance(7 * DAY)
        tried.gc()
    assert set(tried.keys()) == written
    assert tried.adopt(seed=3).resumed
    tried.check()


def test_one_that_finds_damage_does_not_give_up_the_blocks_of_another() -> None:
    """Two processes do the same adoption; the first one has compared all when the second one gives up."""
    tried = World()
    store = HookStore(tried.store)
    acted: list[str] = []

    def damaged(what: str, _done: int, _total: int) -> None:
        if what == "comparing":
            raise CorruptionError("a block", reason="of a bad machine")

    def rival(verb: str, key: str) -> None:
        if verb == "put" and key.startswith(LOG) and not acted:
            acted.append(key)
            with pytest.raises(CorruptionError, match="run it again"):
                tried.adopt(seed=3, told=damaged)
            tried.gc_later()

    store.before = rival
    assert not tried.adopt(store).already
    assert acted
    tried.check()
