"""States of a ledger that most processes never ask for: sent to others, of the past, and the log itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.commit.pinned import PinnedView
    from wormdb.engine.feed import Feed, FeedParts
    from wormdb.engine.history.read import History
    from wormdb.engine.index.bases import BaseShelf
    from wormdb.engine.log.entries import Log
    from wormdb.engine.log.root import Register
    from wormdb.engine.state.view import View
    from wormdb.system.types import LogNumber

__all__ = ["LedgerStates"]


class LedgerStates:
    """A part of `Ledger`. What it needs is imported by the call that needs it."""

    collection: str
    shelf: Shelf
    _log: Log
    _register: Register
    _load: BaseShelf
    _past: Shelf

    def view(self) -> View:
        """As `Ledger.view`."""
        raise NotImplementedError

    def store_ms(self) -> int:
        """As `Ledger.store_ms`."""
        raise NotImplementedError

    def pin(self, view: View) -> PinnedView:
        """The state of a view of this collection as a value that can be sent to another process. No requests."""
        from wormdb.engine.commit.pinned import pin

        return pin(view, self.collection)

    def unpin(self, pinned: PinnedView) -> View:
        """The view that was pinned, here or elsewhere, whatever was committed since. Costs as `unpin`."""
        from wormdb.engine.commit.pinned import unpin

        return unpin(pinned, self._load, self._log, self._register)

    def history(self, view: View) -> History:
        """All that is stored of the past of a view of this ledger; what is read of blocks of history is kept.

        No requests.
        """
        from wormdb.engine.history.read import History

        return History(view.bare, past=self._past, data=self.shelf)

    def shown_history(self, view: View) -> History:
        """What readers are shown of it now: as much as the model keeps, by the store's time. No requests."""
        from wormdb.engine.history.read import History
        from wormdb.engine.history.retention import RetentionBound

        rule = view.definition.retention
        bound = None if rule is None else RetentionBound(rule, self.store_ms())
        return History(view.bare, past=self._past, data=self.shelf, bound=bound)

    def feed(self, after: LogNumber, digest: bytes = b"") -> Feed:
        """The log after the entry of a number, whose hash begins with `digest`, entry by entry. No requests yet."""
        from wormdb.engine.feed import Feed, LedgerPast

        past = LedgerPast(self._load, lambda: self.history(self.view()))
        return Feed(self._log, self._register, after, past, digest)

    def feed_parts(self) -> FeedParts:
        """The log by numbers and places, to be shared among processes. No requests yet."""
        from wormdb.engine.feed import FeedParts

        return FeedParts(self._log, self._register, self.shelf, lambda: self.history(self.view()))
