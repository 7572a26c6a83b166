"""Collections at random, in all the states that documents can be in, and what pure functions say of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.bql.written import FILTERS, filled, parts
from tests.engine.rig import Rig, ident, remove
from tests.engine.stage_rig import MANUAL, SMALL
from tests.query.columns.portions_rig import FAMILIES
from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.bql.positions import compile_positions
from wormdb.bql.projection import project
from wormdb.bql.projection_parse import parse_projection
from wormdb.bql.sorting import parse_sort, sort_key
from wormdb.bql.tree import EVERYTHING, And
from wormdb.engine.operations import Save
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.event import SchemaChanged
from wormdb.format.key import encode_key
from wormdb.query.engine_source import EngineSource
from wormdb.query.request import Request
from wormdb.schema.load import load_model
from wormdb.storage.meter import MeteredStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.bql.tree import Filter
    from wormdb.query.run import Hit

__all__ = ["REQUESTS", "WORLDS", "World", "answer", "same", "shown"]

Values = dict[str, Any]

INDEXES: dict[str, dict[str, Any]] = {
    "byA": {"field": "a"},
    "byAB": {"field": "a.b", "sparse": False},
    "byN": {"field": "n", "sparse": False},
    "byT": {"field": "t", "type": "multiValue"},
    "byNA": {"fields": ["n", "a"], "sparse": False},
    "byNT": {"fields": ["n", "t"]},
}
MANIFEST = ("a", "b", "n", "t", "a.b", "b.a")


@dataclass
class World:
    """One collection. Its documents are forwarded when told, and otherwise stay in the tail."""

    indexes: Sequence[str] = ()
    manifest: Sequence[str] = ()
    rig: Rig = field(default_factory=Rig)

    def __post_init__(self) -> None:
        model: Values = {"path": "@things/(id:any)", "indexes": {name: INDEXES[name] for name in self.indexes}}
        if self.manifest:
            model["manifest"] = {"enabled": True, "fields": list(self.manifest)}
        self.store = MeteredStore(self.rig.store)
        self.ledger = self.rig.ledger(self.store, MANUAL, SMALL)
        self._stager = self.rig.ledger(self.store, MANUAL, SMALL, stage_bytes=1)
        definition = load_model("Thing", model).canonical()
        self.ledger.commit(self.rig.batch(events=(SchemaChanged(definition=definition),)))
        self.documents: dict[bytes, Values] = {}

    def save(self, documents: Sequence[Values], *, staged: bool = False) -> None:
        """Write documents: through the log, or as blocks that a job attaches."""
        if documents:
            operations = [Save(ident(one["_id"]), json.encode_document(one)) for one in documents]
            (self._stager if staged else self.ledger).commit(self.rig.batch(*operations))
            self.documents |= {encode_key(one["_id"]): one for one in documents}

    def remove(self, identity: Any) -> None:
        """Delete one."""
        self.ledger.commit(self.rig.batch(remove(identity)))
        self.documents.pop(encode_key(identity), None)

    def forward(self) -> None:
        """Bring everything into blocks and trees."""
        self.ledger.forward()

    def source(self) -> EngineSource:
        """The state now."""
        return EngineSource.of(self.ledger.view(), self.ledger)

    def cold(self) -> EngineSource:
        """The same for a process that knows nothing yet."""
        ledger = self.rig.ledger(self.store, MANUAL, SMALL)
        return EngineSource.of(ledger.view(), ledger)


# --- what must be answered ---


def answer(request: Request, documents: dict[bytes, Values]) -> list[tuple[bytes, bytes, Values]]:
    """Keys, sort keys and documents, by pure functions alone."""
    order, matches = sort_key(request.sort), compile_filter(request.filter)
    found = sorted((order(one), key, one) for key, one in documents.items() if matches(one))
    rows = [row for row in found if request.after is None or row[0] > request.after]
    rows = rows[request.offset :][: request.limit]
    if request.projection is None:
        return [(key, place, one) for place, key, one in rows]
    positions = compile_positions(request.filter, request.projection.arrays)
    return [(key, place, project(request.projection, one, matched=positions(one))) for place, key, one in rows]


def shown(hits: Sequence[Hit]) -> list[tuple[bytes, bytes, Values]]:
    """What was answered, in the same form."""
    return [(hit.key, hit.order, hit.document) for hit in hits]


def same(one: list[tuple[bytes, bytes, Values]], other: list[tuple[bytes, bytes, Values]]) -> bool:
    """Whether two answers are alike, fields in any order; NaN equals itself, 1 is not 1.0."""
    return [(key, place, _canonical(document)) for key, place, document in one] == [
        (key, place, _canonical(document)) for key, place, document in other
    ]


def _canonical(value: Any) -> bytes:
    return json.encode(_sorted(value))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


# --- at random ---

_IDS = st.integers(0, 12)
_NUMBERS = st.sampled_from([0, 1, 2, 3, 1.5, "x", None])
_TAGS = st.lists(st.sampled_from([0, 1, 2, "x"]), max_size=3) | st.sampled_from([1, None])


@st.composite
def _worlds(draw: st.DrawFn) -> World:
    names = st.lists(st.sampled_from(sorted(INDEXES)), unique=True, max_size=4)
    world = World(draw(names), draw(st.lists(st.sampled_from(MANIFEST), unique=True, max_size=4)))
    families = {name: draw(st.sampled_from(FAMILIES)) for name in ("a", "b")}
    shapes = st.fixed_dictionaries(
        {"_id": _IDS},
        optional={
            "a": families["a"] | st.fixed_dictionaries({}, optional={"b": families["a"], "a": _NUMBERS}),
            "b": families["b"] | st.fixed_dictionaries({}, optional={"a": families["b"]}),
            "n": _NUMBERS,
            "t": _TAGS,
        },
    )
    for kind in draw(st.lists(st.sampled_from(["save", "save", "stage", "remove", "forward"]), max_size=6)):
        if kind == "forward":
            world.forward()
        elif kind == "remove":
            world.remove(draw(_IDS))
        else:
            several = draw(st.lists(shapes, max_size=6, unique_by=lambda one: one["_id"]))
            world.save(several, staged=kind == "stage")
    return world


WORLDS = _worlds()

_SORTS = st.lists(
    st.builds(
        lambda sign, name: sign + name,
        st.sampled_from(["", "-"]),
        st.sampled_from(["a", "b", "n", "n", "t", "a.b", "a.0", "id"]),
    ),
    unique_by=lambda name: name.removeprefix("-"),
    max_size=2,
).map(parse_sort)
_SHOWN: list[Any] = [
    ["a"],
    ["n", "b"],
    ["a.b", "n"],
    ["a.b", "a.a"],
    ["t", "b.a", "a.b"],
    ["id"],
    {"a": 0},
    {"b.a": 0, "_id": 0},
    {"n": 1, "_id": 0},
    {"t": {"$slice": 1}, "n": 1},
    {"t": {"$elemMatch": {"$gte": 1}}, "a": 1},
]
_PLAIN: list[Any] = [
    {},
    {"n": 1},
    {"n": {"$gte": 1}},
    {"n": {"$in": [0, 2, "x", None]}},
    {"t": 1},
    {"t": {"$gt": 0, "$lt": 2}},
    {"n": 1, "t": 2},
    {"n": {"$gt": 0}, "a": {"$exists": True}},
    {"a.b": {"$lte": 1}},
    {"$or": [{"n": 2}, {"t": "x"}]},
    {"_id": {"$in": [1, 2, 50]}},
    {"id": {"$gt": 3}, "n": {"$ne": 1}},
    {"n": {"$gt": 2, "$lt": 2}},
]


@st.composite
def requests(draw: st.DrawFn, documents: dict[bytes, Values]) -> Request:
    """A request that has to do with some documents."""
    written = draw(st.sampled_from(_PLAIN) | FILTERS)
    found = [part for one in documents.values() for part in parts(one) if part is not one] or [0]
    try:
        tree: Filter = parse_filter(filled(written, found))
    except InvalidRequestError:
        tree = EVERYTHING
    if draw(st.integers(0, 3)) == 0 and not isinstance(tree, And):
        tree = And((tree, parse_filter({"n": {"$in": [0, 1]}})))
    request = Request(
        filter=tree,
        sort=draw(_SORTS),
        limit=draw(st.none() | st.integers(0, 6)),
        offset=draw(st.sampled_from([0, 0, 1, 3])),
        projection=draw(st.none() | st.sampled_from(_SHOWN).map(parse_projection)),
    )
    if draw(st.integers(0, 3)) == 0 and documents:
        last = documents[draw(st.sampled_from(sorted(documents)))]
        request = replace(request, after=sort_key(request.sort)(last))
    return request


REQUESTS = requests
