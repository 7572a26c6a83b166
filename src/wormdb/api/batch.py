"""A batch: several changes of one collection, all of them or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wormdb.errors import ClosedError, InvalidRequestError, OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from wormdb.engine.ledger import CommitResult

__all__ = ["Batch"]

T = TypeVar("T")


class Batch(Generic[T]):
    """Collects changes without I/O; `flush` commits them as one log entry.

    As a context manager it flushes at the end, or discards if the block raised.
    """

    def __init__(self, prepare: Callable[[str, Any], Any], flush: Callable[[list[Any]], CommitResult]) -> None:
        """Made by `Collection.batch()`: what `prepare` makes of each change is given to `flush`."""
        self._prepare = prepare
        self._flush = flush
        self._operations: list[Any] = []
        self._used: str | None = None

    def insert(self, document: T | Mapping[str, Any]) -> Self:
        """A new document, whose id must be free. Raises ValidationError now, AlreadyExistsError at the flush."""
        return self._add("insert", document)

    def save(self, document: T | Mapping[str, Any]) -> Self:
        """A document, new or not; one that was read must be unchanged when the batch is flushed."""
        return self._add("save", document)

    def update(self, document: T | Mapping[str, Any]) -> Self:
        """A document that exists, replaced in whole; one that was read must be unchanged at the flush."""
        return self._add("update", document)

    def delete(self, document: Any) -> Self:
        """A document or its id; not an error if it is gone already."""
        return self._add("delete", document)

    def flush(self) -> CommitResult:
        """Commit everything. 1 PUT without competing writers; returns the log number and MISC.

        After an error that says nothing was written, the batch may be flushed again; after
        OutcomeUnknownError it may not. Raises ClosedError if it was used up before.
        """
        self._check_usable()
        if not self._operations:
            raise InvalidRequestError("batch", reason="it is empty", fix="add a change, or discard it")
        try:
            committed = self._flush(self._operations)
        except OutcomeUnknownError:
            self._used = "flushed with an unknown outcome"
            raise
        self._used = "flushed"
        return committed

    def discard(self) -> None:
        """Forget the changes; nothing was written. No requests."""
        self._check_usable()
        self._used = "discarded"
        self._operations.clear()

    def __len__(self) -> int:
        return len(self._operations)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._used is not None:
            return
        if kind is None and self._operations:
            self.flush()
        else:
            self.discard()

    def _add(self, verb: str, document: Any) -> Self:
        self._check_usable()
        self._operations.append(self._prepare(verb, document))
        return self

    def _check_usable(self) -> None:
        if self._used is not None:
            raise ClosedError("batch", reason=f"Batch already {self._used}", fix="make a new batch")
