"""How much of history a collection keeps, as users say it without a model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from wormdb.errors import InvalidRequestError
from wormdb.format.event import HistoryRetained
from wormdb.schema.model import duration_seconds
from wormdb.settings import INT_MAX

if TYPE_CHECKING:
    from wormdb.api.access import Access
    from wormdb.engine.state.view import View

__all__ = ["retention_of", "set_retention"]


@dataclass(frozen=True, slots=True)
class _RetentionGuard:
    """Refuses it for a collection whose model says it, or has files of what would go."""

    name: str
    is_limited: bool

    def check(self, view: View) -> None:
        """See `Guard`; raises InvalidRequestError. No requests."""
        model = view.definition.model
        if model is None:
            return
        if model.history.is_limited:
            raise InvalidRequestError(
                f"retain of {self.name}",
                reason=f"the model {model.name} says how much of history is kept",
                fix="change history of the model, and apply the schema",
            )
        has_files = model.files or view.definition.keeps_files
        if self.is_limited and has_files and (model.oplog or model.snapshots.enabled):
            kept = "oplog" if model.oplog else "snapshots"
            raise InvalidRequestError(
                f"retain of {self.name}",
                reason=f"{kept} of the model {model.name} keeps readable files of versions that would go",
                fix=f"remove {kept} from the model, and apply the schema",
            )


def retention_of(access: Access[Any]) -> dict[str, Any]:
    """What is in force. Costs as a read."""
    rule = access.view().definition.retention
    limits = {} if rule is None else {"keep": rule.keep, "versions": rule.versions}
    return {name: value for name, value in limits.items() if value is not None}


def set_retention(access: Access[Any], keep: str | timedelta | None, versions: int | None) -> int:
    """Commit how much of history is kept; the log number. 1 PUT; raises as `Collection.retain`."""
    what = f"retain(keep={keep!r:.40}, versions={versions!r:.40}) of {access.name}"
    is_number = isinstance(versions, int) and not isinstance(versions, bool) and 1 <= versions <= INT_MAX
    if versions is not None and not is_number:
        raise InvalidRequestError(what, reason="versions must be a number from 1 on", fix="write one, such as 50")
    event = HistoryRetained(keep=_written(keep, what), versions=versions)
    is_limited = event.keep is not None or event.versions is not None
    if access.writer.first_events(access.known()):
        access.home.publish()  # a new collection of a model: its definition comes with it
    return access.commit((), access.by(None, None), event, guard=_RetentionGuard(access.name, is_limited)).number


def _written(keep: str | timedelta | None, what: str) -> str | None:
    """A duration as models write it."""
    text = f"{int(keep.total_seconds())}s" if isinstance(keep, timedelta) else keep
    if text is None:
        return None
    given: object = text
    seconds = duration_seconds(given) if isinstance(given, str) else None
    if seconds is None or seconds <= 0:
        raise InvalidRequestError(
            what, reason="keep must be a time that passes", fix='write a number and one of s m h d w, such as "30d"'
        )
    return text
