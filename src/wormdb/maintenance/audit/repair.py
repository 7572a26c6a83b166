"""Make again what is damaged and can be made again: in rounds, each ending with one swap of the root.

New objects have new names, and what a root no longer names is retired as forwarding does; so readers of the old root go
on, and the first process that swaps wins. After each round everything is verified again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.blocks.runs import RunBase
from wormdb.engine.index.advance import project_indexes
from wormdb.engine.log.objects import NewObject
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.jobs import Jobs
from wormdb.engine.state.projection import ProjectionStep
from wormdb.engine.state.successor import following_root
from wormdb.engine.state.view import Overlay, View
from wormdb.errors import ConflictError, CorruptionError, InvalidRequestError, Problem, SnapshotTooOldError
from wormdb.format.root import IndexRoot, ObjectRef, RetiredList, Root, encode_retired
from wormdb.maintenance.audit.index_check import tree_objects
from wormdb.maintenance.audit.mend import DocumentRepair, PastRepair, objects_of, with_facts, with_sidecars
from wormdb.maintenance.audit.report import Finding, Loss, Repair
from wormdb.maintenance.audit.verify import RootExamination, examine
from wormdb.settings import LOG_RETENTION_MS_MIN
from wormdb.storage.store import OCTETS, IfAbsent, IfMatch, Precondition, Probe, PutResult, Store, WrappedStore
from wormdb.system.types import LogNumber, Misc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.engine.log.root import RootState
    from wormdb.maintenance.audit.agreement import Agreement
    from wormdb.maintenance.audit.chain import Chain
    from wormdb.maintenance.audit.lists import Where
    from wormdb.maintenance.collection import StoredCollection

__all__ = ["rebuild_root", "repair"]


# --- A root made again from the whole log, in place of one that cannot be read.


def rebuild_root(site: StoredCollection, state: RootState, chain: Chain) -> None:
    """Forward the whole log as if there were no root, and put the new one in the place of the damaged one.

    What the old one named stays behind as objects without a name. Costs as forwarding does. Raises CorruptionError
    if the log is not complete, ConflictError if another root came meanwhile.
    """
    if not chain.is_whole:
        raise CorruptionError(
            f"the root {site.paths.root}",
            reason="it cannot be made again: the log does not reach back to entry 1, or is damaged itself",
            fix="put the newest root back from a backup",
            key=site.paths.root,
        )
    store = _WithoutRoot(site.store, site.paths.root, state)
    replace(site.runtime, store=store, background=None).open(site.collection).forward()


class _WithoutRoot(WrappedStore):
    """A store that shows no root until one is put, which replaces the damaged one."""

    def __init__(self, inner: Store, key: str, state: RootState) -> None:
        super().__init__(inner)
        self._key = key
        self._damaged = state.version

    def probe(self, key: str) -> Probe:
        try:
            found = self._inner.probe(key)
        except CorruptionError:
            if key != self._key or self._inner.head(key).version != self._damaged:
                raise
            return Probe(None, None)  # too long to be read
        hidden = key == self._key and found.found is not None and found.found.version == self._damaged
        return Probe(None, found.time) if hidden else found

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        if key == self._key and isinstance(precondition, IfAbsent) and self._damaged is not None:
            precondition = IfMatch(self._damaged)
        return self._inner.put(key, body, precondition, content_type=content_type)


log = logging.getLogger(__name__)

_ROUNDS_MAX: Final = 12
_SHOWN: Final = 100


def repair(site: StoredCollection, *, accept_loss: bool = False, told: Callable[[str], None] | None = None) -> Repair:
    """Repair a collection; what was done, what was lost, and what is left.

    Sidecars are made again one by one. Where documents, history or an index need it, that list or tree is written again
    whole: 1 GET for each object that it is made from, and the PUTs of what is made. Everything is verified before and
    after each round. A root is made from the whole log, which is in memory for it.

    Raises InvalidRequestError, listing the documents, if one would be lost and `accept_loss` is not set, and
    CorruptionError if there is no root and the log is not complete; both before anything counts. Raises
    UnavailableError, OutcomeUnknownError.
    """
    seen: dict[Finding, None] = {}
    lost: list[Loss] = []
    examined = examine(site, told=told)
    for _ in range(_ROUNDS_MAX):
        seen |= dict.fromkeys(examined.report.findings)
        if not examined.report.findings:
            break
        try:
            given_up = _mend(site, examined, accept_loss=accept_loss)
        except (ConflictError, SnapshotTooOldError) as error:
            # The next look tells: another root came, and what this one needed or wrote may have been collected since.
            log.info("%s: another root came before a repair was done: %s", site.collection, error)
        else:
            if given_up is None:
                break
            lost += given_up
        examined = examine(site, told=told)
    left = set(examined.report.findings)
    return Repair(
        site.collection,
        repaired=tuple(finding for finding in seen if finding not in left),
        lost=tuple(lost),
        left=tuple(examined.report.findings),
    )


def _mend(site: StoredCollection, examined: RootExamination, *, accept_loss: bool) -> list[Loss] | None:
    """One round; what was lost, or None if nothing can be done."""
    if examined.root_is_bad:
        rebuild_root(site, examined.state, examined.chain)
        return []
    root = examined.state.root
    if root is None or examined.agreement is None:
        return None
    site.runtime.misc.observe(Misc(root.misc))
    work = _RepairRound(site, examined, examined.agreement, root)
    work.run()
    if work.root == root:
        return None
    _check_loss(site, work.lost, accept_loss=accept_loss)
    following = following_root(examined.state, work.root, sorted(work.retired), site.writer, site.paths)
    site.register.swap(examined.state, following)
    log.info("%s: repaired, %d objects retired", site.collection, len(work.retired))
    return work.lost


def _check_loss(site: StoredCollection, lost: Sequence[Loss], *, accept_loss: bool) -> None:
    gone = [loss for loss in lost if loss.is_document]
    if gone and not accept_loss:
        raise InvalidRequestError(
            f"repair of {site.collection}",
            problems=[Problem(f"document {loss.id or '?'}", loss.what) for loss in gone[:_SHOWN]],
            fix="restore the damaged objects from a backup, or repair with --accept-loss (accept_loss=True)",
        )


@dataclass(slots=True)
class _RepairRound:
    """The root on its way from damaged to sound."""

    site: StoredCollection
    examined: RootExamination
    agreement: Agreement
    root: Root
    lost: list[Loss] = field(default_factory=list)
    retired: set[str] = field(default_factory=set)

    def run(self) -> None:
        before = self.root
        self._lists()
        self._sidecars()
        if self.root is not before:
            self._retire_lists(before)
        agreement = self.agreement
        if agreement.facts_wrong and not (agreement.documents_wrong or agreement.documents.wrong):
            self.root = with_facts(self.site, self.root)
        # What an index should have of damaged documents is known in the next round.
        if self.examined.bad_indexes:
            self._indexes()
        if self.examined.retired_is_bad:
            self._retired()
        self._log()

    # --- lists ---

    def _lists(self) -> None:
        agreement, past = self.agreement, None
        listed = {number: job.blocks for number, job in self.examined.chain.jobs.items()}
        if agreement.history_wrong or agreement.past.wrong:
            brought = {number: job.history for number, job in self.examined.chain.jobs.items()}
            past = PastRepair(self.site, self.root, agreement.stale, listed, brought, self.examined.chain.erased)
            self.root = past.run()
            self.lost += past.lost
        if agreement.documents_wrong or agreement.documents.wrong:
            documents = DocumentRepair(self.site, self.root, past, listed, self.examined.chain.erased)
            self.root = documents.run()
            self.lost += documents.lost
            if past is not None and any(loss.is_document for loss in documents.lost):
                reach = max(self.root.history_from, past.reach)
                self.root = msgspec.structs.replace(self.root, history_from=reach)

    def _sidecars(self) -> None:
        past = self.agreement.past
        lists = (self.agreement.documents, past.history, past.attached, past.brought)
        for listed in lists:
            named = objects_of(self.site, self.root, listed.where) if listed.sidecars else set()
            blocks = {name: one for name, one in listed.sidecars.items() if listed.keys(one)[0] in named}
            if blocks:
                self.root = with_sidecars(self.site, self.root, listed.where, blocks)

    def _retire_lists(self, before: Root) -> None:
        wheres: tuple[Where, ...] = ("blocks", "history", "attached", "brought")
        old, new = set[str](), set[str]()
        for where in wheres:
            old |= objects_of(self.site, before, where)
            new |= objects_of(self.site, self.root, where)
        self.retired |= old - new

    # --- indexes ---

    def _indexes(self) -> None:
        """Let the projection make them as it does for an index that has no tree yet."""
        root, bad = self.root, self.examined.bad_indexes
        bare = msgspec.structs.replace(root, indexes=tuple(one for one in root.indexes if one.name not in bad))
        number = LogNumber(root.applied)
        base = RunBase(self.site.place(bare))
        definition = Definition.of_root(root)
        view = View(number, definition, base, number, Overlay(), root.rows, Jobs.of(root.jobs))
        step = ProjectionStep(self.site.place(bare), view, (), (), self.site.writer, self.site.runtime.sizes)
        try:
            made: tuple[IndexRoot, ...] = project_indexes(step).fields["indexes"]
        except (InvalidRequestError, CorruptionError) as error:
            # A document that an index cannot take, or damage that the next round mends first.
            log.warning("%s: indexes cannot be built again: %s", self.site.collection, error)
            return
        new = {index.name: index for index in made}
        for index in root.indexes:
            if index.name in bad:
                self.retired |= set(tree_objects(self.site, root, index))
        indexes = tuple(new[index.name] if index.name in bad else index for index in root.indexes)
        self.root = msgspec.structs.replace(root, indexes=indexes)

    # --- retired objects, and the log ---

    def _retired(self) -> None:
        """The lists that can be read, linked anew; what the others named stays behind, without a name."""
        older: ObjectRef | None = None
        for ref, found in reversed(self.examined.readable_retired):
            name = self.site.writer.new_name()
            body = encode_retired(RetiredList(retired=found.retired, older=older), identity=name)
            self.site.writer.put(NewObject(self.site.paths.retired(name), body))
            older = ObjectRef.of(name, body)
            self.retired.add(self.site.paths.retired(ref.name))
        self.root = msgspec.structs.replace(self.root, retired_older=older)

    def _log(self) -> None:
        """Give up the log through the last broken entry that was applied, as trimming does, but delete nothing.

        Not before an hour has passed: a process that knows the log to a number before it may still ask for the next.
        """
        root, chain, time = self.root, self.examined.chain, self.examined.state.time
        through = max((number for number in chain.broken if number <= root.applied), default=0)
        old = [mark for mark in root.marks if time is not None and time - mark.time >= LOG_RETENTION_MS_MIN]
        if not through or not any(mark.number >= through for mark in old):
            return
        marks = tuple(mark for mark in root.marks if mark.number >= through)
        digest = root.hash_applied if through == root.applied else chain.hashes[through]
        self.root = msgspec.structs.replace(root, trimmed=through, hash_trimmed=digest, marks=marks)
