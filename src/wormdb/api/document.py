"""Documents as users hold them, and the two ways between them and what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast, is_typeddict

from wormdb.engine.commit.operations import ReadVersion
from wormdb.errors import InvalidRequestError, WormError
from wormdb.format import json
from wormdb.format.kinds import MISSING
from wormdb.format.values import equal, normalize_document
from wormdb.schema.identity import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wormdb.engine.state.view import StoredVersion
    from wormdb.system.types import LogNumber

__all__ = [
    "ClassCodec",
    "Codec",
    "Document",
    "Memory",
    "PlainCodec",
    "SelectedRow",
    "StoredRow",
    "TransactionOrigin",
    "memory_of",
    "remember",
    "rev_of",
    "show_document",
    "show_past",
    "show_rows",
    "show_text",
    "show_values",
    "split_documents",
    "stored",
    "with_id",
]

_MEMORY: Final = "_wormdb_memory"
"""The name in an instance's `__dict__`: no field of a class, so that comparing and writing it leave it out."""


class TransactionOrigin(str):
    """The log that a document of a transaction comes from; it knows what became of the transaction.

    It equals the name of the log. A document that is sent elsewhere leaves it behind: there it was never read.
    """

    __slots__ = ("settle",)

    settle: Callable[[ReadVersion, str], ReadVersion | None]
    """What a document was read as, for a writer to the log `str`; None if nothing is there that it was read as."""

    def __deepcopy__(self, _: object) -> TransactionOrigin:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (str, (f"a transaction on {self!s}",))


class Document(dict[str, Any]):
    """A document: a dict with `id` first, that remembers the state it was read in.

    `rev` is the log number of its last change and `seq` counts its changes; both are 0 before the first save. Saving a
    document that was read fails with ConflictError if it changed since. One that was read as of the past,
    or in the trash, is a copy: saving it replaces what is there now, as a document that was never read does.
    """

    __slots__ = ("fresh", "loaded", "past")

    def __init__(
        self,
        values: Mapping[str, Any],
        loaded: ReadVersion | None = None,
        *,
        fresh: Any = None,
        past: StoredVersion | None = None,
    ) -> None:
        """`loaded` is None for a document that was not read, or not as it is now: `past` is what it was read as then.

        `fresh` is an id that was made for it and that no commit has seen yet.
        """
        super().__init__(values)
        self.loaded = loaded
        self.fresh = fresh
        self.past = past

    @property
    def id(self) -> Any:
        """The document's id; None if it has none."""
        return dict.get(self, "id")

    def get(self, name: str, default: Any = None, /) -> Any:
        """The value of a field; `default` if it is not there. `_id` is another name of `id`."""
        return dict.get(self, "id" if name == "_id" and "_id" not in self else name, default)

    def __missing__(self, name: str) -> Any:
        # MongoDB's name of the same field, where no field of that name is there.
        if name == "_id" and "id" in self:
            return self["id"]
        raise KeyError(name)

    @property
    def rev(self) -> int:
        """The log number of the last change; 0 while that is not known, as of a change of an open transaction."""
        held = self._held
        return 0 if held is None else _revision(self.loaded, held)

    @property
    def seq(self) -> int:
        """How many changes this document has had."""
        held = self._held
        return 0 if held is None else held.seq

    @property
    def _held(self) -> StoredVersion | None:
        return self.past if self.loaded is None else self.loaded.held

    def __repr__(self) -> str:
        return f"Document({dict.__repr__(self)}, rev={self.rev})"

    # What is made from a document that was read is still a change of that document, so that
    # `save(doc | {"x": 1})` notices a conflict just as `doc["x"] = 1; save(doc)` does.
    def copy(self) -> Document:
        """A shallow copy that remembers the same state."""
        return Document(self, self.loaded, past=self.past)

    __copy__ = copy

    def __or__(self, other: Mapping[str, Any]) -> Document:  # type: ignore[override] # a document stays one
        return Document({**self, **other}, self.loaded, past=self.past)

    # For pickle and deep copies. Two documents with one id can both be saved, so neither id is unseen:
    # `fresh` is never handed on.
    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuilt, (dict(self), self.loaded, self.past))


def _rebuilt(values: dict[str, Any], loaded: ReadVersion | None, past: StoredVersion | None) -> Document:
    return Document(values, loaded, past=past)


