"""Lists that are made again in pieces are those of the documents, whatever the cut and whoever writes meanwhile."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.engine.lists.rig import shown_lists
from tests.engine.sweeps.projections import small_spans, tiny_lists
from tests.jobs.rig import SendingRunner, empty_place
from tests.jobs.test_rebuild import Disturbed
from wormdb.engine.lists.read import read_lists
from wormdb.engine.lists.span import ALL_LISTS, ListSpan, cut_lists
from wormdb.errors import UnavailableError
from wormdb.format.list_part import Directory
from wormdb.format.list_run import ListPart
from wormdb.jobs import place
from wormdb.jobs.pipeline import Pipeline
from wormdb.jobs.place import Where
from wormdb.jobs.rebuild import RebuildOptions
from wormdb.testing.fault_store import SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb import Database
    from wormdb.format.list_run import ListHead
    from wormdb.jobs.work import Item, ProgressListener, Work

WORDS = ("red", "blue", "running", "shoes", "leather", "light")


@contextmanager
def cut_small(size: int) -> Iterator[None]:
    """A few documents are in many lists, whose runs are joined in pieces of so few bytes."""
    with small_spans(size), tiny_lists():
        yield


def opened(url: str) -> Database:
    chosen = wormdb.Settings(forward="manual", block_bytes=600, stage_bytes=1_500, forward_interval_ms=0)
    return wormdb.connect(url, settings=chosen)


def make_indexes(db: Database) -> None:
    things = db["things"]
    things.create_vector_index("v", dimensions=3, distance="euclidean")
    things.create_vector_index("deep.v", dimensions=2, distance="cosine", name="deep")
    things.create_text_index(["title^2", "body"])
    things.create_index("n", name="byN")


def thing(number: int, value: int) -> dict[str, Any]:
    words = " ".join(WORDS[(number * step + value) % len(WORDS)] for step in range(1, 4))
    made: dict[str, Any] = {"id": f"c{number:02}", "n": value, "title": WORDS[value], "body": words}
    if number % 4:
        made["v"] = [number % 5, value, 1.5]
    if number % 3:
        made["deep"] = {"v": [1 + value, -number]}
    return made


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["save", "save", "delete", "load", "forward"]),
        st.lists(st.integers(0, 19), min_size=1, max_size=9, unique=True),
        st.integers(0, 5),
    ),
    max_size=4,
)


def act(db: Database, done: tuple[str, list[int], int]) -> None:
    verb, ids, value = done
    things = db["things"]
    if verb == "forward":
        things.forward()
        return
    with things.batch() as batch:
        for each in ids:
            if verb == "delete":
                batch.delete(f"c{each:02}")
            else:
                batch.save({**thing(each, value), "pad": "x" * (500 if verb == "load" else 1)})


def heads_of(db: Database) -> dict[str, ListHead]:
    root = db._site("things/").register.read().root
    assert root is not None
    return {one.name: one.lists for one in root.indexes if one.lists is not None}


def lists_of(db: Database) -> dict[str, Any]:
    """Of each index its lists with what they say of documents, and its statistics."""
    ledger = db["things"]._ledger
    view = ledger.view()
    readers = {index.name: read_lists(view, index, ledger.trees.lists) for index in view.definition.indexes.lists}
    return {name: (shown_lists(found), found.tally()) for name, found in readers.items() if found is not None}


def rebuild(url: str, runner: SendingRunner | None = None) -> Any:
    return Pipeline(Where.named(url, collection="things"), runner or SendingRunner(1)).rebuild(
        RebuildOptions(block_bytes=600)
    )


def check(before: list[Any], between: list[list[Any]], size: int) -> None:
    with cut_small(size), opened(empty_place()) as rebuilt, opened(empty_place()) as forwarded:
        waiting = iter(between)

        def do(acts: list[Any]) -> None:
            for done in acts:
                act(rebuilt, done)
                act(forwarded, done)

        make_indexes(rebuilt)
        make_indexes(forwarded)
        do([*before, ("save", list(range(12)), 1), ("forward", [1], 1)])
        try:
            rebuild(rebuilt.url, Disturbed(lambda: do(next(waiting, []))))
        except UnavailableError:  # others wrote its blocks again all the time
            rebuild(rebuilt.url)
        for acts in waiting:
            do(acts)
        found, expected = lists_of(rebuilt), lists_of(forwarded)
        assert found.keys() == expected.keys() == {"v", "deep", "text"}
        assert found["text"] == expected["text"]
        for name in ("v", "deep"):  # in other lists: they were learned of other documents
            assert found[name][1] == expected[name][1]
            assert {key for own in found[name][0].values() for key in own} == {
                key for own in expected[name][0].values() for key in own
            }
        rebuilt["things"].forward()
        assert rebuilt.verify(["things"])[0].findings == ()


@pytest.fixture(autouse=True, scope="module")
def _hurried() -> Iterator[None]:
    """Nobody waits a second between two roots."""
    chosen = replace(place.WORKER_SETTINGS, forward_interval_ms=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, "WORKER_SETTINGS", chosen)
        yield


@pytest.mark.long
@given(ACTS, st.lists(ACTS, max_size=6), st.sampled_from([1, 100, 400, 3_000, 100_000]))
@settings(max_examples=25)
def test_lists_that_are_made_again_are_those_of_the_documents_in_many_cases(
    before: list[Any], between: list[list[Any]], size: int
) -> None:
    check(before, between, size)


@given(ACTS, st.lists(ACTS, max_size=5), st.sampled_from([1, 300, 100_000]))
@settings(max_examples=4)
def test_lists_that_are_made_again_are_those_of_the_documents(
    before: list[Any], between: list[list[Any]], size: int
) -> None:
    check(before, between, size)


def filled(url: str) -> Database:
    db = opened(url)
    make_indexes(db)
    db["things"].insert_many([thing(number, number % 6) for number in range(60)])
    db["things"].forward()
    for number in range(0, 60, 11):
        db["things"].delete(f"c{number:02}")
    return db


class Counting(SendingRunner):
    """Notes how many pieces each step has."""

    def __init__(self) -> None:
        super().__init__(2)
        self.steps: dict[str, list[str]] = {}

    def run(self, job: str, work: Work, items: Sequence[Item], told: ProgressListener | None = None) -> list[bytes]:
        self.steps[job] = [item.name for item in items]
        return super().run(job, work, items, told)


def test_the_cut_changes_the_objects_and_no_list() -> None:
    made: dict[int, Any] = {}
    joins: dict[int, int] = {}
    for size in (1, 500, 1_000_000):
        with cut_small(size), filled(empty_place()) as db:
            counted = Counting()
            rebuild(db.url, counted)
            joins[size] = len(counted.steps["join indexes"])
            heads = heads_of(db)
            assert all(len(head.runs) == 1 for head in heads.values())
            assert heads["v"].calibration is not None
            made[size] = lists_of(db), {name: head.entries for name, head in heads.items()}
            assert db.verify(["things"], unreferenced=True)[0].findings == ()
            if size == 1_000_000:
                assert joins[size] == 4, "one piece of work for a small index"
                assert [len(head.runs[0].parts) for head in heads.values()] == [1, 1, 1]
            else:
                assert len(heads["v"].runs[0].parts) > 3
    assert made[1] == made[500] == made[1_000_000]
    assert joins[1] > joins[500] > joins[1_000_000]


def test_partial_runs_are_no_part_of_the_result_and_are_retired() -> None:
    with cut_small(300), filled(empty_place()) as db:
        rebuild(db.url)
        root = db._site("things/").register.read().root
        assert root is not None
        named = {name for one in root.indexes for name in one.list_names}
        stored = {info.key for page in db.store.list("things/.worm.db/indexes/") for info in page.objects}
        lists = {key for key in stored if key.rpartition(".")[2] in ("run", "trained")}
        assert {key.rpartition("/")[2] for key in lists} > named
        assert db.verify(["things"], unreferenced=True)[0].findings == ()


class CrashingRunner(SendingRunner):
    """Dies before a piece of work, or after it; nothing comes after that."""

    def __init__(self, at: int) -> None:
        super().__init__(1)
        self.left = at

    def run(self, job: str, work: Work, items: Sequence[Item], told: ProgressListener | None = None) -> list[bytes]:
        self.left -= 1
        if self.left < 0:
            raise SimulatedCrash(job)
        return super().run(job, work, items, told)


@pytest.mark.parametrize("at", range(4))
def test_a_job_that_dies_between_two_steps_leaves_what_was_and_is_run_again(at: int) -> None:
    with cut_small(300), filled(empty_place()) as db:
        before = heads_of(db)
        expected = lists_of(db)
        with pytest.raises(SimulatedCrash):
            rebuild(db.url, CrashingRunner(at))
        db["things"]._ledger.forget()
        after = heads_of(db)
        assert {name: head.trained for name, head in after.items()} == {
            name: head.trained for name, head in before.items()
        }
        assert lists_of(db)["text"] == expected["text"]
        rebuild(db.url)
        assert lists_of(db)["text"] == expected["text"]
        assert {name: head.trained for name, head in heads_of(db).items() if head.trained} != {
            name: head.trained for name, head in before.items() if head.trained
        }
        assert db.verify(["things"])[0].findings == ()


# --- spans ---


@st.composite
def directories(draw: st.DrawFn) -> Directory:
    firsts = tuple(sorted(draw(st.sets(st.binary(max_size=2), min_size=1, max_size=8))))
    lengths = draw(st.lists(st.integers(1, 50), min_size=len(firsts), max_size=len(firsts)))
    return Directory("d", firsts, (0, *accumulate(lengths)), (0,) * len(firsts), b"", "lists", None)


@given(st.lists(directories(), max_size=5), st.integers(1, 200))
@settings(max_examples=100)
def test_every_list_is_in_one_span_and_spans_are_about_as_large_as_asked_for(found: list[Directory], size: int) -> None:
    spans = cut_lists(found, size)
    assert cut_lists(found[::-1], size) == spans
    assert (spans[0].low, spans[-1].high) == (b"", None)
    assert [one.high for one in spans[:-1]] == [one.low for one in spans[1:]]
    pages = [
        (first, end - start)
        for one in found
        for first, (start, end) in zip(one.firsts, pairwise(one.starts), strict=True)
    ]
    whole = sum(length for _, length in pages)
    assert whole > size or spans == [ALL_LISTS]
    for span in spans:
        own = [(first, length) for first, length in pages if span.has(first)]
        assert own or not pages
        # Pages that begin with the same list stay together.
        last = max(own, default=(b"", 0))[0]
        together = sum(length for first, length in own if first == last)
        assert sum(length for _, length in own) - together <= size
    for first, _ in pages:
        assert sum(span.has(first) for span in spans) == 1


@given(st.sets(st.binary(max_size=2), min_size=1, max_size=6), st.binary(max_size=2), st.binary(max_size=2))
@settings(max_examples=100)
def test_a_span_leaves_out_no_object_that_may_have_one_of_its_lists(
    firsts: set[bytes], low: bytes, high: bytes
) -> None:
    ordered = sorted(firsts)
    parts = [ListPart(name=f"{n}", sha256=b"0" * 32, length=1, directory=0, first=one) for n, one in enumerate(ordered)]
    span = ListSpan(min(low, high), max(low, high))
    chosen = span.parts_of(parts)
    for part, begin, end in zip(parts, ordered, [*ordered[1:], None], strict=True):
        may_have = begin < span.high and (end is None or end > span.low) if span.high is not None else True
        assert part in chosen or not may_have
