"""What a transaction read of one collection, and the guard that refuses its batch if that is no longer so.

A document that was read by its id, or looked for and not found, must be at the version that was seen. A filter must
still find what it found: it does while no document changed that matched it before or matches it after the change.
That is more than is needed where a change leaves what was read alone, and never less.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wormdb.engine.state.view import View, id_key
from wormdb.errors import TransactionConflictError
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NoReturn

    from wormdb.bql.tree import Filter
    from wormdb.engine.state.follower import LogFollower
    from wormdb.engine.state.view import DocumentChange
    from wormdb.format.kinds import Document

__all__ = ["ReadGuard", "ReadSet"]


@dataclass(frozen=True, slots=True)
class ReadSet:
    """What was read of one state of a collection."""

    seen: View
    """The state, without the reader's own changes."""
    ids: Mapping[bytes, int] = field(default_factory=dict)
    """Ids as JSON, each with the `seq` of what was found there, deleted or not; 0 if nothing ever was."""
    filters: tuple[Filter, ...] = ()
    """What was asked for; the one that matches all documents, if all were read."""
    follower: LogFollower | None = field(default=None, compare=False)
    """What the log says since; None if only the tail tells."""

    @property
    def number(self) -> int:
        """The log number of the state."""
        return self.seen.number

    def filter_texts(self) -> tuple[str, ...]:
        """The filters as canonical JSON, each once, in order."""
        return tuple(sorted({tree.text for tree in self.filters}))


@dataclass(frozen=True, slots=True)
class ReadGuard:
    """Refuses a batch of a transaction if what it read has changed since."""

    collection: str
    """For messages."""
    reads: ReadSet

    def check(self, view: View) -> None:
        """See `Guard`; raises TransactionConflictError.

        Batches that come before this one in the same entry count. No requests, unless neither the tail nor the entries
        that were kept reach back to what was read: then documents are looked up by id, and a filter counts as changed.
        """
        reads = self.reads
        if not reads.ids and not reads.filters:
            return
        seen = reads.seen
        if view.definition.versions != seen.definition.versions:
            self._refuse("the model has another version since it was read")
        if view.is_removed_since(seen.number):
            self._refuse("the collection was removed since it was read")
        changes = _changes_between(seen, view, reads.follower)
        if changes is None:
            self._check_by_look_up(view)
            return
        # What was certain to come when it was read, because its transaction had been decided, is not news.
        certain = {(id_key(change.id), change.seq) for change in seen.top}
        news = [change for change in changes if (change.key, change.seq) not in certain]
        if not news:
            return
        keys = {id_key(identity): identity for identity in reads.ids}
        matchers = self._matchers()
        for change in news:
            if change.key in keys:
                self._refuse("it changed since it was read", keys[change.key], change.actor)
            for image in (change.before, change.after):
                document = None if image is None or not matchers else json.decode_document(image, name="document")
                if document is not None and any(matches(document) for matches in matchers):
                    self._refuse(
                        "it changed, and a filter that was read finds it", json.encode(document["_id"]), change.actor
                    )

    def _check_by_look_up(self, view: View) -> None:
        if self.reads.filters:
            self._refuse("the log no longer tells what changed since a filter was read")
        keys = {id_key(identity): identity for identity in self.reads.ids}
        found = view.get_many(sorted(keys))
        for key, identity in keys.items():
            held = found.get(key)
            if (0 if held is None else held.seq) != self.reads.ids[identity]:
                self._refuse("it changed since it was read", identity)

    def _matchers(self) -> list[Callable[[Document], bool]]:
        if not self.reads.filters:
            return []
        from wormdb.bql.match import compile_filter  # only transactions that read by filters need it

        return [compile_filter(tree) for tree in self.reads.filters]

    def _refuse(self, reason: str, identity: bytes | None = None, by: str | None = None) -> NoReturn:
        named = "" if identity is None else f"document {json.decode(identity, name='document id')!r} in "
        raise TransactionConflictError(
            f"transaction: {named}{self.collection}",
            reason=reason if by is None else f"{reason}, by {by}",
            collection=self.collection,
            key=None if identity is None else identity.decode(),
            by=by,
        )


def _changes_between(seen: View, view: View, follower: LogFollower | None) -> list[DocumentChange] | None:
    """What changed after one state until a later one; None if that is not known. No requests."""
    if view.number < seen.number:
        return None
    found = view.changes_since(seen.number)
    if found is not None or follower is None:
        return found
    above: list[DocumentChange] = []  # batches of the same entry, and what lies on top
    while isinstance(view.base, View):
        above = [*view.overlay.changes(view.base.number, view.number), *above]
        view = view.base
    above = [*view.overlay.changes(view.number, view.number), *above]
    since = follower.changes(seen.number, view.number)
    return None if since is None else [*since, *above]
