"""Blobs larger than memory should be: constant memory on the way in and out, on a folder and on S3."""

from __future__ import annotations

import tracemalloc
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

import wormdb
from wormdb.settings import MIB, UPLOAD_PART_BYTES, UPLOAD_PARTS_AT_ONCE
from wormdb.testing.store_contract.uploads import GeneratedBytes

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1024 * MIB
SMALL, LARGE = 3 * UPLOAD_PART_BYTES + 5, GIB
MEMORY_MAX = (UPLOAD_PARTS_AT_ONCE + 4) * UPLOAD_PART_BYTES
"""A few parts, whatever the size."""


def round_trip(url: str, size: int) -> None:
    """Write and read a blob of this size."""
    source = GeneratedBytes(size, part=MIB)
    digest = sha256()
    for part in source.parts():
        digest.update(part)
    with wormdb.connect(url) as db:
        files = db["files"]
        with files.create_blob_target("video/mp4") as target:
            for part in source.parts():
                target.write(part)
        assert (target.reference.sha256, target.reference.size) == (digest.hexdigest(), size)
        files.insert({"id": "1", "film": target.reference})
    with wormdb.connect(url) as db:
        files = db["files"]
        found = files.find_by_id("1")
        assert found is not None
        read = sha256()
        with files.open_blob(found["film"]) as stream:
            while some := stream.read(MIB):
                read.update(some)
            assert read.digest() == digest.digest()
            stream.seek(size // 2)
            assert stream.read(10) == source.between(size // 2, size // 2 + 10)


def traced(url: str, size: int) -> int:
    """The most bytes that Python held while a blob was written and read."""
    tracemalloc.start()
    try:
        round_trip(url, size)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_several_parts_on_s3(s3_url: str) -> None:
    round_trip(s3_url, SMALL)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_gibibyte_on_s3(s3_url: str) -> None:
    assert traced(s3_url, LARGE) < MEMORY_MAX


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_gibibyte_in_a_folder(tmp_path: Path) -> None:
    assert traced(str(tmp_path), LARGE) < MEMORY_MAX
