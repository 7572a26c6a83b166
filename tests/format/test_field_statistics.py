"""Statistics of fields in the root: bounded, of the newest state each, and never in the way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wormdb.format.field_statistics import (
    FieldStatistics,
    FrequentValue,
    decode_field_statistics,
    encode_field_statistics,
    merged,
)
from wormdb.settings import FIELD_STATISTICS_BYTES_MAX


def field(path: str, number: int = 1, rows: int = 10) -> FieldStatistics:
    return FieldStatistics(path=path, number=number, rows=rows)


FIELDS = st.lists(
    st.builds(field, st.sampled_from("abcdef"), st.integers(1, 4), st.integers(1, 3)),
    max_size=6,
    unique_by=lambda each: each.path,
).map(tuple)


def test_all_of_a_field_comes_back() -> None:
    top = (FrequentValue((1 << 64) - 1, '"x"', 7), FrequentValue(0, "…", 1))
    whole = FieldStatistics(
        path="a.b",
        number=4,
        misc=5,
        rows=6,
        changes=7,
        missing=1,
        nulls=2,
        values=3,
        distinct=2,
        low=b"\x01",
        high=b"\xff",
        top=top,
        bounds=(b"\x02", b"\x03"),
        ranks=(1, 2),
    )
    assert decode_field_statistics(encode_field_statistics([whole, field("c")])) == (whole, field("c"))


def test_what_cannot_be_read_is_nothing() -> None:
    for data in (None, b"", b"statistics", b"\x81\xa1f\x01", encode_field_statistics([])):
        assert decode_field_statistics(data) == ()


def test_the_last_fields_are_left_out_of_too_many() -> None:
    names = [f"{number:04}{'x' * 1000}" for number in range(200)]
    data = encode_field_statistics(map(field, [*names, "small"]))
    assert len(data) <= FIELD_STATISTICS_BYTES_MAX
    kept = [each.path for each in decode_field_statistics(data)]
    assert kept == [*names[: len(kept) - 1], "small"]
    assert len(kept) > 60


@given(known=FIELDS, others=FIELDS, number=st.integers(1, 4), is_whole=st.booleans())
def test_of_each_field_the_newest_stays(
    known: tuple[FieldStatistics, ...], others: tuple[FieldStatistics, ...], number: int, is_whole: bool
) -> None:
    fresh = tuple(field(each.path, number, each.rows) for each in others)
    found = {each.path: each for each in merged(known, fresh, is_whole=is_whole)}
    old, new = {each.path: each for each in known}, {each.path: each for each in fresh}
    for path in "abcdef":
        was, now = old.get(path), new.get(path)
        if was is not None and (now is None or was.number > number):
            expected = was if was.number > number or not (is_whole and fresh) else None
        else:
            expected = now
        if fresh:
            assert found.get(path) == expected
    numbers = [each.number for each in merged(known, fresh, is_whole=is_whole)]
    assert numbers == sorted(numbers, reverse=True)
    again = merged(tuple(found.values()), fresh, is_whole=is_whole)
    assert {each.path: each for each in again} == found
