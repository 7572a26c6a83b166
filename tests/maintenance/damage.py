"""Ways to damage a bucket: bytes of one object, and lies that every checksum agrees with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tests.maintenance.wreck import PATHS, keys_in, kind_of, named, root_of, site_on
from wormdb.engine.blocks.runs import list_run
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.index.edit import TreeEdit
from wormdb.engine.index.shelf import IndexShelf, tree_of
from wormdb.engine.log.objects import PARQUET, NewObject
from wormdb.format.block import Row, write_block
from wormdb.format.blockread import open_block, read_documents
from wormdb.format.columns import ColumnSpec
from wormdb.format.key import encode_key
from wormdb.format.root import encode_root
from wormdb.maintenance.audit.lists import CheckedList
from wormdb.maintenance.audit.mend import FIELDS
from wormdb.maintenance.audit.report import AuditReport
from wormdb.storage.store import Always
from wormdb.system.clock import new_write_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.sweeps.commits import World
    from wormdb.engine.tree.entries import Change
    from wormdb.format.blocklist import BlockEntry, BlockPageRef
    from wormdb.format.root import Root
    from wormdb.maintenance.audit.lists import Where

__all__ = ["BYTES", "damage", "entries_of", "lie_in_entries", "lie_in_rows", "lie_in_tree", "put_root", "replaced"]

BYTES = ("flip", "truncate", "delete", "swap", "swell")
SWOLLEN_BYTES = 1 << 20
"""More than any object of these small worlds has."""


def damage(world: World, key: str, how: str, *, at: float = 0.5, mask: int = 1) -> bool:
    """Damage one object; False if that cannot be done to it."""
    body = world.get(key).body
    if how == "delete":
        world.delete(key)
        return True
    if how == "swap":
        others = [other for other in named(world) if other != key and kind_of(other) == kind_of(key)]
        if not others:
            return False
        body = world.get(others[0]).body
    elif how == "swell":
        # Longer than the store lets anybody read or write: as a sparse file is in a folder.
        world.bytes_max = SWOLLEN_BYTES + len(body)
        world.put(key, body + bytes(SWOLLEN_BYTES), Always())
        world.bytes_max = SWOLLEN_BYTES
        return True
    elif how == "truncate":
        body = body[: int(len(body) * at)]
    else:
        changed = bytearray(body)
        changed[min(int(len(body) * at), len(body) - 1)] ^= mask
        body = bytes(changed)
    world.put(key, body, Always())
    return True


def put_root(world: World, root: Root) -> None:
    """Let the collection have this root."""
    site = site_on(world, seed=1_000 + len(keys_in(world)))
    made = msgspec.structs.replace(root, revision=root.revision + 1, write_id=new_write_id(site.runtime.chance))
    world.put(PATHS.root, encode_root(made), Always())


def lie_in_entries(world: World, where: Where, change: Callable[[BlockEntry], BlockEntry | None]) -> None:
    """Change what a list says of its blocks, one by one; None leaves a block out. All checksums agree."""
    site, root = site_on(world, seed=1_000 + len(keys_in(world))), root_of(world)
    listed = CheckedList(site, where, root, AuditReport())
    shelf = Shelf(world, site.pool, listed.folder)
    entries: list[BlockEntry] = []
    pages: list[BlockPageRef] = []
    for run in listed.runs:
        changed = [made for entry in listed.entries(run) if (made := change(entry)) is not None]
        if not changed:
            continue
        again = list_run(changed, shelf, site.writer)
        entries += again.entries
        pages += again.pages
    first, second = FIELDS[where]
    put_root(world, msgspec.structs.replace(root, **{first: tuple(entries), second: tuple(pages)}))


def lie_in_rows(world: World, where: Where, change: Callable[[Row], Row | None]) -> None:
    """Change rows of the blocks of a list; None leaves a row out. All checksums, counts and statistics agree."""
    site = site_on(world, seed=1_000 + len(keys_in(world)))
    folder = CheckedList(site, where, root_of(world), AuditReport()).folder

    def rewritten(entry: BlockEntry) -> BlockEntry | None:
        key = f"{folder}{entry.name}.parquet"
        block = open_block(world.get(key).body, name=key, sha256=entry.sha256)
        old = list(read_documents(block))
        rows = [made for row in old if (made := change(row)) is not None]
        if rows == old:
            return entry
        if not rows:
            return None
        specs = [ColumnSpec(path, kind) for path, kind in block.types.items() if path != "_id"]
        members = [encode_key(row.id["d"]) for row in rows] if where == "history" else None
        new = write_block(rows, specs, members=members)
        name = site.writer.new_name()
        site.writer.put(NewObject(f"{folder}{name}.parquet", new.parquet, PARQUET))
        site.writer.put(NewObject(f"{folder}{name}.map", new.sidecar))
        return new.entry(name, name, kind=entry.kind, level=entry.level, run=entry.run)

    lie_in_entries(world, where, rewritten)


def lie_in_tree(world: World, name: str, changes: list[Change]) -> None:
    """Change entries of an index, and nothing else. All checksums and counts agree."""
    site, root = site_on(world, seed=1_000 + len(keys_in(world))), root_of(world)
    index = root.index(name)
    assert index is not None
    shelf = IndexShelf(world, PATHS, site.pool)
    maker = shelf.maker(root, name, site.writer.new_name)
    edit = TreeEdit(tree_of(index), shelf.nodes(root, name), maker, site.writer)
    edit.apply(sorted(changes))
    edit.write()
    made = msgspec.structs.replace(index, node=edit.tree.root, height=edit.tree.height, entries=edit.tree.entries)
    put_root(
        world, msgspec.structs.replace(root, indexes=tuple(made if one.name == name else one for one in root.indexes))
    )


def entries_of(world: World, name: str) -> list[tuple[bytes, bytes]]:
    """All entries of an index."""
    root = root_of(world)
    index = root.index(name)
    assert index is not None
    return list(IndexShelf(world, PATHS, site_on(world).pool).reader(root, index).scan())


def replaced(row: Row, old: bytes, new: bytes, **more: Any) -> Row:
    """A row with other bytes in its document."""
    assert row.document is not None
    return msgspec.structs.replace(row, document=row.document.replace(old, new), **more)
