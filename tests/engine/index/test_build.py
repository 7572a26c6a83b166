from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from tests.engine.index.rig import SMALL, expected
from tests.engine.rig import PATHS, HookStore, Rig, contents, insert, remove, save
from wormdb.engine.commit.define import create_index, drop_index
from wormdb.engine.commit.operations import Pending
from wormdb.engine.forward.build import Builder
from wormdb.engine.forward.keeper import TailLimits
from wormdb.engine.index.shelf import IndexShelf, tree_of
from wormdb.engine.tree.definition import Index
from wormdb.engine.tree.tree import verify
from wormdb.errors import InvalidRequestError, UniqueViolationError, WormError
from wormdb.format.event import IndexBuilding, IndexReady
from wormdb.storage.pool import SerialPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.commit.operations import Guard, Operation
    from wormdb.engine.ledger import Ledger
    from wormdb.format.event import Event
    from wormdb.format.root import IndexRoot
    from wormdb.storage.store import Store

pytestmark = pytest.mark.usefixtures("remembered")

EMAIL = Index("byEmail", ("email",), unique=True)
TAG = Index("byTag", ("tags",))
PAIR = Index("byPair", ("a", "b"))
MANUAL = TailLimits(mode="manual", interval_ms=0)


@dataclass
class World:
    """A bucket with documents; every process has a ledger and a builder of its own."""

    rig: Rig = field(default_factory=Rig)

    def process(self, store: Store | None = None) -> Process:
        return Process(self, self.rig.ledger(store, MANUAL), store or self.rig.store)

    def status(self, name: str = "byEmail") -> tuple[str, str | None]:
        """The state of an index and its reason, as a process sees it that knows nothing yet."""
        status = self.rig.ledger(limits=MANUAL).view().definition.indexes.get(name)
        assert status is not None
        return status.state, status.reason

    def found(self, name: str = "byEmail") -> IndexRoot | None:
        """An index as the root has it."""
        root = self.rig.register.read().root
        return None if root is None else root.index(name)

    def root(self, name: str = "byEmail") -> IndexRoot:
        found = self.found(name)
        assert found is not None
        return found

    def check(self, index: Index) -> None:
        """The tree in the root has what the documents in the root have."""
        ledger = self.process()
        ledger.forward()
        state = self.rig.register.read()
        assert state.root is not None
        shelf = IndexShelf(self.rig.store, PATHS, SerialPool(), SMALL)
        found = self.root(index.name)
        assert (found.state, found.applied) == ("ready", state.root.applied)
        assert verify(tree_of(found), shelf.nodes(state.root, index.name)) == []
        documents = {
            identity: values
            for identity, (_, _, values) in contents(ledger.ledger.view()).items()
            if values is not None
        }
        assert list(shelf.reader(state.root, found).scan()) == expected(index, documents)


@dataclass
class Process:
    world: World
    ledger: Ledger
    store: Store

    def write(self, *operations: Operation) -> None:
        self.ledger.commit(self.world.rig.batch(*operations))

    def create(self, index: Index) -> None:
        self.ledger.commit(create_index(self.world.rig.chance.token(16).hex(), index, seen=self.ledger.view()))

    def drop(self, name: str) -> None:
        self.ledger.commit(drop_index(self.world.rig.chance.token(16).hex(), name, seen=self.ledger.view()))

    def forward(self) -> None:
        self.ledger._advance.run()

    def commit(self, events: tuple[Event, ...], guard: Guard) -> object:
        token = self.world.rig.chance.token(16).hex()
        return self.ledger.commit(Pending(token, events=events, guard=guard))

    def builder(self, *, chunk_entries: int = 10) -> Builder:
        return Builder(
            self.ledger._register,
            self.ledger.writer,
            SerialPool(),
            self.commit,
            self.ledger.view,
            forward=self.forward,
            shelf=IndexShelf(self.store, PATHS, SerialPool(), SMALL),
            chunk_entries=chunk_entries,
        )


def email(number: int) -> str:
    return f"user-{number * 37 % 1009}"


def filled(count: int = 35) -> tuple[World, Process]:
    """A collection with documents in the root and in the tail, and an index that waits."""
    world = World()
    process = world.process()
    process.write(*(insert(f"{number:03d}", email=email(number), tags=[number % 3]) for number in range(count - 5)))
    process.forward()
    process.write(*(insert(f"{number:03d}", email=email(number)) for number in range(count - 5, count)))
    return world, process


