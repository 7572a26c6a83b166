"""Where stages and selections put scores and computed fields: at dotted paths, as MongoDB does."""

from __future__ import annotations

from typing import Any

import pytest

import wormdb
from wormdb.bql.stages import ScoredRow, parse_stages, run_stages
from wormdb.errors import InvalidRequestError
from wormdb.settings import DOCUMENT_DEPTH_MAX

SEARCH: dict[str, Any] = {"$vectorSearch": {"path": "v", "queryVector": [1, 0], "limit": 4}}
SCORE = {"$meta": "vectorSearchScore"}
ROW: dict[str, Any] = {"_id": 7, "n": 3, "a": {"x": 1, "y": 2}, "l": [{"x": 1}, {"x": 2, "y": 3}], "e": []}


def staged(stage: dict[str, Any]) -> dict[str, Any]:
    (found,) = run_stages(parse_stages([SEARCH, stage]), [ScoredRow(ROW, 0.5)])
    return found


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"s": SCORE}, {"_id": 7, "s": 0.5}),
        ({"s.t.u": SCORE}, {"_id": 7, "s": {"t": {"u": 0.5}}}),
        ({"s": {"t": {"u": SCORE}}}, {"_id": 7, "s": {"t": {"u": 0.5}}}),
        ({"s": {"t.u": SCORE}}, {"_id": 7, "s": {"t": {"u": 0.5}}}),
        ({"a.s": SCORE}, {"_id": 7, "a": {"s": 0.5}}),
        ({"a.s": SCORE, "a.y": 1}, {"_id": 7, "a": {"y": 2, "s": 0.5}}),
        ({"a": {"s": SCORE, "y": 1}}, {"_id": 7, "a": {"y": 2, "s": 0.5}}),
        ({"a": {"z": {"$add": ["$n", 1]}, "y": True}, "_id": 0}, {"a": {"y": 2, "z": 4}}),
        ({"a.x": SCORE}, {"_id": 7, "a": {"x": 0.5}}),
        ({"n.s": SCORE}, {"_id": 7, "n": {"s": 0.5}}),
        ({"l.s": SCORE}, {"_id": 7, "l": [{"s": 0.5}, {"s": 0.5}]}),
        ({"l.s": SCORE, "l.y": 1}, {"_id": 7, "l": [{"s": 0.5}, {"y": 3, "s": 0.5}]}),
        ({"e.s": SCORE}, {"_id": 7, "e": []}),
        ({"l.z": "$n", "_id": 0}, {"l": [{"z": 3}, {"z": 3}]}),
        ({"id": SCORE}, {"_id": 0.5}),
        ({"_id": SCORE, "n": 1}, {"_id": 0.5, "n": 3}),
        ({"_id": 0, "s": SCORE}, {"s": 0.5}),
        ({"id": 1, "s": SCORE, "t": SCORE}, {"_id": 7, "s": 0.5, "t": 0.5}),
    ],
)
def test_a_dotted_name_makes_a_nested_field(written: dict[str, Any], expected: dict[str, Any]) -> None:
    assert staged({"$project": written}) == expected


@pytest.mark.parametrize("stage", ["$addFields", "$set"])
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"a.s": SCORE}, {"a": {"x": 1, "y": 2, "s": 0.5}}),
        ({"a": {"s": SCORE}}, {"a": {"x": 1, "y": 2, "s": 0.5}}),
        ({"a": {"x": "$n", "s": SCORE}}, {"a": {"x": 3, "y": 2, "s": 0.5}}),
        ({"l.s": SCORE}, {"l": [{"x": 1, "s": 0.5}, {"x": 2, "y": 3, "s": 0.5}]}),
        ({"n.s": SCORE}, {"n": {"s": 0.5}}),
        ({"b": {"$literal": {}}}, {"b": {}}),
    ],
)
def test_an_added_field_leaves_its_neighbours(stage: str, written: dict[str, Any], expected: dict[str, Any]) -> None:
    assert staged({stage: written}) == ROW | expected


