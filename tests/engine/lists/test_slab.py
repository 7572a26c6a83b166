"""Lists of vectors that a process keeps: whatever was read, packed, dropped or taken over, they are what runs say."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wormdb.engine.lists import slab as slabs
from wormdb.engine.lists.read import RunList
from wormdb.engine.lists.slab import ONLY_RANGE, PickedPiece, VectorPiece, VectorSlab
from wormdb.engine.lists.vector_kind import ONLY_LIST, list_key
from wormdb.engine.state.view import id_key
from wormdb.format import json
from wormdb.format.list_part import StoredList, decode_list, encode_list
from wormdb.format.list_run import ListHead, ListPart, ListRun

if TYPE_CHECKING:
    from collections.abc import Sequence

np = pytest.importorskip("numpy")

LISTS = 10
SEGMENT = 4
WIDTHS = (3, 4)
NO_LIMIT = 1 << 30
Lists = dict[bytes, tuple[dict[bytes, bytes], set[bytes]]]
Change = tuple[int, int, int]
"""A document, the list that it is in from now on, and its code; a list of -1 deletes it."""


@dataclass
class Runs:
    """The runs of an index as dicts: what a reader must show is worked out from these alone."""

    runs: list[tuple[str, Lists]]
    """Newest first: a name, and by list the payloads by id and the ids that are gone from older runs."""
    reads: int = 0

    @property
    def head(self) -> ListHead:
        parts = [ListPart(name=name, sha256=b"", length=0, directory=0) for name, _ in self.runs]
        return ListHead(runs=tuple(ListRun(number=0, parts=(part,)) for part in parts))

    def counting(self, key: bytes) -> list[dict[bytes, bytes]]:
        """For each run the entries of a list that count."""
        gone: set[bytes] = set()
        found = []
        for _, lists in self.runs:
            entries, taken = lists.get(key, ({}, set()))
            found.append({one: payload for one, payload in entries.items() if one not in gone})
            gone |= taken
        return found

    def read(self, keys: Any, held: dict[tuple[str, bytes], StoredList | None]) -> dict[bytes, list[RunList]]:
        """As `ListReader.read`: what is held is not read again."""
        shown: dict[bytes, list[RunList]] = {}
        for key in keys:
            for number, ((name, lists), counting) in enumerate(zip(self.runs, self.counting(key), strict=True)):
                if (name, key) not in held:
                    self.reads += 1
                    held[name, key] = stored(*lists[key]) if key in lists else None
                one = held[name, key]
                if one is not None:
                    hidden = frozenset(place for place, text in enumerate(one.ids) if text not in counting)
                    shown.setdefault(key, []).append(RunList(key, number, one, hidden))
        return shown


def stored(entries: dict[bytes, bytes], gone: set[bytes]) -> StoredList:
    order = sorted(entries, key=id_key)
    body = encode_list(order, [entries[one] for one in order], sorted(gone, key=id_key), WIDTHS, is_shared=False)
    return decode_list(memoryview(body), WIDTHS, is_shared=False, name="a list")


def run_of(changes: list[Change], where: dict[int, bytes]) -> Lists:
    """What a run says of some changes; `where` has the list of each document, and follows."""
    lists: Lists = {}
    for document, number, code in {change[0]: change for change in changes}.values():
        name = json.encode(f"d{document}")
        if document in where:
            lists.setdefault(where.pop(document), ({}, set()))[1].add(name)
        if number >= 0:
            where[document] = list_key(number)
            payload = bytes((code, document, number)) + np.float32(code + 1).tobytes()
            lists.setdefault(list_key(number), ({}, set()))[0][name] = payload
    return lists


def told(pieces: Sequence[VectorPiece | PickedPiece]) -> list[tuple[bytes, bytes, float]]:
    """The entries of pieces that count: key, code and factor."""
    found = []
    for piece in pieces:
        codes, factors = piece.rows_of()
        for row, code in enumerate(codes):
            factor = float(factors[0, row])
            assert piece.has_hidden or not isnan(factor)
            if not isnan(factor):
                found.append((piece.key(row), code.tobytes(), factor))
    return sorted(found)


def read(slab: VectorSlab, runs: Any, ranges: list[tuple[int, int]]) -> list[VectorPiece]:
    return slab.read(runs, ranges)


def expected(runs: Runs, keys: list[bytes]) -> list[tuple[bytes, bytes, float]]:
    return sorted(
        (id_key(one), payload[:3], float(np.frombuffer(payload[3:], "<f4")[0]))
        for key in keys
        for entries in runs.counting(key)
        for one, payload in entries.items()
    )


some_ranges = st.lists(st.integers(0, LISTS - 1), min_size=1, max_size=6, unique=True).map(
    lambda ends: (
        [(min(pair), max(pair)) for pair in zip(sorted(ends)[::2], sorted(ends)[1::2], strict=False)]
        or [(ends[0], ends[0])]
    )
)
changes = st.lists(st.tuples(st.integers(0, 30), st.integers(-1, LISTS - 1), st.integers(0, 100)), max_size=25)
steps = st.one_of(
    st.tuples(st.just("read"), some_ranges),
    st.tuples(st.just("run"), changes),
    st.tuples(st.just("merge"), st.integers(0, 3)),
    st.tuples(st.just("join"), st.none()),
    st.tuples(st.just("back"), st.integers(0, 3)),
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of few lists that are packed soon."""
    monkeypatch.setattr(slabs, "SEGMENT_LISTS", SEGMENT)
    monkeypatch.setattr(slabs, "PACK_AFTER", 3)
    monkeypatch.setattr(slabs, "_TABLE_AFTER", 2)


