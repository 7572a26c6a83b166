"""Whether the plan that is chosen is about as good as the best one, by work that is counted and never by time.

Every candidate of every shape is carried out, by a process that knows nothing and by one that has done it before, and
what each does is counted: calls of Python, requests, bytes, rows and cells that are unpacked or tested.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

import wormdb
from tests.query.planner.questions import Dice
from wormdb.bql.parse import parse_filter
from wormdb.bql.sorting import parse_sort
from wormdb.engine.columns import fetch
from wormdb.format import blockread
from wormdb.query.execute.answer import count_plan, run_plan
from wormdb.query.planner.planner import candidates, make_plan
from wormdb.query.request import QueryRequest
from wormdb.query.sources.engine import EngineSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wormdb.engine.blocks.portion import Portion
    from wormdb.engine.state.view import StoredVersion
    from wormdb.query.plan import Node
    from wormdb.query.sources.source import Entries, Facts

ROWS = 4_000
ROWS_LONG = 50_000
WRITES = 200
FIELDS = {
    "code": {"type": "string"},
    "category": {"type": "string"},
    "city": {"type": "string"},
    "age": {"type": "integer"},
    "score": {"type": "number"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "body": {"type": "string"},
}
INDEXED = ("code", "category", "city", "age", "score", "tags")
SETTINGS = wormdb.Settings(forward="manual")

SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one": ({"code": "c000777"}, {}),
    "equality, 100": ({"category": "k3"}, {"limit": 100}),
    "equality": ({"category": "k3"}, {}),
    "equality of few": ({"city": "p5"}, {}),
    "range, 100": ({"age": {"$gte": 90}}, {"limit": 100}),
    "wide range, 100": ({"age": {"$gte": 10}}, {"limit": 100}),
    "range": ({"age": {"$gte": 90}}, {}),
    "equality in order, 10": ({"category": "k3"}, {"sort": "-score", "limit": 10}),
    "range in order": ({"age": {"$gte": 98}}, {"sort": "score"}),
    "order, 10": ({}, {"sort": "score", "limit": 10}),
    "several values": ({"city": {"$in": ["p1", "p2", "p77"]}}, {}),
    "two fields": ({"category": "k3", "city": "p5"}, {}),
    "two wide fields, 100": ({"category": "k3", "age": {"$gte": 50}}, {"limit": 100}),
    "element, 100": ({"tags": "t3"}, {"limit": 100}),
    "number": ({"category": "k3"}, {"is_count": True}),
    "number of two fields": ({"category": "k3", "age": {"$gte": 50}}, {"is_count": True}),
    "no index, 10": ({"body": {"$startsWith": "amet"}}, {"limit": 10}),
}

WITHOUT_INDEXES = ("one", "equality in order, 10", "order, 10", "number", "no index, 10")
WITH_TAIL = ("one", "equality, 100", "range, 100", "equality in order, 10", "element, 100", "number")

# --- what is counted, in calls of Python, which take half a microsecond each

REQUEST = 500.0
BYTE = 0.001
PAGE = 300.0
"""A page of documents that is unpacked."""
TEXT = 1.5
"""A stored document of a scan that is."""
UNPACKED = 0.15
"""A cell of a column that is."""
CELL = 0.01
"""A cell that is tested."""

NEAR_ENOUGH = 1.3
AT_LEAST = 1_000.0
"""What an answer takes besides: plans that differ by less than a part of it are alike."""


@dataclass
class Work:
    """What was done inside."""

    units: float = 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        def on(_: object, event: str, __: object) -> None:
            self.units += event == "call"

        def read_arrow(block: Any, names: Sequence[str], **options: Any) -> Any:
            table = unpack(block, names, **options)
            texts = sum(name == "_doc" for name in names)
            self.units += table.num_rows * (texts * TEXT + (len(names) - texts) * UNPACKED)
            return table

        def page_cells(*arguments: Any, **options: Any) -> Any:
            self.units += PAGE
            return cells(*arguments, **options)

        unpack, cells = vars(fetch)["read_arrow"], vars(blockread)["page_cells"]
        with patch.object(fetch, "read_arrow", read_arrow), patch.object(blockread, "page_cells", page_cells):
            sys.setprofile(on)
            try:
                yield
            finally:
                sys.setprofile(None)


@dataclass(frozen=True, slots=True)
class CountingSource:
    """A source that counts the cells of scans."""

    source: EngineSource
    facts: Facts
    work: Work

    def scan(self, names: Sequence[str], **options: Any) -> Iterator[Portion]:
        for portion in self.source.scan(names, **options):
            self.work.units += portion.rows * len(names) * CELL
            yield portion

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        return self.source.fetch(keys)

    def entries(self, name: str) -> Entries:
        return self.source.entries(name)


def asked(name: str) -> QueryRequest:
    written, options = SHAPES[name]
    return QueryRequest(
        filter=parse_filter(written),
        **{**options, **({"sort": parse_sort(options["sort"])} if "sort" in options else {})},
    )


def documents(rows: int) -> Iterator[dict[str, Any]]:
    dice = Dice(7)
    words = ("lorem", "ipsum", "dolor", "sit", "amet", "elit", "sed", "do", "eiusmod", "tempor")
    for number in range(rows):
        yield {
            "id": f"{number:06}",
            "code": f"c{number * 7919 % rows:06}",
            "category": f"k{dice.number(0, 19)}",
            "city": f"p{dice.number(0, rows // 50 - 1)}",
            "age": dice.number(0, 99),
            "score": dice.number(0, 10**9) / 10**6,
            "tags": [f"t{dice.number(0, 49)}" for _ in range(3)],
            "body": " ".join(dice.one(words) for _ in range(20)),
        }


class Process:
    """One process that has the collection open."""

    def __init__(self, folder: Path, *, indexed: bool) -> None:
        self.database = wormdb.connect(str(folder), settings=SETTINGS)
        ledger = self.database["things"]._ledger
        self.source = EngineSource(ledger.view(), ledger)
        self.facts = self.source.facts if indexed else replace(self.source.facts, indexes=())

    def run(self, root: Node, request: QueryRequest) -> float:
        """What a plan takes, in units of work."""
        work, before = Work(), self.database._metered.mark()
        source = CountingSource(self.source, self.facts, work)
        with work.counted():
            if request.is_count:
                count_plan(root, request, source)
            else:
                for _ in run_plan(root, request, source):
                    pass
        used = self.database._metered.mark() - before
        return AT_LEAST + work.units + used.requests * REQUEST + used.bytes_down * BYTE


@contextmanager
def opened(folder: Path, *, indexed: bool) -> Iterator[Process]:
    process = Process(folder, indexed=indexed)
    with process.database:
        yield process


def build(folder: Path, rows: int) -> Path:
    indexes = {f"by{name}": {"field": name} for name in INDEXED}
    model = {"path": "@things/(id:string)", "id": "given", "fields": FIELDS, "indexes": indexes}
    with wormdb.connect(str(folder), schema={"models": {"Thing": model}}, settings=SETTINGS) as database:
        things = database.model("Thing")
        things.insert_many(list(documents(rows)))
        things.forward()
    return folder


def write(folder: Path, rows: int) -> Path:
    """Changes that are not brought forward."""
    with wormdb.connect(str(folder), settings=SETTINGS) as database:
        changed = list(documents(rows))[:: rows // WRITES][:WRITES]
        for document in changed:
            database["things"].save({**document, "age": (document["age"] + 1) % 100})
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("plain") / "data", ROWS)


@pytest.fixture(scope="module")
def tail(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(shutil.copytree(plain, tmp_path_factory.mktemp("tail") / "data"), ROWS)


def check(folder: Path, name: str, *, is_warm: bool, indexed: bool = True) -> None:
    request = asked(name)
    with opened(folder, indexed=indexed) as process:
        if is_warm:
            for plan in candidates(request, process.facts):
                process.run(plan.root, request)
        chosen = make_plan(request, process.facts).root
        taken: dict[str, float] = {}
        for plan in candidates(request, process.facts):
            if is_warm:
                taken[repr(plan.root)] = process.run(plan.root, request)
            else:
                with opened(folder, indexed=indexed) as another:
                    taken[repr(plan.root)] = another.run(plan.root, request)
    best = min(taken.values())
    assert taken[repr(chosen)] <= NEAR_ENOUGH * best, taken


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("name", SHAPES)
def test_the_plan_that_is_chosen_is_about_the_best(plain: Path, name: str, is_warm: bool) -> None:
    check(plain, name, is_warm=is_warm)


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("name", WITHOUT_INDEXES)
def test_it_is_without_indexes(plain: Path, name: str, is_warm: bool) -> None:
    check(plain, name, is_warm=is_warm, indexed=False)


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("name", WITH_TAIL)
def test_it_is_with_changes_that_are_not_brought_forward(tail: Path, name: str, is_warm: bool) -> None:
    check(tail, name, is_warm=is_warm)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("large") / "data", ROWS_LONG)


@pytest.mark.long
@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("name", SHAPES)
def test_it_is_of_many_documents(large: Path, name: str, is_warm: bool) -> None:
    check(large, name, is_warm=is_warm)
