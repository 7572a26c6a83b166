"""A state that only history tells, as a source of queries: every document of then is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.engine.columns.scan import portions_of
from wormdb.engine.state.upgrade import NO_UPGRADES, Upgrades
from wormdb.query.plan import ALL_IDS
from wormdb.query.sources.source import Entries, Facts, VectorFacts
from wormdb.query.sources.texts import find_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.engine.blocks.portion import Portion
    from wormdb.engine.history.read import History
    from wormdb.engine.state.moments import AsOf
    from wormdb.engine.state.view import StoredVersion, View
    from wormdb.engine.tree.entries import Range

__all__ = ["PastSource"]


@dataclass(frozen=True, slots=True)
class PastSource:
    """A moment of history. It has neither columns nor indexes; costs what reads of history cost."""

    view: View
    """The present, which knows of the past."""
    history: History
    moment: AsOf
    upgrades: Upgrades = NO_UPGRADES
    """The mappings by which documents are shown; without any they are as they were written."""

    @property
    def facts(self) -> Facts:
        """As `QuerySource`: that there were about as many documents as there are now."""
        root = None if self.view.place is None else self.view.place.root
        # An index tells by which distance vectors are compared, also where it cannot be read.
        vectors = _vectors(self.view)
        texts, blocks = find_texts(self.view, is_usable=False), 1 if root is None else max(1, len(root.history))
        return Facts(rows=self.view.count, blocks=blocks, vectors=vectors, texts=texts)

    def scan(
        self,
        names: Sequence[str],
        *,
        span: Range = ALL_IDS,
        bounds: Mapping[str, Range] | None = None,  # noqa: ARG002 - history has no zone maps
        in_order: bool = True,  # noqa: ARG002 - it always is
        rows: int | None = None,  # noqa: ARG002 - nothing is read ahead
    ) -> Iterator[Portion]:
        """As `QuerySource`; costs as `History.scan`."""
        found = self.history.scan(self.moment, span.low, span.high)
        return portions_of(self.view, (self.upgrades.held(held, held.rev) for _, held in found), names)

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        """As `QuerySource`; costs as `History.at` for each."""
        found = {key: self.history.at(key, self.moment) for key in keys}
        return {
            key: self.upgrades.held(held, held.rev)
            for key, held in found.items()
            if held is not None and held.document is not None
        }

    def entries(self, name: str) -> Entries:
        """As `QuerySource`; there are none."""
        raise KeyError(name)


def _vectors(view: View) -> tuple[VectorFacts, ...]:
    if not view.definition.indexes.has_lists:
        return ()
    from wormdb.query.sources.vectors import find_vector_facts  # few collections have lists

    return find_vector_facts(view)
