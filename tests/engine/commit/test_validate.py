"""Batches of one group: each is accepted or refused on its own, against what the ones before it leave."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.engine.rig import Asking, Rig, contents, definition_at, doc, ident, insert, remove, save
from wormdb.engine.commit.operations import Insert, InsertNext, Operation, Pending, ReadVersion, Remove, Save
from wormdb.engine.commit.validate import Group
from wormdb.engine.index.unique import UniqueOwners
from wormdb.engine.state.view import Overlay, StoredVersion, View, id_key, sequence_of
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    UniqueViolationError,
    WormError,
)
from wormdb.format.entry import LoggedChange
from wormdb.format.event import JobAttached, JobOpened, SchemaChanged
from wormdb.schema.load import load_model
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.tree.definition import Index


def definition_of(**indexes: dict[str, Any]) -> bytes:
    return load_model("Thing", {"path": "@things/(id:any)", "indexes": indexes}).canonical()


EMAIL = definition_of(byEmail={"field": "email", "unique": True})


@dataclass
class Reads:
    """A base that counts how often it is asked."""

    held: dict[bytes, StoredVersion] = field(default_factory=dict)
    count: int = 0

    def get(self, key: bytes) -> StoredVersion | None:
        self.count += 1
        return self.held.get(key)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        self.count += 1
        return {key: self.held[key] for key in keys if key in self.held}

    def prepare(self, keys: Sequence[bytes]) -> None:
        """Nothing to read before."""

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, StoredVersion]]:
        self.count += 1
        inside = [key for key in sorted(self.held) if low <= key and (high is None or key < high)]
        return iter([(key, self.held[key]) for key in inside])

    def trashed(self) -> Iterator[bytes]:
        return (key for key, held in self.held.items() if held.trash is not None)

    @property
    def place(self) -> None:
        """There is no root."""
        return


class State:
    """A head made by hand: documents at rev 5, in the base through 5, in the overlay through 9."""

    def __init__(self, definition: bytes = b"", **documents: dict[str, Any]) -> None:
        self.base = Reads()
        self.overlay: dict[bytes, StoredVersion] = {}
        self.definition = definition_at(definition)
        for name, values in documents.items():
            self.base.held[id_key(ident(name))] = StoredVersion(ident(name), 5, 3, doc(name, **values))

    def view(self) -> View:
        overlay = Overlay()
        overlay.hold(self.overlay)
        count = sum(held.document is not None for held in {**self.base.held, **self.overlay}.values())
        return View(LogNumber(9), self.definition, self.base, LogNumber(5), overlay, count)

    def unique(self, index: Index) -> UniqueOwners:
        return UniqueOwners.build(index, (held for _, held in self.view().scan()))

    def sequence(self) -> int:
        return max((sequence_of(held.id) for _, held in self.view().scan()), default=0)

    def newer(self, name: str, rev: int, seq: int, values: dict[str, Any] | None) -> None:
        self.overlay[id_key(ident(name))] = StoredVersion(
            ident(name), rev, seq, None if values is None else doc(name, **values)
        )

    def held(self, name: str) -> StoredVersion:
        held = self.view().get(id_key(ident(name)))
        assert held is not None
        return held

    def group(self) -> Group:
        return Group(self, "things/")


def add(group: Group, *operations: Operation, **more: Any) -> tuple[LoggedChange, ...]:
    return group.add(Pending("0" * 32, operations, **more))


def loaded_save(state: State, name: str, number: int = 9, **values: Any) -> Save:
    return Save(ident(name), doc(name, **values), ReadVersion(state.held(name), LogNumber(number)))


# --- one operation ---


def test_an_insert_makes_the_first_change_of_a_document() -> None:
    assert add(State().group(), insert("a", n=1)) == (LoggedChange(id=ident("a"), seq=1, after=doc("a", n=1)),)


def test_an_insert_of_what_is_there_is_refused_with_the_way_out() -> None:
    with pytest.raises(AlreadyExistsError, match=r"document 'a' in things/: it exists already \(save it instead"):
        add(State(a={}).group(), insert("a"))


def test_an_insert_after_a_delete_goes_on_counting() -> None:
    state = State(a={})
    state.newer("a", 7, 4, None)
    assert add(state.group(), insert("a", n=2)) == (LoggedChange(id=ident("a"), seq=5, after=doc("a", n=2)),)


def test_an_insert_under_a_made_id_asks_nothing() -> None:
    state = State(a={})
    add(state.group(), Insert(ident("new"), doc("new"), fresh=True))
    assert state.base.count == 0


def test_a_blind_save_takes_the_before_image_from_the_state() -> None:
    state = State(a={"n": 1})
    (change,) = add(state.group(), save("a", n=2))
    assert change == LoggedChange(id=ident("a"), seq=4, before=doc("a", n=1), after=doc("a", n=2))
    assert add(State().group(), save("a", n=2)) == (LoggedChange(id=ident("a"), seq=1, after=doc("a", n=2)),)


def test_a_save_that_must_find_something_refuses_nothing_and_a_deleted_document() -> None:
    state = State(a={})
    update = Save(ident("b"), doc("b"), must_exist=True)
    with pytest.raises(NotFoundError, match="document 'b' in things/: it does not exist"):
        add(state.group(), update)
    state.newer("b", 7, 1, None)
    with pytest.raises(NotFoundError):
        add(state.group(), update)


def test_a_blind_delete_of_nothing_is_no_change() -> None:
    state = State()
    state.newer("gone", 7, 1, None)
    assert add(state.group(), remove("a"), remove("gone")) == ()
    with pytest.raises(NotFoundError):
        add(state.group(), Remove(ident("a"), must_exist=True))


def test_a_delete_keeps_the_before_image() -> None:
    assert add(State(a={"n": 1}).group(), remove("a")) == (LoggedChange(id=ident("a"), seq=4, before=doc("a", n=1)),)


# --- loaded documents and revisions ---


def test_a_loaded_document_is_not_read_again() -> None:
    state = State(a={"n": 1})
    operation = loaded_save(state, "a", n=2)
    state.base.count = 0
    (change,) = add(state.group(), operation)
    assert change.before == doc("a", n=1)
    assert state.base.count == 0


def test_a_loaded_document_older_than_the_base_is_compared_with_it() -> None:
    """Whoever read it at 4 cannot know what the forwarding at 5 took in."""
    state = State(a={"n": 1})
    assert add(state.group(), loaded_save(state, "a", number=4, n=2))
    state.base.held[id_key(ident("b"))] = StoredVersion(ident("b"), 5, 2, doc("b"))
    stale = Save(ident("b"), doc("b", n=2), ReadVersion(StoredVersion(ident("b"), 3, 1, doc("b")), LogNumber(4)))
    with pytest.raises(ConflictError, match="it changed since it was read at revision 3"):
        add(state.group(), stale)
    gone = Save(ident("c"), doc("c"), ReadVersion(StoredVersion(ident("c"), 3, 1, doc("c")), LogNumber(4)))
    with pytest.raises(ConflictError):
        add(state.group(), gone)


@pytest.mark.parametrize("now", [{"n": 5}, None])
def test_a_loaded_document_that_changed_or_went_is_a_conflict(now: dict[str, Any] | None) -> None:
    state = State(a={"n": 1})
    operation = loaded_save(state, "a", number=6, n=2)
    state.newer("a", 7, 4, now)
    with pytest.raises(ConflictError, match=r"use modify\(\)"):
        add(state.group(), operation)
    with pytest.raises(ConflictError):
        add(state.group(), Remove(ident("a"), operation.loaded))


def test_a_loaded_document_in_the_overlay_that_did_not_change_is_fine() -> None:
    state = State()
    state.newer("a", 7, 1, {"n": 1})
    assert add(state.group(), loaded_save(state, "a", number=8, n=2))[0].seq == 2


@pytest.mark.parametrize("rev", [3, 6])
def test_a_given_revision_must_be_the_present_one(rev: int) -> None:
    state = State(a={})
    assert add(state.group(), Save(ident("a"), doc("a", n=1), rev=5))
    for operation in (
        Save(ident("a"), doc("a"), rev=rev),
        Remove(ident("a"), rev=rev),
        Save(ident("b"), doc("b"), rev=5),
    ):
        with pytest.raises(ConflictError):
            add(state.group(), operation)


# --- several operations in a batch ---


def test_a_batch_may_touch_a_document_several_times() -> None:
    changes = add(State().group(), insert("a", n=1), save("a", n=2), remove("a"), insert("a", n=3))
    assert [(change.seq, change.before, change.after) for change in changes] == [
        (1, None, doc("a", n=1)),
        (2, doc("a", n=1), doc("a", n=2)),
        (3, doc("a", n=2), None),
        (4, None, doc("a", n=3)),
    ]


def test_two_inserts_of_one_id_in_a_batch_refuse_it_all() -> None:
    group = State().group()
    with pytest.raises(AlreadyExistsError):
        add(group, insert("a"), Insert(ident("a"), doc("a"), fresh=True))
    assert add(group, insert("a")), "the refused batch left something behind"


# --- the group ---


@pytest.mark.parametrize("second", [insert("a", n=2), save("a", n=3), remove("a")], ids=lambda one: type(one).__name__)
def test_no_two_batches_of_a_group_change_one_document(second: Operation) -> None:
    """A revision is the number of an entry: it must tell versions of a document apart."""
    group = State().group()
    add(group, insert("a", n=1))
    with pytest.raises(ConflictError, match="another batch of it changes the same document"):
        add(group, insert("b", n=1), second)
    add(group, insert("b", n=2))


def test_a_batch_may_change_a_document_twice() -> None:
    first, second = add(State().group(), insert("a", n=1), save("a", n=3))
    assert (second.seq, second.before, first.seq) == (2, doc("a", n=1), 1)


def test_what_was_read_must_be_there_also_behind_another_change_of_the_batch() -> None:
    state = State(a={"n": 1})
    fresh = loaded_save(state, "a", n=3)
    state.newer("a", 8, 4, {"n": 7})
    stale = [replace(fresh, loaded=None, rev=5), fresh]
    for operation in stale:
        with pytest.raises(ConflictError):
            add(state.group(), save("a", n=2), operation)
    assert len(add(state.group(), save("a", n=2), loaded_save(state, "a", n=3))) == 2


@pytest.mark.parametrize("is_forwarded", [True, False])
def test_a_version_that_its_own_batch_overwrote_is_not_taken_for_the_newest(is_forwarded: bool) -> None:
    """Both have the revision of the batch; whoever holds the first may have been given it by the commit."""
    state = State(a={"n": 1})
    if not is_forwarded:
        state.newer("a", 8, 4, {"n": 7})
    held = state.held("a")
    first = ReadVersion(msgspec.structs.replace(held, seq=held.seq - 1), LogNumber(held.rev - 1))
    with pytest.raises(ConflictError):
        add(state.group(), Save(ident("a"), doc("a", n=3), first))


def test_of_two_changes_of_one_loaded_document_the_second_conflicts() -> None:
    state = State(a={"n": 1})
    group = state.group()
    first, second = loaded_save(state, "a", n=2), loaded_save(state, "a", n=3)
    add(group, first)
    with pytest.raises(ConflictError):
        add(group, second)


def test_a_refused_batch_leaves_nothing_not_even_its_claims() -> None:
    group = State(EMAIL).group()
    with pytest.raises(AlreadyExistsError):
        add(group, insert("a", email="x"), insert("a", email="y"))
    add(group, insert("b", email="x"), insert("a", email="y"))


def test_the_guard_may_refuse_and_sees_the_state_of_the_group() -> None:
    group = State().group()
    seen: list[tuple[int, int, list[str]]] = []

    def look(view: View) -> None:
        seen.append((view.number, view.count, sorted(contents(view))))

    add(group, insert("a", n=1), guard=Asking(look))
    add(group, remove("nothing"), guard=Asking(look))
    add(group, insert("b", n=1), guard=Asking(look))
    assert seen == [(9, 0, []), (10, 1, ["a"]), (10, 1, ["a"])]

    def refuse(view: View) -> None:
        raise InvalidRequestError("no")

    with pytest.raises(InvalidRequestError):
        add(group, insert("c"), guard=Asking(refuse))
    add(group, insert("c"))


# --- unique keys ---


def violation(group: Group, *operations: Operation, **more: Any) -> UniqueViolationError:
    with pytest.raises(UniqueViolationError) as caught:
        add(group, *operations, **more)
    return caught.value


def test_a_value_that_is_taken_is_refused_with_the_seeds_message() -> None:
    error = violation(State(EMAIL, a={"email": "x"}).group(), insert("b", email="x"))
    assert str(error) == "Unique constraint violation: email='x' already exists on entity 'a'"
    assert (error.index, error.field, error.value, error.owner) == ("byEmail", "email", "x", "a")


def test_a_document_may_keep_its_own_value() -> None:
    assert add(State(EMAIL, a={"email": "x"}).group(), save("a", email="x", n=2))


def test_a_value_is_free_once_it_was_given_up() -> None:
    group = State(EMAIL, a={"email": "x"}).group()
    add(group, save("a", email="y"))
    add(group, insert("b", email="x"))
    assert violation(group, insert("c", email="y")).owner == "a"
    assert violation(group, insert("c", email="x")).owner == "b"


def test_two_documents_may_trade_values_in_one_batch_but_not_in_two() -> None:
    state = State(EMAIL, a={"email": "x"}, b={"email": "y"})
    assert add(state.group(), save("a", email="y"), save("b", email="x"))
    assert violation(state.group(), save("a", email="y")).owner == "b"


def test_a_batch_cannot_claim_a_value_twice() -> None:
    assert violation(State(EMAIL).group(), insert("a", email="x"), insert("b", email="x")).owner == "a"


def test_a_batch_may_claim_a_value_that_it_gave_up_in_between() -> None:
    assert add(State(EMAIL).group(), insert("a", email="x"), save("a", email="y"), insert("b", email="x"))


def test_null_and_missing_are_exempt_unless_the_index_says_otherwise() -> None:
    assert add(State(EMAIL, a={}).group(), insert("b"), insert("c", email=None))
    strict = definition_of(byEmail={"field": "email", "unique": True, "sparse": False})
    assert violation(State(strict, a={}).group(), insert("b", email=None)).value is None


def test_each_element_of_an_array_is_a_value() -> None:
    tags = definition_of(byTag={"field": "tags", "unique": True, "type": "multiValue"})
    state = State(tags, a={"tags": ["x", "y"]})
    error = violation(state.group(), insert("b", tags=["z", "y"]))
    assert (error.value, error.owner) == ("y", "a")
    group = state.group()
    add(group, save("a", tags=["x"]))
    add(group, insert("b", tags=["z", "y"]))


def test_a_compound_value_is_taken_as_a_whole() -> None:
    pair = definition_of(byPair={"fields": ["a", "b"], "unique": True})
    group = State(pair, d={"a": 1, "b": 1}).group()
    add(group, insert("e", a=1, b=2))
    error = violation(group, insert("f", a=1, b=1))
    assert (error.field, error.value, error.owner) == ("a, b", [1, 1], "d")


def test_every_unique_index_counts() -> None:
    two = definition_of(byEmail={"field": "email", "unique": True}, byPhone={"field": "phone", "unique": True})
    state = State(two, a={"email": "x", "phone": 1})
    assert violation(state.group(), insert("b", email="y", phone=1)).index == "byPhone"
    assert violation(state.group(), insert("b", email="x", phone=2)).index == "byEmail"


def test_an_index_that_is_not_unique_refuses_nothing() -> None:
    plain = definition_of(byEmail={"field": "email"})
    assert add(State(plain, a={"email": "x"}).group(), insert("b", email="x"))


# --- a definition counts from the batch that brings it ---


def test_the_batch_that_brings_a_definition_is_bound_by_it() -> None:
    events = (SchemaChanged(definition=EMAIL),)
    assert violation(State().group(), insert("a", email="x"), insert("b", email="x"), events=events).owner == "a"


def test_batches_behind_a_definition_in_one_group_are_bound_by_it() -> None:
    group = State().group()
    add(group, insert("a", email="x"), events=(SchemaChanged(definition=EMAIL),))
    add(group, insert("b", email="y"))
    assert [violation(group, insert("c", email=email)).owner for email in "xy"] == ["a", "b"]
    add(group, insert("c", email="z"))


@pytest.mark.parametrize("is_stored", [True, False])
def test_an_index_that_comes_after_documents_waits_and_refuses_nothing(is_stored: bool) -> None:
    """Whether it can be is told by its build; that the documents came with the same entry makes no difference."""
    group = State(a={"email": "x"}).group() if is_stored else State().group()
    if not is_stored:
        add(group, insert("a", email="x"))
    add(group, insert("b", email="x"), events=(SchemaChanged(definition=EMAIL),))
    (event,) = group.events["0" * 32]
    assert isinstance(event, SchemaChanged)
    assert event.empty is False
    add(group, insert("c", email="x"))


def test_a_batch_that_needs_an_entry_for_itself_gets_no_company() -> None:
    alone = (JobAttached(job=WriteId("1" * 32), blocks=()),)
    group = State().group()
    add(group, insert("a"))
    with pytest.raises(ConflictError, match="another batch has it for itself"):
        add(group, events=alone)
    group = State().group()
    add(group, events=(JobOpened(job=WriteId("1" * 32), kind="batch", base=9),))


def test_documents_that_others_of_the_group_only_changed_still_count_for_a_definition() -> None:
    """An index over documents is built first, also if the batch before it changed all of them."""
    group = State(a={"email": "x"}).group()
    add(group, save("a", email="y"))
    add(group, insert("b", email="y"), events=(SchemaChanged(definition=EMAIL),))
    (event,) = group.events["0" * 32]
    assert isinstance(event, SchemaChanged)
    assert event.empty is False


def test_an_index_that_comes_when_all_documents_are_gone_is_ready_at_once() -> None:
    state = State(a={"email": "x"})
    state.newer("a", 7, 4, None)
    group = state.group()
    events = (SchemaChanged(definition=EMAIL),)
    assert violation(group, insert("b", email="x"), insert("c", email="x"), events=events).owner == "b"
    add(group, insert("b", email="x"), events=events)
    (event,) = group.events["0" * 32]
    assert isinstance(event, SchemaChanged)
    assert event.empty is True


def test_the_guard_behind_a_definition_sees_it() -> None:
    group = State().group()
    seen: list[View] = []
    add(group, insert("a"), events=(SchemaChanged(definition=EMAIL),))
    add(group, insert("b"), guard=Asking(seen.append))
    assert seen[0].definition.body == EMAIL


def test_a_definition_is_not_brought_by_a_batch_that_changes_nothing() -> None:
    group = State().group()
    assert add(group, remove("a"), events=(SchemaChanged(definition=EMAIL),)) == ()
    add(group, insert("b", email="x"), insert("c", email="x"))


def test_a_refused_definition_does_not_count() -> None:
    group = State(a={}).group()
    with pytest.raises(AlreadyExistsError):
        add(group, insert("a"), events=(SchemaChanged(definition=EMAIL),))
    add(group, insert("b", email="x"), insert("c", email="x"))


# --- numbered ids ---


def test_numbers_are_given_above_every_id_of_digits_deleted_ones_too() -> None:
    state = State()
    state.newer("0000000004", 6, 1, {})
    state.newer("0000000007", 8, 1, None)
    group = state.group()
    (first,) = add(group, InsertNext(b'{"n":1}'))
    assert (first.id, first.after) == (b'"0000000008"', b'{"_id":"0000000008","n":1}')
    assert [change.id for change in add(group, InsertNext(b"{}"), insert("20"), InsertNext(b"{}"))] == [
        b'"0000000009"',
        b'"20"',
        b'"0000000021"',
    ]


def test_a_refused_batch_gives_its_numbers_back() -> None:
    group = State(a={}).group()
    with pytest.raises(AlreadyExistsError):
        add(group, InsertNext(b"{}"), insert("a"))
    assert add(group, InsertNext(b"{}"))[0].id == b'"0000000001"'


def test_through_a_ledger_the_first_entry_refuses_duplicates_too() -> None:
    """What a caller sees of it: the model and the first documents share an entry."""
    rig = Rig()
    ledger = rig.ledger()
    batch = rig.batch(insert("a", email="x"), insert("b", email="x"), events=(SchemaChanged(definition=EMAIL),))
    with pytest.raises(UniqueViolationError):
        ledger.commit(batch)
    assert rig.slots() == []
    ledger.commit(rig.batch(insert("a", email="x"), events=(SchemaChanged(definition=EMAIL),)))
    for process in (ledger, rig.ledger()):
        with pytest.raises(WormError, match="already exists on entity 'a'"):
            process.commit(rig.batch(insert("b", email="x")))
