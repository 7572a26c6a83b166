"""Which collections a command is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.errors import NotFoundError
from wormdb.schema.report import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.database import Database
    from wormdb.status import CollectionStatus

__all__ = ["existing_status"]


def existing_status(database: Database, names: Sequence[str]) -> list[CollectionStatus]:
    """How far the named collections are, or all there are; raises NotFoundError for one without a log."""
    found = database.status(names or database.collections())
    for status in found:
        if names and status.number == 0:
            known = [prefix.rstrip("/") for prefix in database.collections()]
            name = status.prefix.rstrip("/")
            fix = did_you_mean(name, known) or "see worm status for those there are"
            raise NotFoundError(f"collection {name}", reason=f"there is none in {database.url}", fix=fix)
    return found
