"""Keeps the readable files of a database's collections, each after its root was swapped."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from wormdb.engine.log.paths import EnginePaths
from wormdb.errors import ConflictError, UnavailableError
from wormdb.files.compare.check import CollectionFiles, names_in
from wormdb.files.write.announce import Announcement, announce_all
from wormdb.files.write.publication import Extent, LostAttempts, Publication
from wormdb.files.write.record import RecordRegister
from wormdb.files.write.tables import TablePatience, specs_of
from wormdb.system.deadline import TimedLock
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wormdb.engine.ledger import Ledger
    from wormdb.format.files_record import FilesRecord
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.clock import Chance, Clock

__all__ = ["FilesKeeper"]

log = logging.getLogger(__name__)

_ATTEMPTS_MAX: Final = 16
"""How often writing starts again because another writer was faster."""
_FILL_DOCUMENTS: Final = 10_000
"""How many documents are written after one root if all have to be: the next one goes on."""


class FilesKeeper:
    """Writes readable files. Thread-safe; any number of processes may do it at once."""

    def __init__(self, store: Store, pool: Pool, clock: Clock, chance: Chance, *, seconds: float, bucket: str) -> None:
        """`seconds` is how long a change may wait for a manifest or index file; `bucket` is for the sentinel."""
        self._store = store
        self._pool = pool
        self._clock = clock
        self._seconds = seconds
        self._bucket = bucket
        self._chance = chance
        self._known: dict[str, FilesRecord] = {}
        self._turns: dict[str, TimedLock] = {}
        self._lock = threading.Lock()

    def site(self, ledger: Ledger) -> CollectionFiles:
        """The files of a collection, to be looked at. No requests."""
        return CollectionFiles(ledger, self._store, self._pool, self._chance)

    def publish(self, ledger: Ledger, number: LogNumber) -> None:
        """Bring the files of a collection to its state, which has the log through `number` at least.

        No requests if nothing is new. Otherwise 2 for the record, 1 GET an entry of the log, 1 PUT for each new file
        (of a document, a change, a snapshot) and 1 GET more for one that is replaced, and 1 PUT for each file of a
        manifest or an index that is due. Tables with little news wait; so does a part of the documents, if there are
        many and all have to be written. Raises UnavailableError, OutcomeUnknownError: the next call does it again.
        """
        self._run(ledger, number, Extent(fill_max=_FILL_DOCUMENTS))

    def flush(self, ledger: Ledger, told: Callable[[int], None] = lambda _: None) -> None:
        """As `publish`, with all that waits, and a manifest with `autoUpdate: false`.

        `told` is called with the number of documents that have been written, where all have to be.
        """
        self._run(ledger, ledger.view().number, Extent(is_forced=True, told=told))

    def announce(self, ledgers: Iterable[Ledger]) -> None:
        """Have the sentinel of the bucket say where the folders of collections lie, in as few words as that takes.

        1 GET, 1 PUT if it says something else, and as `Ledger.view` for each.
        """
        told = []
        for ledger in ledgers:
            view = ledger.view().bare
            names = names_in(view, ledger.collection)
            if names is not None and view.definition.keeps_files:
                told.append(Announcement(self._bucket, names.model, ledger.collection, names.placement))
        announce_all(self._store, told)

    def trimmed_floor(self, collection: str) -> LogNumber | None:
        """Through which number the files of a collection are: the log after it is still needed. 1 GET.

        None if nothing is known of its files.
        """
        record = self._register(collection).read().record
        if record is None:
            return None
        return LogNumber(record.through if record.fill is None else record.fill_since)

    def forget(self, collection: str) -> None:
        """Know nothing of a collection's files, as after a start. No requests."""
        self._known.pop(collection, None)

    def _run(self, ledger: Ledger, number: LogNumber, extent: Extent) -> None:
        with self._turn(ledger.collection):
            if not extent.is_forced and self._is_done(ledger, number):
                return
            lost: LostAttempts | None = None
            for _ in range(_ATTEMPTS_MAX):
                attempt = self._begin(ledger, extent, is_again=lost is not None)
                if attempt is None:
                    return
                began = LogNumber(attempt.record.through)
                try:
                    known = attempt.run(lost)
                except ConflictError:
                    log.info("%s: another process writes the readable files", ledger.collection)
                    lost = lost or LostAttempts(began)
                    lost.after = min(lost.after, began)
                    lost.tables |= attempt.touched
                    lost.places.append(attempt.record.places)
                    lost.shapes.add(attempt.record.shape)
                    continue
                if known.record is not None:
                    self._known[ledger.collection] = known.record
                return
        raise UnavailableError(
            f"readable files of {ledger.collection}", reason="others were faster every time", fix="forward again later"
        )

    def _begin(self, ledger: Ledger, extent: Extent, *, is_again: bool) -> Publication | None:
        """An attempt at the state that this process knows; None if files are not kept, or others know more."""
        register = self._register(ledger.collection)
        known = register.read()
        # A process that was overtaken may have slept for long: files may have been switched off since.
        view = ledger.view().bare if is_again else ledger.known().bare
        # The writer of the record knew at least this much of the log, and of what it says about files.
        newest = 0 if known.record is None else max(known.record.through, known.record.fill_since)
        if newest > view.number:
            view = ledger.view().bare
            if newest > view.number:
                return None
        if not view.definition.keeps_files:
            return None
        return Publication(
            self._store,
            self._pool,
            self._clock,
            self._bucket,
            self._seconds,
            extent,
            ledger=ledger,
            view=view,
            register=register,
            known=known,
        )

    def _is_done(self, ledger: Ledger, number: LogNumber) -> bool:
        """Whether the files are as they should be, as far as this process knows. No requests."""
        record = self._known.get(ledger.collection)
        view = ledger.known().bare
        if record is None or record.fill is not None or record.through < max(number, view.number):
            return False
        specs = specs_of(view.definition) if view.definition.keeps_files else {}
        patience = TablePatience(self._clock.now_ms(), self._seconds)
        return not any(
            patience.is_due(table, part)
            for table in record.tables
            if (spec := specs.get((table.kind, table.fields))) and (spec.is_automatic or table.has_erased)
            for part in table.parts
        )

    def _register(self, collection: str) -> RecordRegister:
        key = EnginePaths.of_collection(collection).files
        return RecordRegister(self._store, key, collection, self._chance)

    def _turn(self, collection: str) -> TimedLock:
        with self._lock:
            return self._turns.setdefault(collection, TimedLock(f"readable files of {collection}"))