@dataclass(frozen=True, slots=True)
class Memory:
    """What a document was read as: `loaded` as it was then the newest, `past` as it once was.

    Neither of an instance that `create` made and that was not saved yet. A memory never changes, because copies of
    an instance share it: an instance that is saved gets another.
    """

    loaded: ReadVersion | None = None
    past: StoredVersion | None = None

    @property
    def held(self) -> StoredVersion | None:
        """The version that it is of."""
        return self.past if self.loaded is None else self.loaded.held


def remember(instance: object, memory: Memory) -> None:
    """Let an instance of a class remember; one without `__dict__` cannot.

    It is an item of `__dict__`, which copies, `model_copy` and pickle take along, and which works for frozen classes.
    """
    if hasattr(instance, "__dict__"):
        instance.__dict__[_MEMORY] = memory


def memory_of(document: object) -> Memory | None:
    """What a Document or an instance remembers; None if it remembers nothing."""
    if isinstance(document, Document):
        return Memory(document.loaded, document.past)
    found = getattr(document, "__dict__", {}).get(_MEMORY)
    return found if isinstance(found, Memory) else None


def rev_of(document: object) -> int | None:
    """The revision that a document was read at or saved as: a Document, or an instance of a class that is a model.

    It is the log number of its last change, and serves as an ETag: no other version of the document has it. None for
    what was never read nor saved, and for any other mapping. Give it to `Collection.save(…, if_rev=…)`. Raises
    InvalidRequestError for an instance that cannot remember, because its class has no `__dict__`. No requests.
    """
    memory = memory_of(document)
    if memory is not None:
        return None if memory.held is None else _revision(memory.loaded, memory.held) or None
    if not isinstance(document, Mapping) and not hasattr(document, "__dict__"):
        raise InvalidRequestError(
            f"revision of a {type(document).__name__}",
            reason="instances of this class cannot remember what they were read as",
            fix="declare the class without slots, and a Struct with dict=True",
        )
    return None


def _revision(loaded: ReadVersion | None, held: StoredVersion) -> int:
    """The log number of a version; 0 if no entry of the log is known to have it."""
    if loaded is not None and type(loaded.origin) is TransactionOrigin:
        try:
            loaded = loaded.origin.settle(loaded, "")
        except WormError:
            return 0  # the transaction is open, or it is not known what became of it
        if loaded is None:
            return 0
        held = loaded.held
    return held.rev if loaded is None or held.rev <= loaded.number or not held.seq else 0


def show_document(
    held: StoredVersion, number: LogNumber, origin: str, values: Mapping[str, Any] | None = None
) -> Document:
    """A document of log `origin` as users see it: `_id` shows as `id`. `values` are those of it, if they are known."""
    assert held.document is not None, "deleted documents are not shown"
    if values is None:
        values = json.decode_document(held.document, name=f"document {held.id.decode()}")
    return Document(with_id(values), ReadVersion(held, number, origin))


class StoredRow(Protocol):
    """A row of an answer: what is stored, and its decoded values."""

    @property
    def held(self) -> StoredVersion | None:
        """What is stored; None for a part of a document."""
        ...

    @property
    def document(self) -> Mapping[str, Any]:
        """The values."""
        ...


def show_rows(rows: Iterable[StoredRow], number: LogNumber, origin: str) -> list[Document]:
    """Whole rows of an answer as `show_document` shows them."""
    shown = []
    for row in rows:
        assert row.held is not None, "without a projection documents are whole"
        shown.append(Document(with_id(row.document), ReadVersion(row.held, number, origin)))
    return shown


def show_past(held: StoredVersion, values: Mapping[str, Any] | None = None) -> Document:
    """A document as it once was: a copy that does not stand for what is there now. `values` as for `show_document`."""
    assert held.document is not None, "deleted documents are not shown"
    if values is None:
        values = json.decode_document(held.document, name=f"document {held.id.decode()}")
    return Document(with_id(values), past=held)


def show_values(document: bytes, name: str = "document") -> dict[str, Any]:
    """A stored document with its id called `id`; CorruptionError naming `name`."""
    return with_id(json.decode_document(document, name=name))


_ID_FIRST: Final = b'{"_id":'


def show_text(document: bytes) -> bytes:
    """A stored document as JSON with its id called `id`: its own bytes, nothing is decoded."""
    if document.startswith(_ID_FIRST):
        return b'{"id":' + document[len(_ID_FIRST) :]
    return json.encode(show_values(document))


