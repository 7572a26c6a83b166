"""Two processes on one bucket against a dict: whatever they do, all they read is what the model says."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, precondition, rule

import wormdb
from wormdb.clock import ManualClock, SeededChance, SystemChance
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    SnapshotTooOldError,
    UniqueViolationError,
)
from wormdb.storage.memory import drop_memory

if TYPE_CHECKING:
    from wormdb.collection import Collection
    from wormdb.database import Database
    from wormdb.document import Document

SCHEMA = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Thing": {
            "path": "@things/(id:any)",
            "indexes": {"byMail": {"field": "mail", "unique": True}, "byTags": {"field": "tags", "unique": True}},
        }
    },
}

IDS = st.sampled_from(["a", "b", "c", 1, 2])
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


class Refused(Exception):  # noqa: N818 - it is the model's answer, not an error
    """The model says no."""

    def __init__(self, kind: type[Exception]) -> None:
        self.kind = kind


@dataclass
class Kept:
    """One id: its values, or None if it is deleted; when and how often it changed."""

    values: dict[str, Any] | None
    rev: int
    seq: int


@dataclass
class Model:
    """What the database should hold, written without any of its code."""

    kept: dict[Any, Kept] = field(default_factory=dict)
    number: int = 0
    feed: list[tuple[int, str, Any, int, Any, Any]] = field(default_factory=list)
    trimmed: int = 0

    def alive(self, identity: Any) -> bool:
        return identity in self.kept and self.kept[identity].values is not None

    def live(self) -> dict[Any, tuple[dict[str, Any], int, int]]:
        return {
            identity: (kept.values, kept.rev, kept.seq)
            for identity, kept in self.kept.items()
            if kept.values is not None
        }

    def commit(self, operations: list[tuple[str, Any, dict[str, Any] | None]]) -> None:
        """All of them at the next number, or Refused and nothing."""
        draft = {identity: Kept(kept.values, kept.rev, kept.seq) for identity, kept in self.kept.items()}
        changes: list[tuple[int, str, Any, int, Any, Any]] = []
        for verb, identity, values in operations:
            before = draft.get(identity, Kept(None, 0, 0))
            if verb == "insert" and before.values is not None:
                raise Refused(AlreadyExistsError)
            if verb == "update" and before.values is None:
                raise Refused(NotFoundError)
            if verb == "delete" and before.values is None:
                continue
            draft[identity] = Kept(values, self.number + 1, before.seq + 1)
            op = "create" if before.values is None else "delete" if values is None else "update"
            changes.append((self.number + 1, op, identity, before.seq + 1, before.values, values))
        if not changes:
            return
        self._check_unique(draft)
        self.kept = draft
        self.number += 1
        self.feed += changes

    @staticmethod
    def _check_unique(draft: dict[Any, Kept]) -> None:
        for name in ("mail", "tags"):
            owned: set[Any] = set()
            for kept in draft.values():
                value = None if kept.values is None else kept.values.get(name)
                claims = set(value) if isinstance(value, list) else {value} - {None}
                if owned & claims:
                    raise Refused(UniqueViolationError)
                owned |= claims


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
        return wormdb.connect(self.url, schema=SCHEMA, clock=self.clock, chance=self.chance)

    def things(self, process: int) -> Collection[Document]:
        return self.databases[process].model("Thing")

    def agrees(self, operations: list[tuple[str, Any, dict[str, Any] | None]], act: Any) -> Any:
        """Do it in both worlds; both succeed or both refuse for the same reason."""
        refused: type[Exception] | None = None
        try:
            self.model.commit(operations)
        except Refused as refusal:
            refused = refusal.kind
        try:
            result = act()
        except (AlreadyExistsError, NotFoundError) as error:
            if type(error) is refused:
                return None
            raise
        assert refused is None
        return result

    # --- writing ---

    @rule(process=PROCESSES, identity=IDS, values=VALUES)
    def insert(self, process: int, identity: Any, values: dict[str, Any]) -> None:
        saved = self.agrees(
            [("insert", identity, values)], lambda: self.things(process).insert({"id": identity, **values})
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
    def batch(self, process: int, operations: list[tuple[str, Any, dict[str, Any] | None]]) -> None:
        def act() -> None:
            batch = self.things(process).batch()
            for verb, identity, values in operations:
                if values is None:
                    batch.delete(identity)
                else:
                    getattr(batch, verb)({"id": identity, **values})
            batch.flush()

        self.agrees(operations, act)

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
    def load(self, process: int, identity: Any) -> Any:
        document = self.things(process).find_by_id(identity)
        assert (document is not None) == self.model.alive(identity)
        return multiple() if document is None else document

    @rule(process=PROCESSES, document=loaded, values=VALUES, deletes=st.booleans())
    def change_what_was_loaded(self, process: int, document: Document, values: dict[str, Any], deletes: bool) -> None:
        things, identity = self.things(process), document.id
        changed = document | values
        wanted = {name: value for name, value in changed.items() if name not in {"id", "createdAt", "updatedAt"}}
        if not deletes and changed == document:
            assert things.save(changed).rev == document.rev
            return
        if document.rev != self.model.kept[identity].rev:
            before = self.model.number
            try:
                things.delete(document) if deletes else things.save(changed)
            except ConflictError:
                assert self.model.number == before
                return
            raise AssertionError("a change of an old state was accepted")
        if deletes:
            self.agrees([("delete", identity, None)], lambda: things.delete(document))
        else:
            self.agrees([("save", identity, wanted)], lambda: things.save(changed))

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

    # --- reading ---

    @rule(process=PROCESSES)
    def read_everything(self, process: int) -> None:
        found = {document.id: (plain(document), document.rev, document.seq) for document in self.things(process)}
        assert found == self.model.live()
        assert self.things(process).count() == len(found)

    @rule(process=PROCESSES, identity=IDS)
    def read_one(self, process: int, identity: Any) -> None:
        things = self.things(process)
        document = things.find_by_id(identity)
        assert things.exists(identity) is self.model.alive(identity)
        if document is None:
            assert not self.model.alive(identity)
        else:
            assert (plain(document), document.rev, document.seq) == self.model.live()[identity]

    @rule(process=PROCESSES, back=st.integers(0, 5))
    def read_the_feed(self, process: int, back: int) -> None:
        after = max(0, self.model.number - back)
        expected = [change for change in self.model.feed if change[0] > after]
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
    return {name: value for name, value in document.items() if name not in {"id", "createdAt", "updatedAt"}}


class FolderMachine(DatabaseMachine):
    """The same in a folder."""

    def place(self) -> str:
        self.folder = tempfile.mkdtemp()
        return self.folder

    def clean(self) -> None:
        shutil.rmtree(self.folder)


TestDatabaseInMemory = DatabaseMachine.TestCase
TestDatabaseInMemory.settings = settings(stateful_step_count=40)
TestDatabaseInAFolder = FolderMachine.TestCase
TestDatabaseInAFolder.settings = settings(max_examples=10, stateful_step_count=25)
