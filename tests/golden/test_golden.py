"""Files written by earlier releases stay readable, and what we write stays what it was."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.golden import list_samples, rename_samples, samples
from tests.golden.make import golden_files
from wormdb.format.adopt_record import decode_adopt_record
from wormdb.format.blocklist import decode_block_page
from wormdb.format.blockread import open_block, read_columns, read_documents, read_page
from wormdb.format.columns import ELSEWHERE
from wormdb.format.entry import decode_entry
from wormdb.format.files_record import decode_files_record
from wormdb.format.frame import Frame, FrameKind, decode_frame, frame_length
from wormdb.format.frequent import frequent_columns
from wormdb.format.heartbeat import decode_heartbeat
from wormdb.format.json import decode_document
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, equal
from wormdb.format.list_columns import ColumnPage, names_in
from wormdb.format.list_part import decode_directory, decode_ids, decode_list, decode_trained, lists_in
from wormdb.format.membership import decode_filter_run
from wormdb.format.node import decode_node
from wormdb.format.page import map_file
from wormdb.format.past import HISTORY_COLUMNS, decode_past
from wormdb.format.path import TRAVERSED, get_direct, parse_path
from wormdb.format.root import decode_root
from wormdb.format.sidecar import PageRef, decode_sidecar, locate
from wormdb.format.transaction import decode_floor, decode_record

V1 = Path(__file__).parent / "v1"
KINDS = {
    "adopt_record.bin": FrameKind.ADOPTION,
    "blocklist.bin": FrameKind.BLOCK_LIST,
    "blocklist_chosen.bin": FrameKind.BLOCK_LIST,
    "entry.bin": FrameKind.ENTRY,
    "entry_adopting.bin": FrameKind.ENTRY,
    "entry_small.bin": FrameKind.ENTRY,
    "entry_streamed.bin": FrameKind.ENTRY,
    "entry_function.bin": FrameKind.ENTRY,
    "files_record.bin": FrameKind.FILES,
    "filter_run.bin": FrameKind.FILTER_RUN,
    "frame.bin": FrameKind.NODE,
    "inner.bin": FrameKind.NODE,
    "leaf.bin": FrameKind.NODE,
    "entry_closing.bin": FrameKind.ENTRY,
    "root.bin": FrameKind.ROOT,
    "root_closed.bin": FrameKind.ROOT,
    "entry_erasing.bin": FrameKind.ENTRY,
    "entry_renaming.bin": FrameKind.ENTRY,
    "root_stage.bin": FrameKind.ROOT,
    "root_dropped.bin": FrameKind.ROOT,
    "root_erased.bin": FrameKind.ROOT,
    "root_tombstone.bin": FrameKind.ROOT,
    "root_adopted.bin": FrameKind.ROOT,
    "root_functions.bin": FrameKind.ROOT,
    "root_transactions.bin": FrameKind.ROOT,
    "entry_transactions.bin": FrameKind.ENTRY,
    "transaction_record.bin": FrameKind.TRANSACTION,
    "transaction_floor.bin": FrameKind.FLOOR,
    "entry_lists.bin": FrameKind.ENTRY,
    "list_trained.bin": FrameKind.LIST_TRAINED,
    "root_lists.bin": FrameKind.ROOT,
    "root_renewed.bin": FrameKind.ROOT,
}
VERSIONS = {
    "root_functions.bin": 2,
    "root_transactions.bin": 3,
    "root_stage.bin": 4,
    "root_tombstone.bin": 4,
    "root_lists.bin": 5,
    "root_renewed.bin": 5,
    "root_dropped.bin": 5,
    "root_erased.bin": 5,
}
"""Of those that are not of the first."""


def stored(name: str) -> bytes:
    return (V1 / name).read_bytes()


def unwrap(name: str, data: bytes) -> Frame:
    return decode_frame(data, KINDS[name], name=name, version_max=VERSIONS.get(name, 1), bytes_max=1 << 20)


def test_all_files_are_there_and_small() -> None:
    sizes = {path.name: path.stat().st_size for path in V1.iterdir()}
    assert set(golden_files()) <= set(sizes)
    assert max(sizes.values()) < 20_000


def test_old_bytes_of_a_rename_give_the_expected_values() -> None:
    assert decode_root(stored("root_stage.bin"), name="x", path=samples.PATH) == rename_samples.stage_root()
    renaming = decode_entry(stored("entry_renaming.bin"), name="x", number=11, collection=samples.COLLECTION)
    assert renaming == rename_samples.renaming_entry()


def test_old_bytes_give_the_expected_values() -> None:
    assert unwrap("frame.bin", stored("frame.bin")) == Frame(1, "golden", b"payload" * 60)
    collection = samples.COLLECTION
    assert decode_entry(stored("entry.bin"), name="x", number=7, collection=collection) == samples.entry()
    assert decode_entry(stored("entry_small.bin"), name="x", number=1, collection=collection) == samples.small_entry()
    assert decode_root(stored("root.bin"), name="x", path=samples.PATH, collection=collection) == samples.root()
    assert decode_node(stored("leaf.bin"), name="x", identity=samples.NODE_IDENTITY) == samples.leaf()
    assert decode_node(stored("inner.bin"), name="x", identity=samples.NODE_IDENTITY) == samples.inner()
    assert decode_files_record(stored("files_record.bin"), name="x", path=samples.PATH) == samples.files_record()
    assert decode_adopt_record(stored("adopt_record.bin"), name="x", path=samples.PATH) == samples.adopt_record()
    adopting = decode_entry(stored("entry_adopting.bin"), name="x", number=1, collection=collection)
    assert adopting == samples.adopting_entry()
    streamed = decode_entry(stored("entry_streamed.bin"), name="x", number=9, collection=collection)
    assert streamed == samples.streamed_entry()
    function = decode_entry(stored("entry_function.bin"), name="x", number=10, collection=collection)
    assert function == samples.function_entry()
    functions = decode_root(stored("root_functions.bin"), name="x", path=samples.PATH, collection=collection)
    assert functions == samples.function_root()
    transactions = decode_entry(stored("entry_transactions.bin"), name="x", number=11, collection=collection)
    assert transactions == samples.transaction_entry()
    carrying = decode_root(stored("root_transactions.bin"), name="x", path=samples.PATH, collection=collection)
    assert carrying == samples.transaction_root()
    record = samples.transaction_record()
    assert decode_record(stored("transaction_record.bin"), name="x", transaction=record.tx) == record
    assert decode_floor(stored("transaction_floor.bin"), name="x") == samples.transaction_floor()
    expiry = decode_entry(stored("entry_expiry.bin"), name="x", number=11, collection=collection)
    assert expiry == samples.expiry_entry()
    expiring = decode_root(stored("root_expiry.bin"), name="x", path=samples.PATH, collection=collection)
    assert expiring == samples.expiry_root()
    closing = decode_entry(stored("entry_closing.bin"), name="x", number=11, collection=collection)
    assert closing == samples.closing_entry()
    closed = decode_root(stored("root_closed.bin"), name="x", path=samples.PATH, collection=collection)
    assert closed == samples.closed_root()
    assert decode_root(stored("root_tombstone.bin"), name="x", path=samples.PATH) == samples.tombstone()
    erasing = decode_entry(stored("entry_erasing.bin"), name="x", number=12, collection=collection)
    assert erasing == samples.erasing_entry()
    assert decode_root(stored("root_erased.bin"), name="x", path=samples.PATH) == samples.erased_root()
    assert decode_root(stored("root_dropped.bin"), name="x", path=samples.PATH) == samples.dropped_root()
    adopted = decode_root(stored("root_adopted.bin"), name="x", path=samples.PATH, collection=collection)
    assert adopted == samples.adopted_root()
    run = decode_filter_run(stored("filter_run.bin"), name="x", identity=samples.NODE_IDENTITY)
    assert (run.bits, tuple(run.marks), run.older) == (20, samples.filter_run().marks, samples.filter_run().older)
    assert decode_block_page(stored("blocklist.bin"), name="x", identity=samples.PAGE_IDENTITY) == samples.block_page()
    chosen = decode_block_page(stored("blocklist_chosen.bin"), name="x", identity=samples.PAGE_IDENTITY)
    assert chosen == samples.chosen_block_page()
    assert {entry.choice for entry in chosen.blocks} == {1}


def test_old_lists_in_columns_are_read() -> None:
    data = stored("list_columns.bin")
    begin = data.rindex(b"WORM")
    frame = decode_frame(data[begin:], FrameKind.LIST_PART, name="x", version_max=2, bytes_max=1 << 20)
    assert frame.version == 2
    directory = decode_directory(data[begin:], name="x", identity=list_samples.LIST_IDENTITY, directory=begin)
    assert (directory.form, directory.widths, directory.firsts) == ("columns", (1, 2), (b"blue", b"red"))
    found = []
    for page, (start, stop) in enumerate(pairwise(directory.starts)):
        read = ColumnPage(directory.unpack(page, data[start:stop]), (1, 2), name="x")
        found += [(key, list(one.places), one.all_payloads(), list(one.gone_places)) for key, one in read.lists()]
    assert found == list_samples.column_lists()
    assert [key for key, _ in names_in(data, name="x")] == [b"blue", b"green", b"red"]


def test_old_lists_are_read() -> None:
    entry = decode_entry(stored("entry_lists.bin"), name="x", number=12, collection=samples.COLLECTION)
    assert entry == list_samples.list_entry()
    root = decode_root(stored("root_lists.bin"), name="x", path=samples.PATH, collection=samples.COLLECTION)
    assert root == list_samples.list_root()
    root = decode_root(stored("root_renewed.bin"), name="x", path=samples.PATH, collection=samples.COLLECTION)
    assert root == list_samples.renewed_root()
    trained = decode_trained(stored("list_trained.bin"), name="x", identity=list_samples.LIST_IDENTITY)
    assert trained == b"trained" * 9
    assert golden_files()["list_part.bin"] == stored("list_part.bin")
    for name in ("list_part.bin", "list_part_packed.bin"):
        data = stored(name)
        begin = data.rindex(b"WORM")
        directory = decode_directory(data[begin:], name=name, identity=list_samples.LIST_IDENTITY, directory=begin)
        pages = [directory.unpack(page, data[directory.starts[page] : directory.starts[page + 1]]) for page in range(5)]
        found = [(key, bytes(body)) for page in pages for key, body in lists_in(page, name=name)]
        assert found[:3] == list_samples.stored_lists()
        red = decode_list(memoryview(found[2][1]), (1, 2), is_shared=True, name=name)
        assert (list(red.places), list(red.gone_places), red.payload(3)) == (
            [0, 1, 5, 300, 70_000],
            [2, 300],
            b"\1\6\0",
        )
        loose = decode_list(memoryview(found[3][1]), None, is_shared=False, name=name)
        assert (list(loose.ids), list(loose.gone)) == ([b'"a"', b'"b17"', b"7"], [b'"c"'])
        assert loose.all_payloads() == [b"", b"x", b"yz"]
        ids = decode_ids(memoryview(found[4][1]), name=name)
        assert (list(ids.ids), ids.dead) == ([b'"a"', b'"b"', b'"d"'], b"\0\1\0")


def test_heartbeats_are_read_and_written_byte_for_byte() -> None:
    for name, beat in (("heartbeat.json", samples.heartbeat()), ("heartbeat_server.json", samples.server_heartbeat())):
        assert decode_heartbeat(stored(name), name="x", node=3) == beat
        assert golden_files()[name] == stored(name)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_what_we_write_is_what_we_wrote(name: str) -> None:
    """Headers and payloads byte for byte; compressed bytes may change with the zstd library."""
    old, new = stored(name), golden_files()[name]
    assert unwrap(name, new) == unwrap(name, old)
    assert new[:12] == old[:12]
    if old[6] == 0:
        assert new == old


def test_the_old_block_and_its_sidecar_are_read() -> None:
    parquet, expected = stored("block.parquet"), samples.rows()
    sidecar_bytes = stored("sidecar.bin")
    digest = bytes.fromhex(
        decode_frame(
            sidecar_bytes[: frame_length(sidecar_bytes, name="x")],
            FrameKind.PAGE_MAP,
            name="x",
            version_max=1,
            bytes_max=1 << 20,
        ).identity
    )
    block = open_block(parquet, name="block.parquet", sha256=digest)
    assert list(read_documents(block)) == expected
    sidecar = decode_sidecar(sidecar_bytes, name="sidecar.bin", identity=digest.hex(), block="block.parquet")
    for row in expected:
        ref = locate(sidecar, encode_key(row.id))
        assert isinstance(ref, PageRef)
        assert read_page(parquet[ref.offset : ref.offset + ref.length], ref, [encode_key(row.id)]) == [row]
    columns = read_columns(block, [spec.path for spec in samples.COLUMNS])
    for spec in samples.COLUMNS:
        for row, found in zip(expected, columns[spec.path], strict=True):
            assert_exact(row.document, spec.path, found)


def test_a_block_with_columns_of_frequent_paths_is_read() -> None:
    parquet, expected = stored("block_found.parquet"), samples.rows()
    block = open_block(parquet, name="block_found.parquet", sha256=samples_digest(parquet))
    assert list(read_documents(block)) == expected
    found = frequent_columns([row.document for row in expected if row.document], [samples.COLUMNS[0].path])
    paths = ["_id", samples.COLUMNS[0].path, *(spec.path for spec in found)]
    assert list(block.types) == paths
    assert len(paths) > 3
    for path, values in read_columns(block, paths[1:]).items():
        for row, value in zip(expected, values, strict=True):
            assert_exact(row.document, path, value)


def test_old_history_is_read() -> None:
    parquet = stored("history.parquet")
    block = open_block(parquet, name="history.parquet", sha256=samples_digest(parquet))
    assert list(read_documents(block)) == samples.past_rows()
    cells = read_columns(block, ["_doc"])["_doc"]
    assert [decode_past(cell.encode(), name="history.parquet") for cell in cells] == samples.past()
    assert set(read_columns(block, [spec.path for spec in HISTORY_COLUMNS])["op"]) >= {"create", "snapshot"}


def assert_exact(document: bytes | None, path: str, found: Any) -> None:
    value = MISSING if document is None else get_direct(decode_document(document, name="x"), parse_path(path))
    assert found is value or (found is ELSEWHERE and value not in (None, MISSING)) or equal(found, value)
    assert value is not TRAVERSED or found is ELSEWHERE


def test_mapping_the_old_file_again_gives_the_old_map() -> None:
    parquet, sidecar_bytes = stored("block.parquet"), stored("sidecar.bin")
    digest = samples_digest(parquet)
    old = decode_sidecar(sidecar_bytes, name="x", identity=digest.hex(), block="a new block").map
    first = samples.rows()[0].document
    assert first is not None
    keys = [encode_key(row.id) for row in samples.rows()]
    assert map_file(parquet, digest, keys, old.versions, first_cell=first) == old


def samples_digest(data: bytes) -> bytes:
    from hashlib import sha256

    return sha256(data).digest()