class SelectedRow(dict[str, Any]):
    """Parts of a document: a plain dict, in which `_id` is another name of `id`."""

    __slots__ = ()

    @property
    def id(self) -> Any:
        """As `Document.id`."""
        return dict.get(self, "id")

    def get(self, name: str, default: Any = None, /) -> Any:
        """As `Document.get`."""
        return dict.get(self, "id" if name == "_id" and "_id" not in self else name, default)

    def __missing__(self, name: str) -> Any:
        if name == "_id" and "id" in self:
            return self["id"]
        raise KeyError(name)


def with_id(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as users see them: `_id` shows as `id`."""
    if "id" not in values and next(iter(values), None) == "_id":
        shown = {"id": None, **values}
        shown["id"] = shown.pop("_id")
        return shown
    return {("id" if field == "_id" else field): value for field, value in values.items()}


def stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the identity field called `_id`, in first place where there is one.

    Raises InvalidRequestError for an id that is given and is null or empty text, and for two that differ.
    """
    if "id" not in values and "_id" not in values:
        return dict(values)
    for name in ("id", "_id"):
        identity = values.get(name, MISSING)
        if identity is None or (isinstance(identity, str) and not identity):
            raise InvalidRequestError(
                "document",
                reason=f"its {name} must not be {'null' if identity is None else 'empty'}",
                fix=f"leave {name} out where ids are made, or give one",
            )
    if "id" not in values:
        return {"_id": values["_id"], **values}
    if "_id" in values and values["_id"] != values["id"]:
        raise InvalidRequestError(
            "document",
            reason=f"_id {values['_id']!r} and id {values['id']!r} differ",
            fix="give one of them: they are the same",
        )
    return {"_id": values["id"], **{name: value for name, value in values.items() if name not in {"id", "_id"}}}


# --- Between a user's type and documents: documents themselves, or instances of a class.

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_DOCUMENTS_AT_ONCE: Final = 1_000


class Codec(Protocol[T_co]):
    """Between a user's type and plain values."""

    def is_document(self, value: Any) -> bool:
        """Whether it is a document or a mapping, not an id."""
        ...

    def to_values(self, document: Any) -> dict[str, Any]:
        """Plain values of a document or a mapping; raises InvalidRequestError for anything else."""
        ...

    def from_document(self, document: Document) -> T_co:
        """The user's type, which remembers what the document was read as if it can."""
        ...

    def id_of(self, document: Any) -> Any:
        """The id that an instance has; None if it has none, or is not an instance."""
        ...

    def over(self, values: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        """Values of an instance in the place of the stored document that it was read as."""
        ...

    def completed(self, values: dict[str, Any]) -> dict[str, Any]:
        """A stored document with what instances have by default; raises ValidationError if it cannot be an instance."""
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
                f"a document of type {type(document).__name__}", reason="it must be a mapping", fix="give a dict"
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
        from wormdb.schema.classes import Converter, class_settings, model_from_class  # plain documents need none of it

        self.model = model_from_class(cls, **class_settings(cls))
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
        if isinstance(document, Mapping):
            return self._converter.given(document)
        return dict(self._converter.to_document(document))

    def from_document(self, document: Document) -> T:
        """An instance; for a TypedDict the document itself, which is a dict."""
        if self._is_mapping:
            self._converter.shown(document)
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
        merged = merge_changes(dict(before), seen, normalize_document(values))
        assert isinstance(merged, dict)
        return merged

    def completed(self, values: dict[str, Any]) -> dict[str, Any]:
        """A stored document with what instances have by default, where each has another one.

        So it is what its instance will be whenever it is read. Raises ValidationError if it cannot be an instance.
        """
        if self._is_mapping:
            self._converter.shown(dict(values))
            return values
        instance = self._converter.from_document(values if "_id" in values else {"_id": SAMPLES["seq"], **values})
        missing = self._converter.made - values.keys()
        if not missing:
            return values
        made = self._converter.to_document(instance)
        return {**values, **{name: made[name] for name in made if name in missing}}


def merge_changes(stored: Any, seen: Any, given: Any) -> Any:
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
            else merge_changes(value, seen[name], given[name])
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
            result.append(merge_changes(stored[place], seen[place], value))
        else:
            result.append(value if found is None else stored[found])
    return result


def split_documents(documents: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """Documents in order, some at a time. A generator may give one object again and again, so each is copied."""
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
    """What will be stored of a plain dict; None for anything else, and for one that cannot be stored."""
    try:
        return normalize_document(document) if type(document) is dict else None
    except WormError:
        return None
