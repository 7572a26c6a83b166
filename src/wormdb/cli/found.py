"""Which collections a command is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.errors import NotFoundError
from wormdb.schema.report import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.api.database import Database
    from wormdb.api.status import CollectionStatus

__all__ = ["existing_status", "missing_collection"]


def existing_status(database: Database, names: Sequence[str]) -> list[CollectionStatus]:
    """How far the named collections are, or all there are; raises NotFoundError for one without a log."""
    found = database.status(names or database.collections())
    for status in found:
        if names and status.number == 0:
            raise missing_collection(database, status.prefix)
    return found


def missing_collection(database: Database, prefix: str) -> NotFoundError:
    """The error for a collection that is not there, with the name that may have been meant. Lists the bucket."""
    known = [found.rstrip("/") for found in database.collections()]
    name = prefix.rstrip("/")
    fix = did_you_mean(name, known) if known else "it is empty: check the URL"
    return NotFoundError(f"collection {name}", reason=f"there is none in {database.url}", fix=fix)
