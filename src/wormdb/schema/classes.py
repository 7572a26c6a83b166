"""Models from classes: dataclass, TypedDict, msgspec.Struct, or a pydantic model if it is installed.

The attribute `id` is the document's `_id`; empty text or None means that one is to be made. UUID attributes
are stored as text, enums by their value; dates, times of day, durations, paths, addresses and URLs as the text that
makes them again, sets as arrays in an order of their own. Every field of the class is stored, also those that it leaves
out elsewhere (`Field(exclude=True)`); properties, computed fields and private attributes are none.
"""

from __future__ import annotations

import re
from contextlib import nullcontext, suppress
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, get_type_hints, is_typeddict
from uuid import UUID

import msgspec

from wormdb.errors import InvalidRequestError, Problem, SchemaError, ValidationError
from wormdb.format import json
from wormdb.format.blob import BlobReference, reference_of
from wormdb.format.values import MISSING, Decimal128, Document, normalize, normalize_document
from wormdb.schema.annotations import (
    Attribute,
    UnsupportedAnnotationError,
    adapter_of,
    attribute_definition,
    attributes_of,
    has_asked,
    is_class_model,
    is_pydantic,
    is_root,
    is_shaped,
    is_turned,
    needs_pydantic,
    pydantic_values,
    speaks_pydantic,
    takes_more,
)
from wormdb.schema.keys import TABLES
from wormdb.schema.load import load_model
from wormdb.schema.model import SYSTEM_FIELDS, Model
from wormdb.schema.problems import did_you_mean
from wormdb.system.deadline import module_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "Converter",
    "class_settings",
    "from_document",
    "model_from_class",
    "to_document",
    "to_plain",
]

T = TypeVar("T")

CLASS_CONFIG: Final = "worm_config"
"""The attribute of a class that says what is not about its fields; a `ClassVar`, so that no field comes of it."""
_CONFIG: Final = ("ttl", "expire_at")
_reading = module_lock()


def model_from_class(cls: type[Any], *, name: str | None = None, **overrides: Any) -> Model:
    """The model of a class; `overrides` are further keys of schema.json in snake_case.

    Without a path the collection is the class's name in snake_case, and no readable files are kept. Ids are then any
    text if `id` is text, and UUIDs if it is one or there is none; new ones are random UUIDs. Where `id` is something
    else they are given by the caller. What `fields` holds is merged into
    the fields of the class. Raises SchemaError naming every attribute and key that does not fit. No requests.
    """
    if not is_class_model(cls):
        raise SchemaError(
            f"{cls!r} cannot be a model",
            reason="it must be a dataclass, TypedDict, msgspec.Struct or pydantic class",
            fix="decorate it with @dataclass",
        )
    name = name or cls.__name__
    keys = {key.attribute: key.name for key in TABLES["model"]}
    problems = [Problem(key, "unknown key of a model", did_you_mean(key, keys)) for key in overrides if key not in keys]
    attributes = [attribute for attribute in attributes_of(cls) if attribute.stored not in {"id", "_id"}]
    fields = {}
    for attribute in attributes:
        try:
            fields[attribute.stored] = _definition(attribute, cls)
        except UnsupportedAnnotationError as error:
            problems.append(Problem(f"{cls.__name__}.{attribute.name}", *error.args))
    if problems:
        raise SchemaError(f"class {cls.__name__} cannot be a model", problems=problems)
    for field, extra in overrides.pop("fields", {}).items():
        fields[field] = {**fields.get(field, {}), **extra}
    definition = {keys[key]: value for key, value in overrides.items()}
    return load_model(name, {**_place(cls, name, definition), **definition, "fields": fields})


def class_settings(cls: type[Any]) -> dict[str, Any]:
    """What a class says of its collection in `worm_config`: `{"ttl": "7d"}`, `{"expire_at": "until"}`, or both.

    Keys are those of a model in schema.json in snake_case. Subclasses have it too, unless they say otherwise. Raises
    SchemaError for anything else. No requests.
    """
    found: object = getattr(cls, CLASS_CONFIG, {})
    if not isinstance(found, dict):
        raise SchemaError(
            f"{cls.__name__}.{CLASS_CONFIG}",
            reason="it must be a dict",
            fix=f'write {CLASS_CONFIG}: ClassVar = {{"ttl": "7d"}}',
        )
    problems = [
        Problem(f"{cls.__name__}.{CLASS_CONFIG}.{key}", "it cannot be said in a class", did_you_mean(str(key), _CONFIG))
        for key in found
        if key not in _CONFIG
    ]
    if problems:
        raise SchemaError(f"class {cls.__name__} cannot be a model", problems=problems)
    return found


