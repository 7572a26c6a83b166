"""Changes of documents for people: one line a field, coloured on a terminal."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from wormdb.cli.show.terminal import write_own
from wormdb.cli.show.text import cut, one_line, time_text
from wormdb.format import json
from wormdb.jobs.plain_text import plain_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.api.history import HistoryEntry

__all__ = ["ENDS", "FieldChange", "field_changes", "history_json", "say", "say_changes", "say_history"]

ENDS: Final = frozenset({"delete", "purge", "expire"})
"""Changes after which there is no document."""
_VALUE_PLACES: Final = 60
_LEFT_OUT: Final = frozenset({"id", "updatedAt"})


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field, nested ones by their dotted path, that has another value; None stands for an absent one."""

    path: str
    before: Any
    after: Any


def field_changes(diff: Mapping[str, Sequence[Any]], prefix: str = "") -> Iterator[FieldChange]:
    """The fields of a difference; where both sides are objects, the fields in them. No requests."""
    for name, (before, after) in diff.items():
        path = f"{prefix}{name}"
        if isinstance(before, dict) and isinstance(after, dict):
            names = dict.fromkeys([*before, *after])
            inner = {each: (before.get(each), after.get(each)) for each in names}
            changed = {each: pair for each, pair in inner.items() if _differ(*pair)}
            yield from field_changes(changed, f"{path}.")
        else:
            yield FieldChange(path, before, after)


def _differ(one: Any, two: Any) -> bool:
    """Whether two values are stored differently: 1 and 1.0 are, as history counts them."""
    return json.encode(one) != json.encode(two)


# --- lines ---


def say(text: str) -> None:
    """One line of harmless text; colours only on a terminal, and not where NO_COLOR is set."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        write_own(f"{text}\n")
    else:
        click.echo(text, color=False)


def say_changes(diff: Mapping[str, Sequence[Any]], indent: str = "  ") -> None:
    """A line for each field: + new, - gone, ~ changed."""
    changes = list(field_changes(diff))
    width = max((len(one_line(each.path)) for each in changes), default=0)
    for each in changes:
        name = f"{one_line(each.path):{width}}"
        if each.before is None:
            line = click.style(f"+ {name}  {_shown(each.after)}", fg="green")
        elif each.after is None:
            line = click.style(f"- {name}  {_shown(each.before)}", fg="red")
        else:
            old, new = click.style(_shown(each.before), fg="red"), click.style(_shown(each.after), fg="green")
            line = f"~ {name}  {old} → {new}"
        say(indent + line)


def say_history(entries: Sequence[HistoryEntry], shown: Sequence[HistoryEntry]) -> None:
    """Some changes of a document, each with what it did; `entries` are all of them, in order."""
    state: dict[str, Any] = {}
    wanted = {entry.seq for entry in shown}
    rows = {entry.seq: _head(entry) for entry in shown}
    widths = [max(len(row[place]) for row in rows.values()) for place in range(4)] if rows else []
    for entry in entries:
        diff, state = _step(state, entry)
        if entry.seq not in wanted:
            continue
        cells = [f"{cell:{width}}" for cell, width in zip(rows[entry.seq], widths, strict=True)]
        metadata = "" if entry.metadata is None else one_line(json.encode(entry.metadata).decode())
        say(click.style("  ".join([*cells, metadata]).rstrip(), bold=True))
        say_changes(diff)


def _head(entry: HistoryEntry) -> tuple[str, str, str, str]:
    return str(entry.seq), entry.op, time_text(entry.ts), one_line(entry.actor or "--")


def _step(state: dict[str, Any], entry: HistoryEntry) -> tuple[dict[str, Sequence[Any]], dict[str, Any]]:
    """What a change did to what was there, and what is there after it."""
    if entry.diff is not None:
        after = {**state, **{name: pair[1] for name, pair in entry.diff.items()}}
        return dict(entry.diff), {name: value for name, value in after.items() if value is not None}
    whole = entry.snapshot or {}
    if entry.op in ENDS:
        gone: dict[str, Sequence[Any]] = {name: (value, None) for name, value in whole.items() if name not in _LEFT_OUT}
        return gone, {}
    names = dict.fromkeys([*state, *whole])
    pairs = {name: (state.get(name), whole.get(name)) for name in names if name not in _LEFT_OUT}
    return {name: pair for name, pair in pairs.items() if _differ(*pair)}, dict(whole)


def _shown(value: Any) -> str:
    """A value with its type to be seen: text in quotes."""
    text = json.encode(value).decode() if isinstance(value, str) else plain_of(value) or "null"
    text = one_line(text)
    return cut(text, _VALUE_PLACES) if sys.stdout.isatty() else text


# --- for programs ---


def history_json(entry: HistoryEntry) -> dict[str, Any]:
    """An entry with the names of the oplog's files, without what it does not have."""
    found = {
        "seq": entry.seq,
        "rev": entry.rev,
        "op": entry.op,
        "ts": plain_of(entry.ts),
        "actor": entry.actor,
        "metadata": entry.metadata,
        "snapshot": entry.snapshot,
        "diff": None if entry.diff is None else {name: list(pair) for name, pair in entry.diff.items()},
    }
    return {name: value for name, value in found.items() if value is not None}
