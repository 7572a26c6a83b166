"""What differs between the stored definition of a model and the one a program brings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from wormdb.errors import InvalidRequestError, Problem, SchemaMismatchError
from wormdb.format import json
from wormdb.format.kinds import MISSING
from wormdb.schema.keys import TABLES, Key
from wormdb.schema.model import Field
from wormdb.schema.problems import join_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wormdb.schema.model import Model

__all__ = [
    "SchemaDifference",
    "breaks",
    "check_version",
    "compare_models",
    "could_contradict",
    "describe_mismatch",
    "has_same_fields",
    "next_version",
]


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """One difference: `before` is stored, `after` is wanted; None where there is none."""

    path: str
    kind: Literal["added", "removed", "changed"]
    before: Any
    after: Any

    def __str__(self) -> str:
        match self.kind:
            case "added":
                return f"{self.path}: added {_text(self.after)}"
            case "removed":
                return f"{self.path}: removed {_text(self.before)}"
            case "changed":
                return f"{self.path}: {_text(self.before)} → {_text(self.after)}"


def compare_models(stored: Model, wanted: Model) -> tuple[SchemaDifference, ...]:
    """Every change from `stored` to `wanted`, in the order of the canonical form; empty if they are equal.

    Settings that one side leaves out are compared by their default, so no change is only a matter of
    writing. No requests.
    """
    path = f"models.{wanted.name}"
    changes = list(_compare("model", stored.to_json(), wanted.to_json(), path))
    if stored.name != wanted.name:
        changes.insert(0, SchemaDifference(path, "changed", stored.name, wanted.name))
    return tuple(changes)


def describe_mismatch(stored: Model, wanted: Model) -> SchemaMismatchError:
    """The error for a program whose model differs from the stored one."""
    problems = [
        Problem(change.path, str(change).removeprefix(f"{change.path}: ")) for change in compare_models(stored, wanted)
    ]
    return SchemaMismatchError(f"model {wanted.name} differs from the database's", problems=problems)


def _compare(table: str, before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[SchemaDifference]:
    for key in TABLES[table]:
        old, new = before.get(key.name, MISSING), after.get(key.name, MISSING)
        place = join_path(path, key.name)
        if key.shape == "map":
            yield from _compare_map(key, {} if old is MISSING else old, {} if new is MISSING else new, place)
        elif key.shape == "object" and key.name != "items":
            yield from _compare(key.of, {} if old is MISSING else old, {} if new is MISSING else new, place)
        else:
            yield from _compare_value(_or_default(key, old), _or_default(key, new), place)


def _compare_map(key: Key, before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[SchemaDifference]:
    for name in dict.fromkeys([*before, *after]):
        place = join_path(path, name)
        if name in before and name in after:
            yield from _compare(key.of, before[name], after[name], place)
        else:
            yield from _compare_value(before.get(name, MISSING), after.get(name, MISSING), place)


def _compare_value(before: Any, after: Any, path: str) -> Iterator[SchemaDifference]:
    if _text(before) == _text(after):
        return
    if before is MISSING:
        yield SchemaDifference(path, "added", None, after)
    elif after is MISSING:
        yield SchemaDifference(path, "removed", before, None)
    else:
        yield SchemaDifference(path, "changed", before, after)


def _or_default(key: Key, value: Any) -> Any:
    if value is not MISSING or key.shape == "value":
        return value
    if key.shape == "switch":
        return False
    return MISSING if key.default is None or key.default == "" else key.default


def _text(value: Any) -> str:
    return "" if value is MISSING else msgspec.json.encode(value, order="sorted").decode()


# --- Versions of a model's fields: when there is a new one, and what it may be called.


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


# --- Whether documents that fit one model fit another, whatever they hold.

_WIDER = {("integer", "number")}
"""Types, and one that takes all of its values."""


def breaks(before: Model, after: Model) -> tuple[Problem, ...]:
    """Why a document that fits `before` may not fit `after`; none if every one does but for fields that are new.

    A field that is added may be in documents already, because undeclared fields are kept: only they can tell what it
    holds. A field that is dropped stays in them. No requests.
    """
    path = f"models.{after.name}"
    found: list[Problem] = []
    if str(before.path) != str(after.path) and not _takes_more_ids(before, after):
        found.append(Problem(f"{path}.path", f"{before.path} became {after.path}", "keep the type of the id"))
    found += _breaks_fields(before.fields, after.fields, f"{path}.fields")
    return tuple(found)


def _takes_more_ids(before: Model, after: Model) -> bool:
    """Whether only the type of the id became wider: any text, where it was a text of one kind."""
    old, new = before.path.id, after.path.id
    if old is None or new is None or new.type != "string" or old.type in {"any", "path"}:
        return False
    return str(replace(before.path, segments=(*before.path.segments[:-1], new))) == str(after.path)


def _breaks_fields(before: Mapping[str, Field], after: Mapping[str, Field], path: str) -> Iterator[Problem]:
    for name, field in after.items():
        place, old = join_path(path, name), before.get(name)
        if field.required and field.default is MISSING and (old is None or not old.required):
            reason = "is new and required" if old is None else "is required now"
            yield Problem(place, f"{reason}: documents may lack it", "give it a default")
        if old is not None:
            yield from _breaks_value(old, field, place)


def _breaks_value(before: Field, after: Field, path: str) -> Iterator[Problem]:
    """Why a value of one field may not be one of another."""
    if after.type not in (before.type, "any") and (before.type, after.type) not in _WIDER:
        yield Problem(path, f"was {before.type} and is {after.type}", "keep the type, or map documents to the new one")
        return
    known = None if before.enum is None else set(map(json.encode, before.enum))
    if after.enum is not None and (known is None or not known <= set(map(json.encode, after.enum))):
        yield Problem(path, "takes fewer values than before", "keep the values that documents may have")
    if after.items is not None:
        yield from _breaks_value(before.items or Field(), after.items, join_path(path, "items"))
    yield from _breaks_fields(before.properties, after.properties, join_path(path, "properties"))
