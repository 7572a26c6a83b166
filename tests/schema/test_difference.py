"""Differences between definitions: complete, and none for what is only written differently."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from tests.schema.strategies import models
from wormdb.errors import SchemaMismatchError
from wormdb.schema.difference import SchemaDifference, compare_models, describe_mismatch
from wormdb.schema.load import load_model

PATH = "@things/(id:uuid)/[thing].json"


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    stored, wanted = (load_model("Thing", {"path": PATH, **keys}) for keys in (before, after))
    return [str(change) for change in compare_models(stored, wanted)]


def test_changes_read_as_sentences() -> None:
    before = {
        "fields": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "indexes": {"byName": {"field": "name"}},
        "manifest": {"enabled": True},
        "softDelete": True,
    }
    after = {
        "fields": {"name": {"type": "string", "required": True}, "email": {"type": "string"}},
        "indexes": {"byName": {"field": "name", "unique": True}, "byEmail": {"field": "email"}},
        "mode": "append",
        "softDelete": {"ttl": 30},
        "snapshots": {"enabled": True, "every": 5},
    }
    assert changes(before, after) == [
        "models.Thing.fields.name.required: false → true",
        'models.Thing.fields.age: removed {"type":"integer"}',
        'models.Thing.fields.email: added {"type":"string"}',
        'models.Thing.mode: "readwrite" → "append"',
        'models.Thing.softDelete: true → {"ttl":30}',
        "models.Thing.snapshots.enabled: false → true",
        "models.Thing.snapshots.every: added 5",
        "models.Thing.manifest.enabled: true → false",
        "models.Thing.indexes.byName.unique: false → true",
        'models.Thing.indexes.byEmail: added {"field":"email"}',
    ]


def test_values_are_compared_by_type() -> None:
    assert changes({"fields": {"x": {"default": 1}}}, {"fields": {"x": {"default": True}}}) == [
        "models.Thing.fields.x.default: 1 → true"
    ]
    assert changes({"fields": {"x": {"default": None}}}, {"fields": {"x": {}}}) == [
        "models.Thing.fields.x.default: removed null"
    ]


def test_another_path_and_another_name() -> None:
    stored = load_model("A", {"path": "@a/(id:uuid)/[a].json"})
    wanted = load_model("B", {"path": "@b/(id:ulid)"})
    assert compare_models(stored, wanted) == (
        SchemaDifference("models.B", "changed", "A", "B"),
        SchemaDifference("models.B.path", "changed", "@a/(id:uuid)/[a].json", "@b/(id:ulid)"),
    )


@given(models(), models())
def test_no_difference_exactly_when_equal(a: dict[str, Any], b: dict[str, Any]) -> None:
    types = {"code": "[A-Z]+"}
    first, second = (load_model("M", {**raw, "dynamicTypes": types}) for raw in (a, b))
    assert (compare_models(first, second) == ()) is (first == second)
    assert compare_models(first, first) == ()
    there = {change.path: (change.before, change.after) for change in compare_models(first, second)}
    assert {change.path: (change.after, change.before) for change in compare_models(second, first)} == there


def test_the_error_lists_the_changes_and_the_way_out() -> None:
    error = describe_mismatch(
        load_model("T", {"path": PATH}), load_model("T", {"path": PATH, "oplog": True, "mode": "append"})
    )
    assert isinstance(error, SchemaMismatchError)
    assert [problem.path for problem in error.problems] == ["models.T.mode", "models.T.oplog"]
    assert 'models.T.mode: "readwrite" → "append", and 1 more problem' in str(error)
    assert "worm schema apply" in str(error)
