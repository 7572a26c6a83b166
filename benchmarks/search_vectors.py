"""The nearest vectors: beside faiss with as many lists of which as many are read, and beside LanceDB."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import wormdb
from benchmarks.glosses import DIMENSIONS, make_vectors
from benchmarks.measure import Count, Row, compare, take
from benchmarks.rounds import call_cold
from wormdb.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wormdb import Collection, Document
    from wormdb.storage.meter import MeteredRequest

__all__ = ["compare_vectors"]

K: Final = 10
ASKED: Final = 200
"""Questions of a round."""
COLD: Final = 5
STEPS: Final = 20
CHANGES: Final = 1_000
"""Of a step: half are inserts, three tenths updates, two tenths deletes."""
BATCH: Final = 2_000
MEGABYTE: Final = 1_000_000
SETTINGS: Final = wormdb.Settings(forward="manual")


def compare_vectors(count: int, folder: Path) -> list[Row | Count]:
    """All comparisons, of that many vectors."""
    vectors, questions = make_vectors(count, ASKED)
    ours, build = _load(vectors)
    faiss, faiss_build = _make_faiss(vectors, *_lists_of(ours, questions))
    truth = _find_truth(vectors, questions)
    what = f"{count:,} vectors"
    rows: list[Row | Count] = [
        Row(f"build the index, {what}", "faiss IVF-SQ8: train, add", count, build, faiss_build, at_least=0.5),
        *_compare_reads(ours, faiss, questions, truth),
        *_beside_lance(ours, vectors, questions, truth, folder),
        *_count_cold(ours.store, questions),
        _count_written(ours, vectors),
    ]
    ours.database.close()
    return rows


# --- ours ---


@dataclass
class _Ours:
    """A collection of vectors, and the bytes that were written below it, by folder."""

    store: MemoryStore
    database: wormdb.Database
    made: Collection[Document]
    written: Counter[str]

    def ids(self, vector: Any) -> list[tuple[str, float]]:
        """The ids of the nearest, and scores."""
        found = self.made.find(near={"embedding": {"vector": vector, "k": K}}, select=["_id"])
        return [(row["id"], score) for row, score in found.scored()]

    def documents(self, vector: Any) -> list[tuple[Document, float]]:
        """The nearest documents, with all their fields, and scores."""
        return list(self.made.find(near={"embedding": {"vector": vector, "k": K}}).scored())


def _document(number: int, vector: Any) -> dict[str, Any]:
    from bson.binary import Binary, BinaryVectorDtype

    packed = Binary.from_vector(vector.tolist(), BinaryVectorDtype.FLOAT32)
    return {"id": f"{number:07}", "title": f"gloss {number}", "year": 1900 + number % 120, "embedding": packed}


def _load(vectors: Any) -> tuple[_Ours, float]:
    """The collection, brought forward and then indexed, and the processor seconds of the index."""
    store, written = MemoryStore(), Counter[str]()

    def count(request: MeteredRequest) -> None:
        written["indexes" if "/indexes/" in request.key else "others"] += request.bytes_up

    database = wormdb.connect(store, settings=SETTINGS, hook=count)
    made = database["glosses"]
    for start in range(0, len(vectors), BATCH):
        made.insert_many([_document(start + row, own) for row, own in enumerate(vectors[start : start + BATCH])])
    made.forward()
    seconds = take(lambda: made.create_vector_index("embedding", dimensions=DIMENSIONS), time.process_time)
    return _Ours(store, database, made, written), seconds


def _lists_of(ours: _Ours, questions: Any) -> tuple[int, int]:
    """How many lists there are, and how many of them are read on average."""
    from wormdb.engine.lists.centroids import decode_centroids
    from wormdb.engine.lists.codes import encode_vectors
    from wormdb.engine.lists.probes import count_probes
    from wormdb.query.sources.vectors import open_nearest

    ledger = ours.made._ledger  # noqa: SLF001 - what the planner knows
    reader = open_nearest(ledger.view(), "embedding", ledger).reader
    trained, measured = reader.trained(), reader.head.calibration
    assert trained is not None
    assert measured is not None
    middles = decode_centroids(trained, dimensions=DIMENSIONS, name="centroids")
    probes = count_probes(measured.lists, None, measured)
    ranges = [middles.nearest_ranges("cosine", *encode_vectors(own[None]), probes) for own in questions]
    return measured.lists, round(fmean(sum(last - first + 1 for first, last in some) for some in ranges))


# --- the peers ---


def _make_faiss(vectors: Any, lists: int, probes: int) -> tuple[Callable[[Any], list[int]], float]:
    """What gives the ids and scores of the nearest, and the processor seconds that it took to make it."""
    import faiss

    faiss.omp_set_num_threads(1)
    quantizer = faiss.IndexFlatIP(DIMENSIONS)
    kind = faiss.ScalarQuantizer.QT_8bit
    index = faiss.IndexIVFScalarQuantizer(quantizer, DIMENSIONS, lists, kind, faiss.METRIC_INNER_PRODUCT)

    def build() -> None:
        index.train(vectors)
        index.add(vectors)

    seconds = take(build, time.process_time)
    index.nprobe = probes

    def find(vector: Any) -> list[int]:
        _, found = index.search(vector[None], K)
        ids: list[int] = found[0].tolist()
        return ids

    return find, seconds


def _beside_lance(
    ours: _Ours, vectors: Any, questions: Any, truth: Sequence[set[int]], folder: Path
) -> list[Row | Count]:
    import lancedb
    import pyarrow as pa

    lists, probes = _lists_of(ours, questions)
    embeddings = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIMENSIONS)
    rows = pa.table({"id": pa.array(range(len(vectors))), "embedding": embeddings})
    table = lancedb.connect(str(folder / "lance")).create_table("glosses", rows)
    table.create_index(metric="cosine", vector_column_name="embedding", index_type="IVF_SQ", num_partitions=lists)
    some = questions[: ASKED // 5]

    def find(vector: Any) -> list[int]:
        asked = table.search(vector, vector_column_name="embedding").distance_type("cosine").nprobes(probes)
        found: list[int] = asked.select(["id", "_distance"]).limit(K).to_arrow()["id"].to_pylist()
        return found

    reference = f"LanceDB IVF_SQ, {probes} of {lists} lists, recall {_recall(find, some, truth):.3f}"
    row = _compare("ids and scores", ours.ids, reference, find, some, at_least=1)
    return [row]


# --- what is measured ---


def _find_truth(vectors: Any, questions: Any) -> list[set[int]]:
    import numpy as np

    return [set(np.argsort(-(vectors @ own), kind="stable")[:K].tolist()) for own in questions]


def _recall(find: Callable[[Any], list[int]], questions: Any, truth: Sequence[set[int]]) -> float:
    return fmean(len(set(find(own)) & best) / K for own, best in zip(questions, truth, strict=False))


def _compare(
    what: str,
    ours: Callable[[Any], object],
    reference: str,
    theirs: Callable[[Any], object],
    asked: Any,
    at_least: float,
) -> Row:
    return compare(
        what,
        lambda: [ours(own) for own in asked],
        reference,
        lambda: [theirs(own) for own in asked],
        count=len(asked),
        at_least=at_least,
        rounds=3,
        clock=time.process_time,
    )


def _compare_reads(
    ours: _Ours, faiss: Callable[[Any], list[int]], questions: Any, truth: Sequence[set[int]]
) -> list[Row | Count]:
    from wormdb.engine.lists import codes

    lists, probes = _lists_of(ours, questions)
    reference = f"faiss IVF-SQ8, {probes} of {lists} lists, recall {_recall(faiss, questions, truth):.3f}"
    recall = _recall(lambda own: [int(name) for name, _ in ours.ids(own)], questions, truth)
    rows: list[Row | Count] = [
        Count(f"recall of {K}", "all vectors, by numpy", recall, "≥ 0.95", recall >= 0.95),
        _compare("ids and scores", ours.ids, reference, faiss, questions, 0.7),
        _compare("whole documents", ours.documents, reference, faiss, questions, 0.5),
    ]
    with mock.patch.object(codes, "find_kernel", return_value=None):
        rows.append(_compare("ids and scores, without numkong", ours.ids, reference, faiss, questions, 0.4))
    return rows


def _count_cold(store: MemoryStore, questions: Any) -> list[Row | Count]:
    def ask(vector: Any) -> Callable[[wormdb.Database], object]:
        near = {"embedding": {"vector": vector, "k": K}}
        return lambda database: database["glosses"].find(near=near, select=["_id"]).to_list()

    cold = [call_cold(store, ask(own)) for own in questions[:COLD]]
    rounds, requests = max(one.rounds for one in cold), max(one.requests for one in cold)
    size = max(one.bytes for one in cold) / MEGABYTE
    return [
        Count("cold, ids and scores: rounds", f"most of {COLD} questions", rounds, "≤ 4", rounds <= 4),
        Count("cold: requests", "", requests, "≤ 40", requests <= 40),
        Count("cold: MB", "", size, "≤ 6", size <= 6),
    ]


def _count_written(ours: _Ours, vectors: Any) -> Count:
    """Changes in steps, each brought forward; what the index writes, beside the codes of what is new."""
    made, count, new = ours.made, len(vectors), 0
    inserts, updates = CHANGES // 2, 3 * CHANGES // 10
    ours.written.clear()
    for step in range(STEPS):
        first = step * (CHANGES - inserts)  # of what is there, no document twice
        kept = range(first, first + updates)
        with made.batch() as batch:
            for row in range(inserts):
                batch.save(_document(count + step * inserts + row, vectors[(step * inserts + row) % count]))
            for row in kept:
                batch.save(_document(row % count, vectors[(row + 7) % count]))
        gone = [f"{row % count:07}" for row in range(first + updates, first + CHANGES - inserts)]
        made.delete_many({"_id": {"$in": gone}})
        made.forward()
        new += inserts + updates
    times = ours.written["indexes"] / (new * (DIMENSIONS + 4))
    what = f"bytes of the index written in {STEPS} steps of {CHANGES:,} changes"
    return Count(what, "the codes of new vectors", times, "≤ 4", times <= 4)
