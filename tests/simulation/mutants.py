"""Ways to get the protocol wrong, each as a change of the running code. The simulation must notice every one.

Most are a few words of one function replaced: if the function no longer has those words, the mutant
says so instead of passing for one that cannot be seen.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec

from tests.simulation.replay import Violation
from tests.simulation.store import COLLECTION
from wormdb.api.write import Writer
from wormdb.engine import ledger
from wormdb.engine.commit import head, validate
from wormdb.engine.commit.commit import CommitResult, Committer
from wormdb.engine.commit.head import Head
from wormdb.engine.commit.readers import GroupRead
from wormdb.engine.commit.resolve import Resolver
from wormdb.engine.commit.validate import Group, _BatchCheck
from wormdb.engine.feed import Feed, FeedParts
from wormdb.engine.index.unique import UniqueOwners, keys_of
from wormdb.engine.ledger import Ledger
from wormdb.engine.log.clock import MiscClock
from wormdb.engine.log.root import Register
from wormdb.engine.state.moments import AsOf
from wormdb.engine.state.trim import Trimmer
from wormdb.engine.state.view import Overlay, id_key
from wormdb.errors import ConflictError, CorruptionError, OutcomeUnknownError, WormError
from wormdb.format.entry import Entry, decode_entry
from wormdb.format.event import SchemaChanged
from wormdb.storage import readback
from wormdb.storage.folder.time import Reckoning
from wormdb.system.clock import new_write_id
from wormdb.system.types import LogNumber, Misc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from wormdb.engine.commit.operations import Pending
    from wormdb.engine.log.entries import LogRecord
    from wormdb.engine.state.view import Base
    from wormdb.system.types import StoreTime

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True)
class Mutant:
    """One mistake, the workload and focus that show it, and the first seed that did."""

    name: str
    apply: Callable[[], AbstractContextManager[object]]
    workload: str
    seed: int
    focus: str | None = None
    told: tuple[type[BaseException], ...] = (Violation, WormError)
    """How it shows: a promise that was seen broken, or an unexpected error."""


def rewritten(owner: Any, *changes: tuple[str, str], **names: object) -> AbstractContextManager[object]:
    """The one function of a class or module that has some text, with that text replaced; `names` are what it needs."""
    function, source = function_with(owner, changes[0][0])
    for old, new in changes:
        assert old in source, f"{function.__name__} has no {old!r} any more: the mutant must follow the code"
        source = source.replace(old, new)
    namespace = {**vars(sys.modules[function.__module__]), **names}
    exec(compile(f"from __future__ import annotations\n{source}", f"<mutant {function.__name__}>", "exec"), namespace)
    return mock.patch.object(owner, function.__name__, namespace[function.__name__])


def function_with(owner: Any, text: str) -> tuple[Any, str]:
    functions = [value for value in vars(owner).values() if inspect.isfunction(value)]
    found = [(function, source) for function in functions if text in (source := source_of(function))]
    assert len(found) == 1, f"{owner.__name__} has {text!r} in {len(found)} functions: the mutant must follow the code"
    return found[0]


def source_of(function: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except OSError:  # made by dataclass, not by us
        return ""


UNANSWERED = "case NothingThere(cause=cause) | Unknown(cause=cause):\n"
INDENT = " " * 16


def when_unanswered(statement: str, **names: object) -> AbstractContextManager[object]:
    """A commit does `statement` as soon as its PUT was not a clean success and no other entry is there."""
    return rewritten(Committer, (UNANSWERED, f"{UNANSWERED}{INDENT}{statement}\n"), **names)


def no_read_back() -> AbstractContextManager[object]:
    return rewritten(readback, ("found.body == body", "False"))


def equal_but_for_ids(one: bytes, other: bytes) -> bool:
    try:
        number = decode_any(one)
        return number is not None and number == decode_any(other)
    except CorruptionError:
        return one == other


def decode_any(body: bytes) -> Entry | None:
    """An entry without anything that tells its writer."""
    for number in range(1, 300):
        try:
            entry = decode_entry(body, name="entry", number=number, collection=COLLECTION)
        except CorruptionError:
            continue
        blank = new_write_id(_Zero())
        batches = tuple(msgspec.structs.replace(batch, id=blank) for batch in entry.batches)
        return msgspec.structs.replace(entry, write_id=blank, misc=0, node=0, batches=batches)
    return None


class _Zero:
    def fraction(self) -> float:
        return 0.0

    def token(self, count: int) -> bytes:
        return bytes(count)


def no_write_id() -> AbstractContextManager[object]:
    return rewritten(readback, ("found.body == body", "same(found.body, body)"), same=equal_but_for_ids)


def timeout_as_failure() -> AbstractContextManager[object]:
    told = (
        "failure = OutcomeUnknownError(what, reason=str(error), fix=RESOLVE_FIRST, key=key, commit_id=str(commit_id))"
    )
    return rewritten(Committer, (told, "failure = UnavailableError(what)"))


def timeout_as_success() -> AbstractContextManager[object]:
    return when_unanswered("if isinstance(cause, OutcomeUnknownError): return True")


def conflict_409_as_refusal() -> AbstractContextManager[object]:
    return when_unanswered("if '409' in cause.reason: raise ConflictError('409')", ConflictError=ConflictError)


def conflict_409_as_lost() -> AbstractContextManager[object]:
    """The slot must be another's then, so it goes on behind it."""
    behind = f"""if '409' in cause.reason:
{INDENT}    self._head._last = replace(self._head._last, number=self._head.number + 1)
{INDENT}    self._head._points[self._head.number] = self._head._last
{INDENT}    return False"""
    return when_unanswered(behind, replace=replace)


