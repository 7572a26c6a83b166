"""A root made again from the whole log, in place of one that cannot be read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wormdb.engine.ledger import Ledger
from wormdb.errors import CorruptionError
from wormdb.storage.store import OCTETS, IfAbsent, IfMatch, Precondition, Probe, PutResult, Store
from wormdb.storage.wrapped import WrappedStore

if TYPE_CHECKING:
    from wormdb.engine.log.root import RootState
    from wormdb.maintenance.audit.chain import Chain
    from wormdb.maintenance.site import Site

__all__ = ["rebuild_root"]


def rebuild_root(site: Site, state: RootState, chain: Chain) -> None:
    """Forward the whole log as if there were no root, and put the new one in the place of the damaged one.

    What the old one named stays behind as objects that nobody names. Costs as forwarding does. Raises CorruptionError
    if the log is not complete, ConflictError if another root came meanwhile.
    """
    if not chain.is_whole:
        raise CorruptionError(
            f"the root {site.paths.root}",
            reason="it cannot be made again: the log does not reach back to entry 1, or is damaged itself",
            fix="put the newest root back from a backup",
            key=site.paths.root,
        )
    store = _WithoutRoot(site.store, site.paths.root, state)
    Ledger(site.collection, replace(site.around, store=store, background=None)).forward()


class _WithoutRoot(WrappedStore):
    """A store that shows no root until one is put, which replaces the damaged one."""

    def __init__(self, inner: Store, key: str, state: RootState) -> None:
        super().__init__(inner)
        self._key = key
        self._damaged = state.version

    def probe(self, key: str) -> Probe:
        try:
            found = self._inner.probe(key)
        except CorruptionError:
            if key != self._key or self._inner.head(key).version != self._damaged:
                raise
            return Probe(None, None)  # too long to be read
        hidden = key == self._key and found.found is not None and found.found.version == self._damaged
        return Probe(None, found.time) if hidden else found

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        if key == self._key and isinstance(precondition, IfAbsent) and self._damaged is not None:
            precondition = IfMatch(self._damaged)
        return self._inner.put(key, body, precondition, content_type=content_type)
