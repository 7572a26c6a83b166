"""When documents of a collection without a model end by themselves, as users say it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.state.expiry import ExpiryRule
from wormdb.errors import InvalidRequestError
from wormdb.format.event import ExpirySet
from wormdb.format.path import parse_path
from wormdb.schema.model import duration_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.api.access import Access
    from wormdb.engine.state.view import View

__all__ = ["IndexedExpiry", "set_expiry"]

_SECONDS_MAX: Final = 2**31 - 1
"""As in MongoDB: 68 years."""


@dataclass(frozen=True, slots=True)
class _UndeclaredGuard:
    """Refuses it for a collection whose model says when documents end."""

    name: str

    def check(self, view: View) -> None:
        """See `Guard`; raises InvalidRequestError. No requests."""
        model = view.definition.model
        if model is not None and model.expiry is not None:
            raise InvalidRequestError(
                f"expire of {self.name}",
                reason=f"the model {model.name} says when its documents end",
                fix="change ttl or expireAt of the model, and apply the schema",
            )


@dataclass(frozen=True, slots=True)
class IndexedExpiry:
    """When documents end, said together with an index as MongoDB has it: by one date, and one rule a collection."""

    access: Access[Any]
    rule: ExpiryRule
    is_in_force: bool

    @classmethod
    def of(cls, access: Access[Any], fields: Sequence[str], seconds: object) -> IndexedExpiry:
        """What is asked for; raises InvalidRequestError if it cannot be, before anything is written. 1 GET."""
        what = f"create_index({', '.join(fields)!r:.60}, expireAfterSeconds={seconds!r:.40}) of {access.name}"
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 <= float(seconds) <= _SECONDS_MAX:  # type: ignore[arg-type]  # a number by then
            raise InvalidRequestError(
                what, reason=f"it must be a number from 0 to {_SECONDS_MAX:,}", fix="write 3600 for an hour"
            )
        if len(fields) != 1 or fields[0] in ("id", "_id"):
            raise InvalidRequestError(what, reason="documents end by one date", fix="name one field with a date")
        rule = ExpiryRule(fields[0], int(float(seconds) * 1000))  # type: ignore[arg-type]  # as above
        view = access.present()
        there = view.definition.expiry
        if there != rule:
            _UndeclaredGuard(access.name).check(view)
        if there is not None and there != rule:
            raise InvalidRequestError(
                what,
                reason=f"documents end {there.after_ms / 1000:,g} s after {there.path} already, and one rule counts",
                fix=f"collection.expire({rule.path!r}, after=timedelta(seconds={seconds})) takes its place",
            )
        return cls(access, rule, there is not None)

    def commit(self) -> None:
        """Have documents end by it; nothing if they do. 1 PUT."""
        if not self.is_in_force:
            set_expiry(self.access, self.rule.path, timedelta(milliseconds=self.rule.after_ms))


def set_expiry(access: Access[Any], field: str | None, after: str | timedelta | None) -> int:
    """Commit when documents end; the log number. 1 PUT; raises as `Collection.expire`."""
    what = f"expire({field!r:.60}, {after!r:.40}) of {access.name}"
    if field is None and after is not None:
        raise InvalidRequestError(
            what, reason="no field says from when on", fix='name a field with a date: "createdAt"'
        )
    if field is not None and not isinstance(field, str):
        raise InvalidRequestError(what, reason="a field must be a string", fix='name a field with a date: "createdAt"')
    if field is not None:
        parse_path(field)
    event = ExpirySet(path=field, after_ms=_milliseconds(after, what), since_ms=access.clock.now_ms())
    return access.commit_event(event, access.by(None, None), _UndeclaredGuard(access.name)).number


def _milliseconds(after: str | timedelta | None, what: str) -> int:
    if after is None:
        return 0
    found = after.total_seconds() if isinstance(after, timedelta) else None
    if isinstance(after, str):
        found = duration_seconds(after)
    if found is None or found < 0:
        raise InvalidRequestError(
            what, reason="it must be a time that passes", fix='write a number and one of s m h d w, such as "7d"'
        )
    return int(found * 1000)
