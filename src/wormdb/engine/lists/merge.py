"""Runs of lists as one run: streamed list by list, so that a few MiB of each are in memory.

Of each document in a list the newest run that names it decides whether it has an entry there. What it takes back in
runs older than all that are merged is told by the oldest of them that names it: if that has an entry and takes none
back, then no older run has one. So deletions never outnumber the entries that they take back, and the length of a list
is the difference of the two.
"""

from __future__ import annotations

import heapq
from array import array
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from operator import itemgetter, ne
from typing import TYPE_CHECKING, Any, Literal, Protocol

from wormdb.engine.lists.span import ALL_LISTS, ListSpan
from wormdb.engine.log.objects import NewObject
from wormdb.engine.state.view import id_key
from wormdb.format.list_columns import ColumnPages, steps_of
from wormdb.format.list_part import (
    IDS_PER_PAGE,
    NO_TEXTS,
    PART_BYTES_MAX,
    PartDraft,
    StoredList,
    encode_ids,
    encode_list,
    payload_columns,
)
from wormdb.format.list_run import ListPart, ListRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wormdb.engine.lists.draft import RunDraft
    from wormdb.engine.lists.kind import ListKind
    from wormdb.engine.lists.shelf import ListFolder
    from wormdb.engine.log.objects import ObjectWriter

__all__ = ["DraftSource", "LooseList", "MergeSource", "PlacedList", "RunWriter", "StoredSource", "merge_list"]

_DROPPED = -1
"""The place of a document that is not in the merged run."""


@dataclass(slots=True)
class LooseList:
    """One list on its way: documents by the keys of their ids, or by their places in the merged run."""

    names: list[Any]
    payloads: list[bytes]
    gone: list[Any]
    ids: dict[bytes, bytes] = field(default_factory=dict)
    """By key the ids as JSON, where documents are named by keys."""

    def loose(self) -> LooseList:
        """Itself."""
        return self


@dataclass(frozen=True, slots=True)
class PlacedList:
    """One list as it is written where documents are places: nothing has to be done to it."""

    steps: bytes
    """As `steps_of` gives them."""
    columns: tuple[bytes, ...]
    gone: bytes
    widths: tuple[int, ...]

    def loose(self) -> LooseList:
        """The same, entry by entry."""
        names, gone = (list(accumulate(array("I", part))) for part in (self.steps, self.gone))
        columns = tuple(memoryview(column) for column in self.columns)
        stored = StoredList(len(names), NO_TEXTS, NO_TEXTS, array("I"), array("I"), columns, None, self.widths)
        return LooseList(names, stored.all_payloads(), gone)


