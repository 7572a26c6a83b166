"""Cells of text: what the model says they are, or what they look like."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from wormdb import InvalidRequestError
from wormdb.schema.cells import CellReader, guess_value
from wormdb.schema.load import load_model

MODEL = load_model(
    "M",
    {
        "path": "@m/(id:string)",
        "fields": {
            "text": {"type": "string"},
            "whole": {"type": "integer"},
            "number": {"type": "number"},
            "flag": {"type": "boolean"},
            "when": {"type": "datetime"},
            "list": {"type": "array"},
            "free": {"type": "any"},
            "inner": {"type": "object", "properties": {"n": {"type": "integer"}, "t": {"type": "string"}}},
        },
    },
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-0", 0),
        ("1.5", 1.5),
        ("007", "007"),
        ("+1", "+1"),
        ("1e5", "1e5"),
        ("1.10", "1.10"),
        ("9223372036854775808", "9223372036854775808"),
        ("0.1000000000000000055", "0.1000000000000000055"),
        ("true", True),
        ("True", "True"),
        ('{"a": [1]}', {"a": [1]}),
        ("[1", "[1"),
        ('{"$oid": "65f0a1b2c3d4e5f60718293a"}', ObjectId("65f0a1b2c3d4e5f60718293a")),
        ("", ""),
        ("null", "null"),
    ],
)
def test_what_nothing_is_declared_for(text: str, value: Any) -> None:
    assert guess_value(text) == value
    assert type(guess_value(text)) is type(value)


def test_types_of_the_model_decide() -> None:
    cells = {
        "id": "007",
        "text": "5",
        "whole": "007",
        "number": "1e3",
        "flag": " TRUE",
        "when": "2026-01-01",
        "list": "[1]",
        "free": "5",
        "other": "5",
        "inner.n": "3",
        "inner.t": "3",
    }
    assert CellReader(MODEL).document(cells) == {
        "id": "007",
        "text": "5",
        "whole": 7,
        "number": 1000.0,
        "flag": True,
        "when": "2026-01-01",
        "list": [1],
        "free": 5,
        "other": 5,
        "inner": {"n": 3, "t": "3"},
    }


def test_what_does_not_fit_stays_text_for_validation_to_refuse() -> None:
    cells = {"whole": "1.5", "number": "nan", "flag": "yes", "list": "a,b"}
    assert CellReader(MODEL).document(cells) == cells


def test_empty_text_is_text_only_where_text_may_be() -> None:
    assert CellReader(MODEL).document({"id": "", "text": "", "whole": "", "free": "", "other": ""}) == {
        "text": "",
        "free": "",
        "other": "",
    }


@pytest.mark.parametrize("columns", [("a", "a.b"), ("a.b", "a"), ("a.b.c", "a.b"), ("a..b",), ("$a",)])
def test_columns_that_cannot_be(columns: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequestError):
        CellReader(None).document(dict.fromkeys(columns, "1"))


short_floats = st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: "e" not in repr(number))


@given(st.integers(-(2**63), 2**63 - 1) | short_floats)
def test_numbers_come_back_as_they_were_written(number: float) -> None:
    assert repr(guess_value(repr(number))) == repr(number)
