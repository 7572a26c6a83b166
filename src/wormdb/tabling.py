"""What a query finds as one Arrow table, with the types that `Collection.to_arrow` gives the same values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wormdb.api.arrow import declared_type, default_columns
from wormdb.api.columns import ArrowColumn
from wormdb.bql.projection import Branch, Whole
from wormdb.bql.projection_parse import parse_projection
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.engine.state.view import Held
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from wormdb.api.read import AnyState
    from wormdb.bql.projection import Part, Projection
    from wormdb.engine.blocks.portion import Portion
    from wormdb.query.execute.answer import Hit
    from wormdb.query.request import Request

__all__ = ["table_of"]


def table_of(state: AnyState[Any], request: Request) -> pa.Table:
    """The rows of a request: the columns of its projection, else those of the model, else `id` and `doc`.

    Costs what the plan costs; documents are not read if columns tell everything.
    """
    import pyarrow as pa

    named = _named(request.projection) or default_columns(state.model)
    paths = list(named.values())
    if request.projection is None and DOCUMENT not in paths:
        request = replace(request, projection=parse_projection(_outermost(paths)))
    gathered = {
        name: ArrowColumn(path, declared_type(state.model, path)) for name, path in named.items() if path != DOCUMENT
    }
    texts: list[pa.Array] = []
    for portion in _portions(state, request, paths):
        for column in gathered.values():
            column.add(portion)
        if DOCUMENT in paths:
            texts += portion.table.column(DOCUMENT).chunks
    return pa.table(
        {
            name: gathered[name].finish() if name in gathered else pa.chunked_array(texts, pa.large_string())
            for name in named
        }
    )


def _portions(state: AnyState[Any], request: Request, paths: list[str]) -> Iterator[Portion]:
    projection = request.projection
    is_told = projection is not None and projection.mode == "include" and _is_whole(projection.parts)
    for some in state.tabulate(request, paths if is_told else ()):
        if isinstance(some, list):
            yield from state.portions((_held(hit, projection) for hit in some), paths)
        else:
            yield some


def _held(hit: Hit, projection: Projection | None) -> Held:
    """A row as it would be stored if it were the whole document."""
    if hit.held is not None and projection is None:
        return hit.held
    return Held(json.encode(hit.document.get("_id")), 0, 0, json.encode_document(hit.document))


def _named(projection: Projection | None) -> dict[str, str] | None:
    """By name the columns of a selection, the id first; None if it only leaves something out."""
    if projection is None or projection.mode == "exclude":
        return None
    paths = sorted(_paths(projection.parts, ""), key=lambda path: path != "_id")
    return {(path[1:] if path.split(".")[0] == "_id" else path): path for path in paths}


def _paths(branch: Branch, prefix: str) -> Iterator[str]:
    for name, part in branch.parts.items():
        if isinstance(part, Branch):
            yield from _paths(part, f"{prefix}{name}.")
        else:
            yield prefix + name


def _is_whole(part: Part) -> bool:
    """Whether values are shown as they are, nothing cut out of arrays."""
    return all(map(_is_whole, part.parts.values())) if isinstance(part, Branch) else isinstance(part, Whole)


def _outermost(paths: Iterable[str]) -> list[str]:
    """Paths that are not within others."""
    known = set(paths)
    return sorted(path for path in known if not any(path.startswith(f"{other}.") for other in known))
