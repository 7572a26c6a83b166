"""Documents, mappings, forwarding and rewriting in any order: every way to ask gives what mapping all at once gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.versions.rig import Refused, Step, Thing, World, database_on, mapped, schema_of, shown, update_of
from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.forward.compact import Aim, plan_compaction, publish_compaction, write_piece
from wormdb.errors import ConflictError, InvalidRequestError
from wormdb.query.execute.answer import run_plan
from wormdb.query.planner.planner import candidates
from wormdb.query.request import QueryRequest
from wormdb.query.sources.engine import EngineSource

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document

VALUES = st.one_of(st.integers(0, 4), st.sampled_from(["p", "q"]))
INNER = st.fixed_dictionaries({}, optional={"x": VALUES, "y": VALUES})
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "a": VALUES,
        "b": VALUES,
        "s": VALUES,
        "n": INNER,
    },
)
STEPS = st.one_of(
    st.builds(Step, st.just("set"), st.sampled_from(["a", "b", "n.x", "t"]), VALUES),
    st.builds(Step, st.just("unset"), st.sampled_from(["a", "n.y", "n", "s"]), st.just("")),
    st.builds(Step, st.just("inc"), st.sampled_from(["a", "n.x", "u"]), st.integers(1, 2)),
    st.builds(Step, st.just("rename"), st.sampled_from(["a", "s", "n.y"]), st.sampled_from(["r", "m.z"])),
)
IDS = st.sampled_from([f"i{number}" for number in range(8)])
QUERIES: tuple[dict[str, Any], ...] = (
    {},
    {"a": {"$gte": 1}},
    {"a": "p"},
    {"b": {"$lt": 3}, "a": {"$exists": True}},
    {"n.x": 2},
    {"n.x": {"$exists": False}},
    {"s": {"$ne": "p"}},
    {"r": {"$exists": True}},
    {"$or": [{"u": {"$gt": 0}}, {"t": 1}]},
)


class Machine:
    """A bucket, processes with every version so far, and what should be there."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.world = World()
        self.version = 1
        self.steps: list[list[Step]] = []
        """What mapped version k + 1 to the next one."""
        self.things: dict[str, Thing] = {}
        self.loaded: list[tuple[int, Document, int, int]] = []
        """A process, what it loaded, the version then, and how often the document had changed."""
        self.processes = [self.open(1)]
        self.processes[0].apply_schema()

    def open(self, version: int) -> Database:
        settings = {"cache_bytes": self.data.draw(st.sampled_from([0, 1 << 22]))}
        return database_on(self.world, schema_of(version), seed=version, **settings)

    @property
    def newest(self) -> Collection[Document]:
        return self.processes[-1].model("Thing")

    def now(self, values: dict[str, Any], version: int) -> dict[str, Any]:
        """A document of a version as it is in the newest one."""
        for steps in self.steps[version - 1 :]:
            values = mapped(values, steps)
        return values

    # --- what may happen ---

    def save(self) -> None:
        place = self.data.draw(st.integers(0, len(self.processes) - 1))
        identity, values = self.data.draw(IDS), self.data.draw(DOCUMENTS)
        things = self.processes[place].model("Thing")
        try:
            expected = self.now(values, place + 1)
        except Refused:
            with pytest.raises(InvalidRequestError):
                things.save({"id": identity, **values})
            return
        things.save({"id": identity, **values})
        known = self.things.get(identity)
        self.things[identity] = Thing(expected, 1 if known is None else known.changes + 1)

    def load(self) -> None:
        place, identity = self.data.draw(st.integers(0, len(self.processes) - 1)), self.data.draw(IDS)
        found = self.processes[place].model("Thing").find_by_id(identity)
        known = self.things.get(identity)
        assert (None if found is None else shown(found)) == (None if known is None else known.values)
        if found is not None and known is not None:
            self.loaded.append((place, found, self.version, known.changes))

    def save_loaded(self) -> None:
        if not self.loaded:
            return
        place, document, version, changes = self.loaded.pop()
        document["b"] = "changed"
        known = self.things[document["id"]]
        things = self.processes[place].model("Thing")
        try:
            expected = self.now(shown(document), version)
        except Refused:
            with pytest.raises((InvalidRequestError, ConflictError)):
                things.save(document)
            return
        if known.changes != changes:
            with pytest.raises(ConflictError):
                things.save(document)
            return
        things.save(document)
        self.things[document["id"]] = Thing(expected, changes + 1)

    def update(self) -> None:
        place, value = self.data.draw(st.integers(0, len(self.processes) - 1)), self.data.draw(VALUES)
        self.processes[place].model("Thing").update_many({"a": value}, {"$set": {"s": "updated"}})
        for thing in self.things.values():
            if thing.values is not None and thing.values.get("a") == value and thing.values.get("s") != "updated":
                thing.values, thing.changes = {**thing.values, "s": "updated"}, thing.changes + 1

    def delete(self) -> None:
        identity = self.data.draw(IDS)
        known = self.things.get(identity)
        assert self.newest.delete(identity) is (known is not None and known.values is not None)
        if known is not None and known.values is not None:
            self.things[identity] = Thing(None, known.changes + 1, known.values)

    def restore(self) -> None:
        for identity, thing in self.things.items():
            if thing.trash is not None:
                assert shown(self.newest.restore(identity)) == thing.trash
                self.things[identity] = Thing(thing.trash, thing.changes + 1)
                return

    def apply(self) -> None:
        steps = self.data.draw(st.lists(STEPS, max_size=2, unique_by=lambda step: step.path.partition(".")[0]))
        targets = {step.value for step in steps if step.verb == "rename"}
        if len(targets) < sum(step.verb == "rename" for step in steps):
            return
        database = self.open(self.version + 1)
        try:
            values = {
                key: mapped(thing.values, steps) for key, thing in self.things.items() if thing.values is not None
            }
        except Refused:
            with pytest.raises(InvalidRequestError, match="mapping"):
                database.apply_schema(mappings={"Thing": update_of(steps)})
            return
        database.apply_schema(mappings={"Thing": update_of(steps)})
        for key, found in values.items():
            self.things[key].values = found
        for thing in self.things.values():
            try:
                thing.trash = None if thing.trash is None else mapped(thing.trash, steps)
            except Refused:
                thing.trash = None  # what cannot be mapped stays as it was: nothing is promised of it
        self.steps.append(steps)
        self.version += 1
        self.processes.append(database)

    def forward(self) -> None:
        place = self.data.draw(st.integers(0, len(self.processes) - 1))
        self.processes[place].forward(["Thing"])

    def advance(self) -> None:
        self.newest._ledger._advance.run()

    def rewrite(self) -> None:
        keeper = self.newest._ledger._keeper
        keeper._rewriter().run()

    def compact(self) -> None:
        ledger = self.newest._ledger
        register, writer = ledger._register, ledger.writer
        shelf = Shelf(self.world, ledger._runtime.pool, register.paths.data)
        plan = plan_compaction(register.read(), shelf, "blocks", Aim(64 * 1024, everything=True))
        if plan is not None:
            written = [write_piece(shelf, writer, plan.shape, piece) for piece in plan.selection.pieces]
            publish_compaction(register, shelf, writer, plan, written)

    def reopen(self) -> None:
        self.processes[-1] = self.open(self.version)

    # --- what must be so ---

    def check(self) -> None:
        expected = {key: thing.values for key, thing in self.things.items() if thing.values is not None}
        database = self.processes[self.data.draw(st.integers(0, len(self.processes) - 1))]
        things = database.model("Thing")
        assert {one["id"]: shown(one) for one in things.scan()} == expected
        source = EngineSource(things._ledger.view(), things._ledger)
        for query in QUERIES:
            request = QueryRequest(parse_filter(query))
            matches = compile_filter(parse_filter(query))
            wanted = {key: values for key, values in expected.items() if matches({"_id": key, **values})}
            for plan in candidates(request, source.facts):
                found = {hit.document["_id"]: shown(hit.document) for hit in run_plan(plan.root, request, source)}
                assert found == wanted, plan.root
        for name in ("a", "n.x", "b"):
            values = [_at(expected[identity], name) for identity in sorted(expected)]
            rows = [row[name] for row in things.to_arrow([name]).to_pylist()]
            assert [row is None for row in rows] == [value is None for value in values]
            numbers = [value for value in values if isinstance(value, int)]
            assert things.aggregate(sum=name, count=True) == {"count": len(values), "sum": sum(numbers)}