def ack_before_put() -> AbstractContextManager[object]:
    return when_unanswered("return True")


def regroup_under_one_id() -> AbstractContextManager[object]:
    return when_unanswered("if isinstance(cause, OutcomeUnknownError): return False")


def slot_reuse() -> AbstractContextManager[object]:
    """A process that starts goes on behind the last entry it finds listed, as if what was trimmed had never been."""
    opened = "self._misc.observe(Misc(root.misc))"
    listed = "if not any(page.objects for page in self._log.store.list(self._log.paths.entries)): "
    anew = "self._last = replace(self._last, number=LogNumber(0)); self._points = {LogNumber(0): self._last}"
    return rewritten(Head, (opened, f"{opened}\n    {listed}{anew}"))


def no_boundary_check() -> AbstractContextManager[object]:
    return rewritten(Committer, ("if is_recent(attempt.known, time):", "if True:"))


def trusting(before: StoreTime | None, now: StoreTime | None) -> bool:
    return before is not None and now is not None


def view_trusted_after_sleep() -> AbstractContextManager[object]:
    return mock.patch.object(head, "is_recent", trusting)


def old_entry_as_news() -> AbstractContextManager[object]:
    """And the root is not read again because it is old: that alone would be enough to notice."""
    return rewritten(Head, ("if tail.ended:", "if True:"), (" or self._is_root_old(tail.last)", ""))


def commit_from_stale_view() -> AbstractContextManager[object]:
    """After a lost race the same changes are sent to the next slot, unchecked."""
    checked = "checked = self._checked(waiting, arrived, takes=not is_offer)"
    moved = "msgspec.structs.replace(checked[0].entry, number=self._head.number + 1, previous=self._head.hash)"
    body = "encode_entry(entry, collection=self._collection), self._head.time"
    again = f"if losses: entry = {moved}; checked = (Attempt(entry, {body}), checked[1])\n        else: {checked}"
    return rewritten(Committer, (checked, again), msgspec=msgspec)


def refused_from_stale_view() -> AbstractContextManager[object]:
    return rewritten(Committer, ("if not fresh:", "if False:"))


def absent_slot_as_no() -> AbstractContextManager[object]:
    return rewritten(Resolver, ("if not has_ended or (", "if ("))


