"""Verify and repair a collection, its readable files included."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wormdb.files.compare.check import CollectionFiles, examine_files, examine_sources
from wormdb.files.sync import sync_files
from wormdb.maintenance.audit.repair import repair
from wormdb.maintenance.audit.report import AuditReport, Repair, Verification
from wormdb.maintenance.audit.traces import find_traces
from wormdb.maintenance.audit.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.files.compare.faults import FileFault
    from wormdb.files.keeper import FilesKeeper
    from wormdb.maintenance.audit.traces import DocumentTrace
    from wormdb.maintenance.collection import StoredCollection

__all__ = ["file_site", "repair_all", "traces_of", "verify_all"]


def file_site(site: StoredCollection) -> CollectionFiles:
    """The files of a collection as a process sees them that just started. No requests."""
    return CollectionFiles(site.ledger(), site.store, site.pool, site.runtime.chance)


def verify_all(
    site: StoredCollection,
    *,
    unreferenced: bool = False,
    told: Callable[[str], None] | None = None,
    found: Verification | None = None,
) -> Verification:
    """What is wrong with a collection and its readable files; nothing is written.

    Costs as `verify`, which is not asked if others `found` the same, and, where that finds nothing wrong, as
    `examine_files`: files are compared with what is sound. Files of others that were adopted and changed since are
    told, and no damage.
    """
    found = found or verify(site, unreferenced=unreferenced, told=told)
    if not found.is_sound:
        return found
    files = file_site(site)
    examined = examine_files(files, _counting(site, told))
    report = _reported(examined.faults, told)
    for source in examine_sources(files):
        report.add("source", source.key, source.what)
    return replace(
        found,
        checked=replace(found.checked, files=examined.files),
        findings=found.findings + tuple(report.findings),
        left_out=found.left_out + report.left_out + examined.left_out,
    )


def traces_of(
    site: StoredCollection, identity: Any, *, values: Sequence[str] = (), told: Callable[[str], None] | None = None
) -> list[DocumentTrace]:
    """Where something of an erased document can still be found, in readable files too.

    Costs as `find_traces`, and 2 GETs.
    """
    opened = file_site(site).open()
    folders = () if opened is None else opened.names.every_root
    return find_traces(site, identity, values=values, folders=folders, told=told)


def repair_all(
    site: StoredCollection, keeper: FilesKeeper, *, accept_loss: bool = False, told: Callable[[str], None] | None = None
) -> Repair:
    """Repair a collection, then its readable files. Costs and errors as of `repair` and of `sync_files`."""
    done = repair(site, accept_loss=accept_loss, told=told)
    files = file_site(site)
    if any(finding.kind != "unreferenced" for finding in done.left) or not examine_files(files).faults:
        return done
    synced = sync_files(files, keeper, _counting(site, told))
    mended, left = (tuple(_reported(faults, told).findings) for faults in (synced.mended, synced.left))
    return replace(done, repaired=done.repaired + mended, left=done.left + left)


def _reported(faults: Sequence[FileFault], told: Callable[[str], None] | None) -> AuditReport:
    report = AuditReport(told)
    for fault in faults:
        report.add("file", fault.key, fault.what)
    return report


def _counting(site: StoredCollection, told: Callable[[str], None] | None) -> Callable[[int], None]:
    if told is None:
        return lambda _: None
    return lambda count: told(f"{site.collection} files of {count:,} documents")
