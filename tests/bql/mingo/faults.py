"""Where mingo is wrong: each fault as a named case, and how questions stay clear of all of them.

Each is settled by MongoDB's manual, as its sentence says (and by semantics.txt and update/cases.txt).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.bql.mingo.ours import REFUSED
from tests.bql.mingo.questions import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bql.mingo.questions import Question


class Fault(NamedTuple):
    """A question, the right answer, and why it is right."""

    kind: str
    question: Question
    expected: Any
    why: str


def _filter(document: dict[str, Any], written: dict[str, Any], why: str, *, expected: bool) -> Fault:
    return Fault("filters", [document, written], expected, why)


def _sort(values: list[Any], order: dict[str, int], expected: list[int], why: str) -> Fault:
    documents = [{"_id": number, "a": value} for number, value in enumerate(values)]
    return Fault("sorts", [documents, order | {"_id": 1}], expected, why)


def _update(document: dict[str, Any], written: dict[str, Any], expected: Any, why: str) -> Fault:
    return Fault("updates", [document, written, [], {}], expected, why)


FAULTS: Final = {
    "an empty array has a field": _filter(
        {"a": []},
        {"a.b": []},
        "a dotted path asks the documents in an array, and an empty array has none",
        expected=False,
    ),
    "an array of scalars has a field": _filter(
        {"a": [1]}, {"a.b": []}, "an array on the way without documents gives no value", expected=False
    ),
    "an empty array has a null at a position": _filter(
        {"a": []},
        {"a.1": None},
        "an array on the way without documents gives no value, not a missing one",
        expected=False,
    ),
    "a path goes through arrays in arrays": _filter(
        {"a": [[{"b": 1}]]},
        {"a.b": {"$exists": True}},
        "only one level of arrays is gone through at each step",
        expected=False,
    ),
    "a path without an end finds the elements": _filter(
        {"a": [[3]]}, {"a.b": {"$gte": 3}}, "an element that is no document has no fields", expected=False
    ),
    "an array at a position is gone through": _filter(
        {"a": [[1.5]]}, {"a.0": 1.5}, "the element at a position is one value", expected=False
    ),
    "an expression goes through arrays in arrays": _filter(
        {"a": [["ab"]]}, {"a": {"$regex": "a"}}, "only the elements of the array itself are compared", expected=False
    ),
    "$mod keeps fractions": _filter(
        {"a": 1.5}, {"a": {"$mod": [3, 1]}}, "$mod cuts fractions off before it divides", expected=True
    ),
    "$mod divides booleans": _filter({"a": False}, {"a": {"$mod": [2, 0]}}, "$mod takes numbers only", expected=False),
    "$mod divides null": _filter({"a": None}, {"a": {"$mod": [2, 0]}}, "$mod takes numbers only", expected=False),
    "$mod divides arrays": _filter({"a": [[3]]}, {"a": {"$mod": [3, 0]}}, "$mod takes numbers only", expected=False),
    "a missing field is not at least null": _filter(
        {}, {"a": {"$gte": None}}, "$gte and $lte hold for what is equal, and null equals missing", expected=True
    ),
    "$all wants an array": _filter(
        {"a": 1}, {"a": {"$all": [1]}}, "$all of one value is the same as $and of equalities", expected=True
    ),
    "$all does not find the array itself": _filter(
        {"a": [1]}, {"a": {"$all": [[1]]}}, "$all of an array matches the field that is that array", expected=True
    ),
    "arrays have no order": _filter(
        {"a": [2]}, {"a": {"$gte": [1]}}, "an array is compared with an array element by element", expected=True
    ),
    "documents are ordered by their names first": _filter(
        {"a": {"c": None}},
        {"a": {"$gt": {"b": 1}}},
        "of two documents first the types of the fields are compared, then their names",
        expected=False,
    ),
    "a whole array is not in a list": _filter(
        {"a": [1]}, {"a": {"$in": [[1]]}}, "$in finds a field that is the array", expected=True
    ),
    "every number is a double": _filter(
        {"a": 1}, {"a": {"$type": "double"}}, "a whole number is stored as an int", expected=False
    ),
    "a scalar element is the value of its fields": _filter(
        {"a": [1]}, {"a": {"$elemMatch": {"b": 1}}}, "conditions on fields need a document", expected=False
    ),
    "the fields of several documents are one array": _filter(
        {"a": [{"b": 1}]}, {"a.b": {"$size": 1}}, "$size asks each document of an array on its own", expected=False
    ),
    "$type does not look at elements": _filter(
        {"a": [1]}, {"a": {"$type": "int"}}, "of an array $type matches if one element has the type", expected=True
    ),
    "an element without the field is no null": _filter(
        {"a": [{"b": 1}, {"c": 1}]}, {"a.b": None}, "each document of an array is asked on its own", expected=True
    ),
    "an element that is an array is compared by its elements": _filter(
        {"a": [[0]]}, {"a": {"$elemMatch": {"$lte": 0}}}, "the element itself is one value", expected=False
    ),
    "an element that is an array is gone through": _filter(
        {"a": [["b"]]}, {"a": {"$elemMatch": {"$regex": "b"}}}, "the element itself is one value", expected=False
    ),
    "an empty array on the way is least": _sort(
        [1, []], {"a.b": 1}, [0, 1], "where an array on the way has no document, the field is missing, which is null"
    ),
    "an array of scalars on the way is no null": _sort(
        [1, [3]], {"a.b": 1}, [0, 1], "where an array on the way has no document, the field is missing, which is null"
    ),
    "descending, the least element counts": _sort(
        [["c", -3], 0], {"a": -1}, [0, 1], "descending, the greatest element of an array counts"
    ),
    "an array is no tie with its element": _sort(
        [1, [1], 1], {"a": 1}, [0, 1, 2], "an array counts as its least element, and ties go by the next field"
    ),
    "null counts more than a number": _sort(
        [[None, 0], None], {"a": -1}, [0, 1], "descending, the greatest element of an array counts"
    ),
    "an array in an array is not the greatest": _sort(
        [[1, []], "ab"], {"a": -1}, [0, 1], "arrays are above text in the order of types"
    ),
    "documents are sorted by their names first": _sort(
        [{"b": "x"}, {"c": 1}],
        {"a": 1},
        [1, 0],
        "of two documents first the types of the fields are compared, then their names",
    ),
    "$min takes the first element of an array": _update(
        {"a": []}, {"$min": {"a": 1}}, {"a": 1}, "numbers are below arrays in the order of types"
    ),
    "$max of a document": _update(
        {"a": {"b": 3}}, {"$max": {"a": [2]}}, {"a": [2]}, "arrays are above documents in the order of types"
    ),
    "$addToSet to a new field adds the same twice": _update(
        {}, {"$addToSet": {"a": {"$each": [0, 0]}}}, {"a": [0]}, "$addToSet adds a value only if it is not there yet"
    ),
    "$addToSet removes what was there twice": _update(
        {"a": [1, 2, 1]}, {"$addToSet": {"a": 2}}, {"a": [1, 2, 1]}, "$addToSet changes nothing if the value is there"
    ),
    "$push to a new field does not sort": _update(
        {}, {"$push": {"a": {"$each": [2, 1], "$sort": 1}}}, {"a": [1, 2]}, "modifiers work on the array after the push"
    ),
    "$push to a new field does not cut": _update(
        {}, {"$push": {"a": {"$each": [2, 1], "$slice": 1}}}, {"a": [2]}, "modifiers work on the array after the push"
    ),
    "an empty array is sorted first": _update(
        {"a": [1]},
        {"$push": {"a": {"$each": [[]], "$sort": 1}}},
        {"a": [1, []]},
        "whole elements are compared, and arrays are above numbers",
    ),
    "an array is sorted by its elements": _update(
        {"a": [1]},
        {"$push": {"a": {"$each": [[0]], "$sort": 1}}},
        {"a": [1, [0]]},
        "whole elements are compared, and arrays are above numbers",
    ),
    "$pull goes through arrays in arrays": _update(
        {"a": ["b", ["b"]]}, {"$pull": {"a": "b"}}, {"a": [["b"]]}, "$pull removes elements that equal the value"
    ),
    "$pull does not compare arrays": _update(
        {"a": [[1]]}, {"$pull": {"a": {"$lte": [1]}}}, {"a": []}, "an array is compared with an array"
    ),
    "what cannot be changed is left as it is": _update(
        {"a": "x"}, {"$inc": {"a": 1}}, REFUSED, "$inc of a field that is no number is an error"
    ),
}


# --- questions that stay clear of them ---


def is_clear(kind: str, question: Question) -> bool:
    """Whether no known fault can change the answer."""
    if kind == "filters":
        return _is_clear_filter(*question)
    return _is_clear_sort(*question) if kind == "sorts" else _is_clear_update(question[0], question[1])


def _facts(value: Any) -> set[str]:
    """What a value has in it."""
    found = set()
    for part in parts_of(value):
        if isinstance(part, list):
            found |= {"array"} if part else {"array", "empty array"}
            for item in part:
                found |= {"nested array"} if isinstance(item, list) else set()
                found |= set() if isinstance(item, dict) else {"scalar element"}
                found |= {"null element"} if item is None else {"document element"} if isinstance(item, dict) else set()
        found |= {"no number"} if part is None or isinstance(part, bool | float) else set()
        found |= {"document"} if isinstance(part, dict) else set()
    return found


def _asked(written: Any, above: str = "") -> Iterator[str]:
    """What a filter asks: operators, with the kind of what stands behind them where that counts."""
    if not isinstance(written, dict):
        return
    for name, operand in written.items():
        if name in {"$and", "$or", "$nor"}:
            for child in operand:
                yield from _asked(child)
        elif name.startswith("$"):
            yield from _asked_by(name, operand)
        else:
            yield "dotted" if "." in name else "field"
            yield "field within" if above == "$elemMatch" else ""
            yield "null" if operand is None else "[]" if operand == [] else ""
            yield from _asked(operand) if _is_operators(operand) else ()


def _asked_by(name: str, operand: Any) -> Iterator[str]:
    yield name
    if operand == []:
        yield "[]"
    if operand is None or (name in {"$in", "$nin", "$all"} and None in operand):
        yield "null"
    if name in {"$gt", "$gte", "$lt", "$lte"} and (operand is None or isinstance(operand, list | dict)):
        yield "odd order"
    if name in {"$in", "$nin", "$all"} and any(isinstance(item, list) for item in operand):
        yield "array in a list"
    if name in {"$not", "$elemMatch"}:
        yield from _asked(operand, name)
    if name == "$type":
        yield f"$type {operand}"


def _is_operators(operand: Any) -> bool:
    return isinstance(operand, dict) and any(name.startswith("$") for name in operand)


def _is_clear_filter(document: dict[str, Any], written: dict[str, Any]) -> bool:
    asked, facts = set(_asked(written)), _facts(document)
    if asked & {"odd order", "array in a list", "$type double"}:
        return False
    if "$all" in asked and ("dotted" in asked or not all(isinstance(value, list) for value in document.values())):
        return False
    if "dotted" in asked and asked & {"null", "[]", "$size", "$elemMatch"} and "array" in facts:
        return False
    excluded = {
        "$type": {"array"},
        "dotted": {"empty array", "nested array"},
        "$mod": {"no number", "nested array"},
        "$regex": {"nested array"},
        "$elemMatch": {"nested array"},
        "field within": {"scalar element", "nested array"},
    }
    return not any(name in asked and facts & unclear for name, unclear in excluded.items())


def _is_clear_sort(documents: list[dict[str, Any]], order: dict[str, int]) -> bool:
    values = [document[path] for document in documents for path in order if path in document and path != "_id"]
    deeper = [part for document in documents for value in document.values() for part in parts_of(value)[1:]]
    if any(isinstance(value, dict) for value in [*values, *deeper]):
        return False
    if not any(isinstance(part, list) for document in documents for part in parts_of(document)):
        return True
    if any("." in path or direction < 0 for path, direction in order.items()):
        return False
    scalars = [str(part) for value in values for part in parts_of(value) if not isinstance(part, list)]
    facts = set[str]().union(*map(_facts, values))
    return len(set(scalars)) == len(scalars) and not facts & {"nested array", "null element", "document element"}


def _is_clear_update(document: dict[str, Any], written: dict[str, Any]) -> bool:
    facts = _facts(list(document.values()))
    for operator, changes in written.items():
        for path, operand in changes.items():
            if operator in {"$min", "$max"} and (
                _facts(operand) or "." in path or facts & {"document", "nested array"}
            ):
                return False
            is_each = isinstance(operand, dict) and "$each" in operand
            if is_each and ("." in path or not isinstance(document.get(path), list)):
                return False
            if is_each and "$sort" in operand and _facts([*operand["$each"], *document[path]]) & {"nested array"}:
                return False
            if operator == "$addToSet" and ("." in path or _has_repeats(document.get(path))):
                return False
            if operator == "$pull" and ("nested array" in facts or not _is_clear_filter(document, {path: operand})):
                return False
    return True


def _has_repeats(value: Any) -> bool:
    found = [json.dumps(item, sort_keys=True) for item in value] if isinstance(value, list) else []
    return len(set(found)) < len(found)
