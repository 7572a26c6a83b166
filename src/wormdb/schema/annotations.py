"""The annotations of a class, read into field definitions in the form of schema.json.

Python's own types have a place in a table. What only pydantic knows (a URL, a pattern, a type of another package) is
asked of pydantic: what it turns to JSON and back can be a field. Pydantic itself is imported for such classes alone.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, MutableMapping, MutableSequence, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from functools import lru_cache
from pathlib import PurePath
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

from wormdb.errors import SchemaError, ValidationError
from wormdb.format.blob import BlobReference
from wormdb.format.values import MISSING, Decimal128, ObjectId

__all__ = [
    "PLAIN_TEXT",
    "Attribute",
    "PlainText",
    "SecretAnnotationError",
    "UnsupportedAnnotationError",
    "adapter_of",
    "attribute_definition",
    "attributes_of",
    "field_definition",
    "has_asked",
    "is_class_model",
    "is_pydantic",
    "is_root",
    "is_shaped",
    "is_turned",
    "needs_pydantic",
    "pydantic_values",
    "speaks_pydantic",
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
    date: "string",
    time: "string",
    timedelta: "string",
}
_ARRAYS: Final = (list, tuple, Sequence, MutableSequence, set, frozenset, AbstractSet, MutableSet)
_SETS: Final = (set, frozenset, AbstractSet, MutableSet)
_OBJECTS: Final = (dict, Mapping, MutableMapping)
_MOMENTS: Final = ("AwareDatetime", "PastDatetime", "FutureDatetime")
"""Classes of pydantic whose values are datetimes with a time zone, or should be."""
_NAIVE: Final = "NaiveDatetime"
"""The class of those that must have none: dates of a store are moments, so they are stored as text."""


class PlainText:
    """The mark of a secret that is meant to be stored: `Annotated[SecretStr, wormdb.PLAIN_TEXT]`."""

    def __repr__(self) -> str:
        return "PLAIN_TEXT"


PLAIN_TEXT: Final = PlainText()
"""Says that a secret of a class is stored as it is: anyone who may read the bucket may read it."""


class UnsupportedAnnotationError(Exception):
    """An annotation that no field can have; the arguments are the reason and the fix."""


class SecretAnnotationError(UnsupportedAnnotationError):
    """An annotation of a secret that is not marked as one to store."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its name in Python and in documents, and what it holds when it is not given.

    `default` is MISSING where there is none, and for factories other than list, dict and set, whose value
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
    if factory in (list, dict, set, frozenset):
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
    annotation = info.annotation
    if any(mark is PLAIN_TEXT for mark in _metadata(info)):  # pydantic takes what is around an annotation off it
        annotation = Annotated[annotation, PLAIN_TEXT]
    return Attribute(name, _stored_name(name, info), annotation, has_default, default)


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
    kind: Any = type(instance)
    if is_root(kind):
        return instance.root
    dumped = _json_only(kind)
    values = {
        _stored_name(name, info): _dumped(instance, name, info) if name in dumped else getattr(instance, name)
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
    if is_asked(annotation):
        return _secret(annotation)
    annotation = _bare(annotation)
    members = [member for member in _members(annotation) if member is not type(None)]
    if len(members) != 1:
        return _union(members, inside)
    (kind,) = members
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if kind in _SCALARS or _is_text(kind):
        return {"type": _SCALARS.get(kind, "string")}
    if origin is Literal:
        return _choices(list(arguments))
    if origin in _ARRAYS:
        return _array(arguments, inside)
    if origin in _OBJECTS:
        return _mapping(arguments, inside)
    return _class_definition(kind, inside)


def _class_definition(kind: Any, inside: tuple[Any, ...]) -> dict[str, Any]:
    if isinstance(kind, type) and issubclass(kind, Flag):
        return {"type": "integer"}  # a value may be several of its members
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choices([member.value for member in kind])
    if is_root(kind):
        return field_definition(kind.model_fields["root"].annotation, inside)
    if is_class_model(kind):
        return _nested(kind, inside)
    if speaks_pydantic(kind) and _name(kind) != _NAIVE:
        return {"type": "datetime"} if _name(kind) in _MOMENTS else json_definition(kind)
    raise UnsupportedAnnotationError(f"{_name(kind)} cannot be a field", "use a type that JSON or BSON has")


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
            definition = attribute_definition(kind, attribute, (*inside, kind))
        except UnsupportedAnnotationError as error:
            reason, fix = error.args
            raise UnsupportedAnnotationError(f"{attribute.name}: {reason}", fix) from error
        required = not (attribute.has_default or attribute.is_nullable)
        properties[attribute.stored] = {**definition, "required": required}
    return {"type": "object", "properties": properties}


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)


