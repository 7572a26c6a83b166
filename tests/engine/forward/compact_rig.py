"""What the tests of compaction share: all of it in one process, with places where others come in between."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

from wormdb.engine.blocks import write as blockwrite
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.forward.compact import folder_of, plan_compaction, publish_compaction, runs_in, select, write_piece
from wormdb.engine.forward.rebuild import extract_part, join_parts, publish_indexes
from wormdb.engine.forward.rebuild_lists import extract_run, finish_lists, join_lists, learn_lists, plan_joins
from wormdb.engine.log.root import Place
from wormdb.engine.tree.definition import decode_index
from wormdb.errors import ConflictError
from wormdb.format.block import write_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.engine.forward.compact import Aim, Compaction, ListName
    from wormdb.engine.ledger import Ledger
    from wormdb.format.block import EncodedBlock

__all__ = ["LISTS", "as_before", "compact_list", "compact_lists", "planned", "rebuild_trees"]

LISTS: tuple[ListName, ...] = ("blocks", "history")


@contextmanager
def as_before() -> Iterator[None]:
    """Inside, blocks are written as by versions that gave no columns to paths that nothing declares."""

    def plainly(*rows: Any, found: bool = False, **options: Any) -> EncodedBlock:
        del found
        return write_block(*rows, **options)

    with mock.patch.object(blockwrite, "write_block", plainly):
        yield


def planned(ledger: Ledger, where: ListName, aim: Aim) -> Compaction | None:
    """What a compaction of one list would do."""
    return plan_compaction(ledger._register.read(), shelf_of(ledger, where), where, aim)


def shelf_of(ledger: Ledger, where: ListName) -> Shelf:
    """One that knows nothing."""
    register = ledger._register
    return Shelf(register.store, ledger._runtime.pool, folder_of(register.paths, where))


def compact_list(
    ledger: Ledger, where: ListName, aim: Aim, between: Callable[[], object] = lambda: None
) -> tuple[int, int]:
    """Compact one list: how many pieces were written and how many of them count; `between` comes before each step."""
    plan = planned(ledger, where, aim)
    if plan is None:
        return 0, 0
    shelf, writer = shelf_of(ledger, where), ledger.writer
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


def rebuild_trees(ledger: Ledger, aim: Aim) -> list[str]:
    """Make the trees of all ready indexes again; their names."""
    register, writer = ledger._register, ledger.writer
    state = register.read()
    assert state.root is not None
    place = Place(register.store, ledger._runtime.pool, register.paths, state.root)
    shelf = shelf_of(ledger, "blocks")
    pieces = select([tuple(run.blocks(shelf)) for run in runs_in(state.root, "blocks")], aim).pieces
    ready = [one for one in state.root.indexes if one.state == "ready" and one.lists is None]
    indexes = [decode_index(one.name, one.definition, source="root") for one in ready]
    parts = [part for piece in pieces for part in extract_part(place, writer, indexes, piece)[0]]
    built = [join_parts(place, writer, each, [part for part in parts if part.name == each.name]) for each in indexes]
    lists = []
    for one in state.root.indexes:
        if one.state == "ready" and one.lists is not None:
            index = decode_index(one.name, one.definition, source="root")
            head = learn_lists(place, writer, index)
            runs = [extract_run(place, writer, index, head, piece)[0] for piece in pieces]
            joined = [join_lists(place, writer, index, runs, task) for task in plan_joins(place, index, runs)]
            lists.append(finish_lists(place, index, head, runs, joined))
    publish_indexes(register, writer, (place, state), built, lists)
    return [*(one.name for one in built), *(one.name for one in lists)]
