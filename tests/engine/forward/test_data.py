"""Documents as a projection: whatever a step brings is in the next root, and a job's blocks stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.rig import COLLECTION, PATHS, doc, ident
from wormdb.engine.blocks.runs import RunBase, Runs, row_of
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.blocks.tiers import FANOUT
from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.forward.forward import project_data
from wormdb.engine.log.clock import MiscClock
from wormdb.engine.log.objects import ObjectWriter
from wormdb.engine.log.root import Place
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.projection import Net, ProjectionStep, Sizes
from wormdb.engine.state.view import EmptyBase, Overlay, StoredVersion, View, id_key
from wormdb.errors import CorruptionError
from wormdb.format.event import JobAttached
from wormdb.format.membership import key_hash
from wormdb.format.root import Root, decode_root, encode_root
from wormdb.format.sample import Sampler, decode_sample, encode_sample
from wormdb.settings import KIB, SAMPLE_ROWS
from wormdb.storage.memory import MemoryStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.engine.state.projection import ProjectionResult
    from wormdb.format.blocklist import BlockEntry

JOB = WriteId("a" * 32)


class Bench:
    """A collection of which only the documents are projected; `alive` is what must be in it."""

    def __init__(self, sizes: Sizes) -> None:
        self.store = MemoryStore()
        self.pool = SerialPool()
        self.writer = ObjectWriter(self.store, self.pool, MiscClock(ManualClock()), SeededChance(1))
        self.sizes = sizes
        self.number = 0
        self.held: dict[bytes, StoredVersion] = {}
        self.retired: list[str] = []
        self.root = Root(
            path=COLLECTION,
            collection=JOB,
            revision=1,
            write_id=JOB,
            misc=0,
            hash_applied=bytes(32),
            hash_trimmed=bytes(32),
            definition=b"",
        )

    @property
    def place(self) -> Place:
        return Place(self.store, self.pool, PATHS, self.root)

    @property
    def alive(self) -> dict[bytes, bytes]:
        return {key: held.document for key, held in self.held.items() if held.document is not None}

    def holds(self, changes: Mapping[Any, int | None], rev: int) -> dict[bytes, StoredVersion]:
        made = {}
        for identity, value in changes.items():
            key = id_key(ident(identity))
            seq = self.held[key].seq + 1 if key in self.held else 1
            document = None if value is None else doc(identity, v=value)
            made[key] = StoredVersion(ident(identity), rev, seq, document)
        return dict(sorted(made.items()))

    def project(self, net: tuple[Net, ...] = (), attached: JobAttached | None = None) -> ProjectionResult:
        view = View(
            LogNumber(self.number), Definition.none(), EmptyBase(), LogNumber(0), Overlay(), count=len(self.alive)
        )
        outcome = project_data(ProjectionStep(self.place, view, (), net, self.writer, self.sizes, attached))
        self.root = msgspec.structs.replace(self.root, **outcome.fields)
        self.retired += outcome.retired
        assert decode_root(encode_root(self.root), name="root", path=COLLECTION) == self.root
        return outcome

    def write(self, changes: Mapping[Any, int | None]) -> ProjectionResult:
        """Bring forward some changes: values, None for a delete."""
        self.number += 1
        before = self.alive
        new = self.holds(changes, self.number)
        self.held |= new
        return self.project(tuple(Net(key, before.get(key), held) for key, held in new.items()))

    def attach(self, changes: Mapping[Any, int | None], *, target: int = 1 << 20) -> JobAttached:
        """Attach the blocks of a job."""
        self.number += 1
        new = self.holds(changes, 0)
        sampler = Sampler(note_gone=True)
        writer = BlockWriter(Shelf(self.store, self.pool, PATHS.data), self.writer, target)
        rows = [(key, row_of(held)) for key, held in new.items()]
        job = JobAttached(
            job=JOB, blocks=tuple(writer.write(sampler.watch(rows))), sequence=40, sample=encode_sample(sampler.sample)
        )
        self.held |= {
            key: StoredVersion(held.id, self.number, held.seq, held.document, held.trash) for key, held in new.items()
        }
        self.project(attached=job)
        return job

    def check(self) -> None:
        base = RunBase(self.place)
        assert dict(base.scan()) == self.held
        assert self.root.rows == len(self.alive)
        sample = decode_sample(self.root.sample, name="root")
        assert dict(sample.rows) == {key: body for key, body in self.alive.items() if key_hash(key) < sample.limit}
        shelf = base.runs.shelf
        for runs in (base.runs, Runs(shelf, self.root.attached, self.root.attached_pages)):
            for block in runs.blocks():
                assert shelf.block_key(block.name) not in self.retired
                assert shelf.sidecar_key(block.name) not in self.retired


@given(
    st.lists(
        st.tuples(st.booleans(), st.dictionaries(st.integers(0, 200), st.none() | st.integers(0, 9), min_size=1)),
        min_size=1,
        max_size=12,
    )
)
def test_every_step_leaves_the_state_in_the_root(steps: list[tuple[bool, dict[int, int | None]]]) -> None:
    bench = Bench(Sizes(block_target=600, run_smallest=4_000))
    jobs: list[BlockEntry] = []
    for is_attached, changes in steps:
        if is_attached:
            jobs += bench.attach(changes, target=300).blocks
        else:
            bench.write(changes)
        bench.check()
    assert sorted(block.name for block in bench.root.attached) == sorted(block.name for block in jobs)


def test_blocks_of_a_job_outlive_their_merge() -> None:
    bench = Bench(Sizes(block_target=1 << 20, run_smallest=1 << 20))
    (block,) = bench.attach({1: 1, 2: 1}).blocks
    assert [(entry.name, entry.run) for entry in bench.root.blocks] == [(block.name, 1)]
    assert bench.root.attached == bench.root.blocks
    for value in range(2, FANOUT):
        bench.write({1: value})
    outcome = bench.write({1: FANOUT})
    assert [entry.name for entry in bench.root.blocks] != [block.name], "it was merged"
    assert len(bench.root.blocks) == 1
    assert len(outcome.retired) == 2 * (FANOUT - 2), "what forwarding wrote is retired, the job's block is not"
    assert [entry.name for entry in bench.root.attached] == [block.name]
    bench.check()


def test_a_long_job_goes_to_pages_of_both_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wormdb.engine.blocks.runs.LIST_INLINE_BYTES_MAX", 1_000)
    bench = Bench(Sizes(block_target=300, run_smallest=1 << 20))
    job = bench.attach(dict.fromkeys(range(40), 1), target=300)
    assert len(job.blocks) > 4
    assert (bench.root.blocks, bench.root.attached) == ((), ())
    for value in range(2, FANOUT + 2):
        bench.write({1: value})
        bench.check()
    assert any(key.endswith(".list") for key in bench.retired)


def test_the_greatest_id_made_of_digits_is_kept() -> None:
    bench = Bench(Sizes())
    bench.write({"7": 1, "x": 1})
    assert bench.root.sequence == 7
    bench.write({"12": 1})
    bench.write({"12": None, "3": 1})
    assert bench.root.sequence == 12
    bench.attach({"30": 1})
    assert bench.root.sequence == 40, "as the job says"


def test_the_sample_is_filled_again_when_all_is_merged() -> None:
    bench = Bench(Sizes(block_target=1 << 20, run_smallest=1 << 20))
    bench.write(dict.fromkeys(range(400), 1))
    kept = decode_sample(bench.root.sample, name="root")
    assert len(kept.rows) == SAMPLE_ROWS
    gone = [number for number in range(400) if id_key(ident(number)) in kept.rows][:70]
    bench.write(dict.fromkeys(gone))
    assert len(decode_sample(bench.root.sample, name="root").rows) == SAMPLE_ROWS - 70
    while len(bench.root.blocks) > 1:
        bench.write({1_000: bench.number})
        bench.check()
    assert len(decode_sample(bench.root.sample, name="root").rows) == SAMPLE_ROWS


def test_a_sample_of_long_documents_stays_small() -> None:
    bench = Bench(Sizes())
    bench.write(dict.fromkeys((f"{'long' * 50}{number:04d}" for number in range(500)), 1))
    assert bench.root.sample is not None
    assert len(bench.root.sample) < 65 * KIB
    bench.check()


def test_a_step_that_changes_no_document_writes_nothing() -> None:
    bench = Bench(Sizes())
    bench.write({1: 1})
    root = bench.root
    outcome = bench.project()
    assert outcome.retired == ()
    assert bench.root == root


def test_blocks_that_overlap_are_no_run() -> None:
    bench = Bench(Sizes())
    first = bench.attach({1: 1, 5: 1}).blocks
    second = bench.attach({3: 1, 9: 1}).blocks
    root = bench.root
    bench.number += 1
    with pytest.raises(CorruptionError, match="overlap") as raised:
        bench.project(attached=JobAttached(job=JOB, blocks=(*first, *second)))
    assert raised.value.key == PATHS.entry(LogNumber(3))
    bench.project(attached=JobAttached(job=JOB))
    assert bench.root == root, "a job without blocks brings nothing"
