from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.tree.rig import encode_compound, span_of
from wormdb.engine.tree.definition import Index
from wormdb.engine.tree.entries import (
    Range,
    changes_of,
    value_key_of,
)
from wormdb.format.json import encode
from wormdb.format.key import encode_key
from wormdb.format.order import compare
from wormdb.testing.strategies import ids, scalars, values

TAGS = Index("byTags", ("tags",))


def key(value: Any, identity: Any = "a") -> bytes:
    return encode_key(value) + encode_key(identity)


def test_what_is_inserted_updated_and_deleted() -> None:
    old, new = {"tags": ["x", "y"]}, {"tags": ["z", "y"]}
    assert changes_of(TAGS, b'"a"', None, old) == [(key("x"), b'"a"'), (key("y"), b'"a"')]
    assert changes_of(TAGS, b'"a"', old, new) == [(key("x"), None), (key("z"), b'"a"')]
    assert changes_of(TAGS, b'"a"', new, None) == [(key("y"), None), (key("z"), None)]
    assert changes_of(TAGS, b'"a"', old, {"tags": ["y", "x"], "other": 1}) == []
    assert changes_of(TAGS, b'"a"', None, None) == []


@given(scalars(), ids())
def test_an_entry_is_taken_apart_again(value: Any, identity: Any) -> None:
    index = Index("i", ("v",), sparse=False)
    ((where, stored),) = changes_of(index, encode(identity), None, {"v": value})
    assert stored is not None
    assert stored == encode(identity)
    assert value_key_of((where, stored)) == encode_key(value)


@given(values(), values(), values(), ids(), st.booleans(), st.booleans())
def test_ranges_of_values_hold_the_entries_of_their_values(
    value: Any, lower: Any, upper: Any, identity: Any, first: bool, last: bool
) -> None:
    below, above = compare(lower, value), compare(value, upper)
    entry = encode_key(value) + encode_key(identity)
    bounds = encode_key(lower), encode_key(upper)
    span = span_of(*bounds, lower_inclusive=first, upper_inclusive=last)
    assert (entry in span) == ((below < 0 or (first and below == 0)) and (above < 0 or (last and above == 0)))
    assert (entry in span_of(bounds[0], lower_inclusive=first)) == (below < 0 or (first and below == 0))
    assert (entry in span_of(upper=bounds[1], upper_inclusive=last)) == (above < 0 or (last and above == 0))
    assert entry in span_of()
    assert entry in Range.prefix(encode_key(value))


def test_a_range_of_first_values_holds_all_that_follow() -> None:
    span = span_of(encode_key(1), encode_key(1))
    assert encode_compound(1, "x") + encode_key("a") in span
    assert encode_compound(2, "x") + encode_key("a") not in span


def test_a_range_above_everything_is_empty() -> None:
    span = span_of(b"\xff\xff", lower_inclusive=False)
    assert span.empty
    assert b"\xff\xff\xff" not in span
    assert Range(b"b", b"a").empty
    assert not Range(b"a").empty
