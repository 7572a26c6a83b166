"""When documents of a collection end by themselves: a rule over one document, without time of its own.

A rule names a date in documents and how long they stay after it. Whether the time of a document is over is asked with
the store's time, by readers (who do not see it from then on) and by writers (who remove it before they go on).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from wormdb.format import json
from wormdb.format.change import LoggedChange
from wormdb.format.event import ExpirySet
from wormdb.format.path import TRAVERSED, parse_path, resolve
from wormdb.format.project import project
from wormdb.format.root import ExpiryEntry
from wormdb.format.wrappers import milliseconds
from wormdb.system.types import WriteId

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.engine.state.moments import AsOf
    from wormdb.engine.state.view import StoredVersion
    from wormdb.schema.model import Model
    from wormdb.system.types import LogNumber

__all__ = ["ExpiryRule", "after_expiry", "end_of", "ending_id", "expiry_events", "rule_at", "rule_of"]

ENTRIES_MAX: Final = 64
"""Rules that a root remembers for states of the past; the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class ExpiryRule:
    """A document ends `after_ms` behind the date at `path`: the earliest, if an array has several. Others stay."""

    path: str
    after_ms: int

    def dues(self, documents: Sequence[bytes]) -> list[int | None]:
        """When each document ends, in ms since 1970; None if it does not. No requests."""
        (values,) = project(documents, [self.path], name="document")
        return [self._due(value, document) for value, document in zip(values, documents, strict=True)]

    def _due(self, value: object, document: bytes) -> int | None:
        if type(value) is datetime:
            return milliseconds(value) + self.after_ms
        if value is not TRAVERSED and type(value) is not list:
            return None
        found = resolve(json.decode_document(document, name="document"), parse_path(self.path))
        dates = [milliseconds(one) for one in found if type(one) is datetime]
        return min(dates) + self.after_ms if dates else None

    def is_over(self, document: bytes, now_ms: int) -> bool:
        """Whether the time of a document is over. No requests."""
        (due,) = self.dues([document])
        return due is not None and due <= now_ms


def after_expiry(entries: tuple[ExpiryEntry, ...], event: ExpirySet, number: LogNumber) -> tuple[ExpiryEntry, ...]:
    """What an event makes of what was said before. No requests."""
    return (*entries, ExpiryEntry(number=number, rule=event))[-ENTRIES_MAX:]


def expiry_events(before: Model | None, model: Model, since_ms: int) -> tuple[ExpirySet, ...]:
    """What follows if one model takes the place of another: nothing, if both say the same. No requests."""
    wanted = model.expiry
    if wanted == (None if before is None else before.expiry):
        return ()
    if wanted is None:
        return (ExpirySet(since_ms=since_ms),)
    return (ExpirySet(path=wanted[0], after_ms=wanted[1], since_ms=since_ms),)


def rule_of(entries: Sequence[ExpiryEntry]) -> ExpiryRule | None:
    """The rule in force; None if documents stay. No requests."""
    last = entries[-1].rule if entries else None
    return None if last is None or last.path is None else ExpiryRule(last.path, last.after_ms)


def rule_at(entries: Sequence[ExpiryEntry], as_of: AsOf) -> ExpiryRule | None:
    """The rule that was in force at a moment; None if documents stayed then. No requests."""
    if not as_of.is_time:
        return rule_of([one for one in entries if one.number <= as_of.bound])
    return rule_of([one for one in entries if one.number <= as_of.floor or one.rule.since_ms <= as_of.bound])


def ending_id(collection: str, number: int, keys: Iterable[bytes]) -> WriteId:
    """The id of the batch of entry `number` that ends documents which other batches met: the same for all writers."""
    named = sha256(b"\n".join([collection.encode(), b"%d" % number, *sorted(keys)]))
    return WriteId(named.hexdigest()[:32])


def end_of(held: StoredVersion) -> LoggedChange:
    """The change that removes a document whose time is over. No requests."""
    return LoggedChange(id=held.id, seq=held.seq + 1, before=held.document, after=None, op="expire")
