"""The indexed values of new blocks from their columns, where these tell all: no document is read then."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from wormdb.engine.blocks.runs import Runs, held_of
from wormdb.engine.index.edit import Columns
from wormdb.engine.state.projection import Net
from wormdb.format import json
from wormdb.format.blockread import assemble_block, parts_for, read_columns
from wormdb.format.columns import ELSEWHERE
from wormdb.format.key import encode_keys
from wormdb.storage.store import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.blocks.runs import RunBase
    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.tree.definition import Index
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.blockread import Block

__all__ = ["attached_slices"]

_LOOKUPS_AT_ONCE: Final = 1_000
_SCALARS: Final = frozenset({"string", "int64", "double", "bool", "date", "binary", "objectid", "decimal"})
"""Types of columns whose values are no arrays."""
_FIRST: Final = 1
"""The number of a document's first change: before it nothing was there."""


def attached_slices(
    index: Index, blocks: Iterable[BlockEntry], shelf: Shelf, base: RunBase, *, high: bytes | None = None
) -> Iterator[Columns | Sequence[Net]]:
    """The documents of attached blocks with keys below `high`, in order of key, as an index needs them.

    `base` has what was there before them. For each block 1 GET for its page map and 1 or a few for the columns, if
    these have every value of the index; else 1 GET for the block. Documents that replace others are looked up.
    Raises CorruptionError, SnapshotTooOldError.
    """
    for entry in sorted(blocks, key=lambda block: block.key_first):
        columns = None if high is not None else _columns(index, entry, shelf)
        if columns is None:
            yield from _documents(entry, shelf, base, high)
        else:
            yield from columns


def _columns(index: Index, entry: BlockEntry, shelf: Shelf) -> list[Columns] | None:
    """The values of a block by row group; None if its columns do not tell all."""
    paths = (*index.fields, *index.covered)
    whole = {stats.path for stats in entry.columns if not stats.others and stats.type in _SCALARS}
    if entry.deleted or not whole.issuperset(paths):
        return None
    names = list(dict.fromkeys(("_id", "_seq", *paths)))
    page_map = shelf.learn([entry])[0][entry.name]
    parts = parts_for(page_map, names)
    bodies = shelf.ranges(entry, [ByteRange(part.offset, part.length) for part in parts])
    block = assemble_block(page_map, zip(parts, bodies, strict=True))
    groups = [_group(block, names, paths, group) for group in range(block.groups)]
    found = [group for group in groups if group is not None]
    return found if len(found) == len(groups) else None


def _group(block: Block, names: Sequence[str], paths: Sequence[str], group: int) -> Columns | None:
    values = read_columns(block, names, groups=[group])
    if set(values["_seq"]) != {_FIRST} or ELSEWHERE in values["_id"]:
        return None
    identities = values["_id"]
    return Columns(encode_keys(identities), list(map(json.encode, identities)), [values[path] for path in paths])


def _documents(entry: BlockEntry, shelf: Shelf, base: RunBase, high: bytes | None) -> Iterator[Sequence[Net]]:
    found = Runs(shelf, [entry]).scan(high=high)
    while rows := list(islice(found, _LOOKUPS_AT_ONCE)):
        before = base.get_many([key for key, row in rows if row.seq > _FIRST])
        yield [Net(key, before[key].document if key in before else None, held_of(row)) for key, row in rows]
