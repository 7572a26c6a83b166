"""What tests of indexes of vectors share: mixtures, and what a root says of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import wormdb

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.format.list_run import Calibration, ListHead
    from wormdb.format.root import IndexRoot, Root

__all__ = ["MANUAL", "as_rows", "calibration_of", "head_of", "index_of", "make_clusters", "root_of"]

MANUAL = wormdb.Settings(forward="manual", forward_interval_ms=0)


def make_clusters(rows: int, dimensions: int, *, seed: int, clusters: int = 20, away: float = 0.0) -> Any:
    """Vectors of a mixture; `away` moves all of it to another region."""
    chance = np.random.default_rng(seed)
    middles = chance.normal(size=(clusters, dimensions)) + away
    noise = 0.4 * chance.normal(size=(rows, dimensions))
    return (middles[chance.integers(0, clusters, rows)] + noise).astype(np.float32)


def as_rows(vectors: Any, start: int = 0) -> list[dict[str, Any]]:
    """A document for each, with ids from `start` on."""
    return [{"id": start + place, "v": row.tolist()} for place, row in enumerate(vectors)]


def root_of(made: Collection[Any]) -> Root:
    place = made._ledger.view().place
    assert place is not None
    return place.root


def index_of(made: Collection[Any], name: str = "v") -> IndexRoot:
    found = root_of(made).index(name)
    assert found is not None
    return found


def head_of(made: Collection[Any], name: str = "v") -> ListHead:
    head = index_of(made, name).lists
    assert head is not None
    return head


def calibration_of(made: Collection[Any], name: str = "v") -> Calibration:
    found = head_of(made, name).calibration
    assert found is not None
    return found
