"""Imports: what goes in, what is set aside, and that a second run finishes the first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from wormdb.api import imports as importing
from wormdb.api.database import Database
from wormdb.api.imports import Importer, ImportResult
from wormdb.api.records import Record
from wormdb.schema.load import load_schema
from wormdb.settings import Settings
from wormdb.storage.conditions import ensure_conditions
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.testing.fault_store import Fault
from wormdb.testing.sweep import SweepCase, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.imports import Rejection
    from wormdb.storage.store import Store

SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Customer": {
            "path": "@customers/(id:string)",
            "fields": {"n": {"type": "integer"}, "email": {"type": "string"}},
            "indexes": {"byEmail": {"field": "email", "unique": True}},
        },
        "Event": {"path": "@events/(id:ulid)", "fields": {"sku": {"type": "string"}}},
        "Number": {"path": "@numbers/(id:seq)"},
        "Any": {"path": "@any/(id:any)"},
        "Feed": {"path": "@feed/(id:string)", "mode": "readonly"},
    },
}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "IMPORT_RECORDS", 3)


@pytest.fixture
def db() -> Iterator[Database]:
    with wormdb.connect("memory://", schema=SCHEMA) as database:
        yield database


def contents(database: Database, model: str) -> dict[Any, dict[str, Any]]:
    times = {"id", "createdAt", "updatedAt"}
    found = database.model(model).scan()
    return {each.id: {name: value for name, value in each.items() if name not in times} for each in found}


def counts(result: ImportResult) -> dict[str, int]:
    names = ("inserted", "replaced", "unchanged", "ignored", "rejected")
    assert sum(getattr(result, name) for name in names) == result.read
    return {name: getattr(result, name) for name in names if getattr(result, name)}


# --- against a model ---


@dataclass
class Naive:
    """One record after the other into a dict."""

    rule: str
    held: dict[str, dict[str, Any]] = field(default_factory=dict)
    rejected: list[int] = field(default_factory=list)

    def take(self, line: int, record: dict[str, Any]) -> None:
        values = {name: value for name, value in record.items() if name != "id"}
        identity = record["id"]
        is_taken = any(
            values.get("email") is not None and other.get("email") == values["email"]
            for name, other in self.held.items()
            if name != identity
        )
        is_conflict = identity in self.held and self.rule != "replace"
        if isinstance(values.get("n"), str) or (is_conflict and self.rule == "error"):
            self.rejected.append(line)
        elif is_conflict:
            pass
        elif is_taken:
            self.rejected.append(line)
        else:
            self.held[identity] = values


rows = st.fixed_dictionaries(
    {"id": st.sampled_from("abcd")},
    optional={"n": st.integers(0, 2) | st.just("bad"), "email": st.sampled_from("xyz")},
)


@settings(max_examples=50)
@given(st.lists(rows, max_size=4), st.lists(rows, max_size=9), st.sampled_from(importing.CONFLICT_RULES))
def test_as_one_record_after_the_other(
    before: list[dict[str, Any]], records: list[dict[str, Any]], rule: importing.ConflictRule
) -> None:
    if rule == "replace":
        # What is replaced together may trade unique values, which one after the other cannot.
        records = [{name: value for name, value in each.items() if name != "email"} for each in records]
    rejected: list[int] = []
    naive = Naive("error")
    with wormdb.connect("memory://", schema=SCHEMA) as database:
        customers = database.model("Customer")
        customers.import_records(before)
        for line, record in enumerate(before, 1):
            naive.take(line, record)
        naive.rule, naive.rejected = rule, []
        for line, record in enumerate(records, 1):
            naive.take(line, record)
        result = customers.import_records(
            records, on_conflict=rule, rejected=lambda each: rejected.append(each.record.line)
        )
        assert contents(database, "Customer") == naive.held
        counts(result)
    assert sorted(rejected) == naive.rejected
    assert (result.read, result.line) == (len(records), len(records))


# --- ids ---


def test_ids_by_another_field(db: Database) -> None:
    assert counts(db.model("Any").import_records([{"sku": 7, "n": 1}], id_field="sku")) == {"inserted": 1}
    assert contents(db, "Any") == {7: {"n": 1}}
    events = db.model("Event")
    ulid = "01HV5Q8ZJ4N7XKTR2MDWE9GYBC"
    rejected: list[Rejection] = []
    result = events.import_records([{"sku": ulid}, {"id": ulid, "sku": "x"}], id_field="sku", rejected=rejected.append)
    assert counts(result) == {"inserted": 1, "rejected": 1}
    assert contents(db, "Event") == {ulid: {"sku": ulid}}
    assert rejected[0].reason == "it has an id and 'sku'"


def test_whole_numbers_become_text_where_ids_are_text(db: Database) -> None:
    db.model("Customer").import_records([{"id": 7}, {"_id": 8}])
    assert list(contents(db, "Customer")) == ["7", "8"]
    db.model("Any").import_records([{"id": 7}])
    assert list(contents(db, "Any")) == [7]


def test_ids_that_are_made_are_the_same_in_the_next_run(db: Database) -> None:
    """They depend on the file and on the place in it, and on nothing else."""
    records: list[dict[str, Any]] = [{"n": 1}, {"n": 1}, {"n": 2}, {"n": 3}]
    events = db.model("Event")
    assert counts(events.import_records(records, source=b"a")) == {"inserted": 4}
    before = contents(db, "Event")
    assert counts(events.import_records(records, source=b"a", on_conflict="ignore")) == {"ignored": 4}
    assert counts(events.import_records(records, source=b"a", on_conflict="replace")) == {"unchanged": 4}
    assert counts(events.import_records(records, source=b"a")) == {"rejected": 4}
    assert contents(db, "Event") == before
    assert counts(events.import_records(records, source=b"b", on_conflict="ignore")) == {"inserted": 4}
    assert counts(events.import_records(records, source=b"a", from_line=3, on_conflict="ignore")) == {"ignored": 2}


@pytest.mark.parametrize(("model", "options"), [("Event", {}), ("Number", {"source": b"a"})])
def test_what_would_be_inserted_again_is_not_ignored(db: Database, model: str, options: Any) -> None:
    rejected: list[Rejection] = []
    result = db.model(model).import_records([{"n": 1}], on_conflict="ignore", rejected=rejected.append, **options)
    assert counts(result) == {"rejected": 1}
    assert rejected[0].reason == "it has no id, and a second run would insert it again"
    assert counts(db.model(model).import_records([{"n": 1}], **options)) == {"inserted": 1}


def test_ids_that_nobody_makes(db: Database) -> None:
    rejected: list[Rejection] = []
    db.model("Customer").import_records([{"n": 1}], source=b"a", rejected=rejected.append)
    assert rejected[0].reason == "it has no id"


# --- rejects, lines, progress ---


def test_every_problem_of_a_record_is_told(db: Database) -> None:
    rejected: list[Rejection] = []
    records = [Record(5, {"id": "a", "n": "x", "email": 1}), Record(9, None, problem="it is broken", text="{")]
    db.model("Customer").import_records(records, rejected=rejected.append)
    broken, wrong = sorted(rejected, key=lambda each: -each.record.line)
    assert (broken.reason, broken.record.text) == ("it is broken", "{")
    assert [problem.path for problem in wrong.problems] == ["n", "email"]


def test_too_many_rejects_stop_it(db: Database) -> None:
    records = [{"id": str(number), "n": "bad" if number % 2 else 1} for number in range(12)]
    customers = db.model("Customer")
    result = customers.import_records(records, rejects_max=6)
    assert (result.rejected, result.inserted, result.is_stopped) == (6, 6, False)
    told: list[int] = []
    result = customers.import_records(
        records, rejects_max=2, on_conflict="replace", told=lambda each: told.append(each.line)
    )
    assert (result.is_stopped, result.line) == (True, 3)
    assert result.read < 12
    assert told[0] == 3
    assert customers.import_records(records, rejects_max=0).is_stopped


def test_cells_have_the_types_of_the_model(db: Database) -> None:
    cells = {"id": "7", "n": "5", "email": "5", "more.x": "5"}
    db.model("Customer").import_records([Record(2, cells, is_text=True)])
    assert contents(db, "Customer") == {"7": {"n": 5, "email": "5", "more": {"x": 5}}}


def test_who_imports_is_kept(db: Database) -> None:
    db.model("Customer").import_records([{"id": "a"}], actor="user:ada", metadata={"file": "x"})
    entry = db.model("Customer").get_history("a")[0]
    assert (entry.actor, entry.metadata) == ("user:ada", {"file": "x"})


def test_replacing_keeps_the_time_of_creation(db: Database) -> None:
    customers = db.model("Customer")
    before = customers.insert({"id": "a", "n": 1})
    assert counts(customers.import_records([{"id": "a", "n": 2}], on_conflict="replace")) == {"replaced": 1}
    after = customers.find_by_id("a")
    assert after is not None
    assert (after["n"], after["createdAt"], after.seq) == (2, before["createdAt"], 2)


def test_what_cannot_be_imported_at_all(db: Database) -> None:
    with pytest.raises(wormdb.InvalidRequestError, match="no such rule"):
        db.model("Customer").import_records([], on_conflict="overwrite")  # type: ignore[arg-type] # on purpose
    with pytest.raises(wormdb.PermissionDeniedError):
        db.model("Feed").import_records([])


def test_requests_of_a_batch(db: Database) -> None:
    """3 records a batch: of each batch 1 look at the log and 1 PUT."""
    customers = db.model("Customer")
    customers.import_records([{"id": "0"}])
    before = db.cost()
    customers.import_records([{"id": str(number)} for number in range(1, 10)])
    spent = db.cost() - before
    assert (spent.puts, spent.lists) == (3, 0)
    assert spent.gets <= 6


# --- others who write, and faults ---


def test_a_rival_makes_the_batch_look_again(monkeypatch: pytest.MonkeyPatch, db: Database) -> None:
    customers = db.model("Customer")
    plan = Importer._plan
    rivals = [{"id": "a", "n": 7}, {"id": "c", "n": 7}]

    def overtaken(self: Importer[Any], items: Any) -> Any:
        made = plan(self, items)
        if rivals:
            customers.save(rivals.pop())
        return made

    monkeypatch.setattr(Importer, "_plan", overtaken)
    records = [{"id": name, "n": 1} for name in "abc"]
    assert counts(customers.import_records(records, on_conflict="ignore")) == {"inserted": 1, "ignored": 2}
    assert {name: each["n"] for name, each in contents(db, "Customer").items()} == {"a": 7, "b": 1, "c": 7}
    rivals.append({"id": "a", "n": 9})
    assert counts(customers.import_records(records, on_conflict="replace")) == {"replaced": 2, "unchanged": 1}
    assert {each["n"] for each in contents(db, "Customer").values()} == {1}
    assert [entry.op for entry in customers.get_history("a")] == ["create", "update", "update"]


def opened(store: Store) -> Database:
    clock = ManualClock()
    settings = Settings(forward="manual", commit_seconds=0)
    return Database(
        MeteredStore(store, clock=clock),
        SerialPool(),
        settings=settings,
        schema=load_schema(SCHEMA),
        actor=None,
        clock=clock,
        chance=SeededChance(1),
    )


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE])
def test_the_same_again_finishes_whatever_happened(fault: Fault) -> None:
    records = [{"n": number} for number in range(5)]

    def make() -> Store:
        store = MemoryStore(clock=ManualClock())
        ensure_conditions(store, SeededChance(0))
        return store

    def load(store: Store) -> ImportResult:
        return opened(store).model("Event").import_records(records, source=b"a", on_conflict="ignore")

    def check(case: SweepCase[ImportResult]) -> None:
        if case.fault is Fault.LANDS_LATE and not case.is_landed and case.is_fired:
            return
        result = load(case.inner)
        assert result.inserted + result.ignored == 5, case.label
        found = contents(opened(case.inner), "Event")
        assert sorted(each["n"] for each in found.values()) == list(range(5)), case.label

    assert sweep(make, load, check, faults=[fault]) > 5
