"""Rows of a block whose pages are not mapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.format.blockread import Block, read_documents
from wormdb.format.key import encode_key

if TYPE_CHECKING:
    from wormdb.format.block import Row
    from wormdb.format.sidecar import GroupRef

__all__ = ["read_group"]


def read_group(block: Block, ref: GroupRef, key: bytes) -> Row | None:
    """The row whose id has the encoded `key` from a row group."""
    return next((row for row in read_documents(block, groups=[ref.group]) if encode_key(row.id) == key), None)
