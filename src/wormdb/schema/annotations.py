"""Classes and their annotations, read into field definitions in the form of schema.json."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

import msgspec

from wormdb.errors import SchemaError
from wormdb.format.blob import BlobReference
from wormdb.format.values import MISSING, Decimal128, ObjectId

__all__ = [
    "Attribute",
    "UnsupportedAnnotationError",
    "attributes_of",
    "field_definition",
    "is_class_model",
    "is_pydantic",
    "pydantic_values",
    "takes_more",
]

_SCALARS: Final[Mapping[Any, str]] = {
    Any: "any",
    object: "any",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    datetime: "datetime",
    Decimal: "decimal",
    Decimal128: "decimal",
    bytes: "binary",
    UUID: "string",
    ObjectId: "objectid",
    BlobReference: "object",
}
_ARRAYS: Final = (list, tuple, Sequence, MutableSequence)
_OBJECTS: Final = (dict, Mapping, MutableMapping)
_FIXES: Final[Mapping[Any, str]] = {
    set: "use list: a set has no order",
    frozenset: "use list: a set has no order",
    date: "use datetime: there is no date without a time",
    time: "use datetime, or str",
    timedelta: "use float for seconds",
}


class UnsupportedAnnotationError(Exception):
    """An annotation that no field can have; the arguments are the reason and the fix."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its name in Python and in documents, and what it holds when it is not given.

    `default` is MISSING where there is none, and for factories other than list and dict, whose value
    may differ each time; `has_default` is true for these as well.
    """

    name: str
    stored: str
    annotation: Any
    has_default: bool
    default: Any = MISSING

    @property
    def is_nullable(self) -> bool:
        """Whether None is allowed."""
        return type(None) in _members(self.annotation)


def is_pydantic(kind: Any) -> bool:
    """Whether a class speaks pydantic's protocol; pydantic itself is never imported here."""
    return isinstance(kind, type) and hasattr(kind, "model_fields") and hasattr(kind, "model_validate")


def is_class_model(kind: Any) -> bool:
    """Whether a class can be a model: dataclass, TypedDict, msgspec.Struct or pydantic."""
    if not isinstance(kind, type):
        return False
    is_record = dataclasses.is_dataclass(kind) or is_typeddict(kind) or issubclass(kind, msgspec.Struct)
    return is_record or (is_pydantic(kind) and not is_root(kind))


def attributes_of(kind: Any) -> tuple[Attribute, ...]:
    """The attributes of a class that can be a model; SchemaError if its annotations cannot be resolved."""
    if is_pydantic(kind):
        return tuple(_pydantic(name, info) for name, info in kind.model_fields.items())
    try:
        hints = get_type_hints(kind, include_extras=True)
    except (NameError, TypeError) as error:
        raise SchemaError(
            f"class {kind.__name__}",
            reason=f"its annotations cannot be resolved: {error}",
            fix="define the classes it names in the module, not inside a function",
        ) from error
    if is_typeddict(kind):
        return tuple(_typed_key(kind, name, hint) for name, hint in hints.items())
    fields = msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else dataclasses.fields(kind)
    return tuple(_attribute(field, hints[field.name]) for field in fields)


def _attribute(field: Any, hint: Any) -> Attribute:
    default = MISSING if field.default in _ABSENT else field.default
    factory = None if field.default_factory in _ABSENT else field.default_factory
    if factory in (list, dict):
        default = factory()
    has_default = default is not MISSING or factory is not None
    return Attribute(field.name, getattr(field, "encode_name", field.name), hint, has_default, default)


class _NoValue:
    """`in` by identity: a default may be of a class with an equality of its own."""

    def __contains__(self, value: object) -> bool:
        return value is dataclasses.MISSING or value is msgspec.NODEFAULT


_ABSENT: Final = _NoValue()


def _typed_key(kind: Any, name: str, hint: Any) -> Attribute:
    origin = get_origin(hint)
    may_miss = origin is NotRequired or (name not in kind.__required_keys__ and origin is not Required)
    return Attribute(name, name, hint, may_miss)


def _pydantic(name: str, info: Any) -> Attribute:
    has_default = not info.is_required()
    is_plain = has_default and info.default_factory is None
    default = info.default if is_plain else MISSING
    return Attribute(name, _stored_name(name, info), info.annotation, has_default, default)


