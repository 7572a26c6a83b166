"""One state of one collection for all tasks of a Spark job: pinned by the driver, opened again by each worker."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from wormdb.api.history import parse_as_of
from wormdb.engine.columns.scan import portions_of, scan_columns
from wormdb.engine.state.moments import AsOf, view_at
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.engine.blocks.portion import Portion
    from wormdb.engine.commit.pinned import PinnedView
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.view import View
    from wormdb.engine.tree.entries import Range
    from wormdb.jobs.place import Where
    from wormdb.schema.model import Model

__all__ = ["PinnedState"]


@dataclass(frozen=True, slots=True)
class PinnedState:
    """A value that Spark pickles; every process that holds it reads the same documents."""

    where: Where
    pinned: PinnedView
    as_of: AsOf | None = None

    @classmethod
    def of(cls, where: Where, as_of: str | None = None) -> PinnedState:
        """The state now, or as of a log number or a time. 2 GETs, 1 for the schema, and 1 for each entry of the tail.

        Raises NotFoundError, InvalidRequestError and SnapshotTooOldError.
        """
        access = where.access()
        view = access.present()
        moment = None
        if as_of is not None:
            moment = parse_as_of(int(as_of) if as_of.isdecimal() else as_of, access.clock.now_ms())
            if view_at(view, moment) is None:
                access.history(view).scan(moment, b"", b"")  # raises now what tasks would
        state = cls(where, access.ledger.pin(view), moment)
        if not view.number:
            _check_there(where)
        return state

    def newest(self) -> View:
        """What was newest when it was pinned, also if an earlier moment is read. Costs as `Ledger.unpin`, once."""
        return _opened(self.where, self.pinned)[1]

    def view(self) -> View | None:
        """The view that is read; None if only history knows it. Costs as `newest`."""
        newest = self.newest()
        return newest if self.as_of is None else view_at(newest, self.as_of)

    @property
    def ledger(self) -> Ledger:
        """The collection's."""
        return _opened(self.where, self.pinned)[0]

    def model(self) -> Model | None:
        """What the documents are declared to be; the order of its fields is that of the published schema."""
        declared = self.where.access().writer.model
        return declared or self.newest().definition.model

    def portions(
        self, names: Sequence[str], low: bytes, high: bytes | None, bounds: Mapping[str, Range]
    ) -> Iterator[Portion]:
        """Columns of the documents with a key in a range; costs as `scan_columns`, of the past as a scan of history."""
        view = self.view()
        if view is not None:
            return scan_columns(view, names, low=low, high=high, bounds=bounds)
        assert self.as_of is not None
        past = self.ledger.shown_history(self.newest()).scan(self.as_of, low, high)
        return portions_of(self.newest(), (held for _, held in past), names)

    def rows(self, names: Sequence[str], keys: Sequence[bytes]) -> Iterator[Portion]:
        """The same of the documents with these keys, in their order.

        Costs as `get_many`, of the past as `History.at` for each.
        """
        view = self.view()
        if view is not None:
            there = view.get_many(keys)
            return portions_of(view, (there[key] for key in keys if key in there), names)
        assert self.as_of is not None
        past = self.ledger.shown_history(self.newest())
        found = (past.at(key, self.as_of) for key in keys)
        return portions_of(self.newest(), (held for held in found if held is not None), names)


@lru_cache(maxsize=4)
def _opened(where: Where, pinned: PinnedView) -> tuple[Ledger, View]:
    ledger = where.access().ledger
    return ledger, ledger.unpin(pinned)


def _check_there(where: Where) -> None:
    """A collection of a schema may be empty; a name that nothing was ever written to is more likely a mistake."""
    if where.model is None:
        raise InvalidRequestError(
            f"collection {where.name!r} of {where.open().url}",
            reason="nothing was ever written there",
            fix="check url and collection, or give the option model for one of the schema",
        )
