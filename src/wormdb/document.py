"""Documents as users hold them, and the two ways between them and what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.engine.operations import Loaded
from wormdb.errors import InvalidRequestError
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.engine.state import Held
    from wormdb.types import LogNumber

__all__ = ["Document", "shown", "shown_past", "shown_values", "stored", "with_id"]


class Document(dict[str, Any]):
    """A document: a dict with `id` first, that remembers the state it was read in.

    `rev` is the log number of its last change and `seq` counts its changes; both are 0 before the first save. Saving a
    document that was read fails with ConflictError if somebody changed it since. One that was read as of the past,
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
        """The document's id; None if it has none yet."""
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
    """The values with the identity field called `_id`, in first place where there is one."""
    if "id" not in values:
        if "_id" in values:
            return {"_id": values["_id"], **values}
        return dict(values)
    if "_id" in values and values["_id"] != values["id"]:
        raise InvalidRequestError(
            "document",
            reason=f"_id {values['_id']!r} and id {values['id']!r} differ",
            fix="give one of them: they are the same",
        )
    return {"_id": values["id"], **{name: value for name, value in values.items() if name not in {"id", "_id"}}}
