"""Write the golden files of the current format version: `python -m tests.golden.make`.

Run it only for a NEW version folder. Files of a released version are never written again: they stand
for what lies in people's buckets.
"""

from __future__ import annotations

from pathlib import Path

from tests.golden import list_samples, rename_samples, samples
from wormdb.format.adopt_record import encode_adopt_record
from wormdb.format.block import write_block
from wormdb.format.blocklist import encode_block_page
from wormdb.format.entry import encode_entry
from wormdb.format.files_record import encode_files_record
from wormdb.format.frame import FrameKind, encode_frame
from wormdb.format.heartbeat import encode_heartbeat
from wormdb.format.list_part import encode_trained
from wormdb.format.membership import encode_filter_run
from wormdb.format.node import encode_node
from wormdb.format.past import HISTORY_COLUMNS
from wormdb.format.root import encode_root
from wormdb.format.transaction import encode_floor, encode_record

FOLDER = Path(__file__).parent / "v1"


def golden_files() -> dict[str, bytes]:
    """What today's code writes, by file name."""
    block = write_block(samples.rows(), samples.COLUMNS)
    return {
        "adopt_record.bin": encode_adopt_record(samples.adopt_record()),
        "block.parquet": block.parquet,
        "block_found.parquet": write_block(samples.rows(), samples.COLUMNS[:1], found=True).parquet,
        "blocklist.bin": encode_block_page(samples.block_page(), identity=samples.PAGE_IDENTITY),
        "blocklist_chosen.bin": encode_block_page(samples.chosen_block_page(), identity=samples.PAGE_IDENTITY),
        "entry.bin": encode_entry(samples.entry(), collection=samples.COLLECTION),
        "entry_small.bin": encode_entry(samples.small_entry(), collection=samples.COLLECTION),
        "entry_adopting.bin": encode_entry(samples.adopting_entry(), collection=samples.COLLECTION),
        "entry_function.bin": encode_entry(samples.function_entry(), collection=samples.COLLECTION),
        "entry_streamed.bin": encode_entry(samples.streamed_entry(), collection=samples.COLLECTION),
        "files_record.bin": encode_files_record(samples.files_record()),
        "filter_run.bin": encode_filter_run(samples.filter_run(), identity=samples.NODE_IDENTITY),
        "history.parquet": write_block(samples.past_rows(), HISTORY_COLUMNS).parquet,
        "frame.bin": encode_frame(FrameKind.NODE, version=1, identity="golden", payload=b"payload" * 60),
        "inner.bin": encode_node(samples.inner(), identity=samples.NODE_IDENTITY),
        "leaf.bin": encode_node(samples.leaf(), identity=samples.NODE_IDENTITY),
        "entry_closing.bin": encode_entry(samples.closing_entry(), collection=samples.COLLECTION),
        "entry_expiry.bin": encode_entry(samples.expiry_entry(), collection=samples.COLLECTION),
        "root_expiry.bin": encode_root(samples.expiry_root()),
        "root.bin": encode_root(samples.root()),
        "root_closed.bin": encode_root(samples.closed_root()),
        "entry_erasing.bin": encode_entry(samples.erasing_entry(), collection=samples.COLLECTION),
        "entry_renaming.bin": encode_entry(rename_samples.renaming_entry(), collection=samples.COLLECTION),
        "root_stage.bin": encode_root(rename_samples.stage_root()),
        "root_dropped.bin": encode_root(samples.dropped_root()),
        "root_erased.bin": encode_root(samples.erased_root()),
        "root_tombstone.bin": encode_root(samples.tombstone()),
        "root_functions.bin": encode_root(samples.function_root()),
        "root_adopted.bin": encode_root(samples.adopted_root()),
        "root_transactions.bin": encode_root(samples.transaction_root()),
        "entry_transactions.bin": encode_entry(samples.transaction_entry(), collection=samples.COLLECTION),
        "transaction_record.bin": encode_record(samples.transaction_record()),
        "transaction_floor.bin": encode_floor(samples.transaction_floor()),
        "entry_lists.bin": encode_entry(list_samples.list_entry(), collection=samples.COLLECTION),
        "list_columns.bin": list_samples.column_part(),
        "list_part.bin": list_samples.list_part(is_packed=False),
        "list_part_packed.bin": list_samples.list_part(is_packed=True),
        "list_trained.bin": encode_trained(b"trained" * 9, identity=list_samples.LIST_IDENTITY),
        "root_lists.bin": encode_root(list_samples.list_root()),
        "root_renewed.bin": encode_root(list_samples.renewed_root()),
        "sidecar.bin": block.sidecar,
        "heartbeat.json": encode_heartbeat(samples.heartbeat()),
        "heartbeat_server.json": encode_heartbeat(samples.server_heartbeat()),
    }


def main() -> None:
    """Write them, unless they are there."""
    FOLDER.mkdir(exist_ok=True)
    for name, data in golden_files().items():
        with (FOLDER / name).open("xb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