def _at(values: dict[str, Any], path: str) -> Any:
    outer, _, inner = path.partition(".")
    held = values.get(outer)
    return held if not inner else held.get(inner) if isinstance(held, dict) else None


STARTED = ("save", "save", "save", "forward", "apply")
ACTIONS = (
    *("save",) * 5,
    *("load", "save_loaded", "update", "delete", "restore"),
    *("apply",) * 3,
    *("forward", "forward", "advance", "rewrite", "compact", "reopen", "check", "check"),
)


@settings(max_examples=settings().max_examples // 10)
@given(data=st.data())
def test_every_way_to_ask_shows_the_newest_version(data: st.DataObject) -> None:
    run_machine(data)


@pytest.mark.long
@settings(max_examples=settings().max_examples * 3)
@given(data=st.data())
def test_every_way_to_ask_shows_the_newest_version_again_and_again(data: st.DataObject) -> None:
    run_machine(data)


def run_machine(data: st.DataObject) -> None:
    """Anything in any order."""
    machine = Machine(data)
    for action in (*STARTED, *data.draw(st.lists(st.sampled_from(ACTIONS), min_size=4, max_size=12)), "check"):
        getattr(machine, action)()
    (verified,) = machine.processes[-1].verify(["Thing"])
    assert not verified.findings, verified.findings
