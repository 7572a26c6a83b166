"""A transaction's batch is refused exactly if what it read has changed: by a model that knows every image."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.bulk.stage_rig import MANUAL
from tests.engine.rig import Asking, Rig, contents, doc, ident, insert, remove, save
from wormdb.bql.parse import parse_filter
from wormdb.engine.commit.operations import Pending
from wormdb.engine.commit.reads import ReadGuard, ReadSet
from wormdb.engine.commit.validate import Group
from wormdb.engine.state.moments import AsOf, view_at
from wormdb.engine.state.view import DocumentChange, id_key
from wormdb.errors import ConflictError, TransactionConflictError, WormError
from wormdb.format.entry import LoggedChange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.engine.commit.operations import Operation
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.view import View

Values = dict[str, Any]
Change = tuple[int, Values | None, Values | None]
"""An id, and what was there before and after."""

IDS = st.integers(0, 4)
BATCH = st.dictionaries(IDS, st.none() | st.integers(0, 3), min_size=1, max_size=3)
"""New values by id; None for a delete."""
FILTERS: dict[str, tuple[Values, Callable[[Values], bool]]] = {
    "all": ({}, lambda _: True),
    "none": ({"v": 99}, lambda one: one["v"] == 99),
    "one": ({"v": 1}, lambda one: one["v"] == 1),
    "big": ({"v": {"$gte": 2}}, lambda one: one["v"] >= 2),
    "id": ({"_id": 3}, lambda one: one["_id"] == 3),
}


@dataclass
class Model:
    """Documents by id, and how often each changed."""

    held: dict[int, Values | None] = field(default_factory=dict)
    seqs: dict[int, int] = field(default_factory=dict)

    def changes(self, batch: dict[int, int | None]) -> list[Change]:
        """What a batch changes; the delete of what is not there changes nothing."""
        made = []
        for identity, value in batch.items():
            before, after = self.held.get(identity), None if value is None else {"_id": identity, "v": value}
            if before is not None or after is not None:
                made.append((identity, before, after))
        return made

    def apply(self, changes: Sequence[Change]) -> None:
        for identity, _, after in changes:
            self.held[identity] = after
            self.seqs[identity] = self.seqs.get(identity, 0) + 1


def operations(batch: dict[int, int | None]) -> list[Operation]:
    return [remove(each) if value is None else save(each, v=value) for each, value in batch.items()]


def logged(model: Model, changes: Sequence[Change]) -> list[LoggedChange]:
    return [
        LoggedChange(
            id=ident(identity),
            seq=model.seqs.get(identity, 0) + 1,
            before=None if before is None else doc(**before_args(before)),
            after=None if after is None else doc(**before_args(after)),
        )
        for identity, before, after in changes
    ]


def before_args(values: Values) -> Values:
    return {"identity": values["_id"], "v": values["v"]}


@dataclass
class History:
    """One process that reads and commits, another that writes, and the model of both."""

    rig: Rig = field(default_factory=Rig)
    model: Model = field(default_factory=Model)
    news: list[Change] = field(default_factory=list)
    """Since what was read."""

    def __post_init__(self) -> None:
        self.here, self.there = self.rig.ledger(limits=MANUAL), self.rig.ledger(limits=MANUAL)

    def write(self, ledger: Ledger, batch: dict[int, int | None], *, is_news: bool = True) -> None:
        changes = self.model.changes(batch)
        ledger.view()
        if changes:
            ledger.commit(self.rig.batch(*operations(batch)))
        self.model.apply(changes)
        self.news += changes if is_news else []

    def read(self, ids: set[int], names: set[str], seen: View) -> ReadSet:
        filters = tuple(parse_filter(FILTERS[name][0]) for name in sorted(names))
        return ReadSet(seen, {ident(each): self.model.seqs.get(each, 0) for each in ids}, filters)

    def is_conflict(self, ids: set[int], names: set[str]) -> bool:
        found = [FILTERS[name][1] for name in names]
        return any(
            identity in ids or any(image is not None and matches(image) for image in images for matches in found)
            for identity, *images in self.news
        )


@given(
    first=st.lists(BATCH, min_size=1, max_size=3),
    decided=st.none() | BATCH,
    later=st.lists(st.tuples(st.booleans(), BATCH), max_size=3),
    grouped=st.lists(BATCH, max_size=2),
    ids=st.sets(IDS, max_size=2),
    names=st.sets(st.sampled_from(sorted(FILTERS)), max_size=2),
)
def test_a_batch_is_refused_exactly_if_what_was_read_has_changed(
    first: list[dict[int, int | None]],
    decided: dict[int, int | None] | None,
    later: list[tuple[bool, dict[int, int | None]]],
    grouped: list[dict[int, int | None]],
    ids: set[int],
    names: set[str],
) -> None:
    history = History()
    for batch in first:
        history.write(history.here, batch)
    history.news.clear()
    seen = history.here.view()
    if decided is not None:
        # What another transaction is certain to write is seen before its entry is there.
        changes = history.model.changes(decided)
        seen = seen.on_top(logged(history.model, changes))
        after = Model(dict(history.model.held), dict(history.model.seqs))
        after.apply(changes)
        reads = ReadSet(
            seen,
            {ident(each): after.seqs.get(each, 0) for each in ids},
            tuple(parse_filter(FILTERS[name][0]) for name in sorted(names)),
        )
        history.write(history.there, decided, is_news=False)
    else:
        reads = history.read(ids, names, seen)
    for is_here, batch in later:
        history.write(history.here if is_here else history.there, batch)
    history.here.view()
    group = Group(history.here._head, "things")
    touched: set[int] = set()
    for batch in grouped:
        if touched.isdisjoint(batch):
            touched |= batch.keys()
            changes = history.model.changes(batch)
            assert len(group.add(history.rig.batch(*operations(batch), actor="rival"))) == len(changes)
            history.model.apply(changes)
            history.news += changes
    own = history.rig.batch(insert("own"), guard=ReadGuard("things", reads))
    if history.is_conflict(ids, names):
        with pytest.raises(TransactionConflictError) as caught:
            group.add(own)
        assert caught.value.collection == "things"
        assert caught.value.key in {ident(identity).decode() for identity, *_ in history.news}
    else:
        assert len(group.add(own)) == 1


@given(
    batches=st.lists(BATCH, min_size=1, max_size=4),
    read=st.integers(0, 4),
    ids=st.sets(IDS, max_size=2),
    names=st.sets(st.sampled_from(sorted(FILTERS)), max_size=1),
    is_followed=st.booleans(),
    forwards=st.sets(st.integers(0, 4)),
)
def test_when_the_tail_no_longer_reaches_back_the_entries_that_were_kept_tell(
    batches: list[dict[int, int | None]],
    read: int,
    ids: set[int],
    names: set[str],
    is_followed: bool,
    forwards: set[int],
) -> None:
    """Without them ids are looked up, and a filter counts as changed."""
    history = History()
    history.write(history.here, {9: 9})
    for batch in batches[:read]:
        history.write(history.here, batch)
    history.news.clear()
    reads = history.read(ids, names, history.here.view())
    if is_followed:
        reads = replace(reads, follower=history.here.follow(reads.seen)[0])
    for place, batch in enumerate(batches[read:]):
        history.write(history.there, batch)
        if place in forwards:
            history.here.view()
            history.here.forward()
    history.write(history.there, {8: 8})
    history.here.view()
    history.here.forward()
    assert history.here.view().changes_since(reads.number) is None
    if is_followed:
        expected = history.is_conflict(ids, names)
    else:
        expected = bool(names) or not ids.isdisjoint({identity for identity, *_ in history.news})
    assert is_refused(history.here, ReadGuard("things", reads)) == expected


def test_a_follower_that_missed_an_entry_says_so() -> None:
    rig = Rig()
    ledger, other = rig.ledger(limits=MANUAL), rig.ledger(limits=MANUAL)
    ledger.commit(rig.batch(insert("a")))
    follower = ledger.follow(ledger.view())[0]
    assert follower.changes(1, 1) == []
    other.commit(rig.batch(insert("b")))
    assert follower.changes(1, 2) is None, "it is not known here"
    ledger.view()
    assert [change.after for change in follower.changes(1, 2) or ()] == [doc("b")]
    assert follower.changes(0, 2) is None, "it began later"
    other.commit(rig.batch(insert("c")))
    other.forward()
    ledger.forget()
    ledger.view()
    ledger.commit(rig.batch(insert("d")))
    assert follower.changes(1, 4) is None


def is_refused(ledger: Ledger, guard: ReadGuard) -> bool:
    try:
        ledger.commit(Pending("f" * 32, (insert("own"),), guard=guard))
    except TransactionConflictError:
        return True
    return False


@given(st.lists(st.tuples(st.booleans(), BATCH), min_size=1, max_size=6), st.integers(0, 6))
def test_changes_since_a_number_are_those_of_the_entries_after_it(
    steps: list[tuple[bool, dict[int, int | None]]], since: int
) -> None:
    history = History()
    expected: list[tuple[int, list[Change]]] = []
    for is_here, batch in steps:
        changes = history.model.changes(batch)
        history.write(history.here if is_here else history.there, batch)
        if changes:
            expected.append((history.there.view().number, changes))
    view = history.here.view()
    found = view.changes_since(since)
    assert found is not None
    wanted = [(number, id_key(ident(each[0]))) for number, changes in expected if number > since for each in changes]
    assert [(change.number, change.key) for change in found] == wanted
    images = [(before, after) for number, changes in expected if number > since for _, before, after in changes]
    assert [(change.before, change.after) for change in found] == [
        tuple(None if one is None else doc(**before_args(one)) for one in pair) for pair in images
    ]


def test_a_batch_of_the_same_entry_is_among_the_changes_with_its_actor() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a", v=1)))
    found: list[DocumentChange] = []

    def look(view: View) -> None:
        found.extend(view.changes_since(1) or [])

    group = Group(ledger._head, "things")
    group.add(rig.batch(save("a", v=2), actor="ann"))
    group.add(rig.batch(insert("b"), guard=Asking(look)))
    assert [(one.before, one.after, one.number, one.actor) for one in found] == [
        (doc("a", v=1), doc("a", v=2), 2, "ann")
    ]


def test_a_conflict_names_the_collection_the_document_and_the_writer() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a", v=1)))
    reads = ReadSet(ledger.view(), {ident("a"): 1})
    ledger.commit(rig.batch(save("a", v=2), actor="ann"))
    with pytest.raises(ConflictError) as caught:
        ledger.commit(rig.batch(insert("b"), guard=ReadGuard("things", reads)))
    error = caught.value
    assert isinstance(error, TransactionConflictError)
    assert (error.collection, error.key, error.by) == ("things", '"a"', "ann")
    assert "by ann" in str(error)
    assert set(contents(ledger.view())) == {"a"}


def test_blocks_that_a_job_attached_since_are_a_conflict_for_filters_and_looked_up_for_ids() -> None:
    rig = Rig()
    ledger, stager = rig.ledger(limits=MANUAL), rig.ledger(limits=MANUAL, stage_bytes=1)
    ledger.commit(rig.batch(insert("a", v=1), insert("b", v=1)))
    seen = ledger.view()
    stager.commit(rig.batch(save("a", v=2)))
    ledger.view()
    refused: dict[str, WormError | None] = {}
    for name, reads in {
        "changed": ReadSet(seen, {ident("a"): 1}),
        "same": ReadSet(seen, {ident("b"): 1}),
        "filter": ReadSet(seen, {}, (parse_filter({"v": 7}),)),
    }.items():
        try:
            ledger.commit(rig.batch(insert(name), guard=ReadGuard("things", reads)))
            refused[name] = None
        except TransactionConflictError as error:
            refused[name] = error
    assert {name for name, error in refused.items() if error is not None} == {"changed", "filter"}


def test_what_lies_on_top_is_no_part_of_the_past() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=MANUAL)
    ledger.commit(rig.batch(insert("a", v=1)))
    top = ledger.view().on_top([LoggedChange(id=ident("a"), seq=2, before=doc("a", v=1), after=doc("a", v=2))])
    then = view_at(top, AsOf.number(1))
    assert then is not None
    assert contents(then) == {"a": (1, 1, {"v": 1})}
    assert contents(top) == {"a": (2, 2, {"v": 2})}
    assert [row.seq for row in ledger.history(top).versions(id_key(ident("a")))] == [1]
