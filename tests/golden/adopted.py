"""The record of files that were adopted and stay those of another program, as golden files have it."""

from __future__ import annotations

from msgspec import structs

from tests.golden.samples import adopt_record, digest
from wormdb.format.adopt_record import AdoptedObject, AdoptRecord

__all__ = ["adopted_objects"]


def adopted_objects() -> AdoptRecord:
    """One file."""
    made = AdoptedObject(key="2024/part-0.ndjson", version='"etag"', digest=digest(2))
    return structs.replace(adopt_record(), parts=(), objects=(made,))
