"""The engine's view of a collection as a source of queries, and what of its root this process keeps."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary, ref

from wormdb.engine.blocks.runs import AttachedBase, Part
from wormdb.engine.columns.scan import scan_columns
from wormdb.engine.index.read import IndexReader, advance_reader
from wormdb.engine.index.shelf import is_whole
from wormdb.engine.state.upgrade import NO_UPGRADES, Upgrades
from wormdb.engine.state.view import Base, Overlay, StoredVersion, TopOverlay, View
from wormdb.engine.tree.definition import Index, array_fields, encode_index
from wormdb.engine.tree.statistics import decode_statistics
from wormdb.format import json
from wormdb.format.blocklist import BlockEntry
from wormdb.format.field_statistics import FieldStatistics, decode_field_statistics
from wormdb.format.frequent import frequent_columns
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import TRAVERSED, get_direct, parse_path
from wormdb.format.sample import decode_sample
from wormdb.query.plan import ALL_IDS
from wormdb.query.sources.ahead import expect_documents
from wormdb.query.sources.residency import EngineResidency
from wormdb.query.sources.source import Candidates, Entries, Facts, IndexFacts, VectorFacts
from wormdb.query.sources.texts import find_texts
from wormdb.settings import SAMPLE_ROWS
from wormdb.system.deadline import module_lock
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wormdb.engine.blocks.portion import Portion
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.lists.nearest import NearestReader
    from wormdb.engine.lists.postings import TextReader
    from wormdb.engine.state.definition import Definition
    from wormdb.engine.tree.entries import Range
    from wormdb.format.root import IndexRoot, Root
    from wormdb.schema.model import Model

__all__ = ["EngineSource", "RootKnowledge", "knowledge_of"]

T = TypeVar("T")


# --- What the engine knows of a view without requests, kept for as long as its root and its tail are the same.

ATTACHED_ROWS_MAX: Final = 1_000
"""Rows of attached blocks that no root has yet, up to which an index is used: it would have to read all of them."""
_STORED_SHARE: Final = 0.4
"""Stored bytes of a value in a block, relative to its JSON, about."""

WHOLE: Final = ""
"""In place of a path: all of a document."""
_lock = module_lock()
_known: WeakKeyDictionary[Base, RootKnowledge] = WeakKeyDictionary()


def knowledge_of(view: View) -> RootKnowledge:
    """What is kept of a view's root. No requests."""
    with _lock:
        known = _known.get(view.base)
        if known is None:
            known = _known[view.base] = RootKnowledge()
        return known


