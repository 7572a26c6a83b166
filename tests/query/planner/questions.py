"""Documents, indexes, facts and requests by chance: few values and few paths, so that they often have to do with
each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from bson import Regex

from tests.query.model_executor import Model
from wormdb.bql.parse import parse_filter
from wormdb.bql.projection_parse import parse_projection
from wormdb.bql.sorting import SortSpec, parse_sort, sort_key
from wormdb.clock import SeededChance
from wormdb.index.definition import Index
from wormdb.index.statistics import IndexStatistics
from wormdb.query.facts import Facts, IndexFacts
from wormdb.query.physical.fields import paths_of, sorted_by
from wormdb.query.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.format.kinds import Document

T = TypeVar("T")

SCALARS: list[Any] = [None, 0, 1, 2, 1.0, 2.5, float("nan"), "a", "ab", "b", "", True]
VALUES: list[Any] = [*SCALARS, [], [1], [1, 2], {}, {"x": 1}, [None, 1], [[]], [[1, 2]]]
PATHS = ["a", "b", "c", "a.x", "a.y", "b.x", "a.0", "a.0.x", "c.x.y", "a.1"]
IDS: list[Any] = [0, 1, 2, 3, 5, 7, 99, "x"]
INNER = ["x", "y", "0"]
PATTERNS = ["^a", "^ab?", "^a|b", "b", "^a.*", "^(a)", "^"]


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
    request: Request


class Maker:
    """Makes cases."""

    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed)

    def case(self) -> Case:
        written, sort = self.filter(), self.sort()
        asked = [*paths_of(parse_filter(written)), *sorted_by(sort)]
        model = Model(self.documents(), self.indexes(sorted(asked)))
        return Case(model, self.facts(model), self.request(model, written, sort))

    # --- documents ---

    def documents(self) -> list[Document]:
        is_plain = self.dice.is_so(0.35)
        make = self._scalar if is_plain else self._field
        return [
            {"_id": number, **{name: make() for name in self.dice.some("abc", 0, 3)}}
            for number in range(self.dice.number(0, 8))
        ]

    def _scalar(self) -> Any:
        return self.dice.one(SCALARS)

    def _value(self) -> Any:
        return self.dice.one(VALUES)

    def _inner(self) -> Any:
        make = self._value if self.dice.is_so(0.7) else lambda: self.dice.repeat(self._scalar, 0, 2)
        return {name: make() for name in self.dice.some(INNER, 0, 2)}

    def _element(self) -> Any:
        if self.dice.is_so(0.2):
            return self.dice.repeat(self._inner, 0, 2)
        return self.dice.one([self._scalar, self._value, self._inner])()

    def _field(self) -> Any:
        if self.dice.is_so(0.4):
            return self.dice.repeat(self._element, 0, 3)
        return self.dice.one([self._scalar, self._scalar, self._element, self._inner])()

    # --- what is known ---

    def indexes(self, wanted: Sequence[str]) -> list[Index]:
        """Often on what is asked for."""
        pool = [*PATHS, *[path for path in wanted if path in PATHS] * 8]
        found = []
        for number in range(self.dice.number(1, 5)):
            names = tuple(dict.fromkeys(self.dice.repeat(lambda: self.dice.one(pool), 1, self.dice.number(1, 4))))
            found.append(Index(f"i{number}", names, sparse=self.dice.is_so(0.5)))
        return found

    def facts(self, model: Model) -> Facts:
        """Arrays are told where there are some, and sometimes where there are none."""
        documents = tuple(model.documents.values())
        return Facts(
            rows=len(documents) * self.dice.one([1, 1000]),
            blocks=self.dice.number(0, 4),
            document_bytes=self.dice.one([0, 1000, 10**7]),
            column_bytes=dict.fromkeys(self.dice.some(PATHS, 0, len(PATHS)), 100),
            indexes=tuple(self._index_facts(index, model, arrays) for index, arrays in model.arrays.items()),
            sample=documents if self.dice.is_so(0.5) else (),
            version=1,
        )

    def _index_facts(self, index: Index, model: Model, arrays: tuple[bool, ...]) -> IndexFacts:
        entries = len(model.entries[index.name])
        statistics = IndexStatistics(entries=entries, distinct=entries // 2) if self.dice.is_so(0.5) else None
        told = tuple(has or self.dice.is_so(0.2) for has in arrays)
        return IndexFacts(index, self.dice.number(0, 3), statistics, told)

    # --- what is asked ---

    def request(self, model: Model, written: Document, sort: SortSpec) -> Request:
        documents = list(model.documents.values())
        after = sort_key(sort)(self.dice.one(documents)) if documents and self.dice.is_so(0.25) else None
        if self.dice.is_so(0.2):
            return Request(filter=parse_filter(written), sort=sort, is_count=True)
        chosen = self.dice.one([None, None, ["a"], ["b", "c"], ["a.x", "b"]])
        return Request(
            filter=parse_filter(written),
            sort=sort,
            limit=self.dice.one([None, None, 0, 1, 3]),
            offset=self.dice.one([0, 0, 1]),
            is_count=self.dice.is_so(0.05),
            projection=None if chosen is None else parse_projection(chosen),
            after=after,
        )

    def sort(self) -> SortSpec:
        direction = self.dice.one([1, -1])
        most = 3 if self.dice.is_so(0.3) else 1
        fields = self.dice.some([*PATHS, "_id"], 0, most)
        return parse_sort([(name, direction if self.dice.is_so(0.85) else -direction) for name in fields])

    def filter(self) -> Document:
        chance = self.dice.number(0, 9)
        if chance < 6:
            return self.conjunction(3)
        if chance == 6:
            return {"$nor": [self.conjunction(2)]}
        branches = {"$or": self.dice.repeat(lambda: self.conjunction(2), 2, 3)}
        return branches if chance == 7 else {"$and": [self.conjunction(2), branches]}

    def conjunction(self, size: int) -> Document:
        found = {path: self.condition() for path in self.dice.some(PATHS, 0, size)}
        return found | {"_id": self._on_id()} if self.dice.is_so(0.2) else found

    def condition(self) -> Any:
        if self.dice.is_so(0.75):
            return self.operators()
        if self.dice.is_so(0.5):
            return {"$elemMatch": self.operators()}
        return {"$elemMatch": {name: self.operators() for name in self.dice.some(INNER, 1, 2)}}

    def operators(self) -> Document:
        names = ["$eq", "$eq", "$gt", "$lte", "between", "between", "$in", "$all", "$ne", "$contains"]
        name = self.dice.one([*names, "$exists", "$startsWith", "$regex", "$size", "expressions"])
        if name == "between":
            low, high = self.dice.one(["$gt", "$gte"]), self.dice.one(["$lt", "$lte"])
            return {low: self._scalar(), high: self._scalar()}
        if name == "expressions":
            return {"$in": [Regex(self.dice.one(["^a", "b"])), 1]}
        special: dict[str, Callable[[], Any]] = {
            "$in": lambda: self.dice.repeat(self._value, 0, 3),
            "$all": lambda: self.dice.repeat(self._value, 1, 3),
            "$exists": lambda: self.dice.is_so(0.5),
            "$startsWith": lambda: self.dice.one(["", "a", "b"]),
            "$regex": lambda: self.dice.one(PATTERNS),
            "$size": lambda: self.dice.number(0, 2),
        }
        return {name: special.get(name, self._value)()}

    def _on_id(self) -> Any:
        name = self.dice.one(["$eq", "$in", "$gt", "$lte", "$gte", "$ne"])
        return {name: self.dice.some(IDS, 0, 3) if name == "$in" else self.dice.one(IDS)}