@pytest.mark.usefixtures("small")
@settings(max_examples=150, suppress_health_check=["function_scoped_fixture"])  # type: ignore[list-item] # the constants are always the same
@given(first=changes, script=st.lists(steps, max_size=20), limit=st.sampled_from([NO_LIMIT, NO_LIMIT, 20_000, 0]))
def test_a_slab_shows_what_the_runs_say(first: list[Change], script: list[Any], limit: int) -> None:
    where: dict[int, bytes] = {}
    runs = Runs([("run0", run_of(first, where))])
    slab, heads = VectorSlab(runs.head, limit), [runs]
    for number, (what, option) in enumerate(script):
        if what == "run":
            runs = Runs([(f"run{number + 1}", run_of(option, where)), *runs.runs])
            heads.append(runs)
            slab = slab.follow(runs.head)
        elif what == "merge":
            runs = merged(runs, option, f"merged{number}")
            heads.append(runs)
            slab = slab.follow(runs.head)
        elif what == "join":
            runs = joined(runs, f"joined{number}")
            heads.append(runs)
            slab = slab.follow(runs.head)
        elif what == "back":  # a reader of an older state comes, and goes
            older = heads[-1 - option % len(heads)]
            slab = slab.follow(older.head)
            assert told(read(slab, older, [(0, LISTS - 1)])) == expected(older, [*map(list_key, range(LISTS))])
            slab = slab.follow(runs.head)
        else:
            keys = [list_key(each) for low, high in option for each in range(low, high + 1)]
            for _ in range(4):  # at last they are packed
                pieces = read(slab, runs, option)
                assert told(pieces) == expected(runs, keys)
                some = {id_key(json.encode(f"d{each}")) for each in (3, 7, 11, number)}
                picked = [piece.pick(np.array([*map(hash, some)])) for piece in pieces]
                told_of = told([piece for piece in picked if piece is not None])
                assert [row for row in told_of if row[0] in some] == [row for row in told(pieces) if row[0] in some]
        assert slab.size == sum(segment.size for segment in slab._segments.values())
        assert slab.size <= max(limit, 0)


def merged(runs: Runs, keep: int, name: str) -> Runs:
    """All runs but the newest few as one, which takes nothing back."""
    old = Runs(runs.runs[keep:])
    if not old.runs:
        return runs
    keys = {key for _, lists in old.runs for key in lists}
    lists: Lists = {
        key: ({one: payload for some in old.counting(key) for one, payload in some.items()}, set()) for key in keys
    }
    return Runs([*runs.runs[:keep], (name, lists)])


