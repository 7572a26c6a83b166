"""Strict serializability over several collections: could one call after the other have been told the same?

A `Deed` is one call: what it asked and was answered, what it wrote, when it began and ended, and the moment at which it
took effect, as the bucket witnessed it: for a transaction the creation of its record, for a batch its entry. Replayed
in the order of these moments, every answer must be right at its place, and every place must lie inside its call.
Nothing here knows the engine or decodes what it stores.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.simulation.replay import Violation

__all__ = ["Deed", "Moments", "Question", "check_serial"]

Key = tuple[str, str]
"""A collection and an id."""
Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked: one document, those with a value in a field, or all of a collection."""

    collection: str
    kind: Literal["id", "where", "all", "count"]
    name: str = ""
    value: Any = None

    def answer(self, state: dict[Key, Values]) -> Any:
        """What is true of a state."""
        if self.kind == "id":
            return state.get((self.collection, self.name))
        found = {
            identity: values
            for (collection, identity), values in state.items()
            if collection == self.collection and (self.kind == "all" or values.get(self.name) == self.value)
        }
        return len(found) if self.kind == "count" else found


@dataclass(slots=True)
class Deed:
    """One call of a client, and when it took effect."""

    name: str
    called: float
    returned: float = math.inf
    outcome: Literal["open", "ok", "no", "unknown"] = "open"
    """`no`: it was told that nothing was written."""
    isolation: Literal["serializable", "snapshot", "reader"] = "serializable"
    """`reader`: it writes nothing, and all its answers are of one moment."""
    answers: list[tuple[Question, Any]] = field(default_factory=list)
    writes: dict[Key, Values | None] = field(default_factory=dict)
    clears: str | None = None
    """A collection of which it leaves nothing."""
    effect: float | None = None
    """When it took effect; None if it never did."""
    refused: tuple[Question, Any] | None = None
    """A refusal that must have been true at some moment during the call: a question and its answer."""

    @property
    def label(self) -> str:
        """For messages."""
        return f"{self.name} ({self.isolation}, {self.outcome}, {self.called}..{self.returned}, effect {self.effect})"


class Moments:
    """Every state there was, each from the moment of the deed that made it."""

    def __init__(self, deeds: list[Deed], initial: dict[Key, Values] | None = None) -> None:
        """The deeds that took effect, in the order in which they did."""
        self.deeds = sorted((deed for deed in deeds if deed.effect is not None), key=lambda deed: deed.effect or 0)
        self.times = [deed.effect or 0.0 for deed in self.deeds]
        self.states: list[dict[Key, Values]] = [dict(initial or {})]
        for deed in self.deeds:
            state = {key: values for key, values in self.states[-1].items() if key[0] != deed.clears}
            for key, values in deed.writes.items():
                if values is None:
                    state.pop(key, None)
                else:
                    state[key] = values
            self.states.append(state)

    def during(self, deed: Deed) -> range:
        """The states that were the newest at some moment of a call."""
        return range(bisect_left(self.times, deed.called), bisect_left(self.times, deed.returned) + 1)

    def before(self, deed: Deed) -> int:
        """The state on which a deed took effect."""
        return bisect_left(self.times, deed.effect or 0.0)


def check_serial(deeds: list[Deed], initial: dict[Key, Values] | None = None) -> Moments:
    """Raise Violation unless every deed took effect within its call, on a state of which its answers are true."""
    moments = Moments(deeds, initial)
    for deed in deeds:
        _check_effect(deed)
        if deed.refused is not None:
            question, told = deed.refused
            if all(question.answer(moments.states[place]) != told for place in moments.during(deed)):
                raise Violation(f"{deed.label}: refused because {question} is {told!r}, which it was at no moment")
        if deed.outcome == "ok" and deed.effect is None:
            _check_reader(deed, moments)
        elif deed.effect is not None and deed.outcome != "open":
            _check_writer(deed, moments)
    return moments


def _check_effect(deed: Deed) -> None:
    if deed.outcome == "ok" and deed.writes and deed.effect is None:
        raise Violation(f"{deed.label}: acknowledged, and it is nowhere")
    if deed.outcome == "no" and deed.effect is not None:
        raise Violation(f"{deed.label}: told that nothing was written, and it was")
    if deed.effect is not None and not (deed.called <= deed.effect and (deed.effect <= deed.returned)):
        raise Violation(f"{deed.label}: it took effect outside of its call")


def _check_reader(deed: Deed, moments: Moments) -> None:
    if not any(_wrong(deed, moments.states[place]) is None for place in moments.during(deed)):
        told = [(str(question), answer) for question, answer in deed.answers]
        states = [moments.states[place] for place in moments.during(deed)]
        raise Violation(f"{deed.label}: was told {told}, true of none of the {len(states)} states: {states}")


def _check_writer(deed: Deed, moments: Moments) -> None:
    place = moments.before(deed)
    if deed.isolation == "serializable":
        wrong = _wrong(deed, moments.states[place])
        if wrong is not None:
            raise Violation(f"{deed.label}: took effect although {wrong}")
        return
    first = moments.during(deed).start
    right = [at for at in range(first, place + 1) if _wrong(deed, moments.states[at]) is None]
    if not right:
        raise Violation(f"{deed.label}: read {deed.answers}, of no one moment")
    keys = set(deed.writes)
    if not any(all(moments.states[at].get(key) == moments.states[place].get(key) for key in keys) for at in right):
        raise Violation(f"{deed.label}: wrote over changes that it had not seen")


def _wrong(deed: Deed, state: dict[Key, Values]) -> str | None:
    for question, told in deed.answers:
        truth = question.answer(state)
        if truth != told:
            return f"{question} was {truth!r}, and it had read {told!r}"
    return None
