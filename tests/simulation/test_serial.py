"""The checker of strict serializability itself, on histories that are small enough to judge by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.simulation.replay import Violation
from tests.simulation.serial import Deed, Question, check_serial

START: dict[tuple[str, str], dict[str, Any]] = {("a", "x"): {"n": 1}, ("b", "y"): {"n": 1}}
X, Y = Question("a", "id", "x"), Question("b", "id", "y")
RED = Question("a", "where", "color", "red")
COUNT = Question("a", "count", "color", "red")


def deed(
    name: str,
    span: tuple[float, float],
    answers: list[tuple[Question, Any]],
    writes: dict[tuple[str, str], Any] | None = None,
    effect: float | None = None,
    **more: Any,
) -> Deed:
    options = {"outcome": "ok"} | more
    return Deed(name, span[0], span[1], answers=answers, writes=writes or {}, effect=effect, **options)


def n(value: int) -> dict[str, int]:
    return {"n": value}


def move(name: str, span: tuple[float, float], effect: float, seen: int, **more: Any) -> Deed:
    writes = {("a", "x"): n(seen - 1), ("b", "y"): n(2 - seen + 1)}
    return deed(name, span, [(X, n(seen)), (Y, n(2 - seen))], writes, effect, **more)


SERIAL = {
    "nothing happened": [],
    "one after the other": [move("t", (1, 3), 2, 1), deed("r", (4, 5), [(X, n(0)), (Y, n(2))])],
    "a reader beside a transfer sees it": [move("t", (1, 9), 2, 1), deed("r", (3, 5), [(X, n(0)), (Y, n(2))])],
    "a reader beside a transfer does not": [move("t", (1, 9), 6, 1), deed("r", (3, 5), [(X, n(1)), (Y, n(1))])],
    "an unknown one took effect late": [
        move("t", (1, math.inf), 8, 1, outcome="unknown"),
        deed("r", (3, 5), [(X, n(1))]),
        deed("s", (9, 10), [(X, n(0))]),
    ],
    "skew is allowed by snapshots": [
        deed("k", (1, 5), [(X, n(1)), (Y, n(1))], {("a", "x"): n(0)}, 4, isolation="snapshot"),
        deed("l", (1, 5), [(X, n(1)), (Y, n(1))], {("b", "y"): n(0)}, 4.5, isolation="snapshot"),
    ],
    "a refusal that was true": [
        deed("w", (1, 5), [], {("a", "z"): {"color": "red"}}, 3),
        deed("v", (2, 6), [], outcome="no", refused=(COUNT, 1)),
    ],
}

BROKEN = {
    "acknowledged and nowhere": [deed("w", (1, 2), [], {("a", "x"): n(0)})],
    "refused and there": [deed("w", (1, 3), [], {("a", "x"): n(0)}, 2, outcome="no")],
    "an effect after the answer": [move("t", (1, 3), 4, 1)],
    "half of a transfer": [move("t", (1, 9), 2, 1), deed("r", (3, 5), [(X, n(0)), (Y, n(1))])],
    "a stale reader": [move("t", (1, 3), 2, 1), deed("r", (4, 5), [(X, n(1)), (Y, n(1))])],
    "a lost update": [move("t", (1, 9), 2, 1), move("u", (1, 9), 3, 1)],
    "write skew": [
        deed("k", (1, 5), [(X, n(1)), (Y, n(1))], {("a", "x"): n(0)}, 4),
        deed("l", (1, 5), [(X, n(1)), (Y, n(1))], {("b", "y"): n(0)}, 4.5),
    ],
    "a phantom": [
        deed("k", (1, 5), [(RED, {})], {("a", "z"): {"color": "red"}}, 3),
        deed("l", (1, 5), [(RED, {})], {("b", "y"): n(0)}, 4),
    ],
    "a snapshot of two moments": [
        move("t", (1, 9), 4, 1),
        deed("k", (3, 9), [(X, n(1)), (Y, n(2))], {("a", "z"): n(0)}, 6, isolation="snapshot"),
    ],
    "a snapshot that loses an update": [
        deed("k", (1, 5), [(X, n(1))], {("a", "x"): n(5)}, 4, isolation="snapshot"),
        deed("l", (1, 5), [(X, n(1))], {("a", "x"): n(6)}, 4.5, isolation="snapshot"),
    ],
    "a refusal that was never true": [deed("v", (2, 6), [], outcome="no", refused=(COUNT, 1))],
    "two readers that see two orders": [
        deed("v", (1, 9), [], {("a", "x"): n(7)}, 3),
        deed("w", (1, 9), [], {("b", "y"): n(7)}, 5),
        deed("r", (2, 8), [(X, n(7)), (Y, n(1))]),
        deed("s", (2, 8), [(X, n(1)), (Y, n(7))]),
    ],
}


@pytest.mark.parametrize("name", SERIAL)
def test_what_one_moment_after_the_other_could_have_told(name: str) -> None:
    assert len(check_serial(SERIAL[name], START).states) == 1 + sum(deed.effect is not None for deed in SERIAL[name])


@pytest.mark.parametrize("name", BROKEN)
def test_what_no_order_of_moments_could_have_told(name: str) -> None:
    with pytest.raises(Violation):
        check_serial(BROKEN[name], START)
