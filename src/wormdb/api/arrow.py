"""Some fields of many documents: as an Arrow table, or as dicts of these fields alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from wormdb.api.history import parse_as_of
from wormdb.engine.blocks.portion import DOCUMENT, Portion
from wormdb.engine.state.definition import COLUMN_TYPES_OF
from wormdb.engine.state.moments import view_at
from wormdb.engine.state.view import StoredVersion, View, id_key
from wormdb.engine.tree.entries import Range
from wormdb.errors import InvalidRequestError, MissingExtraError
from wormdb.format import json
from wormdb.format.frequent import frequent_columns_of_texts
from wormdb.format.kinds import MISSING
from wormdb.format.path import TRAVERSED, Path, parse_path
from wormdb.format.values import normalize
from wormdb.schema.problems import did_you_mean

if TYPE_CHECKING:
    from datetime import datetime
    from types import ModuleType

    import polars as pl
    import pyarrow as pa

    from wormdb.api.access import Access
    from wormdb.files.foreign.answer import ForeignAnswer
    from wormdb.schema.model import Field, Model

__all__ = [
    "TableReader",
    "declared_type",
    "default_columns",
    "join_columns",
    "join_documents",
    "load_package",
    "sampled_columns",
]

if TYPE_CHECKING:
    Moment = int | datetime | str | None


T = TypeVar("T")

_TIMES: Final = ("createdAt", "updatedAt")
_WHOLE: Final = "doc"
"""The column of whole documents."""


@dataclass(frozen=True, slots=True)
class TableReader(Generic[T]):
    """Reads columns of one collection. Raises what is wrong with a call before any request, if no model is needed."""

    access: Access[T]

    def arrow(self, columns: Sequence[str] | None, start: Any, stop: Any, as_of: Moment) -> pa.Table:
        """Columns of all documents of a range, in order of id; without `columns` those of the model, or frequent ones.

        Costs as `scan_columns`; of the past as a scan of history.
        """
        named = None if columns is None else self.checked(columns)
        reading = _RangeReader.of(self.access, start, stop, as_of)
        if named is None and reading.model is None:
            return join_documents(reading.portions(["_id", DOCUMENT]))
        named = named or default_columns(reading.model)
        _check_known(reading.model, named, self.access.name)
        return join_columns(reading.portions(list(named.values())), named, reading.model)

    def pandas(self, columns: Sequence[str] | None, start: Any, stop: Any, as_of: Moment) -> Any:
        """As `arrow`, for pandas; raises MissingExtraError before any request."""
        load_package("pandas", "to_pandas")
        return self.arrow(columns, start, stop, as_of).to_pandas()

    def polars(self, columns: Sequence[str] | None, start: Any, stop: Any, as_of: Moment) -> pl.DataFrame:
        """As `arrow`, for Polars; raises MissingExtraError before any request."""
        package = load_package("polars", "to_polars")
        frame: pl.DataFrame = package.from_arrow(self.arrow(columns, start, stop, as_of))
        return frame

    def rows(self, columns: Sequence[str], start: Any, stop: Any, as_of: Moment) -> Iterator[dict[str, Any]]:
        """The id and some fields of each document of a range, in order of id. Costs as `arrow`."""
        named = self.checked(columns)
        _check_apart(named, self.access.name)
        reading = _RangeReader.of(self.access, start, stop, as_of)
        _check_known(reading.model, named, self.access.name)
        fields = {name: path for name, path in named.items() if parse_path(name)[0] != "id"}
        portions = reading.portions(["_id", *fields.values()])
        return (row for portion in portions for row in _dicts(portion, fields))

    def checked(self, columns: object) -> dict[str, str]:
        """By name what is read for each column; raises InvalidRequestError. No requests."""
        what = f"columns of {self.access.name}"
        if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
            reason = f"it must be a list of names, not {columns!r:.80}"
            raise InvalidRequestError(what, reason=reason, fix='name them as in ["id", "address.city"]')
        for name in columns:
            parse_path(name)
            if columns.count(name) > 1:
                raise InvalidRequestError(what, reason=f"{name!r} is named twice", fix="name it once")
        named = {name: _stored_path(name) for name in columns}
        if self.access.writer.model is not None:
            _check_known(self.access.writer.model, named, self.access.name)
        return named


@dataclass(frozen=True, slots=True)
class _RangeReader:
    """One state and a range of it."""

    view: View | None
    """None for files that have no states."""
    model: Model | None
    low: bytes
    high: bytes | None
    past: Iterator[tuple[bytes, StoredVersion]] | None = None
    answer: ForeignAnswer | None = None

    @classmethod
    def of(cls, access: Access[Any], start: Any, stop: Any, as_of: Moment) -> _RangeReader:
        """1 GET in a warm process."""
        low = b"" if start is None else _key(start)
        high = None if stop is None else _key(stop)
        if as_of is None and access.files is not None:
            return cls(None, access.writer.model, low, high, answer=access.files.answer())
        if as_of is None:
            view = access.view()
            if access.session is not None:
                access.session.note(None)
            return cls(view, _model(access, view), low, high)
        moment = parse_as_of(as_of, access.clock.now_ms())
        present = access.present()
        model = _model(access, present)
        then = view_at(present, moment)
        if then is not None:
            return cls(then, model, low, high)
        return cls(present, model, low, high, access.history(present).scan(moment, low, high))

    def portions(self, paths: Sequence[str]) -> Iterator[Portion]:
        """Columns of its live documents."""
        from wormdb.engine.columns.scan import portions_of, scan_columns

        if self.answer is not None:
            return self.answer.scan(paths, Range(self.low, self.high))
        assert self.view is not None, "what is not of files is of a state"
        if self.past is not None:
            return portions_of(self.view, (held for _, held in self.past), paths)
        return scan_columns(self.view, paths, low=self.low, high=self.high)


def _model(access: Access[Any], view: View) -> Model | None:
    """The caller's own model, because its fields have an order; what it says is what the database says."""
    return access.writer.model or view.definition.model