# --- What stands as text, or is known to pydantic alone.

_ADDRESSES: Final = "ipaddress"
"""The module of Python's addresses and networks; not imported, because few classes have them."""


def _is_text(kind: Any) -> bool:
    """Whether values of a class are stored as the text that makes them again."""
    return isinstance(kind, type) and (issubclass(kind, PurePath) or kind.__module__ == _ADDRESSES)


def speaks_pydantic(kind: Any) -> bool:
    """Whether pydantic knows what a class is as JSON: its own types, and those of others that tell it."""
    return hasattr(kind, "__get_pydantic_core_schema__")


def is_shaped(annotation: Any) -> bool:
    """Whether values of an annotation are stored as something else, which has to be turned back when it is read.

    Those of other classes turn their own; those of a TypedDict are plain dicts, which cannot.
    """
    left, seen = [annotation], set()
    while left:
        for one in _parts(left.pop()):
            if one in (date, time, timedelta) or (get_origin(one) or one) in _SETS or _is_text(one):
                return True
            if is_typeddict(one) and one not in seen:
                seen.add(one)
                left += [each.annotation for each in attributes_of(one)]
            elif speaks_pydantic(one) and not is_class_model(one) and not is_root(one):
                return True
    return False


def is_turned(annotation: Any) -> bool:
    """Whether a value of an annotation is another one in a document: what a TypedDict declares has to be made again."""
    turned = (Decimal, UUID)
    return is_shaped(annotation) or any(
        one in turned
        or (get_origin(one) or one) is tuple
        or (isinstance(one, type) and issubclass(one, Enum))
        or (is_class_model(one) and not is_typeddict(one))
        or (is_typeddict(one) and any(is_turned(each.annotation) for each in attributes_of(one)))
        for one in _parts(annotation)
    )


def needs_pydantic(annotation: Any) -> bool:
    """Whether an annotation has a type, also in classes that it names, whose values only pydantic can read."""
    seen: list[Any] = []
    left = _parts(annotation)
    while left:
        part = left.pop()
        if part in seen:
            continue
        seen.append(part)
        if is_class_model(part):
            left += [inner for each in attributes_of(part) for inner in _parts(each.annotation)]
        elif speaks_pydantic(part):
            return True
    return False


def is_asked(annotation: Any) -> bool:
    """Whether an annotation says itself that its secret is to be stored."""
    return get_origin(annotation) is Annotated and any(mark is PLAIN_TEXT for mark in get_args(annotation)[1:])


def has_asked(annotation: Any) -> bool:
    """Whether an annotation, or a part of it, says that its secret is to be stored."""
    return any(is_asked(part) for part in _parts(annotation))


def _parts(annotation: Any) -> list[Any]:
    """An annotation and all that it is made of."""
    found = [annotation]
    for part in found:
        if get_origin(part) is not Literal:
            found.extend(get_args(part)[:1] if get_origin(part) is Annotated else get_args(part))
    return found


def _secret(annotation: Any) -> dict[str, Any]:
    """The definition of a secret that is to be stored."""
    names = {_name(member) for member in _members(annotation)} - {"NoneType"}
    known = {"SecretStr": "string", "SecretBytes": "binary"}
    return {"type": known.get(names.pop(), "any") if len(names) == 1 else "any"}


_TYPES_OF_JSON: Final = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
}


def attribute_definition(kind: Any, attribute: Attribute, inside: tuple[Any, ...]) -> dict[str, Any]:
    """The definition of an attribute of a class; of a pydantic class also if only pydantic knows it as JSON.

    Raises UnsupportedAnnotationError.
    """
    if is_pydantic(kind):
        info = kind.model_fields[attribute.name]
        if attribute.name in _json_only(kind):
            is_free = _has_serializer(kind, attribute.name) or _reads_text(info)
            return {"type": "any"} if is_free else json_definition(_whole(info))
    return field_definition(attribute.annotation, inside)


@lru_cache(maxsize=1_024)
def _json_only(kind: Any) -> frozenset[str]:
    """The fields of a pydantic class that are stored as pydantic writes them to JSON: no other way is known."""
    return frozenset(name for name, info in kind.model_fields.items() if _is_json_only(kind, name, info))


def _is_json_only(kind: Any, name: str, info: Any) -> bool:
    annotation = _pydantic(name, info).annotation
    if _reads_text(info) or _is_encoded(info):
        return True
    if not has_asked(annotation) and any(map(_is_foreign, _parts(annotation))):
        return True
    try:
        field_definition(annotation, (kind,))
    except SecretAnnotationError:
        return False
    except UnsupportedAnnotationError:
        return True
    return False


