"""The plan that is chosen beside the best candidate, by processor time: warm and cold, on S3.

`python -m benchmarks.plans` prints what the processor takes for one thing of each kind instead, as constants of
`wormdb.query.planner.cost`.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import wormdb
from benchmarks.measure import Count, still
from wormdb.bql.parse import parse_filter
from wormdb.bql.sorting import parse_sort
from wormdb.engine.columns.fetch import ColumnRequest, fetch_columns
from wormdb.engine.index.shelf import tree_of
from wormdb.format import json
from wormdb.format.blockread import read_page, read_page_rows
from wormdb.format.columns import ColumnSpec
from wormdb.format.key import encode_key
from wormdb.format.node import decode_node
from wormdb.format.sidecar import PageRef
from wormdb.query.execute.answer import count_plan, run_plan
from wormdb.query.planner import cost
from wormdb.query.planner.planner import candidates, make_plan
from wormdb.query.request import QueryRequest
from wormdb.query.sources.engine import EngineSource
from wormdb.storage.store import ByteRange
from wormdb.system.clock import SeededChance
from wormdb.testing.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.query.plan import Node

__all__ = ["TITLE", "run"]

DOCUMENTS: Final = int(os.environ.get("WORMDB_BENCH_DOCUMENTS", "50000"))
TITLE: Final = f"plans: chosen beside the best candidate, {DOCUMENTS:,} documents on S3, processor time"
BAR: Final = 1.3
COLD_CANDIDATES: Final = 4
"""A cold process tries those that are expected to be the best; others take seconds."""
COLD_ROUNDS: Final = 4
WARM_SECONDS: Final = 0.06
FIELDS: Final[dict[str, Any]] = {
    "code": {"type": "string"},
    "category": {"type": "string"},
    "city": {"type": "string"},
    "age": {"type": "integer"},
    "score": {"type": "number"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "body": {"type": "string"},
}
INDEXED: Final = ("code", "category", "city", "age", "score", "tags")
SETTINGS: Final = wormdb.Settings(forward="manual")
WORDS: Final = ("lorem", "ipsum", "dolor", "sit", "amet", "elit", "sed", "do", "eiusmod", "tempor")

SHAPES: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "one row": ({"code": "c000777"}, {}),
    "equality, limit 100": ({"category": "k3"}, {"limit": 100}),
    "range, limit 100": ({"age": {"$gte": 90}}, {"limit": 100}),
    "equality, sort, limit 10": ({"category": "k3"}, {"sort": "-score", "limit": 10}),
    "equality": ({"category": "k3"}, {}),
    "equality of 50": ({"city": "p5"}, {}),
    "three values": ({"city": {"$in": ["p1", "p2", "p77"]}}, {}),
    "two indexed fields": ({"category": "k3", "city": "p5"}, {}),
    "two wide fields, limit 100": ({"category": "k3", "age": {"$gte": 50}}, {"limit": 100}),
    "sort, limit 10": ({}, {"sort": "score", "limit": 10}),
    "element of an array, limit 100": ({"tags": "t3"}, {"limit": 100}),
    "count": ({"category": "k3"}, {"is_count": True}),
    "count of two fields": ({"category": "k3", "age": {"$gte": 50}}, {"is_count": True}),
}


def run() -> list[Count]:
    """All comparisons."""
    with S3Server() as server:
        os.environ.update(server.environment)
        place = server.url("plans")
        _load(place)
        return [*_warm(place), *_cold(place)]


def _load(place: str) -> None:
    chance = SeededChance(7)

    def below(number: int) -> int:
        return int(chance.fraction() * number)

    model = {
        "path": "@things/(id:string)",
        "id": "given",
        "fields": FIELDS,
        "indexes": {f"by{name}": {"field": name} for name in INDEXED},
    }
    with wormdb.connect(place, schema={"models": {"Thing": model}}, settings=SETTINGS) as database:
        things = database.model("Thing")
        things.insert_many(
            [
                {
                    "id": f"{number:06}",
                    "code": f"c{number * 7919 % DOCUMENTS:06}",
                    "category": f"k{below(20)}",
                    "city": f"p{below(DOCUMENTS // 50)}",
                    "age": below(100),
                    "score": chance.fraction() * 1_000,
                    "tags": [f"t{below(50)}" for _ in range(3)],
                    "body": " ".join(WORDS[below(len(WORDS))] for _ in range(20)),
                }
                for number in range(DOCUMENTS)
            ]
        )
        things.forward()


def _asked(name: str) -> QueryRequest:
    written, options = SHAPES[name]
    sort = parse_sort(options.get("sort"))
    others = {option: value for option, value in options.items() if option != "sort"}
    return QueryRequest(filter=parse_filter(written), sort=sort, **others)


@contextmanager
def _opened(place: str) -> Iterator[EngineSource]:
    with wormdb.connect(place, settings=SETTINGS) as database:
        ledger = database["things"]._ledger  # noqa: SLF001 - plans are made below what users call
        yield EngineSource(ledger.view(), ledger)


def _answer(root: Node, request: QueryRequest, source: EngineSource) -> int:
    if request.is_count:
        return count_plan(root, request, source)
    return sum(1 for _ in run_plan(root, request, source))


def _processor(work: Callable[[], object]) -> float:
    gc.disable()
    try:
        begin = time.process_time()
        work()
        return time.process_time() - begin
    finally:
        gc.enable()


def _best(work: Callable[[], object], seconds: float = WARM_SECONDS) -> float:
    """The least of the times of some calls."""
    taken = [_processor(work) for _ in range(3)]
    while sum(taken) < seconds:
        taken.append(_processor(work))
    return min(taken)


def _compared(name: str, state: str, chosen: Node, taken: dict[str, float]) -> Count:
    ratio = taken[repr(chosen)] / min(taken.values())
    what = f"{state}: {name}, {taken[repr(chosen)] * 1_000:,.2f} ms"
    return Count(what, f"the best of {len(taken)} candidates", ratio, f"≤ {BAR}x", ratio <= BAR)


def _warm(place: str) -> Iterator[Count]:
    with _opened(place) as source, still():
        for name in SHAPES:
            request = _asked(name)
            for plan in candidates(request, source.facts):
                _answer(plan.root, request, source)
            chosen = make_plan(request, source.facts).root
            roots = [plan.root for plan in candidates(request, source.facts)]
            taken = {repr(root): _best(partial(_answer, root, request, source)) for root in roots}
            yield _compared(name, "warm", chosen, taken)


def _cold(place: str) -> Iterator[Count]:
    for name in SHAPES:
        request = _asked(name)
        with _opened(place) as source:
            chosen = make_plan(request, source.facts).root
            roots = [plan.root for plan in candidates(request, source.facts)][:COLD_CANDIDATES]
        taken = {repr(root): float("inf") for root in roots}
        for _ in range(COLD_ROUNDS):
            for root in roots:
                with _opened(place) as source:
                    spent = _processor(partial(_answer, root, request, source))
                taken[repr(root)] = min(taken[repr(root)], spent)
        yield _compared(name, "cold", chosen, taken)


# --- the constants ---


def _constants(place: str) -> dict[str, float]:
    """What one thing of each kind takes, in microseconds."""
    with _opened(place) as source:
        base: Any = source.view.base
        shelf, block = base.runs.shelf, base.place.root.blocks[0]
        page_map = shelf.learn([block])[0][block.name]
        refs = [PageRef(page_map, page, page_map.offsets[page], page_map.pages[page].length) for page in range(50)]
        bodies = shelf.ranges(block, [ByteRange(ref.offset, ref.length) for ref in refs])
        keys = [[encode_key(row.id) for row in read_page_rows(*one)] for one in zip(bodies, refs, strict=True)]
        pages = list(zip(bodies, refs, keys, strict=True))
        page = _best(lambda: [read_page(body, ref, some[:1]) for body, ref, some in pages]) / len(pages)
        rows = _best(lambda: [read_page_rows(body, ref) for body, ref, _ in pages]) / len(pages)
        ids = keys[0][:100]
        source.fetch(ids)
        number = _asked("count")
        found = [plan.root for plan in candidates(number, source.facts) if type(plan.root).__name__ == "IndexScan"]
        _answer(found[0], number, source)
        taken = _best(lambda: _answer(found[0], number, source))
        some = _answer(found[0], number, source)
        columns = [_columns(shelf, block, names) for names in (["category"], ["category", "score", "age"])]
        return {
            "ENTRY": taken / some * 1e6,
            "NODE": _leaf(source) * 1e6,
            "PAGE": page * 1e6,
            "PAGE_ROW": (rows - page) / (page_map.rows / page_map.page_count) * 1e6,
            "ROW": _best(lambda: _rows(source, ids)) / len(ids) * 1e6,
            "CELL_UNPACKED": (columns[1] - columns[0]) / 2 / block.rows * 1e6,
            "TEXT": _columns(shelf, block, [], with_documents=True) / block.rows * 1e6,
        }


def _leaf(source: EngineSource) -> float:
    base: Any = source.view.base
    root = base.place.root
    nodes: Any = source.ledger.trees.nodes(root, "bycategory")
    (inner,) = nodes.inners([tree_of(root.index("bycategory")).top])
    bodies = [(nodes._body(child), nodes._scope + child.name) for child in inner.children[:10]]  # noqa: SLF001 - bytes as stored
    return _best(lambda: [decode_node(body, name="", identity=name) for body, name in bodies]) / len(bodies)


def _rows(source: EngineSource, ids: list[bytes]) -> int:
    return sum(len(json.decode_document(held.document or b"", name="")) for held in source.fetch(ids).values())


def _columns(shelf: Any, block: Any, names: list[str], *, with_documents: bool = False) -> float:
    wanted = ColumnRequest({name: ColumnSpec(name) for name in names}, with_ids=True, with_documents=with_documents)
    bare = type(shelf)(shelf._store, shelf._pool, shelf.folder)  # noqa: SLF001 - one that keeps no columns
    bare.learn([block])
    return _best(lambda: fetch_columns(bare, block, wanted))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        _load(folder)
        for constant, microseconds in _constants(folder).items():
            print(f"{constant:14} {microseconds:10.3f} µs   in use: {getattr(cost, constant):.3f}")
