"""Models from classes: dataclass, TypedDict, msgspec.Struct, or a pydantic model if it is installed.

The attribute `id` is the document's `_id`; empty text or None means that one is to be made. UUID attributes
are stored as text, enums by their value. Every field of the class is stored, also those that it leaves out
elsewhere (`Field(exclude=True)`); properties, computed fields and private attributes are none.
"""

from __future__ import annotations

import dataclasses
import re
import threading
import types
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from contextlib import suppress
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

import msgspec

from wormdb.errors import Problem, SchemaError, ValidationError
from wormdb.format.blob import BlobReference, reference_of
from wormdb.format.values import MISSING, Decimal128, Document, ObjectId, normalize, normalize_document
from wormdb.schema.keys import TABLES
from wormdb.schema.load import load_model
from wormdb.schema.model import SYSTEM_FIELDS, Model
from wormdb.schema.problems import did_you_mean

__all__ = [
    "Converter",
    "from_document",
    "model_from_class",
    "to_document",
    "to_plain",
]


# --- Classes and their annotations, read into field definitions in the form of schema.json.

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


class _UnsupportedAnnotationError(Exception):
    """An annotation that no field can have; the arguments are the reason and the fix."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Attribute:
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


def _is_pydantic(kind: Any) -> bool:
    """Whether a class speaks pydantic's protocol; pydantic itself is never imported here."""
    return isinstance(kind, type) and hasattr(kind, "model_fields") and hasattr(kind, "model_validate")


def _is_class_model(kind: Any) -> bool:
    """Whether a class can be a model: dataclass, TypedDict, msgspec.Struct or pydantic."""
    if not isinstance(kind, type):
        return False
    is_record = dataclasses.is_dataclass(kind) or is_typeddict(kind) or issubclass(kind, msgspec.Struct)
    return is_record or (_is_pydantic(kind) and not _is_root(kind))


def _attributes_of(kind: Any) -> tuple[_Attribute, ...]:
    """The attributes of a class that can be a model; SchemaError if its annotations cannot be resolved."""
    if _is_pydantic(kind):
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


def _attribute(field: Any, hint: Any) -> _Attribute:
    default = MISSING if field.default in _ABSENT else field.default
    factory = None if field.default_factory in _ABSENT else field.default_factory
    if factory in (list, dict):
        default = factory()
    has_default = default is not MISSING or factory is not None
    return _Attribute(field.name, getattr(field, "encode_name", field.name), hint, has_default, default)


class _NoValue:
    """`in` by identity: a default may be of a class with an equality of its own."""

    def __contains__(self, value: object) -> bool:
        return value is dataclasses.MISSING or value is msgspec.NODEFAULT


_ABSENT: Final = _NoValue()


def _typed_key(kind: Any, name: str, hint: Any) -> _Attribute:
    origin = get_origin(hint)
    may_miss = origin is NotRequired or (name not in kind.__required_keys__ and origin is not Required)
    return _Attribute(name, name, hint, may_miss)


def _pydantic(name: str, info: Any) -> _Attribute:
    has_default = not info.is_required()
    is_plain = has_default and info.default_factory is None
    default = info.default if is_plain else MISSING
    return _Attribute(name, _stored_name(name, info), info.annotation, has_default, default)


def _stored_name(name: str, info: Any) -> str:
    """The name that pydantic reads a field by, so that what is stored comes back, whatever name it writes it under."""
    alias = getattr(info, "validation_alias", None) or info.alias or name
    if not isinstance(alias, str):
        raise SchemaError(
            f"field {name} cannot be stored", reason="it is read by several names, or a path", fix="give it one alias"
        )
    return alias


def _pydantic_values(instance: Any) -> Any:
    """The fields of a pydantic instance by their stored names, and what it has beside them; the root of a RootModel.

    Not what it would dump: that leaves fields out (`exclude`), adds computed ones, and cuts instances of subclasses.
    """
    kind = type(instance)
    if _is_root(kind):
        return instance.root
    values = {
        _stored_name(name, info): getattr(instance, name)
        for name, info in kind.model_fields.items()
        if hasattr(instance, name)
    }
    return {**(getattr(instance, "model_extra", None) or {}), **values}


def _is_root(kind: Any) -> bool:
    """Whether a class is a RootModel of pydantic, which is stored as what it wraps."""
    return bool(getattr(kind, "__pydantic_root_model__", False))


def _takes_more(kind: Any) -> bool:
    """Whether instances of a class keep fields that it does not name."""
    return is_typeddict(kind) or (_is_pydantic(kind) and getattr(kind, "model_config", {}).get("extra") == "allow")


