"""A large index of vectors: what it finds, and what a cold process reads, by the recall that is asked for.

It is no suite of `make bench`: it has no bars, and takes a quarter of an hour and 6 GB. Run it by

    python -m benchmarks.million [how many vectors] [how many distributions]

Vectors are mixtures of normal distributions, each as wide as their middles lie apart. The fewer there are, the harder
it is: within one of them no vectors belong together.
"""

from __future__ import annotations

import sys
import time
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import wormdb
from benchmarks.measure import take
from benchmarks.rounds import call_cold
from wormdb.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb import Collection, Document

__all__ = ["main"]

COUNT: Final = 1_000_000
DIMENSIONS: Final = 96
MIDDLES: Final = 20
ASKED: Final = 200
COLD: Final = 5
K: Final = 10
BATCH: Final = 20_000
MEGABYTE: Final = 1_000_000
RECALLS: Final = (0.8, 0.9, 0.95, 0.98, 0.99)


def make_mixture(count: int, middles: int, seed: int = 1) -> tuple[Any, Any]:
    """Vectors, and others of the same mixture that are asked for."""
    import numpy as np

    chance = np.random.default_rng(seed)
    where = chance.normal(size=(middles, DIMENSIONS)).astype(np.float32)
    rows = count + ASKED
    made = chance.normal(size=(rows, DIMENSIONS)).astype(np.float32)
    made += where[chance.integers(0, middles, rows)]
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made[:count], made[count:]


def _document(number: int, vector: Any) -> dict[str, Any]:
    from bson.binary import Binary, BinaryVectorDtype

    return {"id": f"{number:07}", "v": Binary.from_vector(vector.tolist(), BinaryVectorDtype.FLOAT32)}


def _ask(vector: Any, recall: float) -> Callable[[Collection[Document]], list[str]]:
    near = {"v": {"vector": vector, "k": K, "recall": recall}}
    return lambda made: [row["id"] for row in made.find(near=near, select=["_id"])]


def _truth(vectors: Any, asked: Any) -> list[set[str]]:
    import numpy as np

    return [{f"{place:07}" for place in np.argpartition(-(vectors @ own), K)[:K]} for own in asked]


def main(count: int, middles: int) -> None:
    """Build the index and print what it finds."""
    vectors, asked = make_mixture(count, middles)
    truth = _truth(vectors, asked)
    store = MemoryStore()
    with wormdb.connect(store, settings=wormdb.Settings(forward="manual")) as database:
        made = database["things"]
        begun = time.perf_counter()
        for start in range(0, count, BATCH):
            made.insert_many([_document(start + row, own) for row, own in enumerate(vectors[start : start + BATCH])])
            made.forward()
        print(f"loaded in {time.perf_counter() - begun:.0f} s", flush=True)
        build = take(lambda: made.create_vector_index("v", dimensions=DIMENSIONS), time.process_time)
        found = made.describe_index("v")
        each = found.size / count
        print(f"{count:,} x {DIMENSIONS}: {found.lists:,} lists, {found.size / MEGABYTE:.0f} MB, {each:.0f} a vector")
        print(f"built in {build:.0f} s of processor time", flush=True)
        print("| recall asked for | lists read | told | found | CPU ms | cold rounds | requests | MB |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for recall in RECALLS:
            print(_row(store, made, asked, truth, recall), flush=True)
        measure = take(lambda: made.analyze_index("v"), time.process_time)
        print(f"measured in {measure:.0f} s of processor time")


def _row(store: MemoryStore, made: Collection[Document], asked: Any, truth: list[set[str]], recall: float) -> str:
    reason = made.explain(near={"v": {"vector": asked[0], "recall": recall}}).reason.split(", ")
    begun = time.process_time()
    answers = [_ask(own, recall)(made) for own in asked]
    spent = (time.process_time() - begun) / len(asked) * 1_000
    share = fmean(len(best & set(found)) / K for best, found in zip(truth, answers, strict=True))

    def cold(vector: Any) -> Callable[[wormdb.Database], object]:
        return lambda database: _ask(vector, recall)(database["things"])

    calls = [call_cold(store, cold(own)) for own in asked[:COLD]]
    rounds, requests = max(one.rounds for one in calls), max(one.requests for one in calls)
    size = max(one.bytes for one in calls) / MEGABYTE
    return f"| {recall} | {reason[1]} | {reason[2]} | {share:.3f} | {spent:.1f} | {rounds} | {requests} | {size:.1f} |"


if __name__ == "__main__":
    given = dict(enumerate(int(float(text)) for text in sys.argv[1:]))
    main(given.get(0, COUNT), given.get(1, MIDDLES))
