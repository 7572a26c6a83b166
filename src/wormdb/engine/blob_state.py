"""Which blobs are condemned at a log number: their keys are never written, nor referred to, again.

An entry condemns a key that no document refers to; only then is the object deleted, perhaps much later by somebody who
slept. So a key that was condemned stays so for ever, and the same content is written under another one: the suffix of a
new key is `newest`, the number of the newest entry that condemned anything, and so it is no condemned key's.

The root names the condemned keys of a while. Those that it forgets had suffixes below `floor`: from then on a key with
such a suffix is used only if a document owns it, because what is owned was never condemned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wormdb.format.blob import BlobKey
from wormdb.format.event import BlobCondemned
from wormdb.format.root import Condemned
from wormdb.settings import BLOB_CONDEMNED_MAX
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wormdb.format.event import Event
    from wormdb.format.root import Root

__all__ = ["NO_BLOBS", "BlobStates"]


@dataclass(frozen=True, slots=True)
class BlobStates:
    """The condemned keys, each with the entry that condemned it. A value: events make new ones."""

    condemned: Mapping[BlobKey, LogNumber] = field(default_factory=dict)
    newest: int = 0
    floor: int = 0

    @classmethod
    def of_root(cls, root: Root) -> BlobStates:
        """As a root has them."""
        if not root.condemned and not root.blob_newest:
            return NO_BLOBS
        known = {BlobKey(one.sha256.hex(), one.suffix): LogNumber(one.number) for one in root.condemned}
        return cls(known, root.blob_newest, root.blob_floor)

    def after(self, events: Iterable[Event], number: LogNumber) -> BlobStates:
        """What the events of entry `number` make of them: the same object if nothing."""
        told = [BlobKey(each.sha256.hex(), each.suffix) for each in events if isinstance(each, BlobCondemned)]
        if not told:
            return self
        # What two collectors condemn, the first of them did.
        return BlobStates({**dict.fromkeys(told, number), **self.condemned}, number, self.floor)

    def kept(self, trimmed: int) -> dict[str, object]:
        """The fields of a root whose log is trimmed through `trimmed`: what was condemned by then, it forgets."""
        ages = sorted(((number, key) for key, number in self.condemned.items()), reverse=True)
        kept = sorted(key for number, key in ages[:BLOB_CONDEMNED_MAX] if number > trimmed)
        forgotten = self.condemned.keys() - set(kept)
        return {
            "condemned": tuple(
                Condemned(sha256=bytes.fromhex(key.sha256), suffix=key.suffix, number=self.condemned[key])
                for key in kept
            ),
            "blob_newest": self.newest,
            "blob_floor": max([self.floor, *(key.suffix + 1 for key in forgotten)]),
        }

    def fresh(self, sha256: str) -> BlobKey:
        """The key under which content is written that nobody owns: never one that was condemned, known or forgotten."""
        return BlobKey(sha256, self.newest)

    def is_usable(self, key: BlobKey) -> bool | None:
        """Whether a document may begin to refer to a key; None if only an owner can tell: what is owned is not gone."""
        if key in self.condemned:
            return False
        return True if key.suffix >= self.floor else None


NO_BLOBS = BlobStates()
