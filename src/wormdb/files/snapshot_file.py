"""The file of a snapshot: the whole document, just as its own file was, so that a copy can be used at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.files.contents.document import entity_file

if TYPE_CHECKING:
    from wormdb.format.past import Version
    from wormdb.schema.model import Model

__all__ = ["snapshot_file"]


def snapshot_file(version: Version, model: Model | None) -> bytes:
    """The file of a version that is kept as a snapshot; it has a document. No requests."""
    assert version.document is not None, "what was deleted is no snapshot"
    return entity_file(version.document, version.rev, model)
