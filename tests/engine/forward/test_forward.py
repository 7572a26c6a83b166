"""Forwarding: whatever was written comes back from blocks, at a cost that follows what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.rig import PATHS, Rig, contents, ident, remove, save
from wormdb.engine.blocks.runs import runs_of
from wormdb.engine.blocks.tiers import FANOUT, runs_max
from wormdb.engine.forward.forward import Sizes
from wormdb.engine.state.view import id_key
from wormdb.format.sample import decode_sample
from wormdb.storage.meter import MeteredStore
from wormdb.system.types import LogNumber

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


def test_runs_stay_few_and_a_small_change_writes_little() -> None:
    rig = Rig()
    written: list[int] = []
    store = MeteredStore(
        rig.store, hook=lambda request: written.append(request.bytes_up * request.key.startswith(PATHS.data))
    )
    ledger = rig.ledger(store, sizes=Sizes(block_target=10_000, run_smallest=2_000))
    ledger.commit(rig.batch(*(save(f"k{number:04d}", pad=f"{number:08d}" * 20) for number in range(2_000))))
    ledger.forward()
    total = sum(run.size for run in runs_of(root_of(rig).blocks, root_of(rig).block_pages))
    written.clear()
    for number in range(3 * FANOUT):
        ledger.commit(rig.batch(save(f"k{number:04d}", pad="changed")))
        ledger.forward()
        runs = runs_of(root_of(rig).blocks, root_of(rig).block_pages)
        assert len(runs) <= runs_max(max(run.size for run in runs), 2_000)
    assert 0 < sum(written) < total / 2, "the large run is not written again for a few small changes"


def test_a_point_get_is_four_gets_when_cold_and_one_beside_the_tail_when_warm() -> None:
    rig = Rig()
    ledger = rig.ledger(sizes=SMALL)
    ledger.commit(rig.batch(*(save(f"k{number:03d}", pad="x" * 50) for number in range(40))))
    ledger.forward()
    store = rig.counted()
    reader = rig.ledger(store)
    key = id_key(ident("k007"))
    held = reader.view().get(key)
    assert held is not None
    tail = PATHS.entry(LogNumber(2))
    assert [trace.key.rpartition(".")[2] if PATHS.data in trace.key else trace.key for trace in store.trace] == [
        PATHS.root,
        tail,
        "map",
        "parquet",
    ]
    before = len(store.trace)
    assert reader.view().get(key) == held
    assert [trace.key.endswith(".parquet") for trace in store.trace[before:]] == [False, True]
    before = len(store.trace)
    assert reader.known().get(id_key(ident("zzz"))) is None
    assert len(store.trace) == before, "no block reaches that far"


def test_the_sample_follows_batches_that_were_staged() -> None:
    rig = Rig()
    ledger = rig.ledger(stage_bytes=200, sizes=SMALL)
    ledger.commit(rig.batch(save("a", n=1), save("b", n=1)))
    ledger.forward()
    ledger.commit(rig.batch(remove("a"), *(save(f"k{number}", n=number) for number in range(30))))
    ledger.forward()
    assert len(root_of(rig).attached) > 0, "it was staged"
    sample = decode_sample(root_of(rig).sample, name="root")
    alive = {key: held.document for key, held in rig.ledger().view().scan() if held.document is not None}
    assert dict(sample.rows) == alive
    assert len(alive) == root_of(rig).rows == 31
