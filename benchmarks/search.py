"""The nearest vectors and the words of texts: beside faiss, LanceDB and tantivy, by processor time.

All sides run in one process with one thread for sums, which is begun with that setting: libraries read it when they
are loaded. Threads that a side begins all the same count as its time.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from benchmarks.glosses import DIMENSIONS, say_texts
from benchmarks.search_texts import compare_texts
from benchmarks.search_vectors import compare_vectors

if TYPE_CHECKING:
    from benchmarks.measure import Count, Row

__all__ = ["TITLE", "run"]

VECTORS = int(float(os.environ.get("WORMDB_BENCH_VECTORS", "100_000")))
TEXTS = int(float(os.environ.get("WORMDB_BENCH_TEXTS", "100_000")))
TITLE = (
    f"search: {VECTORS:,} x {DIMENSIONS} vectors (5,000 glosses of WordNet by MiniLM, repeated with noise) and "
    f"{TEXTS:,} {say_texts()}, processor time"
)
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def run() -> list[Row | Count]:
    """All comparisons; no server is needed."""
    with (
        mock.patch.dict(os.environ, _ONE_THREAD),
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process,
    ):
        return process.submit(_compare_all, Path(folder)).result()


def _compare_all(folder: Path) -> list[Row | Count]:
    return [*compare_vectors(VECTORS, folder), *compare_texts(TEXTS, folder)]
