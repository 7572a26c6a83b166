"""Between a user's type and documents: documents themselves, or instances of a class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast, is_typeddict

from wormdb.document import Document, stored
from wormdb.errors import InvalidRequestError, WormError
from wormdb.format.values import normalize_document
from wormdb.schema.classes import Converter, model_from_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["ClassCodec", "Codec", "PlainCodec", "portions"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_DOCUMENTS_AT_ONCE: Final = 1_000


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


def portions(documents: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """Documents in order, some at a time: who makes them one by one may use one object for all, so it is copied."""
    if type(documents) is list or type(documents) is tuple:
        for start in range(0, len(documents), _DOCUMENTS_AT_ONCE):
            yield documents[start : start + _DOCUMENTS_AT_ONCE]
        return
    waiting: list[Any] = []
    for document in documents:
        copy = _copy(document)
        if copy is not None:
            waiting.append(copy)
        if copy is None or len(waiting) == _DOCUMENTS_AT_ONCE:
            yield waiting
            waiting = []
        if copy is None:
            yield (document,)
    yield waiting


def _copy(document: Any) -> dict[str, Any] | None:
    """What will be stored of a plain dict; None if it is none, or cannot be stored."""
    try:
        return normalize_document(document) if type(document) is dict else None
    except WormError:
        return None
