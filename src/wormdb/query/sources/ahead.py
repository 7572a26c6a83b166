"""What a query needs first, read while something else is: so that it costs no round more."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from wormdb.engine.blocks.runs import RunBase
from wormdb.errors import WormError

if TYPE_CHECKING:
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.view import View
    from wormdb.query.request import QueryRequest

__all__ = ["expect_documents", "prepare_ranking"]

MAPS_AHEAD: Final = 16
"""Blocks up to which their page maps are read while an index is: documents of a ranking are likely in all of them."""


def expect_documents(view: View) -> None:
    """Begin to read page maps, and do not wait for it. 1 GET for each block, if they are few."""
    base = view.base
    root = None if view.place is None else view.place.root
    if root is None or not isinstance(base, RunBase) or root.block_pages or len(root.blocks) > MAPS_AHEAD:
        return
    shelf = base.runs.shelf
    for entry in root.blocks:
        if shelf.known_map(entry) is None:
            shelf.begin(lambda entry: shelf.learn([entry], [entry]), entry)


def prepare_ranking(view: View, ledger: Ledger, request: QueryRequest) -> None:
    """Read what the nearest need before lists and documents, of this state or any other of the same root.

    1 GET for each object, in one round. What cannot be read is left to the query itself.
    """
    if request.near is None or request.near.is_exact:
        return
    from wormdb.query.sources.vectors import prepare_nearest  # few queries ask for vectors

    with suppress(WormError):
        expect_documents(view)
        prepare_nearest(view, request.near.path, request.near.distance, ledger)