def root_before_slot() -> AbstractContextManager[object]:
    first, root = "record: LogRecord | None = None", "state = self.register.read()"
    return rewritten(Resolver, (f"{root}\n", "\n"), (first, f"{root}\n    {first}"))


def unique_outside_batch() -> AbstractContextManager[object]:
    """Unique values are checked when a batch is first tried, and not when it is tried again."""
    tried: set[str] = set()
    claims = "claims = batch.claims(definition.indexes)"
    once = "claims = {} if pending.id in tried else batch.claims(definition.indexes); tried.add(pending.id)"
    return rewritten(Group, (claims, once), tried=tried)


@contextmanager
def definition_by_root_swap() -> Iterator[None]:
    commit = Ledger.commit

    def swap_root(self: Ledger, pending: Pending, **options: float) -> CommitResult:
        state = self._register.read()
        changed = [event.definition for event in pending.events if isinstance(event, SchemaChanged)]
        if state.root is None or not changed:
            return commit(self, pending, **options)
        following = msgspec.structs.replace(
            state.root,
            revision=state.root.revision + 1,
            write_id=new_write_id(self._runtime.chance),
            definition=changed[-1],
        )
        try:
            self._register.swap(state, following)
        except (ConflictError, OutcomeUnknownError):
            return commit(self, pending, **options)
        return CommitResult(LogNumber(state.root.applied), Misc(0), ())

    with mock.patch.object(ledger.Ledger, "commit", swap_root):
        yield


def delete_before_trimmed() -> AbstractContextManager[object]:
    tried = "try:\n        state = self._raise(state, through)"
    return rewritten(Trimmer, (tried, f"self._delete(through)\n    {tried}"))


def trim_without_retention() -> AbstractContextManager[object]:
    return rewritten(Trimmer, ("now - mark.time >= retention_ms", "now >= mark.time"))


def trim_by_local_clock() -> AbstractContextManager[object]:
    return rewritten(
        Trimmer, ("self.through(state.root, state.time,", "self.through(state.root, self.misc._clock.now_ms(),")
    )


@contextmanager
def half_a_batch_visible() -> Iterator[None]:
    """The last change of a batch of several comes into view with the next entry."""
    apply = Overlay.apply
    kept: dict[int, Entry] = {}

    def late(self: Overlay, entry: Entry, attached: Base | None = None) -> None:
        if id(self) in kept:
            apply(self, kept.pop(id(self)))
        (*whole, last) = entry.batches or (None,)
        if last is None or len(last.changes) < 2:
            apply(self, entry, attached)
            return
        first = msgspec.structs.replace(last, changes=last.changes[:-1])
        rest = msgspec.structs.replace(last, changes=last.changes[-1:])
        kept[id(self)] = msgspec.structs.replace(entry, batches=(rest,))
        apply(self, msgspec.structs.replace(entry, batches=(*whole, first)), attached)

    with mock.patch.object(Overlay, "apply", late):
        yield


def root_swapped_blindly() -> AbstractContextManager[object]:
    return rewritten(Register, ("body, current.version,", "body, current.version and self.read().version,"))


def seq_begins_anew() -> AbstractContextManager[object]:
    anew = "if before is None or before.document is None else before.seq"
    return rewritten(_BatchCheck, ("if before is None else before.seq", anew))


def feed_unchecked() -> AbstractContextManager[object]:
    return rewritten(Feed, ("state.root is not None and state.root.trimmed > self._number", "False"))


def value_taken_in_passing() -> AbstractContextManager[object]:
    """A document that has another's unique value between two changes of one batch takes it away."""

    def apply(self: UniqueOwners, entry: Entry) -> None:
        for change in (change for batch in entry.batches for change in batch.changes):
            for key in keys_of(self.index, change.before):
                owner = self._claims.get(key)
                if owner is not None and id_key(owner) == id_key(change.id):
                    del self._claims[key]
            self._touched.add(id_key(change.id))
            for key in keys_of(self.index, change.after):
                self._claims[key] = change.id

    return mock.patch.object(UniqueOwners, "apply", apply)