def _key(identity: Any) -> bytes:
    return id_key(json.encode(normalize(identity)))


def _stored_path(name: str) -> str:
    """Ids are shown as `id` and stored as `_id`."""
    return f"_{name}" if name == "id" or name.startswith("id.") else name


# --- what a model says ---


def default_columns(model: Model | None) -> dict[str, str]:
    """By name what is read for each column of a table for which none are named. No requests."""
    if model is None:
        return {"id": "_id", _WHOLE: DOCUMENT}
    return {"id": "_id", **{name: name for name in model.columns}}


def _check_known(model: Model | None, named: Mapping[str, str], name: str) -> None:
    """Raise InvalidRequestError for a column that no document of a model has."""
    if model is None:
        return
    for column, path in named.items():
        if path in model.columns or path.split(".")[0] == "_id" or _is_open(model, parse_path(path)):
            continue
        known = ["id", *model.columns]
        raise InvalidRequestError(
            f"{name} has no column {column!r}",
            reason="its model has no such field",
            fix=did_you_mean(column, known),
        )


def _is_open(model: Model, path: Path) -> bool:
    """Whether a model declares a path, or lets anything be there."""
    fields = model.fields
    for segment in path:
        field = fields.get(segment)
        if field is None:
            return False
        while field.type == "array" and field.items is not None:
            field = field.items
        if not field.properties and field.type in ("object", "any", "array"):
            return True
        fields = field.properties
    return True


def declared_type(model: Model | None, path: str) -> str | None:
    """The column type of a field that lies in documents only, not in arrays; None if nothing tells. No requests."""
    if model is None:
        return None
    if path in _TIMES and path not in model.fields:
        return "date"
    *outer, last = parse_path(path)
    fields: Mapping[str, Field] = model.fields
    for segment in outer:
        field = fields.get(segment)
        if field is None or field.type != "object":
            return None
        fields = field.properties
    field = fields.get(last)
    if field is None:
        return None
    if field.type != "array":
        return COLUMN_TYPES_OF.get(field.type)
    inner = None if field.items is None else COLUMN_TYPES_OF.get(field.items.type)
    return None if inner is None or inner == "json" else f"list<{inner}>"


# --- dicts ---


