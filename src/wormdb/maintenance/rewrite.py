"""Write a list of blocks again, whole or with new sidecars. Nothing counts before a root names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.blocks.listing import Run, list_run
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.history.changes import member_of
from wormdb.engine.log.objects import NewObject
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.upgrade import Upgrades
from wormdb.format.blocklist import SidecarRef
from wormdb.format.past import HISTORY_COLUMNS
from wormdb.format.root import ObjectRef
from wormdb.maintenance.audit.block_check import content_of, rebuilt_sidecar
from wormdb.maintenance.audit.listed import CheckedList
from wormdb.maintenance.audit.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wormdb.format.block import Row
    from wormdb.format.blocklist import BlockEntry, BlockPageRef
    from wormdb.format.root import Root
    from wormdb.maintenance.audit.listed import Where
    from wormdb.maintenance.site import Site

__all__ = ["FIELDS", "objects_of", "with_sidecars", "write_list"]

FIELDS: dict[Where, tuple[str, str]] = {
    "blocks": ("blocks", "block_pages"),
    "history": ("history", "history_pages"),
    "attached": ("attached", "attached_pages"),
    "brought": ("brought", "brought_pages"),
}
"""The fields of a root that hold each list."""


def write_list(site: Site, root: Root, where: Where, rows: Iterable[tuple[bytes, Row]]) -> Root:
    """The root with one run of these rows, in order of key, as its list. 2 PUTs a block, 1 a page of the list."""
    listed = CheckedList(site, where, root, Report())
    shelf = Shelf(site.store, site.pool, listed.folder)
    columns = HISTORY_COLUMNS if listed.is_history else Definition.of_root(root).columns
    members = member_of if listed.is_history else None
    blocks = BlockWriter(shelf, site.writer, site.around.sizes.block_target, columns, members)
    level = max((run.level for run in listed.runs), default=0)
    entries = blocks.write(rows, run=root.applied, level=level, kind="base")
    newest = Upgrades.of(root.versions).newest if where == "blocks" else 0
    entries = [entry.shaped(newest) if newest else entry for entry in entries]
    run = list_run(entries, shelf, site.writer) if entries else Run(root.applied, ())
    return _with_list(root, where, [run])


def _with_list(root: Root, where: Where, runs: Iterable[Run]) -> Root:
    entries: list[BlockEntry] = []
    pages: list[BlockPageRef] = []
    for run in runs:
        entries += run.entries
        pages += run.pages
    first, second = FIELDS[where]
    return msgspec.structs.replace(root, **{first: tuple(entries), second: tuple(pages)})


def with_sidecars(site: Site, root: Root, where: Where, blocks: Mapping[str, BlockEntry]) -> Root:
    """The root with new sidecars for some blocks of a list. 1 GET and 1 PUT each, and the pages that name them."""
    listed = CheckedList(site, where, root, Report())
    shelf = Shelf(site.store, site.pool, listed.folder)
    runs = []
    for run in listed.runs:
        entries = list(listed.entries(run))
        if any(entry.name in blocks for entry in entries):
            made = [_mended(site, listed, entry) if entry.name in blocks else entry for entry in entries]
            runs.append(list_run(made, shelf, site.writer))
        else:
            runs.append(run)
    return _with_list(root, where, runs)


def _mended(site: Site, listed: CheckedList, entry: BlockEntry) -> BlockEntry:
    key, _ = listed.keys(entry)
    body = site.body(key, entry.length)
    assert body is not None, "the block was read a moment ago"
    data, map_bytes = rebuilt_sidecar(content_of(body, entry, name=key, is_history=listed.is_history))
    ref = ObjectRef.of(site.writer.new_name(), data)
    site.writer.put(NewObject(f"{listed.folder}{ref.name}.map", data))
    sidecar = SidecarRef(name=ref.name, sha256=ref.sha256, length=ref.length, map_bytes=map_bytes)
    return msgspec.structs.replace(entry, sidecar=sidecar).shaped(entry.shape)


def objects_of(site: Site, root: Root, where: Where) -> set[str]:
    """The keys of all objects of a list, as far as its pages can be read. 1 GET a page."""
    listed = CheckedList(site, where, root, Report())
    found: set[str] = set()
    for run in listed.runs:
        found |= {f"{listed.folder}{page.name}.list" for page in run.pages}
        for entry in listed.entries(run):
            found |= set(listed.keys(entry))
    return found
