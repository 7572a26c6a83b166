"""Every object key of the engine is made here.

A collection's folder is its prefix (`org/customers/`); the engine's own folder in it is the same
for every collection, so that a listing of a bucket shows what may be edited by hand and what not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wormdb.settings import (
    ENTRY_BYTES_MAX,
    FILE_BYTES_MAX,
    HEARTBEAT_BYTES_MAX,
    MIB,
    NODE_BYTES_MAX,
    OBJECT_BYTES_MAX,
    ROOT_BYTES_MAX,
    SIDECAR_BYTES_MAX,
    TRANSACTION_BYTES_MAX,
)

if TYPE_CHECKING:
    from wormdb.system.types import LogNumber

__all__ = [
    "ENGINE_FOLDER",
    "INDEX_FILES",
    "MANIFEST_FILES",
    "NODES_FOLDER",
    "REMOVED_MARK",
    "TRANSACTIONS_FOLDER",
    "TRANSACTION_FLOOR",
    "EnginePaths",
    "bytes_max",
    "is_immutable",
    "node_key",
    "transaction_key",
]

ENGINE_FOLDER = ".worm.db/"
REMOVED_MARK = ".worm.removed"
"""Beside the engine's folder of a collection that was removed: a search for collections looks at its root then."""
NODES_FOLDER = ".worm.nodes/"
"""Of a whole database: the heartbeats of services."""
TRANSACTIONS_FOLDER = ".worm.tx/"
"""Of a whole database: which transactions over several collections committed."""
TRANSACTION_FLOOR = f"{TRANSACTIONS_FOLDER}floor"
"""Up to which transaction these records may have been removed."""
MANIFEST_FILES = ".worm.manifest"
INDEX_FILES = ".worm.index/"
"""How the readable files of tables begin behind the collection's folder: they tell of all its documents."""
NUMBER_DIGITS = 20
# By how a key goes on behind the engine's folder, and how it ends. The rest are blocks, blobs, and what jobs say.
_SIZES: Final = (
    ("block0", "", ROOT_BYTES_MAX),
    ("files", "", ROOT_BYTES_MAX),
    ("adopt", "", ROOT_BYTES_MAX),
    ("committed/", "", ENTRY_BYTES_MAX),
    ("offers/", "", ENTRY_BYTES_MAX),
    ("data/", ".retired", ROOT_BYTES_MAX),
    ("data/", ".map", 2 * SIDECAR_BYTES_MAX),
    ("history/", ".map", 2 * SIDECAR_BYTES_MAX),
    ("indexes/", ".run", OBJECT_BYTES_MAX - OBJECT_BYTES_MAX // 32),
    ("indexes/", ".trained", OBJECT_BYTES_MAX - OBJECT_BYTES_MAX // 32),
    ("indexes/", "", max(NODE_BYTES_MAX, SIDECAR_BYTES_MAX)),
)


@dataclass(frozen=True, slots=True)
class EnginePaths:
    """The keys of one collection (or of one of its shards)."""

    folder: str
    """Where the engine's objects are, ending with /."""

    @classmethod
    def of_collection(cls, prefix: str) -> EnginePaths:
        """The keys of the collection whose folder is `prefix` (ends with /)."""
        assert prefix.endswith("/"), prefix
        return cls(prefix + ENGINE_FOLDER)

    @property
    def root(self) -> str:
        """The one mutable object."""
        return f"{self.folder}block0"

    @property
    def removed_mark(self) -> str:
        """Says that the collection was removed once: a hint, which the root confirms."""
        return f"{self.folder.removesuffix(ENGINE_FOLDER)}{REMOVED_MARK}"

    @property
    def files(self) -> str:
        """What is known of the readable files: through which number they are written."""
        return f"{self.folder}files"

    def entry(self, number: LogNumber) -> str:
        """The log entry `number`: zero-padded, so that a listing is the history."""
        return f"{self.folder}committed/{number:0{NUMBER_DIGITS}d}"

    @property
    def entries(self) -> str:
        """The folder of the log."""
        return f"{self.folder}committed/"

    @property
    def offers(self) -> str:
        """The folder of entries that are not in the log, and that another writer may take into it."""
        return f"{self.folder}offers/"

    def offer(self, number: LogNumber, write_id: str) -> str:
        """An offer, by the slot that it was made for: so a listing from one on shows those that are near."""
        return f"{self.offers}{number:0{NUMBER_DIGITS}d}-{write_id}"

    def block(self, name: str) -> str:
        """A block; its sidecar is beside it."""
        return f"{self.folder}data/{name}.parquet"

    def sidecar(self, name: str) -> str:
        """The sidecar of block `name`."""
        return f"{self.folder}data/{name}.map"

    @property
    def data(self) -> str:
        """The folder of blocks, their sidecars and the pages of their list."""
        return f"{self.folder}data/"

    @property
    def history(self) -> str:
        """The folder of the blocks of history, with the same names in it as in `data`."""
        return f"{self.folder}history/"

    @property
    def adopted(self) -> str:
        """Which files of others became this collection, where they are not written back."""
        return f"{self.folder}adopted"

    @property
    def adoption(self) -> str:
        """How far the files of others were read to become this collection; nothing before and after that."""
        return f"{self.folder}adopt"

    @property
    def gc_probe(self) -> str:
        """Written to learn the store's time; what is in it does not matter."""
        return f"{self.folder}gc"

    @property
    def indexes(self) -> str:
        """The folder of the nodes of all indexes."""
        return f"{self.folder}indexes/"

    @property
    def blobs(self) -> str:
        """The folder of blobs."""
        return f"{self.folder}blobs/"

    def blob(self, name: str) -> str:
        """A blob, by the name of its key."""
        return f"{self.blobs}{name}"

    def index(self, name: str) -> str:
        """The folder of an index's nodes."""
        return f"{self.folder}indexes/{name}/"

    def retired(self, name: str) -> str:
        """A list of objects that no root names any more."""
        return f"{self.folder}data/{name}.retired"


def node_key(node: int) -> str:
    """The heartbeat of a service."""
    return f"{NODES_FOLDER}{node}"


def transaction_key(transaction: str) -> str:
    """The record of a transaction over several collections."""
    return f"{TRANSACTIONS_FOLDER}{transaction}"


def bytes_max(key: str) -> int:
    """How many bytes an object of a database has at most, whichever it is, by its key alone. No requests.

    What is none of the engine's is a readable file: of a document, or of a table of all documents.
    """
    found = _engine_bytes_max(key)
    if found is not None:
        return found
    is_table = f"/{MANIFEST_FILES}" in f"/{key}" or f"/{INDEX_FILES}" in f"/{key}"
    return OBJECT_BYTES_MAX if is_table else FILE_BYTES_MAX


def _engine_bytes_max(key: str) -> int | None:
    """How many bytes an object of the engine has at most, as it is stored; None for a key of another object.

    The limits of formats are of what is packed; what cannot be packed grows a little.
    """
    if key.startswith(NODES_FOLDER):
        return HEARTBEAT_BYTES_MAX
    if key.startswith(TRANSACTIONS_FOLDER):
        return TRANSACTION_BYTES_MAX
    _, found, rest = key.partition(ENGINE_FOLDER)
    if not found:
        return None
    for begin, end, plain in _SIZES:
        if rest.startswith(begin) and rest.endswith(end):
            return plain + plain // 64 + MIB
    return OBJECT_BYTES_MAX


def is_immutable(key: str) -> bool:
    """Whether an object never changes once written, so that a cache may keep it.

    Blobs do not change either, but would drive everything else out.
    Log entries are not: a slot that was empty a moment ago may be filled, and after
    trimming it is empty again.
    """
    _, found, rest = key.partition(ENGINE_FOLDER)
    return bool(found) and rest.startswith(("data/", "indexes/", "history/"))
