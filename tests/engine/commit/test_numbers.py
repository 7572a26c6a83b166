"""Ids that the commit numbers, beside ids of digits that callers choose: no number is ever given twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.bulk.rig import run_job
from tests.engine.bulk.stage_rig import logger, stager
from tests.engine.rig import Rig, contents, insert, remove, save
from wormdb.engine.commit.operations import InsertNext
from wormdb.errors import AlreadyExistsError, LimitExceededError, WormError
from wormdb.format import json
from wormdb.format.event import SchemaChanged
from wormdb.schema.load import load_model
from wormdb.settings import SEQUENCE_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.commit.commit import CommitResult
    from wormdb.engine.commit.operations import Operation
    from wormdb.engine.ledger import Ledger

NUMBERED = SchemaChanged(definition=load_model("Order", {"path": "@things/(id:seq)"}).canonical())
DIGITS = len(str(SEQUENCE_MAX))

edges = st.builds(
    lambda digits, more, zeros: str(max(0, 10**digits + more)).rjust(zeros, "0"),
    st.sampled_from([0, 1, 10, DIGITS - 1, DIGITS, DIGITS, DIGITS + 1]),
    st.integers(-2, 1),
    st.sampled_from([0, 0, 4, 10, DIGITS, DIGITS + 2]),
)
"""Ids of digits where their number grows by one, some with zeros before them, up to two digits beyond the counter."""
steps = st.one_of(
    st.tuples(st.sampled_from(["insert", "save", "remove", "stage", "bulk"]), edges),
    st.tuples(st.sampled_from(["next", "next", "next", "stage next", "mixed"]), edges),
    st.tuples(st.sampled_from(["forward", "reopen"]), st.just("")),
)


@dataclass
class Numbers:
    """A collection and what it should hold, by id; deleted ones have no value."""

    rig: Rig = field(default_factory=Rig)
    known: dict[str, int | None] = field(default_factory=dict)
    _writes: int = 0

    def __post_init__(self) -> None:
        self.log = logger(self.rig)
        self._commit(self.log, events=(NUMBERED,))

    def _commit(self, process: Ledger, *operations: Operation, **more: Any) -> CommitResult:
        return process.commit(self.rig.batch(*operations, **more))

    def act(self, verb: str, identity: str) -> None:
        """One step; whatever is refused leaves all as it was."""
        self._writes += 1
        before = dict(self.known)
        try:
            self._act(verb, identity)
        except WormError as error:
            if "next" in verb and not isinstance(error, LimitExceededError):
                raise
            self.known = before
        self.check()

    def _act(self, verb: str, identity: str) -> None:
        given, n = {"n": self._writes}, self._writes
        number = InsertNext(json.encode_document(given))
        own: dict[str, Callable[[], Operation]] = {
            "insert": lambda: insert(identity, **given),
            "stage": lambda: insert(identity, **given),
            "save": lambda: save(identity, **given),
            "remove": lambda: remove(identity),
        }
        match verb:
            case "forward":
                self.log.forward()
            case "reopen":
                self.log = logger(self.rig)
            case "bulk":
                run_job(self.rig, [[(identity, given)]], job=f"job {n}")
                assert self.known.get(identity) is None
                self.known[identity] = n
            case "next" | "stage next" | "mixed":
                operations = [number, insert(identity, **given), number] if verb == "mixed" else [number]
                self._told(self._commit(self.log if verb == "next" else stager(self.rig), *operations), n)
            case _:
                process = stager(self.rig) if verb == "stage" else self.log
                self._commit(process, own[verb]())
                assert verb not in ("insert", "stage") or self.known.get(identity) is None
                if verb != "remove" or identity in self.known:
                    self.known[identity] = None if verb == "remove" else n

    def _told(self, committed: CommitResult, n: int) -> None:
        for change in committed.changes:
            identity = json.decode(change.id, name="id")
            assert self.known.get(identity) is None, f"{identity} was given twice"
            assert change.before is None
            self.known[identity] = n

    def check(self) -> None:
        view = self.log.view()
        alive = {identity: {"n": n} for identity, n in self.known.items() if n is not None}
        assert {identity: one[2] for identity, one in contents(view).items() if one[2] is not None} == alive
        assert view.count == len(alive)


@settings(max_examples=4 * settings().max_examples)
@given(st.lists(steps, min_size=3, max_size=8))
def test_no_number_is_given_twice_whatever_ids_others_chose(chosen: list[tuple[str, str]]) -> None:
    numbers = Numbers()
    for verb, identity in chosen:
        numbers.act(verb, identity)


@pytest.mark.parametrize("kind", ["next", "stage next"])
def test_the_counter_says_when_it_is_exhausted_and_loses_nothing(kind: str) -> None:
    numbers = Numbers()
    numbers.act("insert", str(SEQUENCE_MAX - 1))
    numbers.act(kind, "")
    assert list(numbers.known) == [str(SEQUENCE_MAX - 1), str(SEQUENCE_MAX)]
    for _ in range(2):
        with pytest.raises(LimitExceededError, match="no number after 999999999999999999"):
            numbers._act(kind, "")
    numbers.check()


def test_an_id_beyond_the_counter_is_refused_for_new_documents_only() -> None:
    old = "1" * (DIGITS + 1)
    numbers = Numbers()
    for verb in ("insert", "save", "stage", "bulk"):
        with pytest.raises(LimitExceededError, match="at most 18 digits"):
            numbers._act(verb, old)
    # As a release before this limit wrote it: no model looked at it.
    numbers.rig = Rig()
    numbers.log = logger(numbers.rig)
    numbers._commit(numbers.log, insert(old, n=0))
    numbers._commit(numbers.log, events=(NUMBERED,))
    numbers.known = {old: 0}
    for verb in ("save", "remove", "insert", "remove", "stage", "remove", "bulk", "next"):
        numbers.act(verb, old)
    assert list(numbers.known.values()) == [7, 8]


@pytest.mark.parametrize("identity", ["7", "0007", "0000000007"])
def test_zeros_before_a_number_do_not_matter_to_the_counter(identity: str) -> None:
    numbers = Numbers()
    numbers.act("insert", identity)
    numbers.act("next", "")
    assert list(numbers.known) == [identity, "0000000008"]
    with pytest.raises(AlreadyExistsError):
        numbers._act("insert", "0000000008")
