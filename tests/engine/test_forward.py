"""Forwarding: whatever was written comes back from blocks, at a cost that follows what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.rig import COLLECTION, PATHS, Rig, contents, ident, remove, save
from wormdb.engine.forward import Sizes
from wormdb.engine.runs import RunBase, runs_of
from wormdb.engine.state import id_key
from wormdb.engine.tiers import FANOUT, runs_max
from wormdb.errors import CorruptionError
from wormdb.storage.meter import MeteredStore

if TYPE_CHECKING:
    from wormdb.format.root import Root

SMALL = Sizes(block_target=400, run_smallest=1_000)


def root_of(rig: Rig) -> Root:
    root = rig.register.read().root
    assert root is not None
    return root


@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.none() | st.integers(0, 9)), max_size=12), max_size=12))
def test_every_state_comes_back_whatever_is_merged(rounds: list[list[tuple[int, int | None]]]) -> None:
    rig = Rig()
    ledger = rig.ledger(sizes=SMALL)
    expected: dict[int, tuple[int, int, dict[str, int] | None]] = {}
    for changes in rounds:
        for identity, value in changes:
            operation = remove(identity) if value is None else save(identity, v=value)
            if ledger.commit(rig.batch(operation)).changes:
                seq = expected[identity][1] + 1 if identity in expected else 1
                expected[identity] = (ledger.known().number, seq, None if value is None else {"v": value})
        ledger.forward()
        fresh = rig.ledger(sizes=SMALL).view()
        assert contents(fresh) == expected
        for identity, (rev, seq, _) in expected.items():
            held = fresh.get(id_key(ident(identity)))
            assert held is not None
            assert (held.rev, held.seq) == (rev, seq)
        assert fresh.get(id_key(ident("never"))) is None


def test_blocks_are_cut_at_the_target_and_do_not_overlap() -> None:
    rig = Rig()
    ledger = rig.ledger(sizes=SMALL)
    ledger.commit(rig.batch(*(save(f"k{number:03d}", pad="x" * 50) for number in range(40))))
    ledger.forward()
    (run,) = runs_of(root_of(rig).blocks)
    assert len(run.blocks) > 5
    assert all(one.key_last < two.key_first for one, two in zip(run.blocks, run.blocks[1:], strict=False))
    assert sum(block.rows for block in run.blocks) == 40


def test_runs_stay_few_and_a_small_change_writes_little() -> None:
    rig = Rig()
    written: list[int] = []
    store = MeteredStore(rig.store, hook=lambda request: written.append(request.bytes_up * (".parquet" in request.key)))
    ledger = rig.ledger(store, sizes=Sizes(block_target=10_000, run_smallest=2_000))
    ledger.commit(rig.batch(*(save(f"k{number:04d}", pad=f"{number:08d}" * 20) for number in range(2_000))))
    ledger.forward()
    total = sum(run.size for run in runs_of(root_of(rig).blocks))
    written.clear()
    for number in range(3 * FANOUT):
        ledger.commit(rig.batch(save(f"k{number:04d}", pad="changed")))
        ledger.forward()
        runs = runs_of(root_of(rig).blocks)
        assert len(runs) <= runs_max(total + sum(run.size for run in runs), 2_000)
    assert 0 < sum(written) < total / 2, "the large run is not written again for a few small changes"


def test_a_look_up_costs_one_page_and_at_first_one_sidecar() -> None:
    rig = Rig()
    ledger = rig.ledger(sizes=SMALL)
    ledger.commit(rig.batch(*(save(f"k{number:03d}", pad="x" * 50) for number in range(40))))
    ledger.forward()
    store = MeteredStore(rig.store)
    base = RunBase(store, PATHS, root_of(rig).blocks)
    key = id_key(ident("k007"))
    for gets in (2, 1):
        before = store.mark()
        held = base.get(key)
        assert held is not None
        assert store.since(before).gets == gets
    before = store.mark()
    assert base.get(id_key(ident("zzz"))) is None
    assert store.since(before).requests == 0, "no block reaches that far"


@pytest.mark.parametrize("suffix", [".parquet", ".map"])
def test_damage_is_noticed_and_named(suffix: str) -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(save("a", n=1)))
    ledger.forward()
    (block,) = root_of(rig).blocks
    key = f"{COLLECTION}.worm.db/data/{block.name}{suffix}"
    body = bytearray(rig.store.get(key).body)
    for place in range(0, len(body), max(1, len(body) // 60)):
        damaged = bytes(body[:place]) + bytes([body[place] ^ 1]) + bytes(body[place + 1 :])
        rig.store.put(key, damaged)
        base = RunBase(rig.store, PATHS, root_of(rig).blocks)
        with pytest.raises(CorruptionError, match=block.name):
            # A look-up reads the sidecar and one page; the rest of the block is read, and checked, by a scan.
            list(base.scan()) if suffix == ".parquet" else base.get(id_key(ident("a")))
