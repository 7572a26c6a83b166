"""The golden readable files: `python -m tests.golden.readable` writes those that are missing, and only those."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bson import Decimal128, ObjectId

from wormdb.engine.history.tombstone import Tombstone
from wormdb.files.contents.document import entity_file, oplog_file, snapshot_file, tombstone_file
from wormdb.files.contents.index import IndexFile, IndexMeta, encode_index_file, encode_index_meta
from wormdb.files.contents.manifest import (
    ManifestFile,
    ManifestMeta,
    encode_manifest,
    encode_manifest_meta,
    manifest_row,
)
from wormdb.files.contents.sentinel import bucket_sentinel, collection_sentinel
from wormdb.format.json import encode_document
from wormdb.format.past import Version
from wormdb.schema.load import load_schema

if TYPE_CHECKING:
    from wormdb.format.past import Operation

FOLDER = Path(__file__).parent / "files_v1"
TIME = datetime(2026, 2, 24, 14, 30, tzinfo=UTC)
MISC = (int(TIME.timestamp()) * 1_000_000) << 8
KEY = "org/customers/a1b2c3d4/profile.json"
MODEL = load_schema(
    {
        "schemaVersion": "1.0",
        "sourceOfTruth": "local",
        "models": {
            "Customer": {
                "path": "#org/@customers/(id:string)/[profile].json",
                "oplog": True,
                "softDelete": True,
                "fields": {
                    "name": {"type": "string"},
                    "email": {"type": "string"},
                    "status": {"type": "string"},
                    "tags": {"type": "array"},
                    "since": {"type": "datetime"},
                },
                "manifest": {"enabled": True, "fields": ["name", "email", "status", "tags"]},
            }
        },
    }
).models["Customer"]
ACME = {
    "_id": "a1b2c3d4",
    "name": "Acme Corp",
    "email": "hi@acme.com",
    "status": "active",
    "tags": ["vip", "enterprise"],
    "since": datetime(2020, 1, 1, tzinfo=UTC),
    "credit": Decimal128("12.50"),
    "seen": TIME,
    "owner": ObjectId("507f1f77bcf86cd799439011"),
    "note": None,
    "createdAt": datetime(2026, 1, 15, 9, tzinfo=UTC),
    "updatedAt": datetime(2026, 2, 20, 11, 30, tzinfo=UTC),
}
STORED = encode_document(ACME)
RENAMED = encode_document({**ACME, "name": "Acme Inc", "note": "é", "updatedAt": TIME})


def version(seq: int, op: Operation, document: bytes | None) -> Version:
    """A change of the one document."""
    return Version(
        b'"a1b2c3d4"', seq, 40 + seq, op, MISC, "user:0xabc", b'{"ticket":7}' if seq == 2 else None, document=document
    )


def readable_files() -> dict[str, bytes]:
    """What today's code writes, by file name."""
    manifest = ManifestFile(
        "Customer",
        0,
        TIME,
        "",
        {"a1b2c3d4": manifest_row(STORED, MODEL), "%i5": {}},
        log=42,
        fields=MODEL.manifest_fields,
    )
    return {
        "entity.json": entity_file(STORED, 41, MODEL),
        "oplog-create.json": oplog_file(version(1, "create", STORED), None, MODEL),
        "oplog-update.json": oplog_file(version(2, "update", RENAMED), STORED, MODEL),
        "oplog-delete.json": oplog_file(version(3, "delete", None), RENAMED, MODEL),
        "oplog-restore.json": oplog_file(version(4, "restore", STORED), None, MODEL),
        "oplog-purge.json": oplog_file(version(5, "purge", None), None, MODEL),
        "snapshot.json": snapshot_file(version(2, "update", RENAMED), MODEL),
        "tombstone.json": tombstone_file(Tombstone(TIME, "user:0xabc", None, STORED, 30), KEY, 43),
        "manifest.json": encode_manifest(manifest),
        "manifest-partition.json": encode_manifest(
            ManifestFile("Customer", 0, TIME, "", {"z": {}}, partition=1, log=42, fields=("name",))
        ),
        "manifest-meta.json": encode_manifest_meta(
            ManifestMeta(
                2, (("", "m"), ("m", None)), 2, "id_prefix", "Customer", ("name",), TIME, 42, ("sha256:0", "sha256:1")
            )
        ),
        "index.json": encode_index_file(
            IndexFile("Customer", ("status",), "standard", False, TIME, {"active": ("a1b2c3d4", "e5"), "5": ("x",)}, 42)
        ),
        "index-unique.json": encode_index_file(
            IndexFile("Customer", ("email",), "standard", True, TIME, {"hi@acme.com": ("a1b2c3d4",)}, 42)
        ),
        "index-compound.json": encode_index_file(
            IndexFile("Customer", ("status", "name"), "compound", False, TIME, {'["active",null]': ("a1b2c3d4",)}, 42)
        ),
        "index-partition.json": encode_index_file(
            IndexFile("Customer", ("tags",), "multiValue", False, TIME, {"vip": ("a1b2c3d4",)}, 42, partition=0)
        ),
        "index-meta.json": encode_index_meta(
            IndexMeta(
                "Customer",
                ("tags",),
                "multiValue",
                False,
                3,
                ((("", ""), ("vip", "b")), (("vip", "b"), None)),
                TIME,
                42,
                ("sha256:0", "sha256:1"),
            )
        ),
        "collection.worm": collection_sentinel(MODEL, 1423, TIME, 42),
        "bucket.worm": bucket_sentinel(
            "my-bucket",
            ["Customer", "Invoice"],
            {"layout": "root", "snapshots": "inline"},
            "1.0",
            {"archive/x/": "archive/x/"},
        ),
    }


def main() -> None:
    """Write those that are not there."""
    FOLDER.mkdir(exist_ok=True)
    for name, data in readable_files().items():
        if not (FOLDER / name).exists():
            (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main()
