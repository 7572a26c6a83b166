"""Schemas: what is read comes back, and every mistake is found with its place."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schema.strategies import schemas
from wormdb.errors import SchemaError
from wormdb.format.values import Binary, Decimal128, ObjectId
from wormdb.schema.load import check_schema, load_model, load_schema
from wormdb.schema.model import SoftDelete
from wormdb.settings import SCHEMA_BYTES_MAX

FULL: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "storage": {"layout": "root", "snapshots": "inline"},
    "models": {
        "Customer": {
            "path": "#org/@customers/(id:uuid)/[profile].json",
            "mode": "readwrite",
            "oplog": True,
            "softDelete": True,
            "fields": {
                "name": {"type": "string", "required": True},
                "email": {"type": "string"},
                "status": {"type": "string"},
                "tags": {"type": "array"},
            },
            "snapshots": {"enabled": True, "every": 10, "maxAge": "30d", "maxCount": 50},
            "manifest": {
                "enabled": True,
                "fields": ["name", "email", "status", "tags"],
                "autoUpdate": True,
                "partitionThreshold": 10000,
                "maxPartitions": 16,
            },
            "indexes": {
                "byStatus": {"field": "status"},
                "byEmail": {"field": "email", "unique": True},
                "byTags": {"field": "tags", "type": "multiValue"},
            },
        }
    },
}
HEAD: dict[str, Any] = {"schemaVersion": "1.0", "sourceOfTruth": "local"}
PATH = "@things/(id:uuid)/[thing].json"


def problems_of(source: Any) -> list[tuple[str, str]]:
    return [(problem.severity, problem.path) for problem in check_schema(source).problems]


def of_model(**keys: Any) -> dict[str, Any]:
    return {**HEAD, "models": {"Thing": {"path": PATH, **keys}}}


def test_the_full_example_is_read_without_complaint() -> None:
    checked = check_schema(json.dumps(FULL))
    assert checked.problems == ()
    assert checked.schema is not None
    model = checked.schema.models["Customer"]
    assert (model.mode, model.oplog, model.files, model.id) == ("readwrite", True, True, "uuid")
    assert model.soft_delete == SoftDelete(enabled=True)
    assert model.indexes["byEmail"].unique
    assert model.indexes["byTags"].type == "multiValue"
    assert model.manifest_fields == ("name", "email", "status", "tags")
    assert model.columns == ("name", "email", "status", "tags", "createdAt", "updatedAt")
    assert (checked.schema.storage.layout_of("oplog"), checked.schema.storage.layout_of("snapshots")) == (
        "root",
        "inline",
    )


def test_defaults_are_those_of_the_seeds() -> None:
    model = load_schema(of_model()).models["Thing"]
    assert (model.mode, model.oplog, model.soft_delete.enabled, model.snapshots.enabled) == (
        "readwrite",
        False,
        False,
        False,
    )
    manifest = model.manifest
    assert (manifest.enabled, manifest.fields, manifest.auto_update) == (False, None, True)
    assert (manifest.partition_threshold, manifest.max_partitions) == (10_000, 16)


@given(schemas())
def test_canonical_form_round_trips(raw: dict[str, Any]) -> None:
    schema = load_schema(raw)
    again = load_schema(json.dumps(schema.to_json()))
    assert again == schema
    assert hash(again) == hash(schema)
    assert again.to_json() == schema.to_json()
    for name, model in schema.models.items():
        assert load_model(name, model.to_json()) == model


@given(schemas())
def test_order_of_keys_and_written_defaults_make_no_difference(raw: dict[str, Any]) -> None:
    def reordered(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        values = {"default", "enum", "views"}
        return {key: value[key] if key in values else reordered(value[key]) for key in reversed(value)}

    changed = copy.deepcopy(raw)
    for model in changed["models"].values():
        model.setdefault("mode", "readwrite")
        model.setdefault("oplog", False)
        for index in model["indexes"].values():
            index.setdefault("sparse", True)
    assert load_schema(reordered(changed)) == load_schema(raw)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"default": 1}, {"default": 1.0}),
        ({"default": 1}, {"default": True}),
        ({"default": None}, {}),
        ({"enum": [1]}, {"enum": [1, 2]}),
    ],
)
def test_definitions_differ_where_python_would_call_them_equal(a: dict[str, Any], b: dict[str, Any]) -> None:
    first, second = (load_schema(of_model(fields={"x": field})) for field in (a, b))
    assert first != second


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.just("email"),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3) | st.just("type"), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += places(item, (*path, key))
    return found


@given(schemas(), st.data())
def test_mutations_never_raise_anything_but_schema_errors(raw: dict[str, Any], data: st.DataObject) -> None:
    mutated: Any = copy.deepcopy(FULL if data.draw(st.booleans()) else raw)
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from(places(mutated) or [("models",)]))
        holder = mutated
        for key in way:
            holder = holder[key]
        if data.draw(st.booleans()):
            holder[last] = data.draw(JSON)
        elif isinstance(holder, dict) and data.draw(st.booleans()):
            holder[data.draw(st.text(max_size=4))] = holder.pop(last)
        else:
            del holder[last]
    checked = check_schema(mutated)
    if checked.schema is not None:
        assert load_schema(mutated) == checked.schema
        return
    with pytest.raises(SchemaError) as caught:
        load_schema(mutated)
    assert caught.value.problems == checked.errors
    assert len(str(caught.value).splitlines()) == 1


@given(st.text(max_size=30) | st.binary(max_size=30))
def test_any_text_is_read_or_refused(source: str | bytes) -> None:
    checked = check_schema(source)
    assert (checked.schema is None) == bool(checked.errors)


def test_every_mistake_is_reported_at_once_with_its_place_and_fix() -> None:
    raw = copy.deepcopy(FULL)
    model = raw["models"]["Customer"]
    model["softDelet"] = model.pop("softDelete")
    model["mode"] = "read-only"
    model["path"] = "#org/@customers/(id:uuuid)/[profile].json"
    model["fields"]["status"]["type"] = "strng"
    model["fields"]["tags"] = "array"
    model["indexes"]["byEmail"] = {"field": "emial", "uniqe": True}
    model["manifest"]["fields"][1] = "emails"
    model["snapshots"]["maxAge"] = "30 days"
    checked = check_schema(raw)
    assert {(problem.severity, problem.path): problem.fix for problem in checked.problems} == {
        ("error", "models.Customer.mode"): "did you mean 'readonly'?",
        ("error", "models.Customer.path"): "did you mean 'uuid'? or declare it in dynamicTypes",
        ("error", "models.Customer.fields.status.type"): "did you mean 'string'?",
        ("error", "models.Customer.fields.tags"): 'write {"type": "array"}',
        ("error", "models.Customer.indexes.byEmail.field"): "did you mean 'email'?",
        ("error", "models.Customer.indexes.byEmail.uniqe"): "did you mean 'unique'?",
        ("error", "models.Customer.manifest.fields.1"): "did you mean 'email'?",
        ("error", "models.Customer.snapshots.maxAge"): "write a number and one of s m h d w: 30d",
        ("warning", "models.Customer.softDelet"): "did you mean 'softDelete'?",
    }
    with pytest.raises(SchemaError, match=r"models\.Customer.*, and 7 more problems") as caught:
        load_schema(raw, name="shop/schema.json")
    assert str(caught.value).startswith("shop/schema.json: ")
    assert len(caught.value.problems) == 8


@pytest.mark.parametrize(
    ("model", "severity", "path"),
    [
        ({"path": ""}, "error", "path"),
        ({"path": 5}, "error", "path"),
        ({"path": "@things/(id:uuid)"}, "warning", "path"),
        ({"colour": "red"}, "warning", "colour"),
        ({"fields": {"a.b": {}}}, "error", "fields.a.b"),
        ({"fields": {"$a": {}}}, "error", "fields.$a"),
        ({"fields": {"_rev": {}}}, "error", "fields._rev"),
        ({"fields": {"id": {"type": "integer"}}}, "error", "fields.id"),
        ({"fields": {"a": {"type": "string", "default": 5}}}, "error", "fields.a.default"),
        ({"fields": {"a": {"type": "integer", "default": True}}}, "error", "fields.a.default"),
        ({"fields": {"a": {"enum": ["x", "y"], "default": "z"}}}, "error", "fields.a.default"),
        ({"fields": {"a": {"type": "integer", "enum": [1, "2"]}}}, "error", "fields.a.enum.1"),
        ({"fields": {"a": {"enum": []}}}, "error", "fields.a.enum"),
        ({"fields": {"a": {"default": {"$oops": 1}}}}, "error", "fields.a.default"),
        ({"fields": {"a": {"items": {}}}}, "error", "fields.a.items"),
        ({"fields": {"a": {"type": "array", "items": {"type": "sting"}}}}, "error", "fields.a.items.type"),
        ({"fields": {"a": {"properties": {"b": {}}}}}, "error", "fields.a.properties"),
        ({"fields": {"a": {"ref": "Thng"}}}, "error", "fields.a.ref"),
        ({"fields": {"a": {"type": "array", "items": {"ref": "No"}}}}, "error", "fields.a.items.ref"),
        ({"refs": {"a": {"model": "No"}}}, "error", "refs.a.model"),
        ({"refs": {"a": {}}}, "error", "refs.a.model"),
        ({"fields": {"b": {}}, "refs": {"a": {"model": "Thing", "field": "c"}}}, "error", "refs.a.field"),
        ({"fields": {"b": {}}, "refs": {"a": {"model": "Thing", "foreignKey": "c"}}}, "error", "refs.a.foreignKey"),
        (
            {"refs": {"a": {"model": "Thing", "through": {"model": "Thing", "target": "t"}}}},
            "error",
            "refs.a.through.foreignKey",
        ),
        ({"indexes": {"a": {}}}, "error", "indexes.a.field"),
        ({"indexes": {"a": {"field": "x", "fields": ["y"]}}}, "error", "indexes.a.fields"),
        ({"indexes": {"a": {"field": "x"}, "b": {"field": "x"}}}, "error", "indexes.b.field"),
        ({"indexes": {"a": {"field": "x..y"}}}, "error", "indexes.a.field"),
        ({"indexes": {"a": {"fields": ["x", "x"]}}}, "error", "indexes.a.fields.1"),
        ({"indexes": {"a": {"fields": ["x", "y"], "type": "multiValue"}}}, "error", "indexes.a.type"),
        ({"indexes": {"a": {"field": "x", "type": "compound"}}}, "error", "indexes.a.type"),
        ({"indexes": {"a": {"fields": ["x", "y"], "bsonType": "string"}}}, "error", "indexes.a.bsonType"),
        ({"indexes": {"a": {"field": "x", "bsonType": "int16"}}}, "error", "indexes.a.bsonType.0"),
        ({"indexes": {"a/b": {"field": "x"}}}, "error", "indexes.a/b"),
        (
            {"fields": {"x": {"type": "string"}}, "indexes": {"a": {"field": "x", "type": "multiValue"}}},
            "error",
            "indexes.a.type",
        ),
        ({"fields": {"x": {"type": "string"}}, "indexes": {"a": {"field": "x.y"}}}, "error", "indexes.a.field"),
        ({"snapshots": {"enabled": True, "every": 0}}, "error", "snapshots.every"),
        ({"snapshots": {"maxCount": 5}}, "warning", "snapshots.enabled"),
        ({"manifest": {"fields": []}}, "warning", "manifest.enabled"),
        ({"manifest": {"enabled": 1}}, "error", "manifest.enabled"),
        ({"softDelete": {"ttl": -1}}, "error", "softDelete.ttl"),
        ({"softDelete": "yes"}, "error", "softDelete"),
        ({"id": "uid"}, "error", "id"),
        ({"id": "ulid"}, "error", "id"),
        ({"path": "@a/(id:nope)/[a].json"}, "error", "path"),
        ({"dynamicTypes": {"a": "("}}, "error", "dynamicTypes.a"),
        ({"dynamicTypes": {"a": "(a+)+"}}, "error", "dynamicTypes.a"),
        ({"dynamicTypes": {"uuid": "[A-Z]"}}, "error", "path"),
        ({"path": "#a/[a].json", "indexes": {"a": {"field": "x"}}}, "warning", "indexes"),
        ({"path": "#a/[a].json", "manifest": {"enabled": True}}, "warning", "manifest"),
    ],
)
def test_mistakes_in_a_model(model: dict[str, Any], severity: str, path: str) -> None:
    assert problems_of(of_model(**model)) == [(severity, f"models.Thing.{path}")]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"models": {}}, [("warning", "schemaVersion"), ("warning", "sourceOfTruth")]),
        (HEAD, [("error", "models")]),
        ({**HEAD, "schemaVersion": "2.0", "models": {}}, [("error", "schemaVersion")]),
        ({**HEAD, "models": [], "storage": {"layout": "flat"}}, [("error", "storage.layout"), ("error", "models")]),
        ({**HEAD, "models": {}, "storage": {"layuot": "root"}}, [("error", "storage.layuot")]),
        ({**HEAD, "models": {}, "modles": {}}, [("warning", "modles")]),
        ({**HEAD, "models": {"a/b": {"path": PATH}}}, [("error", "models.a/b")]),
        ({**HEAD, "models": {}, "operators": {"auto": "uuid5"}}, [("error", "operators.auto")]),
        ({**HEAD, "models": {}, "symbols": {"namespace": "@"}}, [("error", "symbols")]),
        ({**HEAD, "models": {}, "symbols": {"dynamic": "("}}, [("error", "symbols.dynamic")]),
        ({**HEAD, "models": {}, "dynamicTypes": {"a b": "x"}}, [("error", "dynamicTypes.a b")]),
        (
            {**HEAD, "models": {"A": {"path": "x"}, "B": {"path": PATH, "refs": {"a": {"model": "A"}}}}},
            [("error", "models.A.path")],
        ),
        ({**HEAD, "models": {"A": {"path": PATH}, "B": {"path": PATH}}}, [("error", "models.B.path")]),
        (
            {**HEAD, "models": {"A": {"path": "#a/@x/(id:uuid)/[x].json"}, "B": {"path": "#b/@x/(id:uuid)/[x].json"}}},
            [("warning", "models.B.path")],
        ),
        ("", [("error", "")]),
        ("[]", [("error", "")]),
        (b"\xff{}", [("error", "")]),
        ('{"models": {}} x', [("error", "")]),
        ("[" * 100_000, [("error", "")]),
        ('{"models": {"A": {"fields": {"x": {"default": 1e999}}}}}', [("error", "")]),
        ('{"models": {"A": {"fields": {"x": {"default": NaN}}}}}', [("error", "")]),
        ('{"models": {"A": {"fields": {"x": {"default": 99999999999999999999}}}}}', [("error", "")]),
        ('{"models": {"A": {"description": "\\ud800"}}}', [("error", "")]),
        ('"' + "x" * SCHEMA_BYTES_MAX + '"', [("error", "")]),
        ({**HEAD, "models": {}, "views": {1: 2}}, [("error", "")]),
        ({**HEAD, "models": {}, "views": {"a": {1, 2}}}, [("error", "")]),
    ],
    ids=lambda value: str(value)[:40] if not isinstance(value, list) else "",
)
def test_mistakes_in_a_schema(schema: Any, expected: list[tuple[str, str]]) -> None:
    assert problems_of(schema) == expected


def test_invalid_json_has_a_position() -> None:
    (problem,) = check_schema('{"models": {\n  "A": }}').problems
    assert "line 2, column 8" in problem.reason


def test_a_key_that_occurs_twice_is_an_error_with_its_path() -> None:
    text = json.dumps(of_model())[:-2] + ', "mode": "append", "mode": "readonly"}}}'
    text = text.replace("}, ", ", ", 1)
    assert problems_of(text) == [("error", "models.Thing.mode")]


def test_a_mapping_inside_itself_ends() -> None:
    raw: dict[str, Any] = {"models": {}}
    raw["views"] = raw
    assert problems_of(raw) == [("error", "")]
    wide: dict[str, Any] = {}
    wide.update(dict.fromkeys("abcdef", wide))
    assert problems_of({"models": {}, "views": wide}) == [("error", "")]


def test_fields_nested_too_deep_are_refused() -> None:
    field: dict[str, Any] = {"type": "string"}
    for _ in range(110):
        field = {"type": "array", "items": field}
    (problem,) = check_schema(json.dumps(of_model(fields={"x": field}))).problems
    assert "nested deeper" in problem.reason


def test_dotted_names_reach_into_objects_arrays_and_any() -> None:
    fields = {
        "address": {"type": "object", "properties": {"city": {"type": "string"}}},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"price": {"type": "number"}}}},
        "free": {"type": "object"},
        "rest": {},
    }
    good = ["address.city", "lines.price", "free.a.b", "rest.x", "createdAt", "_id", "id"]
    assert problems_of(of_model(fields=fields, indexes={f"i{n}": {"field": name} for n, name in enumerate(good)})) == []
    assert problems_of(of_model(fields=fields, indexes={"a": {"field": "address.cty"}})) == [
        ("error", "models.Thing.indexes.a.field")
    ]
    model = load_schema(of_model(fields=fields)).models["Thing"]
    for dotted, kind in (("address.city", "string"), ("lines.price", "number")):
        field = model.field_at(dotted)
        assert field is not None
        assert field.type == kind
    assert model.field_at("free.a") is None


def test_values_of_defaults_are_those_of_their_type() -> None:
    fields = {
        "when": {"type": "datetime", "default": "2026-02-24T15:30:00+01:00"},
        "price": {"type": "decimal", "default": "1.50"},
        "owner": {"type": "objectid", "default": "65f0a1b2c3d4e5f60718293a"},
        "raw": {"type": "binary", "default": {"$binary": {"base64": "AQI=", "subType": "05"}}},
        "count": {"type": "integer", "default": 5.0},
    }
    model = load_schema(of_model(fields=fields)).models["Thing"]
    assert {name: field.default for name, field in model.fields.items()} == {
        "when": datetime(2026, 2, 24, 14, 30, tzinfo=UTC),
        "price": Decimal128("1.50"),
        "owner": ObjectId("65f0a1b2c3d4e5f60718293a"),
        "raw": Binary(b"\x01\x02", 5),
        "count": 5,
    }


def test_python_values_in_a_mapping_are_taken_too() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    model = load_schema(of_model(fields={"x": {"default": moment}})).models["Thing"]
    assert model.fields["x"].default == moment


def test_operators_name_strategies_and_models_are_complete_by_themselves() -> None:
    raw = {
        **HEAD,
        "operators": {"auto": "ulid"},
        "dynamicTypes": {"code": "^[A-Z0-9]+$", "unused": "x"},
        "models": {"Thing": {"path": "@things/(id:code)/[t].json", "id": "auto"}},
    }
    model = load_schema(raw).models["Thing"]
    assert (model.id, dict(model.dynamic_types)) == ("ulid", {"code": "^[A-Z0-9]+$"})
    assert load_model("Thing", model.to_json()) == model


def test_other_signs_give_the_same_canonical_path() -> None:
    symbols = {"namespace": "!", "collection": "$", "dynamic": "<>", "requiredFile": "{}"}
    raw = {**HEAD, "symbols": symbols, "models": {"Thing": {"path": "!org/$things/<id:uuid>/{thing}.json"}}}
    schema = load_schema(raw)
    assert str(schema.models["Thing"].path) == "#org/@things/(id:uuid)/[thing].json"
    assert load_schema(schema.to_json()) == schema


def test_unique_as_a_type_is_taken_as_the_seed_lists_it() -> None:
    index = load_schema(of_model(indexes={"a": {"field": "x", "type": "unique"}})).models["Thing"].indexes["a"]
    assert (index.type, index.unique) == ("standard", True)
    assert index.to_json() == {"field": "x", "unique": True}


def test_several_fields_make_a_compound_index() -> None:
    raw = {"fields": ["a", "b.c"], "bsonType": ["string", "Int64"]}
    index = load_schema(of_model(indexes={"i": raw})).models["Thing"].indexes["i"]
    assert (index.type, index.fields, index.bson_type) == ("compound", ("a", "b.c"), ("string", "int64"))
    assert index.to_json() == {"fields": ["a", "b.c"], "bsonType": ["string", "int64"]}


def test_keys_for_later_are_kept() -> None:
    later = {
        "views": {"a": 1},
        "paths": ["x"],
        "rules": {},
        "import": {"b": None},
        "generatedDir": "gen",
        "acl": {"c": []},
    }
    schema = load_schema({**HEAD, "$schema": "./schema.schema.json", "models": {}, **later})
    assert schema.to_json() == {**HEAD, "models": {}, "$schema": "./schema.schema.json", **later}


def test_load_model_lists_every_error() -> None:
    with pytest.raises(SchemaError, match="model Thing") as caught:
        load_model("Thing", {"mode": "x", "oplog": 1})
    assert [problem.path for problem in caught.value.problems] == [
        "models.Thing.path",
        "models.Thing.mode",
        "models.Thing.oplog",
    ]


@pytest.mark.parametrize(
    ("one", "two", "met"),
    [
        ("@things/(id:any)/[a].json", "@things/@settings/[a].json", "things/settings/a.json can be a document"),
        ("@things/(id:any)/[a].json", "@things/@settings/[b].json", None),
        ("#a/(t:any)/@users/(id:any)/[a].json", "#a/@b/@users/(id:any)/[b].json", "a/b/users/ can be a collection"),
        ("@things/(id:any)/[a].json", "@things/(id:any)/@parts/(part:any)/[a].json", None),
    ],
)
def test_nothing_can_lie_in_the_place_of_another_models(one: str, two: str, met: str | None) -> None:
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"One": {"path": one}, "Two": {"path": two}}}
    if met is None:
        assert set(load_schema(schema).models) == {"One", "Two"}
        return
    with pytest.raises(SchemaError) as refused:
        load_schema(schema)
    (problem,) = refused.value.problems
    assert problem.path == "models.Two.path"
    assert problem.reason == f"{met} of 'One' too"
