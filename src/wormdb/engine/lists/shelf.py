"""The stored lists of a collection's indexes: where their objects are, and what of them is kept in memory.

Objects are immutable, so what one root needed is right for every other root that names it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from wormdb.engine.blocks.shelf import BoundedCache, ColumnCache, Label
from wormdb.engine.lists.span import ALL_LISTS, ListSpan
from wormdb.engine.state.indexes import folder_of, scope_of
from wormdb.engine.tree.nodes import fetch_object, gone_is_old
from wormdb.format.frame import corrupt
from wormdb.format.list_columns import ColumnPage
from wormdb.format.list_part import (
    Directory,
    StoredList,
    decode_directory,
    decode_ids,
    decode_list,
    decode_trained,
    lists_in,
)
from wormdb.settings import KIB, MIB, SHELF_BYTES_MAX
from wormdb.storage.store import ByteRange, coalesce

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from hashlib import _Hash as Digest

    from wormdb.engine.lists.kind import ListKind
    from wormdb.engine.lists.postings import TextReader
    from wormdb.engine.log.paths import EnginePaths
    from wormdb.format.list_part import IdPage
    from wormdb.format.list_run import ListPart, TrainedRef
    from wormdb.format.root import Root
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store

__all__ = [
    "GAP_BYTES_MAX",
    "MORE_BYTES_MAX",
    "RANGES_MANY",
    "STREAM_BYTES",
    "WHOLE_BYTES_MAX",
    "CheckedPage",
    "ListFolder",
    "ListShelf",
]

WHOLE_BYTES_MAX: Final = 1 * MIB
"""An object up to this size is read whole, instead of its directory and then its pages."""
GAP_BYTES_MAX: Final = 128 * KIB
"""Pages at most this far apart are read by one request …"""
RANGES_MANY: Final = 16
"""… and those that are nearest to each other, where more requests than this were needed for one object …"""
MORE_BYTES_MAX: Final = 1 * MIB
"""… as long as no more than this is read in vain for it."""
STREAM_BYTES: Final = 4 * MIB
"""Of pages that are read at once where all of them are, one after the other."""
_PAGE_KIND: Final = "lists"


@dataclass(frozen=True, slots=True)
class CheckedPage:
    """The lists of a page, which was checked."""

    bodies: dict[bytes, memoryview]
    """By key, as they are stored; none if it is a page of columns."""
    columns: ColumnPage | None = None
    decoded: dict[bytes, StoredList] = field(default_factory=dict)
    """Those that were asked for: views of the same bytes."""
    ids: list[IdPage] = field(default_factory=list)
    """The ids of a page of ids, once they were asked for: a view of the same bytes."""

    @property
    def keys(self) -> Iterable[bytes]:
        """Of its lists, in order."""
        return self.bodies if self.columns is None else self.columns.keys


class ListShelf:
    """The lists of one collection. Thread-safe."""

    def __init__(self, store: Store, paths: EnginePaths, pool: Pool, pages: ColumnCache | None = None) -> None:
        """`pages` keeps pages that were read and checked; without it none are kept. No requests."""
        self.store = store
        self.pool = pool
        self.pages = pages or ColumnCache(0)
        self._paths = paths
        self.directories: BoundedCache[Directory] = BoundedCache(SHELF_BYTES_MAX)
        """By the keys of their objects."""
        self.trained: BoundedCache[bytes] = BoundedCache(SHELF_BYTES_MAX)
        """The same of what was learned."""
        self.texts: dict[str, TextReader] = {}
        """Of each text index the reader of the state that was searched last."""

    def folder(self, root: Root, name: str) -> ListFolder:
        """The objects of one index of a root. No requests."""
        return ListFolder(self, folder_of(self._paths, name), scope_of(root, name))


@dataclass(frozen=True, slots=True)
class ListFolder:
    """The objects of one index. All reads raise CorruptionError, and SnapshotTooOldError if an object is gone."""

    shelf: ListShelf
    folder: str
    scope: str
    is_audit: bool = False
    """Whether large objects that are streamed are held against their length and SHA-256 too, as small ones are."""

    def key(self, name: str) -> str:
        """The key of an object."""
        return self.folder + name

    def trained(self, ref: TrainedRef | None) -> bytes | None:
        """What was learned; None if nothing was. 1 GET the first time."""
        if ref is None:
            return None
        key = self.key(ref.name)
        held = self.shelf.trained.find(key)
        if held is None:
            body = fetch_object(self.shelf.store, key, ref.sha256)
            held = decode_trained(body, name=key, identity=self.scope + ref.name)
            self.shelf.trained.keep(key, held, len(held))
        return held

    def learn(self, parts: Sequence[ListPart]) -> list[Directory]:
        """The directories of some objects. 1 GET each that is not kept, side by side.

        A small object is read whole, and its pages are kept as long as there is room.
        """
        known = {part.name: self.shelf.directories.find(self.key(part.name)) for part in parts}
        missing = [part for part in parts if known[part.name] is None]
        found = self.shelf.pool.map(self._learn, missing) if len(missing) > 1 else map(self._learn, missing)
        known |= {part.name: directory for part, directory in zip(missing, found, strict=True)}
        return [directory for part in parts if (directory := known[part.name]) is not None]

    def _learn(self, part: ListPart) -> Directory:
        key = self.key(part.name)
        if part.length > WHOLE_BYTES_MAX:
            span = ByteRange(part.directory, part.length - part.directory)
            with gone_is_old(key):
                data = self.shelf.store.get_range(key, span)
            return self._keep(part, self._directory(part, data))
        body = fetch_object(self.shelf.store, key, part.sha256)
        directory = self._keep(part, self._directory(part, body[part.directory :]))
        for page in range(len(directory.firsts)):
            self._kept(part, directory, page, body[directory.starts[page] : directory.starts[page + 1]])
        return directory

    def _directory(self, part: ListPart, data: bytes) -> Directory:
        name = self.key(part.name)
        if len(data) != part.length - part.directory:
            corrupt(name, f"it should be {part.length} bytes long and is not")
        return decode_directory(data, name=name, identity=self.scope + part.name, directory=part.directory)

    def _keep(self, part: ListPart, directory: Directory) -> Directory:
        cost = sum(map(len, directory.firsts)) + 100 * len(directory.firsts)
        self.shelf.directories.keep(self.key(part.name), directory, cost)
        return directory

    def pages(
        self, wanted: Iterable[tuple[ListPart, Directory, Sequence[int]]], *, is_kept: bool = True
    ) -> dict[tuple[str, int], CheckedPage]:
        """Pages by the name of their object and their number. 1 GET for each range of `coalesce` that is not kept.

        Ranges at most GAP_BYTES_MAX apart are one; all are asked for side by side. Without `is_kept` the caller keeps
        what it needs of them.
        """
        found: dict[tuple[str, int], CheckedPage] = {}
        missing: dict[str, tuple[ListPart, Directory, set[int]]] = {}
        for part, directory, numbers in wanted:
            for number in dict.fromkeys(numbers):
                held = self.shelf.pages.find(self.label(part, number))
                if held is None:
                    missing.setdefault(part.name, (part, directory, set()))[2].add(number)
                else:
                    found[part.name, number] = held
        asked = [
            (part, directory, some, span, is_kept)
            for part, directory, numbers in missing.values()
            for some, span in _joined(directory, sorted(numbers))
        ]
        answers = self.shelf.pool.map(self._read, asked) if len(asked) > 1 else map(self._read, asked)
        for answer in answers:
            found |= answer
        return found

    def _read(
        self, asked: tuple[ListPart, Directory, list[int], ByteRange, bool]
    ) -> dict[tuple[str, int], CheckedPage]:
        part, directory, numbers, span, is_kept = asked
        key = self.key(part.name)
        with gone_is_old(key):
            data = self.shelf.store.get_range(key, span)
        starts = directory.starts
        cut = [data[starts[number] - span.start : starts[number + 1] - span.start] for number in numbers]
        pairs = zip(numbers, cut, strict=True)
        read = self._kept if is_kept else self._checked
        return {(part.name, number): read(part, directory, number, body) for number, body in pairs}

    def _checked(self, part: ListPart, directory: Directory, number: int, stored: bytes) -> CheckedPage:  # noqa: ARG002 - as `_kept`
        return CheckedPage(dict(lists_in(directory.unpack(number, stored), name=directory.name)))

    def _kept(self, part: ListPart, directory: Directory, number: int, stored: bytes) -> CheckedPage:
        body = directory.unpack(number, stored)
        if directory.form == "columns":
            columns = ColumnPage(body, directory.widths or (), name=directory.name)
            page, cost = CheckedPage({}, columns), columns.size + 100 * len(columns.keys)
        else:
            page = CheckedPage(dict(lists_in(body, name=directory.name)))
            cost = len(body) + 300 * len(page.bodies)
        self.shelf.pages.keep(self.label(part, number), page, cost)
        return page

    def label(self, part: ListPart, number: int) -> Label:
        """What a page is kept by. No requests."""
        return Label(self.key(part.name), _PAGE_KIND, str(number))

    def stream_ids(self, parts: Sequence[ListPart]) -> Iterator[IdPage]:
        """All pages of ids of some objects in order. Costs as `stream_lists`."""
        for key, body in self._stream(parts):
            assert not isinstance(body, StoredList), "ids are no lists"
            yield decode_ids(body, name=f"ids from {key!r} on in {self.folder}")

    def stream_lists(
        self, parts: Sequence[ListPart], kind: ListKind, span: ListSpan = ALL_LISTS
    ) -> Iterator[tuple[bytes, StoredList]]:
        """The lists of some objects in order: all, or those of a span. Nothing is kept, and a few MiB are in memory.

        For each object 1 GET if it is small, else 1 for its directory and 1 for each 4 MiB, and one more in an audit.
        Objects that have no list of the span cost nothing, or their directory.
        """
        for key, body in self._stream(span.parts_of(parts), span):
            if not span.has(key):
                continue
            if isinstance(body, StoredList):
                yield key, body
            else:
                name = f"list {key!r} in {self.folder}"
                yield key, decode_list(body, kind.columns, is_shared=kind.is_shared, name=name)

    def _stream(
        self, parts: Sequence[ListPart], span: ListSpan = ALL_LISTS
    ) -> Iterator[tuple[bytes, memoryview | StoredList]]:
        """Lists of columns decoded, all others as they are stored: those of a span, and some beside it."""
        for part in parts:
            # Of an object that is cut into spans others read the rest.
            if part.length <= (WHOLE_BYTES_MAX if span == ALL_LISTS else GAP_BYTES_MAX):
                body = fetch_object(self.shelf.store, self.key(part.name), part.sha256)
                directory = self._directory(part, body[part.directory :])
                bodies = ((number, body) for number in range(len(directory.firsts)))
                yield from self._unpacked(directory, bodies, 0)
                continue
            (directory,) = self.learn([part])
            yield from self._streamed(part, directory, directory.pages_between(span.low, span.high))

    def _streamed(
        self, part: ListPart, directory: Directory, pages: range
    ) -> Iterator[tuple[bytes, memoryview | StoredList]]:
        key, starts = self.key(part.name), directory.starts
        begin, count = pages.start, pages.stop
        digest = sha256() if self.is_audit and len(pages) == len(directory.firsts) else None
        while begin < count:
            end = begin + 1
            while end < count and starts[end + 1] - starts[begin] <= STREAM_BYTES:
                end += 1
            with gone_is_old(key):
                data = self.shelf.store.get_range(key, ByteRange(starts[begin], starts[end] - starts[begin]))
            yield from self._unpacked(directory, ((number, data) for number in range(begin, end)), starts[begin])
            if digest is not None:
                digest.update(data)
            begin = end
        if digest is not None:
            self._check_rest(part, digest)

    def _check_rest(self, part: ListPart, digest: Digest) -> None:
        """What is behind the pages that were read: the directory, and nothing more. 1 GET; raises CorruptionError."""
        key = self.key(part.name)
        with gone_is_old(key):
            data = self.shelf.store.get_range(key, ByteRange(part.directory, part.length - part.directory + 1))
        if len(data) > part.length - part.directory:
            corrupt(key, f"it has more than the {part.length} bytes that are recorded for it")
        digest.update(data)
        if digest.digest() != part.sha256:
            corrupt(key, "its SHA-256 is not the one that names it")

    def _unpacked(
        self, directory: Directory, bodies: Iterator[tuple[int, bytes]], base: int
    ) -> Iterator[tuple[bytes, memoryview | StoredList]]:
        for number, data in bodies:
            stored = data[directory.starts[number] - base : directory.starts[number + 1] - base]
            page = directory.unpack(number, stored)
            if directory.form == "columns":
                yield from ColumnPage(page, directory.widths or (), name=directory.name).lists()
            else:
                yield from lists_in(page, name=directory.name)

    def check(self, part: ListPart) -> int:
        """Read an object whole, and check every byte of it; how many lists it has. 1 GET."""
        key = self.key(part.name)
        body = fetch_object(self.shelf.store, key, part.sha256)
        directory = self._directory(part, body[part.directory :])
        return sum(1 for _ in self._unpacked(directory, ((n, body) for n in range(len(directory.firsts))), 0))


def _joined(directory: Directory, numbers: Sequence[int]) -> Iterator[tuple[list[int], ByteRange]]:
    """Pages together with the range that has them."""
    starts = directory.starts
    spans = [ByteRange(starts[number], starts[number + 1] - starts[number]) for number in numbers]
    for span in _fewer(coalesce(spans, GAP_BYTES_MAX)):
        yield [number for number in numbers if span.start <= starts[number] < span.stop], span


def _fewer(spans: Sequence[ByteRange]) -> Sequence[ByteRange]:
    """Many ranges as fewer: those that lie nearest to each other become one, as long as little more is read."""
    gaps = sorted((after.start - before.stop, place) for place, (before, after) in enumerate(pairwise(spans)))
    joined, left = set[int](), MORE_BYTES_MAX
    for gap, place in gaps[: max(len(spans) - RANGES_MANY, 0)]:
        left -= gap
        if left < 0:
            break
        joined.add(place)
    if not joined:
        return spans
    found: list[ByteRange] = [spans[0]]
    for place, span in enumerate(spans[1:]):
        first = found[-1]
        if place in joined:
            found[-1] = ByteRange(first.start, span.stop - first.start)
        else:
            found.append(span)
    return found
