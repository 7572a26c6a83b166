"""Documents against their model: defaults, ids, types, and all problems at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import InvalidRequestError, ValidationError
from wormdb.format.values import Binary, Decimal128, Document, ObjectId
from wormdb.schema.load import load_model
from wormdb.schema.path import SINGLETON_ID
from wormdb.schema.validate import new_document, validate
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from wormdb.schema.model import Model

ID = "6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28"


def model_of(fields: dict[str, Any] | None = None, path: str = "@things/(id:uuid)/[t].json", **keys: Any) -> Model:
    return load_model("Thing", {"path": path, "fields": fields or {}, **keys})


def make(model: Model, data: dict[str, Any], seed: int = 1) -> Document:
    return new_document(model, data, clock=ManualClock(), chance=SeededChance(seed))


def problems_of(model: Model, document: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        validate(model, document)
    assert all(problem.reason and problem.fix for problem in caught.value.problems)
    return [problem.path for problem in caught.value.problems]


MOMENT = datetime(2026, 2, 24, 14, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        ("string", "x", "x"),
        ("number", 1, 1),
        ("number", 1.5, 1.5),
        ("number", Decimal128("1.5"), Decimal128("1.5")),
        ("integer", 5, 5),
        ("integer", 5.0, 5),
        ("boolean", False, False),
        ("datetime", MOMENT, MOMENT),
        ("datetime", "2026-02-24T14:30:00Z", MOMENT),
        ("datetime", "2026-02-24T15:30:00.000999+01:00", MOMENT),
        ("datetime", datetime(2026, 2, 24, 16, 30, tzinfo=timezone(timedelta(hours=2))), MOMENT),
        ("array", [1, "a"], [1, "a"]),
        ("array", (1,), [1]),
        ("object", {"a": 1}, {"a": 1}),
        ("any", {"a": [None]}, {"a": [None]}),
        ("decimal", Decimal("1.50"), Decimal128("1.50")),
        ("decimal", "1.50", Decimal128("1.50")),
        ("decimal", 3, Decimal128("3")),
        ("binary", b"x", b"x"),
        ("binary", Binary(b"x", 5), Binary(b"x", 5)),
        ("objectid", "65f0a1b2c3d4e5f60718293a", ObjectId("65f0a1b2c3d4e5f60718293a")),
        *((kind, None, None) for kind in ("string", "integer", "datetime", "array", "object", "decimal")),
    ],
)
def test_values_that_fit_are_stored_in_their_type(kind: str, value: Any, stored: Any) -> None:
    document = validate(model_of({"x": {"type": kind}}), {"_id": ID, "x": value})
    assert document == {"_id": ID, "x": stored}
    assert type(document["x"]) is type(stored)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", 5),
        ("string", b"x"),
        ("number", True),
        ("number", "1"),
        ("integer", True),
        ("integer", 1.5),
        ("integer", float("inf")),
        ("integer", 1e300),
        ("integer", Decimal128("5")),
        ("boolean", 0),
        ("boolean", "true"),
        ("datetime", "yesterday"),
        ("datetime", "2026-13-01"),
        ("datetime", "0001-01-01T00:00:00+14:00"),
        ("datetime", 1700000000),
        ("array", "abc"),
        ("array", {"0": 1}),
        ("object", [1]),
        ("decimal", 1.5),
        ("decimal", "1,5"),
        ("decimal", True),
        ("decimal", "1" * 40),
        ("binary", "eA=="),
        ("objectid", "65f0"),
        ("objectid", b"x" * 12),
    ],
)
def test_values_that_do_not_fit_are_refused(kind: str, value: Any) -> None:
    assert problems_of(model_of({"x": {"type": kind}}), {"_id": ID, "x": value}) == ["x"]


def test_all_problems_are_listed_with_their_dotted_path() -> None:
    model = model_of(
        {
            "name": {"type": "string", "required": True},
            "age": {"type": "integer", "required": True},
            "status": {"type": "string", "enum": ["open", "done"]},
            "address": {"type": "object", "properties": {"zip": {"type": "string", "required": True}}},
            "lines": {"type": "array", "items": {"type": "object", "properties": {"price": {"type": "number"}}}},
            "tags": {"type": "array", "items": {"type": "string"}},
        }
    )
    document: dict[str, Any] = {
        "_id": "no uuid",
        "age": None,
        "status": "opn",
        "address": {},
        "lines": [{"price": 1}, {"price": "2"}],
        "tags": ["a", 5],
    }
    with pytest.raises(
        ValidationError, match=r"the document does not fit the model Thing: _id: .*, and 6 more problems"
    ) as caught:
        validate(model, document)
    assert [problem.path for problem in caught.value.problems] == [
        "_id",
        "name",
        "age",
        "status",
        "address.zip",
        "lines.1.price",
        "tags.1",
    ]


def test_unknown_fields_and_the_order_of_fields_are_kept() -> None:
    model = model_of({"b": {"type": "integer"}})
    document = validate(model, {"z": 1, "b": 2, "a": {"x": [1]}, "_id": ID})
    assert list(document.items()) == [("_id", ID), ("z", 1), ("b", 2), ("a", {"x": [1]})]


def test_enums_compare_numbers_by_value_and_nothing_else() -> None:
    model = model_of({"x": {"type": "number", "enum": [1, 2.5]}, "y": {"enum": [True, "a"]}})
    assert validate(model, {"_id": ID, "x": 1.0, "y": True})["x"] == 1.0
    assert problems_of(model, {"_id": ID, "x": 2, "y": 1}) == ["x", "y"]


def test_timestamps_are_dates_without_being_declared() -> None:
    document = validate(model_of(), {"_id": ID, "createdAt": "2026-02-24T14:30:00Z", "updatedAt": MOMENT})
    assert (document["createdAt"], document["updatedAt"]) == (MOMENT, MOMENT)
    assert problems_of(model_of(), {"_id": ID, "createdAt": 5}) == ["createdAt"]
    declared = model_of({"createdAt": {"type": "string"}})
    assert validate(declared, {"_id": ID, "createdAt": "then"})["createdAt"] == "then"


def test_validate_copies_and_changes_nothing_of_the_callers() -> None:
    given_document = {"_id": ID, "x": [{"y": 1}], "when": "2026-02-24T14:30:00Z"}
    document = validate(model_of({"when": {"type": "datetime"}}), given_document)
    document["x"][0]["y"] = 2
    assert given_document == {"_id": ID, "x": [{"y": 1}], "when": "2026-02-24T14:30:00Z"}


def test_a_missing_id_is_a_problem_when_it_is_saved() -> None:
    for kind in ("uuid", "seq", "slug"):
        assert problems_of(model_of(path=f"@t/(id:{kind})/[t].json"), {}) == ["_id"]


def test_values_that_cannot_be_stored_are_refused_with_their_path() -> None:
    with pytest.raises(InvalidRequestError, match=r"a\.b"):
        validate(model_of(), {"_id": ID, "a": {"b": {1, 2}}})


# --- new documents ---


def test_defaults_are_applied_also_inside_what_is_given() -> None:
    model = model_of(
        {
            "status": {"type": "string", "default": "open"},
            "tags": {"type": "array", "default": []},
            "note": {"default": None},
            "address": {"type": "object", "properties": {"country": {"default": "DE"}}},
            "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"default": 1}}}},
        }
    )
    document = make(model, {"address": {}, "lines": [{}, {"n": 2}]})
    del document["_id"]
    assert document == {
        "address": {"country": "DE"},
        "lines": [{"n": 1}, {"n": 2}],
        "status": "open",
        "tags": [],
        "note": None,
    }
    assert "address" not in make(model, {})


def test_a_default_is_not_shared_between_documents() -> None:
    model = model_of({"tags": {"type": "array", "default": ["a"]}})
    make(model, {})["tags"].append("b")
    assert make(model, {})["tags"] == ["a"]


def test_given_values_win_over_defaults_null_included() -> None:
    assert make(model_of({"x": {"default": 1}}), {"x": None})["x"] is None


@pytest.mark.parametrize("data", [{"id": None}, {"_id": None}, {"id": ""}, {"_id": "", "id": ID}])
def test_an_id_that_is_given_and_is_none_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="must not be null or empty"):
        make(model_of(), data)
    with pytest.raises(ValidationError, match="must not be null or empty"):
        validate(model_of(), data)


def test_an_id_is_made_where_none_is_given() -> None:
    first, second = make(model_of(), {}), make(model_of(), {}, seed=2)
    assert list(first) == ["_id"]
    assert first["_id"] != second["_id"]
    assert validate(model_of(), first) == first


@pytest.mark.parametrize("name", ["id", "_id"])
def test_a_given_id_is_kept_first_and_checked(name: str) -> None:
    assert list(make(model_of(), {"a": 1, name: ID}).items()) == [("_id", ID), ("a", 1)]
    with pytest.raises(ValidationError, match="is not a uuid"):
        make(model_of(), {name: "x"})


def test_two_different_ids_are_refused() -> None:
    assert make(model_of(), {"id": ID, "_id": ID}) == {"_id": ID}
    with pytest.raises(ValidationError, match="both are the document's id"):
        make(model_of(), {"id": ID, "_id": ID.upper()})


@pytest.mark.parametrize("kind", ["seq", "slug"])
def test_where_ids_are_not_made_the_document_has_none(kind: str) -> None:
    model = model_of(path=f"@t/(id:{kind})/[t].json")
    assert make(model, {"a": 1}) == {"a": 1}
    assert make(model, {"id": "5"}) == {"_id": "5"}


def test_singletons_have_their_one_id() -> None:
    model = model_of(path="#org/[settings].json")
    for values in ({"a": 1}, {"id": SINGLETON_ID, "a": 1}):
        assert make(model, values) == {"_id": SINGLETON_ID, "a": 1}
    assert validate(model, {}) == {"_id": SINGLETON_ID}
    with pytest.raises(ValidationError, match="which it always has"):
        make(model, {"id": "whatever", "a": 1})


def test_new_documents_are_validated() -> None:
    with pytest.raises(ValidationError) as caught:
        make(model_of({"a": {"required": True}, "b": {"type": "string"}}), {"b": 1})
    assert [problem.path for problem in caught.value.problems] == ["a", "b"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "id", "createdAt"]), VALUES))
def test_validation_is_stable(data: dict[str, Any]) -> None:
    """What was accepted once is accepted again, unchanged."""
    model = model_of(
        {
            "a": {"type": "integer", "default": 1},
            "b": {"type": "array", "items": {"type": "number"}},
            "c": {"type": "object", "properties": {"x": {"type": "datetime"}}},
        },
        path="@t/(id:any)/[t].json",
        id="uuid",
    )
    try:
        document = make(model, data)
    except InvalidRequestError:
        return
    assert validate(model, document) == document
