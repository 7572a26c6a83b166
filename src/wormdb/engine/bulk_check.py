"""Whether the parts of a bulk job fit together, and to what others wrote meanwhile.

Digests are compared first: they tell in memory that two tasks took no value of a unique index both. Where hashes are
equal the documents themselves decide.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING

from wormdb.engine.blocks.fetch import rows_between
from wormdb.engine.blocks.listing import runs_of
from wormdb.engine.blocks.runs import Runs
from wormdb.engine.bulk.report import unpack_hashes
from wormdb.engine.bulk.task import digests_key
from wormdb.engine.index.unique import keys_of
from wormdb.engine.state.view import id_key
from wormdb.engine.tree.extract import extract
from wormdb.errors import NotFoundError, UnavailableError, UniqueViolationError
from wormdb.format import json
from wormdb.format.damage import corrupt
from wormdb.format.filter_run import key_hashes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.blocks.listing import Run
    from wormdb.engine.bulk.report import Digests, TaskReport, Tools
    from wormdb.engine.tree.definition import Index
    from wormdb.format.block import Row
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.membership import MembershipFilter

__all__ = ["HashSet", "Members", "check_between_tasks", "claimants", "claims_of_reports", "hashes_of"]

_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class HashSet:
    """Hashes, ascending."""

    hashes: array[int] = field(default_factory=lambda: array("Q"))

    def __contains__(self, number: int) -> bool:
        place = bisect_left(self.hashes, number)
        return place < len(self.hashes) and self.hashes[place] == number

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def repeated(self) -> list[int]:
        """Those that are equal to the one before them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if len(self.hashes) < 2:
            return []
        numbers = pa.Array.from_buffers(pa.uint64(), len(self.hashes), [None, pa.py_buffer(self.hashes)])
        later = numbers.slice(1)
        found: list[int] = later.filter(pc.equal(later, numbers.slice(0, len(later)))).to_pylist()
        return found


def hashes_of(tools: Tools, digests: Iterable[Digests]) -> HashSet:
    """All hashes of some digests. 1 GET for each that is an object; raises UnavailableError, CorruptionError."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [unpack_hashes(_packed(tools, one)) for one in digests]
    if len(parts) < 2:
        return HashSet(*parts)
    arrays = [pa.Array.from_buffers(pa.uint64(), len(part), [None, pa.py_buffer(part)]) for part in parts]
    joined = pa.concat_arrays(arrays)
    ordered = joined.take(pc.sort_indices(joined))
    hashes = array("Q")
    hashes.frombytes(ordered.buffers()[1].to_pybytes()[: 8 * len(ordered)])
    return HashSet(hashes)


def _packed(tools: Tools, digests: Digests) -> bytes:
    if digests.stored is None:
        return digests.packed
    key = digests_key(tools, digests.stored.name)
    try:
        body = tools.writer.store.get(key).body
    except NotFoundError as error:
        raise UnavailableError(
            f"object {key}", reason="what a task of the job reported is gone", fix="run the job again", key=key
        ) from error
    if sha256(body).digest() != digests.stored.sha256:
        corrupt(key, "it does not hold what the task reported")
    return body


@dataclass(frozen=True, slots=True)
class Members:
    """Which ids the blocks of a job may have, told in memory."""

    runs: Sequence[Run]
    filters: dict[str, MembershipFilter]

    @classmethod
    def of(cls, tools: Tools, blocks: Sequence[BlockEntry]) -> Members:
        """1 GET for each filter that is not kept, side by side."""
        return cls(runs_of(blocks), tools.shelf.learn((), blocks)[1])

    @property
    def blocks(self) -> list[BlockEntry]:
        """All of them, run by run in order of key."""
        return [block for run in self.runs for block in run.entries]

    def may_have(self, key: bytes) -> bool:
        """False only if there is certainly no row with a key. No requests."""
        near = (run.part_for(key) for run in self.runs)
        return any(block is not None and self.filters[block.name].might_contain(key) for block in near)

    def rows(self, tools: Tools, keys: Iterable[bytes]) -> dict[bytes, Row]:
        """The rows with these keys. Costs as `Runs.get_many`."""
        sought = [key for key in keys if self.may_have(key)]
        return Runs(tools.shelf, self.blocks).get_many(sought) if sought else {}


def claims_of_reports(tools: Tools, reports: Sequence[TaskReport]) -> dict[str, HashSet]:
    """What all tasks took in each unique index. Costs as `hashes_of`."""
    names = sorted({digests.name for report in reports for digests in report.claims})
    return {
        name: hashes_of(tools, [one for report in reports for one in report.claims if one.name == name])
        for name in names
    }


def check_between_tasks(
    tools: Tools, blocks: Sequence[BlockEntry], indexes: Iterable[Index], claims: dict[str, HashSet]
) -> None:
    """Raise UniqueViolationError if two documents of a job have one value of a unique index.

    No requests if no two hashes are equal; else 1 GET for each block.
    """
    for index in indexes:
        suspects = set(claims[index.name].repeated) if index.name in claims else set()
        seen: dict[bytes, bytes] = {}
        for value, identity in claimants(tools, blocks, index, suspects) if suspects else ():
            owner = seen.setdefault(value, identity)
            if owner != identity:
                raise clash(tools, blocks, index, value, owner)


def claimants(
    tools: Tools, blocks: Sequence[BlockEntry], index: Index, suspects: set[int]
) -> Iterator[tuple[bytes, bytes]]:
    """The keys in an index whose hashes are among some, each with the id of a document of the run that has it.

    1 GET for each block.
    """
    rows = (row for block in blocks for _, row in rows_between(tools.shelf, block) if row.document is not None)
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        identities = [json.encode(row.id) for row in some]
        found = extract(index, identities, [row.document for row in some]).keys
        for identity, keys in zip(identities, found, strict=True):
            for value, digest in zip(keys, key_hashes(keys), strict=True):
                if digest in suspects:
                    yield value, identity


def clash(tools: Tools, blocks: Sequence[BlockEntry], index: Index, value: bytes, owner: bytes) -> UniqueViolationError:
    """What is said of a value that two documents of a job have. Costs as a look-up of one of them."""
    row = Members.of(tools, blocks).rows(tools, [id_key(owner)]).get(id_key(owner))
    shown = {} if row is None else keys_of(index, row.document)
    return UniqueViolationError(
        index=index.name, field=index.label, value=shown.get(value), owner=json.decode(owner, name="document id")
    )