def _definition(attribute: Attribute, cls: type[Any]) -> dict[str, Any]:
    definition = attribute_definition(cls, attribute, (cls,))
    if attribute.default is not MISSING and not (attribute.default is None and attribute.is_nullable):
        plain = _to_shape if is_shaped(attribute.annotation) else to_plain
        definition["default"] = normalize(attribute.default, plain=plain)
    if not attribute.has_default and not attribute.is_nullable:
        definition["required"] = True
    if attribute.is_nullable and "enum" in definition:
        definition["enum"] = [value for value in definition["enum"] if value is not None]
    return definition


def _place(cls: type[Any], name: str, definition: Mapping[str, Any]) -> dict[str, str]:
    """The path of a class that has none, and how ids are made where the type in the path does not say it."""
    if "path" in definition:
        return {}
    kinds = [attribute.annotation for attribute in attributes_of(cls) if attribute.stored in {"id", "_id"}]
    kind = kinds[0] if kinds else UUID
    collection = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if kind in {str, str | None}:
        return {"path": f"@{collection}/(id:string)", "id": "uuid"}
    return {"path": f"@{collection}/(id:{'uuid' if kind in {UUID, UUID | None} else 'any'})"}


class Converter(Generic[T]):
    """Between the instances of one class and documents."""

    def __init__(self, cls: type[T]) -> None:
        """Read the class once; raises SchemaError if its annotations cannot be resolved."""
        self._cls = cls
        self._is_pydantic = is_pydantic(cls)
        attributes = attributes_of(cls)
        self._id = next((each for each in attributes if each.stored in {"id", "_id"}), None)
        self._nullable = [each.stored for each in attributes if each.is_nullable and not each.has_default]
        self._made = frozenset(each.stored for each in attributes if each.has_default and each.default is MISSING)
        # A class that takes no other names would take no document of a model: every one has its times.
        names = frozenset(each.stored for each in attributes)
        self._unknown = frozenset() if takes_more(cls) else frozenset(SYSTEM_FIELDS) - names - {"_id"}
        is_stored_otherwise = is_turned if is_typeddict(cls) else is_shaped
        self._shaped = frozenset(each.stored for each in attributes if is_stored_otherwise(each.annotation))
        self._hints = get_type_hints(cls, include_extras=True) if is_typeddict(cls) and self._shaped else {}
        # msgspec checks values by their class, and a type of pydantic may have values of another: EmailStr is text.
        self._needs_pydantic = is_dataclass(cls) and needs_pydantic(cls)
        if not self._is_pydantic:
            # Documents of a TypedDict are read field by field, and pydantic reads what needs it.
            with suppress(SchemaError) if is_typeddict(cls) or self._needs_pydantic else nullcontext():
                _read_once(cls, cls)
            for name in self._shaped & self._hints.keys():
                if not needs_pydantic(self._hints[name]):
                    _read_once(cls, self._hints[name])

    @property
    def made(self) -> frozenset[str]:
        """The fields whose default is made anew for each instance."""
        return self._made

    def id_of(self, instance: T) -> Any:
        """The id that an instance has, as it is stored; None if it has none, or an empty one."""
        identity = None if self._id is None else getattr(instance, self._id.name, None)
        identity = (
            _to_shape(identity) if self._id is not None and self._id.stored in self._shaped else to_plain(identity)
        )
        return None if identity == "" else identity

    def given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A mapping whose values are those that instances have, as it is stored. Raises InvalidRequestError."""
        if self._shaped.isdisjoint(values):
            return dict(values)
        return {
            name: normalize(value, path=name, plain=_to_shape) if name in self._shaped else value
            for name, value in values.items()
        }

    def shown(self, values: dict[str, Any]) -> None:
        """Give the values of a document of a TypedDict the types that it declares. Raises ValidationError."""
        for name in self._shaped & values.keys():
            hint = self._hints.get(name)
            if hint is None or values[name] is None:
                continue
            try:
                values[name] = _typed(_decimals(values[name]), hint)
            except (msgspec.ValidationError, ValueError, TypeError) as error:
                raise ValidationError(
                    f"field {name} does not fit {self._cls.__name__}",
                    reason=" ".join(str(error).split()),
                    fix="correct the value, or change the type in the class",
                ) from error

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
        if self._needs_pydantic:
            cls: Any = self._cls
            validated: T = adapter_of(cls).validate_python(values)
            return validated
        return msgspec.convert(values, self._cls, dec_hook=_special)

    def _validate(self, values: dict[str, Any]) -> T:
        validate: Callable[[Any], T] = self._cls.model_validate  # type: ignore[attr-defined] # pydantic's protocol
        return validate(values)


def _read_once(cls: type[Any], annotation: Any) -> None:
    """Let msgspec work out a class, or a field of it, now, one thread at a time.

    It does so at the first use, and a second thread that comes meanwhile takes what is half done and crashes. Raises
    SchemaError for a class that it cannot read.
    """
    try:
        with _reading:
            msgspec.json.Decoder(annotation)
    except TypeError as error:
        reason = " ".join(str(error).split())
        other = "use msgspec.Struct with a tag for its classes" if "unions" in reason else "leave that out"
        raise SchemaError(
            f"class {cls.__name__} cannot be a model", reason=reason, fix=f"{other}, or write a pydantic class"
        ) from error


def to_document(instance: Any) -> Document:
    """The document of an instance of a class model; see `Converter`."""
    return Converter(type(instance)).to_document(instance)


def from_document(cls: type[T], document: Mapping[str, Any]) -> T:
    """The instance of a document; see `Converter`."""
    return Converter(cls).from_document(document)


def to_plain(value: Any) -> Any:
    """What stands for a value of a class in a document: fields by their stored names, not looked into any further.

    Enums stand by their value, UUIDs as text. In a field that declares such types, dates, times, durations, paths and
    addresses stand as the text that makes them again, sets as arrays in the order of their elements' JSON, so that
    equal sets are stored alike, and types of pydantic as it writes them. Everything else is itself. Raises
    InvalidRequestError for a secret that its class does not ask to be stored.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, msgspec.Struct):
        return _record(value, _struct(value))
    if isinstance(value, type):
        return value
    if is_dataclass(value):
        return _record(value, {each.name: getattr(value, each.name) for each in dataclass_fields(value)})
    kind: Any = type(value)
    if is_pydantic(kind):
        found = pydantic_values(value)
        if not is_root(kind):
            return _record(value, found)
        return normalize(found, plain=_to_shape) if is_shaped(kind.model_fields["root"].annotation) else found
    if hasattr(value, "get_secret_value"):
        raise InvalidRequestError(
            f"{kind.__name__} cannot be stored",
            reason="it is a secret, and would be readable in the bucket",
            fix="store a hash of it, or declare it as Annotated[SecretStr, wormdb.PLAIN_TEXT] in a class",
        )
    return value


