"""Collections of a folder and a bucket: a database here and one there, whose logs go on from each other.

A folder that has `.worm.db` is a collection. Its log here and its log in the bucket have a number and a hash where they
end. If one is the beginning of the other, what is missing is copied. If both went on by themselves they parted: that is
told, with the last number that both have, or the own batches are committed behind the bucket's.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from wormdb.engine.log.paths import EnginePaths
from wormdb.errors import InvalidRequestError, UnavailableError, WormError
from wormdb.format.entry import decode_entry
from wormdb.sync.copying import LogCopy, PartedError
from wormdb.sync.logs import CollectionLog
from wormdb.sync.paths import STATE_FOLDER
from wormdb.sync.report import BatchConflict, SyncedCollection
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from wormdb.engine.ledger import Ledger
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.sync.copying import CopyResult
    from wormdb.sync.logs import ReadLog
    from wormdb.sync.report import CollectionVerb, SyncReport
    from wormdb.sync.state import LocalState, LogEnd
    from wormdb.system.clock import Chance

__all__ = ["CollectionSides", "CollectionSync"]

_ENGINE: Final = ".worm.db"


@dataclass(frozen=True, slots=True)
class CollectionSides:
    """Where the two sides are: the folder as a store, opened anew each time, the bucket, and its ledgers."""

    local: Callable[[], Store]
    remote: Store
    ledger: Callable[[str], Ledger]
    pool: Pool
    chance: Chance


class CollectionSync:
    """Collections of one folder and its bucket."""

    def __init__(self, folder: Path, state: LocalState, sides: CollectionSides) -> None:
        """Nothing is read yet."""
        self._folder = folder
        self._state = state
        self._local = sides.local
        self._remote = sides.remote
        self._ledger = sides.ledger
        self._pool = sides.pool
        self._chance = sides.chance

    def push(self, names: Iterable[str], report: SyncReport, *, rebase: bool = False) -> None:
        """Bring what the folder's collections have to the bucket. No requests for one that did not change since.

        Else 3 GETs to see where the bucket's log ends, 1 for each new entry of it, and what `LogCopy.run` costs.
        With `rebase` a collection whose logs parted is rebased; else it is told. What fails is told too.
        """
        for name in sorted(names):
            self._tell(name, report, lambda name: self._push(name, rebase=rebase, is_dry=report.is_dry))

    def pull(self, names: Iterable[str], report: SyncReport, *, leaves_parted: bool = False) -> None:
        """Bring what the bucket's collections have to the folder. 3 GETs for one that did not change, else as `push`.

        With `leaves_parted` a collection whose logs parted is left to the push that follows.
        """
        for name in sorted(names):
            self._tell(name, report, lambda name: self._pull(name, is_dry=report.is_dry), leaves_parted=leaves_parted)

    def _tell(
        self,
        name: str,
        report: SyncReport,
        work: Callable[[str], SyncedCollection | None],
        *,
        leaves_parted: bool = False,
    ) -> None:
        try:
            found = work(name)
        except PartedError as error:
            if leaves_parted:
                return
            found = SyncedCollection(name, "parted", number=error.number, reason=error.reason)
        except WormError as error:
            fix = f" ({error.fix})" if error.fix else ""
            found = SyncedCollection(name, "failed", reason=f"{error.reason or error.what}{fix}")
        if found is not None:
            report.collections.append(found)

    def _log(self, store: Store, name: str) -> CollectionLog:
        return CollectionLog(store, self._pool, f"{name}/")

    def _push(self, name: str, *, rebase: bool, is_dry: bool) -> SyncedCollection | None:
        with self._local() as local:
            here = self._log(local, name).read()
            base = self._state.collection(name)
            if here.is_empty or here.end == base:
                return None
            there = self._log(self._remote, name).read(base)
            try:
                is_behind = self._is_beginning(here, there, base)
                if is_behind:
                    if here.end == there.end:
                        self._hold(name, here.end)
                        return None
                    reason = f"the bucket has {there.end.number - here.end.number:,} more entries: pull"
                    return SyncedCollection(name, "behind", number=here.end.number, reason=reason)
                if is_dry:
                    return SyncedCollection(name, "pushed", here.end.number - there.end.number, here.end.number)
                result = LogCopy(here, there, self._chance).run(may_bridge=False)
            except PartedError as error:
                if not rebase or is_dry:
                    raise
                own = self._rebase(name, here, error.number)
            else:
                return self._done(name, "pushed", result)
        return self._replace(name, own, here.end)

    def _pull(self, name: str, *, is_dry: bool) -> SyncedCollection | None:
        base = self._state.collection(name)
        there = self._log(self._remote, name).read(base)
        if there.is_empty:
            return None
        with self._local() as local:
            here = self._log(local, name).read()
            if not self._is_beginning(here, there, base):
                return None  # this side is ahead
            if here.end == there.end:
                if base != here.end and not is_dry:
                    self._hold(name, here.end)
                return None
            if is_dry:
                return SyncedCollection(name, "pulled", there.end.number - here.end.number, there.end.number)
            try:
                result = LogCopy(there, here, self._chance).run(may_bridge=True)
            except PartedError as error:
                if error.late is not None:
                    self._keep_late(here, error.number + 1, error.late)
                raise
        self._remove_aside(name)
        return self._done(name, "pulled", result)

    def _keep_late(self, here: ReadLog, number: int, body: bytes) -> None:
        """Keep what another process wrote to the folder while a root came over it, where conflicts are kept."""
        from wormdb.sync.rebase import OwnBatch

        log = here.log
        entry = decode_entry(body, name=log.paths.entry(LogNumber(number)), number=number, collection=log.collection)
        reason = "it was written while a pull bridged trimmed entries"
        self._keep(
            log.collection.rstrip("/"),
            [msgspec.json.encode(OwnBatch(number, batch).to_json(reason)) for batch in entry.batches if batch.changes],
        )

    def _is_beginning(self, one: ReadLog, other: ReadLog, base: LogEnd | None) -> bool:
        """Whether a log is a beginning of another, or equal; False if it is the other way round.

        Raises PartedError, and UnavailableError if trimmed entries do not tell. At most 1 GET, some more to find where
        they parted.
        """
        is_shorter = one.end.number <= other.end.number
        short, long = (one, other) if is_shorter else (other, one)
        there = long.hash_at(short.end.number)
        if there == short.end.hash or (there is None and short.end == base):
            return is_shorter
        if there is None and base is None:
            raise UnavailableError(
                f"the log of {one.log.collection.rstrip('/')}",
                reason=f"it ends at {short.end.number} on one side, and the other has trimmed its entries through "
                f"{long.trimmed}: whether they are one log cannot be told",
                fix="pull into a new folder",
            )
        raise PartedError(one.log.collection, self._parting(short, long, base))

    @staticmethod
    def _parting(short: ReadLog, long: ReadLog, base: LogEnd | None) -> int:
        """The last number at which both have the same entry. Up to 2 GETs for each halving."""
        low = max(0 if base is None else base.number, short.trimmed, long.trimmed)
        if low >= short.end.number:
            return short.end.number if base is None else base.number
        if short.hash_at(low) != long.hash_at(low):
            low = 0  # another log altogether, as far as can be told
            if max(short.trimmed, long.trimmed):
                return 0
        high = short.end.number
        while low + 1 < high:
            middle = (low + high) // 2
            if short.hash_at(middle) == long.hash_at(middle):
                low = middle
            else:
                high = middle
        return low

    def _done(self, name: str, verb: CollectionVerb, result: CopyResult) -> SyncedCollection:
        self._hold(name, result.end)
        reason = "a transaction is not finished in it: its entries wait" if result.has_waiting else None
        return SyncedCollection(name, verb, result.entries, result.end.number, reason=reason)

    def _hold(self, name: str, end: LogEnd) -> None:
        with self._state.changing():
            self._state.hold_collection(name, end)

    # --- logs that parted ---

    def _rebase(self, name: str, here: ReadLog, common: int) -> SyncedCollection:
        """Commit the own batches in the bucket. Costs as `commit_own`, and 1 GET an entry of both since they parted."""
        from wormdb.sync.rebase import commit_own, keep_owners, own_batches

        if here.trimmed > common:
            raise UnavailableError(
                f"rebase of {name}",
                reason=f"own entries after {common} were trimmed here",
                fix="export the documents and import them there",
            )
        there = self._log(self._remote, name).read()
        ledger = self._ledger(f"{name}/")
        own = own_batches(here, common, ledger.view().definition.body)
        if LogCopy(here, there, self._chance).copy_blobs(own):
            keep_owners(ledger)
        begun = self._state.rebase_begun(name)
        if begun is None:
            begun = there.end.number
            self._state.begin_rebase(name, begun)
            landed: set[str] = set()
        else:
            landed = self._landed(there, begun)
        conflicts: list[BatchConflict] = []
        kept = []
        for each, conflict in zip(own, commit_own(own, ledger, landed), strict=True):
            if conflict is not None:
                conflicts.append(conflict)
                kept.append(msgspec.json.encode(each.to_json(conflict.reason)))
        self._keep(name, kept)
        return SyncedCollection(name, "rebased", len(own) - len(conflicts), common, conflicts=conflicts)

    def _keep(self, name: str, lines: list[bytes]) -> None:
        """Add lines to the file of conflicts; those of a rebase that broke off are there once."""
        file = self._beside("conflicts", name)
        file = file.with_name(f"{file.name}.jsonl")
        before = file.read_bytes().splitlines() if file.exists() else []
        temporary = file.with_name(f"{file.name}.tmp")
        temporary.write_bytes(b"".join(line + b"\n" for line in dict.fromkeys([*before, *lines])))
        if lines:
            temporary.replace(file)
        temporary.unlink(missing_ok=True)

    @staticmethod
    def _landed(there: ReadLog, begun: int) -> set[str]:
        """The ids of the batches that came into the bucket's log since a rebase began. 1 GET an entry."""
        collection = there.log.collection
        if there.trimmed > begun:
            raise InvalidRequestError(
                f"rebase of {collection.rstrip('/')}",
                reason=f"it was broken off, and the bucket has trimmed its entries through {there.trimmed} since: what "
                "of it was committed cannot be told",
                fix="pull into a new folder, and compare",
            )
        found: set[str] = set()
        for number, body in there.after(begun):
            name = there.log.paths.entry(LogNumber(number))
            entry = decode_entry(body, name=name, number=number, collection=collection)
            found.update(batch.id for batch in entry.batches)
        return found

    def _replace(self, name: str, done: SyncedCollection, end: LogEnd) -> SyncedCollection:
        """Let the bucket's log take the place of the local one, all of whose batches through `end` are decided.

        The local one is moved aside by one rename. If this breaks off behind it, the next pull copies the rest.
        Raises UnavailableError if another process wrote to the folder meanwhile: the next rebase takes that in too.
        """
        engine, aside = self._folder / name / _ENGINE, self._beside("aside", name)
        if aside.exists():
            shutil.rmtree(aside)
        engine.rename(aside)
        following = EnginePaths("").entry(LogNumber(end.number + 1))
        if (aside / following).exists():
            aside.rename(engine)
            raise UnavailableError(
                f"rebase of {name}", reason="another process wrote to the folder meanwhile", fix="do it again"
            )
        with self._state.changing():
            self._state.drop_collection(name)
        there = self._log(self._remote, name).read()
        with self._local() as local:
            here = self._log(local, name).read()
            self._is_beginning(here, there, None)  # what a process wrote in this moment to the empty place is parted
            result = LogCopy(there, here, self._chance).run(may_bridge=here.is_empty)
        self._hold(name, result.end)
        self._remove_aside(name)
        return SyncedCollection(name, "rebased", done.entries, result.end.number, conflicts=done.conflicts)

    def _remove_aside(self, name: str) -> None:
        aside = self._beside("aside", name)
        if aside.exists():
            shutil.rmtree(aside)

    def _beside(self, kind: str, name: str) -> Path:
        file = self._folder / STATE_FOLDER / kind / quote(name, safe="")
        file.parent.mkdir(parents=True, exist_ok=True)
        return file
