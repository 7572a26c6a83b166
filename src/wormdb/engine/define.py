"""Change a collection's definition: by a log entry, checked against the state it will rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.engine.definition import Definition
from wormdb.engine.operations import Pending
from wormdb.engine.unique import keys_of
from wormdb.errors import ConflictError, InvalidRequestError, Problem
from wormdb.format import json
from wormdb.format.event import SchemaChanged
from wormdb.types import LogNumber

if TYPE_CHECKING:
    from wormdb.engine.state import View
    from wormdb.index.definition import Index
    from wormdb.schema.model import Model

__all__ = ["change_definition", "duplicates"]

DUPLICATES_SHOWN = 100


def change_definition(batch_id: str, model: Model, *, seen: Definition, actor: str | None = None) -> Pending:
    """The batch that puts `model` in force, where `seen` was before.

    Its commit raises ConflictError if another definition came between, and InvalidRequestError listing all
    values that a new unique index finds more than once; nothing is written then.
    """

    def guard(view: View) -> None:
        if view.definition.body != seen.body:
            raise ConflictError(f"the definition of {model.name}", reason="somebody else changed it meanwhile")
        wanted = Definition.decode(model.canonical(), LogNumber(view.number + 1))
        known = set(view.definition.unique)
        problems = [problem for index in wanted.unique if index not in known for problem in duplicates(index, view)]
        if problems:
            raise InvalidRequestError(
                f"model {model.name}",
                problems=problems,
                fix="make the values different first, or drop the unique index",
            )

    return Pending(batch_id, events=(SchemaChanged(definition=model.canonical()),), actor=actor, guard=guard)


def duplicates(index: Index, view: View) -> list[Problem]:
    """Each value that several documents have in an index, with their ids; the first hundred."""
    owners: dict[bytes, list[bytes]] = {}
    shown: dict[bytes, object] = {}
    for _, held in view.scan():
        for key, value in keys_of(index, held.document).items():
            owners.setdefault(key, []).append(held.id)
            shown[key] = value
    several = [key for key, ids in owners.items() if len(ids) > 1]
    return [
        Problem(
            f"indexes.{index.name}",
            f"{index.label}={shown[key]!r} is on {len(owners[key])} documents: "
            + ", ".join(repr(json.decode(identity, name="document id")) for identity in owners[key][:10]),
        )
        for key in several[:DUPLICATES_SHOWN]
    ]
