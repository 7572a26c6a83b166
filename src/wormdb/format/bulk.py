"""Columns of many documents at once: Arrow parses their JSON, in its own threads and without a Python object a value.

Arrow tells less than a column must: it gives null for a missing field too, and takes an integer for a
double. So the rows that are in doubt are read again, exactly, by `wormdb.format.project`. Where Arrow refuses
a document, because a field has another type in it, or where a doubt cannot be settled, columns are left to
`wormdb.format.columns.encode_column`, which takes everything.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.format.arrays import array_of
from wormdb.format.columns import ColumnSpec, EncodedColumn, arrow_type, column_of, column_of_json, settle_codes
from wormdb.format.kinds import MISSING, Missing
from wormdb.format.path import Path, get_direct, parse_path
from wormdb.format.project import project, project_raw

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa


__all__ = ["bulk_columns"]

ROWS_MIN: Final = 256
"""Below this many rows Arrow's start costs more than it saves."""

_NAME: Final = "a new block"
_SAMPLE_ROWS: Final = 64
_CHUNK_BYTES: Final = 256 * 1024
_GUESSES: Final[dict[type, str]] = {int: "int64", float: "double", str: "string", bool: "bool"}
_NATIVE: Final = frozenset({*_GUESSES.values(), "date", "list<string>", "list<int64>", "list<bool>"})
"""Types that Arrow reads exactly, doubts aside."""
_DATE: Final = "$date"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_UNTOLD: Final[tuple[Any, ...]] = (None, MISSING, [])
_NOTHING, _EMPTY, _DOCUMENTS, _OTHER = "nothing", "empty", "documents", "other"


def bulk_columns(
    documents: Sequence[bytes | None], ids: Sequence[Any], specs: Sequence[ColumnSpec]
) -> dict[str, EncodedColumn]:
    """By path those columns that Arrow can read exactly: all, some, or none. No requests.

    Only if the documents' ids are `ids`, which are then all text or all integers; else the answer is empty.
    Raises CorruptionError for bytes that are not a document.
    """
    kinds = _kinds(documents, ids, specs) if len(documents) >= ROWS_MIN else {}
    if not kinds:
        return {}
    lines = b"\n".join([b"{}" if document is None else document for document in documents])
    longest = max(len(document or b"") for document in documents)
    arrays = _parse(lines, kinds, block_size=max(_CHUNK_BYTES, 2 * longest + 2))
    if arrays is None or len(arrays["_id",]) != len(documents) or not _agree(arrays["_id",], ids, documents):
        return {}
    del arrays["_id",]
    found: dict[str, EncodedColumn] = {}
    for path, exact in _settled(documents, _doubts(arrays, kinds, lines)).items():
        kind, name = kinds[path], ".".join(path)
        codes = settle_codes(arrays[path], kind, exact)
        if codes is not None:
            found[name] = column_of(name, kind, arrays[path], codes or None)
    return found | _json_columns(documents, [spec for spec in specs if spec.path not in found])


# --- columns of JSON ---


def _json_columns(documents: Sequence[bytes | None], specs: Sequence[ColumnSpec]) -> dict[str, EncodedColumn]:
    """Those columns that hold JSON: it is taken out of the documents as it stands there."""
    wanted = [spec for spec in specs if spec.type in ("json", "auto") and _PLAIN_NAME.fullmatch(spec.path)]
    if not wanted:
        return {}
    columns = project_raw(documents, [spec.path for spec in wanted], name=_NAME)
    return {
        spec.path: column_of_json(spec.path, texts)
        for spec, texts in zip(wanted, columns, strict=True)
        if spec.type == "json" or _is_json(texts)
    }


def _is_json(texts: Sequence[bytes | Missing]) -> bool:
    """Whether a column of any type holds JSON, seen by how its texts begin: documents, and arrays of documents."""
    kinds = Counter(_begins_as(text) for text in texts)
    return not kinds[_OTHER] and kinds[_DOCUMENTS] > kinds[_EMPTY]


def _begins_as(text: bytes | Missing) -> str:
    if text is MISSING or text == b"null":
        return _NOTHING
    if text == b"[]":
        return _EMPTY
    start = text.removeprefix(b"[")[:3]
    # What begins with `$` is an extended form: a date, and the like.
    return _DOCUMENTS if start[:2] in (b'{"', b"{}") and start != b'{"$' else _OTHER


# --- what is asked of Arrow ---


