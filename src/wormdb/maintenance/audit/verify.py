"""Check everything that a collection has in the store: the log, the objects of one root, and that all of it agrees."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from wormdb.engine.blocks.runs import merge_rows
from wormdb.engine.log.paths import transaction_key
from wormdb.engine.log.root import RootState
from wormdb.engine.state.definition import Definition
from wormdb.errors import CorruptionError, SchemaError, UnsupportedFormatError
from wormdb.format.root import ObjectRef, RetiredList, Root, decode_retired
from wormdb.maintenance.audit.agreement import Agreement, BlobCheck
from wormdb.maintenance.audit.chain import Chain, check_chain
from wormdb.maintenance.audit.index_check import index_checks, tree_objects
from wormdb.maintenance.audit.lists import CheckedList, PastLists, Where, check_body
from wormdb.maintenance.audit.parts import PartTally, report_of
from wormdb.maintenance.audit.report import AuditReport, Verification

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.format.block import Row
    from wormdb.maintenance.collection import StoredCollection

__all__ = ["RootExamination", "examine", "find_unreferenced", "named_objects", "verify", "verify_parts"]


# --- Objects that a root does not name: what writers left behind that lost a race or ended in the middle.
#
# To tell of, not to remove: what cannot be read is passed over. `wormdb.maintenance.gc.retired` does without that.


def find_unreferenced(site: StoredCollection, root: Root, report: AuditReport) -> None:
    """Report what is in the folder and is named neither by the root, nor by its list of what was retired.

    1 LIST for each 1,000 objects, 1 GET for each page of a list and each node above the leaves; all names in memory.
    What a writer is about to name is among them. Blobs are not, because documents name them; nor what writers offer.
    """
    paths = site.paths
    named = set(named_objects(site, root)) | {paths.root, paths.files, paths.adopted, paths.gc_probe}
    for page in site.store.list(paths.folder):
        for found in page.objects:
            if found.key not in named and not found.key.startswith((paths.entries, paths.blobs, paths.offers)):
                report.add("unreferenced", found.key, "no root names it")


def named_objects(site: StoredCollection, root: Root) -> Iterator[str]:
    """The keys of all objects that a root names, as far as they can be found. Costs as `find_unreferenced`."""
    paths = site.paths
    wheres: tuple[Where, ...] = ("blocks", "history", "attached", "brought")
    for where in wheres:
        listed = CheckedList(site, where, root, AuditReport())
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


_TRIES_MAX: Final = 3


def verify(
    site: StoredCollection, *, unreferenced: bool = False, told: Callable[[str], None] | None = None
) -> Verification:
    """What is wrong with a collection, all of it; nothing is written.

    1 GET for each entry of the log and for each object that the root names, and 3 for the end of the log; of an object
    of lists above 1 MiB 1 more, and 1 for each 4 MiB; 2 for blocks of jobs that no merge has taken in yet; 1 for each 4
    MiB of blobs that documents refer to; 1 for each transaction that is pending. With `unreferenced` also 1 LIST for
    each 1,000 objects, to find those that no root names. In memory are a block for each run, the filter of one index,
    about 100 bytes for each entry of the log and 200 for each blob. Where an index differs from the documents, these
    are read once more to name them. Raises UnavailableError, PermissionDeniedError.
    """
    examined = examine(site, told=told)
    if unreferenced and examined.state.root is not None:
        find_unreferenced(site, examined.state.root, examined.report)
    return examined.report.verification(site.collection)


@dataclass(slots=True)
class RootExamination:
    """What was found in one root, and what a repair must do about it."""

    state: RootState
    report: AuditReport
    chain: Chain
    agreement: Agreement | None = None
    root_is_bad: bool = False
    bad_indexes: set[str] = field(default_factory=set)
    readable_retired: list[tuple[ObjectRef, RetiredList]] = field(default_factory=list)
    """The lists of retired objects that can be read, newest first."""
    retired_is_bad: bool = False


def examine(site: StoredCollection, *, told: Callable[[str], None] | None = None) -> RootExamination:
    """Check everything. Costs as `verify` says."""
    examined = _examine(site, AuditReport(told))
    for _ in range(_TRIES_MAX - 1):
        # What is missing may have been removed because a newer root took its place while we looked.
        if not examined.report.findings or _read_root(site)[0].version == examined.state.version:
            break
        examined = _examine(site, AuditReport(told))
    return examined


def _examine(site: StoredCollection, report: AuditReport) -> RootExamination:
    state, fault = _read_root(site)
    examined = RootExamination(state, report, Chain())
    examined.chain = check_chain(site, state.root, report)
    if state.root is not None:
        _examine_root(site, state.root, examined)
        return examined
    if fault is None and not examined.chain.last and _has_objects(site) and not _is_adopted_now(site):
        fault = "it is missing, and so is the beginning of the log"
    if fault is not None:
        examined.root_is_bad = True
        report.add("root", site.paths.root, fault)
    return examined


def _read_root(site: StoredCollection) -> tuple[RootState, str | None]:
    """The root, or what is wrong with it. 1 GET, and 1 HEAD if it is too long to be read.

    Raises UnsupportedFormatError: what a newer version wrote is not damage, and must not be repaired.
    """
    try:
        probe = site.store.probe(site.paths.root)
    except CorruptionError as error:
        return RootState(None, site.store.head(site.paths.root).version, None), error.reason
    found = probe.found
    if found is None:
        return RootState(None, None, probe.time), None
    try:
        root = site.register.decode(found.body)
        Definition.of_root(root)
        state = RootState(root, found.version, probe.time)
        if root.closed is not None and root.closed.is_stage:
            state = site.register.read()
    except (CorruptionError, SchemaError) as error:
        return RootState(None, found.version, probe.time), error.reason
    return state, None


def _is_adopted_now(site: StoredCollection) -> bool:
    """Whether an adoption writes blocks for it that no entry names yet. 1 GET."""
    try:
        return site.body(site.paths.adoption) is not None
    except CorruptionError:
        return True  # something is there


def _has_objects(site: StoredCollection) -> bool:
    """Whether anything of the collection is there. 1 LIST."""
    return any(page.objects for page in islice(site.store.list(site.paths.folder), 1))


def _examine_root(site: StoredCollection, root: Root, examined: RootExamination) -> None:
    report = examined.report
    checks = index_checks(site, root, report)
    blobs = BlobCheck(site, root, report)
    agreement = Agreement(
        site,
        root,
        report,
        documents=CheckedList(site, "blocks", root, report),
        past=PastLists.of(site, root, lambda: report),
        chain=examined.chain,
        indexes=checks,
        blobs=blobs,
    )
    examined.agreement = agreement
    agreement.run()
    for check in checks:
        differing = check.compare(with_documents=not agreement.documents.holes)
        if differing:
            again = CheckedList(site, "blocks", root, AuditReport())
            check.name_differences(differing, _alive(again))
        if check.is_bad:
            examined.bad_indexes.add(check.stored.name)
    blobs.compare()
    _examine_pending(site, root, examined)
    _examine_retired(site, root.retired_older, examined)


def _examine_pending(site: StoredCollection, root: Root, examined: RootExamination) -> None:
    """Whether the root carries the transactions that are pending, and their records can be read. 1 GET for each."""
    carried = {one.prepared.tx for one in root.pending}
    for transaction in sorted(carried ^ examined.chain.at_root) if not examined.chain.broken else ():
        told = "carries" if transaction in carried else "does not carry"
        examined.report.add("transaction", site.paths.root, f"it {told} transaction {transaction}, other than the log")
    for transaction in examined.chain.pending:
        try:
            site.runtime.records.read(transaction)
        except CorruptionError as error:
            examined.report.add("transaction", transaction_key(transaction), error.reason)


def verify_parts(
    site: StoredCollection, log: RootExamination, parts: Sequence[PartTally], *, unreferenced: bool = False
) -> Verification | None:
    """What `verify` says of a collection whose blocks are sound, from ranges that other processes checked.

    None if something is wrong: then `verify` must tell what. `log` has the root and what `check_chain` found. 1 GET for
    each page of a long list and for each node of the indexes; with `unreferenced` what that costs. Raises
    UnavailableError.
    """
    root = log.state.root
    if root is None or report_of(site, root, log.chain, log.report, parts) is None:
        return None
    _examine_pending(site, root, log)
    _examine_retired(site, root.retired_older, log)
    if log.report.findings:
        return None
    if unreferenced:
        find_unreferenced(site, root, log.report)
    return log.report.verification(site.collection)


def _alive(documents: CheckedList) -> Iterator[tuple[bytes, Row]]:
    return ((key, row) for key, row in merge_rows(documents.streams()) if row.document is not None)


def _examine_retired(site: StoredCollection, ref: ObjectRef | None, examined: RootExamination) -> None:
    while ref is not None:
        key = site.paths.retired(ref.name)
        examined.report.count("lists")
        try:
            body = check_body(site.body(key, ref.length), ref.length, ref.sha256, key)
            found = decode_retired(body, name=key, identity=ref.name)
        except (CorruptionError, UnsupportedFormatError) as error:
            examined.report.add("retired", key, error.reason)
            examined.retired_is_bad = True
            return
        examined.readable_retired.append((ref, found))
        ref = found.older
