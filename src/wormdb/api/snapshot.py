"""One moment over several collections, for reading."""

# ruff: noqa: A002 - filter, sum, min and max are the names that users know

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, overload

from wormdb.api.transaction import SessionCalls, SessionHome
from wormdb.errors import ClosedError, InvalidRequestError, PermissionDeniedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from wormdb.api.access import Access
    from wormdb.api.document import Document
    from wormdb.api.options import WrittenFilter
    from wormdb.api.query import Query
    from wormdb.api.results import Results
    from wormdb.api.transaction import CollectionOpener
    from wormdb.bql.tree import Filter
    from wormdb.engine.commit.operations import Pending
    from wormdb.engine.ledger import CommitResult, Ledger
    from wormdb.engine.state.view import StoredVersion, View
    from wormdb.storage.pool import Pool

    Names = str | Sequence[str] | None
    Moments = Mapping[str, int] | datetime | str | None

__all__ = ["DatabaseSnapshot", "SnapshotCollection", "collect_states"]

T = TypeVar("T")

ROUNDS_MAX: Final = 100
"""How often states are collected again because one of them has moved on."""


def collect_states(ledgers: Sequence[Ledger], pool: Pool) -> list[View]:
    """The states of several collections at one moment. 2 GETs for each, side by side; 2 more if one moves meanwhile.

    What was the same before and after was so in between. Raises UnavailableError if they never stand still.
    """
    before: list[View] = []
    for _ in range(ROUNDS_MAX):
        found = list(pool.map(_view_of, ledgers)) if len(ledgers) > 1 else [one.view() for one in ledgers]
        if len(ledgers) < 2 or [_mark(view) for view in found] == [_mark(view) for view in before]:
            return found
        before = found
    raise UnavailableError(
        f"a snapshot of {', '.join(one.collection.rstrip('/') for one in ledgers)}",
        reason=f"they changed {ROUNDS_MAX} times while their states were read",
        fix="retry, or name fewer collections",
    )


def _view_of(ledger: Ledger) -> View:
    return ledger.view()


def _mark(view: View) -> tuple[int, frozenset[str]]:
    """What no other state of a collection has: its number, and the transactions that committed on top of it."""
    return view.number, view.committed


@dataclass(frozen=True, slots=True)
class _FixedSession:
    """A collection of a snapshot, as `wormdb.api.access.Session` says: one state, and nothing is written."""

    state: View
    check: Callable[[], None]

    def view(self, at_least: int = 0) -> View:
        self.check()
        if self.state.number < at_least:
            raise InvalidRequestError(
                f"a state of at least log number {at_least}",
                reason=f"the snapshot is of {self.state.number}",
                fix="take another snapshot",
            )
        return self.state

    def read(self, identity: bytes) -> tuple[View, StoredVersion | None]:
        from wormdb.engine.state.view import id_key

        self.check()
        return self.state, self.state.get(id_key(identity))

    def note(self, tree: Filter | None) -> None:  # noqa: ARG002 - nothing is validated later
        self.check()

    def commit(self, pending: Pending) -> CommitResult:
        raise InvalidRequestError(
            f"batch {pending.id} in a snapshot", reason="it is for reading", fix="use db.transaction()"
        )


class SnapshotCollection(SessionCalls[T]):
    """One collection of a snapshot. Its calls are those of `Collection` that read, without a choice of the state."""

    def __init__(self, access: Access[T], as_of: int | datetime | str | None) -> None:
        """Made by `DatabaseSnapshot`."""
        super().__init__(access)
        self._as_of = as_of

    def __repr__(self) -> str:
        return f"SnapshotCollection({self._access.writer.origin!r})"

    def _refuse(self, name: str) -> NoReturn:
        raise InvalidRequestError(
            f"{name} of a snapshot", reason="a snapshot is for reading, at one moment", fix=f"use {name} of db[…]"
        )

    def find_by_id(self, identity: Any, *, raw: bool = False, timeout: float | None = None) -> Any:  # type: ignore[override] # without a choice of the state
        """The document with this id, or None, as `Collection.find_by_id`."""
        if raw:
            return super().find_by_id(identity, as_of=self._as_of, raw=True, timeout=timeout)
        return super().find_by_id(identity, as_of=self._as_of, timeout=timeout)

    def exists(self, identity: Any, *, timeout: float | None = None) -> bool:  # type: ignore[override] # as above
        """Whether there is a document with this id."""
        return super().exists(identity, as_of=self._as_of, timeout=timeout)

    def __iter__(self) -> Iterator[T]:
        """Every document, in order of id."""
        return iter(self.find())

    def count(self, filter: WrittenFilter = None, *, timeout: float | None = None) -> int:  # type: ignore[override] # as above
        """How many documents there are, or match."""
        return super().count(filter, as_of=self._as_of, timeout=timeout)

    def distinct(self, field: str, filter: WrittenFilter = None, *, timeout: float | None = None) -> list[Any]:  # type: ignore[override] # as above
        """The different values of a field, in order."""
        return super().distinct(field, filter, as_of=self._as_of, timeout=timeout)

    def aggregate(self, pipeline: None = None, /, *, filter: WrittenFilter = None, **functions: Any) -> dict[str, Any]:
        """Functions over documents, as `Collection.aggregate`."""
        return super().aggregate(pipeline, filter=filter, as_of=self._as_of, **functions)

    def query(self) -> Query[T]:
        """A query to be built step by step."""
        return super().query() if self._as_of is None else super().query().as_of(self._as_of)

    def _results(self, filter: WrittenFilter, options: Mapping[str, Any], *, is_single: bool = False) -> Results[Any]:
        own = {"as_of": self._as_of, "at_least": None, "stale_ms": None}
        chosen = [name for name, value in own.items() if options.get(name) not in (None, value)]
        if chosen:
            raise InvalidRequestError(
                f"{chosen[0]} in a snapshot", reason="a snapshot is of one moment", fix="leave it out, or use db[…]"
            )
        return super()._results(filter, {**options, "as_of": self._as_of}, is_single=is_single)


