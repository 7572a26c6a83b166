"""Between a user's type and documents: documents themselves, or instances of a class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar, cast, is_typeddict

from wormdb.document import Document, stored
from wormdb.errors import InvalidRequestError
from wormdb.schema.classes import Converter, model_from_class

__all__ = ["ClassCodec", "Codec", "PlainCodec"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Codec(Protocol[T_co]):
    """Between a user's type and plain values."""

    def is_document(self, value: Any) -> bool:
        """Whether it is a document or a mapping, and no id."""
        ...

    def to_values(self, document: Any) -> dict[str, Any]:
        """Plain values of a document or a mapping; raises InvalidRequestError for anything else."""
        ...

    def from_document(self, document: Document) -> T_co:
        """The user's type."""
        ...


class PlainCodec:
    """Documents stay documents."""

    def is_document(self, value: Any) -> bool:
        """Whether it is a mapping."""
        return isinstance(value, Mapping)

    def to_values(self, document: Any) -> dict[str, Any]:
        """The mapping itself; raises InvalidRequestError for anything else."""
        if not isinstance(document, Mapping):
            raise InvalidRequestError(
                f"a document of type {type(document).__name__}", reason="it is no mapping", fix="give a dict"
            )
        return dict(document)

    def from_document(self, document: Document) -> Document:
        """The document."""
        return document


class ClassCodec(Generic[T]):
    """Documents are instances of a class: dataclass, TypedDict, msgspec.Struct or pydantic model."""

    def __init__(self, cls: type[T]) -> None:
        """Read the class once; raises SchemaError."""
        self.model = model_from_class(cls)
        self._cls = cls
        self._converter = Converter(cls)
        self._is_mapping = is_typeddict(cls)

    def is_document(self, value: Any) -> bool:
        """Whether it is an instance or a mapping."""
        return isinstance(value, Mapping) or (not self._is_mapping and isinstance(value, self._cls))

    def to_values(self, document: Any) -> dict[str, Any]:
        """Plain values of an instance, or of a mapping; raises InvalidRequestError for anything else."""
        if not self.is_document(document):
            raise InvalidRequestError(
                f"a document of type {type(document).__name__}",
                reason=f"it is neither a {self._cls.__name__} nor a mapping",
                fix=f"give a {self._cls.__name__}",
            )
        return dict(document) if isinstance(document, Mapping) else dict(self._converter.to_document(document))

    def from_document(self, document: Document) -> T:
        """An instance; for a TypedDict the document itself, which is a dict."""
        if self._is_mapping:
            return cast("T", document)
        return self._converter.from_document(stored(document))
