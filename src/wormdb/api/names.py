"""Names of fields in a question that a declared model does not have, and probably was meant to have.

A document may have more fields than its model declares, so an unknown name alone is no mistake. One that is nearly a
declared one is: the question would find nothing, and no error would say why.
"""

from __future__ import annotations

import sys
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING

from wormdb.bql.tree import And, ElemMatch, Not, Or
from wormdb.errors import InvalidRequestError
from wormdb.schema.problems import find_nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wormdb.bql.tree import Filter
    from wormdb.format.path import Path
    from wormdb.query.change import Targets
    from wormdb.query.request import QueryRequest
    from wormdb.schema.model import Model
    from wormdb.settings import UnknownFieldChoice

__all__ = ["UnknownFieldWarning", "target_paths", "tell_unknown_fields", "tell_unknown_paths"]

_SYSTEM = ("_id", "id", "createdAt", "updatedAt")


class UnknownFieldWarning(UserWarning):
    """A question names a field that its model does not declare, and that is nearly one that it does."""


def tell_unknown_fields(model: Model, request: QueryRequest, choice: UnknownFieldChoice) -> None:
    """Warn of names in a filter, sort or selection that are nearly those of declared fields, or refuse them.

    Raises InvalidRequestError where the setting `unknown_fields` says so. No requests.
    """
    tell_unknown_paths(model, _paths(request), choice)


def tell_unknown_paths(model: Model | None, paths: Iterable[Path], choice: UnknownFieldChoice) -> None:
    """As `tell_unknown_fields`, for the paths of any other call. Nothing is told without a model. No requests."""
    if model is None or choice == "ignore":
        return
    for path in dict.fromkeys(paths):
        meant = _meant(model, path)
        if meant is None:
            continue
        what = f"a query of {model.name}"
        reason, fix = f"it names {'.'.join(path)!r}, which the model does not declare", f"did you mean {meant!r}?"
        if choice == "raise":
            raise InvalidRequestError(what, reason=reason, fix=fix)
        warnings.warn(f"{what}: {reason}: {fix}", UnknownFieldWarning, stacklevel=_depth())


def _depth() -> int:
    """How many calls above `warnings.warn` the caller of the library is."""
    frame, depth = sys._getframe(1), 1  # noqa: SLF001 - as `warnings` does it
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("wormdb."):
        frame, depth = frame.f_back, depth + 1
    return depth


def target_paths(targets: Targets) -> Iterator[Path]:
    """The paths that say which documents a call changes. No requests."""
    yield from _filtered(targets.filter)
    yield from (field.path for field in targets.sort.fields)


def _paths(request: QueryRequest) -> Iterator[Path]:
    yield from _filtered(request.filter)
    yield from (field.path for field in request.sort.fields)
    if request.near is not None:
        yield request.near.path
    if request.search is not None and request.search.fields is not None:
        yield from (field.path for field in request.search.fields.fields)
    if request.projection is not None:
        from wormdb.bql.projection import paths_of

        yield from (tuple(name.split(".")) for name in paths_of(request.projection.parts))


def _filtered(tree: Filter) -> Iterator[Path]:
    match tree:
        case And(filters) | Or(filters):
            for each in filters:
                yield from _filtered(each)
        case Not(inner):
            yield from _filtered(inner)
        case ElemMatch(path, inner):
            yield path
            yield from ((*path, *inside) for inside in _filtered(inner))
        case _:
            if below := getattr(tree, "path", None):
                yield below


@lru_cache(maxsize=4_096)
def _meant(model: Model, path: Path) -> str | None:
    """The declared name that a path was probably meant to be; None if it may be what it says."""
    names, known = model.fields, [*model.fields, *model.refs, *_SYSTEM, *(part.name for part in model.path.outer)]
    for place, name in enumerate(path):
        if name.isdigit():
            continue  # a position in an array
        if name not in known:
            nearest = find_nearest(name, known)
            return None if nearest is None else ".".join((*path[:place], nearest, *path[place + 1 :]))
        found = names.get(name)
        if found is None:
            return None
        inner = found.items if found.type == "array" and found.items is not None else found
        names, known = inner.properties, list(inner.properties)
        if not known:
            return None
    return None
