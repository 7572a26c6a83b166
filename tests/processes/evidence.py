"""Judge a run: what the writers were told, against the log and the state that a stranger reads afterwards.

Pure but for `read_log`. Every operation left its token in the documents it wrote, so how often it
happened is counted, not guessed.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.processes.writer import PARTS, counter_id
from wormdb.format.entry import decode_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.processes.journal import Deed
    from wormdb.api.feed import Change
    from wormdb.storage.store import Store

__all__ = ["Step", "judge", "judge_state", "read_log", "steps_of"]

HAPPENED = {"acknowledged", "committed"}
DID_NOT_HAPPEN = {"refused", "not committed"}


@dataclass(frozen=True)
class Step:
    """One change in the feed, in plain values."""

    number: int
    id: str
    seq: int
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def steps_of(changes: Iterable[Change]) -> list[Step]:
    return [Step(change.number, change.id, change.seq, change.before, change.after) for change in changes]


def read_log(store: Store, prefix: str) -> int:
    """Check that the log has no gap and chains from its first entry on; its last number."""
    keys = [info.key for page in store.list(f"{prefix}.worm.db/committed/") for info in page.objects]
    previous = bytes(32)
    for number, key in enumerate(sorted(keys), 1):
        assert key.endswith(f"/{number:020d}"), f"entry {number} is missing"
        body = store.get(key).body
        entry = decode_entry(body, name=key, number=number, collection=prefix)
        assert entry.previous == previous, f"entry {number} does not chain"
        previous = hashlib.sha256(body).digest()
    return len(keys)


def judge(deeds: Mapping[str, Deed], steps: Sequence[Step]) -> list[str]:
    """Everything that is wrong with a run; empty if nothing is."""
    traces = _traces(steps)
    problems = [problem for deed in deeds.values() for problem in _judge_deed(deed, traces.get(_trace_of(deed), []))]
    known = {_trace_of(deed) for deed in deeds.values()}
    problems += [f"{trace} is in the log and nobody began it" for trace in traces if trace not in known]
    return problems + _judge_order(steps)


def judge_state(steps: Sequence[Step], state: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Whether the state is what the feed says, and counters what was counted."""
    expected: dict[str, dict[str, Any]] = {}
    bumps: Counter[str] = Counter()
    for step in steps:
        if step.after is None:
            expected.pop(step.id, None)
        else:
            expected[step.id] = step.after
        bumps[step.id] += step.before is not None and step.after is not None
    problems = [] if expected == dict(state) else ["the state is not what the feed adds up to"]
    for identity, document in state.items():
        if identity.startswith("counter-") and document["total"] != bumps[identity]:
            problems.append(f"{identity} says {document['total']} after {bumps[identity]} changes")
    return problems


def _trace_of(deed: Deed) -> str:
    # A delete leaves no document to hold a token; but no id is ever deleted twice.
    return f"delete of {deed.target}" if deed.verb == "delete" else deed.token


def _traces(steps: Sequence[Step]) -> dict[str, list[Step]]:
    traces: defaultdict[str, list[Step]] = defaultdict(list)
    for step in steps:
        if step.after is None:
            traces[f"delete of {step.id}"].append(step)
        elif step.after["token"]:
            traces[step.after["token"]].append(step)
    return traces


def _judge_deed(deed: Deed, trace: Sequence[Step]) -> list[str]:
    about = f"{deed.verb} {deed.token} of {deed.target}, {' then '.join(deed.told) or 'never answered'}"
    if not trace:
        return [f"{about}: lost"] if deed.outcome in HAPPENED else []
    problems = []
    if deed.outcome in DID_NOT_HAPPEN:
        problems.append(f"{about}: it happened")
    numbers = {step.number for step in trace}
    if len(numbers) > 1:
        problems.append(f"{about}: applied in several entries, {sorted(numbers)}")
    if deed.number is not None and numbers != {deed.number}:
        problems.append(f"{about}: acknowledged at {deed.number}, found at {sorted(numbers)}")
    written = sorted(step.id for step in trace)
    wanted = [deed.target]
    if deed.verb == "batch":
        wanted = sorted([counter_id(0), *(f"{deed.token}.{part}" for part in range(PARTS))])
    if written != wanted:
        problems.append(f"{about}: wrote {written} instead of {wanted}")
    return problems


def _judge_order(steps: Sequence[Step]) -> list[str]:
    """Whether each document's changes follow each other without a gap."""
    problems = []
    last: dict[str, Step] = {}
    number = 0
    for step in steps:
        before = last.get(step.id)
        if step.number < number:
            problems.append(f"the feed goes back from {number} to {step.number}")
        number = step.number
        if step.seq != (1 if before is None else before.seq + 1):
            problems.append(f"change {step.seq} of {step.id} in entry {step.number} is out of sequence")
        if step.before != (None if before is None else before.after):
            problems.append(f"change {step.seq} of {step.id} in entry {step.number} does not follow the one before it")
        last[step.id] = step
    return problems
