"""Between a user's type and documents: documents themselves, or instances of a class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast, is_typeddict

from wormdb.api.document import Document, Memory, remember, stored
from wormdb.errors import InvalidRequestError, WormError
from wormdb.format import json
from wormdb.format.values import equal, normalize_document
from wormdb.schema.classes import Converter, model_from_class
from wormdb.schema.identity import SAMPLES

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
        """The user's type, which remembers what the document was read as if it can."""
        ...

    def id_of(self, document: Any) -> Any:
        """The id that an instance has; None if it has none, or is no instance."""
        ...

    def over(self, values: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        """Values of an instance in the place of the stored document that it was read as."""
        ...

    def completed(self, values: dict[str, Any]) -> dict[str, Any]:
        """A stored document with what instances have by default; raises ValidationError if it is no instance."""
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

    def id_of(self, document: Any) -> Any:  # noqa: ARG002 - there are no instances
        """None: a mapping says itself what it has."""
        return None

    def over(self, values: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - as above
        """The values: a mapping says all of them."""
        return values

    def completed(self, values: dict[str, Any]) -> dict[str, Any]:
        """The document."""
        return values


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
        instance = self._converter.from_document(stored(document))
        remember(instance, Memory(document.loaded, document.past))
        return instance

    def id_of(self, document: Any) -> Any:
        """The id that an instance has; None if it is empty."""
        return None if isinstance(document, Mapping) else self._converter.id_of(document)

    def over(self, values: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        """Values of an instance in the place of the stored document that it was read as.

        What the class does not show of that stays as it is: an instance cannot mean to remove what it does not have.
        """
        seen = self._converter.to_document(self._converter.from_document(before))
        merged = replaced(dict(before), seen, normalize_document(values))
        assert isinstance(merged, dict)
        return merged

    def completed(self, values: dict[str, Any]) -> dict[str, Any]:
        """A stored document with what instances have by default, where each has another one.

        So it is what its instance will be whenever it is read. Raises ValidationError if it is no instance.
        """
        if self._is_mapping:
            return values
        instance = self._converter.from_document(values if "_id" in values else {"_id": SAMPLES["seq"], **values})
        missing = self._converter.made - values.keys()
        if not missing:
            return values
        made = self._converter.to_document(instance)
        return {**values, **{name: made[name] for name in made if name in missing}}


def replaced(stored: Any, seen: Any, given: Any) -> Any:
    """A changed value in the place of a stored one of which its class showed only `seen`. All are normalized.

    Parts that did not change stay as they are stored. Elements of an array are matched by what they are, and, in one
    that kept its length, by their place.
    """
    if equal(seen, given):
        return stored
    if equal(stored, seen):
        return given
    if isinstance(stored, dict) and isinstance(seen, dict) and isinstance(given, dict):
        kept = {
            name: value
            if name not in given
            else replaced(value, seen[name], given[name])
            if name in seen
            else given[name]
            for name, value in stored.items()
            if name in given or name not in seen
        }
        return kept | {name: value for name, value in given.items() if name not in stored}
    if isinstance(stored, list) and isinstance(seen, list) and isinstance(given, list) and len(stored) == len(seen):
        return _elements(stored, seen, given)
    return given


def _elements(stored: list[Any], seen: list[Any], given: list[Any]) -> list[Any]:
    by_text = {json.encode(value): place for place, value in reversed(list(enumerate(seen)))}
    result = []
    for place, value in enumerate(given):
        is_same = place < len(seen) and equal(seen[place], value)
        found = place if is_same else by_text.get(json.encode(value))
        if found is None and len(given) == len(seen):
            result.append(replaced(stored[place], seen[place], value))
        else:
            result.append(value if found is None else stored[found])
    return result


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
