"""Two processes on one bucket against dicts: whatever they do, all they read is what the model says."""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

import wormdb
from tests.simulation.rebuild import without_projections
from tests.stateful.model import EVERY, Model, Refused, order
from wormdb.engine.log.paths import ENGINE_FOLDER
from wormdb.errors import ConflictError, SnapshotTooOldError, WormError
from wormdb.settings import Settings
from wormdb.storage.memory import drop_memory
from wormdb.system.clock import ManualClock, SeededChance, SystemChance

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stateful.model import Operation
    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document

SCHEMA = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Thing": {
            "path": "@things/(id:any)",
            "indexes": {"byMail": {"field": "mail", "unique": True}, "byTags": {"field": "tags", "unique": True}},
            "softDelete": True,
            "snapshots": {"enabled": True, "every": EVERY},
        }
    },
}

NAMES: list[Any] = ["a", "b", "c", 1, 2]
IDS = st.sampled_from(NAMES)
VALUES = st.fixed_dictionaries(
    {"n": st.integers(0, 3)},
    optional={
        "mail": st.none() | st.sampled_from(["x", "y", "z"]),
        "tags": st.lists(st.sampled_from(["p", "q", "r"]), max_size=2),
    },
)
PROCESSES = st.integers(0, 1)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), IDS, VALUES),
        st.tuples(st.just("save"), IDS, VALUES),
        st.tuples(st.just("update"), IDS, VALUES),
        st.tuples(st.just("delete"), IDS, st.none()),
    ),
    min_size=1,
    max_size=4,
)
STAGE_BYTES = 2_000
PAD = {"pad": "x" * 1_500}
"""Two documents with it are staged, one is not."""
STAMPS = {"id", "createdAt", "updatedAt"}