@pytest.mark.parametrize("index", [EMAIL, TAG])
def test_an_index_is_built_in_chunks_and_becomes_ready(index: Index) -> None:
    world, process = filled()
    process.create(index)
    assert world.status(index.name) == ("waiting", None)
    assert process.builder().run() == [index.name]
    assert world.status(index.name) == ("ready", None)
    assert process.builder().run() == []
    world.check(index)


def test_a_unique_index_counts_from_its_entry_on() -> None:
    _, process = filled()
    process.create(EMAIL)
    process.builder().run()
    with pytest.raises(UniqueViolationError):
        process.write(insert("x", email=email(3)))
    process.write(remove("003"), insert("x", email=email(3)))


def test_an_index_of_an_empty_collection_is_ready_at_once() -> None:
    world = World()
    process = world.process()
    process.create(EMAIL)
    assert world.status() == ("ready", None)
    assert process.builder().run() == []
    process.write(insert("a", email="x"))
    with pytest.raises(UniqueViolationError):
        process.write(insert("b", email="x"))
    world.check(EMAIL)


def test_several_indexes_are_built_one_after_the_other() -> None:
    world, process = filled()
    process.create(EMAIL)
    process.create(TAG)
    assert process.builder().run() == ["byEmail", "byTag"]
    world.check(EMAIL)
    world.check(TAG)


def test_without_forwarding_a_build_waits_for_the_root() -> None:
    world, process = filled()
    process.create(EMAIL)
    builder = process.builder()
    idle = Builder(builder.register, builder.writer, builder.pool, builder.commit, builder.view)
    assert idle.run() == []
    assert world.status() == ("building", None)
    process.forward()
    assert idle.run() == ["byEmail"]


class StoppedError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("hook", ["before", "after"])
@pytest.mark.parametrize("index", [EMAIL, TAG])
def test_a_build_that_ends_anywhere_is_resumed_by_another_process(index: Index, hook: str) -> None:
    for last in range(200):
        world, process = filled(24)
        process.create(index)
        process.forward()
        store = HookStore(world.rig.store)
        left = last

        def stop(verb: str, _: str) -> None:
            nonlocal left
            left -= verb == "put"
            if left < 0:
                raise StoppedError

        victim = world.process(store)
        victim.ledger.view()
        setattr(store, hook, stop)
        with suppress(StoppedError):
            victim.builder(chunk_entries=8).run()
            break
        setattr(store, hook, None)
        # It resumes where the other stopped, after something else was written.
        process.write(save("005", email="new"), insert(f"z{last}", email=f"late-{last}"))
        process.forward()
        process.builder(chunk_entries=8).run()
        assert world.status(index.name) == ("ready", None)
        world.check(index)
    assert 8 < last < 199


def test_writers_and_forwarding_go_on_between_chunks() -> None:
    """Before every swap of the root by the builder others write and forward: each time it starts the step again."""
    world, process = filled(40)
    process.create(EMAIL)
    other = world.process()
    store = HookStore(world.rig.store)
    turns = iter(range(60))

    def between(verb: str, key: str) -> None:
        if verb != "put" or key != PATHS.root or (turn := next(turns, None)) is None:
            return
        store.before = None
        if turn % 3 == 0:
            other.write(
                save(f"{turn % 40:03d}", email=f"changed-{turn}"),
                insert(f"x{turn:03d}", email=f"new-{turn}"),
                remove(f"{(turn + 7) % 40:03d}"),
            )
            other.forward()
        store.before = between

    victim = world.process(store)
    store.before = between
    assert victim.builder(chunk_entries=6).run() == ["byEmail"]
    assert next(turns, None) is not None, "the builder never came through while others wrote"
    world.check(EMAIL)


def test_two_builders_do_not_hinder_each_other() -> None:
    world, process = filled(40)
    process.create(EMAIL)
    store = HookStore(world.rig.store)
    other = world.process()
    turns = 0

    def meanwhile(verb: str, key: str) -> None:
        nonlocal turns
        if verb == "put" and turns < 3 and key.startswith(PATHS.index("byEmail")):
            turns += 1
            store.before = None
            with suppress(WormError):
                _one_step(other.builder(chunk_entries=6))
            store.before = meanwhile

    store.before = meanwhile
    victim = world.process(store)
    assert victim.builder(chunk_entries=6).run() == ["byEmail"]
    assert turns == 3
    world.check(EMAIL)


