"""Threads of one process that hand on the baton at lines of the code: a seed decides at which, and who goes on.

Other simulations let nodes take turns where they wait for a store. What threads of one process share (caches, readers
of a state) goes wrong between two lines, where nobody waits. So tasks are traced, and go on or stop at any line of the
modules that are named; locks hand on the baton too. The same seed gives the same turns.
"""

from __future__ import annotations

import dis
import importlib
import math
import pkgutil
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.simulation.scheduler import BatonLock, Scheduler, cooperative_locks
from wormdb.storage.store import OCTETS, WrappedStore
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType, FrameType

    from wormdb.storage.store import ByteRange, Precondition, Probe, PutResult, Store, StoredObject

__all__ = ["LineTurns", "TurnsStore", "turns_at_lines"]

STALLS_MS = (0.5, 5.0)
"""Tasks that do not stall take no time: one that stalls goes on when all others stall too, or when these are over."""
LATE_MS = 50.0
WRITING_LINES = 10
"""As so many others count lines after one that writes what others may see: there they stop more often."""
EVENTS_MAX = 2_000_000


class LineTurns:
    """Tasks that stop after about `lines` lines each time."""

    def __init__(self, seed: int, lines: float, stalls: float, packages: Sequence[str]) -> None:
        """Without tasks. `stalls` is the share of stops that take time. Other lines are not looked at."""
        self.chance = SeededChance(seed)
        self.scheduler = Scheduler(self.chance, events_max=EVENTS_MAX)
        self.trail: list[tuple[str, str, int]] = []
        """Where tasks stopped: the task, the function and the line."""
        self._lines, self._stalls = lines, stalls
        self._left = self._draw()
        self._late: dict[str, int] = {}
        """By task after how many of its lines it stops until all others are done."""
        self._folders = tuple(_folder(package) for package in packages)
        self._codes: dict[CodeType, frozenset[int] | None] = {}
        """The lines after which it matters most who goes on; None for code that is not followed."""

    def spawn(self, name: str, body: Callable[[], None]) -> None:
        """A task that begins when the scheduler runs."""

        def traced() -> None:
            sys.settrace(self._enter)
            try:
                body()
            finally:
                sys.settrace(None)

        self.scheduler.spawn(name, traced)

    def stop(self) -> None:
        """Another task may go on now, or this one; outside of tasks nothing happens."""
        if self.scheduler.owns_thread():
            self._left = self._draw()
            is_stall = self.chance.fraction() < self._stalls
            self.scheduler.sleep(STALLS_MS[int(self.chance.fraction() * len(STALLS_MS))] if is_stall else 0)

    def be_late(self, lines: int) -> None:
        """After so many of its lines the current task stops until all others wait for it."""
        self._late[self.scheduler.current.name] = lines

    def _look_late(self) -> None:
        name = self.scheduler.current.name
        left = self._late.get(name)
        if left == 0:
            del self._late[name]
            self.scheduler.sleep(LATE_MS)
        elif left is not None:
            self._late[name] = left - 1

    def _draw(self) -> int:
        return 1 + int(-math.log(1.0 - self.chance.fraction()) * self._lines)

    def _enter(self, frame: FrameType, event: str, given: object) -> Any:
        del event, given
        code = frame.f_code
        try:
            writing = self._codes[code]
        except KeyError:
            # While a module is imported its lock is held, which is none of ours.
            is_followed = code.co_filename.startswith(self._folders) and code.co_name != "<module>"
            writing = self._codes[code] = _writing(code) if is_followed else None
        if writing is None:
            return None
        is_after = False

        def look(frame: FrameType, event: str, given: object) -> Any:
            nonlocal is_after
            del given
            if event == "line":
                self._left -= WRITING_LINES if is_after else 1
                is_after = frame.f_lineno in writing
                if self._late:
                    self._look_late()
                if self._left <= 0:
                    self.trail.append((self.scheduler.current.name, frame.f_code.co_qualname, frame.f_lineno))
                    self.stop()
            return look

        return look


