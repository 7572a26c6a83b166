"""Check a large batch that only inserts, all of it at once.

`wormdb.engine.commit.validate` goes from operation to operation, because what one does counts for the next. Inserts
of different ids and values do not touch each other. Where that holds, nothing more has to be known of each than whether
its id and its unique values are free; where it does not, the batch is left to the other check, which says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain
from typing import TYPE_CHECKING, Any

from wormdb.engine.commit.operations import Insert, Pending
from wormdb.engine.lists.definition import check_lists
from wormdb.engine.state.counted import is_uncounted
from wormdb.engine.tree.extract import extract
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.entry import LoggedChange
from wormdb.format.key import encode_keys
from wormdb.format.membership import key_hashes
from wormdb.format.sample import Sample
from wormdb.settings import SAMPLE_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from wormdb.engine.index.unique import UniqueOwners
    from wormdb.engine.state.view import View
    from wormdb.engine.tree.definition import Index

__all__ = ["InsertResult", "check_inserts", "sampled"]


@dataclass(frozen=True, slots=True)
class InsertResult:
    """What a batch of inserts does."""

    changes: tuple[LoggedChange, ...]
    """In the order of the operations."""
    rows: dict[bytes, Row]
    """By the keys of their ids; of revision 0, because the entry has no number yet."""
    claims: Mapping[str, AbstractSet[bytes]]
    """What it takes in each unique index."""


def check_inserts(
    pending: Pending,
    view: View,
    unique: Callable[[Index], UniqueOwners],
    takes_snapshot: Callable[[int], bool],
) -> InsertResult | None:
    """What a batch does to the state of a view; None if it must be gone through one by one.

    `unique` gives the owners in an index at that state, `takes_snapshot` says which changes of a document are kept as
    one. Raises what the batch's guard does. Costs as `View.get_many` for ids that were not made from chance, and as
    `UniqueOwners.owners`.
    """
    inserts = [operation for operation in pending.operations if type(operation) is Insert]
    if pending.events or not inserts or len(inserts) < len(pending.operations):
        return None
    if pending.body and pending.body != view.definition.body and view.definition.upgrades.steps:
        return None  # of an older version: each document has to be mapped
    if pending.guard is not None:
        pending.guard.check(view)
    identities = [insert.id for insert in inserts]
    ids = _decoded(identities)
    keys = encode_keys(ids)
    if len(set(keys)) < len(keys):
        return None
    looked_up = [key for key, insert in zip(keys, inserts, strict=True) if not insert.fresh]
    found = view.get_many(looked_up) if looked_up else {}
    if any(held.document is not None for held in found.values()) or any(map(is_uncounted, identities)):
        return None
    documents = [insert.document for insert in inserts]
    claims = _claims(view.definition.indexes.ready, identities, documents, unique)
    if claims is None or not _are_taken(view.definition.indexes.lists, documents):
        return None
    seqs = [found[key].seq + 1 if key in found else 1 for key in keys] if found else [1] * len(keys)
    kept = {seq: takes_snapshot(seq) for seq in set(seqs)}
    changes = tuple(
        LoggedChange(id=identity, seq=seq, after=document, snapshot=kept[seq])
        for identity, seq, document in zip(identities, seqs, documents, strict=True)
    )
    rows = [Row(*row) for row in zip(ids, [0] * len(ids), seqs, documents, strict=True)]
    return InsertResult(changes, dict(zip(keys, rows, strict=True)), claims)


def sampled(rows: Mapping[bytes, Row]) -> Sample:
    """The sample of rows by the keys of their ids, those of deleted documents too. No requests."""
    # Only the least hashes can be in it; which they are is seen from the hashes alone.
    hashes = key_hashes(rows)
    bound = max(nsmallest(SAMPLE_ROWS + 1, hashes), default=0)
    chosen = ((key, row.document) for digest, (key, row) in zip(hashes, rows.items(), strict=True) if digest <= bound)
    return Sample().after(chosen, note_gone=True)


def _decoded(identities: Sequence[bytes]) -> list[Any]:
    """Ids out of their JSON."""
    joined = b"".join(identities)
    if b"\\" not in joined and all(identity[:1] == b'"' for identity in identities):
        # Only texts, and a quotation mark stands at their ends only: all are decoded at once.
        return joined.decode()[1:-1].split('""')
    return [json.decode(identity, name="document id") for identity in identities]


def _are_taken(lists: Sequence[Index], documents: Sequence[bytes]) -> bool:
    """Whether indexes that are lists take all of some documents."""
    try:
        check_lists(lists, (json.decode_document(one, name="document") for one in documents))
    except InvalidRequestError:
        return False
    return True


def _claims(
    indexes: Sequence[Index],
    identities: Sequence[bytes],
    documents: Sequence[bytes],
    unique: Callable[[Index], UniqueOwners],
) -> dict[str, set[bytes]] | None:
    """What new documents claim in the unique indexes; None if one of them cannot be there."""
    claims: dict[str, set[bytes]] = {}
    for index in indexes:
        try:
            found = list(chain.from_iterable(extract(index, identities, documents).keys))
        except InvalidRequestError:
            return None
        if not index.unique:
            continue
        values = claims[index.name] = set(found)
        if len(values) < len(found) or any(owner is not None for owner in unique(index).owners(values).values()):
            return None
    return claims
