"""Between a caller's documents and the engine's operations: ids, timestamps, validation, modes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, is_typeddict

from wormdb.document import Document, shown, stored
from wormdb.engine.operations import Insert, InsertNext, Loaded, Remove, Save
from wormdb.engine.state import Held
from wormdb.errors import InvalidRequestError, PermissionDeniedError, SchemaMismatchError
from wormdb.format import json
from wormdb.format.event import SchemaChanged
from wormdb.format.segment import check_id
from wormdb.format.values import normalize, normalize_document
from wormdb.schema.classes import Converter, model_from_class
from wormdb.schema.difference import mismatch
from wormdb.schema.identity import id_problem, new_id
from wormdb.schema.validate import new_document, validate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wormdb.clock import Chance, Clock
    from wormdb.engine.commit import Committed
    from wormdb.engine.operations import Operation
    from wormdb.engine.state import View
    from wormdb.format.event import Event
    from wormdb.schema.model import Model
    from wormdb.types import LogNumber

__all__ = ["ClassCodec", "Codec", "PlainCodec", "Shape", "Writer"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Codec(Protocol[T_co]):
    """Between a user's type and plain values."""

    def to_values(self, document: Any) -> dict[str, Any]:
        """Plain values of a document or a mapping."""
        ...

    def from_document(self, document: Document) -> T_co:
        """The user's type."""
        ...


class PlainCodec:
    """Documents stay documents."""

    def to_values(self, document: Any) -> dict[str, Any]:
        """The mapping itself; raises InvalidRequestError for anything else."""
        if not hasattr(document, "keys"):
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
        self._converter = Converter(cls)
        self._is_mapping = is_typeddict(cls)

    def to_values(self, document: Any) -> dict[str, Any]:
        """Plain values of an instance, or of a mapping."""
        return dict(document) if hasattr(document, "keys") else dict(self._converter.to_document(document))

    def from_document(self, document: Document) -> T:
        """An instance; for a TypedDict the document itself, which is a dict."""
        if self._is_mapping:
            return cast("T", document)
        return self._converter.from_document(stored(document))


@dataclass(frozen=True, slots=True)
class Shape:
    """A document on its way in: encoded, with what is known of its past."""

    id: bytes | None
    """None where the commit gives the id."""
    body: bytes
    values: dict[str, Any]
    loaded: Loaded | None
    fresh: bool
    is_unchanged: bool


