"""Columns of the tail: made once for a state, whatever the number of queries."""

from __future__ import annotations

from unittest import mock

import wormdb
from wormdb.engine.columns import sources

MANUAL = wormdb.Settings(forward="manual")


def test_they_are_made_once_for_a_state() -> None:
    with wormdb.connect("memory://", settings=MANUAL) as database:
        things = database["things"]
        things.insert_many([{"id": f"a{number:03}", "n": number} for number in range(200)])
        things.forward()
        for number in range(200, 240, 2):
            things.insert({"id": f"a{number:03}", "n": number})
        with mock.patch.object(sources, "portion_of_rows", wraps=sources.portion_of_rows) as made:

            def found(low: int) -> list[int]:
                return [each["n"] for each in things.find({"n": {"$gte": low}}, strategy="manifest_fetch")]

            assert found(230) == [230, 232, 234, 236, 238]
            first = made.call_count
            assert first > 0
            assert found(236) == [236, 238]
            assert made.call_count == first
            things.save({"id": "a238", "n": 7})
            things.insert({"id": "a000b", "n": 999})
            assert found(236) == [999, 236], "another state, in order of ids"
            assert made.call_count > first
            things.delete("a236")
            assert found(236) == [999]
