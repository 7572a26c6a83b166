"""Documents as users hold them, and the two ways between them and what is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.state.operations import Loaded
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.kinds import MISSING

if TYPE_CHECKING:
    from wormdb.engine.state.view import Held
    from wormdb.system.types import LogNumber

__all__ = [
    "Document",
    "Memory",
    "memory_of",
    "remember",
    "rev_of",
    "shown",
    "shown_past",
    "shown_values",
    "stored",
    "with_id",
]

_MEMORY: Final = "_wormdb_memory"
"""The name in an instance's `__dict__`: no field of a class, so that comparing and writing it leave it out."""


class Document(dict[str, Any]):
    """A document: a dict with `id` first, that remembers the state it was read in.

    `rev` is the log number of its last change and `seq` counts its changes; both are 0 before the first save. Saving a
    document that was read fails with ConflictError if it changed since. One that was read as of the past,
    or in the trash, is a copy: saving it replaces what is there now, as a document that was never read does.
    """

    __slots__ = ("fresh", "loaded", "past")

    def __init__(
        self, values: Mapping[str, Any], loaded: Loaded | None = None, *, fresh: Any = None, past: Held | None = None
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
        return self.get("id")

    @property
    def rev(self) -> int:
        """The log number of the last change."""
        held = self._held
        return 0 if held is None else held.rev

    @property
    def seq(self) -> int:
        """How many changes this document has had."""
        held = self._held
        return 0 if held is None else held.seq

    @property
    def _held(self) -> Held | None:
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

    # For pickle and deep copies. Of two documents with one id, none can say that nobody has seen it,
    # so `fresh` is never handed on.
    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuilt, (dict(self), self.loaded, self.past))


def _rebuilt(values: dict[str, Any], loaded: Loaded | None, past: Held | None) -> Document:
    return Document(values, loaded, past=past)


@dataclass(frozen=True, slots=True)
class Memory:
    """What a document was read as: `loaded` as it was then the newest, `past` as it once was.

    Neither of an instance that `create` made and that was not saved yet. A memory never changes, because copies of
    an instance share it: an instance that is saved gets another.
    """

    loaded: Loaded | None = None
    past: Held | None = None

    @property
    def held(self) -> Held | None:
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
        return None if memory.held is None else memory.held.rev or None
    if not isinstance(document, Mapping) and not hasattr(document, "__dict__"):
        raise InvalidRequestError(
            f"revision of a {type(document).__name__}",
            reason="instances of this class cannot remember what they were read as",
            fix="declare the class without slots, and a Struct with dict=True",
        )
    return None


def shown(held: Held, number: LogNumber, origin: str, values: Mapping[str, Any] | None = None) -> Document:
    """A document of log `origin` as users see it: `_id` shows as `id`. `values` are those of it, if they are known."""
    assert held.document is not None, "deleted documents are not shown"
    if values is None:
        values = json.decode_document(held.document, name=f"document {held.id.decode()}")
    return Document(with_id(values), Loaded(held, number, origin))


def shown_past(held: Held, values: Mapping[str, Any] | None = None) -> Document:
    """A document as it once was: a copy that does not stand for what is there now. `values` as for `shown`."""
    assert held.document is not None, "deleted documents are not shown"
    if values is None:
        values = json.decode_document(held.document, name=f"document {held.id.decode()}")
    return Document(with_id(values), past=held)


def shown_values(document: bytes, name: str = "document") -> dict[str, Any]:
    """A stored document with its id called `id`; CorruptionError naming `name`."""
    return with_id(json.decode_document(document, name=name))


def with_id(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as users see them: `_id` shows as `id`."""
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
                reason=f"its {name} is {'null' if identity is None else 'empty'}, and that is no id",
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