@dataclass(slots=True)
class RootKnowledge:
    """What was learned of one root and of the tail over it. Thread-safe."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _root: _RootFacts | None = None
    _tail: _Tail | None = None
    _facts: tuple[int, Definition, Overlay, Facts] | None = None
    _topped: tuple[TopOverlay, Facts] | None = None
    """Of the last state with changes on top: what is below them is kept as if they were not there."""
    _readers: dict[str, tuple[Index, Overlay, LogNumber, IndexReader]] = field(default_factory=dict)
    """The newest reader of each index, by name. Views are not kept, because they would keep the root in memory."""
    _nearest: dict[str, tuple[Overlay, LogNumber, Definition, NearestReader]] = field(default_factory=dict)
    """The same of indexes of vectors."""

    def facts(self, view: View, ledger: Ledger) -> Facts:
        """The facts of a view, made once for each state. No requests; raises CorruptionError for a damaged root."""
        held = self._facts
        if held is not None:
            number, definition, overlay, facts = held
            if number == view.number and definition is view.definition and overlay is view.overlay:
                return facts
        if isinstance(view.overlay, TopOverlay):
            return self._top_facts(view, view.overlay, ledger)
        with self._lock:
            facts = self._made(view, self._tail_of(view), ledger)
            self._facts = view.number, view.definition, view.overlay, facts
        return facts

    def _top_facts(self, view: View, overlay: TopOverlay, ledger: Ledger) -> Facts:
        topped = self._topped
        if topped is not None and topped[0] is overlay:
            return topped[1]
        with self._lock:
            facts = self._made(view, self._tail_of(view.bare).topped(view), ledger)
            self._topped = (overlay, facts)
        return facts

    def _made(self, view: View, tail: _Tail, ledger: Ledger) -> Facts:
        root = self._root_facts(view)
        kept = EngineResidency(ref(view.base), ledger.trees, view.definition, view.count, self._readers)
        return replace(_facts(view, root, tail), is_distant=ledger.is_distant, kept=kept)

    def nearest(self, view: View, name: str, ledger: Ledger) -> Candidates:
        """An index of vectors that is among the facts. Costs as `read_lists`, once for each state."""
        from wormdb.query.sources.vectors import open_nearest

        overlay, number, definition, held = self._nearest.get(name, (None, 0, None, None))
        if held is None or overlay is not view.overlay or number != view.number or definition is not view.definition:
            held = open_nearest(view, name, ledger, held if definition is view.definition else None)
            self._nearest[name] = (view.overlay, view.number, view.definition, held)
        return held

    def reader(self, view: View, index: Index, ledger: Ledger) -> IndexReader:
        """An index that is among the facts, at the state of a view. Costs as `read_index`, once for each state."""
        if isinstance(view.overlay, TopOverlay):
            if view.overlay.attached(view.number):
                top = ledger.index(view, index)
                assert top is not None, "facts name only indexes that can answer"
                return top
            return advance_reader(self.reader(view.bare, index, ledger), view.number, view, index)
        known, overlay, number, held = self._readers.get(index.name, (None, None, 0, None))
        if known is not index and known != index:
            held = None
        is_same = held is not None and overlay is view.overlay
        if held is not None and is_same and number == view.number:
            return held
        if held is not None and is_same and number < view.number and not view.overlay.attached(view.number):
            made: IndexReader | None = advance_reader(held, LogNumber(number), view, index)
        else:
            made = ledger.index(view, index)
        assert made is not None, "facts name only indexes that can answer"
        self._readers[index.name] = (index, view.overlay, view.number, made)
        return made

    def _root_facts(self, view: View) -> _RootFacts:
        if self._root is None:
            self._root = _RootFacts.of(None if view.place is None else view.place.root)
        return self._root

    def _tail_of(self, view: View) -> _Tail:
        if self._tail is None or self._tail.overlay is not view.overlay:
            self._tail = _Tail(view.overlay)
        self._tail.learn(view)
        return self._tail


# --- the root ---


@dataclass(frozen=True, slots=True)
class _RootFacts:
    """What does not change while the root is the same."""

    root: Root | None
    blocks: int
    size: int
    """Bytes of the blocks."""
    columns: _ColumnsOfBlocks
    """Those of the blocks that the root names itself."""
    paged_bytes: int
    """Of blocks that only pages of its list name."""
    frequent: frozenset[str]
    """The columns that those have beside declared ones, as far as the sample tells."""
    sample: tuple[Document, ...]
    fields: tuple[FieldStatistics, ...] = ()
    _texts: dict[tuple[str, int], bool] = field(default_factory=dict)
    _lengths: dict[str, float] = field(default_factory=dict)

    def length(self, path: str) -> float:
        """What the values of a path take as JSON in a document of the sample, on average."""
        if path not in self._lengths:
            self._lengths[path] = _length(path, self.sample)
        return self._lengths[path]

    def may_have_texts(self, path: str, view: View) -> bool:
        """Whether a document of the blocks may have a text at a path, outside of arrays."""
        upgrades = view.definition.upgrades
        key = (path, upgrades.newest)
        if key not in self._texts:
            parts: list[Part] = [] if self.root is None else [*self.root.blocks, *self.root.block_pages]
            self._texts[key] = _may_have_texts(path, parts, upgrades)
        return self._texts[key]

    @classmethod
    def of(cls, root: Root | None) -> _RootFacts:
        if root is None:
            return cls(None, 0, 0, _ColumnsOfBlocks.of((), NO_UPGRADES), 0, frozenset(), ())
        name = f"the root of {root.path}"
        rows = [row for row in decode_sample(root.sample, name=name).rows.values() if row]
        return cls(
            root,
            _blocks([*root.blocks, *root.block_pages]),
            _size([*root.blocks, *root.block_pages]),
            _ColumnsOfBlocks.of(root.blocks, Upgrades.of(root.versions)),
            _size(root.block_pages),
            frozenset(spec.path for spec in frequent_columns(rows)) if root.block_pages else frozenset(),
            sample=tuple(json.decode_document(row, name=name) for row in rows),
            fields=decode_field_statistics(root.statistics),
        )


def _blocks(parts: Iterable[Part]) -> int:
    return sum(1 if isinstance(part, BlockEntry) else part.blocks for part in parts)


def _size(parts: Iterable[Part]) -> int:
    return sum(part.length if isinstance(part, BlockEntry) else part.size for part in parts)


@dataclass(frozen=True, slots=True)
class _ColumnsOfBlocks:
    """Which columns some blocks have that say what documents have now."""

    size: int
    """The bytes of all these blocks."""
    sizes: Mapping[str, int]
    """By path of those that have it as a column."""

    @classmethod
    def of(cls, blocks: Iterable[BlockEntry], upgrades: Upgrades) -> _ColumnsOfBlocks:
        size, sizes = 0, Counter[str]()
        for block in blocks:
            size += block.length
            sizes.update({stats.path: block.length for stats in upgrades.stats(block)})
        return cls(size, sizes)


def _may_have_texts(path: str, parts: Iterable[Part], upgrades: Upgrades) -> bool:
    """Whether documents of blocks may have a text at a path: columns tell; pages that are not read count as yes."""
    for part in parts:
        if not isinstance(part, BlockEntry):
            return True
        stats = next((stats for stats in upgrades.stats(part) if stats.path == path), None)
        if stats is None or stats.others or (stats.values and stats.type in {"string", "json"}):
            return True
    return False


# --- the tail ---


class _Tail:
    """What came after the root; it only ever grows, so what was learned stays."""

    def __init__(self, overlay: Overlay) -> None:
        self.overlay = overlay
        self._done = 0
        self._arrays: dict[Index, list[bool]] = {}
        self._texts: dict[Index, list[bool]] = {}
        self.sample: tuple[Document, ...] = ()
        self._lengths: dict[str, float] = {}
        self._measured: tuple[Document, ...] = ()
        """The sample of which the lengths are: it is full soon, and then they stay."""

    def length(self, path: str) -> float:
        """As `_length` of the sample."""
        if self._measured is not self.sample:
            self._measured, self._lengths = self.sample, {}
        if path not in self._lengths:
            self._lengths[path] = _length(path, self.sample)
        return self._lengths[path]

    def learn(self, view: View) -> None:
        """Look at the entries that are new, or at all of them if there are new indexes."""
        ready = view.definition.indexes.ready
        if any(index not in self._arrays for index in ready):
            self._arrays = {index: [False] * len(index.paths) for index in ready}
            self._texts = {index: [False] * len(index.paths) for index in ready}
            self._done = 0
        if self._done >= view.number:
            return
        for entry in self.overlay.entries(view.number):
            if entry.number > self._done and (ready or len(self.sample) < SAMPLE_ROWS):
                changes = (change for batch in entry.batches for change in batch.changes)
                self._add([change.after for change in changes if change.after is not None])
        self._done = view.number

    def topped(self, view: View) -> _Tail:
        """This one, with what lies on top of the state that it has learned."""
        tail = _Tail(view.overlay)
        tail._arrays = {index: list(seen) for index, seen in self._arrays.items()}
        tail._texts = {index: list(seen) for index, seen in self._texts.items()}
        tail.sample, tail._done = self.sample, self._done
        tail._add([change.after for change in view.top if change.after is not None])
        return tail

    def _add(self, texts: Sequence[bytes]) -> None:
        for text in texts:
            document = json.decode_document(text, name="document")
            if len(self.sample) < SAMPLE_ROWS:
                self.sample = (*self.sample, document)
            for index, seen in self._arrays.items():
                for place, has_array in enumerate(array_fields(index, document)):
                    seen[place] |= has_array
                plain = self._texts[index]
                for place, path in enumerate(index.paths):
                    value = get_direct(document, path)
                    plain[place] |= value is TRAVERSED or type(value) is str

    def arrays(self, index: Index) -> Sequence[bool]:
        """For each field whether a document of the tail has, or had, an array there."""
        return self._arrays[index]

    def texts(self, index: Index) -> Sequence[bool]:
        """For each field whether a document of the tail has, or had, a text there outside of arrays."""
        return self._texts[index]


# --- both ---


def _facts(view: View, root: _RootFacts, tail: _Tail) -> Facts:
    attached = [one.base for one in view.overlay.attached(view.number)]
    parts = [
        part for base in attached if isinstance(base, AttachedBase) for run in base.runs.runs for part in run.parts
    ]
    sample = root.sample or tail.sample
    entries = [part for part in parts if isinstance(part, BlockEntry)]
    columns = _columns(view.definition, root, _ColumnsOfBlocks.of(entries, view.definition.upgrades))
    rows = view.count
    tail_bytes = 0.0 if root.sample else tail.length(WHOLE)
    return Facts(
        rows=rows,
        tail_rows=view.overlay.size,
        blocks=root.blocks + _blocks(parts),
        document_bytes=root.size + _size(parts) or int(tail_bytes * rows),
        column_bytes={
            path: _column_bytes(rows, root.length(path) if root.sample else tail.length(path))
            for path in sorted(columns)
        },
        lacking_bytes={path: lacking for path, lacking in columns.items() if lacking},
        manifest=_manifest(view.definition.model),
        indexes=() if sum(entry.rows for entry in entries) > ATTACHED_ROWS_MAX else _indexes(view, root, tail, parts),
        texts=find_texts(view, is_usable=sum(entry.rows for entry in entries) <= ATTACHED_ROWS_MAX),
        sample=sample,
        fields=_fitting(view, root.fields),
        vectors=_vectors(view),
        version=(0 if root.root is None else root.root.revision << 32) | view.definition.number,
    )


def _columns(definition: Definition, root: _RootFacts, attached: _ColumnsOfBlocks) -> dict[str, int]:
    """The columns that any block has, each with the bytes of the blocks that lack it.

    Blocks on pages that are not read count as having what is declared, and what frequent paths of the sample are.
    """
    known = (root.columns, attached)
    found = {path for columns in known for path in columns.sizes}
    elsewhere: set[str] = set()
    if root.paged_bytes or not found:
        elsewhere = {spec.path for spec in definition.columns}
    if root.paged_bytes:
        elsewhere |= root.frequent
    return {
        path: sum(columns.size - columns.sizes.get(path, 0) for columns in known)
        + (0 if path in elsewhere else root.paged_bytes)
        for path in (found | elsewhere) - {"_id"}
    }


def _fitting(view: View, fields: tuple[FieldStatistics, ...]) -> dict[str, FieldStatistics]:
    if not fields:
        return {}
    from wormdb.engine.forward.analysis import fitting_statistics  # few collections were analyzed

    return fitting_statistics(view, fields)


def _vectors(view: View) -> tuple[VectorFacts, ...]:
    if not view.definition.indexes.has_lists:
        return ()
    from wormdb.query.sources.vectors import find_vector_facts  # few collections have lists

    return find_vector_facts(view)


def _manifest(model: Model | None) -> tuple[str, ...]:
    return () if model is None or not model.manifest.enabled else model.manifest_fields


def _column_bytes(rows: int, length: float) -> int:
    return int(rows * max(_STORED_SHARE * length, 0.125))


def _length(path: str, sample: Sequence[Document]) -> float:
    """What the values of a path, or whole documents, take as JSON in a document of a sample, on average."""
    parsed = parse_path(path) if path else ()
    found = [get_direct(document, parsed) if parsed else document for document in sample]
    return sum(len(json.encode(value)) for value in found if value not in (MISSING, TRAVERSED)) / max(len(sample), 1)


def _indexes(view: View, root: _RootFacts, tail: _Tail, attached: Sequence[Part]) -> tuple[IndexFacts, ...]:
    ready = sorted(view.definition.indexes.ready, key=lambda index: index.name)
    found = []
    for index in ready:
        stored = None if root.root is None else root.root.index(index.name)
        if root.root is not None and (not _is_usable(stored, index) or view.outdates(index)):
            continue
        data = None if stored is None else stored.statistics
        statistics = None if data is None else decode_statistics(data, name="the root")
        arrays = (False,) * len(index.paths) if root.root is None else ()
        if statistics is not None and statistics.arrays:
            arrays = statistics.arrays
        is_unknown = bool(attached) or not arrays
        seen = zip(arrays or (True,) * len(index.paths), tail.arrays(index), strict=True)
        may_have = tuple(is_unknown or before or after for before, after in seen)
        texts = tuple(
            newer or root.may_have_texts(path, view) or _may_have_texts(path, attached, view.definition.upgrades)
            for path, newer in zip(index.fields, tail.texts(index), strict=True)
        )
        found.append(IndexFacts(index, 0 if stored is None else stored.height, statistics, may_have, texts))
    return tuple(found)


def _is_usable(stored: IndexRoot | None, index: Index) -> bool:
    return stored is not None and stored.definition == encode_index(index) and is_whole(stored)


class EngineSource:
    """One view of one ledger. Costs what the view's own reads cost; what is learned of its root is kept."""

    __slots__ = ("_known", "facts", "ledger", "view")
    facts: Facts
    """As `QuerySource`, made when they are first asked for. Raises CorruptionError for a damaged root."""

    def __init__(self, view: View, ledger: Ledger) -> None:
        """No requests."""
        self.view = view
        self.ledger = ledger
        self._known = knowledge_of(view)

    def __getattr__(self, name: str) -> Facts:
        if name != "facts":  # not `cached_property`, which takes a lock: every query comes here
            raise AttributeError(name)
        self.facts = self._known.facts(self.view, self.ledger)
        return self.facts

    def scan(
        self,
        names: Sequence[str],
        *,
        span: Range = ALL_IDS,
        bounds: Mapping[str, Range] | None = None,
        in_order: bool = True,
        rows: int | None = None,
    ) -> Iterator[Portion]:
        """As `QuerySource`; costs as `scan_columns`."""
        return scan_columns(self.view, names, low=span.low, high=span.high, bounds=bounds, in_order=in_order, rows=rows)

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        """As `QuerySource`; costs as `View.get_many`."""
        found = self.view.get_many(keys)
        for key, held in tuple(found.items()):
            if held.document is None:
                del found[key]
        return found

    def entries(self, name: str) -> Entries:
        """As `QuerySource`. If blocks were attached since the root, they are read: 1 GET each."""
        found = self.facts.find_index(name)
        assert found is not None, f"the facts have no index {name}"
        return self._known.reader(self.view, found.index, self.ledger)

    def expect_documents(self) -> None:
        """As `ListSource`. 1 GET for each block whose page map is not kept, if there are few blocks."""
        expect_documents(self.view)

    def texts(self, name: str) -> TextReader | None:
        """As `ListSource`. What lies on top of a state is in no list."""
        if isinstance(self.view.overlay, TopOverlay):
            return None
        held = self.ledger.trees.lists.texts.get(name)
        if held is None or not held.is_of(self.view):
            from wormdb.engine.lists.postings import open_texts  # most collections have none

            held = open_texts(self.view, name, self.ledger.trees.lists)
        return held

    def nearest(self, name: str) -> Candidates:
        """As `NearestSource`. If blocks were attached since the root, they are read: 1 GET each."""
        return self._known.nearest(self.view, name, self.ledger)

    def count_all(self) -> int:
        """As `CountingSource`."""
        return self.view.count
