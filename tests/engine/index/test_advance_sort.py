"""Changes of an index, sorted in memory or by a file."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wormdb.engine.index.advance import ChangeSorter

CHANGES = st.dictionaries(st.binary(min_size=1, max_size=2), st.none() | st.binary(max_size=2))


@given(st.lists(CHANGES, max_size=5), st.integers(1, 7), st.integers(1, 4))
def test_all_changes_come_in_order_and_of_one_key_the_last(
    chunks: list[dict[bytes, bytes | None]], size: int, part: int
) -> None:
    expected: dict[bytes, bytes | None] = {}
    with ChangeSorter(part=part) as sorter:
        for chunk in chunks:
            sorter.add(sorted(chunk.items()))
            expected |= chunk
        found = list(sorter.chunks(size))
    assert [change for some in found for change in some] == sorted(expected.items())
    assert len(chunks) < 2 or all(0 < len(some) <= size for some in found)
