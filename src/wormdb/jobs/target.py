"""Files of an export: rows are collected by folder, and written when they are many or no more come."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast
from urllib.parse import quote

import msgspec

from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.kinds import MISSING
from wormdb.jobs.plain_text import plain_of
from wormdb.settings import MIB
from wormdb.storage.open import open_store
from wormdb.storage.retry import RetryingStore
from wormdb.system.clock import SystemChance, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.storage.store import Store

__all__ = ["DONE", "Gatherer", "OutputFile", "OutputFiles", "finish", "folder_name", "make_room", "store_at"]

FLUSH_BYTES: Final = 64 * MIB
"""Bytes that are collected before files are written: larger pieces make several files."""
FOLDERS_MAX: Final = 10_000
"""Folders of one piece of an export."""
DONE: Final = "_SUCCESS"
_OURS: Final = re.compile(r"([^/]+=[^/]*/)*part-\d{5,}(-\d{2,})?\.(parquet|ndjson|csv)")
_NOTHING: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder of null, of missing and of empty text, as other programs call it."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One file."""

    name: str
    rows: int
    size: int


class Gatherer(Protocol):
    """Rows of one file in the making."""

    size: int
    """Bytes in memory, about."""
    rows: int

    def finish(self) -> bytes:
        """The file."""
        ...


G = TypeVar("G", bound=Gatherer)


@dataclass(slots=True)
class OutputFiles:
    """The files of one piece of an export, by folder. Writing again gives the same files."""

    store: Store
    number: int
    """Of the piece: the same in every run."""
    suffix: str
    made: list[OutputFile] = field(default_factory=list)
    _open: dict[str, Gatherer] = field(default_factory=dict)
    _flushed: int = 0

    def gatherer(self, folder: str, fresh: Callable[[], G]) -> G:
        """What collects the rows of a folder; made by `fresh` if there is none. Raises LimitExceededError."""
        found = self._open.get(folder)
        if found is None:
            if len(self._open) >= FOLDERS_MAX:
                raise LimitExceededError(
                    f"an export into more than {FOLDERS_MAX:,} folders",
                    reason="the fields by which it is partitioned have too many different values",
                    fix="partition by another field",
                )
            found = self._open[folder] = fresh()
        return cast("G", found)

    def flush(self, *, is_last: bool = False) -> None:
        """Write what was collected, if it is much or the last. 1 PUT for each file."""
        if not is_last and sum(each.size for each in self._open.values()) < FLUSH_BYTES:
            return
        for folder, gatherer in sorted(self._open.items()):
            later = f"-{self._flushed:02}" if self._flushed else ""
            name = f"{folder}part-{self.number:05}{later}.{self.suffix}"
            body = gatherer.finish()
            self.store.put(name, body)
            self.made.append(OutputFile(name, gatherer.rows, len(body)))
        self._open.clear()
        self._flushed += 1


def folder_name(fields: Sequence[str], values: Sequence[Any]) -> str:
    """The folder of rows with these values, as Hive, Spark and DuckDB read it; empty for no fields."""
    return "".join(f"{quote(name, safe='')}={_value_name(value)}/" for name, value in zip(fields, values, strict=True))


def _value_name(value: Any) -> str:
    text = None if value is MISSING else plain_of(value)
    return quote(text, safe="") if text else _NOTHING


@lru_cache(maxsize=4)
def store_at(url: str) -> Store:
    """The store at a place, kept for the process. No requests; raises InvalidRequestError."""
    clock, chance = SystemClock(), SystemChance()
    return RetryingStore(open_store(url, clock=clock, chance=chance), clock=clock, chance=chance)


def make_room(store: Store, target: str, *, overwrite: bool) -> None:
    """Remove what an export left that was not finished, or that is to be replaced; refuse anything else.

    1 LIST for each 1,000 files, and what deleting costs. Raises InvalidRequestError.
    """
    found = [info.key for page in store.list() for info in page.objects]
    strange = next((key for key in found if key != DONE and not _OURS.fullmatch(key)), None)
    if strange is not None:
        raise InvalidRequestError(
            f"export to {target}", reason=f"there are other files, such as {strange}", fix="name an empty folder"
        )
    if DONE in found and not overwrite:
        raise InvalidRequestError(
            f"export to {target}", reason="there is an export already", fix="name another folder, or overwrite it"
        )
    if found:
        # The list first: from then on what is left is known to be unfinished.
        store.delete(DONE)
        store.delete_many([key for key in found if key != DONE])


def finish(store: Store, result: Any) -> None:
    """Say that all files are there, and which. 1 PUT."""
    store.put(DONE, msgspec.json.format(msgspec.json.encode(result), indent=2))