class MergeSource(Protocol):
    """A run that is merged."""

    @property
    def tally(self) -> tuple[int, ...]:
        """What it adds to the statistics."""
        ...

    def documents(self) -> Iterator[tuple[bytes, bytes, bool]]:
        """The documents that it names by places: the key and the JSON of each id, and whether it is in no list."""
        ...

    def lists(self, places: Sequence[int] | None) -> Iterator[tuple[bytes, LooseList | PlacedList]]:
        """Its lists in order; with `places` those of the merged run stand for its own."""
        ...


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A run that is stored, or a span of its lists. Each pass over these costs as `ListFolder.stream_lists`."""

    folder: ListFolder
    run: ListRun
    kind: ListKind
    span: ListSpan = ALL_LISTS

    @property
    def tally(self) -> tuple[int, ...]:
        """As `MergeSource`."""
        return self.run.tally

    def documents(self) -> Iterator[tuple[bytes, bytes, bool]]:
        """As `MergeSource`."""
        for page in self.folder.stream_ids(self.run.ids):
            for identity, dead in zip(page.ids, page.dead, strict=True):
                yield id_key(identity), identity, bool(dead)

    def lists(self, places: Sequence[int] | None) -> Iterator[tuple[bytes, LooseList]]:
        """As `MergeSource`."""
        for key, stored in self.folder.stream_lists(self.run.parts, self.kind, self.span):
            payloads = stored.all_payloads()
            if places is not None:
                own, gone = [places[place] for place in stored.places], [places[place] for place in stored.gone_places]
                yield key, LooseList(own, payloads, gone)
                continue
            ids = {id_key(identity): identity for identity in stored.ids}
            taken = {id_key(identity): identity for identity in stored.gone}
            yield key, LooseList(list(ids), payloads, list(taken), taken | ids)


@dataclass(frozen=True, slots=True)
class DraftSource:
    """A run that is not stored yet. No requests."""

    draft: RunDraft

    @property
    def tally(self) -> tuple[int, ...]:
        """As `MergeSource`."""
        return self.draft.tally

    def documents(self) -> Iterator[tuple[bytes, bytes, bool]]:
        """As `MergeSource`."""
        for identity, dead in zip(self.draft.ids, self.draft.dead, strict=True):
            yield id_key(identity), identity, dead

    def lists(self, places: Sequence[int] | None) -> Iterator[tuple[bytes, LooseList | PlacedList]]:
        """As `MergeSource`."""
        ids = self.draft.ids
        is_moved = places is not None and any(map(ne, places, range(len(places))))
        if self.draft.words is not None:
            yield from self.draft.words.lists(places if is_moved else None)
            return
        for key in sorted(self.draft.lists):
            found = self.draft.lists[key]
            if places is not None:
                if not is_moved:
                    yield key, LooseList(found.places, found.payloads, found.gone)
                    continue
                own, gone = [places[place] for place in found.places], [places[place] for place in found.gone]
                yield key, LooseList(own, found.payloads, gone)
                continue
            known = {place: id_key(ids[place]) for place in (*found.places, *found.gone)}
            named = {name: ids[place] for place, name in known.items()}
            own_keys, gone_keys = [known[place] for place in found.places], [known[place] for place in found.gone]
            yield key, LooseList(own_keys, found.payloads, gone_keys, named)


def merge_list(runs: Sequence[LooseList], *, is_base: bool) -> LooseList:
    """One list of several runs, newest first, as one. With `is_base` nothing is older. No requests."""
    if len(runs) == 1 and not (is_base and (runs[0].gone or _DROPPED in runs[0].names)):
        return runs[0]
    entries: dict[Any, bytes] = {}
    gone: set[Any] = set()
    ids: dict[bytes, bytes] = {}
    for run in reversed(runs):
        for name in run.gone:
            if name in entries:
                del entries[name]
            else:
                gone.add(name)
        entries.update(zip(run.names, run.payloads, strict=True))
        ids |= run.ids
    entries.pop(_DROPPED, None)
    names = sorted(entries)
    return LooseList(names, [entries[name] for name in names], [] if is_base else sorted(gone), ids)


@dataclass(frozen=True, slots=True)
class RunWriter:
    """Writes runs of one index."""

    folder: ListFolder
    kind: ListKind
    writer: ObjectWriter
    part_bytes: int = PART_BYTES_MAX

    def merge(self, sources: Sequence[MergeSource], *, number: int, is_base: bool) -> ListRun | None:
        """Several runs, newest first, as one that is stored; None if nothing is left of them.

        Costs as reading each once, and 1 PUT for each object. `is_base` says that no run is older. Raises
        CorruptionError, SnapshotTooOldError, UnavailableError.
        """
        places: list[array[int]] | None = None
        ids: tuple[ListPart, ...] = ()
        documents = 0
        if self.kind.is_shared:
            places = [array("i") for _ in sources]
            ids, documents = self._write_ids(_united(sources, places, is_base=is_base))
        counts = [0, 0]
        parts = self._write_lists(_merged(sources, places, is_base=is_base), counts)
        told = [source.tally for source in sources if source.tally]
        tally = tuple(map(sum, zip(*told, strict=True)))
        if not parts and not any(tally):
            return None  # if ids were written, nothing names them: they go as what a crash leaves behind
        return ListRun(
            number=number, parts=parts, ids=ids, documents=documents, entries=counts[0], gone=counts[1], tally=tally
        )

    def join_ids(self, sources: Sequence[StoredSource]) -> tuple[tuple[ListPart, ...], int]:
        """The documents of runs that have none in common, as those of one run, and how many they are.

        Costs as reading the ids of each once, and 1 PUT for each object. Raises as `merge`.
        """
        places = [array("i") for _ in sources]
        return self._write_ids(_united(sources, places, is_base=True))

    def join_lists(self, sources: Sequence[StoredSource]) -> tuple[tuple[ListPart, ...], int]:
        """The lists of runs that have no document in common as those of one run, and how many entries they have.

        Where documents are places the runs come in order of id, so that those of one follow on those of another: the
        lists fit what `join_ids` writes. Costs and raises as `merge`, without ids.
        """
        assert not any(source.run.gone for source in sources), "runs of which none takes back entries of another"
        places: list[range] | None = None
        if self.kind.is_shared:
            ends = list(accumulate((source.run.documents for source in sources), initial=0))
            places = [range(begin, end) for begin, end in pairwise(ends)]
        counts = [0, 0]
        return self._write_lists(_merged(sources, places, is_base=True), counts), counts[0]

    def _write_ids(self, found: Iterable[tuple[bytes, bytes, bool]]) -> tuple[tuple[ListPart, ...], int]:
        count = 0

        def pages() -> Iterator[tuple[bytes, bytes]]:
            nonlocal count
            first: bytes | None = None
            ids: list[bytes] = []
            dead: list[bool] = []
            for key, identity, is_dead in found:
                first = key if first is None else first
                ids.append(identity)
                dead.append(is_dead)
                count += 1
                if len(ids) == IDS_PER_PAGE:
                    yield first, encode_ids(ids, dead)
                    first, ids, dead = None, [], []
            if first is not None:
                yield first, encode_ids(ids, dead)

        return self._write(pages(), lambda: PartDraft(is_packed=True, is_alone=True, form="ids")), count

    def _write_lists(
        self, found: Iterable[tuple[bytes, LooseList | PlacedList]], counts: list[int]
    ) -> tuple[ListPart, ...]:
        kind = self.kind
        if kind.is_shared and kind.columns is not None:
            return self._write_columns(found, counts, kind.columns)

        def bodies() -> Iterator[tuple[bytes, bytes]]:
            for key, one in found:
                made = one.loose()
                if not made.names and not made.gone:
                    continue
                counts[0] += len(made.names)
                counts[1] += len(made.gone)
                names, gone = made.names, made.gone
                if not kind.is_shared:
                    names, gone = [made.ids[name] for name in names], [made.ids[name] for name in gone]
                yield key, encode_list(names, made.payloads, gone, kind.columns, is_shared=kind.is_shared)

        form: Literal["lists", "places"] = "places" if kind.is_shared else "lists"
        return self._write(bodies(), lambda: PartDraft(is_packed=kind.is_packed, form=form, widths=kind.columns))

    def _write_columns(
        self, found: Iterable[tuple[bytes, LooseList | PlacedList]], counts: list[int], widths: tuple[int, ...]
    ) -> tuple[ListPart, ...]:
        made: list[ListPart] = []
        draft = PartDraft(is_packed=True, form="columns", widths=widths)
        pages = ColumnPages(draft, widths)
        for key, one in found:
            if isinstance(one, PlacedList):
                steps, columns, gone = one.steps, one.columns, one.gone
            else:
                steps, gone = steps_of(one.names), steps_of(one.gone)
                columns = tuple(payload_columns(one.payloads, widths))
            if not steps and not gone:
                continue
            counts[0] += len(steps) // 4
            counts[1] += len(gone) // 4
            if pages.size and pages.size + len(steps) > self.part_bytes:
                pages.close()
                made.append(self._put(draft))
                draft = PartDraft(is_packed=True, form="columns", widths=widths)
                pages = ColumnPages(draft, widths)
            pages.add(key, steps, columns, gone)
        pages.close()
        if not draft.is_empty:
            made.append(self._put(draft))
        return tuple(made)

    def _write(self, lists: Iterable[tuple[bytes, bytes]], new: Callable[[], PartDraft]) -> tuple[ListPart, ...]:
        """Objects of lists in order; each is written when it is full."""
        made: list[ListPart] = []
        draft = new()
        for key, body in lists:
            if not draft.is_empty and draft.size + len(body) > self.part_bytes:
                made.append(self._put(draft))
                draft = new()
            draft.add(key, body)
        if not draft.is_empty:
            made.append(self._put(draft))
        return tuple(made)

    def _put(self, draft: PartDraft) -> ListPart:
        name = f"{self.writer.new_name()}.run"
        body, part = draft.finish(name, identity=self.folder.scope + name)
        self.writer.put(NewObject(self.folder.key(name), body))
        return part


def _united(
    sources: Sequence[MergeSource], places: Sequence[array[int]], *, is_base: bool
) -> Iterator[tuple[bytes, bytes, bool]]:
    """The documents of all runs in order of key, and for each run the places of its own among them."""
    if len(sources) == 1:
        yield from _alone(sources[0], places[0], is_base=is_base)
        return
    streams = [_aged(source, age) for age, source in enumerate(sources)]
    count = 0
    for key, same in groupby(heapq.merge(*streams), key=itemgetter(0)):
        named = list(same)
        _, _, identity, is_dead = named[0]  # the newest decides
        place = _DROPPED if is_dead and is_base else count
        for _, age, _, _ in named:
            places[age].append(place)
        if place != _DROPPED:
            count += 1
            yield key, identity, is_dead


def _alone(source: MergeSource, places: array[int], *, is_base: bool) -> Iterator[tuple[bytes, bytes, bool]]:
    """The same of one run."""
    count = 0
    for found in source.documents():
        if is_base and found[2]:
            places.append(_DROPPED)
        else:
            places.append(count)
            count += 1
            yield found


def _aged(source: MergeSource, age: int) -> Iterator[tuple[bytes, int, bytes, bool]]:
    return ((key, age, identity, dead) for key, identity, dead in source.documents())


def _merged(
    sources: Sequence[MergeSource], places: Sequence[Sequence[int]] | None, *, is_base: bool
) -> Iterator[tuple[bytes, LooseList | PlacedList]]:
    streams = [_keyed(source, None if places is None else places[age], age) for age, source in enumerate(sources)]
    if len(streams) == 1:
        # What it takes back it has no entries of: without an older run there is nothing to do.
        for key, _, one in streams[0]:
            if not is_base or not one.gone:
                yield key, one
            else:
                yield key, replace(one, gone=b"") if isinstance(one, PlacedList) else replace(one, gone=[])
        return
    for key, same in groupby(heapq.merge(*streams, key=itemgetter(0, 1)), key=itemgetter(0)):
        some = [one for _, _, one in same]
        if len(some) == 1 and isinstance(some[0], PlacedList) and not (is_base and some[0].gone):
            yield key, some[0]
        else:
            yield key, merge_list([one.loose() for one in some], is_base=is_base)


def _keyed(
    source: MergeSource, places: Sequence[int] | None, age: int
) -> Iterator[tuple[bytes, int, LooseList | PlacedList]]:
    return ((key, age, one) for key, one in source.lists(places))
