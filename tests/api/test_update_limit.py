"""Updates and deletes of the first documents in an order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wormdb
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document


def filled(database: wormdb.Database, values: list[int]) -> Collection[Document]:
    things = database["things"]
    things.insert_many([{"id": f"{place:03}", "n": value} for place, value in enumerate(values)])
    return things


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=12),
    st.integers(1, 14),
    st.sampled_from([None, "n", "-n", ["-n", "id"]]),
    st.integers(0, 5),
)
def test_they_are_the_first_of_what_find_gives(values: list[int], limit: int, sort: Any, least: int) -> None:
    tree = {"n": {"$gte": least}}
    with wormdb.connect("memory://") as database:
        things = filled(database, values)
        meant = [row["id"] for row in things.find(tree, sort=sort, limit=limit)]
        done = things.update_many(tree, {"$set": {"seen": True}}, sort=sort, limit=limit)
        assert done.modified_ids == meant
        assert (done.matched, done.modified) == (len(meant), len(meant))
        assert sorted(row["id"] for row in things.find({"seen": True})) == sorted(meant)
        gone = things.delete_many(tree, sort=sort, limit=limit)
        assert gone.deleted_ids == meant
        assert gone.deleted == len(meant)
        assert things.count() == len(values) - len(meant)


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "3"])
@pytest.mark.parametrize(
    "call",
    [
        lambda things, limit: things.update_many({}, {"$set": {"a": 1}}, limit=limit),
        lambda things, limit: things.delete_many({}, limit=limit),
    ],
)
def test_a_limit_that_is_none_is_refused(call: Callable[..., object], limit: Any) -> None:
    with wormdb.connect("memory://") as database:
        things = filled(database, [1])
        with pytest.raises(InvalidRequestError, match="1 or more"):
            call(things, limit)
        assert things.find_all({})[0] == {"id": "000", "n": 1}


def test_only_what_changed_is_named() -> None:
    with wormdb.connect("memory://") as database:
        things = filled(database, [1, 2, 1])
        done = things.update_many({}, {"$set": {"n": 1}})
        assert (done.matched, done.modified, done.modified_ids) == (3, 1, ["001"])
        assert things.update_many({"n": 9}, {"$set": {"n": 1}}).modified_ids == []
        assert things.delete_many({"n": 9}).deleted_ids == []
