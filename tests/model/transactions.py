"""What is explored with the model of transactions, and the mistakes that it must find.

`python -m tests.model.transactions --states 1000000` explores so many states of each scenario; the test a part of them.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.model.protocol import Call, Doc, Limits, Protocol, find_violation
from wormdb.system.clock import SeededChance, SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.model.protocol import Read, Table, Write

__all__ = ["MUTANTS", "SCENARIOS", "Scenario", "explore"]

X: Table = (("x", 1, Doc(100)),)
PEOPLE: Table = (("a", 1, Doc(0, mail="ada")), ("b", 1, Doc(0)))
STATES_MAX = 10**8


@dataclass(frozen=True)
class Scenario:
    """A few processes, each with its calls, and what may happen to them."""

    procs: tuple[tuple[Call, ...], ...]
    tables: tuple[Table, ...] = (X, X)
    limits: Limits = field(default_factory=Limits)


def move(name: str, *logs: int) -> Call:
    """One from the first collection to the last, and a mark in those between."""

    def body(answers: tuple[Any, ...]) -> dict[int, tuple[Write, ...]]:
        steps = [-1, *[0] * (len(logs) - 2), 1]
        return {
            at: (("x", doc._replace(number=doc.number + step, group=name if not step else doc.group)),)
            for at, doc, step in zip(logs, answers, steps, strict=True)
        }

    return Call(name, "transact", tuple((at, "id", "x") for at in logs), body)


def overwrite(name: str, number: int) -> Call:
    """The same number in both collections, whatever is there."""
    return Call(name, "transact", (), lambda answers: {at: (("x", Doc(number)),) for at in (0, 1)})


def add(name: str, at: int) -> Call:
    """Ten more in one collection, by one entry."""
    return Call(name, "write", ((at, "id", "x"),), lambda answers: {at: (("x", Doc(answers[0].number + 10)),)})


def look(name: str, at: int) -> Call:
    return Call(name, "read", ((at, "id", "x"),))


def snapshot(name: str, *logs: int) -> Call:
    return Call(name, "snapshot", tuple((at, "id", "x") for at in logs))


def skew(name: str, at: int) -> Call:
    """Write in one collection if the documents of both are as they were."""

    def body(answers: tuple[Any, ...]) -> dict[int, tuple[Write, ...]] | None:
        return {at: (("x", Doc(0)),)} if [doc.number for doc in answers] == [100, 100] else None

    return Call(name, "transact", ((0, "id", "x"), (1, "id", "x")), body)


def phantom(name: str, asked: int, at: int) -> Call:
    """Insert into one collection what another collection must have none of."""

    def body(answers: tuple[Any, ...]) -> dict[int, tuple[Write, ...]] | None:
        return None if answers[0] else {at: ((name, Doc(1, "red")),)}

    return Call(name, "transact", ((asked, "group", "red"),), body)


def paint(name: str, at: int) -> Call:
    """Insert a red document, or fail if there is one: a filter read and a write by one entry."""
    reads: tuple[Read, ...] = ((at, "group", "red"),)
    return Call(name, "write", reads, lambda answers: None if answers[0] else {at: ((name, Doc(1, "red")),)})


def pass_on(name: str, giver: str, taker: str) -> Call:
    """The unique value goes from one document to another, and a second collection counts it."""

    def body(answers: tuple[Any, ...]) -> dict[int, tuple[Write, ...]] | None:
        one, two, count = answers
        if one is None or one.mail is None or two is None:
            return None
        people = ((giver, one._replace(mail=None)), (taker, two._replace(mail=one.mail)))
        return {0: people, 1: (("x", Doc(count.number + 1)),)}

    return Call(name, "transact", ((0, "id", giver), (0, "id", taker), (1, "id", "x")), body)


def give_up(name: str, giver: str) -> Call:
    """A document loses its unique value, and a second collection counts it."""

    def body(answers: tuple[Any, ...]) -> dict[int, tuple[Write, ...]] | None:
        one, count = answers
        return {0: ((giver, Doc(one.number)),), 1: (("x", Doc(count.number + 1)),)} if one.mail else None

    return Call(name, "transact", ((0, "id", giver), (1, "id", "x")), body)


def take(name: str, new: str, mail: str) -> Call:
    """A new document takes a unique value if it is free; the write itself is refused if it is not."""
    return Call(name, "write", ((0, "id", new),), lambda answers: {0: ((new, Doc(1, mail=mail)),)})


def take_two(name: str, new: str, mail: str) -> Call:
    """A new document takes a unique value, beside a mark in a second collection."""

    def body(answers: tuple[Any, ...]) -> dict[int, tuple[Write, ...]]:
        return {0: ((new, Doc(1, mail=mail)),), 1: ((new, Doc(1)),)}

    return Call(name, "transact", ((0, "id", new), (1, "id", new)), body)


def settle(name: str, of: str) -> Call:
    return Call(name, "resolve", of=of)


ONE_FAULT = Limits(faults=1, crashes=1)
GC = Limits(has_gc=True, crashes=1)
GC_FAULT = Limits(faults=1, has_gc=True)
T1, T2, T3, W1 = move("T1", 0, 1), move("T2", 0, 1), move("T3", 0, 1, 2), add("W1", 0)
D1, D2 = snapshot("D1", 0, 1), snapshot("D2", 0, 1, 2)
CACHE = (look("S1", 0), look("S2", 1))
SCENARIOS = {
    "a transfer and a batch": Scenario(((T1,), (W1,)), limits=ONE_FAULT),
    "a transfer and a batch, compacted": Scenario(((T1,), (W1,)), limits=Limits(faults=1, compacts=True)),
    "two transfers": Scenario(((T1,), (T2,)), limits=ONE_FAULT),
    "two transfers in opposite directions": Scenario(((T1,), (move("T2", 1, 0),)), limits=ONE_FAULT),
    "a transfer and a snapshot": Scenario(((T1,), (D1,)), limits=Limits(faults=1, crashes=1, has_gc=True)),
    "two transfers and a snapshot": Scenario(((T1,), (T2,), (D1,))),
    "two transfers, a batch and a snapshot": Scenario(((T1,), (T2, W1), (D1,))),
    "a transfer and a reader with a cache": Scenario(((T1,), CACHE), limits=Limits(faults=1, has_gc=True)),
    "two transfers and a reader with a cache": Scenario(((T1,), (T2,), CACHE), limits=Limits(has_gc=True)),
    "blind writes": Scenario(((overwrite("B1", 1),), (overwrite("B2", 2),)), limits=ONE_FAULT),
    "write skew": Scenario(((skew("K1", 0),), (skew("K2", 1),)), limits=ONE_FAULT),
    "phantoms": Scenario(((phantom("F1", 0, 1),), (phantom("F2", 1, 0),)), ((), ()), ONE_FAULT),
    "a phantom and a batch": Scenario(
        ((phantom("F1", 0, 1),), (paint("B1", 0),), (paint("B2", 1),)), ((), ()), ONE_FAULT
    ),
    "a unique value moves": Scenario(((pass_on("U1", "a", "b"),), (take("V1", "c", "ada"),)), (PEOPLE, X), ONE_FAULT),
    "a unique value is given up": Scenario(((give_up("U1", "a"),), (take("V1", "c", "ada"),)), (PEOPLE, X), ONE_FAULT),
    "a unique value is wanted twice": Scenario(
        ((take_two("U1", "c", "eve"),), (take_two("U2", "d", "eve"),)), limits=ONE_FAULT
    ),
    "three collections": Scenario(((T3,), (move("T4", 2, 0),), (D2,)), (X, X, X)),
    "three collections, compacted": Scenario(((T3,), (add("W1", 1),)), (X, X, X), Limits(faults=1, compacts=True)),
    "records go": Scenario(((T1,), (T2,)), limits=Limits(crashes=1, has_gc=True)),
    "records go while answers are lost": Scenario(((T1,), (W1, look("S1", 1))), limits=GC_FAULT),
    "a transfer is settled by another": Scenario(
        ((T1,), (settle("Q1", "T1"), look("S1", 1))), limits=Limits(faults=1, crashes=1, has_gc=True)
    ),
}

MUTANTS = {
    "readers do not look at records": "a transfer and a reader with a cache",
    "absent records are cached": "a transfer and a reader with a cache",
    "a record is read long after the view": "a transfer and a reader with a cache",
    "a snapshot is collected once": "two transfers and a snapshot",
    "the decision before the last prepare": "two transfers",
    "a record is overwritten": "two transfers",
    "written documents are not locked": "blind writes",
    "read documents are not locked": "write skew",
    "pending writes do not stop later reads": "write skew",
    "filters read are not locked": "phantoms",
    "pending writes do not stop later filters": "phantoms",
    "unique values taken are not locked": "a unique value is wanted twice",
    "unique values given up are not locked": "a unique value is given up",
    "reads are not validated": "a transfer and a batch",
    "no record is taken for an abort": "a transfer and a batch",
    "an unsure prepare counts as landed": "a transfer and a batch",
    "collections only read get no prepare": "write skew",
    "records go while something is pending": "records go",
    "a sleeper decides without a look": "records go while answers are lost",
    "a sleeper acknowledges without a look": "records go",
    "the root forgets what is pending": "a transfer and a batch, compacted",
    "the floor is a number": "records go",
    "whoever settles does not read the floor": "a transfer is settled by another",
}
"""Each with the scenario that shows it."""


def explore(
    name: str, mutant: str = "", *, states_max: int = STATES_MAX, seed: int = 0
) -> tuple[int, bool, str | None, list[str]]:
    """(states, whether all of them, what was found, the steps that lead to it) of a scenario."""
    scenario = SCENARIOS[name]
    protocol = Protocol(scenario.procs, scenario.tables, scenario.limits, mutant)
    chance = SeededChance(seed)

    def shuffle(moves: list[Any]) -> None:
        for place in range(len(moves) - 1, 0, -1):
            other = int(chance.fraction() * (place + 1))
            moves[place], moves[other] = moves[other], moves[place]

    return find_violation(protocol, states_max, shuffle)


def main(arguments: Sequence[str] | None = None) -> int:
    """Explore every scenario, then every mutant; the exit code is 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.transactions", description=main.__doc__)
    parser.add_argument("--states", type=int, default=200_000, help="of each scenario at most")
    parser.add_argument("--only", help="scenarios whose name has this text")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    failed = 0
    jobs = [(name, "") for name in SCENARIOS] + [(name, mutant) for mutant, name in MUTANTS.items()]
    for name, mutant in jobs:
        if options.only and options.only not in f"{name} {mutant}":
            continue
        began = SystemClock().monotonic()
        states, is_all, wrong, steps = explore(name, mutant, states_max=options.states, seed=options.seed)
        failed += (wrong is None) == bool(mutant)
        told = "found" if wrong else "complete" if is_all else "cut off"
        seconds = SystemClock().monotonic() - began
        sys.stdout.write(f"{states:8} states {seconds:6.1f} s  {told:8}  {mutant or '-'}: {name}\n")
        if wrong and (not mutant or options.only):
            sys.stdout.write(f"    {wrong}\n    " + "\n    ".join(steps) + "\n")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
