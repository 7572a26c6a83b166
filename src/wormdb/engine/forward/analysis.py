"""Name in the root what was found out about the values of fields: one swap, while others swap it too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.state.successor import following_root
from wormdb.errors import ConflictError
from wormdb.format.event import JobAttached
from wormdb.format.field_statistics import decode_field_statistics, encode_field_statistics, merged
from wormdb.system.types import Misc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.root import Register, RootState
    from wormdb.engine.state.view import View
    from wormdb.format.field_statistics import FieldStatistics
    from wormdb.format.root import Root

__all__ = ["changes_through", "fitting_statistics", "publish_statistics"]

CHANGED_SHARE_MAX: Final = 0.5
"""Share of the documents that statistics were taken of: when more have changed since, they are not used."""


def changes_through(view: View) -> int:
    """What `Root.changes` will be, about, when a view is forwarded. No requests."""
    events = [event for entry in view.overlay.entries(view.number) for event in entry.events]
    attached = sum(block.rows for event in events if isinstance(event, JobAttached) for block in event.blocks)
    return (0 if view.place is None else view.place.root.changes) + view.overlay.size + attached


def fitting_statistics(view: View, fields: Sequence[FieldStatistics]) -> dict[str, FieldStatistics]:
    """By path those of some fields that still say something about a view. No requests.

    Not those of before a mapping, which changes documents without changing their revisions.
    """
    if not fields:
        return {}
    changes, shaped = changes_through(view), view.definition.upgrades.newest
    return {
        field.path: field
        for field in fields
        if field.number >= shaped and changes - field.changes < field.rows * CHANGED_SHARE_MAX
    }


def publish_statistics(
    register: Register, writer: ObjectWriter, incarnation: str, fields: Sequence[FieldStatistics], *, is_whole: bool
) -> None:
    """Keep statistics in the root of an incarnation; of each field those of the newest state stay.

    1 GET and 1 PUT; again if another's root came first. Raises ConflictError if the collection was made anew,
    UnavailableError, OutcomeUnknownError.
    """

    def change(current: RootState) -> Root | None:
        root = current.root
        if root is None or root.collection != incarnation:
            raise ConflictError(f"statistics of {register.collection}", reason="the collection was made anew meanwhile")
        known = decode_field_statistics(root.statistics)
        # Those of before an erasure may name values of the document.
        fresh = [field for field in fields if field.number >= root.erased_through]
        if len(fresh) < len(fields):
            return None
        data = encode_field_statistics(merged(known, fresh, is_whole=is_whole))
        if data == root.statistics:
            return None
        writer.misc.observe(Misc(root.misc))
        changed = msgspec.structs.replace(root, statistics=data)
        return following_root(current, changed, (), writer, register.paths)

    register.update(change, what="statistics")
