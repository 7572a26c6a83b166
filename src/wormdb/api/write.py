"""Between a caller's documents and the engine's operations: ids, timestamps, validation, modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wormdb.api.document import (
    ClassCodec,
    Document,
    Memory,
    TransactionOrigin,
    memory_of,
    remember,
    show_document,
    show_past,
    show_rows,
    show_values,
    split_documents,
    stored,
    with_id,
)
from wormdb.api.guard import ModelGuard, is_undefined, warn_older
from wormdb.engine.commit.operations import Insert, InsertNext, ReadVersion, Remove, Save
from wormdb.engine.history.tombstone import tombstone
from wormdb.engine.state.definition import Definition, expiry_of
from wormdb.engine.state.view import StoredVersion
from wormdb.errors import (
    InvalidRequestError,
    PermissionDeniedError,
    SchemaMismatchError,
    WormError,
)
from wormdb.format import json
from wormdb.format.event import SchemaChanged
from wormdb.format.key import encode_key
from wormdb.format.segment import check_id
from wormdb.format.values import normalize, normalize_document
from wormdb.format.wrappers import moment
from wormdb.schema.identity import id_problem, makes_good_ids, new_id, new_ids
from wormdb.schema.path import SINGLETON_ID
from wormdb.schema.sieve import Sieve
from wormdb.schema.validate import new_document, validate
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wormdb.api.calls import Author
    from wormdb.api.document import Codec, StoredRow
    from wormdb.engine.commit.operations import Operation
    from wormdb.engine.state.view import View
    from wormdb.format.entry import LoggedChange
    from wormdb.format.event import Event, FilesSwitched
    from wormdb.schema.model import IdStrategy, Model
    from wormdb.system.clock import Chance, Clock

__all__ = ["EncodedDocument", "Inserts", "PreparedOperation", "Writer"]

_TIMES = ("createdAt", "updatedAt")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EncodedDocument:
    """A document on its way in: encoded, with what is known of its past."""

    id: bytes | None
    """None where the commit gives the id."""
    body: bytes
    values: dict[str, Any]
    loaded: ReadVersion | None
    fresh: bool
    is_unchanged: bool
    is_anew: bool = False
    """Whether it replaces what was read, of which nothing is left in it."""
    is_new: bool = False
    """Whether it is an instance that was not read: nothing may be there, or it might be an old copy of that."""
    is_stamped: bool = False
    """Whether its `createdAt` was not given: a document that is there keeps its own."""


@dataclass(frozen=True, slots=True)
class PreparedOperation:
    """An operation with the document it came from."""

    operation: Operation
    document: Any
    shape: EncodedDocument | None
    """None for a delete."""
    given: dict[str, Any] | None = None
    """What a Document held when it was given, to see whether its holder went on editing."""
    is_unread: bool = False
    """Whether it saves an instance that was not read."""

    @property
    def key(self) -> str | None:
        """The id as errors name it; None if the commit gives one."""
        return None if self.shape is None or self.shape.id is None else self.shape.id.decode()


@dataclass(slots=True)
class Inserts:
    """Documents on their way in together."""

    operations: list[Operation] = field(default_factory=list)
    ids: list[Any] = field(default_factory=list)
    """Of each document; None where the commit gives it."""
    held: list[tuple[int, PreparedOperation]] = field(default_factory=list)
    """Those that their holder gave as a Document, each with its place among all."""
    instances: list[tuple[int, Any]] = field(default_factory=list)
    """Instances that have their id, each with its place among all."""


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

    def show(self, held: StoredVersion, number: LogNumber, values: Mapping[str, Any] | None = None) -> T:
        """A stored document in the caller's type; `values` are its decoded values, if the caller has them."""
        return self._codec.from_document(show_document(held, number, self.origin, values))

    def show_all(self, rows: Sequence[StoredRow], number: LogNumber) -> list[T]:
        """Stored documents, each with its decoded values, in the caller's type."""
        return list(map(self._codec.from_document, show_rows(rows, number, self.origin)))

    def show_past(self, held: StoredVersion, values: Mapping[str, Any] | None = None) -> T:
        """A document as it once was, in the caller's type: a copy, which does not stand for what is there now."""
        return self._codec.from_document(show_past(held, values))

    # --- in ---

    def create(self, data: Any, more: Mapping[str, Any]) -> T:
        """A new document that is not saved; raises ValidationError. No requests."""
        given = stored({**({} if data is None else self._codec.to_values(data)), **more})
        values = self._new(given)
        fresh = None if "_id" in given or self._is_singleton else values.get("_id")
        return self._codec.from_document(Document(with_id(values), fresh=fresh))

    def given(self, document: Any) -> dict[str, Any]:
        """What a document or an instance says; raises InvalidRequestError for an id that cannot be one. No requests."""
        return stored(self._codec.to_values(document))

    def shape(self, verb: str, document: Any, loaded: ReadVersion | None = None) -> EncodedDocument:
        """Check and encode a document; with `loaded` it is a change of that, and to "replace" it gets defaults too."""
        loaded = loaded or self._loaded(verb, document)
        memory = memory_of(document)
        past = None if memory is None or loaded is not None else memory.past
        given = self.given(document)
        if loaded is not None and "_id" not in given:
            given = {"_id": json.decode(loaded.held.id, name="document id"), **given}
        before = loaded.held if loaded is not None else past
        if before is not None and before.document is not None and not isinstance(document, Mapping):
            given = self._codec.over(given, json.decode_document(before.document, name="document"))
        values = self._new(given) if loaded is None or verb == "replace" else self._checked(given, loaded)
        values = values if loaded is None else self._with_times(values, loaded)
        completed = self._codec.completed(values)
        values = completed if loaded is None or verb == "replace" else values
        if "_id" not in values and not self._is_numbered:
            raise InvalidRequestError(
                f"document of {self.name}", reason="it has no id", fix="give one: ids of this model are not made"
            )
        unchanged = loaded is not None and json.encode_document(values) == loaded.held.document
        if not unchanged:
            values = self._stamped(values, self.model, is_change=before is not None)
        body = json.encode_document(values)
        if "_id" not in values:
            return EncodedDocument(None, body, values, None, fresh=True, is_unchanged=False)
        # A model has looked at the id with all else.
        identity = json.encode(self.check_id(values["_id"]) if self.model is None else values["_id"])
        if loaded is not None and verb != "insert":
            self._check_same(identity, loaded)
        elif loaded is not None and identity != loaded.held.id:
            loaded = None
        return EncodedDocument(
            identity,
            body,
            values,
            loaded,
            fresh=loaded is None and self._is_fresh(document, given, values["_id"]),
            is_unchanged=unchanged,
            is_anew=verb == "replace",
            is_new=not isinstance(document, Mapping) and before is None,
            is_stamped=self.model is not None and before is None and given.get("createdAt") is None,
        )

    def prepare(self, verb: str, document: Any, loaded: ReadVersion | None = None) -> PreparedOperation:
        """The operation of one verb: insert, save, update or delete; with `loaded` of that. No requests."""
        if verb == "delete":
            return PreparedOperation(self._removal(document, loaded), document, None)
        return self.prepared(verb, document, self.shape(verb, document, loaded))

    def inserts(self, documents: Iterable[Any]) -> Inserts:
        """Check and encode documents to be inserted, as `prepare` does each. No requests."""
        inserts = Inserts()
        for some in split_documents(documents):
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
        elif self._is_named(document):
            inserts.instances.append((len(inserts.operations), document))
        inserts.operations.append(prepared.operation)
        inserts.ids.append(prepared.shape.values.get("_id"))

    def _insert_some(self, documents: Sequence[Any], inserts: Inserts) -> None:
        given = [self._values(document) for document in documents]
        passed = [
            None if one is None or not self._is_whole(values) else one
            for one, values in zip(self._sieve.run(given), given, strict=True)
        ]
        made = self._made_ids(sum(one is not None and one.id is None for one in passed))
        encoded_ids = iter(json.encode_all([one.id for one in passed if one is not None and one.id is not None]))
        times = json.encode(self._stamped({}, self.model, is_change=False))[1:-1]
        end = b"," + times + b"}" if times else b"}"
        for document, one in zip(documents, passed, strict=True):
            if one is None:
                self._insert(document, inserts)
                continue
            if one.id is not None and not isinstance(document, dict):
                inserts.instances.append((len(inserts.operations), document))
            identity, encoded = next(made, (None, b"")) if one.id is None else (one.id, next(encoded_ids))
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
            is_told = isinstance(document, Mapping) or memory_of(document) is not None
            return None if is_told else self._codec.to_values(document)
        except WormError:
            return None

    def _is_whole(self, values: dict[str, Any]) -> bool:
        """Whether what passed as it is, is an instance with nothing added."""
        if not self.is_typed:
            return True
        try:
            return self._codec.completed(values) is values
        except WormError:
            return False

    def prepared(self, verb: str, document: Any, shape: EncodedDocument) -> PreparedOperation:
        """The operation that writes a document as it was checked. No requests."""
        operation: Operation
        if shape.id is None:
            operation = InsertNext(shape.body)
        elif verb == "insert" or (verb == "save" and (shape.fresh or shape.is_new)):
            operation = Insert(shape.id, shape.body, fresh=shape.fresh)
        else:
            operation = Save(
                shape.id,
                shape.body,
                shape.loaded,
                must_exist=verb == "update",
                is_anew=shape.is_anew,
                is_stamped=shape.is_stamped,
            )
        given = None
        if isinstance(document, Document):
            # From now on the id may be stored: the answer of this commit may get lost.
            document.fresh = None
            given = dict(document)
        return PreparedOperation(operation, document, shape, given, is_unread=verb == "save" and shape.is_new)

    def after(
        self, prepared: PreparedOperation, change: LoggedChange, number: LogNumber, *, is_last: bool = True
    ) -> Document:
        """The document as it is now; a Document that was given is brought up to date in place.

        An instance that was given remembers it; the values of one are left alone. Unless `is_last` its batch changed it
        again afterwards: then it stands for no version, and cannot be saved.
        """
        shape = prepared.shape
        assert shape is not None
        loaded = self._now(change, number, is_last=is_last)
        if shape.is_stamped and change.before is not None and change.after is not None:
            values = show_values(change.after)
        else:
            identity = {} if shape.id is not None else {"id": json.decode(change.id, name="document id")}
            values = identity | with_id(shape.values)
        document = prepared.document
        if not isinstance(document, Document):
            if shape.loaded is not None or self._is_named(document):
                remember(document, Memory(loaded))
            return Document(values, loaded)
        if document == prepared.given:
            document.clear()
            document.update(values)
        document.loaded, document.past = loaded, None
        return document

    def inserted(self, document: Any, change: LoggedChange, number: LogNumber) -> None:
        """Let an instance that was inserted with its id remember it. No requests."""
        remember(document, Memory(self._now(change, number)))

    def _now(self, change: LoggedChange, number: LogNumber, *, is_last: bool = True) -> ReadVersion:
        held = StoredVersion(change.id, number, change.seq if is_last else 0, change.after)
        if isinstance(self.origin, TransactionOrigin):
            return ReadVersion(held, LogNumber(number - 1), self.origin)
        # No state shows what was changed again, so the one before is the newest that may be compared with.
        return ReadVersion(held, number if is_last else LogNumber(number - 1), self.origin)

    def typed(self, document: Document) -> T:
        """A document in the caller's type."""
        return self._codec.from_document(document)

    def as_result(self, document: Any, shape: EncodedDocument) -> T:
        """A document that needed no write."""
        if isinstance(document, Document):
            return self._codec.from_document(document)
        return self._codec.from_document(Document(with_id(shape.values), shape.loaded))

    @property
    def is_typed(self) -> bool:
        """Whether documents are shown as instances of a class, which may not fit it."""
        return isinstance(self._codec, ClassCodec)

    def check_shown(self, document: bytes) -> None:
        """Raise ValidationError if a stored document cannot be shown, before it is written. No requests."""
        if self.is_typed:
            self._codec.completed(json.decode_document(document, name="document"))

    def brought_back(self, document: bytes, model: Model | None) -> bytes:
        """An old version, fit for the model now in force and stamped anew; raises ValidationError. No requests."""
        self.check_shown(document)
        if model is None:
            return document
        values = validate(model, json.decode_document(document, name="document"))
        return json.encode_document(self._stamped(values, model, is_change=True))

    def at(self, clock: Clock, chance: Chance, origin: str | None = None) -> Writer[T]:
        """The same, with times and ids from elsewhere: those of a job are of one moment. No requests.

        With `origin` its documents are known to come from there: from a transaction on the same log.
        """
        return Writer(
            self.name,
            self.model,
            self._codec,
            origin=self.origin if origin is None else origin,
            clock=clock,
            chance=chance,
            files=self._files,
        )

    def replaced(self, document: bytes, held: StoredVersion) -> bytes | None:
        """A stored document as it is when it replaces what is there; None if that stays as it is. No requests.

        It is of this writer's moment: times that are just that were not given, so those of before stay.
        """
        now = moment(self._clock.now_ms())
        values = json.decode_document(document, name="document")
        if self.model is not None:
            values = {name: value for name, value in values.items() if name not in _TIMES or value != now}
        shape = self.shape("replace", values, ReadVersion(held, LogNumber(held.rev), self.origin))
        return None if shape.is_unchanged else shape.body

    def final(self, operations: Sequence[Operation], model: Model | None, by: Author) -> tuple[Operation, ...]:
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
        return encode_key(self.check_id(identity))

    def check_id(self, identity: Any) -> Any:
        """An id that this collection can have; raises InvalidRequestError. A singleton ignores what is given."""
        model = self.model
        if model is not None and model.is_singleton:
            return SINGLETON_ID
        value = normalize(identity)
        problem = None if model is None else id_problem(model, value)
        if problem is not None:
            raise InvalidRequestError(f"id of {self.name}", problems=[problem])
        check_id(value)
        return value

    # --- the definition ---

    def check_definition(self, view: View) -> None:
        """Raise SchemaMismatchError if the database defines this model in another way."""
        if self.model is None or is_undefined(view) or view.definition.body == self._definition:
            return
        if view.definition.model is None:
            raise SchemaMismatchError(f"model {self.name}", reason="the collection was made without a schema")
        if view.definition.begun_at(self._definition) is None:
            raise _mismatch(view.definition.model, self.model)
        warn_older(self.origin, self.name, view.definition.version)
        self._newer = view.definition

    def check_newest(self, view: View) -> None:
        """As `check_definition`, and raise SchemaMismatchError too if this model is an older version of it."""
        self.check_definition(view)
        known = view.definition.model
        if self.model is not None and known is not None and view.definition.body != self._definition:
            raise _mismatch(known, self.model)

    def in_force(self, view: View) -> Model | None:
        """The model that rules a state: the database's, or the one that the first write will bring. No requests."""
        return view.definition.model or self.model

    def first_events(self, view: View) -> tuple[Event, ...]:
        """The definition, if the collection has none and holds nothing yet."""
        if self.model is None or not is_undefined(view):
            return ()
        switched = self._files() if self.model.files else None
        files = () if switched is None else (switched,)
        return (SchemaChanged(definition=self._definition), *files, *expiry_of(self.model))

    def check_mode(self) -> None:
        """Raise PermissionDeniedError if this model is for reading only. No requests."""
        if self.mode == "readonly":
            raise PermissionDeniedError(
                f"{self.name} is read-only",
                fix="change the model's mode with worm schema apply; worm adopt takes over files of another program",
            )

    def guard(self, operations: tuple[Operation, ...], events: tuple[Event, ...]) -> ModelGuard:
        """What every try of a commit checks again, against the definition then in force."""
        return ModelGuard(self, operations, brings_model=bool(events))

    # --- inside ---

    def _loaded(self, verb: str, document: Any) -> ReadVersion | None:
        """What a document was read as; None if it was not, or if it is to be inserted as a new one here."""
        memory = memory_of(document)
        if memory is None and verb in ("update", "delete") and self._is_named(document):
            raise InvalidRequestError(
                f"{verb} of a {type(document).__name__}",
                reason="it was not read, so it is not known which version it is of",
                fix="give its id to delete or modify, or find it first",
            )
        loaded = None if memory is None else memory.loaded
        if loaded is None or loaded.origin == self.origin:
            if loaded is not None and type(loaded.origin) is TransactionOrigin:
                return loaded.origin.settle(loaded, self.origin)
            return loaded
        if verb == "insert":
            return None
        raise InvalidRequestError(
            f"document {json.decode(loaded.held.id, name='document id')!r}",
            reason=f"it was read from {loaded.origin}, and this is {self.origin}",
            fix="insert it here, or change it where it is: one batch belongs to one collection",
        )

    def _is_fresh(self, document: Any, given: Mapping[str, Any], identity: Any) -> bool:
        """Whether the id was made from randomness and never stored, so that no look-up is needed."""
        if isinstance(document, Document) and document.fresh is not None:
            return bool(document.fresh == identity)
        return "_id" not in given and not self._is_singleton

    def _is_named(self, document: Any) -> bool:
        """Whether an instance says which document it is."""
        is_instance = not isinstance(document, Mapping) and self._codec.is_document(document)
        return is_instance and (self._is_singleton or self._codec.id_of(document) is not None)

    def identity_of(self, document: Any) -> bytes:
        """The id of a document, as it is stored; of an id itself. Raises InvalidRequestError. No requests."""
        if not self._codec.is_document(document):
            return json.encode(self.check_id(document))
        values = self.given(document)
        memory = memory_of(document)
        if "_id" not in values and memory is not None and memory.held is not None:
            return memory.held.id
        if "_id" not in values and not self._is_singleton:
            raise InvalidRequestError(f"document of {self.name}", reason="it has no id", fix="give one that was saved")
        return json.encode(self.check_id(values.get("_id")))

    def _removal(self, document: Any, loaded: ReadVersion | None) -> Remove:
        """The delete of a document, or of an id."""
        if loaded is None and self._codec.is_document(document):
            loaded = self._loaded("delete", document)
        identity = self.identity_of(document)
        if loaded is not None:
            self._check_same(identity, loaded)
        return Remove(identity, loaded)

    def _check_same(self, identity: bytes, loaded: ReadVersion) -> None:
        if identity != loaded.held.id:
            old, new = (json.decode(each, name="document id") for each in (loaded.held.id, identity))
            raise InvalidRequestError(
                f"document {old!r} in {self.name}",
                reason=f"its id was changed to {new!r}, and an id stays for life",
                fix="insert it under the new id, and delete the old one",
            )

    def _new(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if self.model is not None:
            return new_document(self.model, given, clock=self._clock, chance=self._chance)
        values = normalize_document(stored(given))
        return values if "_id" in values else {"_id": new_id("ulid", clock=self._clock, chance=self._chance), **values}

    def _checked(self, values: Mapping[str, Any], loaded: ReadVersion) -> dict[str, Any]:
        """A changed document, by the model that was in force when it was read."""
        model = self.model
        if self._newer is not None and loaded.number >= self._newer.number:
            model = self._newer.model
        return normalize_document(values) if model is None else validate(model, values)

    def _with_times(self, values: dict[str, Any], loaded: ReadVersion) -> dict[str, Any]:
        """Add the times of what was read, where a document does not say them."""
        missing = [] if self.model is None else [name for name in _TIMES if values.get(name) is None]
        if not missing or loaded.held.document is None:
            return values
        before = json.decode_document(loaded.held.document, name="document")
        return values | {name: before[name] for name in missing if name in before}

    def _stamped(self, values: dict[str, Any], model: Model | None, *, is_change: bool) -> dict[str, Any]:
        if model is None:
            return values
        now = moment(self._clock.now_ms())
        updated = now if is_change else values.get("updatedAt") or now
        if is_change and values.get("createdAt") is None:
            # Adopted, or older than its model: when it was created is not known, and it was not now.
            return {**values, "updatedAt": updated}
        return {**values, "createdAt": values.get("createdAt") or now, "updatedAt": updated}


def _mismatch(known: Model, model: Model) -> SchemaMismatchError:
    from wormdb.schema.difference import describe_mismatch

    return describe_mismatch(known, model)
