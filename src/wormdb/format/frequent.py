"""Which paths of documents become columns of their block without being declared: those that many of them have.

Chosen for each block, from documents at equal distances in it, so that the same documents always give the same
columns. A path leads to scalars or to arrays of scalars of one type, through documents only. Maps with ids as keys
give none: each key is in few documents. Long texts and wide arrays give none either: they would be stored twice, and
are rarely asked for. What the sample does not show costs speed and never an answer: a column says of each row where
its value is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.errors import InvalidRequestError
from wormdb.format.columns import ColumnSpec, plain_type
from wormdb.format.path import Path, parse_path
from wormdb.format.wrappers import READERS, MalformedError
from wormdb.settings import FOUND_COLUMNS_MAX, FOUND_PATH_BYTES_MAX, FOUND_PATH_DEPTH_MAX, FOUND_VALUE_BYTES_MAX, MIB

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pyarrow as pa


__all__ = ["CHOICE", "frequent_columns", "frequent_columns_of_texts"]

CHOICE: Final = 1
"""The number of these rules: compaction writes blocks again whose columns were chosen by lower ones, or not at all."""
SAMPLE_ROWS: Final = 256
"""Documents of a block that are looked at."""
SAMPLE_BYTES: Final = 4 * MIB
"""Of all of them together, about."""
SHARE: Final = 10
"""A path of a block must be in one of this many documents, and in two at least."""
_STEPS_MAX: Final = 1024
"""Fields of one document that are looked at, those of the upper levels first."""
_MAP_FIELDS: Final = 256
"""An embedded document with more fields than this is a map, whose keys are not looked at."""
_NUMBER_BYTES: Final = 8
_NUMBERS: Final = frozenset({"int64", "double"})
_SYSTEM: Final = frozenset({"_id", "_rev", "_seq", "_deleted", "_doc"})
"""Columns that every block has."""
_WRONG_FIRST: Final = _SYSTEM | {"id"}
"""Fields that are these columns, or would be taken for them."""
_DECODER: Final = msgspec.json.Decoder(dict[str, Any])


def frequent_columns(documents: Sequence[bytes], declared: Iterable[str] = ()) -> list[ColumnSpec]:
    """The columns that a block of stored documents has beside the declared ones, in order of appearance. No requests.

    At most FOUND_COLUMNS_MAX with the declared ones. Documents that cannot be read give none.
    """
    step = _step(len(documents), sum(map(len, documents)))
    return _of_sample(documents[::step], declared)


def frequent_columns_of_texts(
    documents: pa.ChunkedArray, declared: Iterable[str] = (), *, least: int = 2
) -> list[ColumnSpec]:
    """The same of documents that are a column of texts; `least` of them must have a path. No requests."""
    import pyarrow.compute as pc

    size = pc.sum(pc.binary_length(documents)).as_py() or 0
    places = range(0, len(documents), _step(len(documents), size))
    # One by one: `take` would join all pieces of the column for a few.
    return _of_sample([documents[place].as_py().encode() for place in places], declared, least)


def _step(rows: int, size: int) -> int:
    return max(-(-rows // SAMPLE_ROWS), -(-size // SAMPLE_BYTES), 1)


def _of_sample(documents: Iterable[bytes], declared: Iterable[str], least: int = 2) -> list[ColumnSpec]:
    try:
        return _frequent_paths([_DECODER.decode(document) for document in documents], declared, least)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return []


def _frequent_paths(documents: Sequence[dict[str, Any]], declared: Iterable[str], least: int) -> list[ColumnSpec]:
    taken = list(declared)
    wanted = max(least, -(-len(documents) // SHARE))
    seen: dict[Path, _PathTally] = {}
    for document in documents:
        for path, value in _leaves(document):
            found = seen.get(path)
            if found is None:
                found = seen[path] = _PathTally()
            found.add(value)
    useful = [path for path, found in seen.items() if found.rows >= wanted and found.is_useful and _is_fit(path)]
    useful.sort(key=lambda path: (-seen[path].rows, len(path), path))
    chosen = set(_apart(useful, taken)[: max(FOUND_COLUMNS_MAX - len(taken), 0)])
    return [ColumnSpec(".".join(path)) for path in seen if path in chosen]


def _leaves(document: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    """The values of a document that are not documents themselves, level by level."""
    level: list[tuple[Path, dict[str, Any]]] = [((), document)]
    steps = 0
    while level:
        below: list[tuple[Path, dict[str, Any]]] = []
        for above, fields in level:
            for name, value in fields.items():
                steps += 1
                if steps > _STEPS_MAX:
                    return
                path = (*above, name)
                if type(value) is not dict or _is_wrapped(value):
                    yield path, value
                elif len(path) < FOUND_PATH_DEPTH_MAX and len(value) <= _MAP_FIELDS:
                    below.append((path, value))
        level = below


def _is_wrapped(value: dict[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)) in READERS


def _apart(paths: Iterable[Path], taken: Collection[str]) -> list[Path]:
    """Without those that differ from others in case only: programs that read Parquet take them for one column."""
    names = {name.casefold() for name in taken} | _SYSTEM
    found = []
    for path in paths:
        name = ".".join(path).casefold()
        if name not in names:
            names.add(name)
            found.append(path)
    return found


def _is_fit(path: Path) -> bool:
    """Whether a query can name the path: a name with a dot in it is not two names."""
    if path[0] in _WRONG_FIRST or any("." in name for name in path):
        return False
    text = ".".join(path)
    try:
        return parse_path(text) == path and len(text.encode()) <= FOUND_PATH_BYTES_MAX
    except InvalidRequestError:
        return False


@dataclass(slots=True)
class _PathTally:
    """The values of one path."""

    rows: int = 0
    size: int = 0
    """Of the values, about."""
    kinds: Counter[str] = field(default_factory=Counter)
    """Types of columns that hold values exactly; empty where none does. Null and empty arrays fit any."""

    def add(self, value: Any) -> None:
        self.rows += 1
        if value is None or value == []:
            return
        elements = value if type(value) is list else [value]
        kinds = {_kind(element) for element in elements if element is not None}
        self.size += sum(len(item) if type(item) is str else _NUMBER_BYTES for item in elements)
        if not kinds:
            return
        kind = kinds.pop() if len(kinds) == 1 else ""
        self.kinds[f"list<{kind}>" if kind and type(value) is list else kind] += 1

    @property
    def is_useful(self) -> bool:
        """Whether one column would hold most of the values, and not take much for it."""
        total = sum(self.kinds.values())
        numbers = sum(self.kinds[kind] for kind in _NUMBERS)
        most = max([numbers, *(count for kind, count in self.kinds.items() if kind)], default=0)
        return most * 2 > total and self.size <= FOUND_VALUE_BYTES_MAX * total


def _kind(value: Any) -> str:
    """The type of column that holds a value; empty if none does."""
    if type(value) is dict and _is_wrapped(value):
        ((name, payload),) = value.items()
        try:
            value = READERS[name](payload)
        except MalformedError:
            return ""
    return plain_type(value) or ""
