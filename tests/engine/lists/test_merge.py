"""Merging some runs of a list changes nothing that all of them say together, and takes back no more than is there."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from wormdb.engine.lists.merge import LooseList, merge_list


def runs_of(history: list[dict[int, int | None]]) -> list[LooseList]:
    """A run for each step, the oldest first: what documents have after it, None for nothing."""
    there: dict[int, int] = {}
    runs = []
    for step in history:
        changed = {name: value for name, value in sorted(step.items()) if there.get(name) != value}
        came = {name: value for name, value in changed.items() if value is not None}
        gone = [name for name in changed if name in there]
        runs.append(LooseList(list(came), [bytes((value,)) for value in came.values()], gone))
        there = {name: value for name, value in {**there, **changed}.items() if value is not None}
    return runs


def state_after(runs: list[LooseList]) -> dict[int, bytes]:
    """What runs say together, the oldest first; each deletion must find its entry."""
    there: dict[int, bytes] = {}
    for run in runs:
        for name in run.gone:
            del there[name]
        assert there.keys().isdisjoint(run.names)
        there.update(zip(run.names, run.payloads, strict=True))
    return there


steps = st.lists(
    st.dictionaries(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 2)), max_size=4), min_size=1, max_size=7
)


@settings(max_examples=200)
@given(history=steps, data=st.data())
def test_merging_neighbours_keeps_what_runs_say_and_how_many_entries_count(
    history: list[dict[int, int | None]], data: st.DataObject
) -> None:
    runs = runs_of(history)
    begin = data.draw(st.integers(0, len(runs) - 1))
    end = data.draw(st.integers(begin + 1, len(runs)))
    merged = merge_list(runs[begin:end][::-1], is_base=begin == 0)
    after = [*runs[:begin], merged, *runs[end:]]
    assert state_after(after) == state_after(runs)
    assert sum(len(run.names) - len(run.gone) for run in after) == len(state_after(runs))
    assert begin > 0 or not merged.gone
    assert merged.names == sorted(merged.names)
