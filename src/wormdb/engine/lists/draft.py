"""What changed documents change in the lists of an index: a run in the making, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wormdb.engine.lists.kind import LIST_KEY_BYTES_MAX, PAYLOAD_BYTES_MAX, CountingKind
from wormdb.engine.lists.word_entries import WordEntries
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.settings import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.engine.lists.kind import DocumentCounter, Lister, ListKind
    from wormdb.engine.state.projection import Net
    from wormdb.format.kinds import Document

__all__ = ["DRAFT_BYTES_MAX", "ListDraft", "ListMaker", "RunDraft"]

DRAFT_BYTES_MAX: Final = 64 * MIB
"""Of entries of a run that are gathered in memory, about a third of what they take."""
_ENTRY_BYTES: Final = 16  # of an entry beside its payload, about


@dataclass(slots=True)
class ListDraft:
    """One list of a run: documents as places among those of the run."""

    places: list[int] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)


@dataclass(slots=True)
class RunDraft:
    """What some changes bring to the lists of an index; documents come in order of key."""

    ids: list[bytes] = field(default_factory=list)
    """As JSON, of all documents that are named."""
    dead: list[bool] = field(default_factory=list)
    """For each of them whether it is in no list now."""
    lists: dict[bytes, ListDraft] = field(default_factory=dict)
    tally: tuple[int, ...] = ()
    size: int = 0
    """Bytes of entries, about."""
    documents: int = 0
    """How many changed documents were looked at."""
    words: WordEntries | None = None
    """In place of `lists`, of a kind that counts."""

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not self.ids and not any(self.tally)

    @property
    def is_full(self) -> bool:
        """Whether what comes next belongs to another run."""
        return self.size >= DRAFT_BYTES_MAX


class ListMaker:
    """Finds what documents have in the lists of an index: by its kind and its trained object. Used by one thread."""

    def __init__(self, kind: ListKind, trained: bytes | None, *, is_strict: bool) -> None:
        """With `is_strict` a document that cannot be indexed raises InvalidRequestError; else it is in no list.

        A ready index has none: they are refused at commit. One that came all the same must not stop the log.
        """
        self.kind = kind
        self._lister: Lister = kind.lister(trained)
        self._counter: DocumentCounter | None = kind.counter() if isinstance(kind, CountingKind) else None
        self._is_strict = is_strict

    def lists_of(self, documents: Sequence[Document]) -> list[Mapping[bytes, bytes]]:
        """For each document its lists, each with the payload. Raises InvalidRequestError."""
        if self._is_strict:
            for document in documents:
                self.kind.check(document)
        try:
            found = list(self._lister(documents)) if documents else []
        except InvalidRequestError:
            if self._is_strict:
                raise
            if len(documents) == 1:
                return [{}]
            return [one for document in documents for one in self.lists_of([document])]
        assert len(found) == len(documents), "lists for each document"
        return found

    def tally_of(self, document: Document) -> tuple[int, ...]:
        """What a document adds to the statistics."""
        try:
            return self.kind.tally(document)
        except InvalidRequestError:
            if self._is_strict:
                raise
            return ()

    def add(self, draft: RunDraft, net: Sequence[Net]) -> None:
        """Take changed documents into a run, which come after those that are in it. Raises InvalidRequestError."""
        draft.documents += len(net)
        changed = [one for one in net if one.before != one.held.document]
        if self._counter is not None:
            self._add_words(draft, changed, self._counter)
            return
        before = [_decoded(one.before) for one in changed]
        after = [_decoded(one.held.document) for one in changed]
        was = iter(self.lists_of([one for one in before if one is not None]))
        now = iter(self.lists_of([one for one in after if one is not None]))
        for one, old, new in zip(changed, before, after, strict=True):
            had: Mapping[bytes, bytes] = {} if old is None else next(was)
            has: Mapping[bytes, bytes] = {} if new is None else next(now)
            self._count(draft, old, -1)
            self._count(draft, new, 1)
            self._take(draft, one.held.id, had, has)

    def _add_words(self, draft: RunDraft, changed: Sequence[Net], counter: DocumentCounter) -> None:
        """The same of a kind that counts."""
        width = counter.width
        words = draft.words = draft.words or WordEntries(counter.keys, width)
        found: list[list[int]] = [[] for _ in range(width)]
        lengths: list[list[int]] = [[] for _ in range(width)]
        sums = list(draft.tally or (0,) * (1 + width))
        place = first = len(draft.ids)
        for one in changed:
            has = _cut(one.held.document, counter)
            is_there = any(has)
            if one.before is not None:
                had = _cut(one.before, counter)
                if all(map(_is_same, had, has or [[]] * width)):
                    continue
                gone = list(set().union(*had))
                words.take_back(place, gone)
                draft.size += _ENTRY_BYTES * len(gone)
                sums = [sums[0] - any(had), *(known - len(own) for known, own in zip(sums[1:], had, strict=True))]
            elif not is_there:
                continue
            draft.ids.append(one.held.id)
            draft.dead.append(not is_there)
            sums[0] += is_there
            place += 1
            for part, own in enumerate(has or [[]] * width):
                found[part] += own
                lengths[part].append(len(own))
        words.add(first, found, lengths)
        draft.size += (_ENTRY_BYTES + 2 * width) * sum(map(len, found))
        draft.tally = (sums[0], *(known + sum(counts) for known, counts in zip(sums[1:], lengths, strict=True)))

    def _count(self, draft: RunDraft, document: Document | None, sign: int) -> None:
        told = () if document is None else self.tally_of(document)
        if told:
            known = draft.tally or (0,) * len(told)
            draft.tally = tuple([one + sign * other for one, other in zip(known, told, strict=True)])

    def _take(self, draft: RunDraft, identity: bytes, had: Mapping[bytes, bytes], has: Mapping[bytes, bytes]) -> None:
        if had == has:
            return
        place, lists = len(draft.ids), draft.lists
        draft.ids.append(identity)
        draft.dead.append(not has)
        # Where lists name documents by places, all entries of one that count are in one run: so they can be joined.
        is_whole = self.kind.is_shared
        for key, payload in had.items():
            if is_whole or has.get(key) != payload:
                lists.setdefault(key, ListDraft()).gone.append(place)
                draft.size += _ENTRY_BYTES
        for key, payload in has.items():
            if had.get(key) == payload and not is_whole:
                continue
            found = lists.get(key)
            if found is None:
                assert len(key) <= LIST_KEY_BYTES_MAX, "a key of a list within its limit"
                found = lists[key] = ListDraft()
            found.places.append(place)
            found.payloads.append(payload)
            assert len(payload) <= PAYLOAD_BYTES_MAX, "a payload within its limit"
            draft.size += len(payload) + _ENTRY_BYTES


def _cut(document: bytes | None, counter: DocumentCounter) -> list[list[int]]:
    return [] if document is None else counter.cut(json.decode_document(document, name="document"))


def _is_same(had: list[int], has: list[int]) -> bool:
    return had == has or (len(had) == len(has) and sorted(had) == sorted(has))


def _decoded(document: bytes | None) -> Document | None:
    return None if document is None else json.decode_document(document, name="document")
