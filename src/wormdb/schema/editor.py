"""The JSON Schema of schema.json, for editors: made from the same table as the loader.

The packaged file `schema.schema.json` is written from it by `make docs`, and a test holds the two together.
"""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from wormdb.schema.keys import TABLES, Key

__all__ = ["editor_schema", "editor_text"]


def editor_schema() -> dict[str, Any]:
    """A JSON Schema (draft 2020-12) that takes every schema without errors in shape."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "wormdb schema.json",
        **_object("schema"),
        "$defs": {table: _object(table) for table in TABLES if table != "schema"},
    }


def editor_text() -> str:
    """The JSON Schema as the text of the packaged file."""
    return msgspec.json.format(msgspec.json.encode(editor_schema()), indent=2).decode() + "\n"


def _object(table: str) -> dict[str, Any]:
    keys = TABLES[table]
    made: dict[str, Any] = {"type": "object", "properties": {key.name: _property(key) for key in keys}}
    required = [key.name for key in keys if key.required]
    if required:
        made["required"] = required
    return made


def _property(key: Key) -> dict[str, Any]:
    made = {"description": key.text, **_shape(key)}
    if key.default is not None and key.default != "":
        made["default"] = key.default
    return made


def _shape(key: Key) -> dict[str, Any]:
    reference = {"$ref": f"#/$defs/{key.of}"}
    choice = {"type": "string", "enum": list(key.choices)}
    match key.shape:
        case "string":
            return {"type": "string"}
        case "choice":
            return choice
        case "boolean":
            return {"type": "boolean"}
        case "count":
            return {"type": "integer", "minimum": key.minimum}
        case "duration":
            return {"type": "string", "pattern": "^[1-9][0-9]{0,8}[smhdw]$"}
        case _:
            return _compound_shape(key, reference, choice)


def _compound_shape(key: Key, reference: dict[str, Any], choice: dict[str, Any]) -> dict[str, Any]:
    match key.shape:
        case "names" | "words":
            names = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
            return names if key.shape == "names" else {"anyOf": [{"type": "boolean"}, names]}
        case "types":
            return {"anyOf": [choice, {"type": "array", "items": choice}]}
        case "values":
            return {"type": "array", "minItems": 1}
        case "object":
            return reference
        case "switch":
            return {"anyOf": [{"type": "boolean"}, reference]}
        case "map":
            return {"type": "object", "additionalProperties": reference}
        case "texts":
            return {"type": "object", "additionalProperties": {"type": "string"}}
        case "value" | "kept":
            return {}
        case "string" | "choice" | "boolean" | "count" | "duration":
            raise AssertionError(key.shape)
        case _:
            assert_never(key.shape)