class DatabaseSnapshot:
    """One moment of several collections, for reading. A context manager, for one thread at a time."""

    def __init__(self, opener: CollectionOpener, as_of: Moments, folder_of: Callable[[str], str]) -> None:
        """Made by `Database.snapshot`, which then has it collect states. No requests."""
        self._opener = opener
        self._is_open = True
        self._as_of: datetime | str | None = None if isinstance(as_of, Mapping) else as_of
        self._numbers: dict[str, int] = {}
        self._views: dict[str, View] = {}
        if isinstance(as_of, Mapping):
            self._numbers = {folder_of(name): number for name, number in as_of.items()}

    def collect(self, ledgers: Sequence[Ledger]) -> None:
        """Take the states now. As `collect_states`; 1 PUT more for each collection with unfinished transactions."""
        pool = self._opener.pool
        views = collect_states(ledgers, pool)
        for _ in range(ROUNDS_MAX):
            unfinished = [one for one, view in zip(ledgers, views, strict=True) if view.committed]
            if not unfinished or not _finished(unfinished):
                break
            views = collect_states(ledgers, pool)
        alive = (
            one.expiry.alive(view) if view.definition.expiries else view
            for one, view in zip(ledgers, views, strict=True)
        )
        self._views = {one.collection: view for one, view in zip(ledgers, alive, strict=True)}

    @property
    def numbers(self) -> dict[str, int]:
        """By folder the log number of each collection: for `as_of` of another snapshot, of jobs and of Spark.

        Raises InvalidRequestError for a snapshot of a time, UnavailableError if a transaction committed that no entry
        has yet. No requests.
        """
        self._check()
        if self._as_of is not None:
            raise InvalidRequestError("numbers of a snapshot", reason="it is of a time", fix="give that time as as_of")
        if any(view.committed for view in self._views.values()):
            raise UnavailableError(
                "numbers of a snapshot",
                reason="a transaction has committed that could not be finished with these rights",
                fix="take another snapshot later, or with the right to write",
            )
        return dict(self._numbers) or {folder: int(view.number) for folder, view in self._views.items()}

    def __getitem__(self, name: str) -> SnapshotCollection[Document]:
        """A collection at folder `name`."""
        return self._entered(self._opener.named(name))

    @overload
    def model(self, model: str, /, **outer: Any) -> SnapshotCollection[Document]: ...
    @overload
    def model(self, model: type[T], /, **outer: Any) -> SnapshotCollection[T]: ...
    def model(self, model: str | type[T], /, **outer: Any) -> SnapshotCollection[Any]:
        """The collection of a model of the schema, or of a class."""
        return self._entered(self._opener.modeled(model, outer))

    def _entered(self, access: Access[T]) -> SnapshotCollection[T]:
        self._check()
        folder = access.ledger.collection
        if self._as_of is not None:
            return SnapshotCollection(access, self._as_of)
        if folder in self._numbers:
            return SnapshotCollection(access, self._numbers[folder])
        return SnapshotCollection(self._fixed(access), None)

    def _fixed(self, access: Access[T]) -> Access[T]:
        folder = access.ledger.collection
        if folder not in self._views:
            raise InvalidRequestError(
                f"{access.name} in a snapshot",
                reason="the snapshot was taken without it",
                fix=f"name it: db.snapshot([…, {access.name!r}])",
            )
        session = _FixedSession(self._views[folder], self._check)
        return replace(access, home=SessionHome(access.home, self._fixed), session=session)

    def _check(self) -> None:
        if not self._is_open:
            raise ClosedError("snapshot", reason="it is closed", fix="take another one")

    def close(self) -> None:
        """Give up what it holds in memory. May be called twice. No requests."""
        self._is_open = False
        self._views.clear()

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DatabaseSnapshot({', '.join(sorted({*self._numbers, *self._views}))})"


def _finished(ledgers: Iterable[Ledger]) -> bool:
    """Finish the transactions that are decided; whether this process may."""
    try:
        for ledger in ledgers:
            ledger.finish_transactions()
    except PermissionDeniedError:
        return False
    return True
