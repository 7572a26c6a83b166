"""Readable files stay what they were: other programs read them."""

from __future__ import annotations

import json

import pytest

from tests.golden.readable import ACME, FOLDER, MODEL, TIME, readable_files
from wormdb.files.contents.document import read_entity, read_oplog, read_tombstone_file
from wormdb.files.contents.index import decode_index_file, decode_index_meta
from wormdb.files.contents.manifest import decode_manifest, decode_manifest_meta
from wormdb.files.contents.sentinel import read_bucket_sentinel, read_collection_sentinel


def stored(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


@pytest.mark.parametrize("name", sorted(readable_files()))
def test_what_is_written_stays_what_it_was(name: str) -> None:
    assert readable_files()[name] == stored(name)
    assert json.loads(stored(name))


def test_old_files_are_read() -> None:
    assert read_entity(stored("entity.json"), key="k", model=MODEL) == (ACME, 41)
    create, update, purge = (
        read_oplog(stored(f"oplog-{op}.json"), key="k", model=MODEL) for op in ("create", "update", "purge")
    )
    assert create.snapshot == ACME
    assert (update.diff, update.metadata, update.ts) == (
        {"name": ("Acme Corp", "Acme Inc"), "note": (None, "é")},
        {"ticket": 7},
        TIME,
    )
    assert (purge.op, purge.metadata, purge.snapshot) == ("delete", {"purge": True}, None)
    assert read_tombstone_file(stored("tombstone.json"), key="k").ttl == 30
    assert decode_manifest(stored("manifest.json"), key="k").fault(MODEL) is None
    assert decode_manifest(stored("manifest-partition.json"), key="k").partition == 1
    assert decode_manifest_meta(stored("manifest-meta.json"), key="k").partition_of("z") == 1
    for name in ("index", "index-unique", "index-compound", "index-partition"):
        assert decode_index_file(stored(f"{name}.json"), key="k").fault(MODEL) is None
    assert decode_index_meta(stored("index-meta.json"), key="k").partitions_of("vip") == [0, 1]
    assert read_collection_sentinel(stored("collection.worm"), key="k").count == 1423
    assert read_bucket_sentinel(stored("bucket.worm"), key="k").storage == {"layout": "root", "snapshots": "inline"}