def _kinds(documents: Sequence[bytes | None], ids: Sequence[Any], specs: Sequence[ColumnSpec]) -> dict[Path, str]:
    """The types of the columns to read by path, `_id` among them; empty if there are none."""
    identities = set(map(type, ids))
    if identities not in ({str}, {int}):
        return {}
    sample: list[dict[str, Any]] | None = None
    kinds: dict[Path, str] = {}
    for spec in specs:
        path, kind = parse_path(spec.path), spec.type
        if kind == "auto":
            sample = _sample(documents) if sample is None else sample
            kind = _guess(sample, path)
        if kind in _NATIVE:
            kinds[path] = kind
    # Arrow has one type a field, so nothing is read below a field that is read itself.
    clear = {path: kind for path, kind in kinds.items() if not any(path[:end] in kinds for end in range(1, len(path)))}
    return {("_id",): _GUESSES[identities.pop()], **clear} if clear else {}


def _sample(documents: Sequence[bytes | None]) -> list[dict[str, Any]]:
    chosen = [document for document in documents[:: len(documents) // _SAMPLE_ROWS or 1] if document is not None]
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    try:
        return [decode(document) for document in chosen]
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return []


def _guess(sample: Iterable[dict[str, Any]], path: Path) -> str:
    """The type of the values that there are; none if they differ. If it is wrong, Arrow refuses or a doubt remains."""
    kinds = {_guess_one(value) for document in sample if (value := get_direct(document, path)) not in _UNTOLD}
    if kinds == {"int64", "double"}:
        return "double"
    return kinds.pop() if len(kinds) == 1 else ""


def _guess_one(value: Any) -> str:
    if type(value) is list:
        return f"list<{_GUESSES.get(type(value[0]), '')}>"
    return "date" if type(value) is dict and _DATE in value else _GUESSES.get(type(value), "")


def _parse(lines: bytes, kinds: dict[Path, str], *, block_size: int) -> dict[Path, pa.Array] | None:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import json

    try:
        table = json.read_json(
            pa.BufferReader(lines),
            read_options=json.ReadOptions(block_size=block_size),
            parse_options=json.ParseOptions(
                explicit_schema=pa.schema(_fields(kinds)), unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowException:
        return None
    arrays: dict[Path, pa.Array] = {}
    for path, kind in kinds.items():
        inner = [*path[1:], *([_DATE] if kind == "date" else [])]
        column = table.column(path[0])
        arrays[path] = (pc.struct_field(column, inner) if inner else column).combine_chunks()
    return arrays


def _fields(kinds: dict[Path, str]) -> list[pa.Field]:
    import pyarrow as pa

    below: dict[str, dict[Path, str]] = {}
    for path, kind in kinds.items():
        below.setdefault(path[0], {})[path[1:]] = kind
    fields = []
    for name, inner in below.items():
        own = inner.get(())
        if own is None:
            fields.append(pa.field(name, pa.struct(_fields(inner))))
        elif own == "date":
            fields.append(pa.field(name, pa.struct([(_DATE, arrow_type(own))])))
        else:
            fields.append(pa.field(name, arrow_type(own)))
    return fields


# --- what Arrow cannot tell ---


def _agree(found: pa.Array, ids: Sequence[Any], documents: Sequence[bytes | None]) -> bool:
    import pyarrow as pa

    expected = array_of(ids, found.type)
    if None in documents:
        alive = array_of([document is not None for document in documents], pa.bool_())
        found, expected = found.filter(alive), expected.filter(alive)
    return bool(found.equals(expected))


def _doubts(arrays: dict[Path, pa.Array], kinds: dict[Path, str], lines: bytes) -> dict[Path, list[int]]:
    """For each column the rows that must be read again: nulls, and doubles that may be integers."""
    import pyarrow.compute as pc

    doubts: dict[Path, list[int]] = {}
    nulls: bool | None = None
    for path, array in arrays.items():
        rows: set[int] = set()
        if array.null_count:
            # Without a null in all of the text, every null is a field that is missing.
            nulls = b"null" in lines if nulls is None else nulls
            rows.update(pc.indices_nonzero(pc.is_null(array)).to_pylist() if nulls else ())
        if kinds[path] == "double":
            rows.update(pc.indices_nonzero(pc.equal(pc.floor(array), array)).to_pylist())
        doubts[path] = sorted(rows)
    return doubts


def _settled(documents: Sequence[bytes | None], doubts: dict[Path, list[int]]) -> dict[Path, dict[int, Any]]:
    """For each column the exact values of the rows in doubt; each document is decoded once."""
    rows = sorted({row for doubtful in doubts.values() for row in doubtful})
    paths = [path for path, doubtful in doubts.items() if doubtful]
    columns = project([documents[row] for row in rows], [".".join(path) for path in paths], name=_NAME)
    exact = {path: dict(zip(rows, column, strict=True)) for path, column in zip(paths, columns, strict=True)}
    return {path: {row: exact[path][row] for row in doubtful} for path, doubtful in doubts.items()}