def _field_definition(annotation: Any, inside: tuple[Any, ...] = ()) -> dict[str, Any]:
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
    if _is_root(kind):
        return _field_definition(kind.model_fields["root"].annotation, inside)
    if _is_class_model(kind):
        return _nested(kind, inside)
    raise _UnsupportedAnnotationError(
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
    found = {_field_definition(member, inside).get("type", "any") for member in members}
    if not found:
        raise _UnsupportedAnnotationError("it can only be None", "give it a type")
    return {"type": found.pop() if len(found) == 1 else "number" if found == {"integer", "number"} else "any"}


def _choices(values: list[Any]) -> dict[str, Any]:
    kinds = {_SCALARS.get(type(value)) for value in values if value is not None}
    if not kinds <= {"string", "integer", "number", "boolean"}:
        raise _UnsupportedAnnotationError("its values are not all text, numbers or booleans", "use such values")
    (kind,) = kinds if len(kinds) == 1 else {"any"}
    return {"type": kind, "enum": values}


def _array(arguments: tuple[Any, ...], inside: tuple[Any, ...]) -> dict[str, Any]:
    kinds = [argument for argument in arguments if argument is not ...]
    if len(kinds) != 1:
        return {"type": "array"}
    return {"type": "array", "items": _field_definition(kinds[0], inside)}


def _mapping(arguments: tuple[Any, ...], inside: tuple[Any, ...]) -> dict[str, Any]:
    if arguments:
        if _bare(arguments[0]) is not str:
            raise _UnsupportedAnnotationError("its keys are not text", "use dict[str, …]")
        _field_definition(arguments[1], inside)
    return {"type": "object"}


def _nested(kind: Any, inside: tuple[Any, ...]) -> dict[str, Any]:
    if kind in inside:
        return {"type": "object"}
    properties = {}
    for attribute in _attributes_of(kind):
        try:
            definition = _field_definition(attribute.annotation, (*inside, kind))
        except _UnsupportedAnnotationError as error:
            reason, fix = error.args
            raise _UnsupportedAnnotationError(f"{attribute.name}: {reason}", fix) from error
        required = not (attribute.has_default or attribute.is_nullable)
        properties[attribute.stored] = {**definition, "required": required}
    return {"type": "object", "properties": properties}


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)


T = TypeVar("T")

_reading = threading.Lock()


def model_from_class(cls: type[Any], *, name: str | None = None, **overrides: Any) -> Model:
    """The model of a class; `overrides` are further keys of schema.json in snake_case.

    Without a path the collection is the class's name in snake_case, ids are UUIDs (or, where `id` is neither
    text nor UUID, given by the caller), and no readable files are kept. What `fields` holds is merged into
    the fields of the class. Raises SchemaError naming every attribute and key that does not fit. No requests.
    """
    if not _is_class_model(cls):
        raise SchemaError(
            f"{cls!r} cannot be a model",
            reason="it must be a dataclass, TypedDict, msgspec.Struct or pydantic class",
            fix="decorate it with @dataclass",
        )
    name = name or cls.__name__
    keys = {key.attribute: key.name for key in TABLES["model"]}
    problems = [Problem(key, "unknown key of a model", did_you_mean(key, keys)) for key in overrides if key not in keys]
    attributes = [attribute for attribute in _attributes_of(cls) if attribute.stored not in {"id", "_id"}]
    fields = {}
    for attribute in attributes:
        try:
            fields[attribute.stored] = _definition(attribute, cls)
        except _UnsupportedAnnotationError as error:
            problems.append(Problem(f"{cls.__name__}.{attribute.name}", *error.args))
    if problems:
        raise SchemaError(f"class {cls.__name__} cannot be a model", problems=problems)
    for field, extra in overrides.pop("fields", {}).items():
        fields[field] = {**fields.get(field, {}), **extra}
    definition = {keys[key]: value for key, value in overrides.items()}
    return load_model(name, {"path": _default_path(cls, name), **definition, "fields": fields})


def _definition(attribute: _Attribute, cls: type[Any]) -> dict[str, Any]:
    definition = _field_definition(attribute.annotation, (cls,))
    if attribute.default is not MISSING and not (attribute.default is None and attribute.is_nullable):
        definition["default"] = normalize(attribute.default, plain=to_plain)
    if not attribute.has_default and not attribute.is_nullable:
        definition["required"] = True
    if attribute.is_nullable and "enum" in definition:
        definition["enum"] = [value for value in definition["enum"] if value is not None]
    return definition


def _default_path(cls: type[Any], name: str) -> str:
    kinds = [attribute.annotation for attribute in _attributes_of(cls) if attribute.stored in {"id", "_id"}]
    is_text = not kinds or kinds[0] in {str, str | None, UUID, UUID | None}
    collection = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return f"@{collection}/(id:{'uuid' if is_text else 'any'})"


