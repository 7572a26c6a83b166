"""Ways to get the projections wrong: forwarding, indexes and their building, history, what is attached.

Made and found as those of `mutants.py`.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from unittest import mock

from tests.simulation.mutants import Mutant, rewritten
from wormdb.engine.blocks.grow import Growth
from wormdb.engine.bulk import stage
from wormdb.engine.commit.head import Head
from wormdb.engine.commit.turns import GroupCommit
from wormdb.engine.commit.validate import Group, _BatchCheck
from wormdb.engine.forward import forward
from wormdb.engine.forward import forward as data
from wormdb.engine.forward.build import _Build, _DuplicateGuard
from wormdb.engine.forward.forward import Forwarder
from wormdb.engine.forward.keeper import Advance
from wormdb.engine.history import changes as history
from wormdb.engine.history import read as past_reader
from wormdb.engine.index.advance import _Projector
from wormdb.engine.index.edit import _ChunkDraft
from wormdb.engine.log.objects import ObjectWriter
from wormdb.engine.log.root import Register
from wormdb.engine.state.moments import AsOf
from wormdb.engine.state.view import View

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from wormdb.engine.log.objects import NewObject
    from wormdb.engine.log.root import RootState
    from wormdb.format.root import Root

__all__ = ["PROJECTION_MUTANTS"]


@contextmanager
def root_before_objects() -> Iterator[None]:
    """Objects wait until the root that names them is there."""
    put, swap = ObjectWriter.put, Register.swap
    waiting: list[tuple[ObjectWriter, NewObject]] = []

    def later(self: ObjectWriter, new: NewObject) -> None:
        waiting.append((self, new))

    def swap_first(self: Register, current: RootState, following: Root, **options: bool) -> RootState:
        try:
            return swap(self, current, following, **options)
        finally:
            while waiting:
                put(*waiting.pop(0))

    with mock.patch.object(ObjectWriter, "put", later), mock.patch.object(Register, "swap", swap_first):
        yield


def deletes_not_indexed() -> AbstractContextManager[object]:
    gone = "changes += [(key + own, None) for key in was if key not in kept]"
    return rewritten(
        _ChunkDraft, (gone, "changes += [] if not now else [(k + own, None) for k in was if k not in kept]")
    )


def history_skips_a_batch() -> AbstractContextManager[object]:
    return rewritten(history, ("for batch in entry.batches:", "for batch in entry.batches[:1]:"))


def ready_in_spite_of_the_tail() -> AbstractContextManager[object]:
    return rewritten(_DuplicateGuard, ("check_tail(self.index, view, self.root, self.shelf)", "pass"))


def cursor_without_documents() -> AbstractContextManager[object]:
    """A step that comes upon an edit of its own leaves its documents out."""
    return rewritten(_Build, ("edit.apply(chunk.changes)", "edit.apply(chunk.changes[:1])"))


def forwarding_leaves_the_build_alone() -> AbstractContextManager[object]:
    edited = "return self._edited(status, old, [self._net(status.index, old.cursor)])"
    return rewritten(_Projector, (edited, "return old"))


@contextmanager
def attach_in_company() -> Iterator[None]:
    """Neither the code that gathers batches nor the code that accepts them lets one stand alone."""
    accepts = "if self._is_alone or (self._accepted and pending.is_alone) or (self.prepared and pending.events):"
    gathers = "or ticket.pending.is_alone or group[0].pending.is_alone"
    with ExitStack() as stack:
        stack.enter_context(rewritten(GroupCommit, (gathers, "")))
        stack.enter_context(rewritten(Group, (accepts, "if False:")))
        yield


def attach_unchecked() -> AbstractContextManager[object]:
    return rewritten(stage._StagedGuard, ("if entry.number > checked.view.number:", "if False:"))


def attach_over_what_was_forwarded() -> AbstractContextManager[object]:
    return rewritten(stage._StagedGuard, ("if view.base_number > checked.view.number:", "if False:"))


def attach_without_unique_values() -> AbstractContextManager[object]:
    return rewritten(stage, ("if change.after is None or not unique:", "if True:"))


def staged_over_another_job() -> AbstractContextManager[object]:
    """A staged batch that was overtaken by another one goes on as if nothing had come between."""
    attached = " or any(isinstance(event, JobAttached) for entry in entries for event in entry.events)"
    return rewritten(stage.Stager, (attached, ""))


def retired_of_the_last_stage() -> AbstractContextManager[object]:
    return rewritten(Forwarder, ("retired += more", "retired = [*more]"))


def indexed_before_the_last_change() -> AbstractContextManager[object]:
    """What a document was before the last of several changes counts, and not what it was at the root."""
    first = "before.setdefault(id_key(change.id), change.before)"
    return rewritten(forward, (first, "before[id_key(change.id)] = change.before"))


def retired_deleted_at_once() -> AbstractContextManager[object]:
    follow = "self._follow(current, root, dict.fromkeys(retired, 0) | gone | folded, entries)"
    deleted = f"state = {follow}\n    retired and self.register.store.delete_many(retired)\n    return state"
    return rewritten(Forwarder, (f"return {follow}", deleted))


def view_without_attached() -> AbstractContextManager[object]:
    layers = "layers = [attached.base.scan(low, high) for attached in self.overlay.attached(self.number)]"
    return rewritten(View, (layers, "layers = []"))


def entries_hide_what_is_attached() -> AbstractContextManager[object]:
    newer = "if newest is not None and newest.rev > attached.number:"
    return rewritten(View, (newer, "if newest is not None:"))


@contextmanager
def owners_outlive_attached() -> Iterator[None]:
    """The owner of a unique value before blocks were attached still owns it, and no other document does."""
    loaded = "attached = self._load.attached(event, record.number)\n            self._unique = {}"
    with ExitStack() as stack:
        stack.enter_context(rewritten(Head, (loaded, loaded.partition("\n")[0])))
        stack.enter_context(
            rewritten(
                Head, ("self._unique = {}\n        self._points, self._last = kept", "self._points, self._last = kept")
            )
        )
        yield


def attached_not_indexed() -> AbstractContextManager[object]:
    return rewritten(_Projector, ("if self.step.attached is not None:", "if False:"))


def filter_not_extended() -> AbstractContextManager[object]:
    made = "membership = following_membership("
    return rewritten(_Projector, (made, "membership = old.membership or following_membership("))


def as_of_one_late() -> AbstractContextManager[object]:
    return rewritten(AsOf, ("if self.is_time else rev <= self.bound", "if self.is_time else rev <= self.bound + 1"))


def attached_blocks_retired() -> AbstractContextManager[object]:
    return rewritten(Growth, ("if not self.is_kept(entry):", "if True:"))


def history_without_attached() -> AbstractContextManager[object]:
    return mock.patch.object(past_reader, "loads_of_root", return_value=[])


def attached_not_stored_as_history() -> AbstractContextManager[object]:
    kept = '{**outcome.fields, "attached": kept.entries, "attached_pages": kept.pages}'
    return rewritten(data, (kept, "outcome.fields"))


def stages_of_an_older_root() -> AbstractContextManager[object]:
    """What was known to be applied is believed, instead of what the root says that is swapped."""
    return rewritten(
        Advance, ("self._head.stages(LogNumber(current.applied))", "self._head.stages(self._head.applied)[-1:]")
    )


def restored_with_its_tombstone() -> AbstractContextManager[object]:
    return rewritten(_BatchCheck, ("op=op, trash=trash,", "op=op, trash=trash or (before.trash if before else None),"))


def search_forgotten() -> AbstractContextManager[object]:
    return rewritten(_Build, ("if searched.duplicates:", "if False:"))


PROJECTION_MUTANTS = [
    Mutant("root swapped before its objects are written", root_before_objects, "bank", 0),
    Mutant("deletes not indexed", deletes_not_indexed, "indexing", 1),
    Mutant("history skips a batch", history_skips_a_batch, "set", 12, "crowd"),
    Mutant("ready in spite of the tail", ready_in_spite_of_the_tail, "indexing", 6, "busy"),
    Mutant("ready in spite of duplicates", search_forgotten, "indexing", 0, "busy"),
    Mutant("cursor moved without the documents", cursor_without_documents, "indexing", 1),
    Mutant("forwarding leaves the build alone", forwarding_leaves_the_build_alone, "indexing", 2, "busy"),
    Mutant("attached in company", attach_in_company, "loads", 86, "crowd", (ValueError,)),
    Mutant("attached unchecked", attach_unchecked, "loads", 0, "busy"),
    Mutant("attached over what was forwarded", attach_over_what_was_forwarded, "loads", 1, "busy"),
    Mutant("attached without its unique values", attach_without_unique_values, "loads", 161, "busy"),
    Mutant("staged over what another job attached", staged_over_another_job, "loads", 1, "busy"),
    Mutant("retired of the last stage only", retired_of_the_last_stage, "loads", 13, "busy"),
    Mutant("indexed from before the last change", indexed_before_the_last_change, "indexing", 0, "busy"),
    Mutant("retired objects deleted at once", retired_deleted_at_once, "bank", 0),
    Mutant("view without what is attached", view_without_attached, "bank", 0),
    Mutant("entries hide what is attached", entries_hide_what_is_attached, "loads", 163, "crowd"),
    Mutant("unique owners outlive what is attached", owners_outlive_attached, "loads", 1, "busy"),
    Mutant("attached blocks not indexed", attached_not_indexed, "loads", 0),
    Mutant("filter not extended", filter_not_extended, "unique", 0),
    Mutant("as of is one entry late", as_of_one_late, "past", 1),
    Mutant("attached blocks retired", attached_blocks_retired, "bank", 0),
    Mutant("history without what is attached", history_without_attached, "loads", 0),
    Mutant("what is attached is not kept as history", attached_not_stored_as_history, "loads", 0),
    Mutant("stages of an older root", stages_of_an_older_root, "loads", 0, "busy"),
    Mutant("restored with its tombstone", restored_with_its_tombstone, "past", 1),
]
