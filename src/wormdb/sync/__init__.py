"""A folder and a bucket that stay equal: files in parts, collections by their logs; by compare-and-set, no lock.

with Sync("work", "s3://team/work") as sync:
    sync.sync()
"""

from wormdb.sync.report import BatchConflict, ConflictPolicy, FileDifference, FileTrouble, SyncedCollection, SyncReport
from wormdb.sync.sync import Sync

__all__ = [
    "BatchConflict",
    "ConflictPolicy",
    "FileDifference",
    "FileTrouble",
    "Sync",
    "SyncReport",
    "SyncedCollection",
]
