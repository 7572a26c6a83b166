"""Every kind of document that users hold, behind one face: so that one suite asks the same of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypedDict, TypeGuard

import msgspec
from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database

__all__ = ["FIELDS", "KINDS", "SCHEMA", "DataclassThing", "Kind", "is_part"]


class PydanticPart(BaseModel):
    """A part of a document."""

    city: str = ""
    more: Any = None


class PydanticThing(BaseModel):
    """A pydantic class, which checks nothing: what does not fit is for the database to refuse."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    id: str = ""
    title: str = ""
    count: int = 0
    ratio: float = 0.0
    flag: bool = False
    at: datetime | None = None
    price: Decimal | None = None
    raw: bytes = b""
    tags: list[str] = []
    part: PydanticPart | None = None
    more: Any = None


@dataclass
class DataclassPart:
    """A part of a document."""

    city: str = ""
    more: Any = None


@dataclass
class DataclassThing:
    """A dataclass."""

    id: str = ""
    title: str = ""
    count: int = 0
    ratio: float = 0.0
    flag: bool = False
    at: datetime | None = None
    price: Decimal | None = None
    raw: bytes = b""
    tags: list[str] = field(default_factory=list)
    part: DataclassPart | None = None
    more: Any = None


class StructPart(msgspec.Struct):
    """A part of a document."""

    city: str = ""
    more: Any = None


class StructThing(msgspec.Struct, dict=True):
    """A Struct that can remember what it was read as."""

    id: str = ""
    title: str = ""
    count: int = 0
    ratio: float = 0.0
    flag: bool = False
    at: datetime | None = None
    price: Decimal | None = None
    raw: bytes = b""
    tags: list[str] = []
    part: StructPart | None = None
    more: Any = None


class TypedThing(TypedDict, total=False):
    """A TypedDict."""

    id: str
    title: str
    count: int
    ratio: float
    flag: bool
    at: datetime | None
    price: Decimal | None
    raw: bytes
    tags: list[str]
    part: dict[str, Any] | None
    more: Any


FIELDS = ("title", "count", "ratio", "flag", "at", "price", "raw", "tags", "part", "more")

_DECLARED: dict[str, Any] = {
    "title": {"type": "string"},
    "count": {"type": "integer"},
    "ratio": {"type": "number"},
    "flag": {"type": "boolean"},
    "at": {"type": "datetime"},
    "price": {"type": "decimal"},
    "raw": {"type": "binary"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "part": {"type": "object"},
}

_NAMES = ("PlainThing", "PydanticThing", "DataclassThing", "StructThing", "TypedThing")

SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        name: {"path": f"@{name.lower()}/(id:string)", "id": "ulid", "fields": _DECLARED, "softDelete": True}
        for name in _NAMES
    },
}


@dataclass(frozen=True)
class Kind:
    """One kind of document: how it is made, looked at and changed."""

    name: str
    open: Callable[[Database], Collection[Any]]
    make: Callable[[Mapping[str, Any]], Any]
    """Of values, which may be wrong."""
    has_model: bool = True
    is_class: bool = False
    """Whether documents are instances, which have every field."""

    def get(self, document: Any, name: str) -> Any:
        """The value of a field; None if it is missing."""
        return getattr(document, name) if self.is_class else document.get(name)

    def set(self, document: Any, **values: Any) -> Any:
        """Change a document in place."""
        for name, value in values.items():
            if self.is_class:
                setattr(document, name, value)
            else:
                document[name] = value
        return document

    def __str__(self) -> str:
        return self.name


def is_part(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a value of the field `part` is given as an instance where there is a class for it."""
    return isinstance(value, dict) and value.keys() <= {"city", "more"}


def _parts(kind: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    part = values.get("part")
    return {**values, "part": kind(**part)} if is_part(part) else dict(values)


KINDS = (
    Kind("dict", lambda db: db["things"], dict, has_model=False),
    Kind("model", lambda db: db.model("PlainThing"), dict),
    Kind("typed", lambda db: db.model(TypedThing), dict),
    Kind(
        "pydantic",
        lambda db: db.model(PydanticThing),
        lambda values: PydanticThing.model_construct(**_parts(PydanticPart.model_construct, values)),
        is_class=True,
    ),
    Kind(
        "dataclass",
        lambda db: db.model(DataclassThing),
        lambda values: DataclassThing(**_parts(DataclassPart, values)),
        is_class=True,
    ),
    Kind(
        "struct",
        lambda db: db.model(StructThing),
        lambda values: StructThing(**_parts(StructPart, values)),
        is_class=True,
    ),
)
