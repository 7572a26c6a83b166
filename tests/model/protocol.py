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

from typing import TYPE_CHECKING, Any

from tests.model.state import (
    Log,
    Prepared,
    State,
    answer,
    changed_groups,
    fold,
    lookup,
    mails,
    members,
    over,
    record,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.state import Call, Entry, Limits, Table, Write

__all__ = ["Protocol"]


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
        if off != "filters read are not locked" and changed_groups(table, mine.writes, other.groups):
            return True
        if off != "pending writes do not stop later filters" and changed_groups(table, other.writes, mine.groups):
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
        before_look = set(cache)
        for _, prepared in fold(log)[1]:
            name = prepared.name
            found[name] = cache[name] if name in cache else self.truth(state, name)
            if self.mutant == "readers do not look at records":
                found[name] = None
            if found[name] is not None or self.mutant == "absent records are cached":
                cache[name] = found[name]
        is_news = any(decision == "c" and name not in before_look for name, decision in found.items())
        if is_news and self.mutant not in (
            "a decision is shown on an older view",
            "a record is read long after the view",
        ):
            # Others may have written between the view and the decision: a view that is taken now is after both.
            yield state, ("view", (before, views[:-1], first), cache)
            return
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
