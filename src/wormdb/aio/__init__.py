"""The API for programs with an event loop: the same names, awaited.

from wormdb import aio

async with aio.connect("s3://bucket/prefix") as db:
    await db["customers"].insert({"name": "Ada"})
"""

from wormdb.aio.batch import AsyncBatch
from wormdb.aio.blobs import AsyncBlobReader, AsyncBlobTarget
from wormdb.aio.collection import AsyncCollection
from wormdb.aio.connect import connect
from wormdb.aio.cursor import AsyncCursor
from wormdb.aio.database import AsyncDatabase
from wormdb.aio.files import AsyncReadableFiles
from wormdb.aio.functions import AsyncFunctionRegistry
from wormdb.aio.query import AsyncQuery
from wormdb.aio.results import AsyncResults
from wormdb.aio.snapshot import AsyncDatabaseSnapshot
from wormdb.aio.snapshot_collection import AsyncSnapshotCollection
from wormdb.aio.transaction import AsyncTransaction
from wormdb.aio.transaction_collection import AsyncTransactionCollection

__all__ = [
    "AsyncBatch",
    "AsyncBlobReader",
    "AsyncBlobTarget",
    "AsyncCollection",
    "AsyncCursor",
    "AsyncDatabase",
    "AsyncDatabaseSnapshot",
    "AsyncFunctionRegistry",
    "AsyncQuery",
    "AsyncReadableFiles",
    "AsyncResults",
    "AsyncSnapshotCollection",
    "AsyncTransaction",
    "AsyncTransactionCollection",
    "connect",
]