def _one_step(builder: Builder) -> None:
    from wormdb.engine.forward.build import _Build

    status = builder.view().definition.indexes.get("byEmail")
    assert status is not None
    _Build(builder, "byEmail")._advance(status)


# --- what makes it fail ---


def test_duplicates_that_came_after_the_check_are_listed_in_the_reason() -> None:
    world, process = filled()
    pending = create_index("0" * 32, EMAIL, seen=process.ledger.view())
    process.write(insert("twin", email=email(3)), insert("triplet", email=email(3)), insert("other", email=email(30)))
    process.ledger.commit(pending)
    assert process.builder().run() == []
    state, reason = world.status()
    assert state == "failed"
    assert reason == (
        "email='user-101' is on 2 documents: '030', 'other'; "
        "email='user-111' is on 3 documents: '003', 'triplet', 'twin'"
    )
    process.forward()
    found = world.root()
    assert (found.state, found.node, found.reason) == ("failed", None, reason)


def arriving(world: World, verb_key: Callable[[str, str], bool], write: Callable[[], None]) -> HookStore:
    """A store on which something is written by others, once, before the request that `verb_key` chooses."""
    store = HookStore(world.rig.store)

    def before(verb: str, key: str) -> None:
        if verb_key(verb, key):
            store.before = None
            write()

    store.before = before
    return store


def at_ready_entry(world: World) -> Callable[[str, str], bool]:
    """Chooses the request that makes the index ready: its tree has been searched."""

    def chosen(verb: str, key: str) -> bool:
        found = world.found()
        return verb == "put" and key.startswith(PATHS.entries) and found is not None and found.membership is not None

    return chosen


def at_second_swap(world: World, name: str) -> Callable[[str, str], bool]:
    """Chooses the request that adds the second chunk."""

    def chosen(verb: str, key: str) -> bool:
        found = world.found(name)
        return verb == "put" and key == PATHS.root and found is not None and found.cursor is not None

    return chosen


@pytest.mark.parametrize(
    ("operations", "reason"),
    [
        ([insert("twin", email=email(3))], f"email='{email(3)}' is on 2 documents: '003', 'twin'"),
        (
            [insert("one", email="same"), insert("two", email="same")],
            "email='same' is on 2 documents: 'one', 'two'",
        ),
        ([save("003", email=email(4))], f"email='{email(4)}' is on 2 documents: '004', '003'"),
    ],
)
def test_duplicates_that_arrive_while_the_entry_is_written_fail_it(operations: list[Operation], reason: str) -> None:
    world, process = filled()
    process.create(EMAIL)
    other = world.process()

    victim = world.process(arriving(world, at_ready_entry(world), lambda: other.write(*operations)))
    assert victim.builder().run() == []
    assert world.status() == ("failed", reason)


@pytest.mark.parametrize("twin", [True, False])
def test_batches_of_the_same_entry_count(twin: bool) -> None:
    world, process = filled()
    process.create(EMAIL)
    company = [insert("z", email=email(3) if twin else "free")]

    def commit(events: tuple[Event, ...], guard: Guard) -> None:
        pending = Pending(world.rig.chance.token(16).hex(), events=events, guard=guard)
        batches = [pending]
        if isinstance(events[0], IndexReady) and company:
            batches.insert(0, world.rig.batch(company.pop()))
        outcome = process.ledger._committer.commit(batches, 1e9)[-1]
        if isinstance(outcome, WormError):
            raise outcome

    assert replace(process.builder(), commit=commit).run() == ([] if twin else ["byEmail"])
    if twin:
        assert world.status() == ("failed", f"email='{email(3)}' is on 2 documents: '003', 'z'")
    else:
        world.check(EMAIL)


def test_values_that_only_change_hands_in_the_tail_do_not_fail_it() -> None:
    world, process = filled()
    process.create(EMAIL)
    other = world.process()

    def trade() -> None:
        other.write(
            save("003", email=email(4)), save("004", email=email(3)), remove("005"), insert("x", email=email(5))
        )

    victim = world.process(arriving(world, at_ready_entry(world), trade))
    assert victim.builder().run() == ["byEmail"]
    world.check(EMAIL)


def test_a_root_that_moved_is_searched_again_before_the_entry() -> None:
    world, process = filled()
    process.create(EMAIL)
    other = world.process()

    def forward() -> None:
        other.write(insert("new", email="new"))
        other.forward()
        victim.forward()

    victim = world.process(arriving(world, at_ready_entry(world), forward))
    assert victim.builder().run() == ["byEmail"]
    world.check(EMAIL)


