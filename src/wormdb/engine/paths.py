"""Every object key of the engine is made here.

A collection's folder is its prefix (`org/customers/`); the engine's own folder in it is the same
for every collection, so that whoever lists a bucket knows what may be edited by hand and what not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wormdb.types import LogNumber

__all__ = ["ENGINE_FOLDER", "NODES_FOLDER", "EnginePaths", "is_immutable", "node_key"]

ENGINE_FOLDER = ".worm.db/"
NODES_FOLDER = ".worm.nodes/"
"""Of a whole database: the heartbeats of services."""
NUMBER_DIGITS = 20


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


def is_immutable(key: str) -> bool:
    """Whether an object never changes once written, so that a cache may keep it.

    Blobs do not change either, but would drive everything else out.
    Log entries are not: a slot that was empty a moment ago may be filled, and after
    trimming it is empty again.
    """
    _, found, rest = key.partition(ENGINE_FOLDER)
    return bool(found) and rest.startswith(("data/", "indexes/", "history/"))