def _struct(value: msgspec.Struct) -> dict[str, Any]:
    fields = {each.encode_name: getattr(value, each.name) for each in msgspec.structs.fields(value)}
    config = value.__struct_config__
    return fields if config.tag_field is None else {config.tag_field: config.tag, **fields}


@lru_cache(maxsize=1_024)
def _turned_fields(cls: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The stored names of the fields whose secrets a class asks to be stored, and of those that stand as others."""
    attributes = attributes_of(cls)
    asked = tuple(each.stored for each in attributes if has_asked(each.annotation))
    return asked, tuple(each.stored for each in attributes if each.stored not in asked and is_shaped(each.annotation))


def _record(instance: Any, values: dict[str, Any]) -> dict[str, Any]:
    """The fields of an instance as they are stored, where that is not as they are."""
    cls: Any = type(instance)
    asked, shaped = _turned_fields(cls)
    turned = {name: _reveal(values[name]) for name in asked if name in values}
    turned |= {name: normalize(values[name], path=name, plain=_to_shape) for name in shaped if name in values}
    return values | turned if turned else values


def _to_shape(value: Any) -> Any:
    """As `to_plain`, for a value of a field that declares a type which stands as another."""
    plain = to_plain(value)
    if plain is not value or isinstance(value, datetime | str | int | bytes):
        return plain
    kind: Any = type(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time | timedelta):
        return msgspec.to_builtins(value)
    if isinstance(value, set | frozenset):
        return sorted((normalize(each, plain=_to_shape) for each in value), key=json.encode)
    if isinstance(value, PurePath) or kind.__module__ == "ipaddress":
        return str(value)
    return adapter_of(kind).dump_python(value, mode="json") if speaks_pydantic(kind) else value


def _reveal(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_reveal(each) for each in value]
    if isinstance(value, dict):
        return {name: _reveal(each) for name, each in value.items()}
    return value.get_secret_value() if hasattr(value, "get_secret_value") else value


def _decimals(value: Any) -> Any:
    if isinstance(value, Decimal128):
        return value.to_decimal()
    if isinstance(value, dict):
        return {name: _decimals(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_decimals(item) for item in value]
    return value


def _typed(value: Any, hint: Any) -> Any:
    """A stored value as one of an annotation."""
    if needs_pydantic(hint):
        return adapter_of(hint).validate_python(value)
    return msgspec.convert(value, hint, dec_hook=_special)


def _special(kind: Any, value: Any) -> Any:
    """For types that msgspec does not know: ObjectId, Decimal128, references to blobs, paths, addresses, pydantic's."""
    if isinstance(value, kind):
        return value
    if kind is BlobReference and (found := reference_of(value)) is not None:
        return found
    if kind is Decimal128 and isinstance(value, Decimal):
        return Decimal128(value)
    if isinstance(value, str) and (issubclass(kind, PurePath) or kind.__module__ == "ipaddress"):
        return kind(value)
    if speaks_pydantic(kind):
        return adapter_of(kind).validate_python(value)
    raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
