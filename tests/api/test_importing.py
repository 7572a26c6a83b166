"""Imports: what goes in, what is rejected, and that it happens as a whole or not at all; few records and many."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from wormdb.api.database import Database
from wormdb.api.imports import records as importing
from wormdb.api.imports import rows as import_rows
from wormdb.api.imports import run, stream
from wormdb.api.imports.conflicts import Standing
from wormdb.api.records import Record
from wormdb.engine.bulk import task as bulk_task
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

    from wormdb.api.imports.records import ImportResult, Rejection
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
        "Thing": {"path": "@things/(id:objectid)"},
        "Number": {"path": "@numbers/(id:seq)"},
        "Any": {"path": "@any/(id:any)"},
        "Feed": {"path": "@feed/(id:string)", "mode": "readonly"},
    },
}


@pytest.fixture
def db() -> Iterator[Database]:
    with wormdb.connect("memory://", schema=SCHEMA) as database:
        yield database


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three records are many: they go as a bulk job, in portions of a document or two."""
    treat_as_many(monkeypatch)


def treat_as_many(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stream, "IMPORT_RECORDS", 2)
    patch.setattr(run, "IMPORT_PORTION_BYTES", 100)
    patch.setattr(import_rows, "ROWS_AT_ONCE", 2)
    patch.setattr(import_rows.RowSpool.__init__, "__defaults__", (2,))
    patch.setattr(bulk_task, "PORTIONS_MAX", 3)


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


@settings(max_examples=80)
@given(
    st.lists(rows, max_size=4),
    st.lists(rows, max_size=9),
    st.sampled_from(importing.CONFLICT_RULES),
    st.booleans(),
    st.booleans(),
)
def test_as_one_record_after_the_other(
    before: list[dict[str, Any]],
    records: list[dict[str, Any]],
    rule: importing.ConflictRule,
    is_many: bool,
    is_once: bool,
) -> None:
    if rule == "replace":
        # What is replaced together may trade unique values, which one after the other cannot.
        records = [{name: value for name, value in each.items() if name != "email"} for each in records]
    rejected: list[int] = []
    naive = Naive("error")
    with pytest.MonkeyPatch.context() as patch, wormdb.connect("memory://", schema=SCHEMA) as database:
        customers = database.model("Customer")
        customers.import_records(before)
        if is_many:
            treat_as_many(patch)
        for line, record in enumerate(before, 1):
            naive.take(line, record)
        naive.rule, naive.rejected = rule, []
        for line, record in enumerate(records, 1):
            naive.take(line, record)
        result = customers.import_records(
            iter(records) if is_once else records,
            on_conflict=rule,
            rejected=lambda each: rejected.append(each.record.line),
        )
        assert contents(database, "Customer") == naive.held
        counts(result)
        assert database.verify(["Customer"])[0].is_sound
    assert rejected == naive.rejected, "in their order"
    assert (result.read, result.line) == (len(records), len(records))


@settings(max_examples=60)
@given(st.lists(rows, max_size=4), st.lists(rows, max_size=8))
def test_few_and_many_replace_the_same(before: list[dict[str, Any]], records: list[dict[str, Any]]) -> None:
    """Values may be traded; a value that a document keeps is not taken, and of records the first one has it."""
    found = []
    for is_many in (False, True):
        rejected: list[Rejection] = []
        with pytest.MonkeyPatch.context() as patch, wormdb.connect("memory://", schema=SCHEMA) as database:
            customers = database.model("Customer")
            customers.import_records(before)
            if is_many:
                treat_as_many(patch)
            result = customers.import_records(records, on_conflict="replace", rejected=rejected.append)
            lines = [each.record.line for each in rejected]
            found.append((contents(database, "Customer"), counts(result), lines))
            emails = [each["email"] for each in found[-1][0].values() if "email" in each]
            assert len(set(emails)) == len(emails)
    assert found[0] == found[1]


def test_values_are_traded_by_replacing(db: Database) -> None:
    customers = db.model("Customer")
    customers.import_records([{"id": "a", "email": "x"}, {"id": "b", "email": "y"}, {"id": "c", "email": "z"}])
    rejected: list[Rejection] = []
    result = customers.import_records(
        [{"id": "a", "email": "y"}, {"id": "b", "email": "x"}, {"id": "d", "email": "z"}],
        on_conflict="replace",
        rejected=rejected.append,
    )
    assert counts(result) == {"replaced": 2, "rejected": 1}
    assert [each.reason for each in rejected] == ["Unique constraint violation: email='z' already exists on entity 'c'"]


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


