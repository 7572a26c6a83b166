"""Semantic damage: every checksum is right, and something is wrong all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tests.engine.tree.rig import build_filter
from tests.maintenance.damage import entries_of, lie_in_entries, lie_in_rows, lie_in_tree, put_root, replaced
from tests.maintenance.wreck import PATHS, PREFIX, root_of, site_on
from wormdb.engine.index.shelf import IndexShelf
from wormdb.engine.tree.entries import value_key_of
from wormdb.format import json
from wormdb.format.entry import decode_entry, encode_entry
from wormdb.format.key import encode_key
from wormdb.format.root import ObjectRef, RetiredList, encode_retired
from wormdb.format.sample import Sample, encode_sample
from wormdb.storage.store import Always
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.sweeps.commits import World
    from wormdb.format.block import Row
    from wormdb.format.blocklist import BlockEntry

__all__ = ["LIES"]


def a_changed_document(world: World) -> None:
    def change(row: Row) -> Row:
        return replaced(row, b'"pppp', b'"wrong') if row.id == "t007" else row

    lie_in_rows(world, "blocks", change)


def a_missing_document(world: World) -> None:
    lie_in_rows(world, "blocks", lambda row: None if row.id == "t008" else row)


def a_missing_version(world: World) -> None:
    lie_in_rows(world, "history", lambda row: None if row.id == {"d": "t032", "s": 2} else row)


def a_missing_last_version(world: World) -> None:
    lie_in_rows(world, "history", lambda row: None if row.id == {"d": "t032", "s": 3} else row)


def a_changed_version(world: World) -> None:
    def change(row: Row) -> Row:
        return replaced(row, b'"pppp', b'"wrong') if row.id == {"d": "t015", "s": 1} else row

    lie_in_rows(world, "history", change)


def a_missing_mark(world: World) -> None:
    lie_in_rows(world, "history", lambda row: None if "t" in row.id else row)


def a_missing_index_entry(world: World) -> None:
    lie_in_tree(world, "byCityAge", [(entries_of(world, "byCityAge")[5][0], None)])


def an_index_entry_too_many(world: World) -> None:
    key, value = entries_of(world, "byTag")[3]
    lie_in_tree(world, "byTag", [(b"\x01" + key, value)])


def an_index_entry_of_another(world: World) -> None:
    (key, _), (_, other) = entries_of(world, "byCityAge")[:2]
    lie_in_tree(world, "byCityAge", [(key, other)])


def a_unique_value_twice(world: World) -> None:
    one, other = entries_of(world, "byEmail")[:2]
    own = encode_key(json.decode(other[1], name="id"))
    lie_in_tree(world, "byEmail", [(value_key_of(one) + own, other[1])])


def a_filter_without_keys(world: World) -> None:
    root, site = root_of(world), site_on(world, seed=130)
    index = root.index("byEmail")
    assert index is not None
    maker = IndexShelf(world, PATHS, site.pool).maker(root, "byEmail", site.writer.new_name)
    (new,) = build_filter([b"other"], maker).written
    world.put(f"{PATHS.index('byEmail')}{new.name}", new.body, Always())
    made = msgspec.structs.replace(index, membership=new.ref)
    put_root(
        world, msgspec.structs.replace(root, indexes=tuple(made if i.name == "byEmail" else i for i in root.indexes))
    )


def a_wrong_count(world: World) -> None:
    root = root_of(world)
    put_root(world, msgspec.structs.replace(root, rows=root.rows + 1))


def a_wrong_sequence(world: World) -> None:
    put_root(world, msgspec.structs.replace(root_of(world), sequence=17))


def a_wrong_sample(world: World) -> None:
    sample = Sample().after([(b"\x00", b'{"_id":"x"}')])
    put_root(world, msgspec.structs.replace(root_of(world), sample=encode_sample(sample)))


def wrong_statistics(world: World) -> None:
    def change(entry: BlockEntry) -> BlockEntry:
        columns = tuple(
            msgspec.structs.replace(one, high=one.low) if one.path == "age" else one for one in entry.columns
        )
        return msgspec.structs.replace(entry, columns=columns)

    lie_in_entries(world, "blocks", change)


def wrong_counts_in_the_list(world: World) -> None:
    lie_in_entries(world, "history", lambda entry: msgspec.structs.replace(entry, rows=entry.rows + 1))


def a_block_left_out(world: World) -> None:
    lie_in_entries(world, "history", lambda entry: None if entry.rev_first <= 17 <= entry.rev_last else entry)


def an_edited_entry(world: World) -> None:
    number = root_of(world).applied - 1
    key = PATHS.entry(LogNumber(number))
    entry = decode_entry(world.get(key).body, name=key, number=number, collection=PREFIX)
    (batch,) = entry.batches
    changes = tuple(
        msgspec.structs.replace(one, after=None if one.after is None else one.after.replace(b'"pppp', b'"wrong'))
        for one in batch.changes
    )
    made = msgspec.structs.replace(entry, batches=(msgspec.structs.replace(batch, changes=changes),))
    world.put(key, encode_entry(made, collection=PREFIX), Always())


def an_older_root(world: World) -> None:
    """The hash at `applied` is of another entry."""
    put_root(world, msgspec.structs.replace(root_of(world), hash_applied=bytes(32)))


def retired_lists_in_disorder(world: World) -> None:
    body = encode_retired(RetiredList(retired=()), identity="another")
    root = root_of(world)
    world.put(PATHS.retired("mine"), body, Always())
    put_root(world, msgspec.structs.replace(root, retired_older=ObjectRef.of("mine", body)))


LIES: dict[str, tuple[Callable[[World], None], str, bool]] = {
    lie.__name__: (lie, kind, repairable)
    for lie, kind, repairable in (
        (a_changed_document, "documents", True),
        (a_missing_document, "documents", True),
        (a_missing_version, "history", True),
        (a_missing_last_version, "history", True),
        (a_changed_version, "history", True),
        (a_missing_mark, "history", True),
        (a_missing_index_entry, "index", True),
        (an_index_entry_too_many, "index", True),
        (an_index_entry_of_another, "index", True),
        (a_filter_without_keys, "index", True),
        (a_unique_value_twice, "index", True),
        (a_wrong_count, "root", True),
        (a_wrong_sequence, "root", True),
        (a_wrong_sample, "root", True),
        (wrong_statistics, "block", True),
        (wrong_counts_in_the_list, "block", True),
        (a_block_left_out, "history", True),
        (an_edited_entry, "log", False),
        (an_older_root, "log", False),
        (retired_lists_in_disorder, "retired", True),
    )
}
"""Each with the kind of finding that it must give, and whether a repair helps."""
