"""Verify: the audit of `Database.verify`, with all that reads blocks done in parts.

First pieces of work check blocks and sidecars, each whole: they are written again from their rows, and what comes out
is compared. Then others compare documents, history and the keys of indexes, by ranges of ids, and what they say meets:
sums of digests by entry of the log, and by bucket of each index. If that is not all as it should be, one pass over
everything tells what is wrong. So the findings are those of one process.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, get_args

import msgspec

from wormdb.errors import CorruptionError, SchemaError, SnapshotTooOldError
from wormdb.files.verify import verify_all
from wormdb.format.blocklist import BlockEntry
from wormdb.format.root import encode_root
from wormdb.jobs.shares import all_ranges
from wormdb.jobs.state import PinnedState
from wormdb.jobs.work import Item, Output, ProgressListener, Runner
from wormdb.maintenance.audit.chain import check_chain
from wormdb.maintenance.audit.lists import CheckedList, Where, claim_of, is_sound
from wormdb.maintenance.audit.parts import LogOutline, PartTally, look_at_range
from wormdb.maintenance.audit.report import AuditReport, Verification
from wormdb.maintenance.audit.verify import RootExamination, verify_parts
from wormdb.settings import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.jobs.place import Where as Place
    from wormdb.maintenance.collection import StoredCollection

__all__ = ["verify_collection"]

PIECE_BYTES: Final = 32 * MIB

_Block = tuple[Where, BlockEntry]
"""Which list names a block, and what it says of it."""


def verify_collection(
    place: Place, runner: Runner, told: ProgressListener | None = None, *, unreferenced: bool = False
) -> Verification:
    """What `Database.verify` finds in one collection; nothing is written.

    Costs as that, and 2 GETs for each block more; if something is wrong, 2 GETs for each block once more, by this
    process. Raises what the first piece that failed raised.
    """
    site = _site(place)
    found = list(_pieces(site))
    items = [
        Item(f"blocks from {blocks[0][1].name} on", msgspec.msgpack.encode(blocks), size, len(blocks))
        for blocks, size in found
    ]
    bodies = runner.run("verify blocks", _BlockCheck(place), items, told)
    passed = frozenset(claim for body in bodies for claim in msgspec.msgpack.decode(body, type=list[bytes]))
    has_passed = all(claim_of(entry, where) in passed for blocks, _ in found for where, entry in blocks)
    agreed = None
    if has_passed:
        with suppress(CorruptionError, SchemaError, SnapshotTooOldError):
            agreed = _agreed(place, site, (runner, told), unreferenced=unreferenced)
    return verify_all(replace(site, passed=passed), unreferenced=unreferenced, found=agreed)


def _agreed(
    place: Place, site: StoredCollection, by: tuple[Runner, ProgressListener | None], *, unreferenced: bool
) -> Verification | None:
    """What all parts together say; None if something is wrong, or was replaced meanwhile."""
    runner, told = by
    state = site.register.read()
    if state.root is None:
        return None
    report = AuditReport()
    log = RootExamination(state, report, check_chain(site, state.root, report))
    outline = LogOutline(log.chain.begins, state.root.applied, frozenset(log.chain.jobs))
    shares = all_ranges(PinnedState.of(place), tasks=None)
    items = [
        Item(
            f"range {number} of {len(shares)} of {place.name}",
            msgspec.msgpack.encode((share.span.low, share.span.high)),
            share.size,
            share.rows,
        )
        for number, share in enumerate(shares, 1)
    ]
    bodies = runner.run("verify agreement", _RangeCheck(place, encode_root(state.root), outline), items, told)
    parts = [msgspec.msgpack.decode(body, type=PartTally) for body in bodies]
    return verify_parts(site, log, parts, unreferenced=unreferenced)


def _site(place: Place) -> StoredCollection:
    prefix = place.handle().prefix
    return place.open()._site(prefix)  # noqa: SLF001 - this package is a part of the database


def _pieces(site: StoredCollection) -> Iterator[tuple[list[_Block], int]]:
    """The blocks of all lists of the root, some at a time. 1 GET for the root and for each page of a long list."""
    try:
        root = site.register.read().root
    except (CorruptionError, SchemaError):
        return  # the one pass says what is wrong with it
    if root is None:
        return
    waiting: list[_Block] = []
    size = 0
    for where in get_args(Where):
        found = CheckedList(site, where, root, AuditReport())
        for entry in (entry for run in found.runs for entry in found.entries(run)):
            waiting.append((where, entry))
            size += entry.length
            if size >= PIECE_BYTES:
                yield waiting, size
                waiting, size = [], 0
    if waiting:
        yield waiting, size


@dataclass(frozen=True, slots=True)
class _BlockCheck:
    """Checks some blocks; a value that can be sent."""

    place: Place

    def __call__(self, body: bytes, /) -> Output:
        """The claims of those that are sound: of the others the one pass says what is wrong. 2 GETs each."""
        site = _site(self.place)
        blocks = msgspec.msgpack.decode(body, type=list[tuple[Where, BlockEntry]])
        sound = [claim_of(entry, where) for where, entry in blocks if is_sound(site, entry, where)]
        return Output(msgspec.msgpack.encode(sound), len(blocks))


@dataclass(frozen=True, slots=True)
class _RangeCheck:
    """Looks at one range of ids; a value that can be sent."""

    place: Place
    root: bytes
    outline: LogOutline

    def __call__(self, body: bytes, /) -> Output:
        """What the rows of the range came to. Costs as `look_at_range`."""
        site = _site(self.place)
        low, high = msgspec.msgpack.decode(body, type=tuple[bytes, bytes | None])
        root = site.register.decode(self.root)
        tally = look_at_range(site, root, self.outline, low, high)
        return Output(msgspec.msgpack.encode(tally), tally.documents)
