"""Spans against plain sets of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wormdb.format.kinds import Kind
from wormdb.query.logical.values import ALL, bracket, has_all, has_any, intersect_spans, is_apart, is_within, join_spans

Numbers = set[int]

PAIRS = st.tuples(st.integers(8, 40), st.integers(8, 40))
LISTS = st.lists(PAIRS, max_size=5)


def spans_of(pairs: list[tuple[int, int]]) -> tuple[tuple[bytes, bytes], ...]:
    return join_spans([(bytes((low,)), bytes((high,))) for low, high in pairs])


def numbers_of(pairs: list[tuple[int, int]]) -> Numbers:
    return {number for low, high in pairs for number in range(low, high)}


def numbers_in(spans: tuple[tuple[bytes, bytes], ...]) -> Numbers:
    return numbers_of([(low[0], high[0]) for low, high in spans])


@given(a=LISTS, b=LISTS)
def test_spans_are_sets(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    left, right = numbers_of(a), numbers_of(b)
    assert numbers_in(spans_of(a)) == left
    assert numbers_in(intersect_spans(spans_of(a), spans_of(b))) == left & right
    assert is_apart(spans_of(a), spans_of(b)) is not bool(left & right)
    assert is_within(spans_of(a), spans_of(b)) is (left <= right)


@given(a=LISTS)
def test_spans_ascend_and_stay_apart(a: list[tuple[int, int]]) -> None:
    flat = [key for span in spans_of(a) for key in span]
    assert flat == sorted(set(flat))


@given(a=LISTS, one=PAIRS.filter(lambda pair: pair[0] < pair[1]))
def test_one_span_in_several(a: list[tuple[int, int]], one: tuple[int, int]) -> None:
    ((span,), numbers) = spans_of([one]), numbers_of([one])
    assert has_any(spans_of(a), span) is bool(numbers & numbers_of(a))
    assert has_all(spans_of(a), span) is (numbers <= numbers_of(a))


def test_the_brackets_leave_no_gap() -> None:
    assert join_spans(map(bracket, Kind)) == ALL
