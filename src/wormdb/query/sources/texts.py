"""What a planner knows of indexes of words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.query.sources.source import TextFacts

if TYPE_CHECKING:
    from wormdb.engine.state.view import View

__all__ = ["find_texts"]

_TEXT = "text"


def find_texts(view: View, *, is_usable: bool) -> tuple[TextFacts, ...]:
    """The text indexes of a view by name; with `is_usable` those that are ready may answer. No requests."""
    statuses = [status for status in view.definition.indexes if status.index.kind == _TEXT]
    if not statuses:
        return ()
    from wormdb.engine.lists.definition import kind_for  # most collections have none
    from wormdb.engine.lists.text_kind import TextKind

    found = []
    for status in sorted(statuses, key=lambda status: status.index.name):
        kind = kind_for(status.index)
        if status.state != "dropped" and isinstance(kind, TextKind):
            found.append(
                TextFacts(status.index.name, kind.search_fields, is_ready=is_usable and status.state == "ready")
            )
    return tuple(found)