def refused_for_company() -> AbstractContextManager[object]:
    return rewritten(
        Committer, ("if (accepted or group.prepared) and not isinstance(outcome, ApartError):", "if False:")
    )


def trimmers_see_holes() -> AbstractContextManager[object]:
    return rewritten(Trimmer, ("if self.register.read().version != state.version:", "if False:"))


def one_document_twice_in_an_entry() -> AbstractContextManager[object]:
    """Batches of one entry may change the same document: then its revision does not tell its versions apart."""
    return mock.patch.object(Group, "_check_apart", return_value=None)


def version_by_revision() -> AbstractContextManager[object]:
    compared = "held.seq == loaded.held.seq if is_early else held.version == loaded.held.version"
    return rewritten(Group, (compared, "held.rev == loaded.held.rev"))


def loaded_unchecked_behind_another() -> AbstractContextManager[object]:
    """What a batch did to a document before stands in for the version that an operation was read as."""
    old = "if not self._group.unchanged(key, loaded):"
    return rewritten(_BatchCheck, (old, "if changed is None and not self._group.unchanged(key, loaded):"))


def overwritten_as_newest() -> AbstractContextManager[object]:
    """A document that its own batch changed again passes as what was written."""
    return rewritten(Writer, ("change.seq if is_last else 0", "change.seq"), ("number if is_last else", "number or"))


def parts_unchecked() -> AbstractContextManager[object]:
    """What lies in a slot is taken for an entry, though the slot was trimmed."""

    def records(self: FeedParts, after: int, through: int) -> Iterator[LogRecord]:
        for number in range(after + 1, through + 1):
            record, _ = self.log.read(LogNumber(number))
            if record is None:
                self._too_old(number)
            yield record

    return mock.patch.object(FeedParts, "records", records)


def numbers_without_end() -> AbstractContextManager[object]:
    return mock.patch.object(validate, "format_sequence", lambda number: f"{number:010d}")


def wall_clock_of_a_folder() -> AbstractContextManager[object]:
    return mock.patch.object(Reckoning, "at", lambda self, wall_ms, uptime: wall_ms)


def clocks_ahead_followed() -> AbstractContextManager[object]:
    return mock.patch.object(MiscClock, "_is_plausible", return_value=True)


def times_of_entries_alone() -> AbstractContextManager[object]:
    """Where times went back, an entry of before is not there until its own time."""
    return rewritten(AsOf, ("rev <= self.floor or ", ""))


def reader_joins_a_probe_on_its_way() -> AbstractContextManager[object]:
    """What was acknowledged after the probe was sent is missed by a reader that came after that."""
    return rewritten(GroupRead, ("if since is not None:", "if True:"), ("sender.sent >= since", "True"))


def answer_for_later_readers() -> AbstractContextManager[object]:
    """An answer also serves those that wait for a probe that is to be sent."""
    taken = "if ended and (reader.readers.update(self._queue) or not self._queue.clear()):"
    return rewritten(GroupRead, ("if ended:", taken))


def answer_for_later_probes() -> AbstractContextManager[object]:
    return rewritten(GroupRead, ("if is_covered:", "if True:"))


def readers_served_by_half_a_tail() -> AbstractContextManager[object]:
    """An entry was found, and what comes after it is not asked for."""
    return rewritten(GroupRead, ("if ended:", "if True:"), ("for sender in self._senders:", "for sender in [reader]:"))


def age_of_a_state_unchecked() -> AbstractContextManager[object]:
    return rewritten(Ledger, ("asked_at is not None and asked_at > since", "asked_at is not None"))


def number_of_a_state_unchecked() -> AbstractContextManager[object]:
    return rewritten(Ledger, (" and self._head.number >= at_least", ""))


def old_probe_for_a_number() -> AbstractContextManager[object]:
    """A reader that wants a number joins a probe that may have been sent before the number was there."""
    return rewritten(Ledger, ("None if at_least or not staleness_ms", "None if not staleness_ms"))


