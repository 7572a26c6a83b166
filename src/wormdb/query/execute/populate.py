"""Documents that others refer to, put in their places: one batched fetch for each ref, however many rows there are.

A ref is a field of the model that names another model, or one of its `refs`: of type belongsTo, where a field has
the id of the other, or hasMany, where others have the id of this one. `customer.owner` follows two of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from wormdb.bql.parse import parse_filter
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format import json
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING
from wormdb.format.path import parse_path, resolve
from wormdb.query.request import QueryRequest
from wormdb.schema.problems import did_you_mean
from wormdb.settings import POPULATE_DEPTH_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from wormdb.engine.state.view import StoredVersion
    from wormdb.query.execute.answer import Hit
    from wormdb.schema.model import Field, Model

    ModelOf: TypeAlias = Callable[[str], Model | None]
    StateOf: TypeAlias = Callable[[str], "ReferredState"]

__all__ = ["Reference", "ReferredState", "populate", "read_references", "references_of"]


class ReferredState(Protocol):
    """One state of a collection that refs lead to."""

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        """The live documents under some keys of ids; without those that do not exist."""
        ...

    def hits(self, request: QueryRequest) -> Iterator[Hit]:
        """The rows of an answer."""
        ...


@dataclass(frozen=True, slots=True)
class Reference:
    """One ref to follow: where its documents are put, where their ids come from, and what is followed from there."""

    name: str
    model: str
    field: str
    """For belongsTo the field that has the id or an array of ids; for hasMany the field of the others that has ours."""
    is_many: bool = False
    """hasMany: the others are found by a query."""
    inner: tuple[Reference, ...] = ()


def references_of(model: Model) -> dict[str, Reference]:
    """The refs of a model that can be followed, by name. No requests."""
    found: dict[str, Reference] = {}
    for name, field in model.fields.items():
        target = _target(field)
        if target is not None:
            found[name] = Reference(name, target, name)
    for name, ref in model.refs.items():
        if ref.type == "belongsTo":
            field_name = ref.field or (name if name in model.fields else f"{name}Id")
            found[name] = Reference(name, ref.model, field_name)
        elif ref.type == "hasMany" and ref.foreign_key is not None:
            found[name] = Reference(name, ref.model, ref.foreign_key, is_many=True)
    return found


def _target(field: Field) -> str | None:
    inner = field.items if field.type == "array" and field.items is not None else field
    return field.ref or inner.ref


def read_references(names: Iterable[str], model: Model | None, model_of: ModelOf) -> tuple[Reference, ...]:
    """What names of `populate` mean for a model; `model_of` knows the others.

    Raises InvalidRequestError for a name that is not a ref, LimitExceededError over POPULATE_DEPTH_MAX. No requests.
    """
    return _read([name.split(".") for name in names], model, model_of, 1)


def _read(ways: Sequence[list[str]], model: Model | None, model_of: ModelOf, depth: int) -> tuple[Reference, ...]:
    if depth > POPULATE_DEPTH_MAX:
        reason = f"POPULATE_DEPTH_MAX is {POPULATE_DEPTH_MAX}"
        raise LimitExceededError("populate goes too far", reason=reason, fix="follow fewer refs")
    known = {} if model is None else references_of(model)
    deeper: dict[str, list[list[str]]] = {}
    for first, *rest in ways:
        if first not in known:
            raise _unknown(first, model, known)
        deeper.setdefault(first, []).extend([rest] if rest else [])
    return tuple(
        _with_inner(known[name], _read(inner, model_of(known[name].model), model_of, depth + 1) if inner else ())
        for name, inner in deeper.items()
    )


def _with_inner(reference: Reference, inner: tuple[Reference, ...]) -> Reference:
    return Reference(reference.name, reference.model, reference.field, reference.is_many, inner)


def _unknown(name: str, model: Model | None, known: Mapping[str, Reference]) -> InvalidRequestError:
    if model is None:
        reason, fix = "a collection without a model has no refs", "declare them, and use db.model(…)"
    elif name in model.refs:
        reason, fix = "a ref of type manyToMany, or one without foreignKey, is not followed", "find the others"
    elif known:
        reason, fix = f"{model.name} has no such ref, only {', '.join(known)}", did_you_mean(name, known)
    else:
        reason, fix = f"{model.name} has no refs", 'give a field "ref": "Model" in the schema'
    return InvalidRequestError(f"populate {name!r}", reason=reason, fix=fix)


# --- rows ---


def populate(rows: Sequence[dict[str, Any]], references: Sequence[Reference], state_of: StateOf) -> None:
    """Put the documents that rows refer to into the rows, under the names of the refs; ids are called `id`.

    A document that does not exist is None. For each ref 1 `fetch` or 1 query, whatever the number of rows.
    """
    # A ref may have the name of a field that another one reads.
    ids = [[] if each.is_many else [_at(row, parse_path(each.field)) for row in rows] for each in references]
    for reference, values in zip(references, ids, strict=True):
        put = _many(rows, reference, state_of) if reference.is_many else _one(rows, values, reference, state_of)
        populate(put, reference.inner, state_of)


def _one(
    rows: Sequence[dict[str, Any]], ids: Sequence[Any], reference: Reference, state_of: StateOf
) -> list[dict[str, Any]]:
    """belongsTo: the documents that were put."""
    keys = {encode_key(each) for value in ids for each in _each(value)}
    held = state_of(reference.model).fetch(sorted(keys)) if keys else {}
    put: list[dict[str, Any]] = []

    def document(identity: Any) -> dict[str, Any] | None:
        found = held.get(encode_key(identity))
        if found is None:
            return None
        put.append(_decoded(found))
        return put[-1]

    for row, value in zip(rows, ids, strict=True):
        if value is MISSING or value is None:
            row[reference.name] = None
        else:
            row[reference.name] = [document(each) for each in value] if type(value) is list else document(value)
    return put


def _many(rows: Sequence[dict[str, Any]], reference: Reference, state_of: StateOf) -> list[dict[str, Any]]:
    """hasMany: the documents that were put, in order of their ids."""
    ids = [row["id"] for row in rows]
    if not ids:
        return []
    lists: dict[bytes, list[dict[str, Any]]] = {encode_key(identity): [] for identity in ids}
    path = parse_path(reference.field)
    put: list[dict[str, Any]] = []
    request = QueryRequest(filter=parse_filter({reference.field: {"$in": ids}}))
    for hit in state_of(reference.model).hits(request):
        for key in {encode_key(value) for value in resolve(hit.document, path)} & lists.keys():
            assert hit.held is not None, "whole documents were asked for"
            put.append(_decoded(hit.held))
            lists[key].append(put[-1])
    for row, identity in zip(rows, ids, strict=True):
        row[reference.name] = lists[encode_key(identity)]
    return put


def _at(row: dict[str, Any], path: Sequence[str]) -> Any:
    value: Any = row
    for segment in path:
        value = value.get(segment, MISSING) if type(value) is dict else MISSING
    return value


def _each(value: Any) -> list[Any]:
    if value is MISSING or value is None:
        return []
    return value if type(value) is list else [value]


def _decoded(held: StoredVersion) -> dict[str, Any]:
    """A document of its own for each place where it is put."""
    assert held.document is not None, "sources give live documents"
    document = json.decode_document(held.document, name=f"document {held.id.decode()}")
    return {("id" if name == "_id" else name): value for name, value in document.items()}
