"""Places in a log as Spark keeps them in its checkpoints.

An offset says which changes have been read: all through entry `log`, and so many of the entry after it, if that was
larger than a micro-batch may be. It holds the hash of entry `log`, so that a log that was thrown away and begun anew
is noticed; and where its stream began, which Spark does not keep: it asks again if the first micro-batch is repeated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HASH_DIGITS", "Mark", "Offset"]

HASH_DIGITS: Final = 16
"""So much of a hash is kept: enough to tell a log from another one."""

_MARK: Final = re.compile(r"(\d+)\.(\d+)@([0-9a-f]*)")


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a log: after entry `log`, and after the first `place` changes of the next one."""

    log: int
    place: int = 0
    hash: str = ""
    """Of entry `log`, the beginning of it."""

    @classmethod
    def of(cls, log: int, hash_: bytes, place: int = 0) -> Mark:
        """After entry `log`, whose hash is `hash_`."""
        return cls(log, place, hash_.hex()[:HASH_DIGITS])

    @classmethod
    def parse(cls, text: str) -> Mark:
        """What `str` gave; raises InvalidRequestError."""
        found = _MARK.fullmatch(text)
        if found is None:
            _foreign(text)
        return cls(int(found[1]), int(found[2]), found[3])

    def __str__(self) -> str:
        return f"{self.log}.{self.place}@{self.hash}"


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a stream is, and where it began."""

    at: Mark
    first: Mark

    @classmethod
    def parse(cls, known: Mapping[str, Any]) -> Offset:
        """An offset as Spark keeps it; raises InvalidRequestError for one of another source."""
        try:
            at = Mark(known["log"], known["place"], known["hash"])
            return cls(at, Mark.parse(known["first"]))
        except (KeyError, TypeError):
            _foreign(known)

    def shown(self) -> dict[str, Any]:
        """As Spark keeps it."""
        return {"log": self.at.log, "place": self.at.place, "hash": self.at.hash, "first": str(self.first)}


def _foreign(what: object) -> NoReturn:
    raise InvalidRequestError(
        f"the offset {what}",
        reason='it is none of format("worm"): the checkpoint is of a query with another source',
        fix="use another checkpointLocation",
    )
