"""The past is as it was written, whenever it was brought forward and whatever was written again since."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.versions.rig import World, database_on, schema_of, shown
from wormdb.storage.conditions import ensure_conditions
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from wormdb.api.database import Database


@pytest.fixture(autouse=True, scope="module")
def _conditions() -> None:
    ensure_conditions(World(), SeededChance(0))


STEP = st.one_of(
    st.tuples(st.just("save"), st.sampled_from("xyz"), st.integers(0, 9)),
    st.tuples(st.just("large"), st.sampled_from("uvw"), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.sampled_from("xyz"), st.just(0)),
    st.tuples(st.just("forward"), st.just(""), st.just(0)),
    st.tuples(st.just("map"), st.just(""), st.just(0)),
)
States = list[tuple[int, datetime, dict[str, Any]]]


def check_moments(database: Database, moments: tuple[int | datetime, ...], expected: dict[str, Any]) -> None:
    """Every way to ask for one of the moments says the same."""
    things = database.model("Thing")
    for moment in moments:
        assert {one["id"]: one["a"] for one in things.scan(as_of=moment)} == expected
        assert things.count(as_of=moment) == len(expected)
        assert {one["id"]: one["a"] for one in things.find({}, as_of=moment)} == expected
        for name in "xyz":
            one = things.find_by_id(name, as_of=moment)
            assert (None if one is None else shown(one).get("a")) == expected.get(name)


@settings(max_examples=6, deadline=None)
@given(steps=st.lists(STEP, min_size=4, max_size=9))
def test_a_moment_shows_what_was_written_by_then(steps: list[tuple[str, str, int]]) -> None:
    world = World()
    version, states, written = 1, States(), dict[str, Any]()
    database = database_on(world, schema_of(1), stage_bytes=400)
    database.apply_schema()
    for verb, name, value in [("save", "x", 1), *steps]:
        things = database.model("Thing")
        match verb:
            case "save":
                things.save({"id": name, "a": value})
                written[name] = value
            case "large":
                with things.batch() as batch:
                    for number in range(4):
                        batch.save({"id": f"{name}{number}", "a": value, "s": "s" * 300})
                written |= {f"{name}{number}": value for number in range(4)}
            case "delete":
                if written.pop(name, None) is not None:
                    things.delete(name)
            case "forward":
                database.forward(["Thing"])
            case _:
                version += 1
                database = database_on(world, schema_of(version), seed=version, stage_bytes=400)
                database.apply_schema(mappings={"Thing": {"$inc": {"a": 100}}})
        now = datetime.fromtimestamp(world.manual.now_ms() / 1000, UTC)
        states.append((database.model("Thing")._ledger.view().number, now, dict(written)))
        world.manual.sleep(2)
    for number, time, expected in states:
        check_moments(database, (number, time), expected)
    (verified,) = database.verify(["Thing"])
    assert not verified.findings
