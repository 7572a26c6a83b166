"""Block lists: short runs in the root, long ones in pages; and how large a root is then."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.engine.blocks.rig import Folder, key_of
from tests.engine.rig import COLLECTION
from wormdb.engine.blocks.grow import Growth
from wormdb.engine.blocks.runs import Runs, find_part, is_run, list_run, runs_of
from wormdb.engine.blocks.tiers import runs_max
from wormdb.errors import CorruptionError, SnapshotTooOldError
from wormdb.format.blocklist import BlockEntry, ColumnStats, SidecarRef
from wormdb.format.key import encode_key
from wormdb.format.root import Root, encode_root
from wormdb.settings import LIST_PAGE_BLOCKS, MIB, RUN_BYTES_SMALLEST
from wormdb.system.types import WriteId

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.engine.blocks.runs import Run

BLOCK_BYTES = 24 * MIB


def entry(number: int, *, run: int = 1, columns: int = 0) -> BlockEntry:
    """A block that exists on paper only: of the ids from 10 x number on. Its statistics do not compress well."""
    digest = sha256(f"{run} {number}".encode()).digest()
    name = f"{number:016x}-{digest.hex()[:8]}"
    return BlockEntry(
        name=name,
        kind="delta",
        run=run,
        level=run % 5,
        key_first=key_of(10 * number),
        key_last=key_of(10 * number + 9),
        rows=60_000 + digest[0],
        deleted=digest[1],
        trashed=digest[2],
        rev_first=run,
        rev_last=run + digest[3],
        length=BLOCK_BYTES,
        sha256=digest,
        sidecar=SidecarRef(name=name, sha256=digest[::-1], length=90_000 + digest[4], map_bytes=9_000 + digest[5]),
        columns=tuple(
            ColumnStats(
                path=f"field{column}",
                type="string",
                values=60_000,
                low=encode_key(sha256(digest + bytes([column])).hexdigest()[:24]),
                high=encode_key("z" + sha256(digest + bytes([column])).hexdigest()[:24]),
            )
            for column in range(columns)
        ),
    )


def entries(count: int, *, run: int = 1, columns: int = 0) -> list[BlockEntry]:
    return [entry(number, run=run, columns=columns) for number in range(count)]


def names(blocks: Iterable[BlockEntry]) -> list[str]:
    return [block.name for block in blocks]


def parts_of(runs: Iterable[Run]) -> list[tuple[int, int, int]]:
    return [(run.through, len(run.entries), len(run.pages)) for run in runs]


def test_a_short_run_stays_in_the_root_and_a_long_one_goes_to_pages() -> None:
    folder = Folder()
    shelf = folder.shelf()
    short, long = entries(40, run=2), entries(1_200, run=1)
    runs = [list_run(short, shelf, folder.writer), list_run(long, shelf, folder.writer)]
    assert parts_of(runs) == [(2, 40, 0), (1, 0, 3)]
    pages = runs[1].pages
    assert [page.blocks for page in pages] == [LIST_PAGE_BLOCKS, LIST_PAGE_BLOCKS, 1_200 - 2 * LIST_PAGE_BLOCKS]
    assert (pages[0].key_first, pages[0].key_last) == (key_of(0), key_of(10 * LIST_PAGE_BLOCKS - 1))
    assert sum(page.rows for page in pages) == sum(block.rows for block in long)
    assert sum(page.trashed for page in pages) == sum(block.trashed for block in long)
    assert {page.level for page in pages} == {1}
    assert (pages[1].rev_first, pages[1].rev_last) == (1, max(block.rev_last for block in long[512:1024]))
    assert runs[1].size == 1_200 * BLOCK_BYTES
    assert folder.taken() == ["list"] * 3

    found = Runs(folder.shelf(), (*runs[0].entries, *runs[1].entries), (*runs[0].pages, *runs[1].pages))
    assert parts_of(found.runs) == parts_of(runs), "newest first"
    assert names(found.blocks()) == names([*short, *long])


def test_a_page_of_the_list_is_read_when_it_is_needed_and_then_kept() -> None:
    folder = Folder()
    shelf = folder.shelf()
    run = list_run(entries(1_200), shelf, folder.writer)
    runs = Runs(folder.shelf(memory_bytes_max=1 << 24), (), run.pages)
    folder.taken()
    assert names(runs.blocks(key_of(6_000), key_of(6_020))) == names([entry(600), entry(601)])
    assert folder.taken() == ["list"]
    assert names(runs.blocks(key_of(5_115), key_of(5_125))) == names([entry(511), entry(512)])
    assert folder.taken() == ["list"], "its other page is kept"
    assert names(runs.blocks(key_of(12_000))) == []
    assert folder.taken() == []
    assert runs.names(entry(600))
    assert not runs.names(entry(600, run=2))
    assert not runs.names(msgspec.structs.replace(entry(600), name="another"))
    assert folder.taken() == []


def test_pages_of_many_columns_are_cut_by_their_bytes() -> None:
    folder = Folder()
    run = list_run(entries(400, columns=40), folder.shelf(), folder.writer)
    assert len(run.pages) > 1
    assert all(request.bytes_up < 2 * MIB for request in folder.requests)


def test_the_root_stays_small_at_100_000_blocks() -> None:
    columns = 12
    folder = Folder()
    shelf = folder.shelf()
    sample = entries(600, columns=columns)
    (page, *_) = list_run(sample, shelf, folder.writer).pages
    inline = sample[: 32 * 1024 // len(msgspec.msgpack.encode(sample[0]))]
    blocks, pages = 100_000, []
    for number in range(blocks // page.blocks + 1):
        digest = sha256(str(number).encode()).digest()
        pages.append(msgspec.structs.replace(page, name=f"{number:016x}-{digest.hex()[:8]}", sha256=digest))
    runs = runs_max(blocks * BLOCK_BYTES, RUN_BYTES_SMALLEST)
    short = [msgspec.structs.replace(block, run=run) for run in range(runs) for block in inline]
    root = Root(
        path=COLLECTION,
        collection=WriteId("0" * 32),
        revision=1,
        write_id=WriteId("0" * 32),
        misc=0,
        hash_applied=bytes(32),
        hash_trimmed=bytes(32),
        definition=b"",
        blocks=tuple(short),
        block_pages=tuple(pages),
    )
    assert len(short) > 500
    assert sum(ref.blocks for ref in root.block_pages) >= blocks
    assert len(encode_root(root)) < MIB, "a long run, and as many short ones as can stand, each as long as it may be"


def test_only_pages_of_runs_that_are_touched_are_written() -> None:
    folder = Folder()
    shelf = folder.shelf()
    long = list_run(entries(600, run=1), shelf, folder.writer)
    folder.taken()
    runs = Runs(shelf, long.entries, long.pages)
    grown = Growth(runs, folder.writer, folder.sizes).append(entries(3, run=0), run=2)
    assert (grown.pages, grown.retired) == (long.pages, ())
    assert [(block.name, block.run) for block in grown.entries] == [(entry(n, run=0).name, 2) for n in range(3)]
    grown = Growth(runs, folder.writer, folder.sizes).append(entries(600, run=0), run=2)
    assert grown.pages[2:] == long.pages
    assert {page.run for page in grown.pages[:2]} == {2}
    assert folder.taken() == ["list", "list"]
    assert Growth(runs, folder.writer, folder.sizes).append([], run=2).pages == long.pages


def test_which_blocks_can_be_a_run() -> None:
    assert is_run([])
    assert is_run([entry(1), entry(2), entry(4)])
    assert not is_run([entry(2), entry(1)])
    assert not is_run([entry(1), entry(1)])


def test_the_part_that_holds_a_key() -> None:
    parts = [entry(1), entry(3)]
    found = {number: find_part(parts, key_of(number)) for number in (9, 10, 19, 20, 29, 30, 39, 40)}
    assert [number for number, part in found.items() if part is None] == [9, 20, 29, 40]
    assert found[10] is found[19] is parts[0]
    assert found[30] is found[39] is parts[1]
    assert runs_of([]) == ()


@pytest.mark.parametrize("damage", ["flipped", "other", "gone"])
def test_a_damaged_page_is_noticed_and_named(damage: str) -> None:
    folder = Folder()
    shelf = folder.shelf()
    run = list_run(entries(600), shelf, folder.writer)
    page, other = run.pages
    key = shelf.page_key(page.name)
    body = folder.memory.get(key).body
    if damage == "flipped":
        folder.memory.put(key, body[:500] + bytes([body[500] ^ 4]) + body[501:])
    elif damage == "other":
        page = msgspec.structs.replace(page, blocks=page.blocks + 1)
    else:
        folder.memory.delete(key)
    with pytest.raises(SnapshotTooOldError if damage == "gone" else CorruptionError) as raised:
        Runs(folder.shelf(), (), [page, other]).get(key_of(5))
    assert raised.value.key == key
