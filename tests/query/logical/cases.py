"""The cases of cases.txt, and documents to try them on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wormdb.bql.parse import parse_filter
from wormdb.format import json
from wormdb.format.path import TRAVERSED, get_direct, parse_path
from wormdb.query.logical.rules import RULES

if TYPE_CHECKING:
    from wormdb.bql.tree import Filter

NAMES: Final = tuple(rule.name for rule in RULES)


class Case(NamedTuple):
    """A filter before and after one rule, or all of them ("together")."""

    rule: str
    why: str
    before: Filter
    after: Filter
    one: tuple[tuple[str, ...], ...]
    """Paths at which and on whose way no document has an array."""

    def arrays(self, path: tuple[str, ...]) -> bool:
        """Whether some document may have an array there."""
        return path not in self.one

    @property
    def without(self) -> set[str]:
        """The rules that do not run."""
        return set() if self.rule == "together" else set(NAMES) - {self.rule}


def read_cases() -> list[Case]:
    """All cases, in the order of the file."""
    cases = []
    rule = ""
    for block in (Path(__file__).parent / "cases.txt").read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines and lines[0].startswith("== "):
            rule = lines[0].removeprefix("== ")
        elif lines:
            why, before, after, *more = lines
            one = tuple(map(parse_path, more[0].removeprefix("one ").split())) if more else ()
            cases.append(Case(rule, why, _parsed(before), _parsed(after.removeprefix("> ")), one))
    return cases


def _parsed(text: str) -> Filter:
    return parse_filter(json.parse(text, operators=True))


_VALUES: Final = """{"values": [
null, 0, 1, 2, 3, 5, -3, -5, 1.0, 1.5, true, "x", "xy", "y", [], {}, {"b": 1}, {"b": 2}, {"b": null}, {"c": 1},
{"0": 1}, {"0": 2}, {"b": [2, 0]}, [1], [2], [1, 2], [1, 2, 3], [0, 3], [5, "x"], [null], ["x", "y"], [[1, 2]],
[{"b": 1}], [{"b": 1}, {"b": 2}], [{"b": [0, 3]}], [{"c": 2}], [{"_id": [1, 2]}], [{"b": 1, "c": 2}],
[1, true], [1, {"0": 2}],
{"$numberDouble": "NaN"}, {"$numberDecimal": "1.0"}, {"$minKey": 1}, {"$maxKey": 1},
{"$regularExpression": {"pattern": "x", "options": ""}}
]}"""


def _documents() -> list[dict[str, Any]]:
    values = json.parse(_VALUES)["values"]
    rest: list[dict[str, Any]] = [{}, {"b": 1}, {"b": 2}, {"b": 2, "c": 3}, {"b": [0, 3], "c": 3}]
    found = [{"a": value} | other for value in values for other in rest] + rest
    ids = [1, 2, 3, 4, 1.5, "x", True]
    return [{"_id": ids[place % len(ids)]} | document for place, document in enumerate(found)]


DOCUMENTS: Final = _documents()


def has_no_array(document: dict[str, Any], path: tuple[str, ...]) -> bool:
    """Whether a document has no array at the path or on the way."""
    value = get_direct(document, path)
    return value is not TRAVERSED and type(value) is not list
