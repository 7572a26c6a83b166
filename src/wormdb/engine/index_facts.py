"""What goes with the tree of an index in the root: the membership filter of a unique one, and statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.tree.entries import value_key_of
from wormdb.engine.tree.membership import build_filter_of, extend_filter_of
from wormdb.engine.tree.statistics import IndexStatistics, decode_statistics, encode_statistics, measure
from wormdb.format.filter_run import key_hashes

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from wormdb.engine.index.edit import TreeEdit
    from wormdb.engine.index.shelf import IndexShelf
    from wormdb.engine.tree.membership import KeyFilter
    from wormdb.format.root import IndexRoot, ObjectRef

__all__ = ["following_membership", "following_statistics", "hashes_in"]


def following_membership(
    edit: TreeEdit, known: KeyFilter | None, hashes: array[int], shelf: IndexShelf, *, was_empty: bool
) -> ObjectRef:
    """The filter of the tree as it is now, where `hashes` are of the keys that came. No requests of its own.

    It is built anew when the one before has no room. That reads every leaf, unless the tree was empty before.
    """
    if known is not None and known.has_room(len(hashes)):
        change = extend_filter_of(known, hashes, edit.maker)
    else:
        change = build_filter_of(hashes if was_empty else hashes_in(edit), edit.maker)
        for ref in () if known is None else known.refs:
            edit.retire(ref.name)
    for new in change.written:
        edit.add(new)
    for ref in change.retired:
        edit.retire(ref.name)
    shelf.keep(change.filter)
    return change.filter.ref


def hashes_in(edit: TreeEdit) -> array[int]:
    """The hash of every value's key in a tree. 1 GET a node that is not held."""
    return key_hashes(map(value_key_of, edit.reader.scan()))


def following_statistics(
    edit: TreeEdit, old: IndexRoot | None, arrays: Sequence[bool], *, source: str, is_whole: bool = True
) -> bytes:
    """The statistics of the tree as it is now: measured again if its entries changed by more than a tenth.

    Reads 8 leaves and those beside them, and the nodes above, when it measures. Of a tree that is being built
    only the arrays are known. `source` is the root's object; raises CorruptionError.
    """
    known = None if old is None or old.statistics is None else decode_statistics(old.statistics, name=source)
    before = (False,) * len(arrays) if known is None else known.arrays
    seen = tuple(one or other for one, other in zip(before, arrays, strict=True)) if before else ()
    if not is_whole:
        return encode_statistics(IndexStatistics(entries=0, distinct=0, arrays=seen))
    if known is None or abs(edit.tree.entries - known.entries) * 10 > known.entries:
        return encode_statistics(measure(edit.reader, arrays=seen))
    return encode_statistics(msgspec.structs.replace(known, arrays=seen))
