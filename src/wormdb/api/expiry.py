"""When documents of a collection without a model end by themselves, as users say it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from wormdb.errors import InvalidRequestError
from wormdb.format.event import ExpirySet
from wormdb.format.path import parse_path
from wormdb.schema.model import duration_seconds

if TYPE_CHECKING:
    from wormdb.api.access import Access
    from wormdb.engine.state.view import View

__all__ = ["set_expiry"]


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
