"""Portions of documents as the engine makes them, with columns that are declared, rightly or wrongly, or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.bql.written import SMALL_VALUES
from tests.engine.columns.rig import Layers
from wormdb.engine.blocks.portion import DOCUMENT, join_portions
from wormdb.engine.columns.fetch import ColumnRequest
from wormdb.engine.columns.scan import scan_columns
from wormdb.engine.columns.sources import encode_rows
from wormdb.engine.state.view import StoredVersion
from wormdb.format.columns import COLUMN_TYPES, ColumnSpec
from wormdb.format.json import encode, encode_document
from wormdb.format.key import encode_key
from wormdb.testing.strategies import dates, numbers, strings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypothesis.strategies import SearchStrategy

    from wormdb.engine.blocks.portion import Portion

__all__ = ["COLLECTIONS", "FAMILIES", "STORED", "WAYS", "Values", "Way", "make_portion", "make_portions"]

Values = dict[str, Any]

_INTEGERS = st.sampled_from([0, 1, -1, 2, 7, 2**31, -(2**31) - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)])
_DOUBLES = st.sampled_from(
    [0.0, -0.0, 1.0, 1.5, -1.5, 2.0**53, 2.0**63, -(2.0**63), 1e308, 5e-324, float("nan"), float("inf"), float("-inf")]
)
FAMILIES: list[SearchStrategy[Any]] = [
    _INTEGERS,
    _DOUBLES,
    st.one_of(_INTEGERS, _DOUBLES),
    numbers(),
    st.sampled_from(["", "a", "ab", "b", "A", "a\0b", "é", "\uffff", "\U0001f600"]) | strings(),
    st.booleans(),
    dates(),
    st.lists(_INTEGERS | st.none(), max_size=3),
    st.lists(st.sampled_from(["a", "b", "ab", ""]), max_size=3),
    st.lists(_DOUBLES, max_size=3),
    SMALL_VALUES,
]
"""Values of one column: mostly of one type, as data is."""

COLUMNS = st.lists(
    st.builds(
        ColumnSpec,
        st.sampled_from(["a", "b", "a", "b", "a.b", "b.a", "a.0"]),
        st.sampled_from(["auto", "auto", "json", "double", "int64", "string"]) | st.sampled_from(sorted(COLUMN_TYPES)),
    ),
    unique_by=lambda spec: spec.path,
    max_size=3,
)
"""Columns that may be declared, of types that are often wrong."""


@st.composite
def _collections(draw: st.DrawFn) -> list[Values]:
    """Documents of distinct ids whose fields `a` and `b` have each a family of values, with exceptions."""
    families = {name: draw(st.sampled_from(FAMILIES)) for name in ("a", "b")}
    ids = draw(st.sampled_from([range(20), [f"k{number:02}" for number in range(20)], [0, 1.5, "x", "y", 2, b"z"]]))
    documents = []
    for identity in draw(st.lists(st.sampled_from(list(ids)), unique=True, max_size=9)):
        document: Values = {"_id": identity}
        for name, family in families.items():
            fate = draw(st.integers(0, 9))
            if fate:
                document[name] = draw(SMALL_VALUES) if fate == 1 else None if fate == 2 else draw(family)
        documents.append(document)
    return documents


COLLECTIONS: SearchStrategy[list[Values]] = _collections()


@dataclass(frozen=True)
class Way:
    """How documents become portions."""

    columns: tuple[ColumnSpec, ...] = ()
    """Those that are declared."""
    tail: int = 0
    """How many documents are still in the log; the others are in blocks."""
    is_stored: bool = True
    """Whether there are blocks at all; otherwise rows in memory are encoded, as many at a time as `step`."""
    step: int = 100


STORED = Way()
WAYS: SearchStrategy[Way] = st.builds(
    Way,
    COLUMNS.map(tuple),
    st.integers(0, 3),
    st.integers(0, 7).map(lambda chance: chance == 0),
    st.sampled_from([2, 5, 100]),
)


def make_portions(documents: Sequence[Values], names: Iterable[str], way: Way = STORED) -> list[Portion]:
    """The portions of a scan in order of id."""
    if not way.is_stored:
        return _encoded(sorted(documents, key=lambda document: encode_key(document["_id"])), set(names), way)
    layers = Layers(block_target=200)
    tail = min(way.tail, len(documents))
    stored = documents[: len(documents) - tail]
    if stored:
        layers.run(stored, way.columns)
    if tail:
        layers.change(documents[len(stored) :])
    return list(scan_columns(layers.view(), sorted(names)))


def _encoded(documents: Sequence[Values], names: set[str], way: Way) -> list[Portion]:
    specs = {spec.path: spec for spec in way.columns}
    wanted = ColumnRequest(
        {name: specs.get(name) or ColumnSpec(name) for name in sorted(names - {"_id", DOCUMENT})},
        with_ids="_id" in names,
        with_documents=DOCUMENT in names,
    )
    rows = [StoredVersion(encode(document["_id"]), 1, 1, encode_document(document)) for document in documents]
    steps = range(0, len(rows), way.step)
    return [portion for start in steps for portion in encode_rows(rows[start : start + way.step], wanted)]


def make_portion(documents: Sequence[Values], names: Iterable[str], way: Way = STORED) -> Portion:
    """The same as one portion; there is at least one document."""
    return join_portions(make_portions(documents, names, way))
