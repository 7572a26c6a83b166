"""Files of tables that the record does not know of: after it was lost, or after a writer was overtaken by another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from wormdb.files.write.tables import MANIFEST, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.files.contents.names import FileKey, FileNames
    from wormdb.files.write.tables import TableKey
    from wormdb.format.files_record import FilesTable
    from wormdb.storage.store import Store

__all__ = ["found_tables", "mended_tables"]


def found_tables(
    store: Store, names: FileNames, tables: Sequence[FilesTable]
) -> tuple[tuple[FilesTable, ...], list[str]]:
    """The tables, with the files in the bucket that are to go when they are complete; and those to go now.

    1 LIST for each 1,000 files of tables, twice.
    """
    folders = (names.manifest.removesuffix(".json") + "/", names.index(("x",)).rpartition("/")[0] + "/")
    listed = [found.key for folder in folders for page in store.list(folder) for found in page.objects]
    found = _of_tables((names.manifest, *listed), names)
    made = []
    for table in tables:
        own = [key for key, what in found.items() if _table_of(what) == (table.kind, table.fields)]
        obsolete = [key for key in own if key not in keys_of(table, names)]
        # What names the parts goes before them.
        obsolete.sort(key=lambda key: found[key].partition is not None)
        made.append(replace(table, obsolete=tuple(obsolete)))
    return tuple(made), _unknown(found, made, names)


def mended_tables(
    keys: Iterable[str], names: FileNames, tables: Sequence[FilesTable]
) -> tuple[tuple[FilesTable, ...], list[str]]:
    """The tables, to be written again if one of some files is theirs; and those of the files that are of none.

    These were written by who was overtaken, perhaps in parts that are no longer so. No requests.
    """
    found = _of_tables(sorted(keys), names)
    hit = {_table_of(what) for what in found.values()}
    made = [
        replace(table, parts=tuple(replace(part, log=0) for part in table.parts))
        if (table.kind, table.fields) in hit
        else table
        for table in tables
    ]
    return tuple(made), _unknown(found, made, names)


def _of_tables(keys: Iterable[str], names: FileNames) -> dict[str, FileKey]:
    return {key: what for key in keys if (what := names.parse(key)) is not None}


def _table_of(what: FileKey) -> TableKey:
    return ("index", what.fields) if what.fields else MANIFEST


def _unknown(found: Iterable[str], tables: Iterable[FilesTable], names: FileNames) -> list[str]:
    known = {key for table in tables for key in (*keys_of(table, names), *table.obsolete)}
    return [key for key in found if key not in known]
