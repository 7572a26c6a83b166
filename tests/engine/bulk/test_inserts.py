"""Inserts checked at once: what is accepted is what is accepted one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.commit.test_validate import State, definition_of
from tests.engine.rig import Asking, doc, ident, insert, remove, save
from wormdb.engine.bulk.inserts import check_inserts, sampled
from wormdb.engine.commit.operations import Insert, InsertNext, Operation, Pending
from wormdb.engine.state.view import id_key
from wormdb.errors import PermissionDeniedError, WormError
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.event import SchemaChanged
from wormdb.format.sample import Sample
from wormdb.schema.load import load_model

if TYPE_CHECKING:
    from wormdb.engine.bulk.inserts import InsertResult
    from wormdb.engine.state.view import View

INDEXES = definition_of(
    byEmail={"field": "email", "unique": True},
    byTag={"field": "tags", "type": "multiValue"},
    byPair={"fields": ["tags", "more"]},
)


def check(state: State, *operations: Operation, **more: Any) -> InsertResult | None:
    return check_inserts(
        Pending("0" * 32, operations, **more), state.view(), state.unique, state.group().takes_snapshot
    )


def agree(state: State, operations: list[Operation]) -> bool:
    """Whether a batch was accepted at once; then one by one it does the same."""
    found = check(state, *operations)
    if found is None:
        return False
    group = state.group()
    assert group.add(Pending("0" * 32, tuple(operations))) == found.changes
    expected = {(index.name, value) for (index, value), owner in group.claims.items() if owner is not None}
    assert {(name, value) for name, values in found.claims.items() for value in values} == expected
    assert list(found.rows) == [id_key(change.id) for change in found.changes]
    assert list(found.rows.values()) == [
        Row(_identity(operation), 0, change.seq, change.after)
        for operation, change in zip(operations, found.changes, strict=True)
    ]
    return True


def _identity(operation: Operation) -> Any:
    assert isinstance(operation, Insert)
    return json.decode(operation.id, name="id")


# --- what is accepted ---


@pytest.mark.parametrize("identity", ["b", 7, 2.5, 'quote"d', "back\\slash", "ü", "\0\1", "0000000042"])
def test_new_ids_of_any_kind(identity: Any) -> None:
    operations: list[Operation] = [insert("x", email="x@x"), insert(identity, email="b@x"), insert("y")]
    assert agree(State(INDEXES, a={"email": "a@x"}), operations)


def test_made_ids_are_not_looked_up_and_others_at_once() -> None:
    state = State(b"", a={})
    made: list[Operation] = [Insert(ident(name), doc(name), fresh=True) for name in ("new", "newer")]
    assert agree(state, made)
    assert state.base.count == 0
    assert check(state, insert("b"), insert("c"), *made) is not None
    assert state.base.count == 1


def test_a_document_that_was_deleted_goes_on_counting() -> None:
    state = State(INDEXES, a={"email": "a@x"})
    state.newer("a", 7, 4, None)
    found = check(state, insert("a", email="a@x"), insert("b"))
    assert found is not None
    assert [change.seq for change in found.changes] == [5, 1]
    assert agree(state, [insert("a", email="a@x"), insert("b")])


def test_snapshots_are_taken_as_the_model_says() -> None:
    body = load_model("Thing", {"path": "@things/(id:any)", "snapshots": {"enabled": True, "every": 1}}).canonical()
    found = check(State(body), insert("a"))
    assert found is not None
    assert found.changes[0].snapshot
    assert agree(State(body), [insert("a")])


# --- what is gone through one by one ---


@pytest.mark.parametrize(
    "operations",
    [
        [],
        [insert("b"), insert("b")],
        [insert("b"), insert("a")],
        [insert("b"), save("c")],
        [insert("b"), remove("a")],
        [insert("b"), InsertNext(b"{}")],
        [insert("b", email="a@x")],
        [insert("b", email="x"), insert("c", email="x")],
        [insert("b", email=["x", "y"]), insert("c", email=["y"])],
        [insert("b", tags=[1], more=[2])],
        [insert("b", email="x" * 5_000)],
    ],
    ids=str,
)
def test_whatever_may_be_refused(operations: list[Operation]) -> None:
    assert check(State(INDEXES, a={"email": "a@x"}), *operations) is None


def test_a_batch_that_brings_a_definition() -> None:
    assert check(State(), insert("a"), events=(SchemaChanged(definition=INDEXES),)) is None


def test_the_guard_is_asked() -> None:
    def refuse(view: View) -> None:
        raise PermissionDeniedError(f"at {view.number}")

    with pytest.raises(PermissionDeniedError, match="at 9"):
        check(State(), insert("a"), guard=Asking(refuse))


# --- everything ---

values = st.fixed_dictionaries(
    {},
    optional={
        "email": st.sampled_from(["a@x", "b@x", 1, 1.0, None, ["b@x", "c@x"], []]),
        "tags": st.sampled_from(["t", ["t", "u"], []]),
        "more": st.sampled_from([1, [1, 2]]),
    },
)
inserts = st.builds(
    lambda identity, fresh, more: Insert(ident(identity), doc(identity, **more), fresh and identity not in ("a", "b")),
    st.sampled_from(["a", "b", "c", "d", 5, 'e"']),
    st.booleans(),
    values,
)


@given(st.lists(inserts, min_size=1, max_size=4), values, st.none() | values)
def test_any_inserts(operations: list[Operation], first: dict[str, Any], second: dict[str, Any] | None) -> None:
    state = State(INDEXES, a=first, b=first)
    state.newer("b", 7, 4, second)
    if not agree(state, operations):
        with pytest.raises(WormError):
            state.group().add(Pending("0" * 32, tuple(operations)))


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 102, 1_000])
@pytest.mark.parametrize("size", [1, 5_000])
def test_the_sample_is_that_of_all_rows(count: int, size: int) -> None:
    rows = {
        id_key(ident(n)): Row(n, 0, 1, None if n % 7 == 3 else doc(n, text=["x" * 50] * (size // 50)))
        for n in range(count)
    }
    expected = Sample().after(((key, row.document) for key, row in rows.items()), note_gone=True)
    assert sampled(rows) == expected
