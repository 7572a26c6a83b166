"""Remove a collection, at once or in two steps, for `Database.drop` and for servers; or give it another name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wormdb.errors import NotFoundError, RemovedError
from wormdb.maintenance.removal import DropResult, check_barrier, is_absent, purge, remove, survey

if TYPE_CHECKING:
    from wormdb.api.calls import Author
    from wormdb.api.connection import Ledgers
    from wormdb.engine.state.view import View
    from wormdb.maintenance.renaming import RenameResult
    from wormdb.system.clock import Clock

__all__ = ["Removal", "rename_collection"]


@dataclass(frozen=True, slots=True)
class Removal:
    """What `Database.removal` gives: one collection, by its folder."""

    _folder: str
    _ledgers: Ledgers
    _by: Author
    _clock: Clock

    def is_removed(self) -> bool:
        """Whether it was removed and not purged yet: it has no documents, and takes none. As a read: 1 GET, or 2."""
        return self._view().definition.closed is not None

    def exists(self) -> bool:
        """Whether it was ever written to, or since it was purged; True while it is removed. As a read: 1 GET, or 2."""
        return not is_absent(self._view())

    def remove(self) -> int:
        """Remove it by an entry of the log; the entry's number. Nothing is deleted yet. 1 GET and 1 PUT.

        From then on reads find no documents, and every write is refused with RemovedError, in every process. Raises
        NotFoundError if there is none, RemovedError if it was removed before, UnavailableError, OutcomeUnknownError.
        """
        return self._remove(self._view())

    def _remove(self, view: View) -> int:
        return remove(self._ledgers.of(self._folder), view, actor=self._by.actor, meta=self._by.meta)

    def _view(self) -> View:
        return self._ledgers.of(self._folder).view()

    def check_barrier(self) -> None:
        """Raise BarrierError while other processes may not have seen that it was removed.

        They have when a minute is over and every live node shows the entry. 3 GETs, 1 HEAD, 1 LIST, 1 GET for each
        node. Raises InvalidRequestError if it was not removed.
        """
        check_barrier(self._ledgers.site(self._folder), self._view(), self._clock)

    def purge(self, *, wait: bool = False) -> DropResult:
        """Delete all that it had; its name is free then. See `Database.drop` for costs and `wait`.

        Raises InvalidRequestError if it was not removed, UnavailableError, OutcomeUnknownError.
        """
        return self._purge(self._view(), wait=wait)

    def _purge(self, view: View, *, wait: bool) -> DropResult:
        try:
            return purge(self._ledgers.site(self._folder), view, self._clock if wait else None)
        finally:
            self._ledgers.forget(self._folder)

    def survey(self) -> DropResult:
        """What dropping it would delete, readable files not counted; nothing is written.

        2 GETs and 1 LIST for each 1,000 objects. Raises NotFoundError.
        """
        return survey(self._ledgers.site(self._folder), self._view())

    def drop(self, *, missing_ok: bool = False, wait: bool = False) -> DropResult | None:
        """Both steps, or what is left of them: documents, indexes, history, blobs and readable files go.

        The model stays in the schema, and so do collections in folders inside this one, and files of other programs.
        Numbers go on: what is written under the name later has greater ones. The last entries of the log stay for 90
        seconds, until garbage is collected; with `wait` the call waits for that before it deletes anything, so that
        they go too and readers in other processes are spared a SnapshotTooOldError.

        Costs and raises as `Database.drop`. One that broke off is gone on with by the next one, or by a node.
        """
        view = self._view()
        documents = view.count
        try:
            self._remove(view)
        except RemovedError:
            pass  # one that broke off is gone on with
        except NotFoundError:
            if missing_ok:
                return None
            raise
        view = self._ledgers.of(self._folder).known()
        if view.definition.closed is None:
            view = self._view()
        if view.definition.closed is None:
            return DropResult(self._folder, view.number, documents)  # another process has ended it by now
        return replace(self._purge(view, wait=wait), documents=documents)


def rename_collection(ledgers: Ledgers, by: Author, names: tuple[str, str], wait_by: Clock | None) -> RenameResult:
    """Give the collection in one folder another; the clock is for waiting until all of the old one can go.

    Costs and raises as `Database.rename`.
    """
    from wormdb.maintenance.renaming import Renaming

    old, new = names
    work = Renaming(
        ledgers.site(old), ledgers.site(new), ledgers.of(old), ledgers.of(new), actor=by.actor, meta=by.meta
    )
    try:
        purge(ledgers.site(old), work.run(), wait_by)
    finally:
        ledgers.forget(old)
        ledgers.forget(new)
    return work.result
