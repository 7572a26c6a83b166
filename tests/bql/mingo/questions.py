"""Seeded random questions that mingo can be asked: filters, sorts and updates on small documents.

Values are JSON's. Whole numbers and fractions only, because JavaScript has one type of numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.system.clock import Chance

T = TypeVar("T")

Question = list[Any]
"""[document, filter], [documents, sort] or [document, update, array filters, query]."""

NAMES = ("a", "b", "c")
SCALARS: tuple[Any, ...] = (None, 0, 1, 2, 3, 1.5, -3, "a", "ab", "b", "c", True, False)
PATTERNS = ("a", "^a", "b$", "[bc]", "^ab?$")
TYPES = ("string", "int", "double", "object", "array", "bool", "null", "number")
COMPARISONS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")

UPDATES = (
    "$set",
    "$unset",
    "$inc",
    "$mul",
    "$min",
    "$max",
    "$rename",
    "$push",
    "$addToSet",
    "$pull",
    "$pop",
)


class Maker:
    """Makes one question after the other from one source of chance."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance

    # --- chance ---

    def below(self, count: int) -> int:
        return int(self._chance.fraction() * count)

    def one_of(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def some(self, make: Callable[[], T], least: int, most: int) -> list[T]:
        return [make() for _ in range(least + self.below(most - least + 1))]

    # --- documents ---

    def value(self, depth: int = 2) -> Any:
        kind = self.below(10) if depth else 0
        if kind < 5:
            return self.one_of(SCALARS)
        if kind < 8:
            return self.some(lambda: self.value(depth - 1), 0, 3)
        return self.fields(depth - 1, 1, 2)

    def fields(self, depth: int, least: int, most: int) -> dict[str, Any]:
        return {name: self.value(depth) for name in self.some(lambda: self.one_of(NAMES), least, most)}

    def document(self) -> dict[str, Any]:
        return self.fields(2, 1, 3)

    def path(self) -> str:
        first = self.one_of(("a", "a", "b", "c"))
        rest = self.below(10)
        if rest < 6:
            return first
        return f"{first}.{self.one_of((*NAMES, '0', '1'))}"

    # --- filters ---

    def filter_question(self) -> Question:
        document = self.document()
        parts = list(parts_of(document))[1:]
        return [document, self.filter(parts, 2)]

    def filter(self, parts: list[Any], depth: int) -> dict[str, Any]:
        if depth and self.below(5) == 0:
            name = self.one_of(("$and", "$or", "$nor"))
            return {name: self.some(lambda: self.filter(parts, depth - 1), 1, 3)}
        return {self.path(): self.condition(parts, depth) for _ in range(1 + (self.below(4) == 0))}

    def condition(self, parts: list[Any], depth: int) -> Any:
        if self.below(5) == 0:
            return self.operand(parts)
        if depth and self.below(6) == 0:
            return {"$not": self.operators(parts, 0)}
        if depth and self.below(6) == 0:
            inner = self.operators(parts, 0) if self.below(2) else self.filter(parts, 0)
            return {"$elemMatch": inner}
        return self.operators(parts, depth)

    def operators(self, parts: list[Any], _: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(1 + (self.below(4) == 0)):
            found |= self.operator(parts)
        return found

    def operator(self, parts: list[Any]) -> dict[str, Any]:
        kind = self.below(16)
        if kind < 6:
            return {COMPARISONS[kind]: self.operand(parts)}
        if kind < 9:
            return {("$in", "$nin", "$all")[kind - 6]: self.some(lambda: self.operand(parts), 0, 3)}
        if kind < 11:
            return {"$exists": self.below(2) == 0}
        if kind == 11:
            return {"$type": self.one_of(TYPES)}
        if kind == 12:
            return {"$size": self.below(4)}
        if kind == 13:
            return {"$mod": [self.one_of((2, 3)), self.below(3)]}
        return {"$regex": self.one_of(PATTERNS)}

    def operand(self, parts: list[Any]) -> Any:
        return self.one_of(parts) if parts and self.below(3) else self.value(1)

    # --- sorts ---

    def sort_question(self) -> Question:
        name = self.one_of(NAMES)
        others = [self.fields(2, 0, 1) for _ in range(3 + self.below(4))]
        documents = [{"_id": number} | other | {name: self.value()} for number, other in enumerate(others)]
        paths = [name if self.below(3) else f"{name}.{self.one_of(NAMES)}", *self.some(self.path, 0, 1)]
        return [documents, {path: self.one_of((1, -1)) for path in paths} | {"_id": 1}]

    # --- updates ---

    def update_question(self) -> Question:
        if self.below(4) == 0:
            return self.position_question()
        document = self.document()
        changes: dict[str, Any] = {}
        for name in NAMES[: 1 + (self.below(4) == 0)]:  # fields of their own: two changes of one are refused
            operator = self.one_of(UPDATES)
            path = name if self.below(3) else f"{name}.{self.one_of((*NAMES, '0', '1'))}"
            changes.setdefault(operator, {})[path] = self.change(operator, document)
        return [document, changes, [], {}]

    def position_question(self) -> Question:
        """Elements of an array by $, $[] and $[x]."""
        values = self.some(lambda: self.one_of(SCALARS), 1, 4)
        items = values if self.below(2) else [{"b": value} for value in values]
        below = "" if items is values else ".b"
        document = {"a": items, "c": self.one_of(SCALARS)}
        operator = self.one_of(("$set", "$set", "$unset", "$inc", "$mul", "$min", "$max"))
        operand = self.change(operator, {"c": self.one_of(SCALARS)})
        condition = self.one_of(values) if self.below(2) else {self.one_of(COMPARISONS[2:]): self.one_of(values)}
        kind = self.below(3)
        place = ("$", "$[]", "$[x]")[kind]
        change = {operator: {f"a.{place}{below}": operand}}
        return [
            document,
            change,
            [{f"x{below}": condition}] if kind == 2 else [],
            {f"a{below}": condition} if kind == 0 else {},
        ]

    def change(self, operator: str, document: dict[str, Any]) -> Any:
        parts = list(parts_of(document))[1:]
        if operator == "$unset":
            return ""
        if operator in {"$inc", "$mul"}:
            return self.one_of((1, 2, -3, 1.5))
        if operator == "$pop":
            return self.one_of((1, -1))
        if operator == "$rename":
            return self.one_of(("d", "e.f"))
        if operator == "$pull" and self.below(2):
            return self.operators(parts, 0)
        if operator in {"$push", "$addToSet"} and self.below(2):
            return self.each(operator, parts)
        return self.operand(parts)

    def each(self, operator: str, parts: list[Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"$each": self.some(lambda: self.operand(parts), 0, 3)}
        if operator == "$push":
            found |= {"$slice": self.below(7) - 3} if self.below(3) == 0 else {}
            found |= {"$position": self.below(4)} if self.below(3) == 0 else {}
            found |= {"$sort": self.one_of((1, -1))} if self.below(3) == 0 else {}
        return found


def parts_of(value: Any) -> list[Any]:
    """A value and all that is in it."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value, *(part for item in inner for part in parts_of(item))]
