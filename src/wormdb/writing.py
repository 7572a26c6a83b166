"""Between a caller's documents and the engine's operations: ids, timestamps, validation, modes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wormdb.admission import changes_existing, check_deletes, check_fit, mapped
from wormdb.codecs import portions
from wormdb.document import Document, shown, shown_past, stored
from wormdb.engine.operations import Insert, InsertNext, Loaded, Remove, Save
from wormdb.engine.state import Held, id_key
from wormdb.errors import (
    ConflictError,
    InvalidRequestError,
    PermissionDeniedError,
    SchemaMismatchError,
    WormError,
)
from wormdb.format import json
from wormdb.format.event import SchemaChanged
from wormdb.format.segment import check_id
from wormdb.format.values import normalize, normalize_document
from wormdb.format.wrappers import moment
from wormdb.schema.difference import mismatch
from wormdb.schema.identity import id_problem, makes_good_ids, new_id, new_ids
from wormdb.schema.path import SINGLETON_ID
from wormdb.schema.sieve import Sieve
from wormdb.schema.validate import new_document, validate
from wormdb.trash import tombstone
from wormdb.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wormdb.actor import By
    from wormdb.clock import Chance, Clock
    from wormdb.codecs import Codec
    from wormdb.engine.definition import Definition
    from wormdb.engine.operations import Operation
    from wormdb.engine.state import View
    from wormdb.format.entry import Change
    from wormdb.format.event import Event, FilesSwitched
    from wormdb.schema.model import IdStrategy, Model

__all__ = ["Inserts", "Prepared", "Shape", "Writer"]

log = logging.getLogger(__name__)

_TIMES = ("createdAt", "updatedAt")

T = TypeVar("T")


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
    is_anew: bool = False
    """Whether it replaces what was read, of which nothing is left in it."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """An operation with the document it came from."""

    operation: Operation
    document: Any
    shape: Shape | None
    """None for a delete."""
    given: dict[str, Any] | None = None
    """What a Document held when it was given, to see whether its holder went on editing."""


@dataclass(slots=True)
class Inserts:
    """Documents on their way in together."""

    operations: list[Operation] = field(default_factory=list)
    ids: list[Any] = field(default_factory=list)
    """Of each document; None where the commit gives it."""
    held: list[tuple[int, Prepared]] = field(default_factory=list)
    """Those that their holder gave as a Document, each with its place among all."""


class Writer(Generic[T]):
    """What one collection accepts, and how it shows what it holds."""

    def __init__(  # noqa: PLR0913 - everything comes in by argument, for tests and simulations
        self,
        name: str,
        model: Model | None,
        codec: Codec[T],
        *,
        origin: str,
        clock: Clock,
        chance: Chance,
        files: Callable[[], FilesSwitched | None] = lambda: None,
    ) -> None:
        """Without a model anything is accepted; `origin` names the log that documents come from.

        `files` says how the readable files of a new collection are kept; it may ask the store.
        """
        self.name = name
        self.origin = origin
        self.model = model
        self.mode = "readwrite" if model is None else model.mode
        self._codec = codec
        self._clock = clock
        self._chance = chance
        self._files = files
        self._definition = b"" if model is None else model.canonical()
        self._newer: Definition | None = None
        """What the database has instead of this model, which is an older version of it."""
        self._sieve = Sieve(model)
        self._strategy: IdStrategy = "ulid" if model is None else model.id
        self._makes_ids = model is None or makes_good_ids(model)

    @property
    def definition(self) -> bytes:
        """The model as the log has it; empty without one."""
        return self._definition

    @property
    def _is_numbered(self) -> bool:
        return self.model is not None and self.model.id == "seq"

    @property
    def _is_singleton(self) -> bool:
        return self.model is not None and self.model.is_singleton

    # --- out ---

    def show(self, held: Held, number: LogNumber, values: Mapping[str, Any] | None = None) -> T:
        """A stored document in the caller's type; `values` are those of it, where somebody has decoded it already."""
        return self._codec.from_document(shown(held, number, self.origin, values))

    def show_past(self, held: Held, values: Mapping[str, Any] | None = None) -> T:
        """A document as it once was, in the caller's type: a copy, which does not stand for what is there now."""
        return self._codec.from_document(shown_past(held, values))

    # --- in ---

    def create(self, data: Any, more: Mapping[str, Any]) -> T:
        """A new document that is not saved; raises ValidationError. No requests."""
        given = {**({} if data is None else self._codec.to_values(data)), **more}
        values = self._new(given)
        fresh = None if _has_id(given) or self._is_singleton else values.get("_id")
        return self._codec.from_document(Document({_outer(name): value for name, value in values.items()}, fresh=fresh))

    def given(self, document: Any) -> dict[str, Any]:
        """What a document or an instance says, without an id that is none. No requests."""
        values = stored(self._codec.to_values(document))
        return values if _has_id(values) else {name: value for name, value in values.items() if name != "_id"}

    def shape(self, verb: str, document: Any, loaded: Loaded | None = None) -> Shape:
        """Check and encode a document; with `loaded` it is a change of that, and to "replace" it gets defaults too."""
        loaded = loaded or self._loaded(verb, document)
        given = self._codec.to_values(document)
        if loaded is not None and not _has_id(given):
            given = {**given, "id": json.decode(loaded.held.id, name="document id")}
        values = self._new(given) if loaded is None or verb == "replace" else self._checked(stored(given), loaded)
        values = values if loaded is None else self._with_times(values, loaded)
        if "_id" not in values and not self._is_numbered:
            raise InvalidRequestError(
                f"document of {self.name}", reason="it has no id", fix="give one: ids of this model are not made"
            )
        unchanged = loaded is not None and json.encode_document(values) == loaded.held.document
        if not unchanged:
            is_old = isinstance(document, Document) and document.past is not None
            values = self._stamped(values, self.model, is_change=loaded is not None or is_old)
        if "_id" not in values:
            return Shape(None, json.encode_document(values), values, None, fresh=True, is_unchanged=False)
        # A model has looked at the id with all else.
        identity = json.encode(self.check_id(values["_id"]) if self.model is None else values["_id"])
        if loaded is not None and identity != loaded.held.id:
            if verb != "insert":
                raise InvalidRequestError(
                    f"document {json.decode(loaded.held.id, name='document id')!r} in {self.name}",
                    reason=f"its id was changed to {values['_id']!r}, and an id stays for life",
                    fix="insert it under the new id, and delete the old one",
                )
            loaded = None
        fresh = loaded is None and self._is_fresh(document, given, values["_id"])
        return Shape(identity, json.encode_document(values), values, loaded, fresh, unchanged, verb == "replace")

    def prepare(self, verb: str, document: Any) -> Prepared:
        """The operation of one verb: insert, save, update or delete. No requests."""
        if verb == "delete":
            return Prepared(Remove(self._identity(document), self._loaded(verb, document)), document, None)
        return self.prepared(verb, document, self.shape(verb, document))

    def inserts(self, documents: Iterable[Any]) -> Inserts:
        """Check and encode documents to be inserted, as `prepare` does each. No requests."""
        inserts = Inserts()
        for some in portions(documents):
            if len(some) == 1:
                self._insert(some[0], inserts)
            else:
                self._insert_some(some, inserts)
        return inserts

    def _insert(self, document: Any, inserts: Inserts) -> None:
        prepared = self.prepare("insert", document)
        assert prepared.shape is not None
        if prepared.given is not None:
            inserts.held.append((len(inserts.operations), prepared))
        inserts.operations.append(prepared.operation)
        inserts.ids.append(prepared.shape.values.get("_id"))

    def _insert_some(self, documents: Sequence[Any], inserts: Inserts) -> None:
        passed = self._sieve.run([self._values(document) for document in documents])
        made = self._made_ids(sum(one is not None and one.id is None for one in passed))
        times = json.encode(self._stamped({}, self.model, is_change=False))[1:-1]
        end = b"," + times + b"}" if times else b"}"
        for document, one in zip(documents, passed, strict=True):
            if one is None:
                self._insert(document, inserts)
                continue
            identity, encoded = next(made, (None, b"")) if one.id is None else (one.id, json.encode_plain(one.id))
            members = one.members
            if identity is not None:
                body = b'{"_id":%b,%b%b' % (encoded, members, end) if members else b'{"_id":%b%b' % (encoded, end)
                inserts.operations.append(Insert(encoded, body, one.id is None))
            elif self._is_numbered:
                inserts.operations.append(InsertNext(b"{" + (members + end if members else end.removeprefix(b","))))
            else:
                self._insert(document, inserts)
                continue
            inserts.ids.append(identity)

    def _made_ids(self, count: int) -> Iterator[tuple[str, bytes]]:
        """New ids, each also as JSON; none where the model makes none that are good as they are."""
        if not count or not self._makes_ids:
            return iter(())
        made = new_ids(self._strategy, count, clock=self._clock, chance=self._chance)
        return zip(made, json.encode_plain(made)[1:-1].split(b","), strict=True)

    def _values(self, document: Any) -> Any:
        """What a document says, None if that is found out one by one."""
        if type(document) is dict:
            return document
        try:
            return None if isinstance(document, Mapping) else self._codec.to_values(document)
        except WormError:
            return None

    def prepared(self, verb: str, document: Any, shape: Shape) -> Prepared:
        """The operation that writes a document as it was checked. No requests."""
        operation: Operation
        if shape.id is None:
            operation = InsertNext(shape.body)
        elif verb == "insert" or (shape.fresh and verb == "save"):
            operation = Insert(shape.id, shape.body, fresh=shape.fresh)
        else:
            is_known = verb == "update"
            operation = Save(shape.id, shape.body, shape.loaded, must_exist=is_known, is_anew=shape.is_anew)
        given = None
        if isinstance(document, Document):
            # From now on somebody may have seen the id: the answer of this commit may get lost.
            document.fresh = None
            given = dict(document)
        return Prepared(operation, document, shape, given)

    def after(self, prepared: Prepared, change: Change, number: LogNumber, *, is_last: bool = True) -> Document:
        """The document as it is now; a Document that was given is brought up to date in place.

        Unless `is_last` its batch changed it again afterwards: then it stands for no version, and cannot be saved.
        """
        assert prepared.shape is not None
        held = Held(change.id, number, change.seq if is_last else 0, change.after)
        # No state shows what was changed again, so the one before is the newest that may be compared with.
        loaded = Loaded(held, number if is_last else LogNumber(number - 1), self.origin)
        identity = {} if prepared.shape.id is not None else {"id": json.decode(change.id, name="document id")}
        values = identity | {_outer(name): value for name, value in prepared.shape.values.items()}
        document = prepared.document
        if not isinstance(document, Document):
            return Document(values, loaded)
        if document == prepared.given:
            document.clear()
            document.update(values)
        document.loaded, document.past = loaded, None
        return document

    def typed(self, document: Document) -> T:
        """A document in the caller's type."""
        return self._codec.from_document(document)

    def as_result(self, document: Any, shape: Shape) -> T:
        """A document that needed no write."""
        if isinstance(document, Document):
            return self._codec.from_document(document)
        return self._codec.from_document(Document({_outer(n): v for n, v in shape.values.items()}, shape.loaded))

    def brought_back(self, document: bytes, model: Model | None) -> bytes:
        """An old version, fit for the model now in force and stamped anew; raises ValidationError. No requests."""
        if model is None:
            return document
        values = validate(model, json.decode_document(document, name="document"))
        return json.encode_document(self._stamped(values, model, is_change=True))

    def at(self, clock: Clock, chance: Chance) -> Writer[T]:
        """The same, with times and ids from elsewhere: those of a job are of one moment. No requests."""
        return Writer(
            self.name,
            self.model,
            self._codec,
            origin=self.origin,
            clock=clock,
            chance=chance,
            files=self._files,
        )

    def replaced(self, document: bytes, held: Held) -> bytes | None:
        """A stored document as it is when it replaces what is there; None if that stays as it is. No requests.

        It is of this writer's moment: times that are just that were not given, so those of before stay.
        """
        now = moment(self._clock.now_ms())
        values = json.decode_document(document, name="document")
        if self.model is not None:
            values = {name: value for name, value in values.items() if name not in _TIMES or value != now}
        shape = self.shape("replace", values, Loaded(held, LogNumber(held.rev), self.origin))
        return None if shape.is_unchanged else shape.body

    def final(self, operations: Sequence[Operation], model: Model | None, by: By) -> tuple[Operation, ...]:
        """Operations as they are committed: deletes go to the trash, if the model in force has one. No requests."""
        if model is None or not model.soft_delete.enabled:
            return tuple(operations)
        mark = tombstone(self._clock.now_ms(), by.actor, model.soft_delete.ttl)
        return tuple(replace(each, tombstone=mark) if isinstance(each, Remove) else each for each in operations)

    def encoded_id(self, identity: Any) -> bytes:
        """An id that this collection can have, as it is stored; raises InvalidRequestError. No requests."""
        return json.encode(self.check_id(identity))

    def key_of(self, identity: Any) -> bytes:
        """The key of an id that this collection can have; raises InvalidRequestError. No requests."""
        return id_key(self.encoded_id(identity))

    def check_id(self, identity: Any) -> Any:
        """An id that this collection can have; raises InvalidRequestError. A singleton ignores what is given."""
        if self._is_singleton:
            return SINGLETON_ID
        value = normalize(identity)
        problem = None if self.model is None else id_problem(self.model, value)
        if problem is not None:
            raise InvalidRequestError(f"id of {self.name}", problems=[problem])
        check_id(value)
        return value

    # --- the definition ---

    def check_definition(self, view: View) -> None:
        """Raise SchemaMismatchError if the database defines this model in another way."""
        if self.model is None or _is_undefined(view) or view.definition.body == self._definition:
            return
        if view.definition.model is None:
            raise SchemaMismatchError(f"model {self.name}", reason="the collection was made without a schema")
        if view.definition.begun_at(self._definition) is None:
            raise mismatch(view.definition.model, self.model)
        _warn(self.origin, self.name, view.definition.version)
        self._newer = view.definition

    def check_newest(self, view: View) -> None:
        """As `check_definition`, and raise SchemaMismatchError too if this model is an older version of it."""
        self.check_definition(view)
        known = view.definition.model
        if self.model is not None and known is not None and view.definition.body != self._definition:
            raise mismatch(known, self.model)

    def in_force(self, view: View) -> Model | None:
        """The model that rules a state: the database's, or the one that the first write will bring. No requests."""
        return view.definition.model or self.model

    def first_events(self, view: View) -> tuple[Event, ...]:
        """The definition, if the collection has none and holds nothing yet."""
        if self.model is None or not _is_undefined(view):
            return ()
        switched = self._files() if self.model.files else None
        schema = SchemaChanged(definition=self._definition)
        return (schema,) if switched is None else (schema, switched)

    def check_mode(self) -> None:
        """Raise PermissionDeniedError if this model is for reading only. No requests."""
        if self.mode == "readonly":
            raise PermissionDeniedError(
                f"{self.name} is read-only",
                fix="change the model's mode with worm schema apply; worm adopt takes over files of another program",
            )

    def guard(self, operations: tuple[Operation, ...], events: tuple[Event, ...]) -> Callable[[View], None]:
        """What every try of a commit checks again, against the definition then in force."""

        def check(view: View) -> None:
            self.check_definition(view)
            if self.model is not None and _is_undefined(view) and not events:
                raise ConflictError(f"collection {self.name}", reason="it was emptied meanwhile, and has no schema yet")
            model = self.in_force(view)
            check_deletes(model, operations, self.name)
            if model is None:
                return
            if model.mode == "readonly":
                raise PermissionDeniedError(
                    f"{self.name} is read-only", fix="change the model's mode, with worm schema apply"
                )
            if model.mode == "append" and changes_existing(view, operations):
                raise PermissionDeniedError(f"{self.name} is append-only", fix="insert new documents instead")
            known = view.definition.body  # none before the first write, which brings this writer's
            if self.model is None or (known and known != self._definition):
                check_fit(model, mapped(operations, view.definition, self._definition))

        return check

    # --- inside ---

    def _loaded(self, verb: str, document: Any) -> Loaded | None:
        """What a document was read as; None if it was not, or if it is to be inserted as a new one here."""
        loaded = document.loaded if isinstance(document, Document) else None
        if loaded is None or loaded.origin == self.origin:
            return loaded
        if verb == "insert":
            return None
        raise InvalidRequestError(
            f"document {document.id!r}",
            reason=f"it was read from {loaded.origin}, and this is {self.origin}",
            fix="insert it here, or change it where it is: one batch belongs to one collection",
        )

    def _is_fresh(self, document: Any, given: Mapping[str, Any], identity: Any) -> bool:
        """Whether the id was made from randomness and nobody can have seen it, so that nothing need be looked up."""
        if isinstance(document, Document) and document.fresh is not None:
            return bool(document.fresh == identity)
        return not _has_id(given) and not self._is_singleton

    def _identity(self, document: Any) -> bytes:
        if not self._codec.is_document(document):
            return json.encode(self.check_id(document))
        values = stored(self._codec.to_values(document))
        if not _has_id(values) and not self._is_singleton:
            raise InvalidRequestError(f"document of {self.name}", reason="it has no id", fix="give one that was saved")
        return json.encode(self.check_id(values.get("_id")))

    def _new(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if self.model is not None:
            return new_document(self.model, given, clock=self._clock, chance=self._chance)
        values = normalize_document(stored(given))
        if values.get("_id") is None:
            made = new_id("ulid", clock=self._clock, chance=self._chance)
            values = {"_id": made, **{name: value for name, value in values.items() if name != "_id"}}
        return values

    def _checked(self, values: Mapping[str, Any], loaded: Loaded) -> dict[str, Any]:
        """A changed document, by the model that was in force when it was read."""
        model = self.model
        if self._newer is not None and loaded.number >= self._newer.number:
            model = self._newer.model
        return normalize_document(values) if model is None else validate(model, values)

    def _with_times(self, values: dict[str, Any], loaded: Loaded) -> dict[str, Any]:
        """Add the times of what was read, where a class has no attribute for them."""
        missing = [] if self.model is None else [name for name in _TIMES if name not in values]
        if not missing or loaded.held.document is None:
            return values
        before = json.decode_document(loaded.held.document, name="document")
        return values | {name: before[name] for name in missing if name in before}

    def _stamped(self, values: dict[str, Any], model: Model | None, *, is_change: bool) -> dict[str, Any]:
        if model is None:
            return values
        now = moment(self._clock.now_ms())
        created = values.get("createdAt") or now
        return {**values, "createdAt": created, "updatedAt": now if is_change else values.get("updatedAt", now)}


@lru_cache(maxsize=1_000)
def _warn(origin: str, name: str, version: int) -> None:
    """Say once that a program has an older version of a model."""
    log.warning("%s: this program has an older version of %s; the newest is %d", origin, name, version)


def _is_undefined(view: View) -> bool:
    """Whether a collection has no schema and no documents: it takes the first schema that comes."""
    return view.definition.model is None and view.count == 0


def _outer(name: str) -> str:
    return "id" if name == "_id" else name


def _has_id(values: Mapping[str, Any]) -> bool:
    return any(values.get(name) not in (None, "") for name in ("id", "_id"))
