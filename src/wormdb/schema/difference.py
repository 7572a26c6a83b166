"""What differs between the stored definition of a model and the one a program brings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from wormdb.errors import Problem, SchemaMismatchError
from wormdb.format.values import MISSING
from wormdb.schema.keys import TABLES, Key
from wormdb.schema.report import join_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.schema.model import Model

__all__ = ["SchemaDifference", "compare_models", "describe_mismatch"]


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
