"""Whether every document can be mapped to a new version of its model: asked before the version is written."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from wormdb.errors import ConflictError, InvalidRequestError, Problem, WormError
from wormdb.format import json
from wormdb.format.event import JobAttached
from wormdb.schema.validate import validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wormdb.engine.state.upgrade import Upgrades
    from wormdb.engine.state.view import View
    from wormdb.schema.model import Model

__all__ = ["check_mapped", "check_since", "unfit"]

PROBLEMS_SHOWN: Final = 100


def unfit(model: Model, identity: bytes, document: bytes) -> Problem | None:
    """Why a document does not fit a model; None if it does. No requests."""
    try:
        validate(model, json.decode_document(document, name="document"))
    except InvalidRequestError as error:
        reasons = "; ".join(f"{one.path}: {one.reason}" for one in error.problems) or str(error)
        return Problem(f"document {identity.decode()}", reasons)
    return None


def check_mapped(model: Model, upgrades: Upgrades, seen: View) -> None:
    """Raise InvalidRequestError listing the first hundred documents of a state that cannot be mapped to a model.

    `upgrades` has the new mapping as its last. One scan: 1 GET for each block.
    """
    found = ((held.id, held.document) for _, held in seen.scan() if held.document is not None)
    _refuse(model, _problems(model, upgrades, found, seen.number))


def check_since(model: Model, upgrades: Upgrades, seen: View, view: View) -> None:
    """The same for what came after a state that was checked. No requests.

    Raises ConflictError if that cannot be told without reading: then all is checked again.
    """
    if view.base_number > seen.number:
        raise ConflictError(f"the version of {model.name}", reason="the log was brought forward meanwhile")
    entries = [entry for entry in view.overlay.entries(view.number) if entry.number > seen.number]
    if any(isinstance(event, JobAttached) for entry in entries for event in entry.events):
        raise ConflictError(f"the version of {model.name}", reason="a job brought documents meanwhile")
    changes = (change for entry in entries for batch in entry.batches for change in batch.changes)
    found = ((change.id, change.after) for change in changes if change.after is not None)
    _refuse(model, _problems(model, upgrades, found, seen.number))


def _problems(
    model: Model, upgrades: Upgrades, documents: Iterable[tuple[bytes, bytes]], since: int
) -> Iterator[Problem]:
    for identity, document in documents:
        try:
            problem = unfit(model, identity, upgrades.check(document, since))
        except WormError as error:
            problem = Problem(f"document {identity.decode()}", str(error))
        if problem is not None:
            yield problem


def _refuse(model: Model, problems: Iterator[Problem]) -> None:
    found = list(islice(problems, PROBLEMS_SHOWN))
    if found:
        raise InvalidRequestError(
            f"the mapping to the new version of {model.name}",
            problems=found,
            fix="change the mapping or the model, or migrate with a function; nothing was written",
        )
