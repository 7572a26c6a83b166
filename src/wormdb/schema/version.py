"""Versions of a model's fields: when there is a new one, and what it may be called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import MISSING

if TYPE_CHECKING:
    from wormdb.schema.difference import SchemaDifference
    from wormdb.schema.model import Field, Model

__all__ = ["check_version", "could_contradict", "has_same_fields", "next_version"]


def has_same_fields(before: Model, after: Model) -> bool:
    """Whether two models say the same of the fields of documents; descriptions count too. No requests."""
    return dict(before.fields) == dict(after.fields)


def next_version(current: int, before: Model | None, after: Model, *, is_mapped: bool) -> int:
    """The version of a model that follows one of version `current`: the same unless its fields are new. No requests."""
    if after.version is not None and after.version > current:
        return after.version
    is_new = is_mapped or (before is not None and not has_same_fields(before, after))
    return current + 1 if is_new else current


def check_version(current: int, before: Model, after: Model, *, is_mapped: bool) -> None:
    """Raise InvalidRequestError if a model cannot follow one of version `current`. No requests."""
    if after.version is None or after.version > current:
        return
    name = f"{after.name} version {after.version}"
    if after.version < current:
        raise InvalidRequestError(
            name, reason=f"the database has version {current} already", fix=f"call it version {current + 1}"
        )
    if is_mapped or not has_same_fields(before, after):
        raise InvalidRequestError(
            f"{name} is frozen",
            reason="a version that was applied never changes",
            fix=f"raise it to {current + 1}, and give a mapping if documents have to change",
        )


def could_contradict(before: Model, after: Model, changes: tuple[SchemaDifference, ...]) -> tuple[str, ...]:
    """Why documents of before may not fit a model that leaves them as they are: one sentence each. No requests."""
    found = dict.fromkeys(
        reason
        for name, field in after.fields.items()
        if (reason := _contradiction(name, before.fields.get(name), field)) is not None
    )
    inner = [
        f"{change.path}: {change.before} became {change.after}"
        for change in changes
        if change.kind == "changed" and change.path.endswith((".type", ".enum")) and change.path.count(".") > 4
    ]
    return (*found, *inner)


def _contradiction(name: str, before: Field | None, after: Field) -> str | None:
    old = "any" if before is None else before.type
    if after.type not in (old, "any"):
        return f"{name} was {old} and is {after.type}"
    if after.required and after.default is MISSING and (before is None or not before.required):
        return f"{name} is required: applying it is refused if a document lacks it"
    if after.enum is not None and (before is None or before.enum != after.enum):
        return f"{name} takes other values than before"
    return None