MUTANTS = [
    Mutant("age of a known state unchecked", age_of_a_state_unchecked, "register", 37, "readers"),
    Mutant("number of a known state unchecked", number_of_a_state_unchecked, "register", 0, "readers"),
    Mutant("old probe for a number", old_probe_for_a_number, "register", 0, "readers"),
    Mutant("reader joins a probe on its way", reader_joins_a_probe_on_its_way, "register", 1, "readers"),
    Mutant("answer given to later readers", answer_for_later_readers, "register", 3, "readers"),
    Mutant("answer given to later probes", answer_for_later_probes, "register", 4, "readers"),
    Mutant("readers served by half a tail", readers_served_by_half_a_tail, "register", 0, "readers"),
    Mutant("one document twice in an entry", one_document_twice_in_an_entry, "handles", 74, "crowd"),
    Mutant("a folder's time is the wall clock", wall_clock_of_a_folder, "bank", 7, "clocks"),
    Mutant("clocks that are ahead are followed", clocks_ahead_followed, "numbers", 80, "clocks"),
    Mutant("times of entries alone", times_of_entries_alone, "register", 22, "clocks"),
    Mutant("a version known by its revision", version_by_revision, "handles", 26, "crowd"),
    Mutant("unchecked behind another change", loaded_unchecked_behind_another, "handles", 23, "crowd"),
    Mutant("overwritten passes as newest", overwritten_as_newest, "handles", 36),
    Mutant("no read-back", no_read_back, "set", 0),
    Mutant("no write id", no_write_id, "set", 73),
    Mutant("timeout as failure", timeout_as_failure, "set", 12),
    Mutant("timeout as success", timeout_as_success, "set", 0),
    Mutant("409 as refusal", conflict_409_as_refusal, "set", 2),
    Mutant("409 as lost", conflict_409_as_lost, "set", 2),
    Mutant("slot reuse after trim", slot_reuse, "bank", 4, "dawn"),
    Mutant("no boundary check", no_boundary_check, "set", 2, "late"),
    Mutant("view trusted after sleep", view_trusted_after_sleep, "register", 11, "dawn"),
    Mutant("old entry taken for news", old_entry_as_news, "numbers", 181, "dawn"),
    Mutant("ack before PUT", ack_before_put, "set", 0),
    Mutant("commit from a stale view", commit_from_stale_view, "bank", 3),
    Mutant("refusal from a stale view", refused_from_stale_view, "unique", 12),
    Mutant("regroup under one id", regroup_under_one_id, "set", 35),
    Mutant("absent slot resolved as no", absent_slot_as_no, "set", 12, "late"),
    Mutant("root read before the slot", root_before_slot, "set", 128, "late"),
    Mutant("unique checked outside the batch", unique_outside_batch, "unique", 0),
    Mutant("definition changed by root swap", definition_by_root_swap, "definitions", 0),
    Mutant("delete before trimmed is raised", delete_before_trimmed, "set", 0),
    Mutant("half a batch visible", half_a_batch_visible, "bank", 2),
    Mutant("trim without retention", trim_without_retention, "set", 1),
    Mutant("trim by the local clock", trim_by_local_clock, "set", 35, "late"),
    Mutant("root swapped blindly", root_swapped_blindly, "set", 0),
    Mutant("seq begins anew", seq_begins_anew, "register", 1),
    Mutant("feed unchecked", feed_unchecked, "register", 14),
    Mutant("unique value taken in passing", value_taken_in_passing, "unique", 12),
    Mutant("refused for a batch that may not land", refused_for_company, "unique", 76, "crowd"),
    Mutant("hole seen behind another trimmer", trimmers_see_holes, "set", 11, "dawn"),
    Mutant("parts of the feed unchecked", parts_unchecked, "set", 54, "late"),
    Mutant("numbers without an end", numbers_without_end, "numbers", 1),
]
