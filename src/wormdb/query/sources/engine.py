"""The engine's view of a collection as a source of queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.engine.columns.scan import scan_columns
from wormdb.query.engine_facts import known_of
from wormdb.query.plan import ALL_IDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.engine.blocks.portion import Portion
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.view import Held, View
    from wormdb.engine.tree.entries import Range
    from wormdb.query.engine_facts import Known
    from wormdb.query.facts import Facts
    from wormdb.query.source import Entries

__all__ = ["EngineSource"]


@dataclass(frozen=True, slots=True)
class EngineSource:
    """One view of one ledger. Costs what the view's own reads cost; what is learned of its root is kept."""

    view: View
    ledger: Ledger
    _known: Known

    @classmethod
    def of(cls, view: View, ledger: Ledger) -> EngineSource:
        """The source of a view of this ledger. No requests."""
        return cls(view, ledger, known_of(view))

    @property
    def facts(self) -> Facts:
        """As `Source`. Raises CorruptionError for a damaged root."""
        return self._known.facts(self.view)

    def scan(
        self,
        names: Sequence[str],
        *,
        span: Range = ALL_IDS,
        bounds: Mapping[str, Range] | None = None,
        in_order: bool = True,
        rows: int | None = None,
    ) -> Iterator[Portion]:
        """As `Source`; costs as `scan_columns`."""
        return scan_columns(self.view, names, low=span.low, high=span.high, bounds=bounds, in_order=in_order, rows=rows)

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, Held]:
        """As `Source`; costs as `View.get_many`."""
        return {key: held for key, held in self.view.get_many(keys).items() if held.document is not None}

    def entries(self, name: str) -> Entries:
        """As `Source`. If blocks were attached since the root, they are read: 1 GET each."""
        found = self.facts.find_index(name)
        assert found is not None, f"the facts have no index {name}"
        return self._known.reader(self.view, found.index, self.ledger)

    def count_all(self) -> int:
        """As `Counted`."""
        return self.view.count