def _stored_name(name: str, info: Any) -> str:
    """The name that pydantic reads a field by, so that what is stored comes back, whatever name it writes it under."""
    alias = getattr(info, "validation_alias", None) or info.alias or name
    if not isinstance(alias, str):
        raise SchemaError(
            f"field {name} cannot be stored", reason="it is read by several names, or a path", fix="give it one alias"
        )
    return alias


def pydantic_values(instance: Any) -> Any:
    """The fields of a pydantic instance by their stored names, and what it has beside them; the root of a RootModel.

    Not what it would dump: that leaves fields out (`exclude`), adds computed ones, and cuts instances of subclasses.
    """
    kind = type(instance)
    if is_root(kind):
        return instance.root
    values = {
        _stored_name(name, info): getattr(instance, name)
        for name, info in kind.model_fields.items()
        if hasattr(instance, name)
    }
    return {**(getattr(instance, "model_extra", None) or {}), **values}


def is_root(kind: Any) -> bool:
    """Whether a class is a RootModel of pydantic, which is stored as what it wraps."""
    return bool(getattr(kind, "__pydantic_root_model__", False))


def takes_more(kind: Any) -> bool:
    """Whether instances of a class keep fields that it does not name."""
    return is_typeddict(kind) or (is_pydantic(kind) and getattr(kind, "model_config", {}).get("extra") == "allow")


def field_definition(annotation: Any, inside: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The definition of an annotation; `inside` are the classes around it, which it may name again.

    Raises UnsupportedAnnotationError.
    """
    annotation = _bare(annotation)
    members = [member for member in _members(annotation) if member is not type(None)]
    if len(members) != 1:
        return _union(members, inside)
    (kind,) = members
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if origin is Literal:
        return _choices(list(arguments))
    if origin in _ARRAYS:
        return _array(arguments, inside)
    if origin in _OBJECTS:
        return _mapping(arguments, inside)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choices([member.value for member in kind])
    if is_root(kind):
        return field_definition(kind.model_fields["root"].annotation, inside)
    if is_class_model(kind):
        return _nested(kind, inside)
    raise UnsupportedAnnotationError(
        f"{_name(kind)} cannot be a field", _FIXES.get(kind, "use a type that JSON or BSON has")
    )


def _bare(annotation: Any) -> Any:
    while get_origin(annotation) in (Annotated, Required, NotRequired):
        annotation = get_args(annotation)[0]
    return annotation


def _members(annotation: Any) -> tuple[Any, ...]:
    annotation = _bare(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(_bare(member) for member in get_args(annotation))
    return (annotation,)


def _union(members: list[Any], inside: tuple[Any, ...]) -> dict[str, Any]:
    """One type for several: number for int | float, any for all others that are each supported."""
    found = {field_definition(member, inside).get("type", "any") for member in members}
    if not found:
        raise UnsupportedAnnotationError("it can only be None", "give it a type")
    return {"type": found.pop() if len(found) == 1 else "number" if found == {"integer", "number"} else "any"}


def _choices(values: list[Any]) -> dict[str, Any]:
    kinds = {_SCALARS.get(type(value)) for value in values if value is not None}
    if not kinds <= {"string", "integer", "number", "boolean"}:
        raise UnsupportedAnnotationError("its values are not all text, numbers or booleans", "use such values")
    (kind,) = kinds if len(kinds) == 1 else {"any"}
    return {"type": kind, "enum": values}


def _array(arguments: tuple[Any, ...], inside: tuple[Any, ...]) -> dict[str, Any]:
    kinds = [argument for argument in arguments if argument is not ...]
    if len(kinds) != 1:
        return {"type": "array"}
    return {"type": "array", "items": field_definition(kinds[0], inside)}


def _mapping(arguments: tuple[Any, ...], inside: tuple[Any, ...]) -> dict[str, Any]:
    if arguments:
        if _bare(arguments[0]) is not str:
            raise UnsupportedAnnotationError("its keys are not text", "use dict[str, …]")
        field_definition(arguments[1], inside)
    return {"type": "object"}


def _nested(kind: Any, inside: tuple[Any, ...]) -> dict[str, Any]:
    if kind in inside:
        return {"type": "object"}
    properties = {}
    for attribute in attributes_of(kind):
        try:
            definition = field_definition(attribute.annotation, (*inside, kind))
        except UnsupportedAnnotationError as error:
            reason, fix = error.args
            raise UnsupportedAnnotationError(f"{attribute.name}: {reason}", fix) from error
        required = not (attribute.has_default or attribute.is_nullable)
        properties[attribute.stored] = {**definition, "required": required}
    return {"type": "object", "properties": properties}


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)