def _is_foreign(kind: Any) -> bool:
    """Whether a class tells pydantic what its values are, which need not be its instances."""
    is_own = getattr(kind, "__module__", "").startswith("pydantic.") and _name(kind) != _NAIVE
    return speaks_pydantic(kind) and not is_own and not is_class_model(kind) and not is_root(kind)


def _reads_text(info: Any) -> bool:
    """Whether a field is text that pydantic reads as JSON: what it holds then, pydantic would not read again."""
    return "Json" in _marks(info)


def _is_encoded(info: Any) -> bool:
    """Whether a field is read by decoding it, as Base64Bytes is: what it holds then, pydantic would not read again."""
    return not {"EncodedBytes", "EncodedStr"}.isdisjoint(_marks(info))


def _marks(info: Any) -> set[str]:
    """The names of all that stands in the annotation of a pydantic field, or beside it."""
    marks = [mark for part in _parts(_whole(info)) for mark in (part, *getattr(part, "__metadata__", ()))]
    return {getattr(mark, "__name__", type(mark).__name__) for mark in marks}


def _has_serializer(kind: Any, name: str) -> bool:
    """Whether a pydantic class says itself how a field is written."""
    decorators = getattr(kind, "__pydantic_decorators__", None)
    serializers = {} if decorators is None else decorators.field_serializers
    return any(name in one.info.fields or "*" in one.info.fields for one in serializers.values())


def _whole(info: Any) -> Any:
    """The annotation of a pydantic field with all that is around it."""
    return Annotated[(info.annotation, *_metadata(info))] if _metadata(info) else info.annotation


def _metadata(info: Any) -> Sequence[Any]:
    """What stands beside the annotation of a pydantic field."""
    return getattr(info, "metadata", ())


@lru_cache(maxsize=1_024)
def adapter_of(annotation: Any) -> Any:
    """Pydantic's way between values of an annotation and JSON. Raises UnsupportedAnnotationError."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(annotation)
    except PydanticUserError as error:
        raise UnsupportedAnnotationError(
            f"{_name(annotation)} cannot be a field: pydantic does not know it",
            "use a type that JSON has, or say how it is written: a serializer and a validator of the field",
        ) from error


def json_definition(annotation: Any) -> dict[str, Any]:
    """The definition of what pydantic makes of an annotation. Raises UnsupportedAnnotationError."""
    from pydantic.errors import PydanticUserError

    adapter = adapter_of(annotation)
    try:
        schema = adapter.json_schema(mode="serialization")
    except PydanticUserError as error:
        if _has_own_writer(adapter.core_schema):
            return {"type": "any"}  # it says how it is written, and not what that is
        raise UnsupportedAnnotationError(
            f"{_name(annotation)} cannot be a field: pydantic cannot write it as JSON",
            "use a type that JSON has",
        ) from error
    if _holds_secret(schema):
        raise SecretAnnotationError(
            f"{_name(annotation)} is a secret, and would be readable in the bucket",
            "keep it elsewhere, or store a hash; to store it all the same: Annotated[SecretStr, wormdb.PLAIN_TEXT]",
        )
    members = schema.get("anyOf", [schema])
    kinds = {_TYPES_OF_JSON.get(one.get("type"), "any") for one in members if one.get("type") != "null"}
    return {"type": kinds.pop() if len(kinds) == 1 else "any"}


def _has_own_writer(schema: Any) -> bool:
    """Whether a type says itself how its values are written, in what pydantic made of it."""
    if isinstance(schema, dict):
        return "serialization" in schema or any(map(_has_own_writer, schema.values()))
    return isinstance(schema, list) and any(map(_has_own_writer, schema))


def _holds_secret(schema: Any) -> bool:
    if isinstance(schema, dict):
        is_own = schema.get("format") == "password" and schema.get("writeOnly") is True
        return is_own or any(map(_holds_secret, schema.values()))
    return isinstance(schema, list) and any(map(_holds_secret, schema))


def _dumped(instance: Any, name: str, info: Any) -> Any:
    """A field as pydantic writes it to JSON, so that it can be read back: by the class's own serializer if it has one.

    Raises ValidationError for a value that it cannot write.
    """
    try:
        if _has_serializer(type(instance), name):
            serializer = type(instance).__pydantic_serializer__
            return serializer.to_python(instance, mode="json", include={name}, by_alias=False, round_trip=True)[name]
        return adapter_of(_whole(info)).dump_python(getattr(instance, name), mode="json", round_trip=True)
    except (ValueError, TypeError, KeyError) as error:
        raise ValidationError(
            f"field {name} of {type(instance).__name__} cannot be written as JSON",
            reason=" ".join(str(error).split()),
            fix="use a value that JSON has",
        ) from error
