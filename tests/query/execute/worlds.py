"""Collections at random: what fields hold, where documents lie, what is declared, and which indexes there are.

A field mostly holds one family of values, as data does, so that there are blocks whose columns have only arrays, only
nulls, one value, or nothing; and the steps that lead to a state are those that a collection goes through in its life.

Each world knows only some of the kinds of steps, and has an end of its own. What needs several rare things at once, as
rows of removed documents below a mapping, is then about as frequent as all else: where every step may be of any kind,
one world in some thousands has it.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from bson import Binary, Decimal128, ObjectId, Regex
from hypothesis import strategies as st

from tests.engine.bulk.stage_rig import SMALL
from tests.query.columns.portions_rig import FAMILIES
from tests.query.execute.world import INDEXES, REFUSALS, World, index_fields
from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.engine.blocks import fetch as block_fetch
from wormdb.engine.columns import fetch as column_fetch
from wormdb.engine.forward.forward import Sizes
from wormdb.format import block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypothesis.strategies import SearchStrategy

__all__ = ["MANIFEST", "NOTHING", "SHAPES", "WORLDS", "as_large_blocks"]

Values = dict[str, Any]

MANIFEST = ("a", "b", "n", "t", "a.b", "b.a", "a.0")
NOTHING: SearchStrategy[Any] = st.nothing()
"""The family of a field that no document has."""

_FEW = st.sampled_from([0, 1, 2, 3, 5, 8, 10])
_TEXTS = st.sampled_from(["a", "b", "ab", "x", ""])
_DATES = st.sampled_from([datetime(year, 1, 2, 3, 4, 5, 678000, tzinfo=UTC) for year in (1, 1970, 2020, 9999)])
_RARE: list[Any] = [
    Decimal128("1"),
    Decimal128("1.50"),
    Decimal128("NaN"),
    b"x",
    Binary(b"x", 5),
    ObjectId("0" * 23 + "1"),
    Regex("^a"),
    float("nan"),
    float("inf"),
    -0.0,
    2**53 + 1,
    True,
]
_SCALARS = _FEW | _TEXTS | st.none() | st.sampled_from(_RARE) | _DATES
_INNER = st.fixed_dictionaries({}, optional={"b": _FEW | st.lists(_FEW, max_size=2), "a": _SCALARS})
_FAMILIES: list[list[SearchStrategy[Any]]] = [
    [  # plain values
        _FEW,
        _TEXTS,
        _FEW | st.floats(0, 10, width=16),
        _DATES,
        st.sampled_from([Decimal128("1"), Decimal128("2.50"), Decimal128("10")]),
        st.sampled_from([b"", b"x", b"xy", Binary(b"x", 5)]),
        *FAMILIES,
    ],
    [  # only arrays, of one type
        st.lists(_FEW, min_size=1, max_size=3),
        st.lists(_FEW, max_size=3, unique=True),
        st.lists(_TEXTS, min_size=1, max_size=3),
        st.lists(_DATES, max_size=2),
    ],
    [  # only arrays, of anything
        st.just([]),
        st.lists(st.none(), max_size=2),
        st.lists(_SCALARS, max_size=3),
        st.lists(st.lists(_FEW, max_size=2), max_size=2),
        st.lists(_INNER, max_size=3),
        st.lists(_INNER | _FEW | st.lists(_INNER, max_size=2), max_size=3),
    ],
    [  # documents
        _INNER,
        st.fixed_dictionaries({}, optional={"b": st.lists(_INNER, max_size=2) | _INNER, "0": _FEW}),
    ],
    [  # nothing, nulls, one value
        NOTHING,
        st.none(),
        *(st.just(value) for value in (5, "x", float("nan"), Decimal128("2.5"), b"x", [1, 10], {"b": 1})),
    ],
    [_SCALARS, _SCALARS | st.lists(_SCALARS, max_size=3) | _INNER],
]
_EXCEPTIONS = _SCALARS | st.lists(_SCALARS, max_size=2) | _INNER
_IDS: list[list[Any]] = [
    list(range(13)),
    [f"k{number}" for number in range(9)],
    [1, 2, 2.5, "x", b"y", ObjectId("1" * 24)],
    *([["x", 1, "y", 2, "z", 3]] * 2),
]
"""A column has ids of one type: others are read out of documents, and out of what is left of removed ones."""
_DECLARED: list[Values] = [
    *({"type": name} for name in ("any", "any", "any", "array", "array", "number", "integer", "string", "object")),
    {"type": "array", "items": {"type": "number"}},
    {"type": "datetime"},
    {"type": "boolean"},
]
_MAPPINGS: list[Values] = [
    {"$set": {"n": 5}},
    {"$set": {"t": [1, 10]}},
    {"$unset": {"a": ""}},
    {"$rename": {"b": "n"}},
    {"$rename": {"a": "b"}},
]
_SIZES = st.sampled_from([1, 2, 4, 6])
_LOOKS: list[Values] = [{"n": {"$gte": 1}}, {"t": 1}, {"a": {"$gt": 0}}, {"a.b": 1}, {"b": None}]


@st.composite
def _shapes(draw: st.DrawFn) -> SearchStrategy[Values]:
    """Documents without ids: each field has its family, is there always or sometimes, and has exceptions or none."""
    fields: dict[str, SearchStrategy[Any]] = {}
    optional: dict[str, SearchStrategy[Any]] = {}
    for name in ("a", "b", "n", "t"):
        family = draw(st.sampled_from(draw(st.sampled_from(_FAMILIES))))
        if family is NOTHING:
            continue
        if draw(st.integers(0, 3)) == 0:
            family = family | _EXCEPTIONS
        (optional if draw(st.booleans()) else fields)[name] = family
    if draw(st.integers(0, 3)) == 0:
        optional["u"] = st.integers(0, 30)
    return st.fixed_dictionaries(fields, optional=optional)


SHAPES = _shapes()
"""Strategies of documents without ids."""


class _Steps:
    """What may happen to a world."""

    def __init__(self, world: World, shapes: SearchStrategy[Values], draw: st.DrawFn) -> None:
        self.world = world
        self.draw = draw
        self._shapes = shapes
        self._ids = draw(st.sampled_from(_IDS))

    def _several(self) -> list[Values]:
        ids = self.draw(st.lists(st.sampled_from(self._ids), min_size=self.draw(_SIZES), max_size=6, unique=True))
        return [{"_id": identity, **self.draw(self._shapes)} for identity in ids]

    def save(self) -> None:
        self.world.save(self._several())

    def stage(self) -> None:
        self.world.save(self._several(), staged=True)

    def load(self) -> None:
        rows = self._several()
        self.world.load([rows[::2], rows[1::2]] if self.draw(st.booleans()) else [rows])

    def remove(self) -> None:
        there = [one["_id"] for one in self.world.documents.values()]
        count = self.draw(st.sampled_from([1, 2, 3, 13]))
        for identity in self.draw(st.permutations(there or [99]))[:count]:
            self.world.remove(identity)

    def upgrade(self) -> None:
        self.world.upgrade(self.draw(st.sampled_from(_MAPPINGS)), is_written=self.draw(st.integers(0, 2)) == 0)

    def forward(self) -> None:
        self.draw(st.sampled_from([self.world.forward, self.world.advance, self.world.forward_as_before]))()

    def tidy(self) -> None:
        self.draw(st.sampled_from([self.world.compact, self.world.rebuild, self.world.trim]))()

    def index(self) -> None:
        self.draw(st.sampled_from([self.create, self.build, self.drop]))()

    def create(self) -> None:
        there = {one.name for one in self.world.things.indexes()}
        self.world.create_index(self.draw(st.sampled_from([name for name in sorted(INDEXES) if name not in there])))

    def build(self) -> None:
        self.world.build(self.draw(st.integers(2, 6)))

    def drop(self) -> None:
        names = [one.name for one in self.world.things.indexes() if one.name != "_id"]
        if names:
            self.world.things.drop_index(self.draw(st.sampled_from(names)))

    def look(self) -> None:
        """Those who read later know something already."""
        written = self.draw(st.sampled_from(_LOOKS))
        matches = compile_filter(parse_filter(written))
        expected = sum(map(matches, self.world.documents.values()))
        assert self.world.things.count(written) == expected


_KINDS = ("stage", "load", "remove", "upgrade", "tidy", "index", "look")
_ENDS: list[tuple[str, ...]] = [
    (),
    ("save",),
    ("forward",),
    ("forward",),
    ("remove", "stage"),
    ("remove", "forward", "upgrade"),
    ("remove", "save", "forward", "upgrade", "stage"),
]
"""What a life ends with: rows that hide others, of removed documents too, and mappings that no block has seen yet."""


@st.composite
def _worlds(draw: st.DrawFn) -> World:
    names = st.sampled_from(["a", "b", "n", "t"])
    has_model = draw(st.integers(0, 2)) > 0
    declared: Values = {}
    if has_model:
        declared = draw(st.just({}) | st.dictionaries(names, st.sampled_from(_DECLARED), min_size=1, max_size=3))

    def has(path: str) -> bool:
        first, _, rest = path.partition(".")
        kinds = ("any", "object") if rest else tuple(one["type"] for one in _DECLARED)
        return not declared or declared.get(first, {}).get("type") in kinds

    indexes = [name for name in sorted(INDEXES) if all(map(has, index_fields(name)))]
    columns = [path for path in MANIFEST if has(path)]
    world = World(
        draw(st.lists(st.sampled_from(indexes), unique=True, max_size=3)) if indexes else (),
        draw(st.lists(st.sampled_from(columns), unique=True, max_size=3)) if has_model else (),
        declared,
        cache_bytes=draw(st.sampled_from([0, 1 << 22])),
        sizes=draw(st.sampled_from([SMALL, Sizes(block_target=10_000, run_smallest=1_000)])),
        has_model=has_model,
    )
    steps = _Steps(world, draw(_shapes()), draw)
    known = draw(st.lists(st.sampled_from(_KINDS), unique=True, min_size=1, max_size=5))
    kinds = st.sampled_from(["save", "forward", *known])
    taken = draw(st.lists(kinds, min_size=draw(st.integers(0, 6)), max_size=7))
    for kind in ["save", *taken, *draw(st.sampled_from(_ENDS))]:
        step: Callable[[], None] = getattr(steps, kind)
        with suppress(*REFUSALS):
            step()
    return world


WORLDS = _worlds()


@contextmanager
def as_large_blocks() -> Iterator[None]:
    """Blocks have several row groups and pages, of which no more is read than is needed: as it is with large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block, "_GROUP_ROWS", 2)
        patch.setattr(block, "PAGE_BYTES", 1)
        patch.setattr(block_fetch, "BLOCK_WHOLE_BYTES", 0)
        patch.setattr(column_fetch, "BLOCK_WHOLE_BYTES", 0)
        patch.setattr(column_fetch, "DOCUMENTS_WHOLE_BYTES", 0)
        yield
