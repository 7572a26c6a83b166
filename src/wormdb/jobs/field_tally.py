"""What is noted of the values of one field: counts, the ends, how many are different, which are frequent.

Memory is bounded whatever the values are, and the result depends on the values alone, not on how the work was cut:
up to VALUES_MAX different ones are counted exactly; of more, the number is estimated from the least of their digests.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.accumulators import Extreme
from wormdb.format import json
from wormdb.format.field_statistics import DIGEST_BYTES, digest_of
from wormdb.format.key import encode_keys
from wormdb.format.kinds import MISSING, Decimal128, ObjectId

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DIGESTS", "FieldTally", "text_of"]

VALUES_MAX: Final = 4_096
DIGESTS: Final = 1_024
_TEXT_MAX: Final = 200
_KINDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    Decimal128: "decimal",
    str: "string",
    datetime: "datetime",
    bytes: "binary",
    ObjectId: "objectid",
    list: "array",
    dict: "object",
}


def text_of(value: Any) -> str:
    """A value as JSON, cut if it is long."""
    text = json.encode(value).decode()
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"


@dataclass(slots=True)
class FieldTally:
    """The state over some rows. Elements of arrays count each, except for `kinds`."""

    missing: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    low: Extreme = field(default_factory=lambda: Extreme(-1))
    high: Extreme = field(default_factory=lambda: Extreme(1))
    values: dict[int, tuple[int, str]] | None = field(default_factory=dict)
    """By digest how often a value was there, and its text; None if there are too many."""
    digests: set[int] = field(default_factory=set)
    """The least of all values."""

    def add(self, values: Sequence[Any]) -> None:
        """Take in the values of some rows. No requests."""
        present = [value for value in values if value is not MISSING]
        self.missing += len(values) - len(present)
        for kind, count in Counter(map(type, present)).items():
            self.kinds[_KINDS.get(kind, kind.__name__.lower())] += count
        flat = [item for value in present for item in (value if type(value) is list else (value,)) if item is not None]
        keys = encode_keys(flat)
        counted = Counter(keys)
        shown = dict(zip(keys, flat, strict=True))
        fresh = {digest_of(key): (count, text_of(shown[key])) for key, count in counted.items()}
        for value in shown.values():
            self.low.add(value)
            self.high.add(value)
        self._count_in(fresh, set(fresh))

    def _count_in(self, values: dict[int, tuple[int, str]] | None, digests: set[int]) -> None:
        self.digests = set(nsmallest(DIGESTS, self.digests | digests))
        if self.values is None or values is None:
            self.values = None
            return
        for digest, (count, text) in values.items():
            known, shown = self.values.get(digest, (0, text))
            # Equal numbers of different types have one digest: the same text in whatever order they come.
            self.values[digest] = (known + count, min(shown, text, key=lambda each: (len(each), each)))
        if len(self.values) > VALUES_MAX:
            self.values = None

    @property
    def distinct(self) -> int:
        """How many different values there are, about if `values` is None."""
        if self.values is not None:
            return len(self.values)
        return round((len(self.digests) - 1) * (1 << 8 * DIGEST_BYTES) / max(self.digests))

    def top(self, most: int) -> list[tuple[str, int]]:
        """The most frequent values, as JSON, and how often they are there; none if there are too many values."""
        return [(text, count) for _, text, count in self.frequent(most)]

    def frequent(self, most: int) -> list[tuple[int, str, int]]:
        """The same, each with its digest before."""
        found = sorted((self.values or {}).items(), key=lambda each: (-each[1][0], each[1][1]))
        return [(digest, text, count) for digest, (count, text) in found[:most]]

    @property
    def total(self) -> int | None:
        """How many values there are, equal ones too; None if there are too many different ones."""
        return None if self.values is None else sum(count for count, _ in self.values.values())

    def state(self) -> list[Any]:
        """All of it as plain values, for `take`."""
        values = None if self.values is None else [[str(d), count, text] for d, (count, text) in self.values.items()]
        digests = [str(digest) for digest in self.digests]
        return [self.missing, dict(self.kinds), self.low.state(), self.high.state(), values, digests]

    def take(self, state: list[Any]) -> None:
        """Take in all that another took in."""
        missing, kinds, low, high, values, digests = state
        self.missing += missing
        self.kinds.update(kinds)
        self.low.take(low)
        self.high.take(high)
        told = None if values is None else {int(digest): (count, text) for digest, count, text in values}
        self._count_in(told, set(map(int, digests)))
