"""The checker itself: on histories small enough to judge by hand, and against one that tries every order."""

from __future__ import annotations

import math
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.linearizability import RegisterOp, is_linearizable


def read(value: str | None, called: float, returned: float) -> RegisterOp:
    return RegisterOp("read", value, called=called, returned=returned)


def write(value: str | None, called: float, returned: float = math.inf) -> RegisterOp:
    return RegisterOp("write", value, called=called, returned=returned, is_unknown=returned == math.inf)


def swap(expected: str | None, value: str, called: float, returned: float = math.inf) -> RegisterOp:
    return RegisterOp("swap", value, expected, called=called, returned=returned, is_unknown=returned == math.inf)


def refused(expected: str | None, called: float, returned: float) -> RegisterOp:
    return RegisterOp("swap refused", expected=expected, called=called, returned=returned)


LINEARIZABLE = {
    "nothing happened": [],
    "a value is read after it was written": [write("a", 1, 2), read("a", 3, 4)],
    "a read beside a write sees the old value": [write("a", 1, 4), read(None, 2, 3)],
    "a read beside a write sees the new value": [write("a", 1, 4), read("a", 2, 3)],
    "two writes side by side, in either order": [write("a", 1, 4), write("b", 2, 3), read("a", 5, 6), read("a", 7, 8)],
    "an unknown write happened": [write("a", 1), read("a", 5, 6)],
    "an unknown write did not happen": [write("a", 1), read(None, 5, 6)],
    "an unknown write happened late": [write("a", 1), read(None, 2, 3), read("a", 4, 5)],
    "a delete is a write": [write("a", 1, 2), write(None, 3, 4), read(None, 5, 6)],
    "of two swaps from one value one wins": [
        write("a", 1, 2),
        swap("a", "b", 3, 6),
        refused("a", 4, 7),
        read("b", 8, 9),
    ],
    "a swap was refused for an unknown write": [write("a", 1), refused(None, 2, 3), read("a", 4, 5)],
}

BROKEN = {
    "a value is read that was never written": [read("a", 1, 2)],
    "a read goes back": [write("a", 1, 2), read("a", 3, 4), read(None, 5, 6)],
    "a stale read": [write("a", 1, 2), write("b", 3, 4), read("a", 5, 6)],
    "a read before the write began": [read("a", 1, 2), write("a", 3, 4)],
    "two readers see two orders": [
        write("a", 1, 9),
        write("b", 1, 9),
        read("a", 2, 3),
        read("b", 4, 5),
        read("a", 6, 7),
    ],
    "both swaps from one value win": [write("a", 1, 2), swap("a", "b", 3, 6), swap("a", "c", 4, 7)],
    "a lost update": [write("a", 1, 2), swap("a", "b", 3, 4), read("a", 5, 6)],
    "a refusal for nothing": [write("a", 1, 2), refused("a", 3, 4), read("a", 5, 6)],
    "an unknown write happened twice": [write("a", 1), read("a", 2, 3), write("b", 4, 5), read("a", 6, 7)],
    "an unknown write happened before it was called": [read("a", 1, 2), write("a", 3)],
    "an unknown swap without its value": [swap("x", "a", 1), read("a", 2, 3)],
}


@pytest.mark.parametrize("name", LINEARIZABLE)
def test_what_one_register_could_have_done(name: str) -> None:
    assert is_linearizable(LINEARIZABLE[name])


@pytest.mark.parametrize("name", BROKEN)
def test_what_no_register_could_have_done(name: str) -> None:
    assert not is_linearizable(BROKEN[name])


def test_the_state_at_the_beginning_counts() -> None:
    assert is_linearizable([read("a", 1, 2)], initial="a")
    assert not is_linearizable([read(None, 1, 2)], initial="a")


def by_every_order(history: list[RegisterOp]) -> bool:
    """Linearizability by its definition: some subset with all known operations, in some order that respects time."""
    known = [op for op in history if not op.is_unknown]
    unknown = [op for op in history if op.is_unknown]
    for count in range(len(unknown) + 1):
        for chosen in combinations(unknown, count):
            if any(explains(order) for order in permutations([*known, *chosen])):
                return True
    return False


def explains(order: tuple[RegisterOp, ...]) -> bool:
    state: str | None = None
    for place, op in enumerate(order):
        if any(not later.is_unknown and later.returned < op.called for later in order[place + 1 :]):
            return False
        possible, state = op.after(state)
        if not possible:
            return False
    return True


@st.composite
def histories(draw: st.DrawFn) -> list[RegisterOp]:
    ops = []
    for number in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["read", "write", "swap", "swap refused"]))
        called = draw(st.integers(0, 20)) + number / 10
        unknown = kind in ("write", "swap") and draw(st.integers(0, 3)) == 0
        returned = math.inf if unknown else called + draw(st.integers(1, 8)) + 0.05
        value, expected = (draw(st.sampled_from([None, "a", "b"])) for _ in range(2))
        ops.append(RegisterOp(kind, value, expected, called=called, returned=returned, is_unknown=unknown))  # type: ignore[arg-type] # sampled from its literals
    return ops


@given(histories())
def test_the_search_agrees_with_the_definition(history: list[RegisterOp]) -> None:
    assert is_linearizable(history) == by_every_order(history)
