"""Documents, indexes, facts and requests by chance: few values and few paths, so that they often have to do with
each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from bson import Regex

from tests.query.model_executor import Model
from wormdb.bql.parse import parse_filter
from wormdb.bql.projection import parse_projection
from wormdb.bql.sorting import SortSpec, parse_sort, sort_key
from wormdb.engine.tree.definition import Index
from wormdb.engine.tree.statistics import IndexStatistics
from wormdb.format.path import TRAVERSED, get_direct
from wormdb.query.request import QueryRequest
from wormdb.query.sources.source import Facts, IndexFacts
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.format.kinds import Document
    from wormdb.format.path import Path

T = TypeVar("T")

TEXTS: list[Any] = ["a", "ab", "b", ["a"], ["a", "b"], ["ab", "a"], [], None, 1]
NUMBERS: list[Any] = [0, 1, 2, 3]
SCALARS: list[Any] = [*NUMBERS, *NUMBERS, None, 1.0, 2.5, float("nan"), "a", "ab", "b", "", True, Regex("^ab?")]
VALUES: list[Any] = [*SCALARS, [], [1], [1, 2], {}, {"x": 1}, [None, 1], [[]], [[1, 2]], [0, 3], {"0": 1}]
IDS: list[Any] = [0, 1, 2, 3, 5, 7, 99, "x"]
PATTERNS = ["^a", "^ab?", "^a|b", "b", "^a.*", "^(a)", "^"]
GROUPS = [
    ["a"],
    ["a"],
    ["a", "b"],
    ["a", "b"],
    ["a", "b", "c"],
    ["a.x"],
    ["a.x", "a.y"],
    ["a.x", "a.y"],
    ["a.x", "a.y", "b"],
    ["a", "a.x"],
    ["a.0"],
    ["a.0", "a.x"],
    ["a.0.x", "a.x"],
    ["a.x", "b.x"],
    ["a.x.y", "a.y"],
]
"""Paths that have to do with each other: a case is about one group."""


class Dice:
    """Choices by chance; the same seed gives the same."""

    def __init__(self, seed: int) -> None:
        self._chance = SeededChance(seed)

    def is_so(self, share: float) -> bool:
        return self._chance.fraction() < share

    def number(self, low: int, high: int) -> int:
        return low + int(self._chance.fraction() * (high - low + 1))

    def one(self, several: Sequence[T]) -> T:
        return several[self.number(0, len(several) - 1)]

    def some(self, several: Sequence[T], low: int, high: int) -> list[T]:
        left = list(several)
        return [left.pop(self.number(0, len(left) - 1)) for _ in range(self.number(low, high))]

    def repeat(self, make: Callable[[], T], low: int, high: int) -> list[T]:
        return [make() for _ in range(self.number(low, high))]


@dataclass(frozen=True)
class Case:
    """A request to a model of which these facts are known."""

    model: Model
    facts: Facts
    request: QueryRequest


def _parts(value: Any) -> Iterator[Any]:
    """A value and all that is in it."""
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in inner:
        yield from _parts(part)


def _may_be_text(document: Document, path: Path) -> bool:
    value = get_direct(document, path)
    return value is TRAVERSED or isinstance(value, str)


class Maker:
    """Makes cases, each about a few paths."""

    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed)
        self.paths = GROUPS[0]
        self._values = VALUES
        self._stored: list[Any] = []

    def case(self) -> Case:
        self.paths = self.dice.one(GROUPS)
        self._values = self.dice.one([VALUES, SCALARS, NUMBERS, TEXTS])
        documents = self.documents()
        self._stored = [value for document in documents for name in document for value in _parts(document[name])]
        model = Model(documents, self.indexes())
        return Case(model, self.facts(model), self.request(model))

    def others(self, case: Case, count: int) -> Iterator[Case]:
        """The case, and other requests to the same model."""
        yield case
        for _ in range(count):
            yield Case(case.model, case.facts, self.request(case.model))

    # --- documents ---

    def documents(self) -> list[Document]:
        has_arrays = self.dice.is_so(0.6)
        names = sorted({path.partition(".")[0] for path in self.paths})
        return [
            {"_id": number, **{name: self._field(name, has_arrays) for name in names if self.dice.is_so(0.85)}}
            for number in range(self.dice.number(2, 10))
        ]

    def _value(self) -> Any:
        return self.dice.one(self._values)

    def _field(self, path: str, has_arrays: bool) -> Any:
        """What stands at a path: what leads on to the paths of the group, alone or in an array, or anything."""
        if self.dice.is_so(0.1):
            return self.dice.one(VALUES if has_arrays else SCALARS)
        if has_arrays and self.dice.is_so(0.45):
            return self.dice.repeat(lambda: self._element(path), 0, 3)
        return self._inner(path, has_arrays)

    def _element(self, path: str) -> Any:
        """Of an array: mostly what leads on, and sometimes a plain value among it."""
        return self._value() if self.dice.is_so(0.15) else self._inner(path, self.dice.is_so(0.15))

    def _inner(self, path: str, has_arrays: bool) -> Any:
        prefix = f"{path}."
        names = sorted({each.removeprefix(prefix).partition(".")[0] for each in self.paths if each.startswith(prefix)})
        if not names or (path in self.paths and self.dice.is_so(0.3)) or self.dice.is_so(0.1):
            return self.dice.one(self._values if has_arrays else SCALARS)
        return {name: self._field(prefix + name, has_arrays) for name in names if self.dice.is_so(0.8)}

    # --- what is known ---

    def indexes(self) -> list[Index]:
        found = []
        for number in range(self.dice.number(1, 3)):
            names = self.dice.some(self.paths, 1, len(self.paths))
            found.append(Index(f"i{number}", tuple(names), sparse=self.dice.is_so(0.5)))
        return found

    def facts(self, model: Model) -> Facts:
        """Arrays are told where there are some, and sometimes where there are none."""
        documents = tuple(model.documents.values())
        roots = [path.partition(".")[0] for path in self.paths]
        columns = sorted({*self.paths, *roots})
        return Facts(
            rows=len(documents) * self.dice.one([1, 1000]),
            blocks=self.dice.number(0, 4),
            document_bytes=self.dice.one([0, 1000, 10**7]),
            column_bytes=dict.fromkeys(self.dice.some(columns, 0, len(columns)), 100),
            indexes=tuple(self._index_facts(index, model, arrays) for index, arrays in model.arrays.items()),
            sample=documents if self.dice.is_so(0.5) else (),
            version=1,
        )

    def _index_facts(self, index: Index, model: Model, arrays: tuple[bool, ...]) -> IndexFacts:
        entries = len(model.entries[index.name])
        statistics = IndexStatistics(entries=entries, distinct=entries // 2) if self.dice.is_so(0.5) else None
        told = tuple(has or self.dice.is_so(0.1) for has in arrays)
        texts = tuple(
            self.dice.is_so(0.1) or any(_may_be_text(one, path) for one in model.documents.values())
            for path in index.paths
        )
        return IndexFacts(index, self.dice.number(0, 3), statistics, told, texts if self.dice.is_so(0.9) else ())

    # --- what is asked ---

    def request(self, model: Model) -> QueryRequest:
        sort, documents = self.sort(), list(model.documents.values())
        asked = parse_filter(self.filter())
        if self.dice.is_so(0.2):
            return QueryRequest(filter=asked, sort=sort, is_count=True)
        after = sort_key(sort)(self.dice.one(documents)) if documents and self.dice.is_so(0.25) else None
        chosen = self.dice.one([None, None, self.dice.some(self.paths, 1, 1), ["c", "b"]])
        return QueryRequest(
            filter=asked,
            sort=sort,
            limit=self.dice.one([None, None, None, 1, 3]),
            offset=self.dice.one([0, 0, 1]),
            is_count=self.dice.is_so(0.05),
            projection=None if chosen is None else parse_projection(chosen),
            after=after,
        )

    def sort(self) -> SortSpec:
        direction = self.dice.one([1, -1])
        paths = [*self.paths, "_id"]
        fields = self.dice.some(paths, 0, 1 if self.dice.is_so(0.5) else len(paths))
        return parse_sort([(name, direction if self.dice.is_so(0.9) else -direction) for name in fields])

    def filter(self) -> Document:
        chance = self.dice.number(0, 9)
        if chance < 7:
            return self.conjunction()
        if chance == 7:
            return {"$nor": [self.conjunction()]}
        branches = {"$or": self.dice.repeat(self._branch, 2, 3)}
        return branches if chance == 8 else {"$and": [self.conjunction(), branches]}

    def _branch(self) -> Document:
        if self.dice.is_so(0.15):
            return {"$and": [{"$or": [self.conjunction(), self.conjunction()]}, self.conjunction()]}
        return self.conjunction()

    def conjunction(self) -> Document:
        found = {path: self.condition() for path in self.paths if self.dice.is_so(0.55)}
        arrays = sorted({path.rpartition(".")[0] for path in self.paths} - {""})
        if arrays and self.dice.is_so(0.4):
            found[self.dice.one(arrays)] = {"$elemMatch": self._of_element()}
        return found | {"_id": self._on_id()} if self.dice.is_so(0.15) else found

    def _of_element(self) -> Document:
        return {name: self.operators() for name in self.dice.some(["x", "y", "0"], 1, 2)}

    def condition(self) -> Any:
        if self.dice.is_so(0.85):
            return self.operators()
        return {"$elemMatch": self.operators() if self.dice.is_so(0.8) else self._of_element()}

    def operators(self) -> Document:
        names = ["$eq", "$eq", "$eq", "$gt", "$lte", "between", "between", "$in", "$in", "$all", "$ne", "$contains"]
        name = self.dice.one([*names, "$exists", "$startsWith", "$regex", "$size", "expressions"])
        if name == "between":
            low, high = self.dice.one(["$gt", "$gte"]), self.dice.one(["$lt", "$lte"])
            if self.dice.is_so(0.5):
                return {low: self.dice.one([0, 1]), high: self.dice.one([2, 3])}
            return {low: self.operand(), high: self.operand()}
        if name == "expressions":
            return {"$in": [Regex(self.dice.one(["^a", "b"])), 1]}
        special: dict[str, Callable[[], Any]] = {
            "$in": lambda: self.dice.repeat(self.operand, 1, 3),
            "$all": lambda: self.dice.repeat(self.operand, 1, 2),
            "$exists": lambda: self.dice.is_so(0.5),
            "$startsWith": lambda: self.dice.one(["", "a", "b"]),
            "$regex": lambda: self.dice.one(PATTERNS),
            "$size": lambda: self.dice.number(0, 2),
        }
        return {name: special.get(name, self.operand)()}

    def operand(self) -> Any:
        """A value that may be asked for by order: an expression may not."""
        value = self.dice.one(VALUES if self.dice.is_so(0.1) else self._values)
        if self._stored and self.dice.is_so(0.7):
            value = self.dice.one(self._stored)
        return 1 if isinstance(value, Regex) else value

    def _on_id(self) -> Any:
        name = self.dice.one(["$eq", "$in", "$gt", "$lte", "$gte", "$ne"])
        return {name: self.dice.some(IDS, 0, 3) if name == "$in" else self.dice.one(IDS)}
