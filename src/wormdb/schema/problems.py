"""Collecting every mistake instead of stopping at the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ProblemReport", "did_you_mean", "find_nearest", "join_path"]

_SHOWN_MAX = 12
_NAME_CHARS_MAX = 100


class ProblemReport:
    """The problems found so far, in the order in which they were found."""

    def __init__(self) -> None:
        """Nothing found yet."""
        self._problems: list[Problem] = []

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Errors first, then warnings."""
        return (*self.errors, *(problem for problem in self._problems if problem.severity == "warning"))

    @property
    def errors(self) -> tuple[Problem, ...]:
        """What makes the schema unusable."""
        return tuple(problem for problem in self._problems if problem.severity == "error")

    def has_errors_below(self, path: str) -> bool:
        """Whether something inside `path` was refused already."""
        return any(problem.path.startswith(f"{path}.") for problem in self.errors)

    def error(self, path: str, reason: str, fix: str = "") -> None:
        """Note something that must be corrected."""
        self._problems.append(Problem(path, reason, fix))

    def warn(self, path: str, reason: str, fix: str = "") -> None:
        """Note something that works, but probably not as meant."""
        self._problems.append(Problem(path, reason, fix, "warning"))


def join_path(path: str, *names: object) -> str:
    """A JSON path with `names` behind it: models.Customer.fields."""
    return ".".join(part for part in (path, *map(str, names)) if part)


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be: few slips away, or much like it."""
    if len(name) > _NAME_CHARS_MAX:
        return None
    by_lower = {candidate.lower(): candidate for candidate in known}
    typed = name.lower()
    slips = {each: _slips(typed, each) for each in by_lower if abs(len(each) - len(typed)) * 3 <= len(typed)}
    few = [each for each, count in slips.items() if count * 3 <= len(typed)]
    if few:
        return by_lower[min(few, key=lambda each: (slips[each], len({*typed} ^ {*each})))]
    from difflib import get_close_matches  # only mistakes need it

    found = get_close_matches(typed, by_lower, n=1, cutoff=0.7)
    return by_lower[found[0]] if found else None


def _slips(one: str, other: str) -> int:
    """How many letters were left out, added, taken for another, or swapped with the next."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        new = [row]
        for place, wanted in enumerate(other, 1):
            least = min(last[place] + 1, new[-1] + 1, last[place - 1] + (letter != wanted))
            if row > 1 and place > 1 and letter == other[place - 2] and one[row - 2] == wanted:
                least = min(least, before[place - 2] + 1)
            new.append(least)
        before, last = last, new
    return last[-1]


def did_you_mean(name: str, known: Iterable[str], *, shown_max: int = _SHOWN_MAX) -> str:
    """The fix for an unknown name: the nearest known one, or all of them if they are few."""
    known = list(known)
    suggestion = find_nearest(name, known)
    if suggestion is not None:
        return f"did you mean {suggestion!r}?"
    if not known:
        return "remove it"
    shown = ", ".join(known[:shown_max])
    return f"known are: {shown}, …" if len(known) > shown_max else f"known are: {shown}"
