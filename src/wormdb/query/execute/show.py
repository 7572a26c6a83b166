"""Rows as they are handed out: whole documents, or what a projection shows of them.

Columns alone give what a projection shows of the whole document, or the document is asked: where a path crosses an
array, and where nothing is known of an embedded document but that fields of it are missing. Fields are shown in the
order of the projection, the id first, wherever they were read from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.positions import compile_positions
from wormdb.bql.projection import Branch, FirstMatch, Whole, fields_needed, project
from wormdb.format import json
from wormdb.format.kinds import MISSING
from wormdb.format.path import TRAVERSED
from wormdb.query.columns.order import sort_paths
from wormdb.query.execute.order import order_keys
from wormdb.query.execute.rows import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from wormdb.bql.projection import Part, Projection
    from wormdb.bql.sorting import SortSpec
    from wormdb.engine.blocks.portion import Portion
    from wormdb.engine.state.view import Held
    from wormdb.format.kinds import Document
    from wormdb.format.path import Path
    from wormdb.query.execute.rows import Batch, Documents, Known
    from wormdb.query.request import Request

__all__ = ["Hit", "Showing"]

SHOWN_AT_ONCE: Final = 1_024
"""Rows that are decoded together."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One row of an answer."""

    places: Places
    row: int
    """Its number among them."""
    held: Held | None
    """What is stored; None if the request has a projection."""
    document: Document
    """Normalized: projected if the request has a projection, otherwise whole."""

    @property
    def key(self) -> bytes:
        """The key of its id."""
        return self.places.keys[self.row]

    @property
    def order(self) -> bytes:
        """Its sort key (`wormdb.bql.sorting.sort_key`): the place of the row, for page tokens."""
        return self.places.orders[self.row]


class Places:
    """Where some rows stand, found out when that of the first is wanted: most answers are never gone on with."""

    def __init__(self, batch: Known, sort: SortSpec) -> None:
        """Nothing is made yet."""
        self._batch = batch
        self._sort = sort

    @cached_property
    def keys(self) -> Sequence[bytes]:
        """The keys of the ids."""
        return self._batch.keys

    @cached_property
    def orders(self) -> Sequence[bytes]:
        """The sort keys."""
        return order_keys(self._batch, self._sort)


class Showing:
    """Makes the rows of one answer."""

    def __init__(self, request: Request, fetch: Callable[[Batch], Documents]) -> None:
        """`fetch` gives the documents of rows, in their order, without those that do not exist. No requests."""
        self._sort = request.sort
        self._sort_paths = sort_paths(request.sort)
        self._fetch = fetch
        self._projected = None if request.projection is None else _Projected(request.projection, request)

    def hits(self, batch: Batch) -> Iterator[Hit]:
        """The rows of a batch. Costs a fetch of those of which columns do not tell enough."""
        # A batch may be a whole block: decoded, its documents are many times as large as they are stored.
        for start in range(0, len(batch), SHOWN_AT_ONCE):
            yield from self._some(batch.cut(start, min(start + SHOWN_AT_ONCE, len(batch))))

    def _some(self, batch: Batch) -> Iterator[Hit]:
        projected = self._projected
        if projected is None:
            yield from self._whole(self._fetch(batch))
        elif isinstance(batch, Columns) and projected.paths and batch.covers((*projected.paths, *self._sort_paths)):
            yield from self._by_columns(batch, projected)
        else:
            found = self._fetch(batch)
            places = Places(found, self._sort)
            for row, document in enumerate(found.documents):
                yield Hit(places, row, None, projected.of_document(document))

    def _whole(self, found: Documents) -> Iterator[Hit]:
        assert found.helds is not None, "versions are read with whole documents"
        return map(Hit, repeat(Places(found, self._sort)), count(), found.helds, found.documents)

    def _by_columns(self, batch: Columns, projected: _Projected) -> Iterator[Hit]:
        places = Places(batch, self._sort)
        if projected.plain:
            rows = zip(*map(batch.portion.values, projected.plain), strict=True)
            for row, values in enumerate(rows):
                found = zip(projected.plain, values, strict=True)
                yield Hit(places, row, None, {name: value for name, value in found if value is not MISSING})
            return
        assembled = list(_assembled(batch.portion, projected.paths))
        vague = [
            row
            for row, (document, is_stored) in enumerate(assembled)
            if not is_stored and not _is_told(projected.branch, document)
        ]
        if vague:
            asked = self._fetch(batch.pick(vague))
            for row, document in zip(vague, asked.documents, strict=True):
                assembled[row] = document, True
        for row, (document, _) in enumerate(assembled):
            yield Hit(places, row, None, projected.of_document(document))


class _Projected:
    """A projection, and what it needs."""

    def __init__(self, projection: Projection, request: Request) -> None:
        self._projection = projection
        self._positions = compile_positions(request.filter, projection.arrays)
        self.branch = projection.parts
        needed = None if projection.arrays else fields_needed(projection)
        self.paths: Sequence[str] = sorted(needed or ())
        """What columns must tell; nothing if they cannot tell enough."""
        parts = projection.parts.parts
        is_plain = self.paths and all(isinstance(part, Whole) for part in parts.values())
        self.plain: Sequence[str] = _in_order(parts) if is_plain else ()
        """The fields, if they are shown whole and are no parts of others."""

    def of_document(self, document: Document) -> Document:
        projection = self._projection
        matched = self._positions(document) if projection.arrays else None
        shown = project(projection, document, matched=matched)
        return _arranged(self.branch, shown) if projection.mode == "include" else shown


def _assembled(portion: Portion, paths: Sequence[str]) -> Iterator[tuple[Document, bool]]:
    """For each row a document that at `paths` has what the stored one has there.

    Where a path crosses an array it is the stored one, and the flag beside it is true.
    """
    parts = [tuple(path.split(".")) for path in paths]
    for row, values in enumerate(zip(*map(portion.values, paths), strict=True)):
        if TRAVERSED in values:
            yield json.decode_document(portion.documents([row])[0], name="document"), True
        else:
            yield _nested(zip(parts, values, strict=True)), False


def _nested(values: Iterable[tuple[Path, Any]]) -> Document:
    document: Document = {}
    for path, value in values:
        if value is not MISSING:
            inner: Any = document
            for segment in path[:-1]:
                inner = inner.setdefault(segment, {})
            inner[path[-1]] = value
    return document


def _is_told(branch: Branch, document: Document) -> bool:
    """Whether a document made of columns shows what the stored one would: of a part without fields nobody knows."""
    inner = ((part, document.get(name)) for name, part in branch.parts.items() if isinstance(part, Branch))
    return all(type(value) is dict and _is_told(part, value) for part, value in inner)


def _arranged(branch: Branch, shown: Document) -> Document:
    """The same fields in the order of the projection: the id first, and those of $elemMatch last."""
    parts = branch.parts
    return {name: _arranged_value(parts[name], shown[name]) for name in _in_order(parts) if name in shown}


def _in_order(parts: Mapping[str, Part]) -> list[str]:
    return sorted(parts, key=lambda name: name != "_id" and 1 + isinstance(parts[name], FirstMatch))


def _arranged_value(part: Any, value: Any) -> Any:
    if not isinstance(part, Branch):
        return value
    if type(value) is list:
        return [_arranged_value(part, element) for element in value]
    return _arranged(part, value) if type(value) is dict else value
