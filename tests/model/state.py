"""What the model of transactions is made of: documents, logs, calls, and the state of everything."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Call",
    "Doc",
    "Entry",
    "Limits",
    "Log",
    "Prepared",
    "Read",
    "State",
    "Table",
    "Write",
    "answer",
    "changed_groups",
    "fold",
    "lookup",
    "mails",
    "members",
    "over",
    "record",
    "shown",
    "written",
]


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


def record(state: State, name: str) -> str | None:
    """What the record of a transaction says."""
    return next((decision for one, decision in state.records if one == name), None)


def over(state: State, call: Call, outcome: str, before: frozenset[str], answers: Any) -> State:
    """A call has its outcome."""
    told = tuple(sorted((*state.told, (call.name, outcome, before, answers)), key=repr))
    ended = state.ended | {call.name} if outcome == "ok" else state.ended
    return state._replace(told=told, ended=ended)


def changed_groups(table: Table, writes: tuple[Write, ...], groups: tuple[tuple[str, Any], ...]) -> bool:
    touched = {doc.group for _, doc in writes if doc is not None}
    touched |= {doc.group for key, _ in writes if (doc := lookup(table, key)[1]) is not None}
    return any(group in touched for group, _ in groups)
