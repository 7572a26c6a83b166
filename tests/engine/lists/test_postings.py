"""What a text index keeps of a state: made without a lock, because making it may ask a store."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, Any, cast

from wormdb.bql.search.fields import parse_fields
from wormdb.engine.lists.postings import TextReader
from wormdb.format.list_run import ListHead

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.lists.read import ListReader


@dataclass
class SlowLists:
    """Lists of which something must be read before what they count is known."""

    read: Callable[[], None]
    head: ListHead = field(default_factory=ListHead)
    tail: tuple[Any, ...] = ()
    touched: frozenset[bytes] = frozenset({b"a"})
    folder: None = None

    def replaced(self) -> list[bytes | None]:
        self.read()
        return []


def reader_over(read: Callable[[], None]) -> TextReader:
    return TextReader(cast("ListReader", SlowLists(read)), parse_fields(["t"], "english"))


def test_a_search_that_reads_does_not_hold_up_others() -> None:
    """Python 3.11 would let all readers of the process wait for the one that asks a store."""
    done: list[list[Any]] = []

    def search_elsewhere() -> None:
        other = reader_over(lambda: None)
        thread = Thread(target=lambda: done.append([other.replaced, other.means, other.norms]), daemon=True)
        thread.start()
        thread.join(60)

    slow = reader_over(search_elsewhere)
    assert len(slow.norms) == 1
    assert len(done) == 1
    slow.lists = cast("ListReader", None)
    assert len(slow.norms) == 1, "it is kept"
