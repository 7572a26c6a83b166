"""Explore the states of a model of transactions, and judge those in which nothing moves any more."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations
from typing import TYPE_CHECKING, Any

from tests.model.state import answer, fold, record, shown, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.protocol import Protocol
    from tests.model.state import State

__all__ = ["find_violation"]


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
