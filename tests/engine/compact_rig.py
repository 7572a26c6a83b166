"""What the tests of compaction share: all of it in one process, with places where others come in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.engine.compact import folder_of, plan_compaction, write_piece
from wormdb.engine.compact_publish import publish_compaction
from wormdb.engine.shelf import Shelf
from wormdb.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.compact import Compaction, ListName
    from wormdb.engine.compact_plan import Aim
    from wormdb.engine.ledger import Ledger

__all__ = ["LISTS", "compact_list", "compact_lists", "planned"]

LISTS: tuple[ListName, ...] = ("blocks", "history")


def planned(ledger: Ledger, where: ListName, aim: Aim) -> Compaction | None:
    """What a compaction of one list would do."""
    return plan_compaction(ledger._register.read(), shelf_of(ledger, where), where, aim)


def shelf_of(ledger: Ledger, where: ListName) -> Shelf:
    """One that knows nothing."""
    register = ledger._register
    return Shelf(register.store, ledger._around.pool, folder_of(register.paths, where))


def compact_list(
    ledger: Ledger, where: ListName, aim: Aim, between: Callable[[], object] = lambda: None
) -> tuple[int, int]:
    """Compact one list: how many pieces were written and how many of them count; `between` comes before each step."""
    plan = planned(ledger, where, aim)
    if plan is None:
        return 0, 0
    shelf, writer = shelf_of(ledger, where), ledger._forwarder.writer
    written = []
    for piece in plan.selection.pieces:
        between()
        written.append(write_piece(shelf, writer, plan.shape, piece))
    between()
    _, taken = publish_compaction(ledger._register, shelf, writer, plan, written)
    return len(written), taken


def compact_lists(ledger: Ledger, aim: Aim, between: Callable[[], object] = lambda: None) -> int:
    """Compact both lists; how many pieces were written. What others wrote again meanwhile is left to them."""
    pieces = 0
    for where in LISTS:
        try:
            pieces += compact_list(ledger, where, aim, between)[0]
        except ConflictError:
            continue
    return pieces