@pytest.mark.parametrize("model", ["Event", "Thing"])
def test_ids_that_are_made_ascend_and_cost_no_merge(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Portions with ids in order lie one behind the other, so they cost as many requests as ids that were given so."""
    monkeypatch.setattr(stream, "IMPORT_RECORDS", 2)
    monkeypatch.setattr(run, "IMPORT_PORTION_BYTES", 6_000)
    monkeypatch.setattr(run, "IMPORT_BLOCK_BYTES", 6_000)
    monkeypatch.setattr(import_rows, "ROWS_AT_ONCE", 10)
    monkeypatch.setattr(bulk_task, "PORTIONS_MAX", 3)
    width = {"Event": 26, "Thing": 24}[model]
    records = [{"n": number, "text": "x" * 1_000} for number in range(100)]
    given = [{"id": f"{number:0{width}}", **record} for number, record in enumerate(records)]
    assert cost_of_import(model, records) == cost_of_import(model, given)


def cost_of_import(model: str, records: list[dict[str, Any]]) -> tuple[int, int, int]:
    with wormdb.connect("memory://", schema=SCHEMA, apply=True) as db:
        before = db.cost()
        assert counts(db.model(model).import_records(records, source=b"a")) == {"inserted": len(records)}
        spent = db.cost() - before
        assert [each["n"] for each in db.model(model).scan()] == list(range(len(records)))
    return spent.gets, spent.puts, spent.lists


@pytest.mark.parametrize(("model", "options"), [("Event", {}), ("Number", {"source": b"a"})])
def test_what_would_be_inserted_again_is_not_ignored(db: Database, model: str, options: Any) -> None:
    rejected: list[Rejection] = []
    result = db.model(model).import_records([{"n": 1}], on_conflict="ignore", rejected=rejected.append, **options)
    assert counts(result) == {"rejected": 1}
    assert rejected[0].reason == "it has no id, and a second run would insert it again"
    assert counts(db.model(model).import_records([{"n": 1}], **options)) == {"inserted": 1}


def test_numbers_go_on_with_the_next(db: Database, many: None) -> None:
    numbers = db.model("Number")
    assert numbers.insert({"n": 0}).id == "0000000001"
    result = numbers.import_records([{"n": n} for n in range(1, 6)] + [{"id": "40", "n": 6}, {"n": 7}])
    assert counts(result) == {"inserted": 7}
    ids = {each["n"]: int(each.id) for each in numbers.find_all()}
    assert ids == dict(enumerate([1, 2, 3, 4, 5, 6, 40, 41]))
    assert int(numbers.insert({"n": 8}).id) == 42


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


@pytest.mark.parametrize("is_many", [False, True])
def test_too_many_rejects_stop_it(db: Database, monkeypatch: pytest.MonkeyPatch, is_many: bool) -> None:
    if is_many:
        treat_as_many(monkeypatch)
    records = [{"id": str(number), "n": "bad" if number % 2 else 1} for number in range(12)]
    customers = db.model("Customer")
    told: list[Rejection] = []
    result = customers.import_records(records, rejects_max=2, rejected=told.append)
    assert (result.is_stopped, result.inserted, result.line, customers.count()) == (True, 0, 0, 0)
    assert result.rejected == len(told) > 2
    result = customers.import_records(records, rejects_max=6)
    assert (result.rejected, result.inserted, result.is_stopped) == (6, 6, False)
    assert customers.import_records(records, rejects_max=0).is_stopped
    assert not any(job.state == "open" for job in customers._access.present().jobs.known.values())


def test_how_far_it_is_is_told(db: Database, many: None) -> None:
    told: list[int] = []
    db.model("Customer").import_records(
        [{"id": str(number)} for number in range(7)], told=lambda each: told.append(each.read)
    )
    assert told == [2, 4, 6, 7]


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


def test_requests_of_few_records(db: Database) -> None:
    """1 look at the log and 1 PUT."""
    customers = db.model("Customer")
    customers.import_records([{"id": "0"}])
    before = db.cost()
    customers.import_records([{"id": str(number)} for number in range(1, 2_000)])
    spent = db.cost() - before
    assert (spent.gets, spent.puts, spent.lists) == (1, 1, 0)


def test_requests_of_many_records_and_of_the_next_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are attached by one entry, and the log is brought forward: the next query reads nothing of the tail."""
    monkeypatch.setattr(stream, "IMPORT_RECORDS", 100)
    url = "memory://import-requests"
    with wormdb.connect(url, schema=SCHEMA, apply=True) as db:
        customers = db.model("Customer")
        customers.insert({"id": "first"})
        before = db.cost()
        result = customers.import_records({"id": f"c{n:04}", "n": n, "email": f"e{n}"} for n in range(2_000))
        spent = db.cost() - before
        assert (counts(result), result.number > 0) == ({"inserted": 2_000}, True)
        # 2 entries, and 2 objects of the block; forwarding: those of a merged block and of history, index and root.
        assert (spent.lists, spent.puts) == (0, 13)
        assert db.status(["Customer"])[0].lag_entries == 0
    with wormdb.connect(url) as db:
        customers, before = db.model("Customer"), db.cost()
        assert [each.id for each in customers.find({"email": "e77"})] == ["c0077"]
        assert (db.cost() - before).gets <= 8
        assert customers.explain({"email": "e77"}).strategy == "index_lookup"


def test_a_job_is_done_once(db: Database) -> None:
    customers = db.model("Customer")
    assert counts(customers.import_records([{"id": "a"}], job="monday")) == {"inserted": 1}
    again = customers.import_records([{"id": "b"}], job="monday")
    assert (again.is_repeated, again.read, customers.count()) == (True, 0, 1)


# --- others who write, and faults ---


@pytest.mark.parametrize("is_many", [False, True])
def test_a_rival_makes_it_look_again(monkeypatch: pytest.MonkeyPatch, db: Database, is_many: bool) -> None:
    customers = db.model("Customer")
    rivals = [{"id": "a", "n": 7}, {"id": "c", "n": 7}]
    if is_many:
        treat_as_many(monkeypatch)

    def overtaken(real: Any) -> Any:
        def also(*arguments: Any, **options: Any) -> Any:
            made = real(*arguments, **options)
            while rivals:
                customers.save(rivals.pop())
            return made

        return also

    monkeypatch.setattr(Standing, "claims", overtaken(Standing.claims))
    monkeypatch.setattr(stream.Stream, "load", overtaken(stream.Stream.load))
    records = [{"id": name, "n": 1} for name in "abc"]
    assert counts(customers.import_records(records, on_conflict="ignore")) == {"inserted": 1, "ignored": 2}
    assert {name: each["n"] for name, each in contents(db, "Customer").items()} == {"a": 7, "b": 1, "c": 7}
    rivals.append({"id": "a", "n": 9})
    assert counts(customers.import_records(records, on_conflict="replace")) == {"replaced": 2, "unchanged": 1}
    assert {each["n"] for each in contents(db, "Customer").values()} == {1}
    assert [entry.op for entry in customers.get_history("a")] == ["create", "update", "update"]


_seeds = itertools.count(1)


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
        chance=SeededChance(next(_seeds)),
    )


