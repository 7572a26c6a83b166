"""One ready list index over one view: the lists of the root, and which documents the tail changed on top of them.

What a reader shows of the root is exact: each entry that counts once, in the run that brought it. The tail is given as
documents: a caller leaves out entries of those in `touched`, and takes the documents of `tail` in their place.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wormdb.engine.lists.definition import kind_for
from wormdb.engine.lists.span import ListSpan
from wormdb.engine.state.indexes import is_whole
from wormdb.engine.state.projection import net_of
from wormdb.engine.state.view import StoredVersion, View, id_key, merge_newest
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.frame import corrupt
from wormdb.format.key import prefix_end
from wormdb.format.list_part import IDS_PER_PAGE, StoredList, TextArray, decode_ids, decode_list
from wormdb.format.list_run import ListHead

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wormdb.engine.lists.kind import ListKind
    from wormdb.engine.lists.shelf import CheckedPage, ListFolder, ListShelf
    from wormdb.engine.state.indexes import IndexStatus
    from wormdb.engine.tree.definition import Index
    from wormdb.format.list_part import Directory, IdPage
    from wormdb.format.list_run import ListPart, ListRun
    from wormdb.format.root import IndexRoot

__all__ = ["ListReader", "RunList", "can_answer", "find_listed", "read_lists"]

_NOTHING: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class RunList:
    """What one run has of one list."""

    key: bytes
    run: int
    """Its place among the runs of the index, newest first."""
    entries: StoredList
    hidden: frozenset[int]
    """Places of entries that newer runs take back: they do not count."""

    @property
    def count(self) -> int:
        """How many entries count."""
        return self.entries.count - len(self.hidden)


@dataclass(frozen=True, slots=True)
class ListReader:
    """A list index at the state of a view.

    Every method may raise CorruptionError, and SnapshotTooOldError if the view is so old that objects are gone.
    """

    kind: ListKind
    head: ListHead
    touched: frozenset[bytes]
    """The keys of the ids of documents that the tail changed: what the lists say of them does not count."""
    tail: tuple[StoredVersion, ...]
    """Those of them that are there, as they are in the view, in order of key."""
    view: View
    folder: ListFolder | None
    """None if there is no root, or none since the index was made of no documents: then there are no lists."""

    def trained(self) -> bytes | None:
        """What was learned; None if nothing was. 1 GET the first time."""
        return None if self.folder is None else self.folder.trained(self.head.trained)

    def prepare(self, keys: Sequence[bytes] | None = None) -> None:
        """Read what `read` of these keys needs before its pages, or of any: 1 GET for each object not known yet.

        A caller may do so while it reads what was learned.
        """
        if self.folder is not None:
            wanted = [part for run in self.head.runs for part in self._parts(run, keys)]
            self.folder.learn([*wanted, *(part for run in self.head.runs for part in run.ids)])

    def read(
        self, keys: Iterable[bytes], held: dict[tuple[str, bytes], StoredList | None] | None = None
    ) -> dict[bytes, list[RunList]]:
        """Some lists: for each key what the runs have of it, newest first; keys without a list are missing.

        A caller that keeps lists itself gives `held`, by object and key: what is in it is not read, what is read is
        added to it, and pages are not kept besides.

        A cold reader asks for the directory of each object that may have one of the keys, or for the whole object if
        that has 1 MiB at most: 1 GET each, one round. Then 1 GET for each range of pages, ranges at most 128 KiB apart
        as one; again one round, and none for small objects. What is kept costs nothing. If lists name documents by
        their places and a newer run takes back entries of one of them, the pages with their ids are a round more.
        """
        wanted = sorted(set(keys))
        if self.folder is None or not wanted:
            return {}
        self.prepare(wanted)
        asked: list[tuple[ListPart, Directory, Sequence[int]]] = []
        places: list[tuple[int, bytes, str, int]] = []
        known = held or {}
        for number, run in enumerate(self.head.runs):
            parts = self._parts(run, wanted)
            for part, directory in zip(parts, self.folder.learn(parts), strict=True):
                pages = {key: page for key in wanted if (page := directory.page_of(key)) is not None}
                asked.append((part, directory, [page for key, page in pages.items() if (part.name, key) not in known]))
                places += [(number, key, part.name, page) for key, page in pages.items()]
        found = self.folder.pages(asked, is_kept=held is None)
        raw: dict[bytes, list[tuple[int, StoredList]]] = {}
        for number, key, name, page in places:
            one = known[name, key] if (name, key) in known else self._decoded(key, found[name, page])
            if held is not None:
                held[name, key] = one
            if one is not None:
                raw.setdefault(key, []).append((number, one))
        return self._shown(raw)

    def read_range(self, prefix: bytes, *, lists_max: int | None = None) -> dict[bytes, list[RunList]]:
        """All lists whose keys start with a prefix, in order of key, each as `read` gives it. Costs as `read`.

        Raises InvalidRequestError if there are more than `lists_max`.
        """
        if self.folder is None:
            return {}
        high = prefix_end(prefix)
        span = ListSpan(prefix, high)
        asked: list[tuple[ListPart, Directory, Sequence[int]]] = []
        places: list[tuple[int, str, int]] = []
        chosen = [(number, part) for number, run in enumerate(self.head.runs) for part in span.parts_of(run.parts)]
        self.folder.learn([*(part for _, part in chosen), *(part for run in self.head.runs for part in run.ids)])
        for number, part in chosen:
            (directory,) = self.folder.learn([part])
            pages = directory.pages_between(prefix, high)
            asked.append((part, directory, pages))
            places += [(number, part.name, page) for page in pages]
        found = self.folder.pages(asked)
        raw: dict[bytes, list[tuple[int, StoredList]]] = {}
        for number, name, page in places:
            for key in found[name, page].keys:
                if key.startswith(prefix) and (one := self._decoded(key, found[name, page])) is not None:
                    raw.setdefault(key, []).append((number, one))
        if lists_max is not None and len(raw) > lists_max:
            raise InvalidRequestError(
                f"lists that begin with {prefix!r:.60}",
                reason=f"there are {len(raw):,}, and {lists_max:,} are allowed",
                fix="give a longer prefix",
            )
        return self._shown({key: raw[key] for key in sorted(raw)})

    def ids(self, wanted: Sequence[tuple[RunList, int]]) -> list[bytes]:
        """The ids, as JSON, of some entries by their places. No requests if lists have the ids themselves.

        Otherwise 1 GET for each range of pages with ids that is not kept.
        """
        if not self.kind.is_shared:
            return [found.entries.ids[place] for found, place in wanted]
        asked = [(found.run, found.entries.places[place]) for found, place in wanted]
        pages = self.id_pages({(run, place // IDS_PER_PAGE) for run, place in asked})
        return [pages[run, place // IDS_PER_PAGE].ids[place % IDS_PER_PAGE] for run, place in asked]

    def ids_at(self, run: int, places: Sequence[int]) -> list[bytes]:
        """The ids, as JSON, of documents by their places in a run; of lists that name documents so. Costs as `ids`."""
        pages = self.id_pages({(run, place // IDS_PER_PAGE) for place in places})
        return [pages[run, place // IDS_PER_PAGE].ids[place % IDS_PER_PAGE] for place in places]

    def all_ids(self, found: RunList) -> list[bytes]:
        """The ids of all entries of a list of a run, hidden ones too. Costs as `ids`."""
        if not self.kind.is_shared:
            return list(found.entries.ids)
        return self.ids([(found, place) for place in range(found.entries.count)])

    def tally(self) -> tuple[int, ...]:
        """The statistics of the state of the view, exactly; () stands for zeros where nothing is indexed.

        No requests; but if blocks were attached since the root, what they replace is looked up.
        """
        sums = list(self.head.tally)
        for document, sign in [*((one, -1) for one in self.replaced()), *((one.document, 1) for one in self.tail)]:
            if document is not None:
                told = self.kind.tally(json.decode_document(document, name="document"))
                sums = sums or [0] * len(told)
                sums = [one + sign * other for one, other in zip(sums, told, strict=True)]
        return tuple(sums)

    def replaced(self) -> list[bytes | None]:
        """The documents that the root has and the tail changed. Costs as `tally`."""
        view = self.view
        if self.folder is None:
            return []
        if view.overlay.attached(view.number):
            return [held.document for held in view.base.get_many(sorted(self.touched)).values()]
        return [net.before for net in net_of(view.overlay.entries(view.number), view)]

    # --- what runs have ---

    def _parts(self, run: ListRun, keys: Sequence[bytes] | None) -> list[ListPart]:
        """The objects of a run that may have some of the keys."""
        if keys is None or len(run.parts) < 2:
            return list(run.parts)
        firsts = [part.first for part in run.parts]
        chosen = {bisect_right(firsts, key) - 1 for key in keys}
        return [part for place, part in enumerate(run.parts) if place in chosen]

    def _decoded(self, key: bytes, page: CheckedPage) -> StoredList | None:
        """A list of a page; None if it is not there."""
        if page.columns is not None:
            return page.columns.find(key)  # what is made of it is kept by those who make it
        found = page.decoded.get(key)
        if found is None and (body := page.bodies.get(key)) is not None:
            name = f"list {key!r} of {'' if self.folder is None else self.folder.folder}"
            found = decode_list(body, self.kind.columns, is_shared=self.kind.is_shared, name=name)
            page.decoded[key] = found
        return found

    def _shown(self, raw: Mapping[bytes, Sequence[tuple[int, StoredList]]]) -> dict[bytes, list[RunList]]:
        """Lists with what newer runs take back."""
        names = self._gone_names(raw) if self.kind.is_shared else {}
        shown: dict[bytes, list[RunList]] = {}
        for key, runs in raw.items():
            gone: set[bytes] = set()
            for number, found in runs:
                hidden = self._hidden(number, found, gone) if gone and found.count else _NOTHING
                shown.setdefault(key, []).append(RunList(key, number, found, hidden))
                if self.kind.is_shared:
                    gone |= {names[number, place] for place in found.gone_places if (number, place) in names}
                else:
                    gone |= set(map(id_key, found.gone))
        return shown

    def _hidden(self, number: int, found: StoredList, gone: set[bytes]) -> frozenset[int]:
        if not self.kind.is_shared:
            places = (_search(found.ids, key) for key in gone)
            return frozenset(place for place in places if place is not None)
        known = {place: at for at, place in enumerate(found.places)}
        wanted = self._places_of(number, gone)
        return frozenset(known[place] for place in wanted if place in known)

    def _gone_names(self, raw: Mapping[bytes, Sequence[tuple[int, StoredList]]]) -> dict[tuple[int, int], bytes]:
        """The keys of ids that runs take back, by run and place, where an older run has the same list."""
        # What the oldest of the runs takes back, none of them has.
        newer = [found for runs in raw.values() for found in runs[:-1]]
        asked = {(number, place) for number, found in newer for place in found.gone_places}
        pages = self.id_pages({(run, place // IDS_PER_PAGE) for run, place in asked})
        return {
            (run, place): id_key(pages[run, place // IDS_PER_PAGE].ids[place % IDS_PER_PAGE]) for run, place in asked
        }

    # --- the ids of runs ---

    def id_pages(self, wanted: set[tuple[int, int]]) -> dict[tuple[int, int], IdPage]:
        """Pages of ids by run and number. Costs as `ids`."""
        asked: list[tuple[ListPart, Directory, Sequence[int]]] = []
        where: dict[tuple[int, int], tuple[ListPart, int]] = {}
        for run, page in sorted(wanted):
            rest = page
            for part, directory in self._id_parts(run):
                if rest < len(directory.firsts):
                    asked.append((part, directory, (rest,)))
                    where[run, page] = part, rest
                    break
                rest -= len(directory.firsts)
            else:
                corrupt("" if self.folder is None else self.folder.folder, "a list names a document that is not there")
        found = self.folder.pages(asked) if self.folder is not None else {}
        return {place: self._id_page(found[part.name, page], part) for place, (part, page) in where.items()}

    def _id_parts(self, run: int) -> list[tuple[ListPart, Directory]]:
        parts = self.head.runs[run].ids
        return list(zip(parts, [] if self.folder is None else self.folder.learn(parts), strict=True))

    def _id_page(self, page: CheckedPage, part: ListPart) -> IdPage:
        if not page.ids:
            (body,) = page.bodies.values()
            page.ids.append(decode_ids(body, name=part.name))
        return page.ids[0]

    def _places_of(self, run: int, keys: set[bytes]) -> set[int]:
        """The places of some ids in a run, by their keys; of those that are there."""
        before = 0
        asked: dict[int, list[bytes]] = {}
        for _, directory in self._id_parts(run):
            for key in keys:
                page = directory.page_of(key)
                if page is not None:
                    asked.setdefault(before + page, []).append(key)
            before += len(directory.firsts)
        pages = self.id_pages({(run, page) for page in asked})
        found: set[int] = set()
        for page, some in asked.items():
            for key in some:
                place = _search(pages[run, page].ids, key)
                if place is not None:
                    found.add(page * IDS_PER_PAGE + place)
        return found


def find_listed(view: View, status: IndexStatus) -> IndexRoot | None:
    """What the root below a view has of a list index that is ready; None if that does not count. No requests."""
    found = None if view.place is None else view.place.root.index(status.index.name)
    if found is None or found.lists is None or found.definition != status.definition or not is_whole(found):
        return None
    return None if _is_above(view, status) or view.outdates(status.index) else found


def can_answer(view: View, status: IndexStatus) -> bool:
    """Whether `read_lists` gives a list index of a view. No requests."""
    if status.state != "ready" or not status.index.kind:
        return False
    return view.place is None or _is_above(view, status) or find_listed(view, status) is not None


def _is_above(view: View, status: IndexStatus) -> bool:
    """Whether all documents of an index are in the tail: there was none when it was made, after the root was."""
    return status.bare > view.base_number


def read_lists(view: View, index: Index, shelf: ListShelf) -> ListReader | None:
    """A list index at the state of a view; None if it cannot answer for it: then a scan must. No requests.

    If blocks were attached since the root, they are read: 1 GET each. Raises UnsupportedFormatError.
    """
    status = view.definition.indexes.get(index.name)
    if status is None or status.state != "ready" or status.index != index or not index.kind:
        return None
    place = view.place
    head, folder = ListHead(), None
    if place is not None and not _is_above(view, status):
        found = find_listed(view, status)
        if found is None or found.lists is None:
            return None
        head, folder = found.lists, shelf.folder(place.root, index.name)
    attached = view.overlay.attached(view.number)
    newest = list(merge_newest([iter(view.overlay.scan(view.number)), *(one.base.scan() for one in attached)]))
    tail = tuple(view.shown(held) for _, held in newest if held.document is not None)
    return ListReader(kind_for(index), head, frozenset(key for key, _ in newest), tail, view, folder)


def _search(ids: TextArray, key: bytes) -> int | None:
    """Where an id is among some in order of key."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        found = id_key(ids[middle])
        if found == key:
            return middle
        if found < key:
            low = middle + 1
        else:
            high = middle
    return None