class TurnsStore(WrappedStore):
    """A store before each request of which another task may go on."""

    def __init__(self, inner: Store, turns: LineTurns) -> None:
        super().__init__(inner)
        self._turns = turns

    def probe(self, key: str) -> Probe:
        self._turns.stop()
        return self._inner.probe(key)

    def get(self, key: str) -> StoredObject:
        self._turns.stop()
        return self._inner.get(key)

    def get_range(self, key: str, span: ByteRange) -> bytes:
        self._turns.stop()
        return self._inner.get_range(key, span)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        self._turns.stop()
        return self._inner.put(key, body, precondition, content_type=content_type)


@contextmanager
def turns_at_lines(seed: int, lines: float, stalls: float, packages: Sequence[str]) -> Iterator[LineTurns]:
    """Databases made inside have locks that hand on the baton, and nothing that was kept by functions before."""
    for package in packages:
        _import_all(package)
    turns = LineTurns(seed, lines, stalls, packages)
    with ExitStack() as stack:
        stack.enter_context(cooperative_locks(turns.scheduler))
        for owner, name, kind in _locks():
            if kind == "lock":
                made: Any = BatonLock(turns.scheduler, reentrant=isinstance(owner, cached_property))
            elif kind == "class":
                made = lambda: BatonLock(turns.scheduler)  # noqa: E731 - in the place of a class
            else:
                made = _with_lock(owner, kind, turns.scheduler)
            stack.enter_context(mock.patch.object(owner, name, made))
        for function in _keeping():
            function.cache_clear()
        yield turns


def _with_lock(owner: Any, field: str, scheduler: Scheduler) -> Callable[..., None]:
    """How a dataclass begins whose field is a lock that it makes itself."""
    begin = owner.__init__

    def begin_with_lock(self: Any, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        setattr(self, field, BatonLock(scheduler))

    return begin_with_lock


def _writing(code: CodeType) -> frozenset[int]:
    """The lines that write what others may see: an attribute, or an item."""
    found, line = set(), 0
    for instruction in dis.get_instructions(code):
        line = instruction.starts_line or line
        if instruction.opname in {"STORE_ATTR", "STORE_SUBSCR", "DELETE_ATTR", "DELETE_SUBSCR"}:
            found.add(line)
    return frozenset(found)


def _folder(package: str) -> str:
    """The folder of a package, or the file of a module."""
    found = importlib.import_module(package).__file__
    assert found is not None, package
    path = Path(found)
    return f"{path.parent}/" if path.name == "__init__.py" else str(path)


@cache
def _import_all(package: str) -> None:
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(getattr(found, "__path__", ()), f"{package}."):
        importlib.import_module(module.name)


def _modules() -> list[Any]:
    return [
        module for name, module in sorted(sys.modules.items()) if name.startswith(("wormdb.engine.", "wormdb.query."))
    ]


@cache
def _locks() -> list[tuple[Any, str, str]]:
    """Locks that `cooperative_locks` leaves as they are: what has them, under which name, and of which kind they are.

    "lock" is one of a module or of a property, "class" the name by which a module makes them, anything else the field
    of a dataclass.
    """
    found: list[tuple[Any, str, str]] = []
    for module in _modules():
        for name, thing in vars(module).items():
            if isinstance(thing, type(threading.Lock())):
                found.append((module, name, "lock"))
            elif name == "Lock" and thing is threading.Lock:
                found.append((module, name, "class"))
            elif isinstance(thing, type) and thing.__module__ == module.__name__:
                properties = [each for each in vars(thing).values() if isinstance(each, cached_property)]
                found += [(each, "lock", "lock") for each in properties if hasattr(each, "lock")]
                if is_dataclass(thing):
                    own = [each.name for each in fields(thing) if each.default_factory is threading.Lock]
                    found += [(thing, "__init__", each) for each in own]
    return found


@cache
def _keeping() -> list[Any]:
    """Functions that keep what they made."""
    own = [(module, thing) for module in _modules() for thing in vars(module).values()]
    return [each for module, each in own if hasattr(each, "cache_clear") and each.__module__ == module.__name__]
