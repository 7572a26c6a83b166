"""Rows as blocks: cut by size, one after the other or side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as replaced

from tests.engine.blocks.rig import Folder, rows
from wormdb.engine.blocks.runs import Runs
from wormdb.engine.blocks.write import BlockWriter, weight
from wormdb.storage.pool import ThreadPool


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 40, 55])
def test_blocks_made_side_by_side_are_those_made_one_after_the_other(count: int) -> None:
    given = rows(range(count), rev=0)
    target = 10 * weight(given[0][1]) if given else 1
    alone, together, threads = Folder(), Folder(), Folder()
    pool = ThreadPool(2)
    expected = BlockWriter(alone.shelf(), alone.writer, target).write(given)
    found = BlockWriter(together.shelf(), together.writer, target).write_side_by_side(given)
    threaded = BlockWriter(threads.shelf(), replace(threads.writer, pool=pool), target).write_side_by_side(given)
    pool.close()
    assert len(expected) == -(-count // 10)
    for blocks, folder in ((found, together), (threaded, threads)):
        assert [replaced(one, name="", sidecar=replaced(one.sidecar, name="")) for one in blocks] == [
            replaced(one, name="", sidecar=replaced(one.sidecar, name="")) for one in expected
        ]
        assert [one.name for one in blocks] == sorted({one.name for one in blocks})
        assert [request.kind for request in folder.requests] == ["put"] * 2 * len(expected)
        if blocks:
            assert list(Runs(folder.shelf(), blocks).scan()) == given
