"""The JSON Schema for editors: the same keys as the loader, and the packaged file is current."""

from __future__ import annotations

import dataclasses
import json
import re
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given

from tests.schema.strategies import schemas
from tests.schema.test_load import FULL
from wormdb.schema.editor import editor_schema, editor_text
from wormdb.schema.keys import TABLES
from wormdb.schema.load import check_schema
from wormdb.schema.model import (
    Field,
    IndexDefinition,
    ManifestDefinition,
    Model,
    RefDefinition,
    Schema,
    SnapshotDefinition,
    SoftDelete,
    StorageDefinition,
    ThroughDefinition,
)

SCHEMA = editor_schema()
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
}


def faults(rule: dict[str, Any], value: Any, path: str = "") -> list[str]:
    """A minimal judge of the words of JSON Schema that ours uses; any other word fails the test."""
    found: list[str] = []
    for word, operand in rule.items():
        match word:
            case "$schema" | "$defs" | "title" | "description" | "default":
                pass
            case "$ref":
                found += faults(SCHEMA["$defs"][operand.removeprefix("#/$defs/")], value, path)
            case "type":
                fits = isinstance(value, TYPES[operand]) and not (operand == "integer" and isinstance(value, bool))
                if not fits:
                    return [path]
            case "anyOf":
                found += [] if any(not faults(option, value, path) for option in operand) else [path]
            case _:
                found += inner_faults(word, operand, value, path)
    return found


def inner_faults(word: str, operand: Any, value: Any, path: str) -> list[str]:
    match word:
        case "enum":
            return [] if value in operand else [path]
        case "minimum":
            return [] if value >= operand else [path]
        case "pattern":
            return [] if re.search(operand, value) else [path]
        case "minItems":
            return [] if len(value) >= operand else [path]
        case "uniqueItems":
            return [] if len({*value}) == len(value) else [path]
        case "required":
            return [f"{path}.{name}" for name in operand if name not in value]
        case "properties":
            return [
                f
                for name, rule in operand.items()
                if name in value
                for f in faults(rule, value[name], f"{path}.{name}")
            ]
        case "additionalProperties":
            return [f for name, item in value.items() for f in faults(operand, item, f"{path}.{name}")]
        case "items":
            return [f for place, item in enumerate(value) for f in faults(operand, item, f"{path}.{place}")]
        case other:
            pytest.fail(f"the judge does not know {other!r}")


def test_the_packaged_file_is_current() -> None:
    packaged = (files("wormdb.schema") / "schema.schema.json").read_text()
    assert packaged == editor_text(), "run: make docs"
    assert json.loads(packaged) == SCHEMA


def test_it_knows_every_key_of_the_loader_and_no_other() -> None:
    known = {table: set(rule["properties"]) for table, rule in {**SCHEMA["$defs"], "schema": SCHEMA}.items()}
    assert known == {table: {key.name for key in keys} for table, keys in TABLES.items()}


def test_every_key_is_an_attribute_of_its_definition() -> None:
    """A key in the table that no definition holds would be read and then lost."""
    classes = {
        "schema": Schema,
        "storage": StorageDefinition,
        "model": Model,
        "field": Field,
        "ref": RefDefinition,
        "through": ThroughDefinition,
        "softDelete": SoftDelete,
        "snapshots": SnapshotDefinition,
        "manifest": ManifestDefinition,
        "index": IndexDefinition,
    }
    elsewhere = {"schema": {"symbols"}, "index": {"field"}}
    for table, kind in classes.items():
        keys = {key.attribute for key in TABLES[table] if key.shape != "kept"} - elsewhere.get(table, set())
        assert keys <= {field.name for field in dataclasses.fields(kind)}, table


def test_it_takes_the_full_example() -> None:
    assert faults(SCHEMA, FULL) == []


@given(schemas())
def test_it_takes_every_schema_without_errors(raw: dict[str, Any]) -> None:
    lowered = json.loads(json.dumps(raw).replace('"INT32"', '"int32"'))
    assert check_schema(raw).errors == ()
    assert faults(SCHEMA, lowered) == []


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ({}, ".path"),
        ({"path": "x", "mode": "rw"}, ".mode"),
        ({"path": "x", "softDelete": 5}, ".softDelete"),
        ({"path": "x", "fields": {"a": {"type": "text"}}}, ".fields.a.type"),
        ({"path": "x", "snapshots": {"maxAge": "30 d"}}, ".snapshots.maxAge"),
        ({"path": "x", "indexes": {"a": {"fields": "b"}}}, ".indexes.a.fields"),
    ],
)
def test_it_finds_what_the_loader_finds(model: dict[str, Any], path: str) -> None:
    raw = {"schemaVersion": "1.0", "models": {"A": model}}
    assert faults(SCHEMA, raw)[0] == f".models.A{path}"
    assert f"models.A{path}" in {problem.path for problem in check_schema(raw).errors}
