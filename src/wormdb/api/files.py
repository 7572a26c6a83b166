"""The readable files of a database's collections, for operators: status, on, off, sync, migrate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.api.guard import FilesGuard
from wormdb.engine.commit.operations import Pending
from wormdb.engine.commit.resolve import landed
from wormdb.errors import ConflictError, InvalidRequestError
from wormdb.files.compare.check import names_in
from wormdb.files.migrate import LayoutMigration, plan_migration, switch_to
from wormdb.files.status import FilesStatus, status_of
from wormdb.files.sync import FilesSyncResult, remove_files, sync_files
from wormdb.files.verify import file_site
from wormdb.files.write.record import claim_name
from wormdb.format.event import FilesSwitched
from wormdb.schema.model import Layout, Model, Schema, StorageDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wormdb.api.calls import Author
    from wormdb.engine.ledger import CommitResult, Ledger
    from wormdb.engine.state.definition import Definition
    from wormdb.engine.state.view import View
    from wormdb.files.keeper import FilesKeeper
    from wormdb.maintenance.collection import StoredCollection
    from wormdb.storage.store import Store

__all__ = ["FilesPlacement", "ReadableFiles"]

_ATTEMPTS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class ReadableFiles:
    """What `Database.files` gives. `names` are those of models or folders; without any, all models are meant."""

    _prefixes: Callable[[Iterable[str] | None], list[str]]
    _site: Callable[[str], StoredCollection]
    _ledger: Callable[[str], Ledger]
    _keeper: FilesKeeper
    _placement: FilesPlacement
    _by: Author

    def status(self, names: Iterable[str] | None = None, *, counted: bool = False) -> list[FilesStatus]:
        """How far the files of collections are, in order of their folders.

        3 GETs for each; with `counted` also 1 LIST for each 1,000 objects, to tell how many files there are.
        """
        return [status_of(file_site(self._site(prefix)), counted=counted) for prefix in self._prefixes(names)]

    def sync(self, name: str, told: Callable[[int], None] | None = None) -> FilesSyncResult:
        """Reconcile every file of a collection with its state, whatever became of it; returns what was done.

        1 GET for each file, 1 LIST for each 1,000 objects, a scan of documents and history, and what has to be written
        or removed. `told` hears how many documents are done. May be repeated at any time, beside other writers.
        Raises InvalidRequestError if files were never on, UnavailableError.
        """
        (prefix,) = self._prefixes([name])
        return sync_files(file_site(self._site(prefix)), self._keeper, told or _silent)

    def on(self, name: str, told: Callable[[int], None] | None = None) -> FilesSyncResult:
        """Keep readable files from now on, and write all of them. 1 PUT for the log, and what `sync` costs.

        They lie where the schema says, or where they lay before. Raises InvalidRequestError for a collection without
        a model, and as `sync`.
        """
        (prefix,) = self._prefixes([name])
        switched = self._switch(prefix, enabled=True)
        with landed(f"readable files of {name}", switched, rest="they are on; sync() writes them"):
            return self.sync(name, told)

    def off(self, name: str, told: Callable[[int], None] | None = None) -> int:
        """Keep no readable files any more, and remove those that are there; returns how many. Documents stay.

        1 PUT for the log, 1 LIST for each 1,000 objects, 1 DELETE for each 1,000 files. Objects that are not files of
        this collection are left alone. Raises InvalidRequestError if files were never on.
        """
        (prefix,) = self._prefixes([name])
        switched = self._switch(prefix, enabled=False)
        site = file_site(self._site(prefix))
        with landed(
            f"readable files of {name}", switched, rest="they are off; off() again removes those that are left"
        ):
            names = names_in(site.ledger.view(), prefix)
            assert names is not None, "they were just switched off"
            self._keeper.forget(prefix)
            return remove_files(site, names, told or _silent)

    def migrate(
        self,
        name: str,
        *,
        wanted: Mapping[str, Layout],
        dry_run: bool = False,
        told: Callable[[int], None] | None = None,
    ) -> LayoutMigration:
        """Move some of `oplog`, `snapshots` and `trash` of a collection to other places; returns from where to where.

        1 PUT for the log, and for each file that moves 1 PUT and a part of a DELETE; 1 GET for each document. The
        sentinel of the bucket is made from all collections that are known: 1 or 2 GETs each. Every
        file is at its new place before it is removed from the old one. A run that was cut off is gone on with by the
        next one. `told` hears how many documents are done. Raises InvalidRequestError if files are not kept.
        """
        (prefix,) = self._prefixes([name])
        ledger = self._ledger(prefix)
        migration = plan_migration(ledger.view(), prefix, wanted)
        if dry_run:
            return migration
        moved = None
        if migration.is_needed:
            moved = self._commit(prefix, lambda view: self._moved(view, prefix, wanted))
        with landed(f"the layout of {name}", moved, rest="migrate() again moves the files that are left"):
            self._keeper.flush(ledger, told or _silent)
            self._keeper.announce(map(self._ledger, self._prefixes(None)))
        return migration

    def _moved(self, view: View, prefix: str, wanted: Mapping[str, Layout]) -> FilesSwitched | None:
        migration = plan_migration(view, prefix, wanted)
        return switch_to(migration, view, self._site(prefix).runtime.store) if migration.is_needed else None

    def _switch(self, prefix: str, *, enabled: bool) -> CommitResult | None:
        def switched(view: View) -> FilesSwitched | None:
            if view.definition.keeps_files == enabled and (enabled or view.definition.files is not None):
                return None
            return self._switched(view, prefix, enabled=enabled)

        return self._commit(prefix, switched)

    def _commit(self, prefix: str, switched: Callable[[View], FilesSwitched | None]) -> CommitResult | None:
        """Commit what has to be switched, seen from the newest state; its entry, None if nothing has to be."""
        ledger, site = self._ledger(prefix), self._site(prefix)
        for _ in range(_ATTEMPTS_MAX):
            view = ledger.view()
            event = switched(view)
            if event is None:
                return None
            pending = Pending(
                site.runtime.batch_id(),
                events=(event,),
                actor=self._by.actor,
                meta=self._by.meta,
                guard=FilesGuard(view),
            )
            try:
                return ledger.commit(pending)
            except ConflictError:
                continue
        raise ConflictError(f"the files of {prefix}", reason="others switch them all the time")

    def _switched(self, view: View, prefix: str, *, enabled: bool) -> FilesSwitched:
        model, before = view.definition.model, view.definition.files
        if model is None:
            raise InvalidRequestError(
                f"the files of {prefix}", reason="it has no model", fix="apply a schema that has a model for it"
            )
        if model.path.is_of_others:
            raise InvalidRequestError(
                f"the files of {prefix}",
                reason=f"only other programs write files such as *{model.path.extension}",
                fix="export it, or import it into a collection of another model",
            )
        if before is not None:
            return msgspec.structs.replace(before, enabled=enabled)
        if not enabled:
            raise InvalidRequestError(f"the files of {prefix}", reason="they were never on")
        return self._placement.switch_on(model, prefix)


def _silent(_: int) -> None:
    """For a caller that gave no `told`."""


# --- Readable files of a database: how a new collection keeps them, and what switches them.


@dataclass(frozen=True, slots=True)
class FilesPlacement:
    """Where the readable files of a database's collections lie."""

    store: Store
    schema: Callable[[], Schema | None]
    before_first_write: Callable[[], None]

    def switch_on(self, model: Model, collection: str) -> FilesSwitched:
        """Files are kept, in the layout of the schema. 1 PUT if the short name in root folders has to be claimed."""
        schema = self.schema()
        storage = StorageDefinition() if schema is None else schema.storage
        oplog, snapshots, trash = (storage.layout_of(kind) for kind in ("oplog", "snapshots", "trash"))
        name = collection
        if "root" in {oplog, snapshots, trash} and not model.path.outer:
            self.before_first_write()
            name = claim_name(self.store, model.path.collection_name, collection)
        return FilesSwitched(enabled=True, oplog=oplog, snapshots=snapshots, trash=trash, name=name)

    def switched(self, model: Model, before: Definition, collection: str) -> FilesSwitched | None:
        """What a new model switches; None if files stay as they are. Costs as `switch_on`."""
        is_new = before.model is None or before.model.files != model.files
        if not is_new or model.files == before.keeps_files:
            return None
        if before.files is None:
            return self.switch_on(model, collection)
        return FilesSwitched(
            enabled=model.files,
            oplog=before.files.oplog,
            snapshots=before.files.snapshots,
            trash=before.files.trash,
            name=before.files.name,
        )