def test_a_document_that_cannot_be_indexed_fails_it() -> None:
    world, process = filled()
    process.write(insert("bad", a=[1], b=[2]))
    process.create(PAIR)
    assert process.builder().run() == []
    state, reason = world.status("byPair")
    assert state == "failed"
    assert reason is not None
    assert reason.startswith("document 'bad': index byPair: two fields of one index are arrays")


@pytest.mark.parametrize("where", ["000a", "zzz"])
@pytest.mark.parametrize("forwarded", [True, False])
def test_a_document_that_cannot_be_indexed_fails_it_whenever_it_comes(where: str, forwarded: bool) -> None:
    world, process = filled()
    process.create(PAIR)
    other = world.process()

    def write() -> None:
        other.write(insert(where, a=[1], b=[2]))
        if forwarded:
            other.forward()

    victim = world.process(arriving(world, at_second_swap(world, "byPair"), write))
    assert victim.builder(chunk_entries=6).run() == []
    state, reason = world.status("byPair")
    assert state == "failed"
    assert reason is not None
    assert f"document '{where}'" in reason


def test_what_failed_can_be_created_again() -> None:
    world, process = filled()
    process.write(insert("bad", a=[1], b=[2]))
    process.create(PAIR)
    process.builder().run()
    process.write(remove("bad"))
    process.create(PAIR)
    assert process.builder().run() == ["byPair"]
    world.check(PAIR)


def test_an_index_that_is_dropped_while_it_is_built_is_given_up() -> None:
    world, process = filled()
    process.create(EMAIL)
    other = world.process()

    def drop() -> None:
        other.drop("byEmail")
        other.forward()

    victim = world.process(arriving(world, at_second_swap(world, "byEmail"), drop))
    assert victim.builder(chunk_entries=6).run() == []
    root = world.rig.register.read().root
    assert root is not None
    assert [(index.state, index.node) for index in root.indexes] == [("dropped", None)]


def test_a_ready_index_refuses_what_it_cannot_take() -> None:
    _, process = filled()
    process.create(PAIR)
    process.builder().run()
    with pytest.raises(InvalidRequestError, match="two fields of one index are arrays"):
        process.write(insert("bad", a=[1], b=[2]))


def test_nothing_is_left_behind_by_a_build() -> None:
    """Every object of the index is named by the root, or is listed as retired."""
    world, process = filled(60)
    process.create(EMAIL)
    process.builder(chunk_entries=7).run()
    root = world.rig.register.read().root
    assert root is not None
    shelf = IndexShelf(world.rig.store, PATHS, SerialPool(), SMALL)
    nodes = shelf.nodes(root, "byEmail")
    membership = shelf.filter(root, world.root())
    assert membership is not None
    named = {nodes.key(child.name) for child, _ in shelf.reader(root, world.root()).refs()}
    named |= {nodes.key(ref.name) for ref in membership.refs}
    retired = {PATHS.folder + one.name for one in root.retired}
    stored = {info.key for page in world.rig.store.list(PATHS.index("byEmail")) for info in page.objects}
    assert named.isdisjoint(retired)
    assert stored == named | {key for key in retired if key in stored}


@pytest.mark.parametrize("seconds", [0, 120])
@pytest.mark.parametrize("is_forwarded", [False, True])
@pytest.mark.parametrize("kind", [IndexBuilding, IndexReady])
def test_no_duplicate_slips_in_before_an_entry_of_a_build(kind: type[Event], is_forwarded: bool, seconds: int) -> None:
    """Between the search of a tree and the entry others insert one, bring it forward, and this process sees that."""
    world, process = filled(12)
    process.create(EMAIL)
    rival = world.process()
    come: list[tuple[Event, ...]] = []

    def commit(events: tuple[Event, ...], guard: Guard) -> object:
        if isinstance(events[0], kind) and not come:
            come.append(events)
            rival.write(insert("rival", email=email(3)))
            if is_forwarded:
                rival.forward()
            world.rig.clock.advance(seconds)
            process.ledger.view()
        return process.commit(events, guard)

    replace(process.builder(), commit=commit).run()
    assert come
    state, reason = world.status()
    assert state == "failed"
    assert reason is not None
    assert "is on 2 documents: '003', 'rival'" in reason
