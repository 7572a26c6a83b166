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

__all__ = ["Document", "shown", "stored"]


class Document(dict[str, Any]):
    """A document: a dict with `id` first, that remembers the state it was read in.

    `rev` is the log number of its last change and `seq` counts its changes; both are 0 before the first save. Saving a
    document that was read fails with ConflictError if somebody changed it since.
    """

    __slots__ = ("fresh", "loaded")

    def __init__(self, values: Mapping[str, Any], loaded: Loaded | None = None, *, fresh: Any = None) -> None:
        """`loaded` is None for a document that was not read.

        `fresh` is an id that was made for it and that no commit has seen yet.
        """
        super().__init__(values)
        self.loaded = loaded
        self.fresh = fresh

    @property
    def id(self) -> Any:
        """The document's id; None if it has none yet."""
        return self.get("id")

    @property
    def rev(self) -> int:
        """The log number of the last change."""
        return 0 if self.loaded is None else self.loaded.held.rev

    @property
    def seq(self) -> int:
        """How many changes this document has had."""
        return 0 if self.loaded is None else self.loaded.held.seq

    def __repr__(self) -> str:
        return f"Document({dict.__repr__(self)}, rev={self.rev})"

    # What is made from a document that was read is still a change of that document, so that
    # `save(doc | {"x": 1})` notices a conflict just as `doc["x"] = 1; save(doc)` does.
    def copy(self) -> Document:
        """A shallow copy that remembers the same state."""
        return Document(self, self.loaded)

    __copy__ = copy

    def __or__(self, other: Mapping[str, Any]) -> Document:  # type: ignore[override] # a document stays one
        return Document({**self, **other}, self.loaded)

    # For pickle and deep copies. Of two documents with one id, none can say that nobody has seen it,
    # so `fresh` is never handed on.
    def __reduce__(self) -> tuple[object, ...]:
        return (Document, (dict(self), self.loaded))


def shown(held: Held, number: LogNumber, origin: str) -> Document:
    """A document of log `origin` as users see it: `_id` shows as `id`."""
    assert held.document is not None, "deleted documents are not shown"
    values = json.decode_document(held.document, name=f"document {held.id.decode()}")
    outer = {("id" if name == "_id" else name): value for name, value in values.items()}
    return Document(outer, Loaded(held, number, origin))


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