FAULTS = [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE]
STRIDE = int(os.environ.get("WORMDB_STRIDE", "3"))
"""Each of them comes at one in this many requests, each at others; at all with 1."""


@pytest.mark.parametrize("is_many", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_all_or_nothing_and_the_same_again_finishes_it(
    fault: Fault, is_many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_many:
        treat_as_many(monkeypatch)
    records = [{"n": number} for number in range(5)]

    def make() -> Store:
        store = MemoryStore(clock=ManualClock())
        ensure_conditions(store, SeededChance(0))
        return store

    def load(store: Store) -> ImportResult:
        return opened(store).model("Event").import_records(iter(records), source=b"a", on_conflict="ignore")

    def check(case: SweepCase[ImportResult]) -> None:
        found = contents(opened(case.inner), "Event")
        assert len(found) in (0, 5), case.label
        if case.fault is Fault.LANDS_LATE and not case.is_landed and case.is_fired:
            return
        result = load(case.inner)
        assert result.inserted + result.ignored == 5, case.label
        database = opened(case.inner)
        found = contents(database, "Event")
        assert sorted(each["n"] for each in found.values()) == list(range(5)), case.label
        assert database.verify(["Event"])[0].is_sound, case.label

    assert sweep(make, load, check, faults=[fault], every=STRIDE) > (20 if is_many else 5) // STRIDE


@pytest.mark.parametrize("fault", FAULTS)
def test_a_job_by_name_goes_on_after_every_fault(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are new in every run, so that only the name tells that it was done."""
    treat_as_many(monkeypatch)
    records = [{"n": number} for number in range(5)]

    def make() -> Store:
        store = MemoryStore(clock=ManualClock())
        ensure_conditions(store, SeededChance(0))
        return store

    def load(store: Store) -> ImportResult:
        return opened(store).model("Event").import_records(records, job="monday")

    def check(case: SweepCase[ImportResult]) -> None:
        assert len(contents(opened(case.inner), "Event")) in (0, 5), case.label
        if case.fault is Fault.LANDS_LATE and not case.is_landed and case.is_fired:
            return
        load(case.inner)
        found = contents(opened(case.inner), "Event")
        assert sorted(each["n"] for each in found.values()) == list(range(5)), case.label

    assert sweep(make, load, check, faults=[fault], every=STRIDE) > 10 // STRIDE
