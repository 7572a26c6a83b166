"""Ids: made from clock and chance, and checked against the path's types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import InvalidRequestError
from wormdb.format.values import ObjectId
from wormdb.schema.identity import (
    BUILT_IN_TYPES,
    SAMPLES,
    check_outer,
    format_sequence,
    id_problem,
    makes_good_ids,
    new_id,
    new_ids,
)
from wormdb.schema.load import load_model
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from wormdb.schema.model import IdStrategy, Model

STRATEGIES: list[IdStrategy] = ["uuid", "ulid", "objectid"]


def model_of(kind: str, **keys: Any) -> Model:
    return load_model("Thing", {"path": f"@things/(id:{kind})/[thing].json", **keys})


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(seed=st.integers(0, 2**32), now=st.integers(0, 2**47))
def test_new_ids_match_the_type_of_their_name(strategy: IdStrategy, seed: int, now: int) -> None:
    made = new_id(strategy, clock=ManualClock(now), chance=SeededChance(seed))
    assert made is not None
    assert re.fullmatch(BUILT_IN_TYPES[strategy], made)
    assert id_problem(model_of(strategy), made) is None
    assert made == new_id(strategy, clock=ManualClock(now), chance=SeededChance(seed))


def test_uuids_are_version_4() -> None:
    made = new_id("uuid", clock=ManualClock(), chance=SeededChance(1))
    assert made is not None
    assert (UUID(made).version, str(UUID(made))) == (4, made)


def test_ulids_and_object_ids_hold_the_time() -> None:
    clock = ManualClock(1_700_000_000_123)
    ulid = new_id("ulid", clock=clock, chance=SeededChance(1))
    assert ulid is not None
    number = 0
    for character in ulid[:10]:
        number = number * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(character)
    assert number == 1_700_000_000_123
    made = new_id("objectid", clock=clock, chance=SeededChance(1))
    assert ObjectId(made).generation_time.timestamp() == 1_700_000_000


def test_ulids_sort_by_time() -> None:
    made = [
        new_id("ulid", clock=ManualClock(10**12 + step * 997), chance=SeededChance(step)) or "" for step in range(50)
    ]
    assert made == sorted(made)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 50))
def test_many_ids_are_distinct_and_in_order_where_they_begin_with_the_time(
    strategy: IdStrategy, seed: int, count: int
) -> None:
    made = new_ids(strategy, count, clock=ManualClock(), chance=SeededChance(seed))
    assert len(set(made)) == len(made) == count
    assert all(re.fullmatch(BUILT_IN_TYPES[strategy], identity) for identity in made)
    assert strategy == "uuid" or made == sorted(made)
    if strategy == "uuid":
        assert [(UUID(identity).version, UUID(identity).variant) for identity in made] == [(4, RFC_4122)] * count


@pytest.mark.parametrize(
    ("kind", "keys", "good"),
    [
        ("ulid", {}, True),
        ("uuid", {}, True),
        ("seq", {}, False),
        ("string", {}, False),
        ("string", {"id": "ulid"}, True),
        ("any", {"id": "uuid"}, True),
        ("code", {"id": "ulid", "dynamicTypes": {"code": "0[0-9A-Z]+"}}, False),
        ("ulid", {"id": "ulid", "dynamicTypes": {"ulid": "0[0-9A-Z]+"}}, False),
    ],
)
def test_whether_made_ids_need_a_look(kind: str, keys: dict[str, Any], good: bool) -> None:
    assert makes_good_ids(model_of(kind, **keys)) is good


@pytest.mark.parametrize("strategy", ["seq", "given"])
def test_others_are_not_made_here(strategy: IdStrategy) -> None:
    assert new_id(strategy, clock=ManualClock(), chance=SeededChance(1)) is None
    assert new_ids(strategy, 3, clock=ManualClock(), chance=SeededChance(1)) == []


def test_sequence_numbers_sort_as_text() -> None:
    numbers = [1, 9, 10, 11, 99, 100, 9_999_999_999]
    assert sorted(map(format_sequence, numbers)) == [format_sequence(number) for number in numbers]
    assert format_sequence(42) == SAMPLES["seq"]
    assert id_problem(model_of("seq"), format_sequence(10**12)) is None


@pytest.mark.parametrize(
    ("kind", "value", "fits"),
    [
        ("uuid", "6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28", True),
        ("uuid", "6f1c2b9e", False),
        ("uuid", "6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28\n", False),
        ("slug", "a-b_c", True),
        ("slug", "A", False),
        ("slug", "a" * 241, False),
        ("evm", "0x" + "aF" * 20, True),
        ("seq", "0001", True),
        ("seq", 1, False),
        ("string", "anything / at all", True),
        ("string", 5, False),
        ("string", "", False),
        ("any", 5, True),
        ("any", None, False),
        ("any", "x" * 200, True),
    ],
)
def test_ids_are_checked_by_the_type_in_the_path(kind: str, value: Any, fits: bool) -> None:
    problem = id_problem(model_of(kind), value)
    assert (problem is None) is fits
    assert problem is None or (problem.path == "_id" and problem.reason and problem.fix)


def test_own_types_and_shadowed_ones() -> None:
    model = model_of("code", dynamicTypes={"code": "[A-Z]{3}"})
    assert id_problem(model, "ABC") is None
    assert id_problem(model, "abc") is not None
    shadowed = model_of("any", dynamicTypes={"any": "[0-9]+"})
    assert id_problem(shadowed, 5) is not None
    assert id_problem(shadowed, "5") is None


def test_long_ids_need_models_without_files() -> None:
    text = "ü" * 100
    assert id_problem(model_of("string"), text) is not None
    assert id_problem(model_of("string", files=False), text) is None


def test_outer_values_are_checked() -> None:
    model = load_model("User", {"path": "#org/(tenant:slug)/@users/(id:uuid)/[u].json"})
    assert check_outer(model, {"tenant": "acme"}) == {"tenant": "acme"}
    for outer in ({"tenant": "ACME"}, {"tenant": 5}, {}, {"tenant": "a", "x": "b"}):
        with pytest.raises(InvalidRequestError):
            check_outer(model, outer)


def test_a_singleton_takes_any_id() -> None:
    assert id_problem(load_model("S", {"path": "#org/[s].json"}), None) is None
