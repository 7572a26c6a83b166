"""Mistakes of a request, gathered while it is read, so that all are told at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wormdb.errors import InvalidRequestError, Problem
from wormdb.format.kinds import MISSING
from wormdb.format.values import normalize

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Mistakes"]


@dataclass(slots=True)
class Mistakes:
    """The problems found so far."""

    problems: list[Problem] = field(default_factory=list)

    def add(self, path: str, reason: str, fix: str) -> None:
        """Note one: where it is, why it is one, what to do."""
        self.problems.append(Problem(path, reason, fix))

    def collect(self, path: str, read: Callable[[], Any], *, below: str = "") -> Any:
        """What `read` returns; MISSING if it raises InvalidRequestError, whose problems are noted under `path`.

        `below` is what the problems' own paths start with and the request does not have.
        """
        try:
            return read()
        except InvalidRequestError as error:
            for problem in error.problems or (Problem("", _reason(error), error.fix),):
                inner = problem.path.removeprefix(below).removeprefix(".") if below else problem.path
                self.problems.append(Problem(f"{path}.{inner}" if inner else path, problem.reason, problem.fix))
            return MISSING

    def value(self, path: str, value: Any) -> Any:
        """`value` normalized; MISSING, and a problem, if it cannot be stored."""
        return self.collect(path, lambda: normalize(value))

    def settle(self, what: str) -> None:
        """Raise InvalidRequestError with all problems if there are any."""
        if self.problems:
            raise InvalidRequestError(what, problems=self.problems)


def _reason(error: InvalidRequestError) -> str:
    return f"{error.what}: {error.reason}" if error.reason else error.what
