"""All runs of a list index merged, entry by entry: what a check compares with the documents."""

from __future__ import annotations

import heapq
from array import array
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from wormdb.engine.lists.merge import StoredSource, merge_list
from wormdb.errors import CorruptionError
from wormdb.format.membership import key_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.lists.kind import ListKind
    from wormdb.engine.lists.merge import LooseList
    from wormdb.engine.lists.shelf import ListFolder
    from wormdb.format.list_run import ListHead

__all__ = ["stored_entries", "stored_hashes"]


def stored_entries(folder: ListFolder, head: ListHead, kind: ListKind) -> Iterator[tuple[bytes, int, bytes]]:
    """Every entry that counts: the key of its list, the hash of its id's key, its payload. In order of list.

    Costs as `ListFolder.stream_lists` of every run; 8 bytes a document and run are in memory if ids are once a run.
    Raises CorruptionError, also for counts and orders that are not what the root says; SnapshotTooOldError.
    """
    sources = [StoredSource(folder, run, kind) for run in head.runs]
    hashes = [stored_hashes(source) for source in sources] if kind.is_shared else None
    streams = []
    for age, source in enumerate(sources):
        checked = _checked(source, None if hashes is None else hashes[age])
        streams.append(_keyed(checked, age))
    for key, same in groupby(heapq.merge(*streams, key=itemgetter(0, 1)), key=itemgetter(0)):
        made = merge_list([one for _, _, one in same], is_base=True)
        for name, payload in zip(made.names, made.payloads, strict=True):
            yield key, name if isinstance(name, int) else key_hash(name), payload


def stored_hashes(source: StoredSource) -> array[int]:
    """For each document that a run names by its place the hash of its id's key. Costs as `ListFolder.stream_lists`."""
    found: array[int] = array("Q")
    last = b""
    for key, _, _ in source.documents():
        if key <= last:
            raise CorruptionError(f"{source.folder.folder} is damaged", reason="ids of a run are out of order")
        found.append(key_hash(key))
        last = key
    if len(found) != source.run.documents:
        reason = f"a run has {len(found)} ids, by the root {source.run.documents}"
        raise CorruptionError(f"{source.folder.folder} is damaged", reason=reason)
    return found


def _checked(source: StoredSource, hashes: array[int] | None) -> Iterator[tuple[bytes, LooseList]]:
    """The lists of a run, whose numbers must be those of the root."""
    entries = gone = 0
    try:
        for key, found in source.lists(hashes):
            entries += len(found.names)
            gone += len(found.gone)
            yield key, found
    except IndexError:
        reason = "a list names a document that is not there"
        raise CorruptionError(f"{source.folder.folder} is damaged", reason=reason) from None
    if (entries, gone) != (source.run.entries, source.run.gone):
        reason = (
            f"a run has {entries} entries and {gone} deletions, by the root {source.run.entries} and {source.run.gone}"
        )
        raise CorruptionError(f"{source.folder.folder} is damaged", reason=reason)


def _keyed(lists: Iterator[tuple[bytes, LooseList]], age: int) -> Iterator[tuple[bytes, int, LooseList]]:
    return ((key, age, one) for key, one in lists)