class DatabaseMachine(RuleBasedStateMachine):
    """Any order of everything; the bucket is in memory."""

    loaded = Bundle("loaded")

    @initialize()
    def start(self) -> None:
        self.clock = ManualClock()
        self.chance = SeededChance(1)
        self.url = self.place()
        self.model = Model()
        self.databases: list[Database] = []
        for _ in range(2):
            self.databases.append(self.connect())

    def place(self) -> str:
        return f"memory://{SystemChance().token(8).hex()}"

    def connect(self) -> Database:
        small = Settings(stage_bytes=STAGE_BYTES, block_bytes=200, forward="inline", forward_interval_ms=0)
        return wormdb.connect(self.url, schema=SCHEMA, settings=small, clock=self.clock, chance=self.chance)

    def things(self, process: int) -> Collection[Document]:
        return self.databases[process].model("Thing")

    def agrees(self, operations: Callable[[], list[Operation]] | list[Operation], act: Any, **how: Any) -> Any:
        """Do it in both worlds; both succeed or both refuse for the same reason."""
        refused: type[Exception] | None = None
        versions = []
        try:
            versions = self.model.try_all(operations() if callable(operations) else operations)
        except Refused as refusal:
            refused = refusal.kind
        try:
            result = act()
        except WormError as error:
            if type(error) is not refused:
                raise
            self.learn_number()
            return None
        assert refused is None
        self.learn_number()
        self.model.happened(versions, self.model.number, how.pop("actor", None), **how)
        return result

    def learn_number(self) -> None:
        """The engine writes entries of its own, of builds and jobs: the model is told how far the log is."""
        number = self.things(0)._ledger.view().number
        assert number >= self.model.number
        self.model.number = number

    # --- writing ---

    @rule(process=PROCESSES, identity=IDS, values=VALUES, actor=st.sampled_from([None, "ada"]))
    def insert(self, process: int, identity: Any, values: dict[str, Any], actor: str | None) -> None:
        saved = self.agrees(
            [("insert", identity, values)],
            lambda: self.things(process).insert({"id": identity, **values}, actor=actor),
            actor=actor,
        )
        if saved is not None:
            kept = self.model.kept[identity]
            assert (saved.rev, saved.seq) == (kept.rev, kept.seq)

    @rule(process=PROCESSES, identity=IDS, values=VALUES)
    def save_blindly(self, process: int, identity: Any, values: dict[str, Any]) -> None:
        self.agrees([("save", identity, values)], lambda: self.things(process).save({"_id": identity, **values}))

    @rule(process=PROCESSES, identity=IDS)
    def delete(self, process: int, identity: Any) -> None:
        was_there = self.model.alive(identity)
        assert self.agrees([("delete", identity, None)], lambda: self.things(process).delete(identity)) is was_there

    @rule(process=PROCESSES, operations=OPERATIONS)
    def batch(self, process: int, operations: list[Operation]) -> None:
        def act() -> None:
            batch = self.things(process).batch()
            for verb, identity, values in operations:
                if values is None:
                    batch.delete(identity)
                else:
                    getattr(batch, verb)({"id": identity, **values})
            batch.flush()

        self.agrees(operations, act)

    @rule(process=PROCESSES, names=st.sets(IDS, min_size=2, max_size=4), values=VALUES, gone=st.none() | IDS)
    def load(self, process: int, names: set[Any], values: dict[str, Any], gone: Any) -> None:
        """A batch so large that it is staged: one has values of its own, one may go."""
        chosen = sorted(names - {gone}, key=order)
        documents = [{"n": 0, **PAD} for _ in chosen]
        documents[0] |= values
        operations: list[Operation] = [("save", name, each) for name, each in zip(chosen, documents, strict=True)]
        staged = len(chosen) > 1
        operations += [] if gone is None else [("delete", gone, None)]

        def act() -> None:
            batch = self.things(process).batch()
            for _, identity, each in operations:
                batch.delete(identity) if each is None else batch.save({"id": identity, **each})
            batch.flush()

        self.agrees(operations, act, staged=staged)

    @rule(process=PROCESSES, names=st.sets(IDS, min_size=1, max_size=4))
    def insert_many(self, process: int, names: set[Any]) -> None:
        chosen = sorted(names, key=order)
        documents = [{"id": name, "n": 1, **PAD} for name in chosen]
        operations: list[Operation] = [("insert", name, {"n": 1, **PAD}) for name in chosen]
        ids = self.agrees(operations, lambda: self.things(process).insert_many(documents), staged=len(chosen) > 1)
        assert ids in (None, chosen)

    @rule(process=PROCESSES, identity=IDS, n=st.integers(0, 3))
    def modify(self, process: int, identity: Any, n: int) -> None:
        things = self.things(process)
        if not self.model.alive(identity):
            self.agrees([("update", identity, {})], lambda: things.modify(identity, lambda document: document))
            return
        values = dict(self.model.live()[identity][0])
        if values.get("n") == n:
            assert things.modify(identity, lambda document: document | {"n": n}).rev == self.model.kept[identity].rev
            return
        self.agrees(
            [("save", identity, {**values, "n": n})],
            lambda: things.modify(identity, lambda document: document | {"n": n}),
        )

    # --- documents that are kept for a while ---

    @rule(target=loaded, process=PROCESSES, identity=IDS)
    def find(self, process: int, identity: Any) -> Any:
        document = self.things(process).find_by_id(identity)
        assert (document is not None) == self.model.alive(identity)
        return multiple() if document is None else document

    @rule(process=PROCESSES, document=loaded, values=VALUES, deletes=st.booleans())
    def change_what_was_loaded(self, process: int, document: Document, values: dict[str, Any], deletes: bool) -> None:
        things, identity = self.things(process), document.id
        changed = document | values
        if not deletes and changed == document:
            assert things.save(changed).rev == document.rev
            return
        if document.rev != self.model.kept[identity].rev:
            try:
                things.delete(document) if deletes else things.save(changed)
            except ConflictError:
                return
            raise AssertionError("a change of an old state was accepted")
        if deletes:
            self.agrees([("delete", identity, None)], lambda: things.delete(document))
        else:
            self.agrees([("save", identity, plain(changed))], lambda: things.save(changed))

    # --- the trash, and the ways back ---

    @rule(process=PROCESSES, identity=IDS)
    def restore(self, process: int, identity: Any) -> None:
        self.agrees([("restore", identity, None)], lambda: self.things(process).restore(identity))

    @rule(process=PROCESSES, identity=IDS)
    def purge(self, process: int, identity: Any) -> None:
        self.agrees([("purge", identity, None)], lambda: self.things(process).purge(identity))

    @rule(process=PROCESSES)
    def empty_trash(self, process: int) -> None:
        names = sorted(self.model.trashed(), key=order)
        assert self.agrees([("purge", name, None) for name in names], self.things(process).empty_trash) == names

    @rule(process=PROCESSES, identity=IDS, seq=st.integers(1, 6))
    def rollback(self, process: int, identity: Any, seq: int) -> None:
        self.agrees(
            lambda: self.model.before(identity, seq), lambda: self.things(process).rollback(identity, to_seq=seq)
        )

    @precondition(lambda self: self.model.live())
    @rule(process=PROCESSES, data=st.data())
    def snapshot(self, process: int, data: st.DataObject) -> None:
        identity = data.draw(st.sampled_from(sorted(self.model.live(), key=order)))
        taken = self.things(process).snapshot(identity)
        assert taken.seq == self.model.kept[identity].seq
        self.model.taken.add((identity, taken.seq))
        self.learn_number()

    @rule(process=PROCESSES, identity=IDS, data=st.data())
    def restore_snapshot(self, process: int, identity: Any, data: st.DataObject) -> None:
        things = self.things(process)
        shown = things.list_snapshots(identity)
        assert sorted(each.seq for each in shown) == self.model.snapshots(identity)
        if shown:
            chosen = data.draw(st.sampled_from(shown))
            self.agrees(
                lambda: self.model.before(identity, chosen.seq), lambda: things.restore_snapshot(identity, chosen.ts)
            )

    # --- indexes ---

    @rule(process=PROCESSES, unique=st.booleans())
    def create_index(self, process: int, unique: bool) -> None:
        name = "onlyN" if unique else "byN"
        if name in self.model.unique or name in self.model.plain:
            return
        try:
            self.things(process).create_index("n", name=name, unique=unique)
        except wormdb.InvalidRequestError:
            assert unique
            assert self.model.shared("n")
            return
        finally:
            self.learn_number()
        assert not unique or not self.model.shared("n")
        if unique:
            self.model.unique[name] = "n"
        else:
            self.model.plain.add(name)

    @precondition(lambda self: self.model.plain or "onlyN" in self.model.unique)
    @rule(process=PROCESSES)
    def drop_index(self, process: int) -> None:
        name = "byN" if self.model.plain else "onlyN"
        self.things(process).drop_index(name)
        self.model.plain.discard(name)
        self.model.unique.pop(name, None)
        self.learn_number()

    @rule(process=PROCESSES)
    def see_indexes(self, process: int) -> None:
        states = {each.name: each.state for each in self.things(process).indexes()}
        # The first write brings the model; an index by itself may be there before it.
        is_defined = self.things(process)._ledger.view().definition.model is not None
        assert is_defined or not self.model.past
        later = () if is_defined else ("byMail", "byTags")
        known = ["_id", *self.model.plain, *(name for name in self.model.unique if name not in later)]
        assert states == dict.fromkeys(known, "ready")

    # --- what changes nothing ---

    @rule(process=PROCESSES)
    def reopen(self, process: int) -> None:
        self.databases[process].close()
        self.databases[process] = self.connect()

    @rule(process=PROCESSES)
    def forward(self, process: int) -> None:
        assert self.things(process).forward() == self.model.number

    @rule(process=PROCESSES)
    def trim(self, process: int) -> None:
        self.things(process)._ledger.trim(0)
        root = self.things(process)._ledger._register.read().root
        trimmed = 0 if root is None else root.trimmed
        assert self.model.trimmed <= trimmed <= self.model.number
        self.model.trimmed = trimmed

    @rule(seconds=st.sampled_from([1, 61, 4_000]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(process=PROCESSES)
    def settle(self, process: int) -> None:
        """An empty entry: it takes a number and changes nothing."""
        slot = self.model.number + 1
        fate = self.things(process).resolve(f"{slot}-{'a' * 32}-{'b' * 32}", settle=True)
        assert fate == "not committed"
        self.model.number = slot

    @precondition(lambda self: self.model.number and not self.model.trimmed)
    @rule()
    def throw_projections_away(self) -> None:
        """Everything but the log, and what it attached; whoever opens the bucket then sees all of it again."""
        store = self.databases[0].store
        kept = without_projections(store, "things/")
        keys = [info.key for page in store.list("things/" + ENGINE_FOLDER) for info in page.objects]
        store.delete_many([key for key in keys if key not in kept])
        for process in range(2):
            self.reopen(process)

    # --- reading ---

    @rule(process=PROCESSES)
    def read_everything(self, process: int) -> None:
        found = {document.id: (plain(document), document.rev, document.seq) for document in self.things(process)}
        assert found == self.model.live()
        assert self.things(process).count() == len(found)
        assert {each.id: plain(each.document) for each in self.things(process).list_trashed()} == self.model.trashed()

    @rule(process=PROCESSES, start=st.none() | IDS, stop=st.none() | IDS)
    def read_a_range(self, process: int, start: Any, stop: Any) -> None:
        expected = [
            name
            for name in sorted(self.model.live(), key=order)
            if (start is None or order(start) <= order(name)) and (stop is None or order(name) < order(stop))
        ]
        assert [document.id for document in self.things(process).scan(start, stop)] == expected

    @rule(process=PROCESSES, identity=IDS)
    def read_one(self, process: int, identity: Any) -> None:
        things = self.things(process)
        document = things.find_by_id(identity)
        assert things.exists(identity) is self.model.alive(identity)
        if document is None:
            assert not self.model.alive(identity)
        else:
            assert (plain(document), document.rev, document.seq) == self.model.live()[identity]

    @rule(process=PROCESSES, data=st.data())
    def read_the_past(self, process: int, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, self.model.number))
        expected = self.model.at(number)
        things = self.things(process)
        assert {each.id: plain(each) for each in things.scan(as_of=number)} == expected
        assert things.count(as_of=number) == len(expected)
        identity = data.draw(IDS)
        assert plain(things.find_by_id(identity, as_of=number)) == expected.get(identity)

    @rule(process=PROCESSES, identity=IDS)
    def read_history(self, process: int, identity: Any) -> None:
        past = self.model.of(identity)
        found = self.things(process).get_history(identity)
        assert [(each.seq, each.rev, each.op, each.actor) for each in found] == [
            (each.seq, each.rev, each.op, each.actor) for each in past
        ]
        if len(past) > 1:
            one, two = (past[place].after or {} for place in (0, -1))
            different = self.things(process).diff(identity, 1, len(past))
            assert {name: both for name, both in different.items() if name not in STAMPS} == {
                name: (one.get(name), two.get(name))
                for name in {**one, **two}
                if (name in one, one.get(name)) != (name in two, two.get(name))
            }

    @rule(process=PROCESSES, back=st.integers(0, 5))
    def read_the_feed(self, process: int, back: int) -> None:
        after = max(0, self.model.number - back)
        expected = [
            (each.rev, each.op, each.id, each.seq, each.before, each.after)
            for each in self.model.past
            if each.rev > after
        ]
        try:
            found = [
                (each.number, each.op, each.id, each.seq, plain(each.before), plain(each.after))
                for each in self.things(process).watch(after=after)
            ]
        except SnapshotTooOldError:
            assert after < self.model.trimmed
            return
        assert after >= self.model.trimmed
        assert found == expected

    @precondition(lambda self: self.model.number > 0)
    @rule(process=PROCESSES)
    def numbers_agree(self, process: int) -> None:
        assert self.things(process)._ledger.view().number == self.model.number

    @invariant()
    def keeps_what_it_knows(self) -> None:
        """What a process knows without asking is a state that was, never one ahead."""
        for database in getattr(self, "databases", []):
            head = database.model("Thing")._ledger._head
            assert head.applied <= head.number <= self.model.number

    def teardown(self) -> None:
        for database in getattr(self, "databases", []):
            assert {found.id: plain(found) for found in database.model("Thing")} == {
                identity: values for identity, (values, _, _) in self.model.live().items()
            }
            database.close()
        if hasattr(self, "url"):
            self.clean()

    def clean(self) -> None:
        drop_memory(self.url.removeprefix("memory://"))


def plain(document: dict[str, Any] | None) -> Any:
    """The values that the model knows: without the id and the times."""
    if document is None:
        return None
    return {name: value for name, value in document.items() if name not in STAMPS}


class FolderMachine(DatabaseMachine):
    """The same in a folder."""

    def place(self) -> str:
        self.folder = tempfile.mkdtemp()
        return self.folder

    def clean(self) -> None:
        shutil.rmtree(self.folder)


TestDatabaseInMemory = DatabaseMachine.TestCase
TestDatabaseInMemory.settings = settings(max_examples=40, stateful_step_count=40)
TestDatabaseInAFolder = FolderMachine.TestCase
TestDatabaseInAFolder.settings = settings(max_examples=6, stateful_step_count=25)


def test_database_on_s3(s3_url: str) -> None:
    class CloudMachine(DatabaseMachine):
        """The same on a server, each in a folder of its own."""

        def place(self) -> str:
            place, _, options = s3_url.partition("?")
            return f"{place}/{SystemChance().token(6).hex()}?{options}"

        def clean(self) -> None:
            """The server goes with all of it."""

    run_state_machine_as_test(CloudMachine, settings=settings(max_examples=8, stateful_step_count=25, deadline=None))