class Converter(Generic[T]):
    """Between the instances of one class and documents."""

    def __init__(self, cls: type[T]) -> None:
        """Read the class once; raises SchemaError if its annotations cannot be resolved."""
        self._cls = cls
        self._is_pydantic = _is_pydantic(cls)
        attributes = _attributes_of(cls)
        self._id = next((each for each in attributes if each.stored in {"id", "_id"}), None)
        self._nullable = [each.stored for each in attributes if each.is_nullable and not each.has_default]
        self._made = frozenset(each.stored for each in attributes if each.has_default and each.default is MISSING)
        # A class that takes no other names would take no document of a model: every one has its times.
        names = frozenset(each.stored for each in attributes)
        self._unknown = frozenset() if _takes_more(cls) else frozenset(SYSTEM_FIELDS) - names - {"_id"}
        if not self._is_pydantic:
            _read_once(cls)

    @property
    def made(self) -> frozenset[str]:
        """The fields whose default is made anew for each instance."""
        return self._made

    def id_of(self, instance: T) -> Any:
        """The id that an instance has; None if it has none, or an empty one."""
        identity = None if self._id is None else getattr(instance, self._id.name, None)
        return None if identity == "" else identity

    def to_document(self, instance: T) -> Document:
        """The document of an instance, normalized; it has no `_id` where `id` is empty or None.

        Every field is in it with the value that the instance has, whatever the class says about writing it elsewhere,
        and with its subclass's fields if it is of one; attributes that are not fields are left out.
        Raises InvalidRequestError for values that cannot be stored. No requests.
        """
        values = normalize_document(to_plain(instance), plain=to_plain)
        identity = values.pop(self._id.stored, None) if self._id is not None else None
        return values if identity is None or identity == "" else {"_id": identity, **values}

    def from_document(self, document: Mapping[str, Any]) -> T:
        """The instance of a document; nullable attributes without a default may be missing.

        Raises ValidationError if the document does not fit the class. No requests.
        """
        values = {name: _decimals(value) for name, value in document.items() if name not in self._unknown}
        if self._id is not None and "_id" in values:
            values[self._id.stored] = values.pop("_id")
        for name in self._nullable:
            values.setdefault(name, None)
        convert = self._validate if self._is_pydantic else self._convert
        try:
            return convert(values)
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())
            fix = "correct the document, or make the attribute optional"
            raise ValidationError(
                f"document {document.get('_id')!r} does not fit {self._cls.__name__}", reason=reason, fix=fix
            ) from error

    def _convert(self, values: dict[str, Any]) -> T:
        return msgspec.convert(values, self._cls, dec_hook=_special)

    def _validate(self, values: dict[str, Any]) -> T:
        validate: Callable[[Any], T] = self._cls.model_validate  # type: ignore[attr-defined] # pydantic's protocol
        return validate(values)


def _read_once(cls: type[Any]) -> None:
    """Let msgspec work out a class now, one thread at a time.

    It does so at the first use, and a second thread that comes meanwhile takes what is half done and crashes.
    """
    with _reading, suppress(TypeError):  # what msgspec cannot read is told at the first document
        msgspec.json.Decoder(cls)


def to_document(instance: Any) -> Document:
    """The document of an instance of a class model; see `Converter`."""
    return Converter(type(instance)).to_document(instance)


def from_document(cls: type[T], document: Mapping[str, Any]) -> T:
    """The instance of a document; see `Converter`."""
    return Converter(cls).from_document(document)


def to_plain(value: Any) -> Any:
    """What stands for a value of a class in a document: fields by their stored names, not looked into any further.

    Enums stand by their value, UUIDs as text; everything else is itself.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, msgspec.Struct):
        return _struct(value)
    if isinstance(value, type):
        return value
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclass_fields(value)}
    return _pydantic_values(value) if _is_pydantic(type(value)) else value


def _struct(value: msgspec.Struct) -> dict[str, Any]:
    fields = {each.encode_name: getattr(value, each.name) for each in msgspec.structs.fields(value)}
    config = value.__struct_config__
    return fields if config.tag_field is None else {config.tag_field: config.tag, **fields}


def _decimals(value: Any) -> Any:
    if isinstance(value, Decimal128):
        return value.to_decimal()
    if isinstance(value, dict):
        return {name: _decimals(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_decimals(item) for item in value]
    return value


def _special(kind: type[Any], value: Any) -> Any:
    """For types that msgspec does not know: ObjectId, Decimal128 and references to blobs."""
    if isinstance(value, kind):
        return value
    if kind is BlobReference and (found := reference_of(value)) is not None:
        return found
    if kind is Decimal128 and isinstance(value, Decimal):
        return Decimal128(value)
    raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