def joined(runs: Runs, name: str) -> Runs:
    """The newest two runs as one; the older ones stay as they are."""
    if len(runs.runs) < 3:
        return runs
    (_, newest), (_, next_one), *others = runs.runs
    lists: Lists = {}
    for key in newest.keys() | next_one.keys():
        (entries, gone), (older, older_gone) = (each.get(key, ({}, set())) for each in (newest, next_one))
        kept = {one: payload for one, payload in older.items() if one not in gone}
        lists[key] = {**kept, **entries}, gone | older_gone
    return Runs([(name, lists), *others])


@pytest.mark.usefixtures("small")
def test_what_is_kept_is_not_read_again_and_is_packed() -> None:
    where: dict[int, bytes] = {}
    runs = Runs([("base", run_of([(each, each % LISTS, each) for each in range(40)], where))])
    slab = VectorSlab(runs.head, NO_LIMIT)
    for _ in range(5):
        assert len(told(read(slab, runs, [(0, LISTS - 1)]))) == 40
    assert runs.reads == LISTS
    assert len(read(slab, runs, [(0, LISTS - 1)])) == 3, "one slice for each segment"
    newer = Runs([("newer", run_of([(3, 3, 99)], where)), *runs.runs])
    slab = slab.follow(newer.head)
    assert told(read(slab, newer, [(0, LISTS - 1)])) == expected(newer, [*map(list_key, range(LISTS))])
    assert newer.reads == LISTS, "of the new run only"
    assert len(read(slab, newer, [(0, 1)])) == 1, "what was packed is still so"
    for _ in range(5):
        read(slab, newer, [(0, LISTS - 1)])
    again = Runs([("again", newer.runs[0][1]), *runs.runs])
    slab = slab.follow(again.head)
    assert told(read(slab, again, [(0, LISTS - 1)])) == expected(again, [*map(list_key, range(LISTS))])
    assert again.reads == LISTS, "what the other run had is packed beside, and does not count"


@pytest.mark.usefixtures("small")
def test_few_ids_are_looked_up_in_what_is_packed() -> None:
    runs = Runs([("base", run_of([(each, each % LISTS, each) for each in range(100)], {}))])
    slab = VectorSlab(runs.head, NO_LIMIT)
    for _ in range(5):
        read(slab, runs, [(0, LISTS - 1)])
    pieces = read(slab, runs, [(0, LISTS - 1)])
    wanted = {id_key(json.encode(f"d{each}")) for each in (5, 17, 400)}
    hashes = np.array([*map(hash, wanted)])
    assert [piece.pick(hashes) for piece in pieces] == pieces, "once is not worth a table"
    picked = [piece.pick(hashes) for piece in pieces]
    assert {key for key, _, _ in told([each for each in picked if each is not None])} == wanted - {id_key(b'"d400"')}


@pytest.mark.usefixtures("small")
def test_the_only_list_is_kept_too() -> None:
    runs = Runs([("base", {ONLY_LIST: ({b'"a"': b"abc" + np.float32(1).tobytes()}, set())})])
    slab = VectorSlab(runs.head, NO_LIMIT)
    for _ in range(5):
        assert [key for key, _, _ in told(read(slab, runs, [ONLY_RANGE]))] == [id_key(b'"a"')]
    assert runs.reads == 1


@pytest.mark.usefixtures("small")
def test_threads_see_the_same_while_lists_are_packed_and_dropped() -> None:
    runs = Runs([("base", run_of([(each, each % LISTS, each % 100) for each in range(200)], {}))])
    # Room for about two of three segments: one is dropped again and again.
    whole = VectorSlab(runs.head, NO_LIMIT)
    read(whole, runs, [(0, LISTS - 1)])
    slab = VectorSlab(runs.head, whole.size * 2 // 3)
    faults: list[object] = []

    def ask(seed: int) -> None:
        chance = np.random.default_rng(seed)
        for _ in range(150):
            low, high = sorted(chance.integers(0, LISTS, 2).tolist())
            keys = [list_key(each) for each in range(low, high + 1)]
            if told(read(slab, runs, [(low, high)])) != expected(runs, keys):
                faults.append((low, high))

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
