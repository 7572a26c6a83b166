"""A folder and a bucket that are kept equal: `Sync(folder, url)`."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.errors import ClosedError, InvalidRequestError, NotFoundError, UnavailableError
from wormdb.sync.folder import WorkFolder
from wormdb.sync.index import HeldManifest, iso_time
from wormdb.sync.paths import DEPTHS, SCHEMA_FILE, STATE_FOLDER, WHOLE, SyncScope, check_path, part_of
from wormdb.sync.report import FileTrouble, SyncReport, SyncRules
from wormdb.sync.state import LocalState
from wormdb.sync.survey import PreparedPush, survey
from wormdb.system.clock import SystemChance, SystemClock, new_write_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from wormdb.api.connection import Ledgers
    from wormdb.engine.ledger import Ledger
    from wormdb.storage.meter import MeteredStore
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.sync.collections import CollectionSync
    from wormdb.sync.pull import Pull
    from wormdb.sync.push import Push
    from wormdb.sync.remote import RemoteIndex
    from wormdb.sync.report import ConflictPolicy, FileDifference
    from wormdb.sync.upkeep import SyncCheck, Upkeep
    from wormdb.system.clock import Chance, Clock

__all__ = ["Sync"]

THREADS: Final = 32


_POLICIES: Final[Mapping[str, ConflictPolicy]] = {"local": "keep-local", "remote": "keep-remote"}


class _Truth(msgspec.Struct, rename="camel"):
    source_of_truth: str = ""


class Sync:
    """Keeps a folder and a bucket equal, in parts and without a lock. Not for several threads at once.

    What each side changed since the last time is told from what this folder remembers. A file that changed on both
    sides is a conflict: by default the bucket's takes its place, and the local one gets another name beside it.
    """

    def __init__(  # noqa: PLR0913 - the last four are for tests
        self,
        folder: str | os.PathLike[str],
        url: str | None = None,
        *,
        conflicts: ConflictPolicy | None = None,
        depths: Mapping[str, int] | None = None,
        told: Callable[[str, int], None] = lambda _path, _bytes: None,
        store: Store | None = None,
        pool: Pool | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
    ) -> None:
        """Open the folder. No requests. Without `url` it is synced with the bucket that it was synced with.

        A bucket that it was synced with is opened by the first call that needs it; another one is refused here.

        `depths` says how many folders a part of a new index takes, by the first of them; an index that exists keeps
        its own. `told` hears each file that was sent or fetched, with its bytes. `conflicts` is as the schema of the
        folder says by its `sourceOfTruth`, if there is one: local keeps the local file, remote the bucket's, else both.
        Raises InvalidRequestError.
        """
        self._clock, self._chance = clock or SystemClock(), chance or SystemChance()
        if conflicts not in (None, "keep-both", "keep-remote", "keep-local"):
            raise InvalidRequestError(
                f"conflicts={conflicts!r}", reason="it must be keep-both, keep-remote or keep-local"
            )
        self._folder = WorkFolder(Path(folder), self._clock)
        self._state = LocalState(self._folder.root)
        self._policy: ConflictPolicy = conflicts or _policy_of(self._folder.root)
        self._depths = dict(DEPTHS if depths is None else depths)
        self._told = told
        self._asked, self._store = url, store
        if pool is not None:
            self._pool = pool
        self._ledgers: Ledgers | None = None
        self._is_open = True
        if store is not None or self._state.url is None or url not in (None, self._state.asked_url):
            try:
                self._remember_place(self._meter.name)
            except BaseException:
                self._state.close()
                raise

    @cached_property
    def _pool(self) -> Pool:
        from wormdb.storage.pool import ThreadPool

        return ThreadPool(THREADS)

    @cached_property
    def _meter(self) -> MeteredStore:
        """The bucket; opened by the first call that needs it, which most pushes do not."""
        from wormdb.storage.meter import MeteredStore

        bare = self._store
        if bare is None:
            from wormdb.storage.open import open_store

            bare = open_store(self._url(self._asked), clock=self._clock, chance=self._chance)
        self._remember_place(bare.name)
        return MeteredStore(bare, clock=self._clock)

    @cached_property
    def _index(self) -> RemoteIndex:
        from wormdb.storage.retry import RetryingStore
        from wormdb.sync.remote import RemoteIndex

        store = RetryingStore(self._meter, clock=self._clock, chance=self._chance)
        return RemoteIndex(store, self._pool, self._clock, self._chance, self._state.listing)

    @cached_property
    def _upkeep(self) -> Upkeep:
        import socket

        from wormdb.sync.upkeep import Upkeep

        host = socket.gethostname()
        return Upkeep(self._index, self._clock, holder=_holder(host), hostname=host, pid=os.getpid())

    def _url(self, url: str | None) -> str:
        found = url or self._state.url
        if found is None:
            raise InvalidRequestError(
                f"folder {self._folder.root}", reason="it was not synced before", fix="give the URL of the bucket"
            )
        return found

    def _remember_place(self, name: str) -> None:
        known = self._state.url
        if known != name and self._state.is_blank:
            known = None  # nothing was ever found there: the name was mistyped, say
        if known is not None and known != name:
            raise InvalidRequestError(
                f"folder {self._folder.root}",
                reason=f"it is synced with {known}, not with {name}",
                fix=f"use another folder, or remove {STATE_FOLDER} to begin anew",
            )
        if known is None:
            self._state.url = name
        # A path means another folder elsewhere.
        if self._asked is not None and "://" in self._asked and self._asked != self._state.asked_url:
            self._state.asked_url = self._asked
        if self._state.client is None:
            self._state.client = str(new_write_id(self._chance))[:16]

    @property
    def url(self) -> str:
        """The bucket."""
        return self._state.url or self._meter.name

    @staticmethod
    def capabilities() -> dict[str, bool]:
        """What this client can do, in swamp's words. No requests."""
        return {"scopedSync": True, "lazyHydration": True, "twoPhaseSync": True, "previewPush": True}

    def push_changed(
        self,
        scope: Any = None,
        *,
        delete: bool = False,
        dry_run: bool = False,
        marked: bool = False,
        scan: bool = False,
        rebase: bool = False,
    ) -> SyncReport:
        """Bring what changed here to the bucket. No requests if nothing did; else 1 PUT a file, a part, the manifest.

        `scope` is a path, a model, or several. With `delete` the bucket becomes exactly like the folder: files that
        only it has go. With `marked` only marked paths are looked at. With `scan` the bucket is listed first, for what
        others wrote without the index. Conflicts are in the report, and nothing of them is changed.

        Folders that are collections of a database go by their logs, as `wormdb.sync.collections` says; with `rebase`
        batches of this folder are committed behind those of the bucket where both went on by themselves.
        Raises InvalidRequestError for an old index that is too large to be split by the way.
        """
        with self._running() as usage:
            push = self._survey(scope, delete=delete, dry_run=dry_run, marked=marked, scan=scan)
            report = push.report
            if dry_run:
                report.deleted_there += sorted(self._work().upload(push).deleted)
            elif not push.is_idle or self._state.manifest is None:
                work = self._work()
                for portion in work.portions(push):
                    work.commit(work.upload(portion))
                self._serve_old(report, SyncScope.of(scope))
            if self._folder.collections:
                if not dry_run:  # before they are there: a push that breaks off behind it is seen by pulls of others
                    self._name_collections(self._folder.collections)
                self._collections().push(self._folder.collections, report, rebase=rebase)
            return usage(report)

    def prepare_push(self, scope: Any = None, *, delete: bool = False, marked: bool = False) -> PreparedPush:
        """The first half of a push: files are uploaded, and no reader sees them yet. Costs as `push_changed`."""
        with self._running():
            return self._work().upload(self._survey(scope, delete=delete, dry_run=False, marked=marked, scan=False))

    def commit_push(self, push: PreparedPush) -> SyncReport:
        """The second half: what was uploaded is listed, deletions are done. 1 PUT a part, 1 for the manifest."""
        with self._running() as usage:
            work = self._work()
            work.note(push)
            report = work.commit(push)
            self._serve_old(report, WHOLE)
            return usage(report)

    def pull_changed(
        self,
        scope: Any = None,
        *,
        delete: bool = False,
        dry_run: bool = False,
        lazy: bool = False,
        scan: bool = False,
    ) -> SyncReport:
        """Bring what changed in the bucket to this folder. 1 GET if nothing did; else 1 a part that did, and 1 a file.

        Arguments as for `push_changed`; with `delete` files go that only this folder has. With `lazy` bodies of data
        (`data/**/raw`) stay in the bucket until `hydrate` fetches one. A collection costs 3 GETs if nothing changed.
        """
        with self._running() as usage:
            return usage(self._pull(scope, delete=delete, dry_run=dry_run, lazy=lazy, scan=scan))

    def _pull(
        self, scope: Any, *, delete: bool, dry_run: bool, lazy: bool, scan: bool, rebase: bool = False
    ) -> SyncReport:
        chosen = SyncScope.of(scope)
        pull = self._puller(is_lazy=lazy)
        held = self._index.read_manifest()
        if not dry_run and self._state.has_intents:
            held = self._settled(held)
        names = {*self._state.collections()}
        if held is None:
            old = self._index.read_old()
            listed = self._index.discover() if old is None else None
            names |= set() if listed is None else listed.collections
            files = old.entries if old is not None else listed.files if listed is not None else {}
            if dry_run:
                report = pull.run(self._index.new_manifest(self._depths), chosen, mirror=delete, is_dry=True)
            else:
                report = pull.apply_entries(files, chosen, self._depths)
        else:
            if scan and not dry_run:
                held = self._upkeep.scan(held, chosen)
            names |= {*held.manifest.collections}
            report = pull.run(held, chosen, mirror=delete, is_dry=dry_run)
        wanted = {name for name in names if chosen.holds(name)}
        if wanted:
            self._collections().pull(wanted, report, leaves_parted=rebase)
        return report

    def sync(
        self,
        scope: Any = None,
        *,
        dry_run: bool = False,
        lazy: bool = False,
        scan: bool = False,
        rebase: bool = False,
    ) -> SyncReport:
        """Pull, then push. Costs what both cost."""
        with self._running() as usage:
            pulled = usage(self._pull(scope, delete=False, dry_run=dry_run, lazy=lazy, scan=scan, rebase=rebase))
        return pulled.join(self.push_changed(scope, dry_run=dry_run, rebase=rebase))

    def differences(self, scope: Any = None) -> list[FileDifference]:
        """The files that are not the same on both sides, by their contents. Writes nothing; 1 GET, and 1 a part.

        A file whose content the index does not know counts as the same if its size is.
        """
        from wormdb.sync.difference import differences

        with self._running():
            chosen = SyncScope.of(scope)
            held = self._index.read_manifest()
            if held is None:
                old = self._index.read_old()
                there = dict(self._index.discover().files if old is None else old.entries)
            else:
                depths = held.manifest.depths
                notes = {name: each for name, each in held.manifest.partitions.items() if chosen.touches(name, depths)}
                parts = self._index.read_parts(notes)
                there = {path: entry for part in parts.values() for path, entry in part.files.items()}
            return differences(self._folder, self._state, there, chosen)

    def mark_dirty(self, path: str | None = None) -> None:
        """Say that a file or folder changed, or is about to; without a path that anything may have. No requests.

        A path that leads out of the folder counts as everything. Marks are kept on disk; a push takes away only those
        that were there when it began. Mark before a write and after it.
        """
        self._check_open()
        try:
            found = "" if path is None else check_path(path.removeprefix("./").rstrip("/"))
        except InvalidRequestError:
            found = ""
        self._state.mark(found)

    def hydrate(self, path: str) -> bool:
        """Fetch one file that a lazy pull left in the bucket; False if the bucket does not have it. 2 GETs."""
        with self._running():
            check_path(path)
            held = self._index.read_manifest()
            if held is None:
                return False
            name = part_of(path, held.manifest.depths)
            note = held.manifest.partitions.get(name)
            part = None if note is None else self._index.read_part(name, note.key)
            entry = None if part is None else part.files.get(path)
            if entry is None:
                return False
            found = self._puller(is_lazy=False).hydrate(path, entry)
            if isinstance(found, FileTrouble):
                raise UnavailableError(f"file {path}", reason=found.reason)
            if found is not None:
                with self._state.changing():
                    self._state.hold_files({path: (name, found)})
            return found is not None

    def migrate(self, *, shim: bool | None = None) -> HeldManifest:
        """Make a manifest and parts of an old index, however large; and take in what old clients pushed since.

        `shim` says whether the old form is kept for them: as it is by default.
        """
        with self._running():
            held = self._index.read_manifest()
            if held is None:
                old = self._index.read_old()
                if old is None:
                    raise NotFoundError(f"an old index in {self.url}", reason="there is none", fix="push something")
                held = self._upkeep.split(old, self._depths, is_asked=True, keeps_shim=shim is not False)
            held = self._upkeep.take_in_old(held)
            return self._upkeep.drop_shim(held) if shim is False else held

    def compact(self) -> SyncCheck:
        """Remove what the index does not need any more. 1 LIST, 2 GETs and 1 HEAD for each part."""
        with self._running():
            held = self._index.read_manifest()
            return self._upkeep.compact(held or self._index.new_manifest(self._depths))

    def check(self, *, repair: bool = False) -> SyncCheck:
        """Examine the index: parts that are not listed, paths that lead elsewhere. 1 LIST, 1 GET a part."""
        with self._running():
            held = self._index.read_manifest(is_broken=True)
            return self._upkeep.check(held or self._index.new_manifest(self._depths), repair=repair)

    def close(self) -> None:
        """Give back what is open. May be called twice."""
        if self._is_open:
            self._is_open = False
            self._state.close()
            if "_pool" in self.__dict__:
                self._pool.close()
            if "_meter" in self.__dict__:
                self._meter.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _work(self) -> Push:
        from wormdb.sync.push import Push

        return Push(self._index, self._folder, self._state, self._rules())

    def _puller(self, *, is_lazy: bool) -> Pull:
        from wormdb.sync.pull import Pull

        return Pull(self._index, self._folder, self._state, self._rules(is_lazy=is_lazy))

    def _survey(self, scope: Any, *, delete: bool, dry_run: bool, marked: bool, scan: bool) -> PreparedPush:
        marks = self._state.marks()
        chosen = _narrowed(SyncScope.of(scope), marks) if marked else SyncScope.of(scope)
        if chosen is None:
            self._folder.collections.clear()
            return PreparedPush(self._index.new_manifest(self._depths), {})
        settled = self._settled(self._index.read_manifest()) if self._state.has_intents and not dry_run else None
        held = settled or self._open_index(is_dry=dry_run)
        if scan and not dry_run:
            held = self._upkeep.scan(held, chosen)
            with self._state.changing():
                self._state.forget_index()
        prepared = PreparedPush(held, {}, report=SyncReport(is_dry=dry_run))
        present = survey(self._folder, self._state, chosen, prepared, mirror=delete)
        if delete:
            self._work().mirror(prepared, chosen, present)
        prepared.marks = {path: number for path, number in marks.items() if chosen.holds(path) or chosen.is_whole}
        return prepared

    def _serve_old(self, report: SyncReport, scope: SyncScope) -> None:
        """After a push of everything: take in what old clients pushed, and show them what is new."""
        if scope.is_whole and report.count:
            known = self._state.manifest
            if known is not None and known[0].shim is not None:
                held = self._upkeep.take_in_old(HeldManifest(*known))
                self._upkeep.write_shim(held)

    def _settled(self, held: HeldManifest | None) -> HeldManifest | None:
        """The manifest when it is known what became of a push that broke off; None if the index is one of before."""
        from wormdb.sync.intents import settle

        if held is None and self._index.read_old() is not None:
            return None
        return settle(
            self._index, self._state, held or self._index.new_manifest(self._depths), self._state.client or ""
        )

    def _open_index(self, *, is_dry: bool) -> HeldManifest:
        """The manifest as it is known here, or else read, or made. No requests if it is known."""
        known = self._state.manifest
        if known is not None:
            return HeldManifest(*known)
        from wormdb.sync.remote import with_collections

        found = self._index.read_manifest()
        if found is not None:
            return found
        old = self._index.read_old()
        if old is None:
            held = self._index.new_manifest(self._depths)
            # Written before the first file: a bucket without it would be listed, with what a broken push left there.
            if is_dry:
                return held
            objects = self._index.discover()
            held = self._index.publish(objects.files, held)
            return self._index.update_manifest(held, lambda one: with_collections(one, objects.collections))
        if is_dry:
            return self._index.new_manifest(self._depths)
        return self._upkeep.split(old, self._depths, is_asked=False, keeps_shim=True)

    def _collections(self) -> CollectionSync:
        """What brings collections from one side to the other; imported by the first that is met."""
        from wormdb.storage.open import open_store
        from wormdb.sync.collections import CollectionSides, CollectionSync

        sides = CollectionSides(
            local=lambda: open_store(str(self._folder.root), clock=self._clock, chance=self._chance),
            remote=self._index.store,
            ledger=self._ledger,
            pool=self._pool,
            chance=self._chance,
        )
        return CollectionSync(self._folder.root, self._state, sides)

    def _ledger(self, collection: str) -> Ledger:
        """A collection of the bucket as writers have it; the bucket's own processes forward it."""
        if self._ledgers is None:
            from wormdb.api.connection import Ledgers
            from wormdb.settings import Settings

            self._ledgers = Ledgers(
                self._meter, self._pool, settings=Settings(forward="manual"), clock=self._clock, chance=self._chance
            )
        return self._ledgers.of(collection)

    def _name_collections(self, names: Iterable[str]) -> None:
        """Have the manifest name collections, for pulls of others. 1 PUT if it does not yet, and 1 GET before it."""
        wanted = {*names}
        known = self._state.manifest
        if not wanted or (known is not None and wanted <= {*known[0].collections}):
            return
        from wormdb.sync.remote import with_collections

        held = self._index.read_manifest() or self._index.new_manifest(self._depths)
        held = self._index.update_manifest(held, lambda one: with_collections(one, wanted))
        if held.version is not None:
            with self._state.changing():
                self._state.hold_manifest(held.manifest, held.version)

    def _rules(self, *, is_lazy: bool = False) -> SyncRules:
        moment = iso_time(self._clock.now_ms())[:19].replace(":", "").replace("-", "") + "Z"
        return SyncRules(self._state.client or "", self._policy, moment, self._told, is_lazy)

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClosedError("sync", reason="it was closed", fix="make a new one")

    @contextmanager
    def _running(self) -> Iterator[Callable[[SyncReport], SyncReport]]:
        """While one process works on a folder, others wait; what the block returns is told its requests."""
        self._check_open()
        mark = self._meter.mark() if "_meter" in self.__dict__ else None

        def usage(report: SyncReport) -> SyncReport:
            if "_meter" in self.__dict__:
                report.requests = (self._meter.mark() if mark is None else self._meter.since(mark)).requests
            return report

        with _alone(self._state.file.with_name("lock")):
            yield usage


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Hold a lock of this machine; raises UnavailableError if another process has it."""
    import fcntl

    with file.open("w") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnavailableError(
                f"folder {file.parents[1]}", reason="another process syncs it now", fix="wait until it is done"
            ) from None
        yield


def _narrowed(scope: SyncScope, marks: Mapping[str, int]) -> SyncScope | None:
    """What is marked of a scope; None if nothing is."""
    if "" in marks:
        return scope
    paths = tuple(path for path in marks if scope.holds(path))
    within = tuple(each for each in scope.prefixes if any(each.startswith(f"{path}/") for path in marks))
    return SyncScope.of((*paths, *within)) if paths or within else None


def _policy_of(folder: Path) -> ConflictPolicy:
    """What the schema of a folder says of conflicts, by its `sourceOfTruth`; both are kept without one."""
    try:
        found = msgspec.json.decode((folder / SCHEMA_FILE).read_bytes(), type=_Truth).source_of_truth
    except (OSError, msgspec.DecodeError):
        return "keep-both"
    return _POLICIES.get(found, "keep-both")


def _holder(host: str) -> str:
    import getpass

    try:
        return f"{getpass.getuser()}@{host}"
    except (OSError, KeyError):
        return host
