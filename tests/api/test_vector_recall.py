"""How much of the true answer an index of vectors finds, on real embeddings: of glosses of WordNet."""

from __future__ import annotations

from array import array
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wormdb
from examples.glosses import DIMENSIONS, read_synsets, read_vectors
from wormdb.engine.lists.calibrate import LIKES
from wormdb.format.vector import pack_vector
from wormdb.storage.memory import MemoryStore
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.bql.nearest import Distance

QUERIES = 40
"""Held out: no document has their vectors."""
LEAST = 0.95
MANUAL = wormdb.Settings(forward="manual")
Row = dict[str, Any]


VECTORS = read_vectors()
SYNSETS = read_synsets()
ASKED, STORED = VECTORS[:QUERIES], range(QUERIES, len(VECTORS))


def document(number: int, vector: int | None = None) -> Row:
    """A synset, with the vector of its gloss or of another one."""
    name, file, *_ = SYNSETS[number]
    row = number if vector is None else vector
    packed = pack_vector(array("f", VECTORS[row].tolist()))
    return {"id": name, "pos": name[-1], "file": file, "chance": sha256(name.encode()).digest()[0], "embedding": packed}


class Glosses:
    """A collection, and what is in it."""

    def __init__(self, made: Collection[Document]) -> None:
        self.made = made
        self.state: dict[str, tuple[Row, int]] = {}

    def write(self, numbers: list[tuple[int, int]]) -> None:
        """Save synsets with the vectors of some glosses, as one batch."""
        with self.made.batch() as batch:
            for number, vector in numbers:
                row = document(number, vector)
                self.state[row["id"]] = row, vector
                batch.save(row)

    def remove(self, numbers: list[int]) -> None:
        names = [SYNSETS[number][0] for number in numbers]
        self.made.delete_many({"_id": {"$in": names}})
        for name in names:
            del self.state[name]

    def recall(self, matches: Callable[[Row], bool] = lambda _: True, written: Any = None, **options: Any) -> float:
        """The share of the true ten nearest of those that match that is found."""
        names = [name for name, (row, _) in self.state.items() if matches(row)]
        scores = ASKED @ VECTORS[[self.state[name][1] for name in names]].T
        found = wanted = 0
        for own, row in zip(ASKED, scores, strict=True):
            best = {names[place] for place in np.argsort(-row, kind="stable")[:10]}
            near = {"embedding": {"vector": own, **options}}
            rows = [each["id"] for each in self.made.find(written, near=near, select=["file"])]
            assert len(set(rows)) == len(rows) == len(best)
            assert set(rows) <= set(names)
            found, wanted = found + len(best & set(rows)), wanted + len(best)
        return found / wanted


@pytest.fixture(scope="module")
def glosses() -> Iterator[Glosses]:
    with wormdb.connect(MemoryStore(), settings=MANUAL, clock=ManualClock()) as database:
        made = Glosses(database["glosses"])
        made.write([(number, number) for number in STORED])
        made.made.forward()
        made.made.create_vector_index("embedding", dimensions=DIMENSIONS)
        yield made


def test_the_default_finds_nearly_all_and_reads_a_part_of_the_lists(glosses: Glosses) -> None:
    explained = glosses.made.explain(near={"embedding": {"vector": ASKED[0]}})
    assert explained.reason == "index embedding, about 18 of 39 lists, recall about 0.95"
    assert glosses.recall() >= LEAST


def test_more_recall_is_found_where_it_is_asked_for(glosses: Glosses) -> None:
    assert glosses.recall(recall=0.99) >= 0.99


