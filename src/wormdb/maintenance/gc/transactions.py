"""Remove the records of transactions over several collections that no process needs any more.

1. All transactions that began more than an hour ago are finished in every collection of the database. Then the floor
   object says so: they are before `following`.
2. An hour later no process holds a state in which one of them was pending. Then `floor` is raised to it, by
   compare-and-set, and only after that are their records deleted.

So whatever is still pending below the floor was prepared by a process that had slept, and never committed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from wormdb.engine.log.paths import TRANSACTION_FLOOR, TRANSACTIONS_FOLDER, transaction_key
from wormdb.errors import ConflictError, NotFoundError
from wormdb.format.transaction import TransactionFloor, decode_floor, decode_record, encode_floor, floor_at
from wormdb.settings import TRANSACTION_RECORD_MS
from wormdb.storage.readback import put_swapped
from wormdb.system.clock import new_write_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wormdb.engine.ledger import Runtime
    from wormdb.storage.store import StoredObject
    from wormdb.system.types import StoreTime

__all__ = ["collect_records"]

log = logging.getLogger(__name__)

_DELETES_AT_ONCE = 1_000


def collect_records(runtime: Runtime, collections: Callable[[], Iterable[str]], *, dry_run: bool = False) -> int:
    """Remove records of transactions, as far as they are due; how many went, or would.

    `collections` gives the folders of all collections of the database. 1 LIST for each 1,000 records. If there are any,
    1 GET, 1 HEAD, and 1 PUT now and then; before that 1 GET for each record, what `Ledger.view` costs for each
    collection, and what finishing transactions does; 1 DELETE for each 1,000 that go. Raises UnavailableError and
    OutcomeUnknownError; another run goes on.
    """
    store = runtime.store
    listed = [info for page in store.list(TRANSACTIONS_FOLDER) for info in page.objects]
    records = [info.key.removeprefix(TRANSACTIONS_FOLDER) for info in listed if info.key != TRANSACTION_FLOOR]
    if not records:
        return 0
    probe = store.probe(TRANSACTION_FLOOR)
    if probe.time is None:
        return 0  # without the store's time nothing is known to be old
    current = None if probe.found is None else decode_floor(probe.found.body, name=TRANSACTION_FLOOR)
    try:
        floor = "" if current is None else _raised(runtime, current, probe.found, probe.time, dry_run=dry_run)
        due = [TRANSACTIONS_FOLDER + each for each in records if each < floor]
        if dry_run:
            return len(due)
        for start in range(0, len(due), _DELETES_AT_ONCE):
            store.delete_many(due[start : start + _DELETES_AT_ONCE])
        following = floor_at(probe.time - TRANSACTION_RECORD_MS)
        is_announced = current is not None and current.following > floor
        old = [each for each in records if floor <= each < following]
        if not is_announced and old:
            _announce(runtime, {*collections(), *_participants(runtime, old)}, floor, following)
    except ConflictError as error:
        log.info("records of transactions are left to another process: %s", error)
        return 0
    return len(due)


def _raised(
    runtime: Runtime, current: TransactionFloor, found: StoredObject | None, now: StoreTime, *, dry_run: bool
) -> str:
    """The floor, raised if it is due; what it would be in a dry run. 1 HEAD, and 1 PUT if it is raised."""
    if current.following <= current.floor or found is None:
        return current.floor
    try:
        written = runtime.store.head(TRANSACTION_FLOOR)
    except NotFoundError as error:
        if error.key != TRANSACTION_FLOOR:
            raise
        return current.floor
    is_same = written.version is None or written.version == found.version
    if not is_same or now - written.modified < TRANSACTION_RECORD_MS:
        return current.floor
    if not dry_run:
        raised = TransactionFloor(
            floor=current.following, following=current.following, write_id=new_write_id(runtime.chance)
        )
        put_swapped(runtime.store, TRANSACTION_FLOOR, encode_floor(raised), found.version, what="floor of transactions")
    return current.following


def _participants(runtime: Runtime, transactions: Sequence[str]) -> set[str]:
    """The folders of the collections of some transactions. 1 GET for each, side by side."""
    keys = [transaction_key(each) for each in transactions]
    found = zip(transactions, keys, runtime.store.get_many(keys, runtime.pool), strict=True)
    records = (decode_record(each.body, name=key, transaction=one) for one, key, each in found if each is not None)
    return {folder for record in records for folder in record.participants}


def _announce(runtime: Runtime, collections: Iterable[str], floor: str, following: str) -> None:
    """Finish all transactions before `following` everywhere, and say so. 1 GET and 1 PUT, and as `collect_records`."""
    for collection in sorted(collections):
        ledger = runtime.open(collection)
        ledger.view()
        if ledger.finish_transactions(following):
            log.info("%s: an old transaction is not finished, its record stays", ledger.collection)
            return
    # Read after all collections were looked at: another process may have raised it meanwhile, which is as good.
    found = runtime.store.probe(TRANSACTION_FLOOR).found
    known = None if found is None else decode_floor(found.body, name=TRANSACTION_FLOOR)
    if known is not None and (known.floor > floor or known.following > known.floor):
        return
    told = TransactionFloor(
        floor=floor_at(0) if known is None else known.floor,
        following=floor_at(int(following[:12], 16)),
        write_id=new_write_id(runtime.chance),
    )
    version = None if found is None else found.version
    put_swapped(runtime.store, TRANSACTION_FLOOR, encode_floor(told), version, what="floor of transactions")
