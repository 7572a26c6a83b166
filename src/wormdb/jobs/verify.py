"""Verify: the audit of `Database.verify`, with the costly part of it done in parts.

Each piece of work checks some blocks and sidecars, whole: they are written again from their rows, and what comes out
is compared. Then one pass compares documents, history, indexes, the log and readable files with each other; it reads
blocks again, by their digests the same, and does not repeat those checks. So the findings are those of one process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, get_args

import msgspec

from wormdb.errors import CorruptionError, SchemaError, UnsupportedFormatError
from wormdb.files.verify import verify_all
from wormdb.format.blocklist import BlockEntry
from wormdb.jobs.work import Item, Output
from wormdb.limits import MIB
from wormdb.maintenance.listed import CheckedList, Where, claim_of, is_sound
from wormdb.maintenance.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.jobs.place import Where as Place
    from wormdb.jobs.work import Runner, Told
    from wormdb.maintenance.report import Verification
    from wormdb.maintenance.site import Site

__all__ = ["verify_collection"]

PIECE_BYTES: Final = 32 * MIB

_Block = tuple[str, BlockEntry]
"""Which list names a block, and what it says of it."""


def verify_collection(
    place: Place, runner: Runner, told: Told | None = None, *, unreferenced: bool = False
) -> Verification:
    """What `Database.verify` finds in one collection; nothing is written.

    Costs as that, and 2 GETs for each block more. Raises what the first piece that failed raised.
    """
    site = _site(place)
    items = [
        Item(f"blocks from {blocks[0][1].name} on", msgspec.msgpack.encode(blocks), size, len(blocks))
        for blocks, size in _pieces(site)
    ]
    bodies = runner.run("verify", _Check(place), items, told)
    passed = frozenset(claim for body in bodies for claim in msgspec.msgpack.decode(body, type=list[bytes]))
    return verify_all(replace(site, passed=passed), unreferenced=unreferenced)


def _site(place: Place) -> Site:
    prefix = place.handle().prefix
    return place.open()._site(prefix)  # noqa: SLF001 - this package is a part of the database


def _pieces(site: Site) -> Iterator[tuple[list[_Block], int]]:
    """The blocks of all lists of the root, some at a time. 1 GET for the root and for each page of a long list."""
    try:
        root = site.register.read().root
    except (CorruptionError, UnsupportedFormatError, SchemaError):
        return  # the one pass says what is wrong with it
    if root is None:
        return
    waiting: list[_Block] = []
    size = 0
    for where in get_args(Where):
        found = CheckedList(site, where, root, Report())
        for entry in (entry for run in found.runs for entry in found.entries(run)):
            waiting.append((where, entry))
            size += entry.length
            if size >= PIECE_BYTES:
                yield waiting, size
                waiting, size = [], 0
    if waiting:
        yield waiting, size


@dataclass(frozen=True, slots=True)
class _Check:
    """Checks some blocks; a value that can be sent."""

    place: Place

    def __call__(self, body: bytes, /) -> Output:
        """The claims of those that are sound: of the others the one pass says what is wrong. 2 GETs each."""
        site = _site(self.place)
        blocks = msgspec.msgpack.decode(body, type=list[tuple[Where, BlockEntry]])
        sound = [claim_of(entry, where) for where, entry in blocks if is_sound(site, entry, where)]
        return Output(msgspec.msgpack.encode(sound), len(blocks))
