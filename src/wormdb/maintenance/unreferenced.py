"""Objects that a root does not name: what writers left behind that lost a race or ended in the middle.

To tell of, not to remove: what cannot be read is passed over. `wormdb.maintenance.gc_names` does without that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.errors import CorruptionError, UnsupportedFormatError
from wormdb.format.retired import decode_retired
from wormdb.maintenance.audit.index_check import tree_objects
from wormdb.maintenance.audit.listed import CheckedList, Where
from wormdb.maintenance.audit.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.format.root import Root
    from wormdb.maintenance.site import Site

__all__ = ["find_unreferenced", "named_objects"]


def find_unreferenced(site: Site, root: Root, report: Report) -> None:
    """Report what is in the folder and is named neither by the root, nor by its list of what was retired.

    1 LIST for each 1,000 objects, 1 GET for each page of a list and each node above the leaves; all names in memory.
    What a writer is about to name is among them. Blobs are not: documents name them.
    """
    paths = site.paths
    named = set(named_objects(site, root)) | {paths.root, paths.files, paths.gc_probe}
    for page in site.store.list(paths.folder):
        for found in page.objects:
            if found.key not in named and not found.key.startswith((paths.entries, paths.blobs)):
                report.add("unreferenced", found.key, "no root names it")


def named_objects(site: Site, root: Root) -> Iterator[str]:
    """The keys of all objects that a root names, as far as they can be found. Costs as `find_unreferenced`."""
    paths = site.paths
    wheres: tuple[Where, ...] = ("blocks", "history", "attached", "brought")
    for where in wheres:
        listed = CheckedList(site, where, root, Report())
        for run in listed.runs:
            yield from (f"{listed.folder}{page.name}.list" for page in run.pages)
            for entry in listed.entries(run):
                yield from listed.keys(entry)
    for index in root.indexes:
        yield from tree_objects(site, root, index)
    yield from (paths.folder + retired.name for retired in root.retired)
    older = root.retired_older
    while older is not None:
        key = paths.retired(older.name)
        yield key
        body = site.body(key, older.length)
        try:
            found = None if body is None else decode_retired(body, name=key, identity=older.name)
        except (CorruptionError, UnsupportedFormatError):
            found = None
        if found is None:
            return
        yield from (paths.folder + retired.name for retired in found.retired)
        older = found.older
