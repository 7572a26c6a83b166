"""Documents against their model: defaults, ids, types. No I/O.

Fields that no model declares are kept. `id` and `_id` are the same field, stored as `_id`, first in the
document; createdAt and updatedAt are dates without being declared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import ValidationError
from wormdb.format.values import MISSING, Document, equal, normalize, normalize_document
from wormdb.schema.coerce import coerce, coerce_fields
from wormdb.schema.identity import id_problem, new_id
from wormdb.schema.indexed import check_indexed
from wormdb.schema.model import Field
from wormdb.schema.path import SINGLETON_ID
from wormdb.schema.report import ProblemReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.schema.model import Model
    from wormdb.system.clock import Chance, Clock

__all__ = ["default_values", "new_document", "validate"]

_TIMESTAMPS: Final = ("createdAt", "updatedAt")
_TIMESTAMP: Final = Field("datetime")
_IDS: Final = frozenset({"_id", "id"})
_ID_FIXES: Final = {
    "given": "give it: ids of this model are not made",
    "seq": "it is the next number of the collection, made when it is saved",
}


def new_document(model: Model, data: Mapping[str, Any], *, clock: Clock, chance: Chance) -> Document:
    """A document ready to be saved: defaults applied, id made, normalized and validated.

    Has no `_id` where `data` gives none and the strategy is seq (the commit numbers it) or given
    (the caller has to). Raises ValidationError listing every field that does not fit, and
    InvalidRequestError for values that cannot be stored. No requests.
    """
    document = _with_id_first(model, normalize_document(data))
    if "_id" not in document:
        made = new_id(model.id, clock=clock, chance=chance)
        document = document if made is None else {"_id": made, **document}
    return _validated(model, _with_defaults(model.fields, document), need_id=False)


def validate(model: Model, document: Mapping[str, Any]) -> Document:
    """The document as it is stored: a fresh copy with every declared value in its type.

    Raises ValidationError listing every field that does not fit, with its dotted path, the reason
    and the fix, a missing id included; InvalidRequestError for values that cannot be stored. No requests.
    """
    return _validated(model, _with_id_first(model, normalize_document(document)), need_id=True)


def default_values(fields: Mapping[str, Field]) -> Document:
    """What a document has that gives none of these fields; raises ValidationError if it must. No requests."""
    report = ProblemReport()
    values = coerce_fields(fields, _with_defaults(fields, {}), "", report)
    if report.errors:
        raise ValidationError("this document", problems=report.errors)
    return values


def _validated(model: Model, document: Document, *, need_id: bool) -> Document:
    report = ProblemReport()
    if "_id" in document:
        problem = id_problem(model, document["_id"])
        if problem is not None:
            report.error(problem.path, problem.reason, problem.fix)
    elif need_id:
        report.error("_id", "is missing", _ID_FIXES.get(model.id, "make the document with create(…)"))
    fields = model.fields
    if not _IDS.isdisjoint(fields):
        fields = {name: field for name, field in fields.items() if name not in _IDS}
    checked = coerce_fields(fields, document, "", report)
    for name in _TIMESTAMPS:
        if name in checked and name not in fields:
            checked[name] = coerce(_TIMESTAMP, checked[name], name, report)
    check_indexed(model, checked, report)
    if report.errors:
        raise ValidationError(f"this is no {model.name}", problems=report.errors)
    return checked


def _with_id_first(model: Model, document: Document) -> Document:
    """`id` becomes `_id`; raises ValidationError for one that is given and is none."""
    given = [document.pop(name) for name in ("_id", "id") if name in document]
    if any(value is None or value == "" for value in given):
        report = ProblemReport()
        report.error("_id", "is null or empty, and that is no id", "leave it out where ids are made, or give one")
        raise ValidationError(f"this is no {model.name}", problems=report.errors)
    if model.is_singleton:
        if any(value != SINGLETON_ID for value in given):
            report = ProblemReport()
            report.error(
                "_id", f"{given[0]!r:.60} is another id than {SINGLETON_ID!r}, which it always has", "leave it out"
            )
            raise ValidationError(f"this is no {model.name}", problems=report.errors)
        return {"_id": SINGLETON_ID, **document}
    if len(given) == 2 and not equal(given[0], given[1]):
        report = ProblemReport()
        report.error(
            "_id", f"{given[0]!r} differs from id {given[1]!r}: both are the document's id", "give one of them"
        )
        raise ValidationError(f"this is no {model.name}", problems=report.errors)
    return {"_id": given[0], **document} if given else document


def _with_defaults(fields: Mapping[str, Field], values: Document) -> Document:
    """Missing fields get their default; inside objects and arrays too, where these are given."""
    for name, field in fields.items():
        if field.default is not MISSING and name not in values and name not in _IDS:
            values[name] = normalize(field.default)
        if field.properties or field.items is not None:
            _fill(field, values.get(name))
    return values


def _fill(field: Field, value: Any) -> None:
    if isinstance(value, dict):
        _with_defaults(field.properties, value)
    elif isinstance(value, list) and field.items is not None and (field.items.properties or field.items.items):
        for item in value:
            _fill(field.items, item)
