"""One block against its list, and what is left of a damaged one."""

from __future__ import annotations

import msgspec
import pytest

from wormdb.format import json
from wormdb.format.block import Row, write_block
from wormdb.format.columns import ColumnSpec
from wormdb.maintenance.audit.block_check import block_faults, content_of, read_sidecar, salvage_rows, sidecar_faults

ROWS = [
    Row(f"k{number:03d}", 1, 1, json.encode_document({"_id": f"k{number:03d}", "n": number, "pad": "x" * 9_000}))
    for number in range(60)
]
BLOCK = write_block(ROWS, [ColumnSpec("n")])
ENTRY = BLOCK.entry("b", "b", kind="base", run=1)


def test_a_block_as_it_was_written() -> None:
    content = content_of(BLOCK.parquet, ENTRY, name="b", is_history=False)
    assert block_faults(content, ENTRY) == []
    assert sidecar_faults(read_sidecar(BLOCK.sidecar, ENTRY, name="s", block="b"), content) == []


def test_the_sidecar_of_another_block() -> None:
    content = content_of(BLOCK.parquet, ENTRY, name="b", is_history=False)
    shorter = write_block(ROWS[:-1], [ColumnSpec("n")])
    entry = shorter.entry("c", "c", kind="base", run=1)
    assert sidecar_faults(read_sidecar(shorter.sidecar, entry, name="s", block="c"), content)


@pytest.mark.parametrize("field", ["rows", "deleted", "trashed", "rev_first", "rev_last", "key_first", "key_last"])
def test_what_the_list_says_wrongly(field: str) -> None:
    content = content_of(BLOCK.parquet, ENTRY, name="b", is_history=False)
    old = getattr(ENTRY, field)
    wrong = msgspec.structs.replace(ENTRY, **{field: old + (b"\0" if isinstance(old, bytes) else 1)})
    assert block_faults(content, wrong) == [f"the list is wrong about its {field}"]


def test_pages_that_are_as_they_were_are_saved() -> None:
    damaged = bytearray(BLOCK.parquet)
    page_map = read_sidecar(BLOCK.sidecar, ENTRY, name="s", block="b").map
    assert page_map.pages is not None
    assert len(page_map.pages) > 3
    damaged[page_map.offsets[1] + 40] ^= 1
    found = salvage_rows(bytes(damaged), BLOCK.sidecar, ENTRY, name="b")
    lost = range(page_map.first_rows[1], page_map.first_rows[2])
    assert found == [row for place, row in enumerate(ROWS) if place not in lost]
    assert salvage_rows(bytes(damaged), b"", ENTRY, name="b") == []
    assert salvage_rows(None, BLOCK.sidecar, ENTRY, name="b") == []
