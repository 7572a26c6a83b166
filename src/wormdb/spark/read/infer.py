"""Which columns a collection has: those of its model, or what its statistics, its sample and its tail show.

Inferred columns are a guess about documents that were not read: a value that does not fit is null in its column.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from wormdb.api.columns import follow_path
from wormdb.engine.blocks.portion import DOCUMENT, VERSION
from wormdb.engine.blocks.runs import AttachedBase, Run, RunBase
from wormdb.errors import InvalidRequestError
from wormdb.format.blocklist import BlockEntry
from wormdb.format.frequent import frequent_columns
from wormdb.format.json import decode_document
from wormdb.format.kinds import MISSING, Kind, kind_of
from wormdb.format.path import parse_path
from wormdb.format.sample import decode_sample
from wormdb.schema.problems import did_you_mean
from wormdb.spark.types import JSON, KIND_METADATA, SCORE, ColumnShape, SparkColumn, shape_of_field, shape_of_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql.types import StructField, StructType

    from wormdb.engine.state.view import View
    from wormdb.schema.model import Field, Model

__all__ = ["columns_of_schema", "columns_of_state", "runs_of_view"]

TAIL_DOCUMENTS_MAX: Final = 1_000
"""Documents of the tail that are looked at."""

_TIMES: Final = ("createdAt", "updatedAt")
_SYSTEM: Final = {
    "_doc": SparkColumn("_doc", DOCUMENT, ColumnShape("string")),
    "_rev": SparkColumn("_rev", VERSION, ColumnShape("int64")),
}
_SCORE_COLUMN: Final = SparkColumn("_score", SCORE, ColumnShape("double"))
"""Of rows that were ranked."""
_KINDS: Final = {
    Kind.STRING: "string",
    Kind.BOOLEAN: "bool",
    Kind.DATE: "date",
    Kind.BINARY: "binary",
    Kind.OBJECTID: "objectid",
}
_ID_KINDS: Final = {Kind.STRING: "string", Kind.NUMBER: "int64", Kind.OBJECTID: "objectid"}
_NUMBERS: Final = frozenset({"int64", "double", "decimal"})
_NOTHING: Final = (None, MISSING)


def columns_of_state(
    view: View, model: Model | None, names: Sequence[str] | None, *, is_ranked: bool = False
) -> list[SparkColumn]:
    """The columns of a table for which `names` are wanted; without them all that are known. No requests.

    Those of ranked rows have the score too.

    Raises InvalidRequestError for a name that no document can have.
    """
    seen = _StateEvidence(view)
    if names is None:
        names = ["id", *(_declared_names(model) if model is not None else seen.fields())]
        names = [*names, *(["_score"] if is_ranked else [])]
    system = _system(is_ranked=is_ranked)
    for name in names:
        _check_name(name, names, model, system)
    return [system.get(name) or SparkColumn(name, _path(name), _known(name, model, seen)) for name in names]


def columns_of_schema(
    view: View, model: Model | None, schema: StructType, *, is_ranked: bool = False
) -> list[SparkColumn]:
    """The columns of a table by a schema that the caller gave. No requests.

    Raises InvalidRequestError for a name that no document can have, and for a type that no column can have.
    """
    names = schema.fieldNames()
    known = _system(is_ranked=is_ranked)
    for name in names:
        _check_name(name, names, model, known)
    return [_wanted(field, model, _StateEvidence(view), known.get(field.name)) for field in schema]


def _system(*, is_ranked: bool) -> Mapping[str, SparkColumn]:
    return {**_SYSTEM, "_score": _SCORE_COLUMN} if is_ranked else _SYSTEM


def _wanted(field: StructField, model: Model | None, seen: _StateEvidence, system: SparkColumn | None) -> SparkColumn:
    if not field.nullable and system is None and field.name != "id":
        raise InvalidRequestError(
            f"column {field.name} as NOT NULL",
            reason="a document may lack it, or have a value of another type",
            fix="leave NOT NULL out",
        )
    kind = field.metadata.get(KIND_METADATA)
    known = ColumnShape(kind) if kind in ("json", "objectid") else None
    if known is None and system is None:
        is_told = field.name == "id" or (model is not None and _field(model, field.name) is not None)
        known = _known(field.name, model, seen) if is_told else None
    shape = shape_of_type(field.dataType, known, field.name)
    if system is not None and shape != system.shape:
        raise InvalidRequestError(
            f"column {field.name} as {field.dataType.simpleString()}",
            reason=f"it is {system.shape.kind}",
            fix="leave its type out of the schema, or name it with the option columns",
        )
    return system or SparkColumn(field.name, _path(field.name), shape)


def _known(name: str, model: Model | None, seen: _StateEvidence) -> ColumnShape:
    """What a column holds, as far as the model and the state tell."""
    if name == "id":
        return seen.id_shape(model)
    if model is not None and name in _TIMES and name not in model.fields:
        return ColumnShape("date")
    declared = None if model is None else _field(model, name)
    if declared is not None and declared.type not in ("any", "array"):
        return shape_of_field(declared)
    if declared is not None and declared.items is not None:
        return shape_of_field(declared)
    return seen.shape(_path(name))


def _declared_names(model: Model) -> list[str]:
    return [*(name for name in model.fields if name not in ("_id", "id", *_TIMES)), *_TIMES]


def _field(model: Model, name: str) -> Field | None:
    """The declaration of a dotted name that crosses no array; None if there is none."""
    if name in _TIMES and name not in model.fields:
        from wormdb.schema.model import Field

        return Field("datetime")
    *outer, last = parse_path(name)
    fields = model.fields
    for segment in outer:
        field = fields.get(segment)
        if field is None or field.type != "object":
            return None
        fields = field.properties
    return fields.get(last)


def _check_name(name: str, names: Sequence[str], model: Model | None, system: Mapping[str, SparkColumn]) -> None:
    if name in system:
        return
    parse_path(name)
    if list(names).count(name) > 1:
        raise InvalidRequestError(f"column {name!r}", reason="it is named twice", fix="name it once")
    if model is None or name == "id" or name in _TIMES:
        return
    if parse_path(name)[0] not in model.fields:
        known = ["id", *model.fields, *_TIMES, *system]
        raise InvalidRequestError(
            f"{model.name} has no column {name!r}",
            reason="its model has no such field",
            fix=did_you_mean(name, known),
        )


def _path(name: str) -> str:
    return "_id" if name == "id" else name


def runs_of_view(view: View) -> list[Run]:
    """The runs of blocks that a view is made of, newest first. No requests."""
    bases = [attached.base for attached in view.overlay.attached(view.number)] + [view.base]
    return [run for base in bases if isinstance(base, RunBase | AttachedBase) for run in base.runs.runs]


class _StateEvidence:
    """What a state shows without reading blocks."""

    def __init__(self, view: View) -> None:
        """No requests."""
        self._view = view
        self._upgrades = view.definition.upgrades
        self._found: list[dict[str, Any]] | None = None

    def fields(self) -> list[str]:
        """The fields of documents, as far as they can be named in a path, in order of appearance; then frequent paths.

        Frequent paths are those that blocks have columns for, and those that would be columns of the sample.
        """
        names = dict.fromkeys(name for document in self._documents() for name in document if _is_plain(name))
        names |= dict.fromkeys(spec.path for spec in frequent_columns(list(self._bodies())))
        names |= dict.fromkeys(stats.path for entry in self._blocks() for stats in self._upgrades.stats(entry))
        return [name for name in names if name not in ("_id", "id")]

    def shape(self, path: str) -> ColumnShape:
        """What the values of a path are; JSON if they are of several kinds, or if there are none."""
        parsed = parse_path(path)
        values = [value for document in self._documents() if (value := follow_path(document, parsed)) not in _NOTHING]
        kinds = {_kind(value) for value in values}
        stats = [one for entry in self._blocks() for one in self._upgrades.stats(entry) if one.path == path]
        if any(one.others for one in stats):
            return JSON
        kinds |= {one.type for one in stats if one.values}
        if kinds == {"list"} or any(kind.startswith("list<") for kind in kinds):
            elements = {_kind(item) for value in values if type(value) is list for item in value if item is not None}
            elements |= {kind[5:-1] for kind in kinds if kind.startswith("list<")}
            is_list = all(kind.startswith("list") for kind in kinds)
            inner = _joint(elements) if is_list else JSON
            return JSON if inner.kind == "json" else ColumnShape("list", of=inner)
        return _joint(kinds)

    def id_shape(self, model: Model | None) -> ColumnShape:
        """What ids are: ids of one kind lie together, so the first and the last of each block tell."""
        tags = {
            key[0] for run in runs_of_view(self._view) for part in run.parts for key in (part.key_first, part.key_last)
        }
        tags |= {key[0] for key, _ in self._view.overlay.scan(self._view.number)}
        if not tags:
            return ColumnShape("objectid" if model is not None and model.id == "objectid" else "string")
        return ColumnShape(_ID_KINDS.get(Kind(tags.pop()), "json")) if len(tags) == 1 else JSON

    def _documents(self) -> list[dict[str, Any]]:
        if self._found is None:
            self._found = [decode_document(body, name="a sample") for body in self._bodies()]
        return self._found

    def _bodies(self) -> Iterator[bytes]:
        place = self._view.place
        if place is not None:
            found = decode_sample(place.root.sample, name=place.paths.root).rows.values()
            yield from (self._upgrades.document(body, place.root.applied) for body in found if body)
        for entry in self._view.overlay.entries(self._view.number):
            for event in entry.events:
                yield from (
                    body for body in decode_sample(getattr(event, "sample", None), name="a job").rows.values() if body
                )
        tail = (held.document for _, held in self._view.tail() if held.document is not None)
        yield from islice(tail, TAIL_DOCUMENTS_MAX)

    def _blocks(self) -> Iterable[BlockEntry]:
        return (part for run in runs_of_view(self._view) for part in run.parts if isinstance(part, BlockEntry))


def _kind(value: Any) -> str:
    if type(value) is list:
        return "list"
    if type(value) is int or type(value) is float:
        return "int64" if type(value) is int else "double"
    kind = kind_of(value)
    return "decimal" if kind is Kind.NUMBER else _KINDS.get(kind, "json")


def _joint(kinds: set[str]) -> ColumnShape:
    if len(kinds) == 1:
        return ColumnShape(next(iter(kinds)))
    return ColumnShape("double") if kinds and kinds <= _NUMBERS else JSON


def _is_plain(name: str) -> bool:
    """Whether a field of a document can be named by a path of one part."""
    try:
        return parse_path(name) == (name,)
    except InvalidRequestError:
        return False
