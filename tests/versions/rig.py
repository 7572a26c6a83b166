"""What the tests of versions share: processes with older and newer models, and mappings written twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.engine.sweeps.commits import World, world_of
from wormdb.api.database import Database
from wormdb.schema.load import load_schema
from wormdb.settings import Settings
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.schema.model import Schema
    from wormdb.storage.store import Store

__all__ = ["Refused", "Step", "World", "database_on", "mapped", "schema_of", "shown"]

PATHS = ("a", "b", "n.x", "n.y", "n", "s")


def schema_of(version: int, **more: Any) -> Schema:
    """The model of a version: fields of any type, so that every document fits."""
    fields: dict[str, Any] = {name: {"type": "any", "description": f"version {version}"} for name in ("a", "b", "n")}
    model = {
        "path": "@things/(id:string)",
        "version": version,
        "softDelete": True,
        "fields": fields,
        "indexes": {"byA": {"field": "a"}, "byX": {"field": "n.x"}, "byB": {"fields": ["b", "a"]}},
    }
    return load_schema({"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Thing": model | more}})


def database_on(store: Store, schema: Schema | None, *, seed: int = 1, **settings: Any) -> Database:
    """A process that opens the bucket, with virtual time and one thread."""
    clock = world_of(store).manual
    options = {"forward": "manual", "commit_seconds": 30.0, "forward_interval_ms": 0, "block_bytes": 64 * 1024}
    return Database(
        MeteredStore(store, clock=clock),
        SerialPool(),
        settings=Settings(**{**options, **settings}),
        schema=schema,
        actor=None,
        clock=clock,
        chance=SeededChance(seed),
    )


def shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document without its times, and without an id."""
    return {name: value for name, value in document.items() if name not in {"id", "_id", "createdAt", "updatedAt"}}


# --- mappings, written without the code under test ---


class Refused(Exception):  # noqa: N818 - it is an answer
    """A document that cannot be mapped."""


@dataclass(frozen=True)
class Step:
    """One change of a mapping."""

    verb: str
    path: str
    value: Any = None


def update_of(steps: list[Step]) -> dict[str, Any]:
    """The mapping as a user writes it."""
    update: dict[str, Any] = {}
    for step in steps:
        update.setdefault(f"${step.verb}", {})[step.path] = step.value
    return update


def mapped(document: Mapping[str, Any], steps: list[Step]) -> dict[str, Any]:
    """What a mapping makes of a document; raises Refused."""
    found = {name: dict(value) if isinstance(value, dict) else value for name, value in document.items()}
    for step in steps:
        _apply(found, step)
    return found


def _place(document: dict[str, Any], path: str, *, makes: bool) -> tuple[dict[str, Any], str] | None:
    outer, _, inner = path.rpartition(".")
    if not outer:
        return document, inner
    if outer not in document:
        if not makes:
            return None
        document[outer] = {}
    if isinstance(document[outer], list):
        raise Refused(path)
    if not isinstance(document[outer], dict):
        if makes:
            raise Refused(path)
        return None
    return document[outer], inner


def _apply(document: dict[str, Any], step: Step) -> None:
    if step.verb == "rename":
        _rename(document, step)
        return
    place = _place(document, step.path, makes=step.verb != "unset")
    if place is None:
        return
    held, name = place
    match step.verb:
        case "set":
            held[name] = step.value
        case "unset":
            held.pop(name, None)
        case "inc":
            if not isinstance(held.get(name, 0), int):
                raise Refused(step.path)
            held[name] = held.get(name, 0) + step.value


def _rename(document: dict[str, Any], step: Step) -> None:
    place = _place(document, step.path, makes=False)
    if place is None or place[1] not in place[0]:
        return
    held, name = place
    target = _place(document, step.value, makes=True)
    assert target is not None
    target[0][target[1]] = held.pop(name)


@dataclass
class Thing:
    """What a model remembers of a document."""

    values: dict[str, Any] | None
    changes: int = 1
    trash: dict[str, Any] | None = field(default=None)