@pytest.mark.parametrize("stage", ["$project", "$addFields"])
@pytest.mark.parametrize(
    ("written", "place", "other"),
    [
        ({"s": SCORE, "s.t": SCORE}, "s.t", "s"),
        ({"s.t": SCORE, "s": SCORE}, "s", "s.t"),
        ({"s": {"t": SCORE}, "s.t": SCORE}, "s.t", "s.t"),
        ({"s": SCORE, "s.t.u": "$n"}, "s.t.u", "s"),
        ({"a": "$n", "a.s": SCORE}, "a.s", "a"),
        ({"id": SCORE, "_id": "$n"}, "_id", "_id"),
        ({"id": SCORE, "_id.x": "$n"}, "_id.x", "_id"),
    ],
)
def test_fields_that_overlap_are_refused(stage: str, written: dict[str, Any], place: str, other: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        staged({stage: written})
    told = [(problem.path, problem.reason) for problem in raised.value.problems]
    assert told == [(f"[1].{stage}.{place}", f"it overlaps with {other}")]


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ({"a": 1, "a.s": SCORE}, "a.s"),
        ({"a.s": SCORE, "a": 1}, "a.s"),
        ({"a.s": 1, "a": SCORE}, "a"),
        ({"s": 1, "s.t": {"$add": ["$n", 1]}}, "s.t"),
        ({"_id": 1, "id": SCORE}, "_id"),
    ],
)
def test_a_score_is_no_part_of_what_is_shown(written: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        staged({"$project": written})
    assert [problem.path for problem in raised.value.problems] == [f"[1].$project.{place}"]
    assert "it overlaps with" in str(raised.value)


@pytest.mark.parametrize("stage", ["$project", "$addFields"])
@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"": SCORE}, "a segment is empty"),
        ({"s.": SCORE}, "a segment is empty"),
        ({"s..t": SCORE}, "a segment is empty"),
        ({"$s": SCORE}, "starts with $"),
        ({"s.$t": SCORE}, "starts with $"),
        ({3: SCORE}, "a path is text"),
        ({"s": {"$meta": None}}, "there is no None"),
        ({"s": {"t": {"$meta": "textScore"}}}, "rows have no textScore"),
        ({"s": {"$meta": "vectorSearchScore", "t": 1}}, "stands alone"),
        ({"s": {}, "t": SCORE}, "an empty document"),
        ({".".join("s" * (DOCUMENT_DEPTH_MAX + 1)): SCORE}, "DOCUMENT_DEPTH_MAX"),
    ],
)
def test_names_that_cannot_be_are_refused(stage: str, written: dict[Any, Any], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words.replace("$", r"\$")):
        staged({stage: written})


def test_documents_in_documents_end_somewhere() -> None:
    deep: Any = SCORE
    for _ in range(5_000):
        deep = {"s": deep}
    for stage in ("$project", "$addFields"):
        with pytest.raises(InvalidRequestError, match="DOCUMENT_DEPTH_MAX"):
            staged({stage: deep})


def test_a_selection_puts_scores_where_stages_do() -> None:
    score: Any = {"$meta": "textScore"}
    with wormdb.connect("memory://places") as db:
        notes = db["notes"]
        notes.insert({"id": 7, "t": "red", "a": {"x": 1, "y": 2}, "l": [{"x": 1}]})
        notes.create_text_index(["t"], language="none")
        asked = {"$text": {"$search": "red"}}
        ((_, known),) = notes.find(search="red").scored()
        whole = {"id": 7, "t": "red", "a": {"x": 1, "y": 2}, "l": [{"x": 1}]}
        for select, expected in (
            ({"a.s": score, "a.x": 1}, {"id": 7, "a": {"x": 1, "s": known}}),
            ({"a": {"s": score, "x": 1}}, {"id": 7, "a": {"x": 1, "s": known}}),
            ({"a.s": score}, whole | {"a": {"x": 1, "y": 2, "s": known}}),
            ({"l.s": score}, whole | {"l": [{"x": 1, "s": known}]}),
            ({"t": 0, "a": 0, "l": 0, "s": score}, {"id": 7, "s": known}),
        ):
            (row,) = notes.find(asked, select)
            assert dict(row) == expected
        for select in ({"a": 1, "a.s": score}, {"s": score, "s.t": score}, {"id": 1, "_id": score}, {"s.": score}):
            with pytest.raises(InvalidRequestError, match=r"overlaps|empty"):
                notes.find(asked, select).to_list()
