"""The contract's own functions: keys, prefixes, joined ranges."""

from __future__ import annotations

import itertools
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.storage.store import ByteRange, check_key, check_prefix, coalesce

SEGMENTS = st.one_of(
    st.sampled_from(
        ["", ".", "..", "...", ".a", "a.", "-", "_", "a" * 240, "a" * 241, "a" * 202, "é" * 120, "é" * 121]
    ),
    st.text(alphabet=st.sampled_from("ab.-_/\\\x00\x1f\x7f é\ud800"), max_size=6),
    st.text(max_size=4),
)
KEYS = st.lists(SEGMENTS, max_size=7).map("/".join)


def is_legal(key: str) -> bool:
    """The rule in other words than the code's."""
    if any(unicodedata.category(char) == "Cs" or ord(char) < 32 or char in "\\\x7f" for char in key):
        return False
    if not 1 <= len(key.encode()) <= 1024:
        return False
    return all(segment not in ("", ".", "..") and len(segment.encode()) <= 240 for segment in key.split("/"))


@given(KEYS)
def test_a_key_is_legal_or_refused(key: str) -> None:
    if is_legal(key):
        assert check_key(key) == key
    else:
        with pytest.raises(InvalidRequestError):
            check_key(key)


def test_too_long_is_told_apart() -> None:
    for key in ("s" * 241, "/".join(["abc"] * 300)):
        with pytest.raises(LimitExceededError):
            check_key(key)


@given(KEYS)
def test_a_prefix_is_empty_or_a_folder(prefix: str) -> None:
    if not prefix or (prefix.endswith("/") and is_legal(prefix[:-1])):
        assert check_prefix(prefix) == prefix
    else:
        with pytest.raises(InvalidRequestError):
            check_prefix(prefix)


@given(
    st.lists(st.builds(ByteRange, st.integers(0, 300), st.integers(0, 60)), max_size=8),
    st.integers(0, 40),
)
def test_joined_ranges_cover_what_was_asked_and_little_more(spans: list[ByteRange], gap: int) -> None:
    joined = coalesce(spans, gap)
    wanted = {position for span in spans for position in range(span.start, span.stop)}
    read = {position for span in joined for position in range(span.start, span.stop)}
    assert wanted <= read
    assert all(later.start - earlier.stop > gap for earlier, later in itertools.pairwise(joined))
    run = 0
    for position in range(max(read, default=0) + 1):
        run = 0 if position in wanted or position not in read else run + 1
        assert run <= gap
    assert all(span.start in wanted and span.stop - 1 in wanted for span in joined)
