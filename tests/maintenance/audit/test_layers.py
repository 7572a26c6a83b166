"""Blocks of a job that overlap: what verify, repair and gc make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.bulk.rig import Rows, run_job
from tests.engine.bulk.stage_rig import logger
from tests.engine.rig import PATHS, Rig, contents
from tests.maintenance.gc.rig import DAY, gc, site_of
from wormdb.engine.blocks.runs import runs_of
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.state.view import id_key
from wormdb.maintenance.audit.repair import repair
from wormdb.maintenance.audit.verify import verify
from wormdb.storage.pool import SerialPool

if TYPE_CHECKING:
    from wormdb.format.blocklist import BlockPageRef

TASKS: list[Rows] = [
    [(f"k{number:03}", {"task": task, "pad": "x" * 200}) for number in range(task, 60, 3)] for task in range(3)
]


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    run_job(rig, TASKS)
    logger(rig).forward()
    return rig


def versions(rig: Rig) -> list[int]:
    ledger = logger(rig)
    history = ledger.history(ledger.view())
    return [len(history.versions(id_key(b'"%b"' % identity.encode()))) for rows in TASKS for identity, _ in rows]


def pages_of(rig: Rig) -> tuple[BlockPageRef, ...]:
    place = logger(rig).view().place
    assert place is not None
    assert len({run.through for run in runs_of(place.root.attached, place.root.attached_pages)}) == 1
    assert len(runs_of(place.root.attached, place.root.attached_pages)) == 3
    return place.root.attached_pages


def test_they_are_sound_and_stay_so_when_garbage_is_collected(rig: Rig) -> None:
    pages_of(rig)
    before = contents(logger(rig).view())
    assert verify(site_of(rig), unreferenced=True).findings == ()
    rig.clock.advance(30 * DAY)
    gc(rig)
    rig.clock.advance(2 * DAY)
    gc(rig)
    assert verify(site_of(rig)).findings == ()
    assert contents(logger(rig).view()) == before
    assert versions(rig) == [1] * 60


def test_pages_of_their_list_that_are_gone_are_made_again_of_the_log(rig: Rig) -> None:
    before = contents(logger(rig).view())
    pages = pages_of(rig)
    assert len(pages) > 3
    for page in pages:
        rig.store.delete(f"{PATHS.data}{page.name}.list")
    assert len(verify(site_of(rig)).findings) >= len(pages)
    done = repair(site_of(rig))
    assert (done.left, done.lost) == ((), ())
    assert verify(site_of(rig)).findings == ()
    assert contents(logger(rig).view()) == before
    assert versions(rig) == [1] * 60


def test_a_block_of_them_that_is_gone_is_told_once(rig: Rig) -> None:
    shelf = Shelf(rig.store, SerialPool(), PATHS.data)
    lost = shelf.listed(pages_of(rig)[:1])[pages_of(rig)[0].name][0]
    rig.store.delete(f"{PATHS.data}{lost.name}.parquet")
    assert any(lost.name in finding.key for finding in verify(site_of(rig)).findings)
    done = repair(site_of(rig), accept_loss=True)
    assert done.left == ()
    assert not any(loss.is_document for loss in done.lost)
    assert verify(site_of(rig)).findings == ()