class Writer(Generic[T]):
    """What one collection accepts, and how it shows what it holds."""

    def __init__(self, name: str, model: Model | None, codec: Codec[T], *, clock: Clock, chance: Chance) -> None:
        """Without a model anything is accepted."""
        self.name = name
        self.model = model
        self.mode = "readwrite" if model is None else model.mode
        self._codec = codec
        self._clock = clock
        self._chance = chance

    @property
    def _is_numbered(self) -> bool:
        return self.model is not None and self.model.id == "seq"

    # --- out ---

    def show(self, held: Held, number: LogNumber) -> T:
        """A stored document in the caller's type."""
        return self._codec.from_document(shown(held, number))

    # --- in ---

    def create(self, data: Mapping[str, Any]) -> T:
        """A new document that is not saved; raises ValidationError. No requests."""
        given = self._codec.to_values(data)
        values = self._new(given)
        fresh = not _has_id(given) and "_id" in values
        return self._codec.from_document(Document({_outer(name): value for name, value in values.items()}, fresh=fresh))

    def shape(self, document: Any, held: Held | None = None, number: LogNumber | None = None) -> Shape:
        """Check and encode a document; with `held` it is a change of what was read at `number`."""
        loaded = document.loaded if isinstance(document, Document) else None
        if held is not None and number is not None:
            loaded = Loaded(held, number)
        fresh = isinstance(document, Document) and document.fresh
        given = self._codec.to_values(document)
        if loaded is None and not _has_id(given):
            fresh = True
        values = self._new(given) if loaded is None else self._checked(stored(given))
        if "_id" not in values and not self._is_numbered:
            raise InvalidRequestError(
                f"document of {self.name}", reason="it has no id", fix="give one: ids of this model are not made"
            )
        unchanged = loaded is not None and json.encode_document(values) == loaded.held.document
        if not unchanged:
            values = self._stamped(values, loaded)
        if "_id" not in values:
            return Shape(None, json.encode_document(values), values, None, fresh=True, is_unchanged=False)
        check_id(values["_id"])
        identity = json.encode(values["_id"])
        if loaded is not None and identity != loaded.held.id:
            loaded, fresh = None, False
        return Shape(identity, json.encode_document(values), values, loaded, fresh, unchanged)

    def operation(self, verb: str, shape: Shape) -> Operation:
        """What the engine is asked to do."""
        if shape.id is None:
            return InsertNext(shape.body)
        if verb == "insert" or self.mode == "append" or (shape.fresh and verb == "save"):
            return Insert(shape.id, shape.body, fresh=shape.fresh)
        return Save(shape.id, shape.body, shape.loaded, must_exist=verb == "update")

    def prepare(self, verb: str, document: Any) -> Operation:
        """The operation of one verb: insert, save, update or delete. No requests."""
        if verb != "delete":
            return self.operation(verb, self.shape(document))
        if isinstance(document, Document):
            identity = json.encode(self.check_id(document.id))
            return Remove(identity, document.loaded)
        if hasattr(document, "keys"):
            document = stored(self._codec.to_values(document)).get("_id")
        return Remove(json.encode(self.check_id(document)))

    def after(self, document: Any, shape: Shape, committed: Committed) -> T:
        """The document as it is now; a Document that was given is brought up to date in place."""
        (change,) = committed.changes
        held = Held(change.id, committed.number, change.seq, change.after)
        identity = {} if shape.id is not None else {"id": json.decode(change.id, name="document id")}
        values = identity | {_outer(name): value for name, value in shape.values.items()}
        if isinstance(document, Document):
            document.clear()
            document.update(values)
            document.loaded, document.fresh = Loaded(held, committed.number), False
            return self._codec.from_document(document)
        return self._codec.from_document(Document(values, Loaded(held, committed.number)))

    def as_result(self, document: Any, shape: Shape) -> T:
        """A document that needed no write."""
        if isinstance(document, Document):
            return self._codec.from_document(document)
        return self._codec.from_document(Document({_outer(n): v for n, v in shape.values.items()}, shape.loaded))

    def check_id(self, identity: Any) -> Any:
        """An id that this collection can have; raises InvalidRequestError."""
        value = normalize(identity)
        problem = None if self.model is None else id_problem(self.model, value)
        if problem is not None:
            raise InvalidRequestError(f"id of {self.name}", problems=[problem])
        check_id(value)
        return value

    # --- the definition ---

    def check_definition(self, view: View) -> None:
        """Raise SchemaMismatchError if the database defines this model in another way."""
        if self.model is None or view.number == 0 or view.definition.body == self.model.canonical():
            return
        if view.definition.model is None:
            raise SchemaMismatchError(f"model {self.name}", reason="the collection was made without a schema")
        raise mismatch(view.definition.model, self.model)

    def first_events(self, view: View) -> tuple[Event, ...]:
        """The definition, if this is the first entry of the collection."""
        if self.model is None or view.number > 0:
            return ()
        return (SchemaChanged(definition=self.model.canonical()),)

    def guard(self, operations: tuple[Operation, ...]) -> Callable[[View], None]:
        """What every try of a commit checks again, against the definition then in force."""

        def check(view: View) -> None:
            self.check_definition(view)
            mode = self.mode if view.definition.model is None else view.definition.model.mode
            if mode == "readonly":
                raise PermissionDeniedError(
                    f"{self.name} is read-only", fix="change the model's mode, with worm schema apply"
                )
            if mode == "append" and not all(isinstance(operation, Insert | InsertNext) for operation in operations):
                raise PermissionDeniedError(f"{self.name} is append-only", fix="insert new documents instead")

        return check

    # --- inside ---

    def _new(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if self.model is not None:
            return new_document(self.model, given, clock=self._clock, chance=self._chance)
        values = normalize_document(stored(given))
        if values.get("_id") is None:
            made = new_id("ulid", clock=self._clock, chance=self._chance)
            values = {"_id": made, **{name: value for name, value in values.items() if name != "_id"}}
        return values

    def _checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return normalize_document(values) if self.model is None else validate(self.model, values)

    def _stamped(self, values: dict[str, Any], loaded: Loaded | None) -> dict[str, Any]:
        if self.model is None:
            return values
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        created = values.get("createdAt") or now
        return {
            **values,
            "createdAt": created,
            "updatedAt": now if loaded is not None else values.get("updatedAt", now),
        }


def _outer(name: str) -> str:
    return "id" if name == "_id" else name


def _has_id(values: Mapping[str, Any]) -> bool:
    return any(values.get(name) not in (None, "") for name in ("id", "_id"))
