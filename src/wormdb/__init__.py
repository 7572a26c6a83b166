"""A document database whose only server is a bucket.

import wormdb

with wormdb.connect("s3://bucket/prefix") as db:
    db["customers"].insert({"name": "Ada"})
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for true; `typing` itself takes longer than the rest of this file

if TYPE_CHECKING:
    from typing import Any

    from wormdb.api.blobs import BlobReader, BlobTarget, StoredBlob
    from wormdb.api.bulk_write import BulkWriteResult
    from wormdb.api.collection import Collection
    from wormdb.api.cursor import Cursor
    from wormdb.api.database import Database, connect
    from wormdb.api.document import Document, rev_of
    from wormdb.api.erase import EraseResult
    from wormdb.api.familiar import InsertManyResult, InsertOneResult, ReturnDocument
    from wormdb.api.feed import Change, ChangeStream
    from wormdb.api.files import ReadableFiles
    from wormdb.api.functions import FunctionDefinition
    from wormdb.api.history import HistoryEntry
    from wormdb.api.imports.records import ImportResult, Rejection
    from wormdb.api.names import UnknownFieldWarning
    from wormdb.api.query import Query
    from wormdb.api.results import Results
    from wormdb.api.schema import ModelPlan, SchemaPlan
    from wormdb.api.snapshot import DatabaseSnapshot, SnapshotCollection
    from wormdb.api.status import CollectionStatus, IndexDescription, IndexSummary, ManifestStatus
    from wormdb.api.transaction import CollectionCommit, Transaction, TransactionCollection, TransactionCommit
    from wormdb.api.trash import TrashedDocument
    from wormdb.api.update import DeleteResult, UpdateResult
    from wormdb.engine.history.snapshots import Snapshot
    from wormdb.errors import (
        AlreadyExistsError,
        BarrierError,
        ClosedError,
        ConflictError,
        CorruptionError,
        ErasedError,
        InvalidRequestError,
        LimitExceededError,
        MissingExtraError,
        NotFoundError,
        OutcomeUnknownError,
        PermissionDeniedError,
        Problem,
        RemovedError,
        SchemaError,
        SchemaMismatchError,
        SnapshotTooOldError,
        TransactionConflictError,
        TransactionTooLargeError,
        TransactionTooOldError,
        UnavailableError,
        UniqueViolationError,
        UnsupportedFormatError,
        UnsupportedStoreError,
        ValidationError,
        WormError,
    )
    from wormdb.files.adopt.adopt import Adoption
    from wormdb.files.compare.faults import FileFault
    from wormdb.files.status import FilesStatus, TableStatus
    from wormdb.files.sync import FilesSyncResult
    from wormdb.format.blob import BlobReference, reference_of
    from wormdb.maintenance.audit.report import Finding, Loss, Repair, Verification
    from wormdb.maintenance.audit.traces import DocumentTrace
    from wormdb.maintenance.gc.report import GcResult, Tally, Victim
    from wormdb.maintenance.removal import DropResult
    from wormdb.maintenance.renaming import RenameResult
    from wormdb.query.execute.explain import Explanation
    from wormdb.schema.annotations import PLAIN_TEXT
    from wormdb.settings import Settings
    from wormdb.storage.open import open_store
    from wormdb.system.installed import __version__

__all__ = [
    "PLAIN_TEXT",
    "Adoption",
    "AlreadyExistsError",
    "BarrierError",
    "BlobReader",
    "BlobReference",
    "BlobTarget",
    "BulkWriteResult",
    "Change",
    "ChangeStream",
    "ClosedError",
    "Collection",
    "CollectionCommit",
    "CollectionStatus",
    "ConflictError",
    "CorruptionError",
    "Cursor",
    "Database",
    "DatabaseSnapshot",
    "DeleteResult",
    "Document",
    "DocumentTrace",
    "DropResult",
    "EraseResult",
    "ErasedError",
    "Explanation",
    "FileFault",
    "FilesStatus",
    "FilesSyncResult",
    "Finding",
    "FunctionDefinition",
    "GcResult",
    "HistoryEntry",
    "ImportResult",
    "IndexDescription",
    "IndexSummary",
    "InsertManyResult",
    "InsertOneResult",
    "InvalidRequestError",
    "LimitExceededError",
    "Loss",
    "ManifestStatus",
    "MissingExtraError",
    "ModelPlan",
    "NotFoundError",
    "OutcomeUnknownError",
    "PermissionDeniedError",
    "Problem",
    "Query",
    "ReadableFiles",
    "Rejection",
    "RemovedError",
    "RenameResult",
    "Repair",
    "Results",
    "ReturnDocument",
    "SchemaError",
    "SchemaMismatchError",
    "SchemaPlan",
    "Settings",
    "Snapshot",
    "SnapshotCollection",
    "SnapshotTooOldError",
    "StoredBlob",
    "TableStatus",
    "Tally",
    "Transaction",
    "TransactionCollection",
    "TransactionCommit",
    "TransactionConflictError",
    "TransactionTooLargeError",
    "TransactionTooOldError",
    "TrashedDocument",
    "UnavailableError",
    "UniqueViolationError",
    "UnknownFieldWarning",
    "UnsupportedFormatError",
    "UnsupportedStoreError",
    "UpdateResult",
    "ValidationError",
    "Verification",
    "Victim",
    "WormError",
    "__version__",
    "connect",
    "open_store",
    "reference_of",
    "rev_of",
]

# Each name is imported when it is first asked for: `import wormdb` itself costs next to nothing.
_LATER = {
    "Adoption": "wormdb.files.adopt.adopt",
    "AlreadyExistsError": "wormdb.errors",
    "BarrierError": "wormdb.errors",
    "BlobReader": "wormdb.api.blobs",
    "BlobReference": "wormdb.format.blob",
    "BlobTarget": "wormdb.api.blobs",
    "BulkWriteResult": "wormdb.api.bulk_write",
    "Change": "wormdb.api.feed",
    "ChangeStream": "wormdb.api.feed",
    "ClosedError": "wormdb.errors",
    "Collection": "wormdb.api.collection",
    "CollectionCommit": "wormdb.api.transaction",
    "CollectionStatus": "wormdb.api.status",
    "ConflictError": "wormdb.errors",
    "CorruptionError": "wormdb.errors",
    "Cursor": "wormdb.api.cursor",
    "Database": "wormdb.api.database",
    "DatabaseSnapshot": "wormdb.api.snapshot",
    "DeleteResult": "wormdb.api.update",
    "Document": "wormdb.api.document",
    "DocumentTrace": "wormdb.maintenance.audit.traces",
    "DropResult": "wormdb.maintenance.removal",
    "EraseResult": "wormdb.api.erase",
    "ErasedError": "wormdb.errors",
    "Explanation": "wormdb.query.execute.explain",
    "FileFault": "wormdb.files.compare.faults",
    "FilesStatus": "wormdb.files.status",
    "FilesSyncResult": "wormdb.files.sync",
    "Finding": "wormdb.maintenance.audit.report",
    "FunctionDefinition": "wormdb.api.functions",
    "GcResult": "wormdb.maintenance.gc.report",
    "HistoryEntry": "wormdb.api.history",
    "ImportResult": "wormdb.api.imports.records",
    "IndexDescription": "wormdb.api.status",
    "IndexSummary": "wormdb.api.status",
    "InsertManyResult": "wormdb.api.familiar",
    "InsertOneResult": "wormdb.api.familiar",
    "InvalidRequestError": "wormdb.errors",
    "LimitExceededError": "wormdb.errors",
    "Loss": "wormdb.maintenance.audit.report",
    "ManifestStatus": "wormdb.api.status",
    "MissingExtraError": "wormdb.errors",
    "ModelPlan": "wormdb.api.schema",
    "NotFoundError": "wormdb.errors",
    "PLAIN_TEXT": "wormdb.schema.annotations",
    "OutcomeUnknownError": "wormdb.errors",
    "PermissionDeniedError": "wormdb.errors",
    "Problem": "wormdb.errors",
    "Query": "wormdb.api.query",
    "ReadableFiles": "wormdb.api.files",
    "Rejection": "wormdb.api.imports.records",
    "RemovedError": "wormdb.errors",
    "RenameResult": "wormdb.maintenance.renaming",
    "Repair": "wormdb.maintenance.audit.report",
    "Results": "wormdb.api.results",
    "ReturnDocument": "wormdb.api.familiar",
    "SchemaError": "wormdb.errors",
    "SchemaMismatchError": "wormdb.errors",
    "SchemaPlan": "wormdb.api.schema",
    "Settings": "wormdb.settings",
    "Snapshot": "wormdb.engine.history.snapshots",
    "SnapshotCollection": "wormdb.api.snapshot",
    "SnapshotTooOldError": "wormdb.errors",
    "StoredBlob": "wormdb.api.blobs",
    "TableStatus": "wormdb.files.status",
    "Tally": "wormdb.maintenance.gc.report",
    "Transaction": "wormdb.api.transaction",
    "TransactionCollection": "wormdb.api.transaction",
    "TransactionCommit": "wormdb.api.transaction",
    "TransactionConflictError": "wormdb.errors",
    "TransactionTooLargeError": "wormdb.errors",
    "TransactionTooOldError": "wormdb.errors",
    "TrashedDocument": "wormdb.api.trash",
    "UnavailableError": "wormdb.errors",
    "UniqueViolationError": "wormdb.errors",
    "UnknownFieldWarning": "wormdb.api.names",
    "UnsupportedFormatError": "wormdb.errors",
    "UnsupportedStoreError": "wormdb.errors",
    "UpdateResult": "wormdb.api.update",
    "ValidationError": "wormdb.errors",
    "Verification": "wormdb.maintenance.audit.report",
    "Victim": "wormdb.maintenance.gc.report",
    "WormError": "wormdb.errors",
    "__version__": "wormdb.system.installed",
    "connect": "wormdb.api.database",
    "open_store": "wormdb.storage.open",
    "reference_of": "wormdb.format.blob",
    "rev_of": "wormdb.api.document",
}

# Names of earlier versions, each with the one that took its place: they go with the next release.
_RENAMED = {
    "Collected": "GcResult",
    "Explained": "Explanation",
    "FilesSynced": "FilesSyncResult",
    "Found": "Results",
    "Rejected": "Rejection",
    "Trashed": "TrashedDocument",
}


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__") and name not in __all__)]


if not TYPE_CHECKING:  # a type checker that saw this would take every misspelt name for one of ours

    def __getattr__(name: str) -> Any:
        if name in _RENAMED:
            import warnings

            warnings.warn(
                f"wormdb.{name} is called wormdb.{_RENAMED[name]} now; the old name goes with the next release",
                DeprecationWarning,
                stacklevel=2,
            )
            name = _RENAMED[name]
        import sys
        from importlib import import_module

        if name not in _LATER:
            raise AttributeError(f"module 'wormdb' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        found = globals()[name] = getattr(import_module(_LATER[name]), name)
        return found