def _check_apart(named: Mapping[str, str], name: str) -> None:
    """Raise InvalidRequestError if a column lies within another one."""
    for inner in named:
        outer = next((other for other in named if inner.startswith(f"{other}.")), None)
        if outer is not None:
            raise InvalidRequestError(
                f"columns of {name}",
                reason=f"{inner!r} is a part of {outer!r}",
                fix="name the whole, or only parts of it",
            )


def _dicts(portion: Portion, fields: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    columns = [(parse_path(name), portion.values(path)) for name, path in fields.items()]
    crossing = sorted({row for _, values in columns for row, value in enumerate(values) if value is TRAVERSED})
    documents = dict(zip(crossing, portion.documents(crossing), strict=True)) if crossing else {}
    for row, identity in enumerate(portion.values("_id")):
        found = {"id": identity}
        body = documents.get(row)
        whole = {} if body is None else json.decode_document(body, name=f"document {identity!r}")
        for path, values in columns:
            value = values[row]
            if value is TRAVERSED:
                paths = [other for other, _ in columns if other[0] == path[0]]
                found[path[0]] = _included(whole, paths)[path[0]]
            elif value is not MISSING and type(found.setdefault(path[0], {})) is dict:
                _put(found, path, value)
        yield found


def _put(found: dict[str, Any], path: Path, value: Any) -> None:
    for segment in path[:-1]:
        found = found.setdefault(segment, {})
    found[path[-1]] = value


def _included(document: dict[str, Any], paths: Sequence[Path]) -> dict[str, Any]:
    """Those parts of a document to which paths lead, through arrays too, as MongoDB's projection gives them."""
    found: dict[str, Any] = {}
    for field in dict.fromkeys(path[0] for path in paths):
        deeper = [path[1:] for path in paths if path[0] == field]
        value = document.get(field, MISSING)
        value = value if () in deeper else _within(value, deeper)
        if value is not MISSING and value != {}:
            found[field] = value
    return found


def _within(value: Any, paths: Sequence[Path]) -> Any:
    if type(value) is dict:
        return _included(value, paths)
    if type(value) is list:
        return [_within(item, paths) for item in value if type(item) in (dict, list)]
    return MISSING


def load_package(name: str, verb: str) -> ModuleType:
    """A package that turns tables into something else; raises MissingExtraError naming it. No requests."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{verb} needs the package {name}", reason="it is not installed", fix=f"pip install {name}"
        ) from error


def join_documents(portions: Iterable[Portion]) -> pa.Table:
    """Documents without a model as a table: `id`, the paths that a tenth of them has, and `doc`, the document as JSON.

    `portions` have ids and documents. The columns depend on these rows and on nothing else, as their types do. No
    requests beside those of the portions.
    """
    import pyarrow as pa

    held = list(portions)
    texts = pa.chunked_array([text for one in held for text in one.table.column(DOCUMENT).chunks], pa.large_string())
    found = [spec for spec in frequent_columns_of_texts(texts, least=1) if spec.path != _WHOLE]
    named = {"id": "_id", **{spec.path: spec.path for spec in found}, _WHOLE: DOCUMENT}
    return join_columns((one.with_columns(found) for one in held), named, None)


def sampled_columns(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns that `join_documents` would give these documents, which have no model. No requests."""
    import pyarrow as pa

    texts = pa.chunked_array([[json.encode(document).decode() for document in documents]], pa.large_string())
    found = [spec.path for spec in frequent_columns_of_texts(texts, least=1) if spec.path != _WHOLE]
    return ["id", *found, _WHOLE]


def join_columns(portions: Iterable[Portion], named: Mapping[str, str], model: Model | None) -> pa.Table:
    """Columns of portions one after the other, by name: those in `named`, in the types that a model declares.

    No requests beside those of the portions.
    """
    import pyarrow as pa

    from wormdb.api.columns import ArrowColumn

    gathered = {name: ArrowColumn(path, declared_type(model, path)) for name, path in named.items() if path != DOCUMENT}
    texts: list[pa.Array] = []
    for portion in portions:
        for column in gathered.values():
            column.add(portion)
        if DOCUMENT in named.values():
            texts += portion.table.column(DOCUMENT).chunks
    return pa.table(
        {
            name: gathered[name].finish() if name in gathered else pa.chunked_array(texts, pa.large_string())
            for name in named
        }
    )
