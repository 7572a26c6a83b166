"""The base of a view, read from the root's blocks as it is needed.

Blocks form runs. A run is what one forwarding (or a merge of several) wrote: blocks that do not
overlap, sorted by id. A newer run hides the older ones, id by id. A point look-up asks the newest run first: the
block by its key range, its filter, and then one page; a scan merges all runs.
"""

from __future__ import annotations

import heapq
import threading
from bisect import bisect_left
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, assert_never

from wormdb.engine.state import Held
from wormdb.errors import NotFoundError, SnapshotTooOldError
from wormdb.format import json
from wormdb.format.block import RESERVED
from wormdb.format.blockread import assemble_block, open_block, parts_for, read_documents, read_group, read_page
from wormdb.format.key import encode_key
from wormdb.format.sidecar import GroupRef, PageRef, Sidecar, decode_sidecar, locate
from wormdb.storage.store import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.paths import EnginePaths
    from wormdb.format.block import Row
    from wormdb.format.blocklist import BlockEntry
    from wormdb.storage.store import Store

__all__ = ["Run", "RunBase", "held_of", "merge_runs", "runs_of"]


@dataclass(frozen=True, slots=True)
class Run:
    """Blocks in order of their keys. `through` is the log number up to which the run was written; it names the run."""

    through: int
    blocks: tuple[BlockEntry, ...]

    @property
    def size(self) -> int:
        """Bytes of all blocks together, as stored."""
        return sum(block.length for block in self.blocks)

    def block_for(self, key: bytes) -> BlockEntry | None:
        """The one block whose range holds `key`."""
        place = bisect_left(self.blocks, key, key=lambda block: block.key_last)
        if place == len(self.blocks) or self.blocks[place].key_first > key:
            return None
        return self.blocks[place]


def runs_of(blocks: Sequence[BlockEntry]) -> tuple[Run, ...]:
    """The runs that a root's blocks form, newest first."""
    ordered = sorted(blocks, key=lambda block: (-block.run, block.key_first))
    return tuple(Run(through, tuple(group)) for through, group in groupby(ordered, key=lambda block: block.run))


def held_of(row: Row) -> tuple[bytes, Held]:
    """A row of a block as the engine holds it, with its key."""
    return encode_key(row.id), Held(json.encode(row.id), row.rev, row.seq, row.document, row.trash)


def merge_runs(runs: Sequence[Iterator[tuple[bytes, Held]]]) -> Iterator[tuple[bytes, Held]]:
    """Several runs in order of key as one, newest first: of equal keys the newest run's is kept."""
    numbered = [((key, age, held) for key, held in run) for age, run in enumerate(runs)]
    last: bytes | None = None
    for key, _, held in heapq.merge(*numbered, key=lambda item: item[:2]):
        if key != last:
            yield key, held
        last = key


class RunBase:
    """The documents of a root's blocks; sidecars are kept, pages and blocks are the store's cache's. Thread-safe."""

    def __init__(self, store: Store, paths: EnginePaths, blocks: Sequence[BlockEntry]) -> None:
        """No requests."""
        self._store = store
        self._paths = paths
        self.runs = runs_of(blocks)
        self._sidecars: dict[str, Sidecar] = {}
        self._lock = threading.Lock()

    def get(self, key: bytes) -> Held | None:
        """What is under an id's key. 1 GET for each run that holds it or may, and 1 the first time a block is asked.

        Raises CorruptionError, and SnapshotTooOldError if the root's objects are gone.
        """
        for run in self.runs:
            block = run.block_for(key)
            if block is None:
                continue
            row = self._look_up(block, key)
            if row is not None:
                return held_of(row)[1]
        return None

    def scan(self) -> Iterator[tuple[bytes, Held]]:
        """Everything, in order of key: the newest version of each. 1 GET a block, when it is reached."""
        return merge_runs([self.scan_run(run) for run in self.runs])

    def scan_run(self, run: Run) -> Iterator[tuple[bytes, Held]]:
        """One run in order of key. 1 GET a block, when it is reached."""
        for block in run.blocks:
            key = self._paths.block(block.name)
            body = self._get(key)
            for row in read_documents(open_block(body, name=key, sha256=block.sha256)):
                yield held_of(row)

    def _look_up(self, block: BlockEntry, key: bytes) -> Row | None:
        sidecar = self._sidecar(block)
        ref = locate(sidecar, key)
        name = self._paths.block(block.name)
        match ref:
            case None:
                return None
            case PageRef():
                page = self._store.get_range(name, ByteRange(ref.offset, ref.length))
                return read_page(page, ref, key)
            case GroupRef():
                parts = parts_for(ref.map, RESERVED, groups=[ref.group])
                bodies = self._store.get_ranges(name, [ByteRange(part.offset, part.length) for part in parts])
                return read_group(assemble_block(ref.map, zip(parts, bodies, strict=True)), ref, key)
            case _:
                assert_never(ref)

    def _sidecar(self, block: BlockEntry) -> Sidecar:
        with self._lock:
            found = self._sidecars.get(block.name)
        if found is None:
            key = self._paths.sidecar(block.sidecar.name)
            found = decode_sidecar(
                self._get(key), name=key, identity=block.sha256.hex(), block=self._paths.block(block.name)
            )
            with self._lock:
                self._sidecars[block.name] = found
        return found

    def _get(self, key: str) -> bytes:
        try:
            return self._store.get(key).body
        except NotFoundError as error:
            raise SnapshotTooOldError(
                f"object {key}", reason="its root has been replaced, and it was removed"
            ) from error
