"""What users import is pinned: adding or removing a name is a decision, not an accident."""

from __future__ import annotations

import pickle  # noqa: TID251 - process pools send errors home this way
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import wormdb
from wormdb import errors

if TYPE_CHECKING:
    from wormdb.errors import WormError

PUBLIC = [
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
    "PLAIN_TEXT",
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

RENAMED = {
    "Collected": "GcResult",
    "Explained": "Explanation",
    "FilesSynced": "FilesSyncResult",
    "Found": "Results",
    "Rejected": "Rejection",
    "Trashed": "TrashedDocument",
}
"""Names of the release before this one: each is an alias for one release."""

PARENTS = {
    "AlreadyExistsError": "WormError",
    "BarrierError": "UnavailableError",
    "ClosedError": "WormError",
    "ConflictError": "WormError",
    "CorruptionError": "WormError",
    "ErasedError": "NotFoundError",
    "InvalidRequestError": "WormError",
    "LimitExceededError": "InvalidRequestError",
    "MissingExtraError": "InvalidRequestError",
    "NotFoundError": "WormError",
    "OutcomeUnknownError": "WormError",
    "PermissionDeniedError": "WormError",
    "RemovedError": "NotFoundError",
    "SchemaError": "InvalidRequestError",
    "SchemaMismatchError": "InvalidRequestError",
    "SnapshotTooOldError": "WormError",
    "TransactionConflictError": "ConflictError",
    "TransactionTooLargeError": "LimitExceededError",
    "TransactionTooOldError": "SnapshotTooOldError",
    "UnavailableError": "WormError",
    "UniqueViolationError": "AlreadyExistsError",
    "UnsupportedFormatError": "WormError",
    "UnsupportedStoreError": "WormError",
    "ValidationError": "InvalidRequestError",
    "WormError": "Exception",
}


def test_public_names() -> None:
    assert sorted(wormdb.__all__) == PUBLIC
    assert [name for name in PUBLIC if not hasattr(wormdb, name)] == []


def test_completion_offers_the_public_names_and_nothing_else() -> None:
    offered = [name for name in dir(wormdb) if not name.startswith("__")]
    assert offered == [name for name in PUBLIC if name != "__version__"]


@pytest.mark.parametrize(("old", "new"), sorted(RENAMED.items()))
def test_an_old_name_is_an_alias_that_warns(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"wormdb\.{old} is called wormdb\.{new} now"):
        assert getattr(wormdb, old) is getattr(wormdb, new)
    assert old not in wormdb.__all__


def test_a_misspelt_name_is_corrected() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import wormdb; wormdb.conect"], capture_output=True, text=True, check=False
    )
    assert "Did you mean: 'connect'?" in done.stderr


def test_error_tree() -> None:
    assert {name: getattr(errors, name).__bases__[0].__name__ for name in PARENTS} == PARENTS
    assert {*errors.__all__} == {*PARENTS, "Problem"}


def test_error_tree_is_drawn_as_it_is() -> None:
    drawn = errors.__doc__ or ""
    assert [name for name in PARENTS if name not in drawn] == []


@pytest.mark.parametrize("name", sorted(PARENTS.keys() - {"UniqueViolationError"}))
def test_errors_say_what_why_and_fix_and_survive_pickling(name: str) -> None:
    kind: type[WormError] = getattr(errors, name)
    error = kind("object 'a/b'", reason="it is torn", fix="restore it", key="a/b")
    copy = pickle.loads(pickle.dumps(error))
    assert str(error) == str(copy) == "object 'a/b': it is torn (restore it)"
    assert (type(copy), copy.key, copy.reason, copy.fix) == (kind, "a/b", "it is torn", "restore it")


def test_facts_of_an_error_survive_pickling() -> None:
    error = errors.UniqueViolationError(index="byEmail", field="email", value="a@b.c", owner="x")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == "Unique constraint violation: email='a@b.c' already exists on entity 'x'"
    assert (copy.index, copy.field, copy.value, copy.owner) == ("byEmail", "email", "a@b.c", "x")
    unknown = errors.OutcomeUnknownError("commit", commit_id="7-ab-cd")
    assert pickle.loads(pickle.dumps(unknown)).commit_id == "7-ab-cd"


def test_import_is_light() -> None:
    """The libraries that take long to import wait until they are needed."""
    program = (
        "import sys, wormdb; print([m for m in ('pyarrow', 'obstore', 'rich', 'bson', 'urllib3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_queries_are_imported_by_the_first_that_asks() -> None:
    """A process that only gets and saves documents waits neither for what answers queries nor for imports."""
    program = (
        "import sys, wormdb; things = wormdb.connect('memory://')['things']; things.insert({'id': 1})\n"
        "assert things.find_by_id(1) and things.count() == 1\n"
        "later = ('pyarrow', 'tempfile', 'wormdb.query.execute.answer', 'wormdb.bql.parse', 'wormdb.api.update',\n"
        "    'wormdb.api.imports.run')\n"
        "print([m for m in later if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
