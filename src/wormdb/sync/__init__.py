"""A folder and a bucket that stay equal: files pushed and pulled in parts, by compare-and-set, without a lock.

with Sync("work", "s3://team/work") as sync:
    sync.sync()
"""

from wormdb.sync.report import ConflictPolicy, FileTrouble, SyncReport
from wormdb.sync.sync import Sync

__all__ = ["ConflictPolicy", "FileTrouble", "Sync", "SyncReport"]
