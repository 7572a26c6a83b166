"""What an index does not say: one small case for each, answered by every plan that is proposed for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from bson import Regex

from tests.query.model_executor import Model
from tests.query.planner.questions import Case
from tests.query.planner.test_soundness import check
from wormdb.bql.parse import parse_filter
from wormdb.bql.projection import parse_projection
from wormdb.bql.sorting import parse_sort, sort_key
from wormdb.engine.tree.definition import Index
from wormdb.query.planner.planner import candidates
from wormdb.query.request import QueryRequest
from wormdb.query.sources.source import Facts, IndexFacts

if TYPE_CHECKING:
    from wormdb.format.kinds import Document

NAN = float("nan")


@dataclass(frozen=True)
class Trap:
    """Documents, indexes by their fields (a `!` before them makes them hold every document), and a request."""

    name: str
    documents: list[Document]
    indexes: list[str]
    filter: Document
    sort: str = ""
    behind: int | None = None
    """The last document of the page before, by its place."""
    more: dict[str, Any] = field(default_factory=dict)


TRAPS = [
    Trap("a sparse index leaves out null", [{"a": None}, {}, {"a": 1}], ["a"], {"a": None}),
    Trap("a sparse index leaves out null elements", [{"a": [None, 1]}, {"a": 1}], ["a"], {"a": None}),
    Trap("a sparse index leaves out empty arrays", [{"a": []}, {"a": [[]]}], ["a"], {"a": []}),
    Trap("every document is in the other kind", [{"a": None}, {}, {"a": []}], ["!a"], {"a": None}),
    Trap("two bounds by two elements", [{"a": [0, 9]}, {"a": 3}, {"a": 9}], ["a"], {"a": {"$gt": 1, "$lt": 5}}),
    Trap(
        "one element for $elemMatch",
        [{"a": [0, 9]}, {"a": [3]}],
        ["a"],
        {"a": {"$elemMatch": {"$gt": 1, "$lt": 5}}},
    ),
    Trap("two values by two elements", [{"a": [1, 2]}, {"a": 1}, {"a": [1]}], ["a"], {"a": {"$all": [1, 2]}}),
    Trap("$all of one text and one expression", [{"a": ["b", 1]}, {"a": [1]}], ["a"], {"a": {"$all": [1, Regex("b")]}}),
    Trap(
        "fields of one array",
        [{"a": [{"x": 1, "y": 3}, {"x": 2, "y": 4}]}, {"a": [{"x": 1, "y": 4}]}],
        ["a.x,a.y"],
        {"a.x": 1, "a.y": 4},
    ),
    Trap(
        "fields of one element",
        [{"a": [{"x": 1, "y": 3}, {"x": 2, "y": 4}]}, {"a": [{"x": 1, "y": 4}]}],
        ["a.x,a.y"],
        {"a": {"$elemMatch": {"x": 1, "y": 4}}},
    ),
    Trap(
        "fields of an array in an element",
        [{"a": [{"x": [{"y": 1, "z": 1}, {"y": 2, "z": 2}]}]}],
        ["a.x.y,a.x.z"],
        {"a": {"$elemMatch": {"x.y": 1, "x.z": 2}}},
    ),
    Trap("a bound within a bracket", [{"a": NAN}, {"a": -1}, {"a": "b"}], ["!a"], {"a": {"$lt": 5}}),
    Trap("a whole array by order", [{"a": [1, 2]}, {"a": [9]}, {"a": [[1, 3]]}], ["!a"], {"a": {"$gt": [1, 1]}}),
    Trap("a whole array by equality", [{"a": [1, 2]}, {"a": 1}, {"a": [[1, 2]]}], ["a"], {"a": [1, 2]}),
    Trap("one of several arrays", [{"a": [1, 2]}, {"a": [1]}, {"a": 1}], ["a"], {"a": {"$in": [[1, 2], 7]}}),
    Trap("null through an array of numbers", [{"a": [5]}, {"a": []}, {"a": 1}], ["!a.x"], {"a.x": None}),
    Trap("null among others", [{"a": [5]}, {"a": []}, {"a": 1}], ["!a.x"], {"a.x": {"$in": [None, 7]}}),
    Trap("what is not null", [{"a": [5]}, {"a": []}, {"a": {"x": 1}}, {}], ["!a.x"], {"a.x": {"$ne": None}}),
    Trap("null by position", [{"a": [{"y": 1}]}, {"a": [1]}], ["!a.0"], {"a.0": None}),
    Trap("an array by position", [{"a": [[1, 2]]}, {"a": [1]}], ["!a.0"], {"a.0": {"$contains": 1}}),
    Trap("elements of an array by position", [{"a": [[1, 2]]}], ["!a.0"], {"a.0": {"$elemMatch": {"$eq": 1}}}),
    Trap("positions in an element", [{"a": [[5, 6]]}], ["!a.0"], {"a": {"$elemMatch": {"0": 5}}}),
    Trap("positions in elements", [{"a": [[5, 6], [7]]}], ["!a.1"], {"a": {"$elemMatch": {"0": 5}}}),
    Trap("null in elements that are arrays", [{"a": [[5], {"x": 1}]}], ["!a.x"], {"a": {"$elemMatch": {"x": None}}}),
    Trap("$elemMatch on what is no array", [{"a": 1}, {"a": [1]}], ["a"], {"a": {"$elemMatch": {"$eq": 1}}}),
    Trap("$contains on what is no array", [{"a": 1}, {"a": [1]}], ["a"], {"a": {"$contains": 1}}),
    Trap("a missing field", [{"a": None}, {}, {"a": []}, {"a": [1]}], ["!a"], {"a": {"$exists": False}}),
    Trap("another text", [{"a": "b"}, {"a": "ab"}, {"a": "c"}], ["a"], {"a": {"$regex": "^a|b"}}),
    Trap("a letter that may be missing", [{"a": "a"}, {"a": "ab"}, {"a": "b"}], ["a"], {"a": {"$regex": "^ab?"}}),
    Trap("the expression itself", [{"a": Regex("^ab")}, {"a": "abc"}, {"a": "x"}], ["a"], {"a": {"$regex": "^ab"}}),
    Trap(
        "a compound prefix with null", [{"a": None, "b": 1}, {"b": 1}, {"a": 1, "b": 1}], ["a,b"], {"a": None, "b": 1}
    ),
    # order
    Trap("a field behind the order", [{"a": 1, "b": 2}, {"a": 1, "b": 1}], ["!a,b"], {}, "a"),
    Trap("an order that goes on", [{"a": 1, "b": 2}, {"a": 1, "b": 1}], ["!a"], {}, "a,b"),
    Trap("a sparse index has not all rows", [{"a": 1}, {}], ["a"], {}, "a"),
    Trap("the least element is out of the range", [{"a": [9, 0]}, {"a": 5}], ["!a"], {"a": {"$gt": 4}}, "a"),
    Trap("the least element, not the one asked for", [{"a": [1, 0]}, {"a": [1, -1]}], ["!a"], {"a": 1}, "a"),
    Trap("the greatest element", [{"a": [1, 9]}, {"a": 5}, {"a": []}, {}], ["!a"], {}, "-a"),
    Trap("directions that differ", [{"a": 1, "b": 1}, {"a": 1, "b": 2}], ["!a,b"], {}, "a,-b"),
    Trap("ids against the order", [{"a": 1}, {"a": 1}], ["!a"], {}, "a,-_id"),
    Trap(
        "an array in front of the order",
        [{"a": [{"x": 1, "y": 5}, {"x": 2, "y": 1}]}, {"a": [{"x": 1, "y": 3}]}],
        ["!a.x,a.y"],
        {"a.x": 1},
        "a.y",
    ),
    Trap(
        "two arrays in front of the order",
        [{"a": [{"x": 1, "y": 2}, {"x": 2, "y": 1}], "b": 1}, {"a": [{"x": 1, "y": 1}], "b": 0}],
        ["!a.x,a.y,b"],
        {"a.x": 1, "a.y": 1},
        "b",
    ),
    Trap(
        "a page behind a field that is fixed",
        [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 3}],
        ["!b"],
        {"b": 2},
        "b",
        0,
    ),
    Trap(
        "a page behind an order with a fixed field",
        [{"a": 1, "b": 5, "c": 9}, {"a": 1, "b": 5, "c": 10}, {"a": 3, "b": 5, "c": 2}],
        ["!a,b,c"],
        {"b": 5},
        "a,c",
        0,
    ),
    Trap("a page of an array", [{"a": [1, 5]}, {"a": 2}, {"a": 6}], ["!a"], {}, "a", 1, {"limit": 2}),
    Trap("an element that is no document is null", [{"a": {"x": 1}}, {"a": [5, {"x": 2}]}], ["!a.x"], {}, "a.x"),
    Trap("an empty array at a position is least", [{"a": [None]}, {"a": [[]]}, {"a": [3]}], ["!a.0"], {}, "a.0"),
    Trap("a page backwards", [{"a": 1}, {"a": 2}, {"a": 2}, {}], ["!a"], {}, "-a", 2),
    Trap("a page of ids", [{"a": 1}, {"a": 1}, {"a": 1}], ["a"], {"a": 1}, "-_id", 1, {"limit": 1}),
    Trap("a part of a text", [{"a": "xay"}, {"a": ["xay"]}, {"a": ["a", "b"]}], ["a"], {"a": {"$contains": "a"}}),
    Trap("a part of an id", [{"a": 1}], [], {"_id": {"$contains": "a"}}),
    Trap("a part of a text in a column", [{"a": "xay"}, {"a": "b"}], [], {"a": {"$contains": "a"}}),
    # branches, counts, columns
    Trap("a branch with more conditions", [{"a": 1, "b": 1}, {"a": 1}], ["a"], {"$or": [{"a": 1, "b": 1}, {"a": 7}]}),
    Trap(
        "a branch within a branch",
        [{"a": 1, "b": 1}, {"a": 1}, {"c": 2, "b": 1}, {"c": 2}],
        ["a", "c"],
        {"$or": [{"$and": [{"$or": [{"a": 1}, {"c": 2}]}, {"b": 1}]}, {"a": 7}]},
    ),
    Trap(
        "several entries of one document", [{"a": [1, 2]}, {"a": 1}], ["a"], {"a": {"$gt": 0}}, more={"is_count": True}
    ),
    Trap(
        "entries of several values", [{"a": [1, 2]}, {"a": 1}], ["a"], {"a": {"$in": [1, 2]}}, more={"is_count": True}
    ),
    Trap("every entry of arrays", [{"a": [1, 2]}, {"a": 1}], ["!a"], {}, more={"is_count": True}),
    Trap("every entry of a sparse index", [{"a": 1}, {}], ["a"], {}, more={"is_count": True}),
    Trap("ids that are not there", [{"a": 1}], [], {"_id": {"$in": [0, 99]}}, more={"is_count": True}),
    Trap("ids between ids", [{"a": 1}] * 4, [], {"_id": {"$in": [0, 3]}, "a": 1}),
    Trap(
        "a document that has nothing to show",
        [{"a": {}}, {"a": {"x": 1}}, {}],
        [],
        {},
        more={"projection": parse_projection(["a.x"])},
    ),
]


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_every_plan_gives_the_answer(trap: Trap) -> None:
    documents = [{"_id": number, **document} for number, document in enumerate(trap.documents)]
    made = [
        Index(f"i{number}", tuple(text.lstrip("!").split(",")), sparse=not text.startswith("!"))
        for number, text in enumerate(trap.indexes)
    ]
    model = Model(documents, made)
    sort = parse_sort(trap.sort.split(",") if trap.sort else None)
    after = None if trap.behind is None else sort_key(sort)(documents[trap.behind])
    request = QueryRequest(filter=parse_filter(trap.filter), sort=sort, after=after, **trap.more)
    paths = {path for index in made for path in index.fields} | {"b", "c", "a.x"}
    facts = Facts(
        rows=len(documents),
        blocks=1,
        column_bytes=dict.fromkeys(sorted(paths), 10),
        indexes=tuple(IndexFacts(index, 1, None, arrays) for index, arrays in model.arrays.items()),
    )
    assert len(facts.indexes) == len(trap.indexes)
    plans = candidates(request, facts)
    for plan in plans:
        check(plan, Case(model, facts, request))
