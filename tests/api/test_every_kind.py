"""One suite for every kind of document: no save hides another, and the times of a model are true.

The verbs are swept, not sampled: every way to get a document, crossed with every way to save one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.api.kinds import KINDS, SCHEMA, Kind
from wormdb.errors import ConflictError, InvalidRequestError
from wormdb.storage.memory import drop_memory
from wormdb.system.clock import ManualClock, SystemChance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document


class Shelf:
    """Collections of one kind: twice as its users hold it, and once without a class."""

    def __init__(self, kind: Kind, url: str, database: Database, clock: ManualClock) -> None:
        self.kind = kind
        self.url = url
        self.database = database
        self.clock = clock
        self.things: Collection[Any] = kind.open(database)
        self.other: Collection[Any] = kind.open(database)
        self.plain: Collection[Document] = database[self.things.prefix.rstrip("/")]
        self._cases = 0

    def case(self) -> Case:
        """One more document."""
        self._cases += 1
        case = Case(self, f"x{self._cases:04}")
        self.things.insert(case.make(count=1))
        self.clock.advance(7)
        return case


class Case:
    """One document, at a clock that stands still."""

    def __init__(self, shelf: Shelf, identity: str) -> None:
        self.shelf = shelf
        self.kind, self.things, self.id = shelf.kind, shelf.things, identity

    def make(self, **values: Any) -> Any:
        """A document that was not read."""
        return self.kind.make({"id": self.id, "title": self.id, **values})

    def edited(self, **values: Any) -> Any:
        """What was read, changed."""
        return self.kind.set(self.things.find_by_id(self.id), **values)

    def raw(self) -> Document | None:
        """What is stored, whatever a class shows of it."""
        return self.shelf.plain.find_by_id(self.id)


@pytest.fixture(params=KINDS, ids=str)
def shelf(request: pytest.FixtureRequest) -> Iterator[Shelf]:
    clock, name = ManualClock(), SystemChance().token(8).hex()
    with wormdb.connect(f"memory://{name}", schema=SCHEMA, clock=clock) as database:
        yield Shelf(request.param, f"memory://{name}", database, clock)
    drop_memory(name)


# --- lost updates ---


def _saved_in_place(case: Case) -> Any:
    document = case.edited(flag=True)
    case.things.save(document)
    return document


def _batched(case: Case, verb: str) -> Any:
    document = case.edited(flag=True)
    batch = case.things.batch()
    getattr(batch, verb)(document)
    batch.flush()
    return document


def _inserted(case: Case, way: str) -> Any:
    case.things.delete(case.id)
    given = case.make()
    if not case.kind.is_class:
        given = wormdb.Document(given)
    if way == "many":
        case.things.insert_many([given])
    elif way == "several":
        case.things.insert_many([given, {"title": "beside"}])
    elif way == "batch":
        case.things.batch().insert(given).flush()
    else:
        result = case.things.insert(given)
        return result if way == "result" else given
    return given


def _modified_in_place(case: Case) -> Any:
    seen: list[Any] = []
    case.things.modify(case.id, lambda it: seen.append(case.kind.set(it, flag=True)))
    return seen[-1]


def _restored(case: Case) -> Any:
    if not case.kind.has_model:
        return case.things.find_by_id(case.id)
    case.things.delete(case.id)
    return case.things.restore(case.id)


READS: dict[str, Callable[[Case], Any]] = {
    "find_by_id": lambda case: case.things.find_by_id(case.id),
    "find": lambda case: next(iter(case.things.find({"title": case.id}))),
    "find_one": lambda case: case.things.find_one({"title": case.id}),
    "query": lambda case: next(iter(case.things.query().where({"title": case.id}))),
    "scan": lambda case: next(case.things.scan(case.id)),
    "save": lambda case: case.things.save(case.edited(flag=True)),
    "save in place": _saved_in_place,
    "save of what is as it was": lambda case: case.things.save(case.things.find_by_id(case.id)),
    "batch save": lambda case: _batched(case, "save"),
    "batch update": lambda case: _batched(case, "update"),
    "modify": lambda case: case.things.modify(case.id, lambda it: case.kind.set(it, flag=True)),
    "modify in place": _modified_in_place,
    "modify nothing": lambda case: case.things.modify(case.id, lambda it: it),
    "after": lambda case: case.things.find_one_and_update(
        {"id": case.id}, {"$set": {"flag": True}}, return_document="after"
    ),
    "after replacing": lambda case: case.things.find_one_and_replace(
        {"id": case.id}, case.make(flag=True), return_document="after"
    ),
    "rollback": lambda case: case.things.rollback(case.id, to_seq=1),
    "restore": _restored,
    "insert": lambda case: _inserted(case, "result"),
    "insert in place": lambda case: _inserted(case, "in place"),
    "insert_many": lambda case: _inserted(case, "many"),
    "insert_many of two": lambda case: _inserted(case, "several"),
    "batch insert": lambda case: _inserted(case, "batch"),
}

WRITES: dict[str, Callable[[Case, Any], Any]] = {
    "save": lambda case, it: case.things.save(it),
    "batch save": lambda case, it: case.things.batch().save(it).flush(),
    "batch update": lambda case, it: case.things.batch().update(it).flush(),
    "delete": lambda case, it: case.things.delete(it),
    "batch delete": lambda case, it: case.things.batch().delete(it).flush(),
}

RIVALS: dict[str, Callable[[Case], Any]] = {
    "save": lambda case: case.shelf.other.save(
        case.kind.set(case.shelf.other.find_by_id(case.id), count=9, flag=False)
    ),
    "update": lambda case: case.shelf.other.update_one({"id": case.id}, {"$set": {"count": 9}}),
    "delete": lambda case: case.shelf.other.delete(case.id),
    "replace": lambda case: case.shelf.other.replace_one({"id": case.id}, case.make(count=8)),
    "again": lambda case: (case.shelf.other.delete(case.id), case.shelf.other.insert(case.make(count=1))),
}


@pytest.mark.parametrize("read", READS)
def test_no_save_hides_another(shelf: Shelf, read: str) -> None:
    for write in WRITES.values():
        case = shelf.case()
        mine = READS[read](case)
        RIVALS["save"](case)
        theirs = case.raw()
        with pytest.raises(ConflictError):
            write(case, shelf.kind.set(mine, title="mine"))
        assert case.raw() == theirs


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("is_changed", [True, False])
def test_what_somebody_changed_is_not_saved_over_even_as_it_was(shelf: Shelf, write: str, is_changed: bool) -> None:
    for rival in RIVALS.values():
        case = shelf.case()
        mine = case.edited(**({"title": "mine"} if is_changed else {}))
        rival(case)
        theirs, number = case.raw(), list(shelf.things.watch())[-1].number
        with pytest.raises(ConflictError):
            WRITES[write](case, mine)
        assert case.raw() == theirs
        assert list(shelf.things.watch())[-1].number == number


def test_what_was_saved_is_saved_again_without_a_conflict(shelf: Shelf) -> None:
    for read in READS.values():
        case = shelf.case()
        mine = read(case)
        for count in range(3):
            case.things.save(shelf.kind.set(mine, count=count))
        case.things.batch().save(shelf.kind.set(mine, count=3)).flush()
        case.things.batch().update(shelf.kind.set(mine, count=4)).flush()
        found = case.raw()
        assert found is not None
        assert found["count"] == 4
        assert wormdb.rev_of(mine) == found.rev
        assert case.things.delete(mine) is True


def test_a_save_of_what_is_as_it_was_read_looks_it_up(shelf: Shelf) -> None:
    case = shelf.case()
    mine = case.things.find_by_id(case.id)
    before = shelf.database.cost()
    case.things.save(mine)
    spent = shelf.database.cost()
    assert (spent.gets - before.gets, spent.requests - before.requests) == (1, 1)


def test_every_revision_is_that_of_the_log(shelf: Shelf) -> None:
    assert wormdb.rev_of(shelf.kind.make({"id": "new"})) is None
    for name, read in READS.items():
        case = shelf.case()
        mine = read(case)
        stored = case.raw()
        assert stored is not None
        assert wormdb.rev_of(mine) == stored.rev == wormdb.rev_of(stored), name
        past = case.things.find_by_id(case.id, as_of=stored.rev)
        assert wormdb.rev_of(past) == stored.rev


def test_a_revision_can_be_asked_for(shelf: Shelf) -> None:
    case = shelf.case()
    rev = wormdb.rev_of(case.things.find_by_id(case.id))
    assert rev is not None
    for wrong in (0, -1, True, 1.0, "1"):
        with pytest.raises(InvalidRequestError, match="a revision must be a whole number"):
            case.things.save(case.make(), if_rev=wrong)  # type: ignore[arg-type] # on purpose
    saved = case.things.save(case.make(count=2), if_rev=rev)
    assert shelf.kind.get(saved, "count") == 2
    for call in (case.things.save, case.things.delete):
        with pytest.raises(ConflictError, match=f"changed since it was read at revision {rev}"):
            call(case.make(count=3), if_rev=rev)
    with pytest.raises(ConflictError):
        case.things.delete(case.id, if_rev=rev)
    assert case.things.delete(case.id, if_rev=wormdb.rev_of(saved)) is True
    with pytest.raises(ConflictError):
        case.things.save(case.make(count=3), if_rev=wormdb.rev_of(saved))
    assert case.raw() is None


def test_a_document_keeps_its_id(shelf: Shelf) -> None:
    case = shelf.case()
    for write in WRITES.values():
        with pytest.raises(InvalidRequestError, match="an id stays for life"):
            write(case, case.edited(id="other"))
    case.things.insert(case.edited(id=f"copy of {case.id}"))
    assert case.raw() is not None


def test_a_refusal_is_of_the_state_now(shelf: Shelf) -> None:
    """Settings may allow old reads; what is refused, or left as it is, is so now."""
    case = shelf.case()
    lazy = wormdb.Settings(staleness_ms=3_600_000)
    with wormdb.connect(shelf.url, schema=SCHEMA, clock=shelf.clock, settings=lazy) as other:
        theirs = shelf.kind.open(other)
        stale = theirs.find_by_id(case.id)
        case.things.save(case.edited(count=5))
        fresh = shelf.case()
        changed = theirs.modify(fresh.id, lambda it: shelf.kind.set(it, count=6))
        assert shelf.kind.get(changed, "count") == 6
        changed = theirs.modify(case.id, lambda it: it)
        assert shelf.kind.get(changed, "count") == 5
        with pytest.raises(ConflictError):
            theirs.save(stale)


# --- times ---


def _flushed(case: Case, verb: str, document: Any) -> Any:
    batch = case.things.batch()
    getattr(batch, verb)(document)
    return batch.flush()


def _rolled_back(case: Case) -> Any:
    case.things.update_one({"id": case.id}, {"$set": {"count": 7}})
    case.shelf.clock.advance(7)
    return case.things.rollback(case.id, to_seq=1)


CHANGES: dict[str, Callable[[Case], Any]] = {
    "save": lambda case: case.things.save(case.edited(count=2)),
    "batch save": lambda case: _flushed(case, "save", case.edited(count=2)),
    "batch update": lambda case: _flushed(case, "update", case.edited(count=2)),
    "blind save": lambda case: case.things.save({"id": case.id, "count": 2}),
    "blind batch": lambda case: _flushed(case, "save", {"id": case.id, "count": 2}),
    "blind batch update": lambda case: _flushed(case, "update", {"id": case.id, "count": 2}),
    "save of a revision": lambda case: case.things.save(
        case.make(count=2), if_rev=wormdb.rev_of(case.things.find_by_id(case.id))
    ),
    "modify": lambda case: case.things.modify(case.id, lambda it: case.kind.set(it, count=2)),
    "modify anew": lambda case: case.things.modify(case.id, lambda _: case.make(count=2)),
    "update_one": lambda case: case.things.update_one({"id": case.id}, {"$set": {"count": 2}}),
    "update_many": lambda case: case.things.update_many({"title": case.id}, {"$set": {"count": 2}}),
    "replace_one": lambda case: case.things.replace_one({"id": case.id}, case.make(count=2)),
    "find_one_and_replace": lambda case: case.things.find_one_and_replace({"id": case.id}, case.make(count=2)),
    "find_one_and_update": lambda case: case.things.find_one_and_update({"id": case.id}, {"$inc": {"count": 1}}),
    "upsert": lambda case: case.things.update_one({"id": case.id}, {"$set": {"count": 2}}, upsert=True),
    "upsert of all": lambda case: case.things.replace_one({"id": case.id}, case.make(count=2), upsert=True),
    "save of the past": lambda case: case.things.save(
        case.kind.set(case.things.find_by_id(case.id, as_of=case.raw().rev), count=2)  # type: ignore[union-attr] # there
    ),
    "rollback": _rolled_back,
    "import": lambda case: case.things.import_records([{"id": case.id, "count": 2}], on_conflict="replace"),
}


def test_the_time_of_creation_stays_and_that_of_the_change_moves(shelf: Shelf) -> None:
    for name, change in CHANGES.items():
        case = shelf.case()
        before = case.raw()
        change(case)
        after = case.raw()
        assert before is not None
        assert after is not None
        assert after.seq > before.seq, name
        if shelf.kind.has_model:
            now = datetime.fromtimestamp(shelf.clock.now_ms() / 1000, UTC)
            assert after["createdAt"] == before["createdAt"], name
            assert after["updatedAt"] == now > before["updatedAt"], name


def test_what_is_older_than_its_model_gets_no_time_of_creation(shelf: Shelf) -> None:
    """As what was adopted from files that do not say it: it was not created when it was first changed."""
    if not shelf.kind.has_model:
        return
    for name, change in CHANGES.items():
        case = shelf.case()
        document = case.raw()
        assert document is not None
        shelf.plain.save({"id": case.id, "title": case.id, "count": 1})
        change(case)
        after = case.raw()
        assert after is not None
        assert "createdAt" not in after or name == "rollback", name
        assert after["updatedAt"] > document["updatedAt"]
