"""One collection of files of another program: where they are, and how they are to be read."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.files.contents.names import FileNames, Placement, id_of
from wormdb.schema.path import SINGLETON_ID
from wormdb.storage.store import check_key

if TYPE_CHECKING:
    from wormdb.files.foreign.collection import FileCache
    from wormdb.schema.model import Model
    from wormdb.settings import BrokenChoice, ForeignCheck
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.clock import Clock

__all__ = ["Site", "read_id_text"]


@dataclass(slots=True)
class Site:
    """A collection, and what all queries over it share."""

    store: Store
    pool: Pool
    clock: Clock
    model: Model
    collection: str
    """Its folder, ending with /."""
    check: ForeignCheck
    on_broken: BrokenChoice
    kept: FileCache
    is_partitioned: bool = False
    """Whether the manifest was last seen in several files: then that is where it is looked for first."""
    confirmed: dict[str, str] = field(default_factory=dict)
    """By key the version of each index file that a manifest has confirmed."""
    names: FileNames = field(init=False)

    def __post_init__(self) -> None:
        # Oplogs, snapshots and trash are not looked at, wherever they are.
        self.names = FileNames(self.model, self.collection, Placement())

    @property
    def manifest_fields(self) -> frozenset[str]:
        """The fields that a manifest of this model may hold, by what the schema says."""
        return frozenset((*self.model.manifest_fields, "createdAt", "updatedAt"))

    def identity_of(self, key: str) -> Any | None:
        """The id of the document whose file has this key; None for every other key. No requests.

        Names that begin with a dot are system folders. A name that we would write in another way is an id as it is.
        """
        rest = key[len(self.collection) :]
        if self.model.is_singleton:
            return SINGLETON_ID if rest == self.model.path.file_name else None
        folder, slash, name = rest.partition("/")
        if not slash or name != self.model.path.file_name or folder.startswith("."):
            return None
        return read_id_text(folder)

    def keys_of(self, identity: Any) -> list[str]:
        """Where the file of a document may be: as we name it, and as others may. No requests."""
        if self.model.is_singleton:
            return [self.names.entity(SINGLETON_ID)]
        name = self.model.path.file_name
        found: list[str] = []
        with suppress(LimitExceededError):  # longer than we would write it, which need not bother others
            found.append(self.names.entity(identity))
        plain = f"{self.collection}{identity}/{name}"
        if plain not in found and _is_key(plain) and self.identity_of(plain) == identity:
            found.append(plain)
        return found


def read_id_text(text: str) -> Any:
    """The id that a name in a key, a manifest or an index stands for. No requests."""
    if "%" not in text:
        return text
    try:
        return id_of(text)
    except InvalidRequestError:
        return text


def _is_key(key: str) -> bool:
    try:
        check_key(key)
    except InvalidRequestError:
        return False
    return True
