"""Models from data: the data fits them, and they say no more than the data does."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from bson import Decimal128, ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from wormdb.api.records import Record, read_records
from wormdb.format import json
from wormdb.schema.infer import Inference
from wormdb.schema.load import check_schema
from wormdb.testing.strategies import field_names, values

if TYPE_CHECKING:
    from wormdb.schema.model import Schema


def inferred(*documents: dict[str, Any], **options: Any) -> dict[str, Any]:
    inference = Inference(**options)
    for document in documents:
        inference.see(document)
    return inference.model("@things")


def from_rows(*rows: dict[str, str], **options: Any) -> dict[str, Any]:
    inference = Inference(**options)
    for row in rows:
        inference.see_cells(row)
    return inference.model("@things")


def schema_of(model: dict[str, Any]) -> Schema:
    checked = check_schema({"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Thing": model}})
    assert checked.problems == ()
    assert checked.schema is not None
    return checked.schema


# --- the same data is imported without rejects ---


moments = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)).map(datetime.isoformat)  # noqa: DTZ001 - text without a zone
times = st.sampled_from(["2026-01-01", "2026-01-01T10:00Z", "2026-02-30", "20260101", "2026-W01-1", "10:00"]) | moments
found = values() | times | st.lists(times, max_size=3) | st.dictionaries(st.sampled_from("ab"), times, max_size=2)
names = field_names().filter(lambda name: name not in {"_id", "id"})
bodies = st.dictionaries(names | st.sampled_from(["createdAt", "updatedAt", "_rev"]), found, max_size=4)
given_ids = st.one_of(
    st.none(),
    st.text("abc/é%.", min_size=1, max_size=5),
    st.integers(-3, 3),
    st.uuids().map(str),
    st.just("0000000007"),
)


@settings(max_examples=25)
@given(st.lists(bodies, max_size=6), st.lists(given_ids, max_size=6, unique_by=repr), st.booleans())
def test_documents_fit_the_model_made_of_them(bodies: list[dict[str, Any]], ids: list[Any], enums: bool) -> None:
    pairs = zip(bodies, [*ids, *[None] * len(bodies)], strict=False)
    data = b"\n".join(json.encode(body if name is None else {"id": name, **body}) for body, name in pairs)
    records = list(read_records(io.BytesIO(data), "ndjson"))
    assert all(record.values is not None for record in records)
    model = inferred(*(record.values or {} for record in records), enums=enums)
    rejected: list[Any] = []
    with wormdb.connect("memory://", schema=schema_of(model)) as database:
        result = database.model("Thing").import_records(records, rejected=rejected.append)
    assert rejected == []
    assert result.inserted == len(bodies)


texts = st.sampled_from(["", "5", "-1.5", "007", "true", "2026-01-01", "[1]", '{"a": 1}', "{", "x", "NaN", "1e5"])
rows = st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(("a", "b", "c.d", "c.e", "createdAt"), texts)))


@settings(max_examples=25)
@given(rows, st.booleans())
def test_rows_of_text_fit_the_model_made_of_them(rows: list[dict[str, str]], enums: bool) -> None:
    rejected: list[Any] = []
    with wormdb.connect("memory://", schema=schema_of(from_rows(*rows, enums=enums))) as database:
        records = [Record(line, dict(row), is_text=True) for line, row in enumerate(rows, 1)]
        result = database.model("Thing").import_records(records, rejected=rejected.append)
    assert rejected == []
    assert result.inserted == len(rows)


# --- what it says ---


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        ([1, 2], "integer"),
        ([1, 2.5], "number"),
        ([1, Decimal128("1")], "number"),
        ([Decimal128("1")], "decimal"),
        (["a"], "string"),
        (["2026-01-01", "2026-01-01T10:00:00.123+02:00"], "datetime"),
        (["2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)], "datetime"),
        (["2026-01-01T10:00:00.123456Z"], "string"),
        (["2026-01-01", "x"], "string"),
        (["20260101"], "string"),
        (["x", datetime(2026, 1, 1, tzinfo=UTC)], "any"),
        ([True], "boolean"),
        ([True, 1], "any"),
        ([ObjectId()], "objectid"),
        ([b"x"], "binary"),
        ([[]], "array"),
        ([{}], "object"),
        ([[], {}], "any"),
        ([None], "any"),
    ],
)
def test_types(seen: list[Any], kind: str) -> None:
    assert inferred(*({"a": value} for value in [*seen, None]))["fields"]["a"] == {"type": kind}
    assert inferred(*({"a": value} for value in seen))["fields"]["a"].get("required", False) is (seen != [None])


@pytest.mark.parametrize(
    ("seen", "definition"),
    [
        (["5", "6"], {"type": "integer", "required": True}),
        (["5", ""], {"type": "integer"}),
        (["x", ""], {"type": "string", "required": True}),
        (["5", "x"], {"type": "string", "required": True}),
        (["007", "5"], {"type": "string", "required": True}),
        (["true", "false"], {"type": "boolean", "required": True}),
        (["1", "1.5"], {"type": "number", "required": True}),
        (["[1]", "[]"], {"type": "array", "required": True, "items": {"type": "integer"}}),
        (["[1]", "5"], {"type": "string", "required": True}),
        (["", ""], {"type": "string", "required": True}),
    ],
)
def test_types_of_cells(seen: list[str], definition: dict[str, Any]) -> None:
    assert from_rows(*({"a": text} for text in seen))["fields"]["a"] == definition


def test_values_and_cells_of_one_field_are_text_only_if_both_are() -> None:
    inference = Inference()
    inference.see({"a": 5, "b": "x"})
    inference.see_cells({"a": "x", "b": "y"})
    fields = inference.model("@things")["fields"]
    assert [fields[name]["type"] for name in "ab"] == ["any", "string"]


def test_what_is_inside() -> None:
    model = inferred(
        {"a": {"x": 1, "y": {"z": "2026-01-01"}}, "l": [{"n": 1}, {"n": 2, "m": "t"}]},
        {"a": {"x": 2}, "l": [None]},
    )
    assert model["fields"] == {
        "a": {
            "type": "object",
            "required": True,
            "properties": {
                "x": {"type": "integer", "required": True},
                "y": {"type": "object", "properties": {"z": {"type": "datetime", "required": True}}},
            },
        },
        "l": {
            "type": "array",
            "required": True,
            "items": {
                "type": "object",
                "properties": {"n": {"type": "integer", "required": True}, "m": {"type": "string"}},
            },
        },
    }
    schema_of(model)


def test_dotted_columns_are_fields_of_objects() -> None:
    model = from_rows({"a.x": "1", "a.y": "t"}, {"a.x": "2"})
    assert model["fields"] == {
        "a": {
            "type": "object",
            "properties": {"x": {"type": "integer", "required": True}, "y": {"type": "string"}},
        }
    }


def test_texts_are_allowed_values_only_when_asked() -> None:
    documents = [{"s": text, "n": str(number)} for number, text in enumerate(["open", "paid", "open", "open"])]
    assert "enum" not in inferred(*documents)["fields"]["s"]
    fields = inferred(*documents, enums=True)["fields"]
    assert fields["s"]["enum"] == ["open", "paid"]
    assert "enum" not in fields["n"], "all are different"
    assert from_rows({"a": "5"}, {"a": "x"}, {"a": "5"}, {"a": "x"}, enums=True)["fields"]["a"]["enum"] == ["5", "x"]


def test_times_of_the_database_are_declared_only_if_they_are_none() -> None:
    assert inferred({"createdAt": "2026-01-01", "updatedAt": 5})["fields"] == {
        "updatedAt": {"type": "integer", "required": True}
    }


@pytest.mark.parametrize(
    ("ids", "path", "strategy"),
    [
        ([None, None], "ulid", None),
        (["a", "b"], "string", None),
        (["a", None], "string", "ulid"),
        (["a", ""], "string", "ulid"),
        ([1, 2], "any", None),
        ([1, "a"], "any", None),
        ([1, None], "any", "ulid"),
        (["6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28"], "uuid", None),
        (["6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28", None], "uuid", None),
        (["01HV5Q8ZJ4N7XKTR2MDWE9GYBC"], "ulid", None),
        (["65f0a1b2c3d4e5f60718293a"], "objectid", None),
        (["0000000042"], "seq", None),
        (["42"], "string", None),
    ],
)
def test_ids(ids: list[Any], path: str, strategy: str | None) -> None:
    model = inferred(*({"id": identity, "n": 1} for identity in ids))
    assert (model["path"], model.get("id")) == (f"@things/(id:{path})/[data].json", strategy)
    assert list(model["fields"]) == ["n"]
    schema_of(model)
    assert inferred(*({"key": identity} for identity in ids), id_field="key")["path"] == model["path"]


def test_maps_and_deep_nests_are_not_spelled_out() -> None:
    wide = inferred({"a": {f"k{number}": 1 for number in range(2_000)}})
    assert wide["fields"]["a"] == {"type": "object", "required": True}
    deep: dict[str, Any] = {"x": 1}
    for _ in range(60):
        deep = {"x": deep}
    schema_of(inferred(deep))
    assert len(inferred({f"k{number}": 1 for number in range(2_000)})["fields"]) == 1_000
