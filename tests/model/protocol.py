"""Transactions over several logs as a model: every order of the steps of a few processes, with faults at every step.

It shares no code with the engine. A log holds entries `W` (a batch), `P` (prepared: locks, changes nothing) and `F`
(finished: applies P's writes if committed). The record of a transaction, created if absent, decides. Documents have a
number, a group that filters ask for, and a mail that is unique. When nothing moves any more, some serial order of all
calls must explain every answer and the documents that are left, and respect which call ended before which began.

The environment finishes what is decided, brings roots forward, trims, and deletes records, at any moment at which the
rules allow it. There is no time in the model but for one bit, whether a coordinator has slept: then an hour may pass
between any two of its steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Call", "Doc", "Limits", "Log", "Protocol", "State", "find_violation"]


class Doc(NamedTuple):
    """One document."""

    number: int
    group: str | None = None
    mail: str | None = None


Table = tuple[tuple[str, int, Doc | None], ...]
"""Documents by id, each with the count of its changes; a deleted one stays as None."""
Read = tuple[int, str, str]
"""Which log, `id` or `group`, and which one."""
Write = tuple[str, Doc | None]


class Prepared(NamedTuple):
    """What a pending transaction locks in one log."""

    name: str
    ids: tuple[tuple[str, int], ...]
    """Documents read, with the count that was seen."""
    groups: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    """Filters read, with what they found."""
    writes: tuple[Write, ...]


Entry = tuple[str, Any, Any]
"""W, name, writes; P, name, prepared; F, name, decision."""


class Log(NamedTuple):
    """One log: a root (documents and pending through `applied`), and the entries that are not trimmed."""

    trimmed: int
    applied: int
    table: Table
    pending: tuple[tuple[int, Prepared], ...]
    entries: tuple[Entry, ...]

    @property
    def head(self) -> int:
        """The number of the last entry."""
        return self.trimmed + len(self.entries)


@dataclass(frozen=True)
class Call:
    """What a process does: reads, then writes that follow from the answers; one log, or a transaction over several.

    `kind` is `write` (one log, one entry), `transact`, `read` (one log), `snapshot` (several) or `resolve` (of another
    call, by its name).
    """

    name: str
    kind: str
    reads: tuple[Read, ...] = ()
    body: Callable[[tuple[Any, ...]], dict[int, tuple[Write, ...]] | None] = lambda answers: {}
    """None: nothing is to be done."""
    of: str = ""

    def logs(self, writes: dict[int, tuple[Write, ...]]) -> tuple[int, ...]:
        """The participants."""
        return tuple(sorted({log for log, _, _ in self.reads} | set(writes)))


class State(NamedTuple):
    """Everything."""

    logs: tuple[Log, ...]
    records: frozenset[tuple[str, str]]
    floor: frozenset[str]
    """Transactions whose records were deleted."""
    late: tuple[tuple[Any, ...], ...]
    """Requests that are still on their way."""
    ended: frozenset[str]
    """Calls that were answered."""
    faults: int
    crashes: int
    procs: tuple[tuple[int, str, Any, tuple[tuple[str, str | None], ...], bool], ...]
    """Which call of its list, where in it, what it knows, its cached decisions, whether it slept."""
    told: tuple[tuple[str, str, frozenset[str], Any], ...]
    """Calls that are over: name, outcome, what had ended before, answers."""


@dataclass(frozen=True)
class Limits:
    """How much may happen in one exploration."""

    faults: int = 0
    crashes: int = 0
    has_gc: bool = False
    compacts: bool = False
    entries_max: int = 8


def lookup(table: Table, name: str) -> tuple[int, Doc | None]:
    return next(((seq, doc) for key, seq, doc in table if key == name), (0, None))


def members(table: Table, group: str) -> tuple[tuple[str, int, Doc], ...]:
    return tuple((key, seq, doc) for key, seq, doc in table if doc is not None and doc.group == group)


@lru_cache(maxsize=200_000)
def written(table: Table, writes: tuple[Write, ...]) -> Table:
    new = {key: (seq, doc) for key, seq, doc in table}
    for key, doc in writes:
        new[key] = (new.get(key, (0, None))[0] + 1, doc)
    return tuple((key, seq, doc) for key, (seq, doc) in sorted(new.items()))


@lru_cache(maxsize=200_000)
def fold(log: Log) -> tuple[Table, tuple[tuple[int, Prepared], ...]]:
    """The documents and the pending transactions at the end of a log, from its root and the entries behind it."""
    table, pending = log.table, {prepared.name: (number, prepared) for number, prepared in log.pending}
    for place, (kind, name, what) in enumerate(log.entries[log.applied - log.trimmed :]):
        if kind == "W":
            table = written(table, what)
        elif kind == "P":
            pending[name] = (log.applied + place + 1, what)
        else:
            _, prepared = pending.pop(name, (0, None))
            if what == "c" and prepared is not None:
                table = written(table, prepared.writes)
    return table, tuple(sorted(pending.values()))


def shown(log: Log, known: dict[str, str | None]) -> Table:
    table, pending = fold(log)
    for _, prepared in pending:
        if known.get(prepared.name) == "c":
            table = written(table, prepared.writes)
    return table


def answer(table: Table, read: Read) -> Any:
    if read[1] == "id":
        return lookup(table, read[2])[1]
    return tuple((key, doc) for key, _, doc in members(table, read[2]))


def mails(table: Table, writes: tuple[Write, ...]) -> tuple[set[str], set[str]]:
    """The unique values that writes take and give up."""
    before = {doc.mail for key, _ in writes if (doc := lookup(table, key)[1]) is not None and doc.mail}
    after = {doc.mail for _, doc in writes if doc is not None and doc.mail}
    return after - before, before - after


class Protocol:
    """The rules; each mutant switches one of them off."""

    def __init__(
        self, procs: tuple[tuple[Call, ...], ...], tables: tuple[Table, ...], limits: Limits, mutant: str = ""
    ) -> None:
        """`tables` are the documents at the beginning, one table for each log."""
        self.procs, self.tables, self.limits, self.mutant = procs, tables, limits, mutant
        self.calls = {call.name: call for proc in procs for call in proc}

    def initial(self) -> State:
        """Nothing has happened."""
        logs = tuple(Log(0, 0, table, (), ()) for table in self.tables)
        procs = tuple((0, "start", (), (), False) for _ in self.procs)
        return State(
            logs, frozenset(), frozenset(), (), frozenset(), self.limits.faults, self.limits.crashes, procs, ()
        )

    # --- the store ---

    def put_entry(self, state: State, at: int, slot: int, entry: Entry) -> Iterator[tuple[State, str]]:
        """The outcomes of creating an entry if absent."""
        done, landed = self.land(state, at, slot, entry)
        yield done, "ok" if landed else "lost"
        if state.faults:
            yield done._replace(faults=state.faults - 1), "unknown"
            yield state._replace(faults=state.faults - 1), "unknown"
            late = tuple(sorted((*state.late, ("entry", at, slot, entry)), key=repr))
            yield state._replace(faults=state.faults - 1, late=late), "unknown"

    def land(self, state: State, at: int, slot: int, entry: Entry) -> tuple[State, bool]:
        log = state.logs[at]
        if log.head != slot - 1:
            return state, False
        new = log._replace(entries=(*log.entries, entry))
        return state._replace(logs=(*state.logs[:at], new, *state.logs[at + 1 :])), True

    def put_record(self, state: State, name: str, decision: str) -> Iterator[tuple[State, str]]:
        """The outcomes of creating a record if absent."""
        is_free = record(state, name) is None
        new = state.records | {(name, decision)} if is_free else state.records
        if self.mutant == "a record is overwritten":
            new, is_free = frozenset(one for one in state.records if one[0] != name) | {(name, decision)}, True
        yield state._replace(records=new), "ok" if is_free else "lost"
        if state.faults:
            yield state._replace(records=new, faults=state.faults - 1), "unknown"
            yield state._replace(faults=state.faults - 1), "unknown"
            late = tuple(sorted((*state.late, ("record", name, decision)), key=repr))
            yield state._replace(faults=state.faults - 1, late=late), "unknown"

    # --- rules of logs ---

    def conflicts(self, table: Table, mine: Prepared, other: Prepared) -> bool:
        """Whether what is about to be written or prepared touches what a pending transaction locks."""
        off = self.mutant
        my_writes, its_writes = {key for key, _ in mine.writes}, {key for key, _ in other.writes}
        its_reads, my_reads = {key for key, _ in other.ids}, {key for key, _ in mine.ids}
        if off != "written documents are not locked" and my_writes & its_writes:
            return True
        if off != "read documents are not locked" and my_writes & its_reads:
            return True
        if off != "pending writes do not stop later reads" and my_reads & its_writes:
            return True
        if off != "filters read are not locked" and _matches(table, mine.writes, other.groups):
            return True
        if off != "pending writes do not stop later filters" and _matches(table, other.writes, mine.groups):
            return True
        taken, given = mails(table, mine.writes)
        its_taken, its_given = mails(table, other.writes)
        its_taken = set() if off == "unique values taken are not locked" else its_taken
        its_given = set() if off == "unique values given up are not locked" else its_given
        return bool((taken | given) & (its_taken | its_given))

    def refused(self, table: Table, mine: Prepared) -> bool:
        """Whether something read has changed, or a unique value has another owner."""
        if self.mutant != "reads are not validated":
            if any(lookup(table, key)[0] != seq for key, seq in mine.ids):
                return True
            if any(tuple(one[:2] for one in members(table, group)) != found for group, found in mine.groups):
                return True
        taken, _ = mails(table, mine.writes)
        changed = {key for key, _ in mine.writes}
        return any(doc is not None and doc.mail in taken and key not in changed for key, _, doc in table)

    def blocking(self, log: Log, mine: Prepared) -> str | None:
        """A pending transaction that must be resolved first."""
        table, pending = fold(log)
        others = (other for _, other in pending if other.name != mine.name)
        return next((other.name for other in others if self.conflicts(table, mine, other)), None)

    # --- steps ---

    def moves(self, state: State) -> Iterator[tuple[str, State]]:
        """Everything that may happen next."""
        for place, (at, where, known, cache, slept) in enumerate(state.procs):
            if at >= len(self.procs[place]) or where == "dead":
                continue
            call = self.procs[place][at]
            for new, (there, what, kept) in self.step(state, call, where, known, dict(cache)):
                yield (
                    f"{call.name} {where}",
                    self.moved(new, place, (at, there, what, tuple(sorted(kept.items())), slept)),
                )
            if call.kind in ("transact", "write"):
                if state.crashes and where != "start":
                    dead = self.moved(state._replace(crashes=state.crashes - 1), place, (at, "dead", (), (), slept))
                    yield f"{call.name} crashes", over(dead, call, "unknown", known[0], None)
                if self.limits.has_gc and not slept and call.kind == "transact" and where != "start":
                    yield f"{call.name} sleeps", self.moved(state, place, (at, where, known, cache, True))
        yield from self.environment(state)

    def moved(self, state: State, place: int, proc: Any) -> State:
        if proc[1] == "end":
            proc = (proc[0] + 1, "start", (), proc[3], False)
        return state._replace(procs=(*state.procs[:place], proc, *state.procs[place + 1 :]))

    def environment(self, state: State) -> Iterator[tuple[str, State]]:
        """What nodes, forwarders, collectors and the network do."""
        for message in state.late:
            left = list(state.late)
            left.remove(message)
            rest = state._replace(late=tuple(left))
            if message[0] == "entry":
                yield f"late {message}", self.land(rest, *message[1:])[0]
            elif record(rest, message[1]) is None:
                yield f"late {message}", rest._replace(records=rest.records | {message[1:]})
            else:
                yield f"late {message}", rest
        for at, log in enumerate(state.logs):
            for _, prepared in fold(log)[1]:
                decision = self.truth(state, prepared.name)
                if decision is not None:
                    done, _ = self.land(state, at, log.head + 1, ("F", prepared.name, decision))
                    yield f"finish {prepared.name} in {at}", done
            if self.limits.compacts and log.applied < log.head:
                yield f"forward {at}", self.compacted(state, at)
        if self.limits.has_gc:
            yield from self.collected(state)

    def compacted(self, state: State, at: int) -> State:
        """A root with everything in it, and a log that is trimmed below the oldest pending transaction."""
        log = state.logs[at]
        table, pending = fold(log)
        if self.mutant == "the root forgets what is pending":
            pending = ()
        oldest = min((number for number, _ in pending), default=log.head + 1)
        through = max(log.trimmed, oldest - 1)
        new = Log(through, log.head, table, pending, log.entries[through - log.trimmed :])
        return state._replace(logs=(*state.logs[:at], new, *state.logs[at + 1 :]))

    def collected(self, state: State) -> Iterator[tuple[str, State]]:
        """Delete the record of a transaction that is pending in no log, unless its coordinator is about to act."""
        awake = {
            self.procs[place][at].name
            for place, (at, where, _, _, slept) in enumerate(state.procs)
            if at < len(self.procs[place]) and not slept and where not in ("start", "dead")
        }
        for name, decision in state.records:
            is_pending = any(prepared.name == name for log in state.logs for _, prepared in fold(log)[1])
            if self.mutant == "records go while something is pending":
                is_pending = False
            if not is_pending and name not in awake:
                gone = state._replace(records=state.records - {(name, decision)}, floor=state.floor | {name})
                yield f"gc {name}", gone

    def truth(self, state: State, name: str) -> str | None:
        """What a record says, to whoever looks at it; the floor in one of the wrong ways."""
        if self.mutant == "the floor is a number" and any(name <= gone for gone in state.floor):
            return "a"
        return record(state, name)

    def step(self, state: State, call: Call, where: str, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        """The next step of a call: (state, (where, what it knows, decisions that it keeps))."""
        if call.kind == "resolve" and all(name != call.of for name, *_ in state.told):
            return  # its coordinator gives out the id of a transaction at its end
        if where == "start":
            first = {"write": "write", "resolve": "ask"}.get(call.kind, "view" if call.reads else "next")
            yield state, (first, (state.ended, (), ()), cache)
        elif where.startswith("resolve"):
            yield from self.resolving(state, where, known, cache)
        else:
            yield from getattr(self, f"do_{where}")(state, call, known, cache)

    def resolving(self, state: State, where: str, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        """Another's transaction is in the way: look at its record, perhaps abort it, finish it."""
        *_, (back, at, name, kept) = known
        log = state.logs[at]
        if where == "resolve":
            decision = self.truth(state, name)
            if decision is None and self.mutant == "no record is taken for an abort":
                decision = "a"
            if decision is None:
                yield state, ("resolve_abort", known, cache)
            else:
                yield state, ("resolve_finish", (known[0], (log.head + 1, decision), known[-1]), cache)
        elif where == "resolve_abort":
            for new, _ in self.put_record(state, name, "a"):
                yield new, ("resolve", known, cache)
        else:
            slot, decision = known[1]
            if all(prepared.name != name for _, prepared in fold(log)[1]):
                yield state, (back, kept, cache)
            else:
                for new, _ in self.put_entry(state, at, slot, ("F", name, decision)):
                    yield new, (back, kept, cache)

    # a call that reads: views, one after the other, and the records of what is pending in them

    def do_view(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        before, views, first = known
        wanted = sorted({log for log, _, _ in call.reads})
        yield (
            state,
            ("records", (before, (*views, (wanted[len(views)], state.logs[wanted[len(views)]], ())), first), cache),
        )

    def do_records(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        before, views, first = known
        at, log, _ = views[-1]
        found: dict[str, str | None] = {}
        for _, prepared in fold(log)[1]:
            name = prepared.name
            found[name] = cache[name] if name in cache else self.truth(state, name)
            if self.mutant == "readers do not look at records":
                found[name] = None
            if found[name] is not None or self.mutant == "absent records are cached":
                cache[name] = found[name]
        views = (*views[:-1], (at, log, tuple(sorted(found.items()))))
        is_open = bool(found) and self.mutant != "a record is read long after the view"
        yield state, ("again" if is_open else "next", (before, views, first), cache)

    def do_again(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        """What a record says counts if its transaction is still pending: else it may be gone, or a second one."""
        before, views, first = known
        at, _, found = views[-1]
        pending = {prepared.name for _, prepared in fold(state.logs[at])[1]}
        is_sure = all(name in pending for name, _ in found)
        yield state, ("next", known, cache) if is_sure else ("view", (before, views[:-1], first), cache)

    def do_next(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        before, views, first = known
        wanted = sorted({log for log, _, _ in call.reads})
        if len(views) < len(wanted):
            yield state, ("view", known, cache)
        elif call.kind == "snapshot" and first != views and self.mutant != "a snapshot is collected once":
            yield state, ("view", (before, (), views), cache)
        else:
            tables = {at: shown(log, dict(found)) for at, log, found in views}
            answers = tuple(answer(tables[read[0]], read) for read in call.reads)
            if call.kind != "transact":
                yield over(state, call, "ok", before, answers), ("end", (), cache)
            elif (writes := call.body(answers)) is None:
                yield over(state, call, "no", before, None), ("end", (), cache)
            else:
                yield state, ("prepare", (before, answers, self.prepared(call, tables, writes), ()), cache)

    def prepared(self, call: Call, tables: dict[int, Table], writes: dict[int, tuple[Write, ...]]) -> Any:
        made = []
        for at in call.logs(writes):
            if at not in writes and self.mutant == "collections only read get no prepare":
                continue
            table, reads = tables.get(at, ()), [read for read in call.reads if read[0] == at]
            ids = tuple((key, lookup(table, key)[0]) for _, kind, key in reads if kind == "id")
            groups = tuple(
                (key, tuple(one[:2] for one in members(table, key))) for _, kind, key in reads if kind == "group"
            )
            made.append((at, Prepared(call.name, ids, groups, writes.get(at, ()))))
        return tuple(made)

    # a transaction: known is (before, answers, ((log, prepared), …), logs done)

    def do_prepare(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        before, answers, parts, done = known
        left = [(at, mine) for at, mine in parts if at not in done]
        if not left or (self.mutant == "the decision before the last prepare" and len(left) == 1):
            yield state, ("decide", known, cache)
            return
        for at, mine in left:
            log = state.logs[at]
            other = self.blocking(log, mine)
            if other is not None:
                yield state, ("resolve", (before, (), ("prepare", at, other, known)), cache)
            elif self.refused(fold(log)[0], mine):
                yield state, ("give_up", known, cache)
            else:
                for new, told in self.put_entry(state, at, log.head + 1, ("P", call.name, mine)):
                    if told == "ok":
                        yield new, ("prepare", (before, answers, parts, (*done, at)), cache)
                    elif told == "lost":
                        yield new, ("prepare", known, cache)
                    else:
                        yield new, ("unsure", (before, known, at, log.head + 1), cache)

    def do_unsure(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        """The same bytes to the same slot, or give up."""
        _, kept, at, slot = known
        before, answers, parts, done = kept
        log, entry = state.logs[at], ("P", call.name, dict(parts)[at])
        sent = (before, answers, parts, (*done, at))
        if self.mutant == "an unsure prepare counts as landed":
            yield state, ("prepare", sent, cache)
        elif slot <= log.trimmed:
            yield state, ("give_up", kept, cache)
        elif log.head >= slot:
            yield state, ("prepare", sent if log.entries[slot - log.trimmed - 1] == entry else kept, cache)
        else:
            yield state, ("give_up", kept, cache)
            for new, told in self.put_entry(state, at, slot, entry):
                yield new, ("prepare", sent, cache) if told == "ok" else ("unsure", known, cache)

    def do_decide(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        """Commit, if no time has passed or all of it is pending still."""
        slept = self.slept(state, call)
        if (
            slept
            and self.mutant != "a sleeper decides without a look"
            and not all(self.is_pending(state, at, call) for at, _ in known[2])
        ):
            yield state, ("give_up", known, cache)
        else:
            yield state, ("commit", known, cache)

    def do_commit(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        for new, told in self.put_record(state, call.name, "c"):
            if told == "ok" and (not self.slept(state, call) or self.mutant == "a sleeper acknowledges without a look"):
                yield over(new, call, "ok", known[0], known[1]), ("end", (), cache)
            else:
                yield new, ("look" if told != "ok" else "late", known, cache)

    def do_look(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        if self.slept(state, call) and self.mutant != "a sleeper acknowledges without a look":
            yield state, ("late", known, cache)
            return
        decision = record(state, call.name)
        if decision is None:
            yield state, ("commit", known, cache)
        else:
            yield over(state, call, "ok" if decision == "c" else "no", known[0], known[1]), ("end", (), cache)

    def do_late(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        """A record that may be a second one: it counts while something is pending, else what was finished does."""
        decision = record(state, call.name)
        if any(self.is_pending(state, at, call) for at, _ in known[2]):
            if decision is None:
                yield state, ("commit", known, cache)
            else:
                yield over(state, call, "ok" if decision == "c" else "no", known[0], known[1]), ("end", (), cache)
            return
        told = {what for log in state.logs for kind, name, what in log.entries if kind == "F" and name == call.name}
        outcome = "unknown" if not told else "ok" if told == {"c"} else "no"
        yield over(state, call, outcome, known[0], known[1]), ("end", (), cache)

    def do_give_up(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        for new, _ in self.put_record(state, call.name, "a"):
            yield new, ("given_up", known, cache)

    def do_given_up(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        """Nothing else writes `committed`, and this process has not: it is aborted once a record is there or was."""
        if record(state, call.name) is None and call.name not in state.floor:
            yield state, ("give_up", known, cache)
        else:
            yield over(state, call, "no", known[0], None), ("end", (), cache)

    # a batch of one log

    def do_write(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        (at,) = {log for log, _, _ in call.reads}
        log = state.logs[at]
        table = fold(log)[0]
        answers = tuple(answer(table, read) for read in call.reads)
        writes = call.body(answers)
        mine = self.prepared(call, {at: table}, writes or {})[0][1]
        other = self.blocking(log, mine)
        if other is not None:
            yield state, ("resolve", (known[0], (), ("write", at, other, known)), cache)
        elif writes is None or self.refused(table, mine):
            yield over(state, call, "no" if writes is None else "refused", known[0], None), ("end", (), cache)
        else:
            entry = ("W", call.name, writes[at])
            for new, told in self.put_entry(state, at, log.head + 1, entry):
                if told == "ok":
                    yield over(new, call, "ok", known[0], answers), ("end", (), cache)
                elif told == "lost":
                    yield new, ("write", known, cache)
                else:
                    yield new, ("write_again", (known[0], at, log.head + 1, entry, answers), cache)

    def do_write_again(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        before, at, slot, entry, answers = known
        log = state.logs[at]
        if slot <= log.trimmed:
            yield over(state, call, "unknown", before, answers), ("end", (), cache)
        elif log.head >= slot:
            if log.entries[slot - log.trimmed - 1] == entry:
                yield over(state, call, "ok", before, answers), ("end", (), cache)
            else:
                yield state, ("write", (before, (), ()), cache)
        else:
            for new, told in self.put_entry(state, at, slot, entry):
                if told == "ok":
                    yield over(new, call, "ok", before, answers), ("end", (), cache)
                else:
                    yield new, ("write_again", known, cache)

    # a question after the outcome of another's transaction, which settles it

    def do_ask(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        found = record(state, call.of)
        if found is None:
            for new, _ in self.put_record(state, call.of, "a"):
                yield new, ("ask_again", known, cache)
        else:
            yield state, ("ask_floor", (known[0], found, ()), cache)

    def do_ask_again(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        found = record(state, call.of)
        yield state, ("ask", known, cache) if found is None else ("ask_floor", (known[0], found, ()), cache)

    def do_ask_floor(self, state: State, call: Call, known: Any, cache: dict[str, str | None]) -> Iterator[Any]:
        """The floor is read last: below it a record means nothing."""
        before, found, _ = known
        if call.of in state.floor and self.mutant != "whoever settles does not read the floor":
            found = None
        yield over(state, call, "ok", before, found), ("end", (), cache)

    # --- small questions ---

    def slept(self, state: State, call: Call) -> bool:
        return any(
            slept and at < len(self.procs[place]) and self.procs[place][at] is call
            for place, (at, _, _, _, slept) in enumerate(state.procs)
        )

    @staticmethod
    def is_pending(state: State, at: int, call: Call) -> bool:
        return any(prepared.name == call.name for _, prepared in fold(state.logs[at])[1])


def record(state: State, name: str) -> str | None:
    """What the record of a transaction says."""
    return next((decision for one, decision in state.records if one == name), None)


def over(state: State, call: Call, outcome: str, before: frozenset[str], answers: Any) -> State:
    """A call has its outcome."""
    told = tuple(sorted((*state.told, (call.name, outcome, before, answers)), key=repr))
    ended = state.ended | {call.name} if outcome == "ok" else state.ended
    return state._replace(told=told, ended=ended)


def _matches(table: Table, writes: tuple[Write, ...], groups: tuple[tuple[str, Any], ...]) -> bool:
    touched = {doc.group for _, doc in writes if doc is not None}
    touched |= {doc.group for key, _ in writes if (doc := lookup(table, key)[1]) is not None}
    return any(group in touched for group, _ in groups)


@dataclass
class Judge:
    """Whether an end is explained by some order of the calls."""

    protocol: Protocol
    seen: dict[Any, str | None] = field(default_factory=dict)

    def verdict(self, state: State) -> str | None:
        """What is wrong with a state in which nothing moves any more; None if nothing is."""
        tables = tuple(shown(log, {name: record(state, name) for _, (name, *_) in fold(log)[1]}) for log in state.logs)
        values = tuple(tuple((key, doc) for key, _, doc in table if doc is not None) for table in tables)
        key = (values, state.told)
        if key not in self.seen:
            self.seen[key] = self.explain(state, values)
        return self.seen[key]

    def explain(self, state: State, values: tuple[Any, ...]) -> str | None:
        calls = self.protocol.calls
        must = [one for one in state.told if one[1] in ("ok", "refused") and calls[one[0]].kind != "resolve"]
        may = [one for one in state.told if one[1] == "unknown"]
        settled = {calls[name].of: what for name, _, _, what in state.told if calls[name].kind == "resolve"}
        for name, what in settled.items():
            outcome = next((one[1] for one in state.told if one[0] == name), None)
            if (what, outcome) in (("a", "ok"), ("c", "no")):
                return f"{name} is {outcome} for itself and {what} for others"
        for chosen in range(1 << len(may)):
            some = [one for place, one in enumerate(may) if chosen >> place & 1]
            names = {one[0] for one in some}
            if any(
                (what == "a" and name in names) or (what == "c" and name in {one[0] for one in may} - names)
                for name, what in settled.items()
            ):
                continue
            if any(self.follows(order, values) for order in permutations(must + some)):
                return None
        return (
            f"no order explains {[(name, outcome, answers) for name, outcome, _, answers in state.told]} and {values}"
        )

    def follows(self, order: tuple[Any, ...], values: tuple[Any, ...]) -> bool:
        tables = self.protocol.tables
        later = {one[0] for one in order}
        for name, outcome, before, answers in order:
            later.discard(name)
            if before & later:
                return False
            call = self.protocol.calls[name]
            said = tuple(answer(tables[read[0]], read) for read in call.reads)
            if outcome == "ok" and said != answers:
                return False
            writes = call.body(said)
            if writes is None:
                return False
            new = tuple(written(table, writes.get(at, ())) for at, table in enumerate(tables))
            owned = [doc.mail for table in new for _, _, doc in table if doc is not None and doc.mail]
            if (len(owned) != len(set(owned))) != (outcome == "refused"):
                return False
            tables = tables if outcome == "refused" else new
        return values == tuple(tuple((key, doc) for key, _, doc in table if doc is not None) for table in tables)


def find_violation(
    protocol: Protocol, states_max: int, shuffle: Callable[[list[Any]], None]
) -> tuple[int, bool, str | None, list[str]]:
    """Explore depth first: (states, whether all of them, what was found, the steps that lead to it).

    `shuffle` puts the moves of a state in some order, so that a bounded exploration is not always of the same corner.
    """
    judge = Judge(protocol)
    first = protocol.initial()
    seen = {first}
    path: list[str] = []
    stack: list[list[tuple[str, State]]] = [[("", first)]]
    while stack:
        if not stack[-1]:
            stack.pop()
            if path:
                path.pop()
            continue
        what, state = stack[-1].pop()
        following = (
            [] if any(log.head > protocol.limits.entries_max for log in state.logs) else list(protocol.moves(state))
        )
        if not following and all(log.head <= protocol.limits.entries_max for log in state.logs):
            wrong = judge.verdict(state)
            if wrong is not None:
                return len(seen), False, wrong, [*path, what]
        if len(seen) >= states_max:
            return len(seen), False, None, []
        new = [(name, one) for name, one in following if one not in seen]
        seen.update(one for _, one in new)
        shuffle(new)
        path.append(what)
        stack.append(new)
    return len(seen), True, None, []
