from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.tree.rig import FOLDER, SCOPE, Shelf, build_filter, extend_filter, numbered
from wormdb.engine.tree import membership
from wormdb.engine.tree.membership import (
    FilterChange,
    KeyFilter,
    build_filter_of,
    extend_filter_of,
    load_filter,
)
from wormdb.errors import CorruptionError, SnapshotTooOldError
from wormdb.format.membership import key_hash, key_hashes

ABSENT = [b"absent-%d" % number for number in range(40_000)]


def named(batch: int, count: int) -> list[bytes]:
    return [b"key-%d-%d" % (batch, number) for number in range(count)]


def kept(shelf: Shelf, change: FilterChange) -> KeyFilter:
    """The filter as another process finds it, after what is retired is gone."""
    shelf.write(change.written)
    shelf.remove(change.retired)
    return load_filter(change.filter.ref, shelf.nodes(), scope=SCOPE)


@given(st.lists(st.lists(st.binary(max_size=8), max_size=40), min_size=1, max_size=12))
def test_no_key_is_ever_denied_however_it_came_in(batches: list[list[bytes]]) -> None:
    shelf = Shelf()
    known = kept(shelf, build_filter(batches[0], shelf.maker))
    for batch in batches[1:]:
        known = kept(shelf, extend_filter(known, batch, shelf.maker))
    for key in (key for batch in batches for key in batch):
        assert known.might_contain(key)
    assert len(known) <= len({key for batch in batches for key in batch})
    assert len(shelf.names()) == len(known.runs)


def test_keys_that_are_known_cost_nothing() -> None:
    shelf = Shelf()
    known = build_filter(named(0, 100), shelf.maker).filter
    assert extend_filter(known, named(0, 100), shelf.maker) == FilterChange(known)
    assert extend_filter(known, [], shelf.maker) == FilterChange(known)


def test_absent_keys_are_denied_but_for_one_in_256() -> None:
    shelf = Shelf()
    known = build_filter(named(0, 2000), shelf.maker).filter
    fresh = sum(map(known.might_contain, ABSENT))
    assert fresh <= len(ABSENT) / 1024 * 1.6
    batch = 0
    while not known.is_full:
        batch += 1
        known = extend_filter(known, named(batch, 500), shelf.maker).filter
    assert 4 * 2000 <= len(known) <= 8 * 2000 + 500
    assert len(ABSENT) / 256 * 0.6 <= sum(map(known.might_contain, ABSENT)) <= len(ABSENT) / 256 * 1.4
    again = build_filter([key for number in range(1, batch) for key in named(number, 500)], shelf.maker).filter
    assert not again.is_full


def test_runs_and_bytes_are_bounded() -> None:
    """4,096 keys, then 64 batches of 64: runs and what is written stay within what the module says."""
    shelf = Shelf()
    change = build_filter(named(0, 4096), shelf.maker)
    first = sum(len(new.body) for new in change.written)
    assert 1.2 < first / 4096 < 2
    marks = runs = 0
    for batch in range(1, 65):
        change = extend_filter(change.filter, named(batch, 64), shelf.maker)
        assert len(change.written) == 1
        marks += len(change.filter.runs[-1].marks)
        runs = max(runs, len(change.filter.runs))
    assert runs <= 2 + math.log2(4096 * 2 / 64)
    assert marks <= 64 * 64 * (1 + math.log(4096 * 2 / 64, 1.5))
    sizes = [len(run.marks) for run in change.filter.runs]
    assert all(before >= 2 * after for before, after in pairwise(sizes))


def test_a_filter_without_keys_denies_everything() -> None:
    shelf = Shelf()
    known = kept(shelf, build_filter([], shelf.maker))
    assert not any(map(known.might_contain, ABSENT[:1000]))
    grown = kept(shelf, extend_filter(known, [b"a"], shelf.maker))
    assert grown.might_contain(b"a")
    assert len(shelf.names()) == 1


def test_a_filter_is_loaded_with_one_get_a_run() -> None:
    shelf = Shelf()
    change = build_filter(named(0, 1000), shelf.maker)
    shelf.write(change.written)
    change = extend_filter(change.filter, named(1, 100), shelf.maker)
    shelf.write(change.written)
    before = shelf.gets()
    assert len(load_filter(change.filter.ref, shelf.nodes(), scope=SCOPE).runs) == 2
    assert shelf.gets() - before == 2


def test_large_filters_are_cut_into_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "RUN_MARKS_MAX", 300)
    shelf = Shelf()
    known = kept(shelf, build_filter(named(0, 1000), shelf.maker))
    assert [len(run.marks) for run in known.runs][:3] == [300, 300, 300]
    known = kept(shelf, extend_filter(known, named(1, 280), shelf.maker))
    assert all(map(known.might_contain, named(0, 1000) + named(1, 280)))
    assert max(len(run.marks) for run in known.runs) <= 300


def test_damage_names_the_run() -> None:
    shelf = Shelf()
    change = build_filter(named(0, 1000), shelf.maker)
    shelf.write(change.written)
    older = FOLDER + change.filter.ref.name
    newest = extend_filter(change.filter, named(1, 100), shelf.maker)
    shelf.write(newest.written)
    body = shelf.store.get(older).body
    shelf.store.put(older, body[:-1] + bytes((body[-1] ^ 1,)))
    with pytest.raises(CorruptionError) as caught:
        load_filter(newest.filter.ref, shelf.nodes(), scope=SCOPE)
    assert caught.value.key == older
    shelf.store.delete(older)
    with pytest.raises(SnapshotTooOldError):
        load_filter(newest.filter.ref, shelf.nodes(), scope=SCOPE)


def test_runs_of_different_filters_do_not_mix() -> None:
    shelf = Shelf()
    small, large = (build_filter(named(0, count), shelf.maker) for count in (100, 5000))
    shelf.write([*small.written, *large.written])
    mixed = KeyFilter(small.filter.bits, (*large.filter.runs, *small.filter.runs))
    newest = extend_filter(mixed, [b"new"], shelf.maker)
    shelf.write(newest.written)
    with pytest.raises(CorruptionError, match="bits") as caught:
        load_filter(newest.filter.ref, shelf.nodes(), scope=SCOPE)
    assert caught.value.key == FOLDER + large.filter.ref.name


def test_there_is_room_for_four_times_the_keys() -> None:
    shelf = Shelf()
    made = build_filter((numbered(number) for number in range(2_000)), shelf.maker).filter
    assert made.has_room(5_900)
    assert not made.has_room(100_000)
    assert made.is_full == (not made.has_room(0))


def test_hashes_will_do_instead_of_keys() -> None:
    shelf = Shelf()
    keys = [numbered(number) for number in range(3_000)]
    made = build_filter_of(key_hashes(keys[:2_000]), shelf.maker).filter
    more = extend_filter_of(made, key_hashes(keys[2_000:]), shelf.maker).filter
    assert all(map(more.might_contain, keys))
    assert list(key_hashes(keys)) == [key_hash(key) for key in keys]
    assert more.refs[-1] == more.ref