@pytest.mark.parametrize("copies", [1, 20, 100])
def test_vectors_that_are_stored_many_times_leave_the_recall_of_those_that_are_not(copies: int) -> None:
    """Nearly equal ones find each other in one list; what is asked for has no likes among them."""
    chance, count, dimensions = np.random.default_rng(3), 3_000 // copies * copies, 24
    middles = chance.normal(size=(10, dimensions))

    def draw(rows: int) -> Any:
        return middles[chance.integers(0, 10, rows)] + chance.normal(size=(rows, dimensions))

    asked, noise = draw(QUERIES).astype(np.float32), chance.normal(size=(count, dimensions))
    vectors = (np.repeat(draw(count // copies), copies, axis=0) + 0.2 * noise).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with wormdb.connect(MemoryStore(), settings=MANUAL, clock=ManualClock()) as database:
        made = database["things"]
        made.insert_many([{"id": row, "v": pack_vector(array("f", own.tolist()))} for row, own in enumerate(vectors)])
        made.create_vector_index("v", dimensions=dimensions)
        for wanted, least in ((None, LEAST), (0.5, 0.5)):
            found = 0
            for own in asked:
                best = set(np.argsort(-(vectors @ own), kind="stable")[:10].tolist())
                near = {"v": {"vector": own, "recall": wanted}}
                found += len(best & {row["id"] for row in made.find(near=near, select=["_id"])})
            recall = found / (10 * QUERIES)
            told = made.explain(near={"v": {"vector": asked[0], "recall": wanted}}).reason
            assert recall >= least
            # Of more likes than are left out nothing better is known than what is stored.
            assert float(told.rpartition(" ")[2]) <= recall + 0.02 or copies > LIKES


FILTERS: dict[str, tuple[Row, Callable[[Row], bool]]] = {
    "random 50 %": ({"chance": {"$lt": 128}}, lambda row: row["chance"] < 128),
    "random 10 %": ({"chance": {"$lt": 26}}, lambda row: row["chance"] < 26),
    "random 1 %": ({"chance": {"$lt": 3}}, lambda row: row["chance"] < 3),
    "verbs": ({"pos": "v"}, lambda row: row["pos"] == "v"),
    "adjectives": ({"pos": {"$in": ["a", "s"]}}, lambda row: row["pos"] in "as"),
    "verbs and adverbs": ({"pos": {"$in": ["v", "r"]}}, lambda row: row["pos"] in "vr"),
    "noun.artifact": ({"file": 6}, lambda row: row["file"] == 6),
    "noun.person or .animal": ({"file": {"$in": [5, 18]}}, lambda row: row["file"] in {5, 18}),
    "noun.food": ({"file": 13}, lambda row: row["file"] == 13),
    "verb.weather": ({"file": 43}, lambda row: row["file"] == 43),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_leave_the_recall(glosses: Glosses, name: str) -> None:
    written, matches = FILTERS[name]
    assert glosses.recall(matches, written) >= LEAST


@pytest.mark.parametrize("name", FILTERS)
def test_lists_alone_leave_the_recall_of_filters(glosses: Glosses, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where documents are too many to be scored all, as they are in a larger collection."""
    from wormdb.query.planner import cost

    monkeypatch.setattr(cost, "VECTOR", 1e9)
    written, matches = FILTERS[name]
    explained = glosses.made.explain(written, near={"embedding": {"vector": ASKED[0]}})
    assert explained.strategy == "nearest"
    assert glosses.recall(matches, written) >= LEAST


def test_filters_that_have_to_do_with_the_question_leave_the_recall_of_many_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lists are short here, so that a part of them is read as it is in a large collection."""
    monkeypatch.setattr("wormdb.engine.lists.centroids.LIST_ROWS", 6)
    with wormdb.connect(MemoryStore(), settings=MANUAL, clock=ManualClock()) as database:
        glosses = Glosses(database["glosses"])
        glosses.write([(number, number) for number in STORED[:2_600]])
        glosses.made.forward()
        glosses.made.create_vector_index("embedding", dimensions=DIMENSIONS)
        monkeypatch.setattr("wormdb.query.planner.cost.VECTOR", 1e9)
        monkeypatch.setattr("wormdb.query.physical.nearest.FEW_SHARE", 0)
        for written, matches in (
            ({"pos": {"$ne": "n"}}, lambda row: row["pos"] != "n"),
            ({"file": {"$in": [5, 6, 18]}}, lambda row: row["file"] in {5, 6, 18}),
            ({"pos": "n"}, lambda row: row["pos"] == "n"),
        ):
            explained = glosses.made.explain(written, near={"embedding": {"vector": ASKED[0]}})
            assert explained.reason.startswith("index embedding, about ")
            assert glosses.recall(matches, written) >= LEAST


@pytest.mark.parametrize("distance", ["euclidean", "dot_product"])
def test_other_distances_find_as_much(distance: Distance) -> None:
    """Also where vectors have different lengths, which these distances see."""
    count = 1_500
    lengths = np.array([0.5 + sha256(name.encode()).digest()[1] / 256 for name, *_ in SYNSETS], np.float32)
    vectors = (VECTORS * lengths[:, None])[QUERIES : QUERIES + count]
    with wormdb.connect(MemoryStore(), settings=MANUAL, clock=ManualClock()) as database:
        made = database["glosses"]
        rows = [
            {"id": row, "v": pack_vector(array("f", own.tolist())), "m": row % 10} for row, own in enumerate(vectors)
        ]
        made.insert_many(rows)
        made.create_vector_index("v", dimensions=DIMENSIONS, distance=distance)
        scores = ASKED @ vectors.T
        if distance == "euclidean":
            scores = 2 * scores - (vectors * vectors).sum(axis=1)
        for wanted, written in ((0.95, None), (0.99, None), (0.95, {"m": 3})):
            masked = scores.copy()
            if written is not None:
                masked[:, [row["m"] != 3 for row in rows]] = -np.inf
            found = 0
            for own, row in zip(ASKED, masked, strict=True):
                near = {"v": {"vector": own, "recall": wanted}}
                best = set(np.argsort(-row, kind="stable")[:10].tolist())
                found += len(best & {each["id"] for each in made.find(written, near=near, select=["m"])})
            assert found / (10 * len(ASKED)) >= wanted - 0.005
        assert made.explain(near={"v": {"vector": ASKED[0]}}).strategy == "nearest"


def test_fifty_steps_of_changes_leave_the_recall() -> None:
    with wormdb.connect(MemoryStore(), settings=MANUAL, clock=ManualClock()) as database:
        glosses = Glosses(database["glosses"])
        glosses.write([(number, number) for number in STORED[:3_000]])
        glosses.made.create_vector_index("embedding", dimensions=DIMENSIONS)
        new, old = iter(STORED[3_000:]), 0
        for step in range(50):
            inserted = [next(new) for _ in range(20)]
            updated = [STORED[old + place] for place in range(12)]
            glosses.write([(number, number) for number in inserted] + [(number, inserted[0]) for number in updated[:1]])
            glosses.write([(number, STORED[(number * 17) % 4_000]) for number in updated[1:]])
            glosses.remove([STORED[old + place] for place in range(12, 20)])
            old += 20
            if step % 10 != 9:  # the last changes of each ten are in the tail
                glosses.made.forward()
        assert glosses.recall() >= LEAST
        glosses.made.forward()
        assert glosses.recall() >= LEAST
        for written, matches in FILTERS.values():
            assert glosses.recall(matches, written) >= LEAST
        assert glosses.made.describe_index("embedding").entries == len(glosses.state)
