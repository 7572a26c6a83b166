"""What the tests of blobs share: a bucket with its own time, and what must hold of every reference in it."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from tests.engine.sweeps.commits import World, database_on
from wormdb.format.blob import blob_keys_in

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.format.blob import BlobKey
    from wormdb.storage.store import Store

__all__ = ["DAY", "HOUR", "World", "check_intact", "forwarded", "gc", "objects", "people", "soft_of"]

HOUR = 3600
DAY = 24 * HOUR


def people(store: Store, *, seed: int = 1, **settings: Any) -> Collection[Document]:
    """The collection as a process of its own opens it."""
    return database_on(store, seed=seed, **settings).model("Person")


def soft_of(store: Store, *, seed: int = 1) -> Collection[Document]:
    """A collection with a trash."""
    return database_on(store, seed=seed).model("Soft")


def objects(store: Store, folder: str = "people/") -> set[str]:
    """The names of the blobs that are there."""
    prefix = f"{folder}.worm.db/blobs/"
    return {info.key.removeprefix(prefix) for page in store.list(prefix) for info in page.objects}


def forwarded(collection: Collection[Any], seconds: float = 2) -> None:
    """Let time pass, and bring the log into the index of owners."""
    collection._access.clock.sleep(seconds)
    collection.forward()


def gc(store: Store, *, seed: int = 7, folder: str = "people/", dry_run: bool = False) -> set[str]:
    """Collect as a process of its own; the names of the blobs that went."""
    (collected,) = database_on(store, seed=seed).gc([folder], dry_run=dry_run)
    return {victim.key.rpartition("/")[2] for victim in collected.victims if victim.kind == "blob"}


def check_intact(store: Store, folder: str = "people/") -> set[BlobKey]:
    """Every blob that a document refers to, alive or in the trash, is there and is its digest; which these are."""
    view = database_on(store, seed=99)[folder.removesuffix("/")]._access.ledger.view()
    keys: set[BlobKey] = set()
    for _, held in view.scan():
        keys |= blob_keys_in(held.document) | blob_keys_in(held.trash)
    for key in keys:
        body = store.get(f"{folder}.worm.db/blobs/{key.name}").body
        assert sha256(body).hexdigest() == key.sha256
    return keys
