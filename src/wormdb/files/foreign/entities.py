"""Documents out of their files, many at once; what is broken is named."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from wormdb.engine.state.view import Held
from wormdb.errors import CorruptionError, InvalidRequestError, NotFoundError
from wormdb.files.contents.document import read_entity
from wormdb.files.contents.values import fault_text
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.files.foreign.listing import Entity
    from wormdb.files.foreign.site import Site

__all__ = ["Entities"]

log: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 512
"""Files that are asked for together: enough for every thread, and few enough to hold."""


class Entities:
    """Reads files of documents. `skipped` names those that were broken, if that is allowed."""

    def __init__(self, site: Site) -> None:
        """No requests."""
        self._site = site
        self.skipped: dict[str, str] = {}
        """By key why each file was passed over."""

    def read(self, entity: Entity) -> Held | None:
        """One document; None if its file is gone, or broken and passed over. 1 GET; raises CorruptionError."""
        try:
            body = self._site.store.get(entity.key).body
            document, rev = read_entity(body, key=entity.key, model=self._site.model, identity=entity.id)
            encoded = json.encode_document(document)
        except NotFoundError as error:
            if error.key != entity.key:
                raise  # the bucket is missing, not this file
            return None
        except (CorruptionError, InvalidRequestError) as error:
            self.broken(entity.key, fault_text(error), error)
            return None
        return Held(json.encode(entity.id), rev or 0, 0, encoded)

    def stream(self, entities: Sequence[Entity], first: int | None = None) -> Iterator[Sequence[Held]]:
        """All that are there and whole, in their order, some at a time: while some are used, the next are read.

        With `first` so many are wanted at first, and no more are asked for together.
        """
        pending: Iterator[Held | None] | None = None
        for start, stop in _parts(len(entities), first):
            following = self._site.pool.map(self.read, entities[start:stop])
            if pending is not None:
                yield [held for held in pending if held is not None]
            pending = following
            if first is not None:
                yield [held for held in pending if held is not None]
                pending = None
        if pending is not None:
            yield [held for held in pending if held is not None]

    def broken(self, key: str, reason: str, cause: Exception | None = None) -> None:
        """Raise for a file that is broken, or pass it over and say so."""
        if self._site.on_broken == "raise":
            raise CorruptionError(
                f"the file {key} is broken",
                reason=reason,
                fix="correct it, or pass over what is broken with on_broken='skip'",
                key=key,
            ) from cause
        if key not in self.skipped:
            log.warning("%s is broken and was passed over: %s", key, reason)
        self.skipped[key] = reason


def _parts(count: int, first: int | None) -> Iterator[tuple[int, int]]:
    start, size = 0, _AT_ONCE if first is None else max(1, min(first, _AT_ONCE))
    while start < count:
        yield start, min(start + size, count)
        start, size = start + size, min(2 * size, _AT_ONCE)
